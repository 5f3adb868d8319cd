// The rows of visited cells: a short slab of each, longer ones of those that can still be among the nearest.
#include "cells.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "blocks.h"
#include "cell_room.h"
#include "kernels.h"
#include "nearest.h"
#include "row_block.h"
#include "threads.h"

namespace bilsh {
namespace {

constexpr std::size_t block_rows = 1024;
constexpr std::size_t far_entries = std::size_t{1} << 17;  // distances to centres that are kept at a time

// Some queries, all of whose cells one thread reads. Each query chooses its cells; then the first slab of their rows is
// read cell by cell for all queries that visit it, so that they are near when the next query comes; then each query has
// all its distances over the first slab, and reads on where they are small.
class Reader {
public:
    Reader(const Queries& queries, const CodeSet& set, const std::vector<Stage>& stages, const Cells& cells,
           std::size_t k, const Stop& stop, const Limits& limits)
        : kernels_(bilsh::kernels()),
          queries_(queries),
          set_(set),
          cells_(cells),
          stop_(stop),
          limits_(limits),
          k_(k),
          stages_(stages),
          best_(queries.n, Nearest(k)),
          room_(kept_room()),
          block_(kernels_) {
        room_.cell_numbers.resize(std::max(room_.cell_numbers.size(), cells.n));
        room_.read.assign(cells.n, 0);
    }

    void run(Visit* visited) {
        const std::size_t most = std::clamp<std::size_t>(far_entries / cells_.n, 1, 256);
        for (std::size_t first = 0; first < queries_.n; first += most) {
            const std::size_t n = std::min(most, queries_.n - first);
            const auto start = std::chrono::steady_clock::now();
            measure(first, n);
            reading_.ranking += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
            for (std::size_t i = 0; i < n; ++i) {
                poll();
                visited[first + i] = choose(first + i, room_.far.data() + i * cells_.n);
                if (used_ >= near_entries) read_on();
            }
        }
        read_on();
    }

    Nearest& best(std::size_t query) { return best_[query]; }
    const Reading& reading() const { return reading_; }

private:
    // Distances of some queries to all centres.
    void measure(std::size_t first, std::size_t n) {
        room_.far.resize(n * cells_.n);
        if (n < worth_packing) {
            kernels_.hamming.tile(cells_.centres, cells_.bytes, cells_.n, queries_.at(first), queries_.bytes, n,
                                  cells_.bytes, room_.far.data(), cells_.n, false);
            return;
        }
        room_.heads.resize(n * cells_.bytes);
        for (std::size_t i = 0; i < n; ++i)
            std::copy_n(queries_.at(first + i), cells_.bytes, room_.heads.data() + i * cells_.bytes);
        hamming_matrix({room_.heads.data(), n, cells_.bytes}, {cells_.centres, cells_.n, cells_.bytes}, 1,
                       room_.far.data());
    }

    // Chooses the cells of a query: the nearest, whose rows it meets at once, and all others that the stop leaves.
    Visit choose(std::size_t query, const std::int32_t* far) {
        Plan plan{query, room_.runs.size(), 0, 0, used_, 0};
        Visit visit = read_nearest(plan, far);
        const double reach = std::floor(stop_.share * visit.bound) + stop_.slack;
        if (reach >= 0) {
            const std::int32_t limit = reach < farthest ? static_cast<std::int32_t>(reach) : farthest;
            const std::size_t n = kernels_.hamming.select(far, cells_.n, limit, room_.cell_numbers.data());
            for (std::size_t i = 0; i < n; ++i)
                if (room_.read[room_.cell_numbers[i]] != stamp_) add(plan, room_.cell_numbers[i]);
        }
        visit.cells = static_cast<std::int32_t>(plan.end_run - plan.first_run);
        used_ += padded(plan.size);
        room_.plans.push_back(plan);
        return visit;
    }

    // Distances are looked through sixteen at a time.
    static std::size_t padded(std::size_t n) { return (n + 31) / 16 * 16; }

    // Returns where the distances of the cell's rows stand.
    std::size_t add(Plan& plan, std::uint32_t cell) {
        const std::size_t at = plan.at + plan.size, n = cells_.end(cell) - cells_.begin(cell);
        room_.runs.push_back({cell, static_cast<std::uint32_t>(plan.size), static_cast<std::uint32_t>(plan.size + n)});
        plan.end_run = room_.runs.size();
        plan.size += n;
        const std::size_t needed = plan.at + padded(plan.size);
        if (needed > room_.near.size()) room_.near.resize(std::max(2 * room_.near.size(), needed));
        return at;
    }

