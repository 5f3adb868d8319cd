// Nearest codes by prefixes: a short slab of every code, longer ones of those that can still be among the nearest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hamming.h"

namespace bilsh {

// limits(s, T): the largest distance over slabs 0..s with which an item goes on when the k-th best full distance
// known is T; T from 0 to columns - 1.
struct Limits {
    const std::int32_t* data;
    std::size_t columns;

    std::int32_t at(std::size_t stage, std::int32_t distance) const {
        const std::size_t column = static_cast<std::size_t>(distance);
        return data[stage * columns + (column < columns ? column : columns - 1)];
    }
};

// What was read, per slab, summed over the queries.
struct Effort {
    std::vector<std::int64_t> survivors;  // (query, item) pairs that reached the slab
    std::vector<std::int64_t> bytes;      // bytes compared in it, those of the seeds and of whole dense blocks included
    std::vector<double> seconds;

    explicit Effort(std::size_t stages) : survivors(stages), bytes(stages), seconds(stages) {}
};

// ids and distances have min(k, count_alive()) columns. The answer depends on the arguments only, not on n_jobs.
Effort progressive_top_k(const Queries& queries, const CodeSet& set, std::size_t k, const Limits& limits,
                         std::size_t seeds, int n_jobs, std::int64_t* ids, std::int32_t* distances);

}  // namespace bilsh
