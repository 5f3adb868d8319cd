// The smallest estimates of all transform codes.
#include "transform_scan.h"

#include <algorithm>
#include <vector>

namespace bilsh {

std::size_t TransformPlan::queries_per_batch() const {
    const std::size_t bytes = n_centres() * ((bits() + weight_padding) * sizeof(float) + Digits::bytes(bytes_));
    return std::clamp<std::size_t>((std::size_t{1} << 26) / bytes, 1, 1024);
}

void TransformPlan::top_k(const float* q, std::size_t n, const CodeSet& set, std::size_t k, std::int64_t* ids,
                          float* estimates, std::atomic<bool>* nonfinite, int n_jobs) const {
    k = std::min(k, set.count_alive());
    if (k == 0) return;
    const int scanners = threads_for(2.0 * scan_nanoseconds(n, set.n, set.bytes()), n_jobs);
    const std::size_t batch = queries_per_batch();
    std::size_t at = 0;
    for (std::size_t start = 0; start < n; start += batch) {
        const std::size_t some = std::min(batch, n - start);
        const QueryWeights made = weights(q + start * d_, some, nonfinite, n_jobs);
        if (nonfinite->load()) return;
        TransformScan scan(*this, set, made, k, scanners);
        for (Nearest& best : scan.run())
            for (const Hit& hit : best.sorted()) {
                ids[at] = hit.id;
                estimates[at++] = -score_of(hit.distance);
            }
    }
}

void TransformPlan::rows(const float* q, std::size_t n, const CodeSet& set, const std::int64_t* rows,
                         std::size_t per_query, float* estimates, std::atomic<bool>* nonfinite, int n_jobs) const {
    const std::size_t batch = queries_per_batch();
    for (std::size_t start = 0; start < n; start += batch) {
        const std::size_t some = std::min(batch, n - start);
        const QueryWeights made = weights(q + start * d_, some, nonfinite, n_jobs);
        if (nonfinite->load()) return;
        const TransformScan scan(*this, set, made, 1, n_jobs);
        parallel_for(some, n_jobs, [&](std::size_t i, int) {
            for (std::size_t j = (start + i) * per_query; j < (start + i + 1) * per_query; ++j)
                estimates[j] = scan.estimate(i, static_cast<std::size_t>(rows[j]));
        });
    }
}

}  // namespace bilsh
