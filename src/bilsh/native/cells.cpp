// The rows of visited cells: a short slab of each, longer ones of those that can still be among the nearest.
#include "cells.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>

#include "blocks.h"
#include "cell_choice.h"
#include "cell_room.h"
#include "kernels.h"
#include "nearest.h"
#include "row_block.h"
#include "threads.h"

namespace bilsh {
namespace {

constexpr std::size_t far_entries = std::size_t{1} << 17;   // distances to centres that are kept at a time
constexpr std::size_t most_waiting = std::size_t{1} << 15;  // rows of a query that wait to be counted, about
constexpr std::size_t most_kept = std::size_t{1} << 23;     // numbers that a thread holds between calls
constexpr std::size_t side_by_side = 6;                     // queries on their way
constexpr std::size_t together = 256;                       // queries that share cells
constexpr std::size_t worth_sharing = 8;                    // queries
constexpr std::size_t cells_ahead = 4;                      // that are asked for while one is read
constexpr std::size_t most_ahead = 4096;                    // bytes of a cell that are asked for

// Some queries, all of whose cells one thread reads. A few are on their way and take turns, a step each; what the next
// step of a query wants of memory is asked for at the end of the one before, and comes while others take theirs.
class Reader {
public:
    Reader(const Queries& queries, const CodeSet& set, const std::vector<Stage>& stages, const Cells& cells,
           std::size_t k, const Stop& stop, const Limits& limits, Room& room)
        : kernels_(bilsh::kernels()),
          queries_(queries),
          set_(set),
          cells_(cells),
          stop_(stop),
          limits_(limits),
          k_(k),
          stages_(stages),
          far_stride_(ceil_div(cells_.n, 16) * 16),
          room_(room) {}

    Reading run(std::int64_t* ids, std::int32_t* distances, Visit* visits) {
        const std::size_t measured = std::clamp<std::size_t>(far_entries / far_stride_, 1, together);
        for (std::size_t first = 0; first < queries_.n; first += together) {
            const std::size_t n = std::min(together, queries_.n - first);
            if (room_.ways.size() < n) room_.ways.resize(n);
            for (std::size_t way = 0; way < n; way += measured) {
                const std::size_t some = std::min(measured, n - way);
                const auto start = std::chrono::steady_clock::now();
                measure(first + way, some);
                reading_.ranking += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
                for (std::size_t i = 0; i < some; ++i)
                    begin(room_.ways[way + i], first + way + i, align_64(room_.far) + i * far_stride_);
                take_turns(way, way + some, Way::Step::read);
            }
            if (n >= worth_sharing) share(n);
            take_turns(0, n, Way::Step::done);
            for (std::size_t way = 0; way < n; ++way) {
                visits[first + way] = room_.ways[way].visit;
                write_best(room_.ways[way].best.rows(), set_, k_, room_.hits, ids + (first + way) * k_,
                           distances + (first + way) * k_);
            }
        }
        return reading_;
    }

private:
    // Distances of some queries to all centres. Many queries meet a strip of centres while it is in the first-level
    // cache.
    void measure(std::size_t first, std::size_t n) {
        const HammingKernels& kernels = kernels_.hamming;
        const std::size_t bytes = cells_.bytes;
        enlarge(room_.far, n * far_stride_ + 16);
        std::int32_t* far = align_64(room_.far);
        const auto tile = [&](std::size_t cell, std::size_t end) {
            kernels.tile(cells_.centres + cell * bytes, bytes, end - cell, queries_.at(first), queries_.bytes, n, bytes,
                         far + cell, far_stride_, false);
        };
        if (n < worth_packing || kernels.layout.rows == 0) return tile(0, cells_.n);
        const std::uint8_t* asked = queries_.at(first);
        std::size_t stride = queries_.bytes;
        if (kernels.lay) {
            stride = kernels.layout.whole(bytes) + 64;
            enlarge(room_.laid, n * stride);
            asked = room_.laid.data();
            for (std::size_t q = 0; q < n; ++q)
                kernels.lay(queries_.at(first + q), bytes, room_.laid.data() + q * stride);
        }
        const std::size_t strip =
            std::max(kernels.layout.strip, strip_bytes / bytes / kernels.layout.rows * kernels.layout.rows);
        const std::size_t packed = cells_.n / kernels.layout.rows * kernels.layout.rows;
        enlarge(room_.packed, kernels.layout.bytes(strip, bytes) + 63);
        for (std::size_t cell = 0; cell < packed; cell += strip) {
            const std::size_t rows = std::min(strip, packed - cell);
            kernels.pack(cells_.centres + cell * bytes, bytes, rows, bytes, align_64(room_.packed));
            kernels.tile_packed(align_64(room_.packed), rows, asked, stride, n, bytes, far + cell, far_stride_, false);
        }
        if (packed < cells_.n) tile(packed, cells_.n);
    }