    // The nearest cells, by (distance, number), until they hold enough living rows. They are marked. The rows that look
    // nearest are compared in full, which tells how far the neighbours are.
    Visit read_nearest(Plan& plan, const std::int32_t* far) {
        std::int32_t limit = smallest(far, cells_.n), step = 16;
        const std::size_t wanted = std::max(stop_.first, k_);
        std::size_t living = 0;
        Visit visit{farthest, limit, 0};
        ++stamp_;
        for (bool all = false; living < wanted && !all;) {
            limit = limit > farthest - step ? farthest : limit + step;
            step *= 2;
            const std::size_t n = kernels_.hamming.select(far, cells_.n, limit, room_.cell_numbers.data());
            all = n == cells_.n;
            room_.order.clear();
            for (std::size_t i = 0; i < n; ++i)
                if (room_.read[room_.cell_numbers[i]] != stamp_) room_.order.push_back(room_.cell_numbers[i]);
            std::sort(room_.order.begin(), room_.order.end(),
                      [&](std::uint32_t a, std::uint32_t b) { return far[a] != far[b] ? far[a] < far[b] : a < b; });
            for (std::size_t i = 0; i < room_.order.size() && living < wanted; ++i) {
                const std::size_t at = add(plan, room_.order[i]);
                compare(plan.query, room_.order[i], at);
                living += living_rows(room_.order[i], at);
                room_.read[room_.order[i]] = stamp_;
                visit.front = far[room_.order[i]];
            }
        }
        plan.met = plan.end_run - plan.first_run;
        if (living == 0) return visit;
        pick(plan, smallest_limit(plan, std::min(std::max(stop_.seeds, k_), living)), room_.picked[0]);
        go_on(room_.picked[0]);
        if (best_[plan.query].full()) visit.bound = best_[plan.query].worst();
        return visit;
    }

    // The smallest limit within which so many distances of a query are.
    std::int32_t smallest_limit(const Plan& plan, std::size_t wanted) {
        close(plan);
        std::int32_t low = -1, high = static_cast<std::int32_t>(8 * set_.slabs[0].bytes);  // too few, enough
        while (high - low > 1) {
            const std::int32_t middle = low + (high - low) / 2;
            const std::size_t n =
                kernels_.hamming.select(room_.near.data() + plan.at, padded(plan.size), middle, room_.numbers.data());
            (n < wanted ? low : high) = middle;
        }
        return high;
    }

    // What stands behind the distances of a query is out of sight, and there is room for their numbers.
    void close(const Plan& plan) {
        std::fill_n(room_.near.begin() + static_cast<std::ptrdiff_t>(plan.at + plan.size),
                    padded(plan.size) - plan.size, farthest);
        if (room_.numbers.size() < padded(plan.size)) room_.numbers.resize(padded(plan.size));
    }

    static std::int32_t smallest(const std::int32_t* values, std::size_t n) {
        std::int32_t least = farthest;
        for (std::size_t i = 0; i < n; ++i) least = values[i] < least ? values[i] : least;
        return least;
    }

    // Distances of the rows of a cell over the first slab, to one query. Eight rows are compared at once, so a few of
    // the next cell come along: what stands behind is written later.
    void compare(std::size_t query, std::size_t cell, std::size_t at) {
        const Slab& slab = set_.slabs[0];
        const std::size_t row = cells_.begin(cell), n = cells_.end(cell) - row;
        const std::size_t whole = std::min((n + 7) / 8 * 8, set_.n - row);
        kernels_.hamming.tile(slab.data + row * slab.bytes, slab.bytes, whole, queries_.at(query), queries_.bytes, 1,
                              slab.bytes, room_.near.data() + at, 0, false);
        count_rows(n);
    }

    void count_rows(std::size_t n) {
        reading_.rows += static_cast<std::int64_t>(n);
        reading_.bytes += static_cast<std::int64_t>(n * stages_[0].bytes);
    }

    // How many rows of a cell live; the others move out of sight.
    std::size_t living_rows(std::size_t cell, std::size_t at) {
        const std::size_t row = cells_.begin(cell), n = cells_.end(cell) - row;
        if (!set_.alive) return n;
        std::size_t living = 0;
        for (std::size_t i = 0; i < n; ++i) {
            if (set_.is_alive(row + i))
                ++living;
            else
                room_.near[at + i] = farthest;
        }
        return living;
    }

    // Reads the cells that were chosen and have not been met, for all queries that wait.
    void read_on() {
        if (room_.plans.size() == 1)
            read_alone(room_.plans[0]);
        else if (room_.plans.size() > 1)
            read_together();
        for (const Plan& plan : room_.plans) close(plan);
        // Of the rows that are left those that look nearest come first: they bring the bound down.
        if (stages_.size() > 1)
            finish([&](const Nearest& best) { return best.full() ? limit_after(0, best) * 4 / 5 : farthest - 1; });
        finish([&](const Nearest& best) { return limit_after(0, best); });
        room_.plans.clear();
        room_.runs.clear();
        used_ = 0;
    }

