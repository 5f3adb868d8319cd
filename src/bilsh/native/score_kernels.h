// Real-valued queries against packed bits: sums of table look-ups, one table of 16 sums per half byte.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bilsh {

// Bytes of a code whose look-ups form one partial sum. See scores.h for the order of all additions.
inline constexpr std::size_t score_block = 64;
inline constexpr std::size_t floats_per_byte = 32;

struct ScoreKernels {
    // partial[i] += the table entries of the first n_bytes <= score_block bytes at rows[i], half byte by half byte,
    // ascending. `tables` is readable (and zero in each entry 0) up to the next multiple of 4 bytes.
    void (*look_up)(const std::uint8_t* const* rows, std::size_t n_rows, std::size_t n_bytes, const float* tables,
                    float* partial);
};

}  // namespace bilsh
