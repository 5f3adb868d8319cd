// Which cells a query goes on to, once it knows how far its neighbours are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "cell_room.h"

namespace bilsh {

// Cells in the order in which a query comes to them: by distance, then by number.
inline std::uint64_t place_of(std::int32_t far, std::uint32_t cell) {
    return std::uint64_t{static_cast<std::uint32_t>(far)} << 32 | cell;
}
inline std::uint32_t cell_at(std::uint64_t place) { return static_cast<std::uint32_t>(place); }

// Cells whose centres it has not looked at come last.
inline void look_no_farther(Way& way, const Cells& cells, Room& room) {
    Centres& centres = way.centres;
    if (centres.n == cells.n) return;
    room.marks.assign(cells.n, false);
    for (std::size_t i = 0; i < centres.n; ++i) room.marks[centres.cells[i]] = true;
    for (std::uint32_t cell = 0; cell < cells.n; ++cell) {
        if (room.marks[cell]) continue;
        centres.far[centres.n] = cells.unseen();
        centres.cells[centres.n++] = cell;
    }
}

// Centres within way.limit, or beyond where that is not enough, and the living rows of their cells.
template <class More>
void look_for_cells(Way& way, const More& more, const Cells& cells, const CellKernels& kernels, Room& room) {
    const std::int32_t most = cells.unseen();
    const Centres& centres = way.centres;
    way.limit = std::min(most, way.limit);
    for (std::int32_t step = 24;; way.limit = std::min(most, way.limit + step), step *= 2) {
        if (way.limit == most) look_no_farther(way, cells, room);
        std::uint32_t* places = room.places(centres.n);
        const std::size_t n = kernels.within(centres.far, centres.n, way.limit, places);
        way.living = 0;
        for (std::size_t i = 0; i < n; ++i) way.living += cells.living(centres.cells[places[i]]);
        way.seen.assign(places, places + n);
        if (way.limit == most || !more()) return;
    }
}

// The cells after those it has met, while they are no farther than the rule says of the living rows before them: the
// more there are, the nearer. Rows are counted by distance, so that cells need no order.
template <class Rule>
void go_on_to(Way& way, const Rule& farthest_after, const Cells& cells, const CellKernels& kernels, Room& room) {
    const std::uint64_t met = way.last;
    const std::int32_t from = way.visit.front;
    const auto beyond = [&] { return way.limit < farthest_after(way.living); };
    if (way.limit < cells.unseen() && beyond()) {
        way.limit += 16;
        look_for_cells(way, beyond, cells, kernels, room);
    }
    const Centres& centres = way.centres;
    std::vector<std::uint64_t>& others = room.places_of_cells;
    std::vector<std::uint32_t>& rows = room.rows_at;
    rows.assign(static_cast<std::size_t>(way.limit - from) + 1, 0);
    others.resize(way.seen.size());
    std::size_t n = 0;
    for (const std::uint32_t i : way.seen) {  // which were met cannot be foreseen
        const std::int32_t far = centres.far[i];
        const std::uint32_t cell = centres.cells[i];
        const std::uint64_t place = place_of(far, cell);
        const bool other = place > met;
        others[n] = place;
        n += other;
        rows[static_cast<std::size_t>(std::max(far - from, 0))] +=
            other ? static_cast<std::uint32_t>(cells.living(cell)) : 0;
    }
    others.resize(n);
    std::uint64_t before = way.before;
    std::int32_t at = from;
    for (std::int32_t most = farthest_after(before); at <= way.limit; ++at) {
        const std::uint32_t more = rows[static_cast<std::size_t>(at - from)];
        if (more != 0) most = farthest_after(before + more);
        if (at > most) break;
        before += more;
    }
    // All that are nearer, and some of those that are as far.
    std::uint64_t end = place_of(at, 0);
    if (at <= way.limit && at <= farthest_after(before)) {
        std::vector<std::uint64_t>& level = room.level;
        level.clear();
        for (const std::uint64_t place : others)
            if (place >= end && place < place_of(at + 1, 0)) level.push_back(place);
        std::sort(level.begin(), level.end());
        for (std::size_t i = 0; i < level.size() && at <= farthest_after(before); ++i) {
            end = level[i] + 1;
            before += cells.living(cell_at(level[i]));
        }
    }
    room.usual_way += (std::max(at - way.least, 24) + 8 - room.usual_way) / 4;
    way.others.resize(others.size());
    n = 0;
    for (const std::uint64_t place : others) {
        way.others[n] = cell_at(place);
        n += place < end;
    }
    way.others.resize(n);
}

}  // namespace bilsh