    void read_alone(const Plan& plan) {
        for (std::size_t i = plan.first_run + plan.met; i < plan.end_run; ++i) {
            if (i + 1 < plan.end_run) ask(room_.runs[i + 1].cell);
            compare(plan.query, room_.runs[i].cell, plan.at + room_.runs[i].begin);
        }
    }

    // Cell by cell. Those of one query ascend, so what is written behind a cell's distances is written anew.
    void read_together() {
        room_.starts.assign(cells_.n + 1, 0);
        for (const Plan& plan : room_.plans)
            for (std::size_t i = plan.first_run + plan.met; i < plan.end_run; ++i)
                ++room_.starts[room_.runs[i].cell + 1];
        for (std::size_t cell = 0; cell < cells_.n; ++cell) room_.starts[cell + 1] += room_.starts[cell];
        room_.visitors.resize(room_.starts[cells_.n]);
        for (const Plan& plan : room_.plans)
            for (std::size_t i = plan.first_run + plan.met; i < plan.end_run; ++i)
                room_.visitors[room_.starts[room_.runs[i].cell]++] = {plan.query, plan.at + room_.runs[i].begin};
        for (std::size_t cell = 0, first = 0; cell < cells_.n; first = room_.starts[cell++])
            if (room_.starts[cell] > first) {
                std::size_t next = cell + 1;
                while (next < cells_.n && room_.starts[next] == room_.starts[cell]) ++next;
                if (next < cells_.n) ask(next);
                read(room_.visitors.data() + first, room_.starts[cell] - first, cell);
            }
    }

    // One cell for some queries.
    void read(const Visitor* visitors, std::size_t n_visitors, std::size_t cell) {
        poll();
        if (n_visitors < worth_packing) {
            for (std::size_t i = 0; i < n_visitors; ++i) compare(visitors[i].query, cell, visitors[i].at);
            return;
        }
        const Slab& slab = set_.slabs[0];
        room_.heads.resize(n_visitors * slab.bytes);
        for (std::size_t i = 0; i < n_visitors; ++i)
            std::copy_n(queries_.at(visitors[i].query), slab.bytes, room_.heads.data() + i * slab.bytes);
        for (std::size_t row = cells_.begin(cell); row < cells_.end(cell); row += block_rows) {
            poll();
            const std::size_t n = std::min(block_rows, cells_.end(cell) - row), done = row - cells_.begin(cell);
            count_rows(n * n_visitors);
            const QueryBlock block(kernels_, {room_.heads.data(), n_visitors, slab.bytes}, &slab, 1, n);
            block_.load(block, &slab, 1, row, n, n_visitors);
            for (std::size_t first = 0; first < n_visitors; first += block.together()) {
                const std::size_t some = std::min(block.together(), n_visitors - first);
                const std::int32_t* distances = block_.compare(block, first, some);
                for (std::size_t i = 0; i < some; ++i)
                    std::copy_n(distances + i * block_.stride(), n, room_.near.data() + visitors[first + i].at + done);
            }
        }
    }

    std::int32_t limit_after(std::size_t stage, const Nearest& best) const {
        if (!best.full()) return farthest - 1;
        return stage + 1 == stages_.size() ? best.worst() : limits_.at(stage, best.worst());
    }

    // The rows of each query that are within its limit; memory is asked for those of one while another goes on.
    template <class Limit>
    void finish(const Limit& limit) {
        Picked *now = &room_.picked[0], *next = &room_.picked[1];
        for (std::size_t p = 0; p < room_.plans.size(); ++p) {
            poll();
            pick(room_.plans[p], limit(best_[room_.plans[p].query]), *next);
            if (p != 0) go_on(*now);
            std::swap(now, next);
        }
        if (!room_.plans.empty()) go_on(*now);
    }

    // Rows of a query whose distances over the first slab are within a limit; they leave the sight of later calls.
    void pick(const Plan& plan, std::int32_t limit, Picked& picked) {
        std::int32_t* near = room_.near.data() + plan.at;
        picked.make_room(padded(plan.size));
        const std::size_t passed = kernels_.hamming.select(near, padded(plan.size), limit, room_.numbers.data());
        const Run* run = room_.runs.data() + plan.first_run;
        std::size_t left = 0, shift = cells_.begin(run->cell);
        for (std::size_t i = 0; i < passed; ++i) {
            const std::size_t at = room_.numbers[i];
            while (at >= run->end) {
                ++run;
                shift = cells_.begin(run->cell) - run->begin;
            }
            const std::size_t row = at + shift;
            picked.rows[left] = static_cast<std::uint32_t>(row);
            picked.sums[left] = near[at];
            near[at] = farthest;
            ask(1, row);
            left += set_.is_alive(row);
        }
        picked.query = plan.query;
        picked.n = left;
    }

