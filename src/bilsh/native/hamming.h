// Search over packed codes: full distances, the nearest k, all within a radius. Exact, whatever the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "nearest.h"

namespace bilsh {

// A run of bytes of every code, as a C-contiguous matrix with one row per item.
struct Slab {
    const std::uint8_t* data;
    std::size_t bytes;
};

// n codes; each is the concatenation of its rows in the slabs.
struct CodeSet {
    std::vector<Slab> slabs;
    std::size_t n = 0;
    const std::int64_t* ids = nullptr;    // null: the row numbers
    const std::uint8_t* alive = nullptr;  // little bit order; null: all

    std::size_t bytes() const {
        std::size_t sum = 0;
        for (const Slab& slab : slabs) sum += slab.bytes;
        return sum;
    }
    bool is_alive(std::size_t row) const { return !alive || (alive[row / 8] >> (row % 8) & 1); }
    std::int64_t id(std::size_t row) const { return ids ? ids[row] : static_cast<std::int64_t>(row); }
    std::size_t count_alive() const;
};

// About how long a thread takes to compare so many bytes of codes.
inline double scan_nanoseconds(std::size_t n_queries, std::size_t n_rows, std::size_t n_bytes) {
    return 0.05 * static_cast<double>(n_queries) * static_cast<double>(n_rows) * static_cast<double>(n_bytes + 8);
}

// Full codes, one after the other.
struct Queries {
    const std::uint8_t* data;
    std::size_t n;
    std::size_t bytes;

    const std::uint8_t* at(std::size_t query) const { return data + query * bytes; }
};

void hamming_matrix(const Queries& a, const Queries& b, int n_jobs, std::int32_t* out);

// What was found of each query in other sets: `columns` ids and distances, by (distance, id).
struct Before {
    const std::int64_t* ids = nullptr;
    const std::int32_t* distances = nullptr;
    std::size_t columns = 0;

    Hit at(std::size_t query, std::size_t i) const {
        return {distances[query * columns + i], ids[query * columns + i]};
    }
    // Nothing above this can be among the nearest k of query.
    std::int32_t limit(std::size_t query, std::size_t k) const {
        return columns < k ? std::numeric_limits<std::int32_t>::max() : at(query, k - 1).distance;
    }
};

// The nearest of the set and of those before; ids and distances have min(k, count_alive() + before.columns) columns.
void hamming_top_k(const Queries& queries, const CodeSet& set, std::size_t k, int n_jobs, std::int64_t* ids,
                   std::int32_t* distances, const Before& before = {});

struct Matches {
    std::vector<std::int64_t> offsets;  // of each query's first match; one more for the end
    std::vector<std::int64_t> ids;
    std::vector<std::int32_t> distances;
};

Matches hamming_within(const Queries& queries, const CodeSet& set, std::int32_t radius, int n_jobs);

}  // namespace bilsh
