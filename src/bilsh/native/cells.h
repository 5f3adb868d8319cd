// Codes in cells: each cell is a run of rows around a centre, and a query reads only the cells it visits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hamming.h"
#include "progressive.h"

namespace bilsh {

// Rows [offsets[c], offsets[c + 1]) are cell c; far[q * n + c] says how far query q is from it, by any measure.
struct Cells {
    const std::int64_t* offsets;
    const std::int32_t* far;
    std::size_t n;

    std::size_t begin(std::size_t cell) const { return static_cast<std::size_t>(offsets[cell]); }
    std::size_t end(std::size_t cell) const { return static_cast<std::size_t>(offsets[cell + 1]); }
};

// When a query has visited enough: at first the nearest cells, until they hold `first` living rows, which gives a bound
// T on the k-th distance; then all cells no farther than floor(share * T) + slack.
struct Stop {
    std::size_t first;
    double share;
    std::int32_t slack;
};

// How a query went: the bound T, how far the farthest of the first cells was, and the number of all cells.
struct Visit {
    std::int32_t bound, front, cells;
};

// The k nearest of the rows that each query visits, by prefixes; k is at most the number of living rows, and more cells
// are visited where they hold fewer. What is found depends on the query and the set only, not on n_jobs or other
// queries.
Effort cells_top_k(const Queries& queries, const CodeSet& set, const Cells& cells, std::size_t k, const Stop& stop,
                   const Limits& limits, int n_jobs, std::int64_t* ids, std::int32_t* distances, Visit* visits);

// New centres: the majority of each bit in the rows of a cell, ties to zero. Cells without rows keep theirs.
void majority(const Queries& codes, const std::int32_t* cell_of, std::size_t n_cells, int n_jobs,
              std::uint8_t* centres);

}  // namespace bilsh
