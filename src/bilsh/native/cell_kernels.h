// What each instruction set offers to a search by cells, beside distances: short runs of numbers, looked through.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bilsh {

struct CellKernels {
    // The smallest of some values; the largest number for none.
    std::int32_t (*smallest)(const std::int32_t* values, std::size_t n);
    // How many are at most `limit`.
    std::size_t (*count_within)(const std::int32_t* values, std::size_t n, std::int32_t limit);
};

}  // namespace bilsh
