// How a scan is cut: blocks of rows that stay in cache, and tasks by rows and by queries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "threads.h"

namespace bilsh {

inline constexpr std::size_t group = 4;              // queries that share a pass over a block of rows
inline constexpr std::size_t block_bytes = 1 << 19;  // rows of a block stay in the second-level cache for all queries

// The first entry at a multiple of so many bytes; the vector has room for as many more.
template <std::size_t Bytes, class T>
T* aligned(std::vector<T>& values) {
    return reinterpret_cast<T*>((reinterpret_cast<std::uintptr_t>(values.data()) + Bytes - 1) / Bytes * Bytes);
}
// The first entry that begins a cache line.
template <class T>
T* align_64(std::vector<T>& values) {
    return aligned<64>(values);
}

// More room where it is wanted; what is there may stay as it is.
template <class T>
void enlarge(std::vector<T>& room, std::size_t n) {
    if (room.size() < n) room.resize(2 * n);
}

inline std::size_t ceil_div(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

inline std::size_t rows_per_block(std::size_t bytes, std::size_t most = 1024) {
    return std::clamp<std::size_t>(block_bytes / std::max<std::size_t>(bytes, 1), 64, most) / 32 * 32;
}

// Packing reads many rows at once, which memory does not like: they come to the cache as they lie before. (So do items
// whose columns are read.)
inline void touch(const std::uint8_t* data, std::size_t n) {
    for (std::size_t i = 0; i < n; i += 64) static_cast<void>(*static_cast<const volatile std::uint8_t*>(data + i));
}

// Work cut by rows and by queries, so that one query on many rows and many queries on few rows both fill the threads.
struct Grid {
    std::size_t n_rows, n_queries, rows, queries, row_parts, query_parts;

    // Shares of rows are whole blocks; shares of queries begin at multiples of `unit`.
    Grid(std::size_t n_rows_, std::size_t block, std::size_t n_queries_, std::size_t unit, int n_jobs)
        : n_rows(n_rows_), n_queries(n_queries_), rows(n_rows_), queries(n_queries_) {
        const std::size_t wanted = n_jobs > 1 ? 8 * static_cast<std::size_t>(n_jobs) : 1;
        rows = std::max<std::size_t>(ceil_div(ceil_div(n_rows, block), wanted), 1) * block;
        row_parts = ceil_div(n_rows, rows);
        const std::size_t cuts = std::max<std::size_t>(ceil_div(wanted, std::max<std::size_t>(row_parts, 1)), 1);
        queries = std::max<std::size_t>(ceil_div(ceil_div(n_queries, unit), cuts), 1) * unit;
        query_parts = ceil_div(n_queries, queries);
    }

    // Cut by queries alone, once for each thread.
    static Grid by_queries(std::size_t n_rows, std::size_t n_queries, std::size_t unit, int n_jobs) {
        Grid grid(n_rows, std::max<std::size_t>(n_rows, 1), n_queries, unit, 1);
        grid.queries = ceil_div(ceil_div(n_queries, unit), static_cast<std::size_t>(n_jobs)) * unit;
        grid.query_parts = ceil_div(n_queries, grid.queries);
        return grid;
    }

    template <class Task>  // task(row, row_end, query, query_end, worker)
    void run(int n_jobs, const Task& task) const {
        parallel_for(row_parts * query_parts, n_jobs, [&](std::size_t index, int worker) {
            const std::size_t row = index / query_parts * rows, query = index % query_parts * queries;
            task(row, std::min(row + rows, n_rows), query, std::min(query + queries, n_queries), worker);
        });
    }
};

}  // namespace bilsh
