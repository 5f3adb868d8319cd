#include "finite.h"

#include <algorithm>
#include <cstring>

namespace bilsh {
namespace {

constexpr std::uint32_t exponent = 0x7f800000u;

std::uint32_t bits_of(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

}  // namespace

std::int64_t first_nonfinite(const float* values, std::size_t n) {
    constexpr std::size_t step = 4096;
    for (std::size_t start = 0; start < n; start += step) {
        const std::size_t stop = std::min(start + step, n);
        // A sum of flags without branches, which the compiler vectorises; the exact place is looked for only on a hit.
        std::uint32_t hits = 0;
        for (std::size_t i = start; i < stop; ++i) hits += (bits_of(values[i]) & exponent) == exponent;
        if (hits)
            for (std::size_t i = start; i < stop; ++i)
                if ((bits_of(values[i]) & exponent) == exponent) return static_cast<std::int64_t>(i);
    }
    return -1;
}

}  // namespace bilsh
