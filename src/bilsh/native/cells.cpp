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
#include "cell_rows.h"
#include "kernels.h"
#include "nearest.h"
#include "row_block.h"
#include "threads.h"

namespace bilsh {
namespace {

constexpr std::size_t far_entries = std::size_t{1} << 17;   // distances to centres for which there is room at a time
constexpr std::size_t most_waiting = std::size_t{1} << 15;  // rows of a query that wait to be counted, about
constexpr std::size_t most_kept = std::size_t{1} << 23;     // numbers that a thread holds between calls
constexpr std::size_t side_by_side = 6;                     // queries on their way
constexpr std::size_t together = 256;                       // queries that share cells
constexpr std::size_t worth_sharing = 8;                    // queries

// Some queries, all of whose cells one thread reads. A few are on their way and take turns, a step each; what the next
// step of a query wants of memory is asked for at the end of the one before, and comes while others take theirs.
class Reader {
public:
    Reader(const Queries& queries, const CodeSet& set, const Stages& stages, const Cells& cells, std::size_t k,
           const Stop& stop, const Limits& limits, Room& room)
        : kernels_(bilsh::kernels()),
          queries_(queries),
          set_(set),
          cells_(cells),
          stop_(stop),
          limits_(limits),
          k_(k),
          stages_(stages),
          shares_(queries.n >= worth_sharing),
          rows_(kernels_, queries_, set_, stages_, cells_),
          room_(room) {}

    Reading run(std::int64_t* ids, std::int32_t* distances, Visit* visits) {
        const std::size_t measured = std::clamp<std::size_t>(far_entries / cells_.n, 1, together);
        Sight sight(kernels_, *cells_.regions, room_.sight);
        for (std::size_t first = 0; first < queries_.n; first += together) {
            const std::size_t n = std::min(together, queries_.n - first);
            if (room_.ways.size() < n) room_.ways.resize(n);
            for (std::size_t way = 0; way < n; way += measured) {
                const std::size_t some = std::min(measured, n - way);
                const auto start = std::chrono::steady_clock::now();
                sight.look({queries_.at(first + way), some, queries_.bytes}, stop_.width);
                ranking_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
                centres_ += sight.n_compared();
                for (std::size_t i = 0; i < some; ++i)
                    begin(room_.ways[way + i], first + way + i, {sight.far(i), sight.cells(i), sight.n(i)});
                if (shares_) {
                    for (std::size_t i = 0; i < some; ++i) find(room_.ways[way + i]);
                    share(way, some, true);
                }
                take_turns(way, way + some, Way::Step::read);
            }
            if (shares_) share(0, n, false);
            take_turns(0, n, Way::Step::done);
            for (std::size_t way = 0; way < n; ++way) {
                visits[first + way] = room_.ways[way].visit;
                write_best(room_.ways[way].best.rows(), set_, k_, kernels_.cells, room_.hits, ids + (first + way) * k_,
                           distances + (first + way) * k_);
            }
        }
        Reading reading = rows_.reading();
        reading.ranking = ranking_;
        reading.centres = centres_;
        return reading;
    }

private:
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

    // The nearest cells of some queries, or the others, cell by cell, so that memory brings each once.
    void share(std::size_t first, std::size_t n, bool nearest) {
        const std::vector<CellVisits::Cell>& visited =
            room_.visits.gather(room_.ways.data() + first, n, nearest ? &Way::met : &Way::others, cells_.n);
        for (std::size_t i = 0; i < visited.size(); ++i) {
            if (i % 64 == 0) poll();
            const CellVisits::Cell& cell = visited[i];
            const auto queries = static_cast<std::size_t>(cell.end - cell.begin);
            RowsAhead next = i + 1 < visited.size() ? spread(rows_.ahead(visited[i + 1].number, nearest),
                                                             queries * cells_.size(cell.number))
                                                    : RowsAhead{};
            for (const std::uint32_t* by = cell.begin; by < cell.end; ++by) {
                Way& way = room_.ways[first + *by];
                if (nearest) {
                    rows_.read_all(way.query, cell.number, way.waiting, next);
                    continue;
                }
                if (way.waiting.n >= most_waiting) {
                    go_on(way);
                    while (way.step != Way::Step::read) advance(way);
                }
                rows_.read_near(way.query, cell.number, limit_after(rows_.counted_at_once(), way), way.waiting, next);
                ++way.read;
            }
            next.ask_all();
        }
        rows_.settle();
    }

