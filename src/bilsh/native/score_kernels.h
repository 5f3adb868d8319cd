// Real-valued queries against packed bits: sums of table look-ups, one table of 16 sums per half byte.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bilsh {

// Bytes of a code whose look-ups form one partial sum. See scores.h for the order of all additions.
inline constexpr std::size_t score_block = 64;
inline constexpr std::size_t floats_per_byte = 32;

// A first look at scores by small integers: the sums of a half byte as two digits of six bits, 16 low digits and then 16
// high ones. Codes pass in panels of at most so many bytes.
inline constexpr std::size_t digit_panel = 512;
inline constexpr std::size_t digits_per_byte = 64;

struct ScoreKernels {
    // partial[i] += the table entries of the first n_bytes <= score_block bytes at rows[i], half byte by half byte,
    // ascending. `tables` is readable (and zero in each entry 0) up to the next multiple of 4 bytes.
    void (*look_up)(const std::uint8_t* const* rows, std::size_t n_rows, std::size_t n_bytes, const float* tables,
                    float* partial);

    // `lanes` rows lie side by side in half bytes, two bytes for each; 0 where there are no look-ups of bytes. n_rows is a
    // multiple of it.
    std::size_t lanes;
    void (*pack)(const std::uint8_t* rows, std::size_t row_stride, std::size_t n_rows, std::size_t n_bytes,
                 std::uint8_t* packed);
    // sums[r] += low + 64 high of all half bytes of n_bytes <= digit_panel bytes.
    void (*add_packed_digits)(const std::uint8_t* packed, std::size_t n_rows, std::size_t n_bytes,
                              const std::uint8_t* digits, std::int32_t* sums);
    // The same of `lanes` rows as they are, of any length.
    void (*add_digits_of_rows)(const std::uint8_t* rows, std::size_t row_stride, std::size_t n_bytes,
                               const std::uint8_t* digits, std::int32_t* sums);
};

}  // namespace bilsh
