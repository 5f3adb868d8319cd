// What a thread that reads cells holds meanwhile: a few queries on their way, each with its cells and rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

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

// A query on its way, and what its next step is. Its nearest cells are met; of their rows the seeds are counted in
// full, stage by stage; the other cells are chosen and read; of their rows first those are counted that look nearest,
// then what is left.
struct Way {
    enum class Step { meet, count, read, done };
    enum class Round { seeds, first, rest };

    Step step = Step::done;
    Round round = Round::seeds;
    std::size_t query = 0, stage = 0, seeds = 0;
    const std::int32_t* far = nullptr;  // distances to all centres
    std::vector<std::uint64_t> met;     // cells: distance and number in one word
    std::vector<std::uint32_t> others;  // cells
    std::size_t read = 0;               // how many of the others
    Picked picked, waiting;             // rows that are counted, and those that may be later
    BestRows best;
    Visit visit{};
};

// More room where it is wanted; what is there may stay as it is.
template <class T>
void enlarge(std::vector<T>& room, std::size_t n) {
    if (room.size() < n) room.resize(2 * n);
}

// What a thread works with, kept between calls: to have the pages cleared takes as long as some queries.
struct Room {
    std::vector<Way> ways;
    std::vector<std::int32_t> far;  // distances to centres
    std::vector<std::uint32_t> numbers;
    std::vector<std::uint8_t> laid, packed;  // queries and centres as kernels want them
    std::vector<Hit> hits;

    std::size_t held() const {
        std::size_t all = far.size() + numbers.size() + hits.size();
        for (const Way& way : ways) all += way.picked.rows.size() + way.waiting.rows.size();
        return all;
    }
    // Room for so many numbers, and a few.
    std::uint32_t* places(std::size_t n) {
        enlarge(numbers, n + few);
        return numbers.data();
    }
};

}  // namespace bilsh
