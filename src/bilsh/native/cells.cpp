// The rows of visited cells: a short slab of each, longer ones of those that can still be among the nearest.
#include "cells.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "blocks.h"
#include "kernels.h"
#include "nearest.h"
#include "row_block.h"
#include "threads.h"

namespace bilsh {
namespace {

constexpr std::size_t block_rows = 1024;
constexpr std::int32_t farthest = std::numeric_limits<std::int32_t>::max();

// Some queries, all of whose cells one thread reads: the nearest cells of each query whole, then cell by cell for all
// queries that visit it, so that its rows are near when the next query comes.
class Reader {
public:
    Reader(const Queries& queries, const CodeSet& set, const Cells& cells, std::size_t k, const Stop& stop,
           const Limits& limits)
        : kernels_(bilsh::kernels()),
          queries_(queries),
          set_(set),
          cells_(cells),
          stop_(stop),
          limits_(limits),
          k_(k),
          effort_(set.slabs.size()),
          best_(queries.n, Nearest(k)),
          chosen_(std::max(block_rows, cells.n)),
          rows_(block_rows),
          sums_(block_rows + 8),
          more_(block_rows + 8),
          found_(block_rows),
          read_(cells.n),
          block_(kernels_) {
        std::size_t offset = 0;
        for (const Slab& slab : set.slabs) {
            offsets_.push_back(offset);
            offset += slab.bytes;
        }
    }

    void run(Visit* visited) {
        std::vector<std::size_t> ends;
        std::vector<std::uint32_t> visits;
        for (std::size_t query = 0; query < queries_.n; ++query) {
            poll();
            Visit& visit = visited[query] = read_nearest(query);
            const std::size_t before = visits.size();
            choose_others(query, visit.bound, visits);
            visit.cells += static_cast<std::int32_t>(visits.size() - before);
            ends.push_back(visits.size());
        }
        if (queries_.n == 1) {
            for (const std::uint32_t cell : visits) read(&only, 1, cell);
            return;
        }
        // The queries of each cell, cell by cell.
        std::vector<std::size_t> starts(cells_.n + 1);
        for (const std::uint32_t cell : visits) ++starts[cell + 1];
        for (std::size_t cell = 0; cell < cells_.n; ++cell) starts[cell + 1] += starts[cell];
        std::vector<std::uint32_t> visitors(visits.size());
        std::vector<std::size_t> place(starts.begin(), starts.end() - 1);
        for (std::size_t query = 0, i = 0; query < queries_.n; ++query)
            for (; i < ends[query]; ++i) visitors[place[visits[i]]++] = static_cast<std::uint32_t>(query);
        for (std::size_t cell = 0; cell < cells_.n; ++cell)
            if (starts[cell + 1] > starts[cell])
                read(visitors.data() + starts[cell], starts[cell + 1] - starts[cell], cell);
    }

    Nearest& best(std::size_t query) { return best_[query]; }
    const Effort& effort() const { return effort_; }

private:
    static constexpr std::uint32_t only = 0;

    const std::int32_t* far(std::size_t query) const { return cells_.far + query * cells_.n; }

    void count(std::size_t stage, std::size_t items) {
        effort_.survivors[stage] += static_cast<std::int64_t>(items);
        effort_.bytes[stage] += static_cast<std::int64_t>(items * set_.slabs[stage].bytes);
    }

    // The nearest cells, by (distance, number), until they hold enough living rows. They are marked.
    Visit read_nearest(std::size_t query) {
        const std::int32_t* distance = far(query);
        std::int32_t limit = *std::min_element(distance, distance + cells_.n), step = 8;
        const std::size_t wanted = std::max(stop_.first, k_);
        std::size_t living = 0;
        Visit visit{farthest, limit, 0};
        ++stamp_;
        for (bool all = false; living < wanted && !all;) {
            const std::size_t n = kernels_.hamming.select(distance, cells_.n, limit, chosen_.data());
            all = n == cells_.n;
            near_.clear();
            for (std::size_t i = 0; i < n; ++i)
                if (read_[chosen_[i]] != stamp_) near_.push_back(chosen_[i]);
            std::sort(near_.begin(), near_.end(), [&](std::uint32_t a, std::uint32_t b) {
                return distance[a] != distance[b] ? distance[a] < distance[b] : a < b;
            });
            for (std::size_t i = 0; i < near_.size() && living < wanted; ++i) {
                living += read_whole(query, near_[i]);
                read_[near_[i]] = stamp_;
                visit.front = distance[near_[i]];
                ++visit.cells;
            }
            limit = limit > farthest - step ? farthest : limit + step;
            step *= 2;
        }
        if (best_[query].full()) visit.bound = best_[query].worst();
        return visit;
    }

