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
    // Only those at some ascending places stay.
    void keep(const std::uint32_t* places, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            rows[i] = rows[places[i]];
            sums[i] = sums[places[i]];
        }
        n = count;
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
        rows_.make_room(counted.n);
        const std::size_t before = rows_.n;
        for (std::size_t i = 0; i < counted.n; ++i) {
            rows_.rows[rows_.n] = counted.rows[i];
            rows_.sums[rows_.n] = counted.sums[i];
            rows_.n += counted.sums[i] <= worst_;
        }
        if (rows_.n < k_ || rows_.n == before) return;
        worst_ = kernels.smallest_within(rows_.sums.data(), rows_.n, k_, std::min(worst_, most_));
        std::size_t left = 0;
        for (std::size_t i = 0; i < rows_.n; ++i) {
            rows_.rows[left] = rows_.rows[i];
            rows_.sums[left] = rows_.sums[i];
            left += rows_.sums[left] <= worst_;
        }
        rows_.n = left;
    }
    bool full() const { return rows_.n >= k_; }
    std::int32_t worst() const { return worst_; }  // farthest where there are fewer than k
    const Picked& rows() const { return rows_; }

private:
    std::size_t k_ = 0;
    std::int32_t most_ = 0, worst_ = farthest;
    Picked rows_;
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
    const std::int32_t* far = nullptr;  // distances to all centres
    std::vector<std::uint64_t> met;     // cells: distance and number in one word
    std::size_t living = 0;             // rows of these
    std::vector<std::uint32_t> others;  // cells
    std::size_t read = 0;               // how many of the others
    Picked picked, waiting;             // rows that are counted, and those that may be later
    BestRows best;
    Visit visit{};
};

// What was found, by (distance, id). A few are put where they belong by comparing all with all: nothing to foresee.
inline void write_best(const Picked& rows, const CodeSet& set, std::size_t k, std::vector<Hit>& hits, std::int64_t* ids,
                       std::int32_t* distances) {
    hits.resize(rows.n);
    for (std::size_t i = 0; i < rows.n; ++i) hits[i] = {rows.sums[i], set.id(rows.rows[i])};
    if (rows.n > 32) std::sort(hits.begin(), hits.end());
    for (std::size_t i = 0; i < rows.n; ++i) {
        const Hit hit = hits[i];
        std::size_t place = i;
        if (rows.n <= 32) {
            place = 0;
            for (const Hit& other : hits)
                place += (other.distance < hit.distance) | ((other.distance == hit.distance) & (other.id < hit.id));
        }
        if (place >= k) continue;
        ids[place] = hit.id;
        distances[place] = hit.distance;
    }
}

// More room where it is wanted; what is there may stay as it is.
template <class T>
void enlarge(std::vector<T>& room, std::size_t n) {
    if (room.size() < n) room.resize(2 * n);
}

// Which of some queries read each cell, beyond their nearest.
class CellVisits {
public:
    struct Cell {
        std::size_t number;
        const std::uint32_t *begin, *end;  // of its queries
    };

    // Cells that are read at all, in the order of their numbers.
    const std::vector<Cell>& gather(const Way* ways, std::size_t n, std::size_t n_cells) {
        ends_.assign(n_cells + 1, 0);
        for (std::size_t i = 0; i < n; ++i)
            for (const std::uint32_t cell : ways[i].others) ++ends_[cell + 1];
        for (std::size_t cell = 0; cell < n_cells; ++cell) ends_[cell + 1] += ends_[cell];
        enlarge(queries_, ends_.back());
        for (std::size_t i = 0; i < n; ++i)
            for (const std::uint32_t cell : ways[i].others) queries_[ends_[cell]++] = static_cast<std::uint32_t>(i);
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
    std::vector<std::int32_t> far;  // distances to centres
    std::vector<std::uint32_t> numbers, rows_at;
    std::int32_t usual_way = 32;  // how much farther queries go than their nearest cells: where to look first
    CellVisits visits;
    std::vector<std::uint8_t> laid, packed;  // queries and centres as kernels want them
    std::vector<Hit> hits;

    std::size_t held() const {
        std::size_t all = far.size() + numbers.size() + rows_at.size() + visits.held() + hits.size();
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
