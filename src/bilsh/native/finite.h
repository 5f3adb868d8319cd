// Is everything at the door a number?
#pragma once

#include <cstddef>
#include <cstdint>

namespace bilsh {

// Index of the first NaN or infinity among n floats, or -1.
std::int64_t first_nonfinite(const float* values, std::size_t n);

}  // namespace bilsh