    // All other cells that the stop leaves.
    void choose_others(std::size_t query, std::int32_t bound, std::vector<std::uint32_t>& visits) {
        const double reach = std::floor(stop_.share * bound) + stop_.slack;
        if (reach < 0) return;
        const std::int32_t limit = reach < farthest ? static_cast<std::int32_t>(reach) : farthest;
        const std::size_t n = kernels_.hamming.select(far(query), cells_.n, limit, chosen_.data());
        for (std::size_t i = 0; i < n; ++i)
            if (read_[chosen_[i]] != stamp_) visits.push_back(chosen_[i]);
    }

    // Distances of rows [row, row + n) over one slab to one query. Eight rows are compared at once, so a few of the
    // next cell come along.
    void compare(std::size_t query, std::size_t stage, std::size_t row, std::size_t n, std::int32_t* out, bool add) {
        const Slab& slab = set_.slabs[stage];
        const std::size_t whole = std::min((n + 7) / 8 * 8, set_.n - row);
        kernels_.hamming.tile(slab.data + row * slab.bytes, slab.bytes, whole, queries_.at(query) + offsets_[stage],
                              queries_.bytes, 1, slab.bytes, out, block_rows, add);
        count(stage, n);
    }

    // Full distances of all rows of a cell; returns how many live.
    std::size_t read_whole(std::size_t query, std::size_t cell) {
        Nearest& best = best_[query];
        std::size_t living = 0;
        for (std::size_t row = cells_.begin(cell); row < cells_.end(cell); row += block_rows) {
            const std::size_t n = std::min(block_rows, cells_.end(cell) - row);
            for (std::size_t stage = 0; stage < set_.slabs.size(); ++stage)
                compare(query, stage, row, n, sums_.data(), stage != 0);
            if (!set_.alive && best.full()) {
                const std::size_t close = kernels_.hamming.select(sums_.data(), n, best.worst(), rows_.data());
                for (std::size_t i = 0; i < close; ++i) best.push({sums_[rows_[i]], set_.id(row + rows_[i])});
                living += n;
                continue;
            }
            for (std::size_t i = 0; i < n; ++i) {
                if (!set_.is_alive(row + i)) continue;
                ++living;
                if (!best.full() || sums_[i] <= best.worst()) best.push({sums_[i], set_.id(row + i)});
            }
        }
        return living;
    }

    // One cell for some queries: the first slab of its rows for all of them, then each query's survivors.
    void read(const std::uint32_t* queries, std::size_t n_queries, std::size_t cell) {
        const Slab& slab = set_.slabs[0];
        const bool packs = n_queries >= worth_packing;
        if (packs) {
            if (heads_.size() < n_queries * slab.bytes) heads_.resize(n_queries * slab.bytes);
            for (std::size_t i = 0; i < n_queries; ++i)
                std::copy_n(queries_.at(queries[i]), slab.bytes, heads_.data() + i * slab.bytes);
        }
        for (std::size_t row = cells_.begin(cell); row < cells_.end(cell); row += block_rows) {
            poll();
            const std::size_t n = std::min(block_rows, cells_.end(cell) - row);
            if (!packs) {
                for (std::size_t i = 0; i < n_queries; ++i) {
                    compare(queries[i], 0, row, n, sums_.data(), false);
                    go_on(queries[i], row, n, sums_.data());
                }
                continue;
            }
            count(0, n * n_queries);
            const QueryBlock block(kernels_, {heads_.data(), n_queries, slab.bytes}, &slab, 1, n);
            block_.load(block, &slab, 1, row, n, n_queries);
            for (std::size_t first = 0; first < n_queries; first += block.together()) {
                const std::size_t some = std::min(block.together(), n_queries - first);
                const std::int32_t* distances = block_.compare(block, first, some);
                for (std::size_t i = 0; i < some; ++i)
                    go_on(queries[first + i], row, n, distances + i * block_.stride());
            }
        }
    }

    std::int32_t limit_after(std::size_t stage, const Nearest& best) const {
        return stage + 1 == set_.slabs.size() ? best.worst() : limits_.at(stage, best.worst());
    }

