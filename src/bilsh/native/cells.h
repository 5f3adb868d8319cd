// Codes in cells: each cell is a run of rows around a centre, and a query reads only the cells it visits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "hamming.h"
#include "progressive.h"

namespace bilsh {

class Regions;

// Rows [offsets[c], offsets[c + 1]) are cell c; how far a query is from it, its centre says, if the query looks at it.
struct Cells {
    const std::int64_t* offsets;
    const Regions* regions;
    std::size_t bytes, n;        // bytes of a centre
    const std::uint32_t* alive;  // rows of each cell that live; null: all

    std::size_t begin(std::size_t cell) const { return static_cast<std::size_t>(offsets[cell]); }
    std::size_t size(std::size_t cell) const { return static_cast<std::size_t>(offsets[cell + 1] - offsets[cell]); }
    std::size_t living(std::size_t cell) const { return alive ? alive[cell] : size(cell); }
    // How far cells count as being whose centres a query does not look at: farther than any other.
    std::int32_t unseen() const { return static_cast<std::int32_t>(8 * bytes) + 1; }
};

// Which centres a query looks at: those of regions at most `width` farther than the nearest. When it has visited
// enough: at first the nearest cells, until they hold `first` living rows. The k-th distance among those `seeds` of
// them that are nearest by the first slab (and all that are as near) is a bound T. Then it goes on in the order of
// distances while slope * distance + octaves(living rows before the cell + first) is no larger than floor(share * T) +
// slack: the more rows it has seen, the nearer a cell must be.
struct Stop {
    std::size_t first, seeds;
    std::int32_t slope;
    double share;
    std::int32_t slack, width;
};

// 64 times the logarithm of a number to base 2, rounded down and straight between powers of two: all integers, so that
// it is the same everywhere. The number is from 1 to 2^57.
inline std::int64_t octaves(std::uint64_t number) {
    const int power = 63 - __builtin_clzll(number);
    return 64 * std::int64_t{power} + static_cast<std::int64_t>(number << 6 >> power) - 64;
}

// Some bytes of every code: a slab, or a part of it that is as long as all before.
struct Stage {
    const std::uint8_t* data;
    std::size_t stride, bytes, offset;  // the last: where they are in a code
};

// What is read of the rows of visited cells: the first slab of all of them; then, of rows that are still near after the
// bytes before, as many again each time. Where so much of all rows fits into a cache, the second time is `together`
// with the first: what is near by the first alone is fetched in more time than all the rest takes as it comes.
struct Stages {
    Stage first;
    std::vector<Stage> later;
    bool together;

    // Prefixes after which rows are left.
    std::size_t n_prefixes() const { return later.size() - together; }
};

// A cache holds so many bytes of all rows.
inline Stages stages_of(const CodeSet& set, std::size_t cached) {
    Stages stages{{set.slabs[0].data, set.slabs[0].bytes, set.slabs[0].bytes, 0}, {}, false};
    std::size_t offset = set.slabs[0].bytes;
    for (std::size_t s = 1; s < set.slabs.size(); ++s) {
        const Slab& slab = set.slabs[s];
        for (std::size_t at = 0, bytes; at < slab.bytes; at += bytes, offset += bytes) {
            bytes = std::min(slab.bytes - at, offset);
            stages.later.push_back({slab.data + at, slab.bytes, bytes, offset});
        }
    }
    if (!stages.later.empty()) stages.together = set.n <= cached / (stages.first.bytes + stages.later[0].bytes);
    return stages;
}

// How a query went: the bound T, how far the farthest of the first cells was, and the number of all cells.
struct Visit {
    std::int32_t bound, front, cells;
};

// What all queries read: centres and middles of regions, rows of cells, bytes of these in all stages; and how long the
// way to the cells took, in seconds.
struct Reading {
    std::int64_t centres = 0, rows = 0, bytes = 0;
    double ranking = 0;
};

// The k nearest of the rows that each query visits, stage by stage; k is at most the number of living rows, and more
// cells are visited where they hold fewer. What is found depends on the query and the set only, not on n_jobs or other
// queries.
Reading cells_top_k(const Queries& queries, const CodeSet& set, const Stages& stages, const Cells& cells, std::size_t k,
                    const Stop& stop, const Limits& limits, int n_jobs, std::int64_t* ids, std::int32_t* distances,
                    Visit* visits);

// Distances (n, cells) of queries to centres, by the number of the cell; unseen() where a query does not look.
void distances_to_centres(const Queries& queries, const Cells& cells, std::int32_t width, int n_jobs,
                          std::int32_t* out);

// The nearest centre of each code, of equals the first; there is one at least, and centres are as long as codes.
void nearest_centres(const Queries& codes, const Queries& centres, int n_jobs, std::int32_t* out);

// New centres: the majority of each bit in the rows of a cell, ties to zero. Cells without rows keep theirs.
void majority(const Queries& codes, const std::int32_t* cell_of, std::size_t n_cells, int n_jobs,
              std::uint8_t* centres);

}  // namespace bilsh
