// What each instruction set offers to a search by cells, beside distances: short runs of numbers, looked through.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bilsh {

struct CellKernels {
    // The smallest of some values; the largest number for none.
    std::int32_t (*smallest)(const std::int32_t* values, std::size_t n);
    // The smallest limit within which `wanted` of some values are; `most` where there are not so many below it.
    std::int32_t (*smallest_within)(const std::int32_t* values, std::size_t n, std::size_t wanted, std::int32_t most);
    // Writes the ascending positions of values that are at most `limit` and returns how many: those of `select`, here
    // for short runs of values, of which nothing can be foreseen. `out` has room for n + few.
    std::size_t (*within)(const std::int32_t* values, std::size_t n, std::int32_t limit, std::uint32_t* out);
    // Numbers, counted from `first`, and distances of rows of 64 bytes, one after the other, that are at most `limit`;
    // there is room for n_rows + few of both. Null where HammingKernels::near is as fast.
    std::size_t (*near)(const std::uint8_t* rows, std::size_t n_rows, const std::uint8_t* query, std::int32_t limit,
                        std::uint32_t first, std::uint32_t* numbers, std::int32_t* distances);
};

inline constexpr std::size_t few = 16;  // that are written at a time

}  // namespace bilsh
