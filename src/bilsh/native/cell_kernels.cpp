// Plain loops that every compiler turns into the vectors of an instruction set; compiled once per set.
#include "cell_kernels.h"

namespace bilsh::BILSH_LEVEL {
namespace {

std::int32_t smallest(const std::int32_t* values, std::size_t n) {
    std::int32_t least = INT32_MAX;
    for (std::size_t i = 0; i < n; ++i) least = values[i] < least ? values[i] : least;
    return least;
}

std::size_t count_within(const std::int32_t* values, std::size_t n, std::int32_t limit) {
    std::uint32_t count = 0;
    for (std::size_t i = 0; i < n; ++i) count += values[i] <= limit;
    return count;
}

}  // namespace

extern const CellKernels cell_kernels;
const CellKernels cell_kernels = {smallest, count_within};

}  // namespace bilsh::BILSH_LEVEL
