// What each instruction set offers to a search by cells, beside distances: short runs of numbers, looked through.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bilsh {

// Rows that memory is asked for while others are compared: where many are asked for at once, the processor waits.
struct RowsAhead {
    const std::uint8_t* rows;
    std::size_t stride;
    const std::uint8_t* more;  // null: nothing more
    std::size_t more_stride, n;
    std::size_t at_once;  // for sixteen rows that are compared

    void ask() {
        for (std::size_t i = at_once < n ? at_once : n; i > 0; --i, --n) {
            // Where all that is counted of a row is in a cache, it comes to the first one.
            if (more) {
                __builtin_prefetch(rows, 0, 3);
                __builtin_prefetch(more, 0, 3);
                more += more_stride;
            } else {
                __builtin_prefetch(rows, 0, 2);
            }
            rows += stride;
        }
    }
    void ask_all() {
        while (n != 0) ask();
    }
};

struct CellKernels {
    // The smallest of some values; the largest number for none.
    std::int32_t (*smallest)(const std::int32_t* values, std::size_t n);
    // The smallest limit within which `wanted` of some values are; `most` where there are not so many below it.
    std::int32_t (*smallest_within)(const std::int32_t* values, std::size_t n, std::size_t wanted, std::int32_t most);
    // Writes the ascending positions of values that are at most `limit` and returns how many: those of `select`, here
    // for short runs of values, of which nothing can be foreseen. `out` has room for n + few.
    std::size_t (*within)(const std::int32_t* values, std::size_t n, std::int32_t limit, std::uint32_t* out);
    // Keeps rows whose values are at most `limit`, in their order, and returns how many; there is room for a few more.
    std::size_t (*keep)(std::uint32_t* rows, std::int32_t* values, std::size_t n, std::int32_t limit);
    // How many keys are smaller than each.
    void (*ranks)(const std::uint64_t* keys, std::size_t n, std::uint32_t* out);
    // Numbers, counted from `first`, and distances of rows that are at most `limit`: of 64 bytes of each, one row after
    // the other, and, unless null, of 64 more, so far apart; there is room for n_rows + few of both. Null where
    // distances of all rows are as fast.
    std::size_t (*near)(const std::uint8_t* rows, const std::uint8_t* more, std::size_t more_stride, std::size_t n_rows,
                        const std::uint8_t* query, std::int32_t limit, std::uint32_t first, std::uint32_t* numbers,
                        std::int32_t* distances, RowsAhead& next);
};

inline constexpr std::size_t few = 16;  // that are written at a time

}  // namespace bilsh