    // A few of some queries are on their way, a step each in turn, until all have come to a step.
    void take_turns(std::size_t next, std::size_t end, Way::Step last) {
        std::array<Way*, side_by_side> here;
        std::size_t n = 0;
        while (n < side_by_side && next < end) here[n++] = &room_.ways[next++];
        while (n > 0)
            for (std::size_t i = 0; i < n;) {
                advance(*here[i]);
                if (here[i]->step != last)
                    ++i;
                else if (next < end)
                    here[i++] = &room_.ways[next++];
                else
                    here[i] = here[--n];
            }
    }

    // The other cells of some queries, cell by cell, so that memory brings each once.
    void share(std::size_t n) {
        const std::vector<CellVisits::Cell>& visited = room_.visits.gather(room_.ways.data(), n, cells_.n);
        for (std::size_t i = 0; i < visited.size(); ++i) {
            if (i % 64 == 0) poll();
            if (i + cells_ahead < visited.size()) ask(visited[i + cells_ahead].number);
            for (const std::uint32_t* by = visited[i].begin; by < visited[i].end; ++by) {
                Way& way = room_.ways[*by];
                if (way.waiting.n >= most_waiting) {
                    go_on(way);
                    while (way.step != Way::Step::read) advance(way);
                }
                read(way, visited[i].number, limit_after(0, way));
                ++way.read;
            }
        }
    }

    void begin(Way& way, std::size_t query, const std::int32_t* far) {
        way.query = query;
        way.far = far;
        way.others.clear();
        way.read = way.picked.n = way.waiting.n = 0;
        way.best.begin(k_, static_cast<std::int32_t>(8 * queries_.bytes));
        way.step = Way::Step::find;
    }

    // The nearest cells, until they hold enough living rows.
    void find(Way& way) {
        poll();
        const std::int32_t* far = way.far;
        const std::size_t wanted = std::max(stop_.first, k_);
        std::size_t living = 0, n = 0;
        std::uint32_t* numbers = room_.places(cells_.n);
        std::int32_t limit = kernels_.cells.smallest(far, cells_.n) + 24;
        for (std::int32_t step = 24;; limit = limit > farthest - step ? farthest : limit + step, step *= 2) {
            n = kernels_.cells.within(far, cells_.n, limit, numbers);
            living = 0;
            for (std::size_t i = 0; i < n; ++i) living += living_rows(numbers[i]);
            if (living >= wanted || n == cells_.n) break;
        }
        way.met.resize(n);
        for (std::size_t i = 0; i < n; ++i) way.met[i] = place_of(far[numbers[i]], numbers[i]);
        std::sort(way.met.begin(), way.met.end());
        std::size_t met = 0;
        for (living = 0; met < n && living < wanted; ++met) {
            const std::uint32_t cell = cell_at(way.met[met]);
            living += living_rows(cell);
            ask(cell);
        }
        way.met.resize(met);
        way.living = living;
        way.seeds = std::min(std::max(stop_.seeds, k_), living);
        way.visit = {farthest, static_cast<std::int32_t>(way.met.back() >> 32), 0};
        way.step = Way::Step::meet;
    }

