// What a first look by integers leaves to be told apart by real numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "hamming.h"
#include "kernels.h"
#include "nearest.h"
#include "threads.h"

namespace bilsh {

// The rows that may be among the k smallest by integers that stand for real keys: two of them that differ by more than
// `margin` are in the order of their keys.
struct Candidates {
    Nearest best;
    std::int32_t margin = 0;
    std::size_t at_most = 0;
    bool too_many = false;
    std::vector<Hit> rows;

    std::int32_t limit() const {
        if (too_many) return std::numeric_limits<std::int32_t>::min();
        return best.full() ? best.worst() + margin : std::numeric_limits<std::int32_t>::max();
    }
    void push(const Hit& hit) {
        best.push(hit);
        rows.push_back(hit);
        if (rows.size() >= at_most) prune();
    }
    void prune() {
        const std::int32_t last = limit();
        rows.erase(std::remove_if(rows.begin(), rows.end(), [&](const Hit& hit) { return hit.distance > last; }),
                   rows.end());
        too_many = 2 * rows.size() >= at_most;  // the integers do not tell rows apart
    }
    // Rows row .. row + n of a set by their integers; `chosen` has room for n.
    void push_rows(const Kernels& kernels, const CodeSet& set, std::size_t row, std::size_t n,
                   const std::int32_t* integers, std::uint32_t* chosen) {
        const std::size_t found = kernels.hamming.select(integers, n, limit(), chosen);
        for (std::size_t i = 0; i < found; ++i) {
            const std::size_t r = chosen[i];
            if (integers[r] <= limit() && set.is_alive(row + r))
                push({integers[r], static_cast<std::int64_t>(row + r)});
        }
    }
};

// Candidates of some queries, as every worker finds them.
class CandidateSets {
public:
    template <class Margin>  // margin(query)
    CandidateSets(const std::vector<std::size_t>& queries, std::size_t k, std::size_t n_rows, int n_jobs,
                  const Margin& margin)
        : queries_(queries), n_jobs_(n_jobs) {
        Candidates none;
        none.best = Nearest(k);
        none.at_most = std::max<std::size_t>(n_rows / 4, 8 * k);
        sets_.assign(static_cast<std::size_t>(n_jobs) * queries.size(), none);
        for (std::size_t i = 0; i < sets_.size(); ++i) sets_[i].margin = margin(queries[i % queries.size()]);
    }

    // Those of all queries.
    Candidates* of(int worker) { return sets_.data() + static_cast<std::size_t>(worker) * queries_.size(); }

    // Calls use(query, rows) with all candidates of each query; queries that have too many go to `rest`.
    template <class Use>
    void tell_apart(std::vector<std::size_t>& rest, const Use& use) {
        std::vector<char> again(queries_.size());
        parallel_for(queries_.size(), n_jobs_, [&](std::size_t i, int) {
            if (join(i))
                use(queries_[i], sets_[i].rows);
            else
                again[i] = 1;
        });
        for (std::size_t i = 0; i < queries_.size(); ++i)
            if (again[i]) rest.push_back(queries_[i]);
    }

private:
    bool join(std::size_t i) {
        Candidates& all = sets_[i];
        if (all.too_many) return false;
        for (std::size_t other = i + queries_.size(); other < sets_.size(); other += queries_.size()) {
            const Candidates& part = sets_[other];
            if (part.too_many) return false;
            all.best.push_all(part.best);
            all.rows.insert(all.rows.end(), part.rows.begin(), part.rows.end());
        }
        all.prune();
        return true;
    }

    const std::vector<std::size_t>& queries_;
    const int n_jobs_;
    std::vector<Candidates> sets_;
};

// The k smallest that workers found for each of some queries, joined.
inline void join_nearest(const std::vector<std::vector<Nearest>>& by_worker, const std::vector<std::size_t>& queries,
                         std::vector<Nearest>& found) {
    for (std::size_t i = 0; i < queries.size(); ++i)
        for (const std::vector<Nearest>& part : by_worker) found[queries[i]].push_all(part[i]);
}

}  // namespace bilsh