    // Some of them for every sixteen of so many rows that are compared meanwhile.
    static RowsAhead spread(RowsAhead next, std::size_t rows) {
        next.at_once = ceil_div(next.n, ceil_div(rows, 16) + 1);
        return next;
    }

    void begin(Way& way, std::size_t query, const Centres& centres) {
        way.query = query;
        way.centres = centres;
        way.met.clear();
        way.others.clear();
        way.read = way.picked.n = way.waiting.n = 0;
        way.best.begin(k_, static_cast<std::int32_t>(8 * queries_.bytes));
        way.step = Way::Step::find;
    }

    // The nearest cells, until they hold enough living rows.
    void find(Way& way) {
        poll();
        const std::size_t wanted = std::max(stop_.first, k_);
        const Centres& centres = way.centres;
        way.least = kernels_.cells.smallest(centres.far, centres.n);
        way.limit = way.least + room_.usual_way;
        look_for_cells(way, [&] { return way.living < wanted; }, cells_, kernels_.cells, room_);
        // A few of these are the nearest.
        std::vector<std::uint64_t>& nearest = room_.places_of_cells;
        std::size_t living = 0;
        for (std::int32_t step = 24, limit = way.least + step;; step *= 2, limit += step) {
            nearest.clear();
            living = 0;
            for (const std::uint32_t i : way.seen)
                if (centres.far[i] <= limit) {
                    nearest.push_back(place_of(centres.far[i], centres.cells[i]));
                    living += cells_.living(centres.cells[i]);
                }
            if (living >= wanted || limit >= way.limit) break;
        }
        std::sort(nearest.begin(), nearest.end());
        way.before = 0;
        for (std::size_t i = 0; i < nearest.size() && way.before < wanted; ++i) {
            way.last = nearest[i];
            way.met.push_back(cell_at(way.last));
            way.before += cells_.living(way.met.back());
            if (!shares_) rows_.ahead(way.met.back(), true).ask_all();
        }
        way.seeds = std::min(std::max(stop_.seeds, k_), way.before);
        way.visit = {farthest, static_cast<std::int32_t>(way.last >> 32), 0};
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

    // The rows of the nearest cells wait. Those that look nearest are the seeds.
    void meet(Way& way) {
        RowsAhead nothing{};
        if (!shares_)
            for (const std::uint32_t cell : way.met) rows_.read_all(way.query, cell, way.waiting, nothing);
        if (all_counted()) take_waiting(way);
        if (all_counted() || way.seeds == 0) return choose(way);
        pick(way, kernels_.cells.smallest_within(way.waiting.sums.data(), way.waiting.n, way.seeds,
                                                 static_cast<std::int32_t>(8 * rows_.bytes())));
        way.round = Way::Round::seeds;
        start(way);
    }

    // Whether nothing is left to be counted of rows that wait.
    bool all_counted() const { return rows_.counted() == stages_.later.size(); }

    // How far rows may be once so many of the later stages are counted; of the nearest cells' rows, nothing is known.
    std::int32_t limit_after(std::size_t counted, const Way& way) const {
        if (!way.best.full()) return farthest - 1;
        return counted == stages_.later.size() ? way.best.worst()
                                               : limits_.at(counted - rows_.counted_at_once(), way.best.worst());
    }

    void take_waiting(Way& way) {
        way.best.add(way.waiting, kernels_.cells);
        way.waiting.n = 0;
    }

    // Those that were picked are counted stage by stage.
    void start(Way& way) {
        way.stage = rows_.counted();
        way.step = Way::Step::count;
        if (way.picked.n == 0) count(way);
    }

    // One stage of those that were picked; after the last one, what comes next.
    void count(Way& way) {
        Picked& picked = way.picked;
        if (way.stage < stages_.later.size() && picked.n != 0) {
            const Stage& part = stages_.later[way.stage];
            kernels_.hamming.gather(part.data, part.stride, picked.rows.data(), picked.n,
                                    queries_.at(way.query) + part.offset, part.bytes, picked.sums.data());
            rows_.count_bytes(picked.n * part.bytes);
            ++way.stage;
            picked.keep(limit_after(way.stage, way), kernels_.cells);
            if (way.stage < stages_.later.size() && picked.n != 0) {
                for (std::size_t i = 0; i < picked.n; ++i) rows_.ask(way.stage, picked.rows[i]);
                return;
            }
        }
        way.best.add(picked, kernels_.cells);
        picked.n = 0;
        if (way.round == Way::Round::seeds) return choose(way);
        if (way.round == Way::Round::rest) return pause(way);
        way.round = Way::Round::rest;
        ask_ids(way);
        pick(way, limit_after(rows_.counted(), way));
        way.waiting.n = 0;
        start(way);
    }

    // Nothing waits.
    void pause(Way& way) { way.step = way.read < way.others.size() ? Way::Step::read : Way::Step::done; }

    // Most of the best are found, and written soon.
    void ask_ids(const Way& way) const {
        if (!set_.ids) return;
        for (std::size_t i = 0; i < way.best.rows().n; ++i) __builtin_prefetch(set_.ids + way.best.rows().rows[i]);
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
            rows_.ask(rows_.counted(), waiting.rows[numbers[i]]);
        }
    }

