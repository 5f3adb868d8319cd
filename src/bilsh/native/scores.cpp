#include "scores.h"

#include "kernels.h"
#include "score_tables.h"

namespace bilsh {

void scores(const Weights& weights, const CodeSet& set, int n_jobs, float* out) {
    const ScoreKernels& kernels = bilsh::kernels().scores;
    n_jobs = threads_for(8.0 * scan_nanoseconds(weights.n, set.n, set.bytes()), n_jobs);
    const std::size_t batch = queries_per_batch(Tables::bytes(set.bytes()));
    std::vector<Tables> tables(std::min(batch, weights.n));
    std::vector<const Tables*> all;
    for (const Tables& each : tables) all.push_back(&each);
    for (std::size_t start = 0; start < weights.n; start += batch) {
        const std::size_t n = std::min(batch, weights.n - start);
        parallel_for(n, n_jobs, [&](std::size_t q, int) { tables[q].build(weights, start + q, set.bytes()); });
        score_all(kernels, set, all.data(), n, n_jobs,
                  [&](std::size_t query, std::size_t row, std::size_t n_rows, const float* values, int) {
                      std::copy_n(values, n_rows, out + (start + query) * set.n + row);
                  });
    }
}

void score_rows(const Weights& weights, const CodeSet& set, const std::int64_t* rows, std::size_t per_query, int n_jobs,
                float* out) {
    if (per_query == 0) return;
    const ScoreKernels& kernels = bilsh::kernels().scores;
    n_jobs = threads_for(8.0 * scan_nanoseconds(weights.n, per_query + 20, set.bytes()), n_jobs);
    std::vector<Tables> tables(static_cast<std::size_t>(n_jobs));
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

}  // namespace bilsh
