// Real-valued queries against packed bits: sums of table look-ups, one table of 16 sums per half byte.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bilsh {

// Bytes of a code whose look-ups form one partial sum. See scores.h for the order of all additions.
inline constexpr std::size_t score_block = 64;
inline constexpr std::size_t floats_per_byte = 32;

// A first look at scores by small integers: the sums of a half byte as one or two digits, in tables whose layout
// differs by instruction set. Codes pass in panels of at most so many bytes.
inline constexpr std::size_t digit_panel = 512;

// For every `unit` bytes of a code: the digits of one place after the other, in them those of low halves and of high
// ones as the layout says, in them 16 entries for each byte. Each digit has so many bits.
struct DigitLayout {
    std::size_t unit;
    int bits;
    bool has_factors;  // each table has its own factor, and so a single digit is often enough

    std::size_t bytes(std::size_t n_bytes, int n_digits) const {
        return (n_bytes + unit - 1) / unit * unit * 32 * static_cast<std::size_t>(n_digits);
    }
    // Of the table of one half of a byte.
    std::size_t place(std::size_t byte, std::size_t high_half, int digit, int n_digits) const {
        const std::size_t d = static_cast<std::size_t>(digit), n = static_cast<std::size_t>(n_digits);
        if (unit == 1) return byte * 32 * n + high_half * 16 * n + 16 * d;
        return byte / unit * 32 * unit * n + d * 32 * unit + high_half * 16 * unit + byte % unit * 16;
    }
};

// Digits of one query, and the factors of low halves and of high ones for each unit; those are 1 where there are two
// digits.
struct DigitTables {
    const std::uint8_t* digits;
    const std::int8_t* factors;
    int n_digits;
};

struct ScoreKernels {
    // The sums of four weights, for each group of four: out[16 g + b] is that of the bits of b.
    void (*tables)(const float* weights, std::size_t n_groups, float* out);
    // partial[i] += the table entries of the first n_bytes <= score_block bytes at rows[i], half byte by half byte,
    // ascending. `tables` is readable (and zero in each entry 0) up to the next multiple of 4 bytes.
    void (*look_up)(const std::uint8_t* const* rows, std::size_t n_rows, std::size_t n_bytes, const float* tables,
                    float* partial);

    // The digits of a half byte's 16 sums: round((sum - least) * scale), at most `most`, the lower `bits` of it in
    // first, the rest in second, which may be null.
    void (*digits)(const float* sums, float least, float scale, float most, int bits, std::uint8_t* first,
                   std::uint8_t* second);

    // `lanes` rows lie side by side in half bytes, two bytes for each; 0 where there are no look-ups of bytes. n_rows
    // is a multiple of it. Codes are padded to whole units of the layout.
    std::size_t lanes;
    DigitLayout layout;
    void (*pack)(const std::uint8_t* rows, std::size_t row_stride, std::size_t n_rows, std::size_t n_bytes,
                 std::uint8_t* packed);
    // sums[q * sums_stride + r] += the first digits, times their factors, and 2^bits times the second ones of all half
    // bytes of n_bytes <= digit_panel bytes.
    void (*add_packed_digits)(const std::uint8_t* packed, std::size_t n_rows, std::size_t n_bytes,
                              const DigitTables* tables, std::size_t n_queries, std::int32_t* sums,
                              std::size_t sums_stride);
    // The same of rows as they are, of any length, and one query.
    void (*add_digits_of_rows)(const std::uint8_t* rows, std::size_t row_stride, std::size_t n_rows,
                               std::size_t n_bytes, const DigitTables& tables, std::int32_t* sums);
};

}  // namespace bilsh
