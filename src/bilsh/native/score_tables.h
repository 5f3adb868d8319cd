// Scores by look-ups, in the order of additions that scores.h fixes.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "blocks.h"
#include "score_kernels.h"
#include "scores.h"

namespace bilsh {

inline constexpr std::size_t rows_at_once = 64;  // rows that share the tables while they are in the first-level cache

// Look-up tables of one query: 16 sums for each half byte, padded with zeros to whole words.
class Tables {
public:
    void build(const ScoreKernels& kernels, const Weights& weights, std::size_t query, std::size_t n_bytes) {
        bias_ = weights.bias[query];
        values_.resize((n_bytes + 4) * floats_per_byte);
        fill(kernels, weights, query, 0, n_bytes, values_.data());
    }
    // Those of some bytes of the code.
    static void fill(const ScoreKernels& kernels, const Weights& weights, std::size_t query, std::size_t byte,
                     std::size_t n_bytes, float* values) {
        const float* row = weights.data + query * weights.bits + 8 * byte;
        const std::size_t bits = weights.bits - std::min(weights.bits, 8 * byte), halves = 2 * n_bytes;
        const std::size_t whole = std::min(halves, bits / 4);
        kernels.tables(row, whole, values);
        for (std::size_t half = whole; half < halves; ++half) {
            float w[4];
            for (std::size_t b = 0; b < 4; ++b) w[b] = 4 * half + b < bits ? row[4 * half + b] : 0.0f;
            kernels.tables(w, 1, values + 16 * half);
        }
    }
    const float* at(std::size_t byte) const { return values_.data() + byte * floats_per_byte; }
    static std::size_t bytes(std::size_t n_bytes) { return n_bytes * floats_per_byte * sizeof(float); }
    float bias() const { return bias_; }

private:
    float bias_ = 0.0f;
    std::vector<float> values_;
};

// Scores of up to rows_at_once rows; row(i) is the i-th row's number.
template <class Row>
void score(const ScoreKernels& kernels, const CodeSet& set, const Tables& tables, std::size_t n_rows, const Row& row,
           float* out) {
    float partial[rows_at_once] = {}, total[rows_at_once] = {};
    const std::uint8_t* at[rows_at_once];
    std::size_t byte = 0;  // of the whole code
    const auto close_partial = [&] {
        for (std::size_t i = 0; i < n_rows; ++i) {
            total[i] += partial[i];
            partial[i] = 0.0f;
        }
    };
    for (const Slab& slab : set.slabs) {
        for (std::size_t i = 0; i < n_rows; ++i) at[i] = slab.data + row(i) * slab.bytes;
        for (std::size_t j = 0; j < slab.bytes;) {
            const std::size_t n = std::min(score_block - byte % score_block, slab.bytes - j);
            kernels.look_up(at, n_rows, n, tables.at(byte), partial);
            for (std::size_t i = 0; i < n_rows; ++i) at[i] += n;
            byte += n;
            j += n;
            if (byte % score_block == 0) close_partial();
        }
    }
    close_partial();
    for (std::size_t i = 0; i < n_rows; ++i) out[i] = total[i] + tables.bias();
}

// An int32 that grows as the score falls, so that one selection serves distances and scores; and back.
inline std::int32_t key_of(float score) {
    score += 0.0f;  // -0 becomes +0
    std::int32_t bits;
    std::memcpy(&bits, &score, sizeof bits);
    return bits < 0 ? bits & 0x7fffffff : ~bits;
}

inline float score_of(std::int32_t key) {
    const std::int32_t bits = key < 0 ? ~key : key | std::numeric_limits<std::int32_t>::min();
    float score;
    std::memcpy(&score, &bits, sizeof score);
    return score;
}

// Queries whose tables, of so many bytes each, take about 64 MB together.
inline std::size_t queries_per_batch(std::size_t table_bytes) {
    return std::clamp<std::size_t>((std::size_t{1} << 26) / std::max<std::size_t>(table_bytes, 1), 1, 1024);
}

// Calls use(query, first row, number of rows, scores, worker) for all rows, a few at a time.
template <class Use>
void score_all(const ScoreKernels& kernels, const CodeSet& set, const Tables* const* tables, std::size_t n_queries,
               int n_jobs, const Use& use) {
    const std::size_t block = rows_per_block(set.bytes());
    Grid(set.n, block, n_queries, group, n_jobs)
        .run(n_jobs, [&](std::size_t row, std::size_t row_end, std::size_t query, std::size_t query_end, int worker) {
            float out[rows_at_once];
            for (; row < row_end; row += block) {
                const std::size_t block_end = std::min(row + block, row_end);
                for (std::size_t q = query; q < query_end; ++q) {
                    poll();
                    for (std::size_t first = row; first < block_end; first += rows_at_once) {
                        const std::size_t n_rows = std::min(rows_at_once, block_end - first);
                        score(kernels, set, *tables[q], n_rows, [&](std::size_t i) { return first + i; }, out);
                        use(q, first, n_rows, out, worker);
                    }
                }
            }
        });
}

}  // namespace bilsh
