// What a thread that reads cells holds meanwhile: plans of queries, their distances, and rows that go on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace bilsh {

inline constexpr std::int32_t farthest = std::numeric_limits<std::int32_t>::max();
// Distances to rows that are kept at a time, unless one query has more.
inline constexpr std::size_t near_entries = std::size_t{1} << 20;

// A run of rows: those of one cell, and where their distances end among those of the query.
struct Run {
    std::uint32_t cell, begin, end;
};

// A query, its runs, and where its distances over the first slab stand. The first `met` runs are there already.
struct Plan {
    std::size_t query, first_run, met, end_run, at, size;
};

// A query at a cell, and where the distances of the rows go.
struct Visitor {
    std::size_t query, at;
};

// Rows of a query that go on, with their distances so far.
struct Picked {
    std::size_t query = 0, n = 0;
    std::vector<std::uint32_t> rows;
    std::vector<std::int32_t> sums;

    void make_room(std::size_t size) {
        if (rows.size() >= size) return;
        rows.resize(size);
        sums.resize(size);
    }
};

// What a thread works with, kept between calls: to have the pages cleared takes as long as some queries.
struct Room {
    std::vector<Plan> plans;              // of queries that wait
    std::vector<Run> runs;                // theirs
    std::vector<std::int32_t> far, near;  // distances to centres, and to rows of chosen cells
    std::vector<std::uint32_t> read;      // the stamp of the query that read each cell first
    std::vector<std::uint32_t> cell_numbers, order, numbers;
    Picked picked[2];
    std::vector<std::size_t> starts;
    std::vector<Visitor> visitors;
    std::vector<std::uint8_t> heads;
};

inline Room& kept_room() {
    thread_local Room room;
    if (room.near.capacity() > 4 * near_entries) room = Room();
    return room;
}

}  // namespace bilsh