    // They go on slab by slab.
    void go_on(Picked& picked) {
        Nearest& best = best_[picked.query];
        for (std::size_t stage = 1; stage < stages_.size() && picked.n != 0; ++stage) {
            const Stage& part = stages_[stage];
            kernels_.hamming.gather(part.data, part.stride, picked.rows.data(), picked.n,
                                    queries_.at(picked.query) + part.offset, part.bytes, picked.sums.data());
            reading_.bytes += static_cast<std::int64_t>(picked.n * part.bytes);
            const std::int32_t most = limit_after(stage, best);
            std::size_t kept = 0;
            for (std::size_t i = 0; i < picked.n; ++i) {
                picked.rows[kept] = picked.rows[i];
                picked.sums[kept] = picked.sums[i];
                kept += picked.sums[i] <= most;
            }
            picked.n = kept;
            for (std::size_t i = 0; i < kept; ++i) ask(stage + 1, picked.rows[i]);
        }
        for (std::size_t i = 0; i < picked.n; ++i)
            if (!best.full() || picked.sums[i] <= best.worst()) best.push({picked.sums[i], set_.id(picked.rows[i])});
    }

    // Asks memory for what is compared soon: the rows of a cell, or what the next stage wants of a row; at the end that
    // is its id.
    void ask(std::size_t cell) const {
        const Slab& slab = set_.slabs[0];
        const std::uint8_t* data = slab.data + cells_.begin(cell) * slab.bytes;
        const std::size_t n = std::min<std::size_t>((cells_.end(cell) - cells_.begin(cell)) * slab.bytes, 8192);
        for (std::size_t j = 0; j < n; j += 64) __builtin_prefetch(data + j, 0, 2);
    }
    void ask(std::size_t stage, std::size_t row) const {
        if (stage == stages_.size()) {
            if (set_.ids) __builtin_prefetch(set_.ids + row);
            return;
        }
        const std::uint8_t* data = stages_[stage].data + row * stages_[stage].stride;
        for (std::size_t j = 0; j < std::min<std::size_t>(stages_[stage].bytes, 256); j += 64)
            __builtin_prefetch(data + j);
    }

    const Kernels& kernels_;
    const Queries queries_;
    const CodeSet& set_;
    const Cells cells_;
    const Stop stop_;
    const Limits limits_;
    const std::size_t k_;
    const std::vector<Stage>& stages_;
    Reading reading_;
    std::vector<Nearest> best_;
    Room& room_;
    std::size_t used_ = 0;  // of the distances to rows
    std::uint32_t stamp_ = 0;
    RowBlock block_;
};

}  // namespace

Reading cells_top_k(const Queries& queries, const CodeSet& set, const std::vector<Stage>& stages, const Cells& cells,
                    std::size_t k, const Stop& stop, const Limits& limits, int n_jobs, std::int64_t* ids,
                    std::int32_t* distances, Visit* visits) {
    Reading all;
    if (k == 0 || queries.n == 0) return all;
    n_jobs = threads_for(20e3 * static_cast<double>(queries.n), n_jobs);  // a query takes about 20 microseconds
    // Many queries share what is read of a cell; their hits are held to about 64 MB.
    const std::size_t most = std::clamp<std::size_t>((std::size_t{1} << 22) / k, 16, 4096);
    const std::size_t share = std::min(most, ceil_div(queries.n, static_cast<std::size_t>(n_jobs)));
    std::vector<Reading> readings(ceil_div(queries.n, share));
    parallel_for(readings.size(), n_jobs, [&](std::size_t task, int) {
        const std::size_t first = task * share, n = std::min(share, queries.n - first);
        Reader reader({queries.at(first), n, queries.bytes}, set, stages, cells, k, stop, limits);
        reader.run(visits + first);
        std::size_t at = first * k;
        for (std::size_t q = 0; q < n; ++q)
            for (const Hit& hit : reader.best(q).sorted()) {
                ids[at] = hit.id;
                distances[at++] = hit.distance;
            }
        readings[task] = reader.reading();
    });
    for (const Reading& one : readings) {
        all.rows += one.rows;
        all.bytes += one.bytes;
        all.ranking += one.ranking;
    }
    return all;
}

}  // namespace bilsh
