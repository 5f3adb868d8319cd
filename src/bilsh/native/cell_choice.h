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
inline std::int32_t distance_of(std::uint64_t place) { return static_cast<std::int32_t>(place >> 32); }
inline std::uint32_t cell_at(std::uint64_t place) { return static_cast<std::uint32_t>(place); }

inline constexpr std::size_t few_cells = 32;

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

// Takes cells in their order while they are no farther than the rule says of the living rows before them, and tells how
// far it came. Few are put where they belong by comparing all with all: nothing to foresee.
template <class Rule>
std::int32_t take_few(Way& way, const std::vector<std::uint64_t>& places, const Rule& farthest_after,
                      const Cells& cells, const CellKernels& kernels) {
    std::uint32_t ranks[few_cells];
    std::uint64_t sorted[few_cells];
    const std::size_t n = places.size();
    kernels.ranks(places.data(), n, ranks);
    for (std::size_t i = 0; i < n; ++i) sorted[ranks[i]] = places[i];
    std::uint64_t before = way.before;
    way.others.clear();
    for (std::size_t i = 0; i < n; ++i) {
        if (distance_of(sorted[i]) > farthest_after(before)) return distance_of(sorted[i]);
        way.others.push_back(cell_at(sorted[i]));
        before += cells.living(way.others.back());
    }
    return way.limit;
}

// Of many, rows are counted by distance, so that cells need no order but those of one distance.
template <class Rule>
std::int32_t take_many(Way& way, const std::vector<std::uint64_t>& places, const Rule& farthest_after,
                       const Cells& cells, Room& room) {
    const std::int32_t from = way.visit.front;
    std::vector<std::uint32_t>& rows = room.rows_at;
    rows.assign(static_cast<std::size_t>(way.limit - from) + 1, 0);
    for (const std::uint64_t place : places)
        rows[static_cast<std::size_t>(distance_of(place) - from)] +=
            static_cast<std::uint32_t>(cells.living(cell_at(place)));
    std::uint64_t before = way.before;
    std::int32_t at = from;
    for (; at <= way.limit; ++at) {
        const std::uint32_t more = rows[static_cast<std::size_t>(at - from)];
        if (at > farthest_after(before + more)) break;
        before += more;
    }
    std::vector<std::uint64_t>& level = room.level;
    level.clear();
    way.others.clear();
    for (const std::uint64_t place : places) {
        if (distance_of(place) < at) way.others.push_back(cell_at(place));
        if (distance_of(place) == at) level.push_back(place);
    }
    std::sort(level.begin(), level.end());
    for (std::size_t i = 0; i < level.size() && at <= farthest_after(before); ++i) {
        way.others.push_back(cell_at(level[i]));
        before += cells.living(way.others.back());
    }
    return at;
}

// The cells after those it has met, while they are no farther than the rule says of the living rows before them: the
// more there are, the nearer.
template <class Rule>
void go_on_to(Way& way, const Rule& farthest_after, const Cells& cells, const CellKernels& kernels, Room& room) {
    const auto beyond = [&] { return way.limit < farthest_after(way.living); };
    if (way.limit < cells.unseen() && beyond()) {
        way.limit += 16;
        look_for_cells(way, beyond, cells, kernels, room);
    }
    const Centres& centres = way.centres;
    std::vector<std::uint64_t>& others = room.places_of_cells;
    others.resize(way.seen.size());
    const std::uint64_t end = place_of(std::min(way.limit, farthest_after(way.before)) + 1, 0);
    std::size_t n = 0;
    for (const std::uint32_t i : way.seen) {  // which were met cannot be foreseen
        const std::uint64_t place = place_of(centres.far[i], centres.cells[i]);
        others[n] = place;
        n += (place > way.last) & (place < end);
    }
    others.resize(n);
    const std::int32_t at = n <= few_cells ? take_few(way, others, farthest_after, cells, kernels)
                                           : take_many(way, others, farthest_after, cells, room);
    room.usual_way += (std::max(at - way.least, 24) + 8 - room.usual_way) / 4;
}

}  // namespace bilsh
