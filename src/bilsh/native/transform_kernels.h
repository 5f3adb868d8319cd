// Bounds and real weights of rows: what scans of transform codes add up.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bilsh {

// Real sums run in so many lanes: bit r adds to lane r % lanes, so that every level adds in the same order.
inline constexpr std::size_t bit_lanes = 16;

// Weights are readable, and zero, up to a multiple of so many bits.
inline constexpr std::size_t weight_padding = 32;

// Bytes of cells are readable up to a multiple of this.
inline constexpr std::size_t cell_padding = 128;

// Sums over the coordinates v of an item and what their cells stand for, r.
struct Products {
    double inside, product, squares;  // of v v, of v r, of r r
};

// How sums of digits become bounds of estimates: far + (scale * (step * sum + bias) + add).
struct Ranking {
    float far, bias, step;
};

struct TransformKernels {
    // What headers at rows + i * stride say: scale[i] = scales[byte 1], add[i] = add_least + add_step * byte 2, times
    // scale[i]^2 unless it is absolute. True if all name the same centre.
    bool (*read_headers)(const std::uint8_t* rows, std::size_t stride, std::size_t n, const float* scales,
                         float add_least, float add_step, bool absolute, float* scale, float* add);
    // lane[r % bit_lanes] += the weights of the set bits r of one row, ascending.
    void (*add_real_weights)(const std::uint8_t* row, std::size_t n_bytes, const float* weights, float* lane);
    // keys[i]: an integer that grows with the bound of row i, see key_of in score_tables.h.
    void (*rank)(const std::int32_t* sums, const float* scale, const float* add, std::size_t n, const Ranking& by,
                 std::int32_t* keys);
    // Eight sums side by side, added up in one order, in double precision.
    double (*squared_distance)(const float* x, const float* y, std::size_t n);
    // Of each of some shrinks: what the cells below stand for at scale 1, r[i] = steps[i] * (cells[i] + 1/2 -
    // halves[i]), beside the values. Eight sums side by side, added up in one order.
    void (*try_shrinks)(const float* values, std::size_t n, const float* shrinks, std::size_t n_shrinks,
                        const float* steps, const float* halves, Products* products);
    // cells[i] = clip(floor(shrink * values[i] / steps[i]) + halves[i], 0, 2 halves[i] - 1), as two bytes.
    void (*quantize)(const float* values, std::size_t n, float shrink, const float* steps, const float* halves,
                     std::uint8_t* low, std::uint8_t* high);
    // Bit j of the code: whether bytes[at[j]] has the bit of mask[j]. No `at` is beyond n, and bytes are readable up to
    // a multiple of cell_padding.
    void (*pack)(const std::uint8_t* bytes, std::size_t n, const std::uint32_t* at, const std::uint8_t* mask,
                 std::size_t n_bytes, std::uint8_t* code);
};

}  // namespace bilsh