    // The other cells, now that it is known how far the neighbours are.
    void choose(Way& way) {
        way.visit.bound = way.best.worst();
        const auto reach = static_cast<std::int64_t>(std::floor(stop_.share * way.visit.bound)) + stop_.slack;
        const std::uint64_t first = std::max<std::size_t>(stop_.first, 1);
        const auto farthest_after = [&](std::uint64_t before) {
            const std::int64_t left = reach - octaves(before + first);
            if (left < 0) return std::int32_t{-1};
            return stop_.slope == 0
                       ? cells_.unseen()
                       : static_cast<std::int32_t>(std::min<std::int64_t>(left / stop_.slope, cells_.unseen()));
        };
        if (way.visit.front <= farthest_after(way.before)) go_on_to(way, farthest_after, cells_, kernels_.cells, room_);
        way.visit.cells = static_cast<std::int32_t>(way.met.size() + way.others.size());
        if (!shares_) std::sort(way.others.begin(), way.others.end());  // as cells are shared
        if (!shares_ && !way.others.empty()) rows_.ahead(way.others[0], false).ask_all();
        way.step = Way::Step::read;
    }

    // Other cells, until many of their rows wait.
    void read(Way& way) {
        for (; way.read < way.others.size() && way.waiting.n < most_waiting; ++way.read) {
            const std::size_t cell = way.others[way.read];
            RowsAhead next = way.read + 1 < way.others.size()
                                 ? spread(rows_.ahead(way.others[way.read + 1], false), cells_.size(cell))
                                 : RowsAhead{};
            rows_.read_near(way.query, cell, limit_after(rows_.counted_at_once(), way), way.waiting, next);
            next.ask_all();
        }
        go_on(way);
    }

    // Of the rows that wait and may be near, the nearest go first: they bring the bound down.
    void go_on(Way& way) {
        rows_.settle();
        if (all_counted()) {
            take_waiting(way);
            ask_ids(way);
            return pause(way);
        }
        const std::int32_t limit = limit_after(rows_.counted(), way);
        pick(way, way.best.full() ? limit * 4 / 5 : limit);
        way.round = Way::Round::first;
        start(way);
    }

    const Kernels& kernels_;
    const Queries queries_;
    const CodeSet& set_;
    const Cells cells_;
    const Stop stop_;
    const Limits limits_;
    const std::size_t k_;
    const Stages& stages_;
    const bool shares_;  // cells among queries
    CellRows rows_;
    double ranking_ = 0;
    std::int64_t centres_ = 0;
    Room& room_;
};

}  // namespace

void distances_to_centres(const Queries& queries, const Cells& cells, std::int32_t width, int n_jobs,
                          std::int32_t* out) {
    std::fill_n(out, queries.n * cells.n, cells.unseen());
    const std::size_t some = std::clamp<std::size_t>(far_entries / cells.n, 1, together);
    parallel_for(ceil_div(queries.n, some), n_jobs, [&](std::size_t task, int) {
        const std::size_t first = task * some, n = std::min(some, queries.n - first);
        RegionRoom room;
        Sight sight(kernels(), *cells.regions, room);
        sight.look({queries.at(first), n, queries.bytes}, width);
        for (std::size_t q = 0; q < n; ++q)
            for (std::size_t i = 0; i < sight.n(q); ++i)
                out[(first + q) * cells.n + sight.cells(q)[i]] = sight.far(q)[i];
    });
}

Reading cells_top_k(const Queries& queries, const CodeSet& set, const Stages& stages, const Cells& cells, std::size_t k,
                    const Stop& stop, const Limits& limits, int n_jobs, std::int64_t* ids, std::int32_t* distances,
                    Visit* visits) {
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
        all.centres += one.centres;
        all.rows += one.rows;
        all.bytes += one.bytes;
        all.ranking += one.ranking;
    }
    return all;
}

}  // namespace bilsh