    void advance(Way& way) {
        switch (way.step) {
            case Way::Step::find:
                return find(way);
            case Way::Step::meet:
                return meet(way);
            case Way::Step::count:
                return count(way);
            case Way::Step::read:
                return read(way);
            case Way::Step::done:
                return;
        }
    }

    std::size_t size_of(std::size_t cell) const { return cells_.end(cell) - cells_.begin(cell); }
    std::size_t living_rows(std::size_t cell) const { return cells_.living ? cells_.living[cell] : size_of(cell); }

    // The rows of the nearest cells wait. Those that look nearest are the seeds.
    void meet(Way& way) {
        for (const std::uint64_t place : way.met) read(way, cell_at(place), farthest - 1);
        if (way.seeds == 0) return choose(way);
        pick(way, kernels_.cells.smallest_within(way.waiting.sums.data(), way.waiting.n, way.seeds,
                                                 static_cast<std::int32_t>(8 * set_.slabs[0].bytes)));
        way.round = Way::Round::seeds;
        start(way);
    }

    void count_rows(std::size_t n) {
        reading_.rows += static_cast<std::int64_t>(n);
        reading_.bytes += static_cast<std::int64_t>(n * stages_[0].bytes);
    }

    std::int32_t limit_after(std::size_t stage, const Way& way) const {
        if (!way.best.full()) return farthest - 1;
        return stage + 1 == stages_.size() ? way.best.worst() : limits_.at(stage, way.best.worst());
    }

    // Those that were picked are counted from the second stage on.
    void start(Way& way) {
        way.stage = 1;
        way.step = Way::Step::count;
        if (stages_.size() == 1 || way.picked.n == 0) count(way);
    }

    // One stage of those that were picked; after the last one, what comes next.
    void count(Way& way) {
        Picked& picked = way.picked;
        if (way.stage < stages_.size() && picked.n != 0) {
            const Stage& part = stages_[way.stage];
            kernels_.hamming.gather(part.data, part.stride, picked.rows.data(), picked.n,
                                    queries_.at(way.query) + part.offset, part.bytes, picked.sums.data());
            reading_.bytes += static_cast<std::int64_t>(picked.n * part.bytes);
            std::uint32_t* numbers = room_.places(picked.n);
            picked.keep(numbers,
                        kernels_.cells.within(picked.sums.data(), picked.n, limit_after(way.stage, way), numbers));
            ++way.stage;
            if (way.stage < stages_.size() && picked.n != 0) {
                for (std::size_t i = 0; i < picked.n; ++i) ask(way.stage, picked.rows[i]);
                return;
            }
        }
        way.best.add(picked, kernels_.cells);
        picked.n = 0;
        if (way.round == Way::Round::seeds) return choose(way);
        if (way.round == Way::Round::rest) {
            way.step = way.read < way.others.size() ? Way::Step::read : Way::Step::done;
            return;
        }
        way.round = Way::Round::rest;
        if (set_.ids)  // most of the best are found, and written soon
            for (std::size_t i = 0; i < way.best.rows().n; ++i) __builtin_prefetch(set_.ids + way.best.rows().rows[i]);
        pick(way, limit_after(0, way));
        way.waiting.n = 0;
        start(way);
    }

    // Rows that wait and are within a limit.
    void pick(Way& way, std::int32_t limit) {
        Picked &waiting = way.waiting, &picked = way.picked;
        std::uint32_t* numbers = room_.places(waiting.n);
        const std::size_t n = kernels_.cells.within(waiting.sums.data(), waiting.n, limit, numbers);
        picked.make_room(n);
        for (std::size_t i = 0; i < n; ++i) {
            picked.put(waiting.rows[numbers[i]], waiting.sums[numbers[i]]);
            waiting.sums[numbers[i]] = farthest;
            ask(1, waiting.rows[numbers[i]]);
        }
    }

