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

// The cells after those it has met, while the rule says of their distance, and of the living rows before them, that it
// goes on: once it does not, it never does again. Rows are counted by distance, so that cells need no order.
template <class Rule, class Living>
void go_on_to(Way& way, const Cells& cells, const Rule& goes_on, const Living& living_rows, const CellKernels& kernels,
              Room& room) {
    const std::int32_t* far = way.far;
    const std::uint64_t met = way.met.back();
    const std::int32_t from = way.visit.front, most = static_cast<std::int32_t>(8 * cells.bytes);
    std::uint32_t* numbers = room.places(cells.n);
    std::size_t n = 0;
    std::int32_t limit = std::min(most, from + room.usual_way);
    for (std::int32_t step = 16;; limit = std::min(most, limit + step), step *= 2) {
        n = kernels.within(far, cells.n, limit, numbers);
        std::uint64_t living = 0;
        for (std::size_t i = 0; i < n; ++i) living += living_rows(numbers[i]);
        if (limit == most || !goes_on(limit + 1, living)) break;
    }
    std::vector<std::uint32_t>& rows = room.rows_at;
    rows.assign(static_cast<std::size_t>(limit - from) + 1, 0);
    std::size_t others = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t cell = numbers[i];
        if (place_of(far[cell], cell) <= met) continue;
        numbers[others++] = cell;
        rows[static_cast<std::size_t>(far[cell] - from)] += static_cast<std::uint32_t>(living_rows(cell));
    }
    std::uint64_t last = met, before = way.living;
    std::int32_t at = from;
    for (; at <= limit && goes_on(at, before); ++at) {
        const std::uint64_t here = rows[static_cast<std::size_t>(at - from)];
        if (goes_on(at, before + here)) {
            last = place_of(at, std::numeric_limits<std::uint32_t>::max());
            before += here;
            continue;
        }
        for (std::size_t i = 0; i < others && goes_on(at, before); ++i)
            if (far[numbers[i]] == at) {
                last = place_of(at, numbers[i]);
                before += living_rows(numbers[i]);
            }
    }
    room.usual_way += (at - from + 8 - room.usual_way) / 4;
    way.others.resize(others);
    std::size_t chosen = 0;
    for (std::size_t i = 0; i < others; ++i) {
        way.others[chosen] = numbers[i];
        chosen += place_of(far[numbers[i]], numbers[i]) <= last;
    }
    way.others.resize(chosen);
}

}  // namespace bilsh