    // Rows [row, row + n) with their distances over the first slab: those within the limits go on, slab by slab. The
    // nearest cells held k living rows, so there is a bound.
    void go_on(std::size_t query, std::size_t row, std::size_t n, const std::int32_t* distances) {
        Nearest& best = best_[query];
        const std::size_t passed = kernels_.hamming.select(distances, n, limit_after(0, best), chosen_.data());
        if (passed == 0) return;
        if (set_.slabs.size() == 2 &&
            5 * passed > n) {  // the rest of all rows, as it lies, is quicker than that of some
            compare(query, 1, row, n, more_.data(), false);
            for (std::size_t i = 0; i < passed; ++i) {
                const std::size_t at = chosen_[i];
                const std::int32_t sum = distances[at] + more_[at];
                if (sum <= best.worst() && set_.is_alive(row + at)) best.push({sum, set_.id(row + at)});
            }
            return;
        }
        std::size_t left = 0;
        for (std::size_t i = 0; i < passed; ++i) {
            const std::size_t at = chosen_[i];
            rows_[left] = static_cast<std::uint32_t>(row + at);
            found_[left] = distances[at];
            left += set_.is_alive(row + at);
        }
        for (std::size_t stage = 1; stage < set_.slabs.size() && left != 0; ++stage) {
            const Slab& slab = set_.slabs[stage];
            kernels_.hamming.gather(slab.data, slab.bytes, rows_.data(), left, queries_.at(query) + offsets_[stage],
                                    slab.bytes, found_.data());
            count(stage, left);
            const std::int32_t limit = limit_after(stage, best);
            std::size_t kept = 0;
            for (std::size_t i = 0; i < left; ++i) {
                rows_[kept] = rows_[i];
                found_[kept] = found_[i];
                kept += found_[i] <= limit;
            }
            left = kept;
        }
        for (std::size_t i = 0; i < left; ++i) best.push({found_[i], set_.id(rows_[i])});
    }

    const Kernels& kernels_;
    const Queries queries_;
    const CodeSet& set_;
    const Cells cells_;
    const Stop stop_;
    const Limits limits_;
    const std::size_t k_;
    Effort effort_;
    std::vector<std::size_t> offsets_;  // of each slab's bytes in a query
    std::vector<Nearest> best_;
    std::vector<std::uint32_t> chosen_, rows_, near_;
    std::vector<std::int32_t> sums_, more_, found_;
    std::vector<std::uint32_t> read_;  // the stamp of the query that read each cell whole
    std::uint32_t stamp_ = 0;
    std::vector<std::uint8_t> heads_;
    RowBlock block_;
};

}  // namespace

Effort cells_top_k(const Queries& queries, const CodeSet& set, const Cells& cells, std::size_t k, const Stop& stop,
                   const Limits& limits, int n_jobs, std::int64_t* ids, std::int32_t* distances, Visit* visits) {
    Effort effort(set.slabs.size());
    if (k == 0 || queries.n == 0) return effort;
    const auto start = std::chrono::steady_clock::now();
    n_jobs = threads_for(20e3 * static_cast<double>(queries.n), n_jobs);  // a query takes about 20 microseconds
    // Many queries share what is read of a cell; their hits are held to about 64 MB.
    const std::size_t most = std::clamp<std::size_t>((std::size_t{1} << 22) / k, 16, 4096);
    const std::size_t share = std::min(most, ceil_div(queries.n, static_cast<std::size_t>(n_jobs)));
    std::vector<Effort> efforts(ceil_div(queries.n, share), effort);
    parallel_for(efforts.size(), n_jobs, [&](std::size_t task, int) {
        const std::size_t first = task * share, n = std::min(share, queries.n - first);
        Reader reader({queries.at(first), n, queries.bytes}, set, {cells.offsets, cells.far + first * cells.n, cells.n},
                      k, stop, limits);
        reader.run(visits + first);
        std::size_t at = first * k;
        for (std::size_t q = 0; q < n; ++q)
            for (const Hit& hit : reader.best(q).sorted()) {
                ids[at] = hit.id;
                distances[at++] = hit.distance;
            }
        efforts[task] = reader.effort();
    });
    for (const Effort& part : efforts)
        for (std::size_t stage = 0; stage < set.slabs.size(); ++stage) {
            effort.survivors[stage] += part.survivors[stage];
            effort.bytes[stage] += part.bytes[stage];
        }
    effort.seconds[0] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return effort;
}

}  // namespace bilsh
