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

// Cells within way.limit, or beyond where that is not enough, and their living rows.
template <class More>
void look_for_cells(Way& way, const More& more, const Cells& cells, const CellKernels& kernels, Room& room) {
    const std::int32_t most = cells.most_far();
    std::uint32_t* numbers = room.places(cells.n);
    way.limit = std::min(most, way.limit);
    for (std::int32_t step = 24;; way.limit = std::min(most, way.limit + step), step *= 2) {
        const std::size_t n = kernels.within(way.far, cells.n, way.limit, numbers);
        way.living = 0;
        for (std::size_t i = 0; i < n; ++i) way.living += cells.living(numbers[i]);
        way.seen.assign(numbers, numbers + n);
        if (way.limit == most || !more()) return;
    }
}

// The cells after those it has met, while the rule says of their distance, and of the living rows before them, that it
// goes on: once it does not, it never does again. Rows are counted by distance, so that cells need no order.
template <class Rule>
void go_on_to(Way& way, const Rule& goes_on, const Cells& cells, const CellKernels& kernels, Room& room) {
    const std::int32_t* far = way.far;
    const std::uint64_t met = way.last;
    const std::int32_t from = way.visit.front;
    const auto beyond = [&] { return goes_on(way.limit + 1, way.living); };
    if (way.limit < cells.most_far() && beyond()) {
        way.limit += 16;
        look_for_cells(way, beyond, cells, kernels, room);
    }
    std::vector<std::uint32_t>& rows = room.rows_at;
    rows.assign(static_cast<std::size_t>(way.limit - from) + 1, 0);
    way.others.resize(way.seen.size());
    std::size_t others = 0;
    for (const std::uint32_t cell : way.seen) {  // which were met cannot be foreseen
        const bool other = place_of(far[cell], cell) > met;
        way.others[others] = cell;
        others += other;
        rows[static_cast<std::size_t>(std::max(far[cell] - from, 0))] +=
            other ? static_cast<std::uint32_t>(cells.living(cell)) : 0;
    }
    std::uint64_t before = way.before;
    std::int32_t at = from;
    for (; at <= way.limit && goes_on(at, before + rows[static_cast<std::size_t>(at - from)]); ++at)
        before += rows[static_cast<std::size_t>(at - from)];
    // All that are nearer, and some of those that are as far.
    std::uint64_t end = place_of(at, 0);
    for (std::size_t i = 0; at <= way.limit && i < others && goes_on(at, before); ++i)
        if (far[way.others[i]] == at) {
            end = place_of(at, way.others[i]) + 1;
            before += cells.living(way.others[i]);
        }
    room.usual_way += (std::max(at - way.least, 24) + 8 - room.usual_way) / 4;
    std::size_t chosen = 0;
    for (std::size_t i = 0; i < others; ++i) {
        const std::uint32_t cell = way.others[i];
        way.others[chosen] = cell;
        chosen += place_of(far[cell], cell) < end;
    }
    way.others.resize(chosen);
}

}  // namespace bilsh