    // The other cells, now that it is known how far the neighbours are.
    void choose(Way& way) {
        way.visit.bound = way.best.worst();
        const auto reach = static_cast<std::int64_t>(std::floor(stop_.share * way.visit.bound)) + stop_.slack;
        const std::uint64_t first = std::max<std::size_t>(stop_.first, 1);
        const auto goes_on = [&](std::int32_t distance, std::uint64_t before) {
            return std::int64_t{stop_.slope} * distance + octaves(before + first) <= reach;
        };
        if (goes_on(way.visit.front, way.living))
            go_on_to(
                way, cells_, goes_on, [&](std::uint32_t cell) { return living_rows(cell); }, kernels_.cells, room_);
        way.visit.cells = static_cast<std::int32_t>(way.met.size() + way.others.size());
        if (queries_.n < worth_sharing)
            for (std::size_t i = 0; i < std::min(way.others.size(), cells_ahead); ++i) ask(way.others[i]);
        way.step = Way::Step::read;
    }

    // Other cells, until many of their rows wait.
    void read(Way& way) {
        const std::int32_t limit = limit_after(0, way);
        for (; way.read < way.others.size() && way.waiting.n < most_waiting; ++way.read) {
            if (way.read + cells_ahead < way.others.size()) ask(way.others[way.read + cells_ahead]);
            read(way, way.others[way.read], limit);
        }
        go_on(way);
    }

    // Of the rows that wait and may be near, the nearest go first: they bring the bound down.
    void go_on(Way& way) {
        const std::int32_t limit = limit_after(0, way);
        const bool alike = stages_.size() == 1 || !way.best.full();
        pick(way, alike ? limit : limit * 4 / 5);
        way.round = Way::Round::first;
        start(way);
    }

    // The rows of a cell; those within the limit wait.
    void read(Way& way, std::size_t cell, std::int32_t limit) {
        const Slab& slab = set_.slabs[0];
        const std::size_t row = cells_.begin(cell), n = size_of(cell);
        const std::uint8_t* data = slab.data + row * slab.bytes;
        Picked& waiting = way.waiting;
        waiting.make_room(n + few);
        std::uint32_t* rows = waiting.rows.data() + waiting.n;
        std::int32_t* sums = waiting.sums.data() + waiting.n;
        std::size_t found;
        if (kernels_.cells.near && slab.bytes == 64) {
            found = kernels_.cells.near(data, n, queries_.at(way.query), limit, static_cast<std::uint32_t>(row), rows,
                                        sums);
        } else {
            found = kernels_.hamming.near(data, slab.bytes, n, queries_.at(way.query), slab.bytes, limit, rows, sums);
            for (std::size_t i = 0; i < found; ++i) rows[i] += static_cast<std::uint32_t>(row);
        }
        if (set_.alive) {
            std::size_t living = 0;
            for (std::size_t i = 0; i < found; ++i) {
                rows[living] = rows[i];
                sums[living] = sums[i];
                living += set_.is_alive(rows[i]);
            }
            found = living;
        }
        waiting.n += found;
        count_rows(n);
    }

    // Asks memory for what is compared soon: the rows of a cell, or what a stage wants of a row.
    void ask(std::size_t cell) const {
        const Slab& slab = set_.slabs[0];
        const std::uint8_t* data = slab.data + cells_.begin(cell) * slab.bytes;
        const std::size_t n = std::min(size_of(cell) * slab.bytes, most_ahead);
        for (std::size_t j = 0; j < n; j += 64) __builtin_prefetch(data + j, 0, 2);
    }
    void ask(std::size_t stage, std::size_t row) const {
        if (stage == stages_.size()) return;
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
    const std::size_t far_stride_;  // distances to centres begin a cache line
    Reading reading_;
    Room& room_;
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
        thread_local std::unique_ptr<Room> kept;  // taken away while it is used: a poll may search, too
        std::unique_ptr<Room> room = kept ? std::move(kept) : std::make_unique<Room>();
        Reader reader({queries.at(first), n, queries.bytes}, set, stages, cells, k, stop, limits, *room);
        readings[task] = reader.run(ids + first * k, distances + first * k, visits + first);
        if (room->held() <= most_kept) kept = std::move(room);
    });
    for (const Reading& one : readings) {
        all.rows += one.rows;
        all.bytes += one.bytes;
        all.ranking += one.ranking;
    }
    return all;
}

}  // namespace bilsh
