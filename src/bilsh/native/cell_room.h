// What a thread that reads cells holds meanwhile: a few queries on their way, each with its cells and rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "blocks.h"
#include "cell_kernels.h"
#include "cells.h"
#include "regions.h"

namespace bilsh {

inline constexpr std::int32_t farthest = std::numeric_limits<std::int32_t>::max();

// Rows of a query with their distances so far.
struct Picked {
    std::size_t n = 0;
    std::vector<std::uint32_t> rows;
    std::vector<std::int32_t> sums;

    void make_room(std::size_t more) {
        if (rows.size() >= n + more) return;
        rows.resize(2 * (n + more));
        sums.resize(2 * (n + more));
    }
    // There is room for it.
    void put(std::uint32_t row, std::int32_t sum) {
        rows[n] = row;
        sums[n++] = sum;
    }
    // Only those within a limit stay.
    void keep(std::int32_t limit, const CellKernels& kernels) {
        make_room(few);
        n = kernels.keep(rows.data(), sums.data(), n, limit);
    }
    void add(const Picked& more) {
        make_room(more.n + few);
        std::copy_n(more.rows.data(), more.n, rows.data() + n);
        std::copy_n(more.sums.data(), more.n, sums.data() + n);
        n += more.n;
    }
};

// The k nearest rows of a query so far, and all that are as near as the farthest of them.
class BestRows {
public:
    void begin(std::size_t k, std::int32_t most) {
        k_ = k;
        most_ = most;
        worst_ = farthest;
        rows_.n = 0;
    }
    void add(const Picked& counted, const CellKernels& kernels) {
        if (counted.n == 0) return;
        rows_.add(counted);
        if (rows_.n < k_) return;
        worst_ = kernels.smallest_within(rows_.sums.data(), rows_.n, k_, std::min(worst_, most_));
        rows_.keep(worst_, kernels);
    }
    bool full() const { return rows_.n >= k_; }
    std::int32_t worst() const { return worst_; }  // farthest where there are fewer than k
    const Picked& rows() const { return rows_; }

private:
    std::size_t k_ = 0;
    std::int32_t most_ = 0, worst_ = farthest;
    Picked rows_;
};

// Distances of a query to centres, and whose they are; there is room for all.
struct Centres {
    std::int32_t* far;
    std::uint32_t* cells;
    std::size_t n;
};

// A query on its way, and what its next step is. Its nearest cells are found and met; of their rows the seeds are
// counted in full, stage by stage; the other cells are chosen and read; of their rows first those are counted that look
// nearest, then what is left.
struct Way {
    enum class Step { find, meet, count, read, done };
    enum class Round { seeds, first, rest };

    Step step = Step::done;
    Round round = Round::seeds;
    std::size_t query = 0, stage = 0, seeds = 0;
    Centres centres{};                  // those it has looked at
    std::int32_t least = 0, limit = 0;  // the smallest distance to them, and how far it has looked for cells
    std::vector<std::uint32_t> seen;    // of these centres, those within the limit
    std::size_t living = 0;             // rows of their cells
    std::vector<std::uint32_t> met;     // the nearest cells
    std::uint64_t last = 0;             // of these, by distance and number in one word
    std::size_t before = 0;             // living rows of these
    std::vector<std::uint32_t> others;  // cells
    std::size_t read = 0;               // how many of the others
    Picked picked, waiting;             // rows that are counted, and those that may be later
    BestRows best;
    Visit visit{};
};

// What was found, by (distance, id). A few are put where they belong by comparing all with all: nothing to foresee.
inline void write_best(const Picked& rows, const CodeSet& set, std::size_t k, const CellKernels& kernels,
                       std::vector<Hit>& hits, std::int64_t* ids, std::int32_t* distances) {
    constexpr std::size_t many = 32;
    std::uint64_t keys[many];
    std::uint32_t places[many];
    hits.resize(rows.n);
    bool short_ids = rows.n <= many;
    for (std::size_t i = 0; i < rows.n; ++i) {
        hits[i] = {rows.sums[i], set.id(rows.rows[i])};
        const auto id = static_cast<std::uint64_t>(hits[i].id);
        short_ids = short_ids && id >> 32 == 0;
        if (short_ids) keys[i] = std::uint64_t{static_cast<std::uint32_t>(hits[i].distance)} << 32 | id;
    }
    if (short_ids)
        kernels.ranks(keys, rows.n, places);
    else
        std::sort(hits.begin(), hits.end());
    for (std::size_t i = 0; i < rows.n; ++i) {
        const std::size_t place = short_ids ? places[i] : i;
        if (place >= k) continue;
        ids[place] = hits[i].id;
        distances[place] = hits[i].distance;
    }
}

// Which of some queries read each cell.
class CellVisits {
public:
    struct Cell {
        std::size_t number;
        const std::uint32_t *begin, *end;  // of its queries
    };

    // Cells that are read at all, in the order of their numbers.
    const std::vector<Cell>& gather(const Way* ways, std::size_t n, std::vector<std::uint32_t> Way::* chosen,
                                    std::size_t n_cells) {
        ends_.assign(n_cells + 1, 0);
        for (std::size_t i = 0; i < n; ++i)
            for (const std::uint32_t cell : ways[i].*chosen) ++ends_[cell + 1];
        for (std::size_t cell = 0; cell < n_cells; ++cell) ends_[cell + 1] += ends_[cell];
        enlarge(queries_, ends_.back());
        for (std::size_t i = 0; i < n; ++i)
            for (const std::uint32_t cell : ways[i].*chosen) queries_[ends_[cell]++] = static_cast<std::uint32_t>(i);
        cells_.clear();
        const std::uint32_t* at = queries_.data();
        for (std::size_t cell = 0; cell < n_cells; ++cell) {
            const std::uint32_t* end = queries_.data() + ends_[cell];
            if (at < end) cells_.push_back({cell, at, end});
            at = end;
        }
        return cells_;
    }
    std::size_t held() const { return ends_.size() + queries_.size() + 6 * cells_.capacity(); }

private:
    std::vector<std::uint32_t> ends_, queries_;
    std::vector<Cell> cells_;
};

inline constexpr std::size_t page = 1024;  // numbers

// What a thread works with, kept between calls: to have the pages cleared takes as long as some queries.
struct Room {
    std::vector<Way> ways;
    RegionRoom sight;
    std::vector<std::uint32_t> numbers, rows_at;
    std::vector<bool> marks;
    std::vector<std::uint64_t> places_of_cells, level;
    std::int32_t usual_way = 48;  // how much farther queries go than to the nearest centre: where to look first
    CellVisits visits;
    std::vector<Hit> hits;

    std::size_t held() const {
        std::size_t all = sight.held() + numbers.size() + rows_at.size() + visits.held() + hits.size();
        for (const Way& way : ways) all += way.picked.rows.size() + way.waiting.rows.size();
        return all;
    }
    // Room for so many numbers, and a few. They begin a page: many are written over and over at the same place, near
    // the beginning, and that takes ten times as long where two pages meet.
    std::uint32_t* places(std::size_t n) {
        enlarge(numbers, n + few + page);
        return aligned<page * sizeof(std::uint32_t)>(numbers);
    }
};

}  // namespace bilsh
