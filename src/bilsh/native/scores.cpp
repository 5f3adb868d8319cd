#include "scores.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "blocks.h"
#include "kernels.h"
#include "nearest.h"
#include "threads.h"

namespace bilsh {

namespace {

constexpr std::size_t rows_at_once = 64;  // rows that share the tables while they are in the first-level cache

// Look-up tables of one query: 16 sums for each half byte, padded with zeros to whole words.
class Tables {
  public:
    void build(const Weights& weights, std::size_t query, std::size_t n_bytes) {
        bias_ = weights.bias[query];
        values_.resize((n_bytes + 4) * floats_per_byte);
        const float* row = weights.data + query * weights.bits;
        for (std::size_t half = 0; half < 2 * n_bytes; ++half) {
            float w[4];
            for (std::size_t b = 0; b < 4; ++b) w[b] = 4 * half + b < weights.bits ? row[4 * half + b] : 0.0f;
            for (unsigned pattern = 0; pattern < 16; ++pattern) {
                const auto term = [&](unsigned b) { return pattern >> b & 1 ? w[b] : 0.0f; };
                values_[16 * half + pattern] = (term(0) + term(1)) + (term(2) + term(3));
            }
        }
    }
    const float* at(std::size_t byte) const { return values_.data() + byte * floats_per_byte; }
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
std::int32_t key_of(float score) {
    score += 0.0f;  // -0 becomes +0
    std::int32_t bits;
    std::memcpy(&bits, &score, sizeof bits);
    return bits < 0 ? bits & 0x7fffffff : ~bits;
}

float score_of(std::int32_t key) {
    const std::int32_t bits = key < 0 ? ~key : key | std::numeric_limits<std::int32_t>::min();
    float score;
    std::memcpy(&score, &bits, sizeof score);
    return score;
}

// Calls use(query, first row, number of rows, scores, worker) for all rows, a few at a time; tables of a batch of queries are
// held to about 64 MB.
template <class Use>
void score_all(const Weights& weights, const CodeSet& set, int n_jobs, const Use& use) {
    const ScoreKernels& kernels = bilsh::kernels().scores;
    const std::size_t n_bytes = set.bytes(), block = rows_per_block(n_bytes);
    const std::size_t table_bytes = std::max<std::size_t>(n_bytes, 1) * floats_per_byte * sizeof(float);
    const std::size_t batch = std::clamp<std::size_t>((std::size_t{1} << 26) / table_bytes, 1, 1024);
    std::vector<Tables> tables(std::min(batch, weights.n));
    for (std::size_t start = 0; start < weights.n; start += batch) {
        const std::size_t n_queries = std::min(batch, weights.n - start);
        parallel_for(n_queries, n_jobs, [&](std::size_t q, int) { tables[q].build(weights, start + q, n_bytes); });
        Grid(set.n, block, n_queries, group, n_jobs)
            .run(n_jobs, [&](std::size_t row, std::size_t row_end, std::size_t query, std::size_t query_end, int worker) {
                float out[rows_at_once];
                for (; row < row_end; row += block) {
                    const std::size_t block_end = std::min(row + block, row_end);
                    for (std::size_t q = query; q < query_end; ++q) {
                        poll();
                        for (std::size_t first = row; first < block_end; first += rows_at_once) {
                            const std::size_t n_rows = std::min(rows_at_once, block_end - first);
                            score(kernels, set, tables[q], n_rows, [&](std::size_t i) { return first + i; }, out);
                            use(start + q, first, n_rows, out, worker);
                        }
                    }
                }
            });
    }
}

}  // namespace

void scores(const Weights& weights, const CodeSet& set, int n_jobs, float* out) {
    score_all(weights, set, n_jobs,
              [&](std::size_t query, std::size_t row, std::size_t n_rows, const float* values, int) {
                  std::copy_n(values, n_rows, out + query * set.n + row);
              });
}

void score_rows(const Weights& weights, const CodeSet& set, const std::int64_t* rows, std::size_t per_query, int n_jobs,
                float* out) {
    if (per_query == 0) return;
    const ScoreKernels& kernels = bilsh::kernels().scores;
    std::vector<Tables> tables(static_cast<std::size_t>(std::max(n_jobs, 1)));
    parallel_for(weights.n, n_jobs, [&](std::size_t query, int worker) {
        Tables& own = tables[static_cast<std::size_t>(worker)];
        own.build(weights, query, set.bytes());
        for (std::size_t i = 0; i < per_query; i += rows_at_once) {
            if (i % 1024 == 0) poll();
            const std::int64_t* asked = rows + query * per_query + i;
            score(
                kernels, set, own, std::min(rows_at_once, per_query - i),
                [&](std::size_t r) { return static_cast<std::size_t>(asked[r]); }, out + query * per_query + i);
        }
    });
}

void score_top_k(const Weights& weights, const CodeSet& set, std::size_t k, int n_jobs, std::int64_t* ids, float* out) {
    k = std::min(k, set.count_alive());
    if (k == 0) return;
    const HammingKernels& kernels = bilsh::kernels().hamming;
    std::vector<std::vector<Nearest>> found(static_cast<std::size_t>(std::max(n_jobs, 1)),
                                            std::vector<Nearest>(weights.n, Nearest(k)));
    score_all(weights, set, n_jobs,
              [&](std::size_t query, std::size_t row, std::size_t n_rows, const float* values, int worker) {
                  std::int32_t keys[rows_at_once];
                  std::uint32_t chosen[rows_at_once];
                  for (std::size_t i = 0; i < n_rows; ++i) keys[i] = key_of(values[i]);
                  Nearest& best = found[static_cast<std::size_t>(worker)][query];
                  const std::int64_t first_id =
                      set.ids ? std::numeric_limits<std::int64_t>::min() : static_cast<std::int64_t>(row);
                  const std::size_t n = kernels.select(keys, n_rows, best.limit(first_id), chosen);
                  for (std::size_t i = 0; i < n; ++i)
                      if (set.is_alive(row + chosen[i])) best.push({keys[chosen[i]], set.id(row + chosen[i])});
              });
    for (std::size_t query = 0; query < weights.n; ++query) {
        Nearest& best = found[0][query];
        for (std::size_t worker = 1; worker < found.size(); ++worker) best.push_all(found[worker][query]);
        std::size_t at = query * k;
        for (const Hit& hit : best.sorted()) {
            ids[at] = hit.id;
            out[at++] = score_of(hit.distance);
        }
    }
}

}  // namespace bilsh
