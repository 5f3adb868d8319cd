// The smallest estimates of transform codes in the cells near a query.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "transform_scan.h"

namespace bilsh {
namespace {

// Cells in the order of their closeness, of equals the first, while those before hold no more than the budget.
std::vector<std::size_t> nearest_cells(const PlaceCells& cells, std::size_t query) {
    using Entry = std::pair<float, std::size_t>;
    const float* closeness = cells.closeness + query * cells.n;
    const auto farther = [](const Entry& a, const Entry& b) {
        return a.first != b.first ? a.first < b.first : a.second > b.second;
    };
    thread_local std::vector<Entry> heap;
    heap.clear();
    for (std::size_t c = 0; c < cells.n; ++c)
        if (cells.living[c] > 0) heap.emplace_back(closeness[c], c);
    std::make_heap(heap.begin(), heap.end(), farther);
    std::vector<std::size_t> chosen;
    for (std::int64_t before = 0; !heap.empty() && before <= cells.budget; heap.pop_back()) {
        std::pop_heap(heap.begin(), heap.end(), farther);
        chosen.push_back(heap.back().second);
        before += cells.living[chosen.back()];
    }
    return chosen;
}

}  // namespace

std::size_t TransformPlan::visit(const float* q, std::size_t n, const CodeSet& set, const PlaceCells& cells,
                                 std::size_t k, std::int64_t* ids, float* estimates, std::int32_t* visited,
                                 std::atomic<bool>* nonfinite, int n_jobs) const {
    using Range = TransformScan::Range;
    std::fill_n(ids, n * k, std::int64_t{-1});
    std::fill_n(estimates, n * k, std::numeric_limits<float>::infinity());
    if (k == 0) return 0;
    std::size_t rows = 0;
    const std::size_t batch = queries_per_batch();
    for (std::size_t start = 0; start < n; start += batch) {
        const std::size_t some = std::min(batch, n - start);
        std::vector<std::vector<Range>> ranges(some);
        std::vector<std::vector<std::size_t>> askers(n_centres());  // queries that look at rows of each centre
        std::vector<char> weighed(some * n_centres(), 0);
        const auto range = [&](std::size_t cell) {
            return Range{static_cast<std::size_t>(cells.offsets[cell]),
                         static_cast<std::size_t>(cells.offsets[cell + 1])};
        };
        parallel_for(some, n_jobs, [&](std::size_t i, int) {
            for (const std::size_t cell : nearest_cells(cells, start + i)) ranges[i].push_back(range(cell));
        });
        for (std::size_t i = 0; i < some; ++i) {
            visited[start + i] = static_cast<std::int32_t>(ranges[i].size());
            for (const Range& each : ranges[i]) {
                rows += each.end - each.begin;
                // All rows of a cell are of one centre, unless the file is not what it should be.
                const Header header{set.slabs[0].data + each.begin * set.slabs[0].bytes};
                char& done = weighed[i * n_centres() + header.centre(n_centres())];
                if (!done) askers[header.centre(n_centres())].push_back(i);
                done = 1;
            }
        }
        const float* asked = q + start * d_;
        QueryWeights made = no_weights(some);
        parallel_for(n_centres(), n_jobs, [&](std::size_t c, int) {
            if (!askers[c].empty()) weigh(asked, c, askers[c], made, nonfinite, 1);
        });
        TransformScan scan(*this, set, made, k, n_jobs);
        scan.make_room();
        parallel_for(some, n_jobs, [&](std::size_t i, int) {
            const auto see_to = [&](std::size_t c) {
                if (!weighed[i * n_centres() + c]) weigh(asked, c, {i}, made, nonfinite, 1);
            };
            std::size_t at = (start + i) * k;
            Nearest best = scan.visit(i, ranges[i], see_to);
            for (const Hit& hit : best.sorted()) {
                ids[at] = hit.id;
                estimates[at++] = -score_of(hit.distance);
            }
        });
        if (nonfinite->load()) return rows;
    }
    return rows;
}

}  // namespace bilsh
