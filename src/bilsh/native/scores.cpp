#include "scores.h"

#include <cmath>

#include "kernels.h"
#include "score_tables.h"

namespace bilsh {

inline constexpr std::size_t most_few = 256;  // rows that share the tables of a block

void scores(const Weights& weights, const CodeSet& set, int n_jobs, float* out) {
    const ScoreKernels& kernels = bilsh::kernels().scores;
    n_jobs = threads_for(8.0 * scan_nanoseconds(weights.n, set.n, set.bytes()), n_jobs);
    const std::size_t batch = queries_per_batch(Tables::bytes(set.bytes()));
    std::vector<Tables> tables(std::min(batch, weights.n));
    std::vector<const Tables*> all;
    for (const Tables& each : tables) all.push_back(&each);
    for (std::size_t start = 0; start < weights.n; start += batch) {
        const std::size_t n = std::min(batch, weights.n - start);
        parallel_for(n, n_jobs, [&](std::size_t q, int) { tables[q].build(kernels, weights, start + q, set.bytes()); });
        score_all(kernels, set, all.data(), n, n_jobs,
                  [&](std::size_t query, std::size_t row, std::size_t n_rows, const float* values, int) {
                      std::copy_n(values, n_rows, out + (start + query) * set.n + row);
                  });
    }
}

namespace {

// Scores of some rows by tables that are made for a block of the code when it is looked up, and stay in the first-level
// cache: few rows are soon done with them.
void score_few(const ScoreKernels& kernels, const Weights& weights, std::size_t query, const CodeSet& set,
               const std::int64_t* rows, std::size_t n_rows, float* out) {
    constexpr std::size_t padded = score_block + 4;
    alignas(64) float tables[padded * floats_per_byte] = {};
    float partial[most_few] = {}, total[most_few] = {};
    const std::uint8_t* at[most_few];
    std::size_t byte = 0;  // of the whole code
    const auto close_partial = [&] {
        for (std::size_t i = 0; i < n_rows; ++i) {
            total[i] += partial[i];
            partial[i] = 0.0f;
        }
    };
    for (const Slab& slab : set.slabs) {
        for (std::size_t i = 0; i < n_rows; ++i) at[i] = slab.data + static_cast<std::size_t>(rows[i]) * slab.bytes;
        for (std::size_t j = 0; j < slab.bytes;) {
            const std::size_t n = std::min(score_block - byte % score_block, slab.bytes - j);
            Tables::fill(kernels, weights, query, byte, n, tables);
            byte += n;
            j += n;
            if (j < slab.bytes)
                for (std::size_t i = 0; i < n_rows; ++i) __builtin_prefetch(at[i] + n);
            for (std::size_t i = 0; i < n_rows; i += rows_at_once)
                kernels.look_up(at + i, std::min(rows_at_once, n_rows - i), n, tables, partial + i);
            for (std::size_t i = 0; i < n_rows; ++i) at[i] += n;
            if (byte % score_block == 0) close_partial();
        }
    }
    close_partial();
    for (std::size_t i = 0; i < n_rows; ++i) out[i] = total[i] + weights.bias[query];
}

}  // namespace

void score_rows(const Weights& weights, const CodeSet& set, const std::int64_t* rows, std::size_t per_query, int n_jobs,
                float* out) {
    const ScoreKernels& kernels = bilsh::kernels().scores;
    n_jobs = threads_for(8.0 * scan_nanoseconds(weights.n, per_query + 20, set.bytes()), n_jobs);
    const std::size_t parts = ceil_div(per_query, most_few);
    parallel_for(weights.n * parts, n_jobs, [&](std::size_t task, int) {
        const std::size_t query = task / parts, first = task % parts * most_few;
        const std::size_t at = query * per_query + first;
        score_few(kernels, weights, query, set, rows + at, std::min(most_few, per_query - first), out + at);
    });
}

void weights_of_turns(const Turns& turns, const TurnTables& tables, float* weights, float* bias) {
    constexpr std::size_t lanes = 8;  // sums side by side, in an order that is the same everywhere
    for (std::size_t query = 0; query < turns.n; ++query) {
        const float* values = turns.data + query * turns.bits;
        float* out = weights + query * turns.bits;
        double sums[lanes] = {};
        const auto look_up = [&](std::size_t r, double& sum) {
            const auto turned = static_cast<std::size_t>(std::lrint(values[r] * static_cast<float>(tables.bins)));
            const float* entry = tables.data + 2 * (tables.bins * tables.table[r] + (turned & (tables.bins - 1)));
            out[r] = entry[0];
            sum += static_cast<double>(entry[1]);
        };
        std::size_t r = 0;
        for (; r + lanes <= turns.bits; r += lanes)
            for (std::size_t lane = 0; lane < lanes; ++lane) look_up(r + lane, sums[lane]);
        for (; r < turns.bits; ++r) look_up(r, sums[0]);
        double sum = 0.0;
        for (const double part : sums) sum += part;
        bias[query] = static_cast<float>(sum);
    }
}

}  // namespace bilsh
