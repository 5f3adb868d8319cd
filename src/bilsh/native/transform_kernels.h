// Integer and real weights of the set bits of rows: what scans of transform codes add up.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bilsh {

// Real sums run in so many lanes: bit r adds to lane r % lanes, so that every level adds in the same order.
inline constexpr std::size_t bit_lanes = 16;

// Weights are readable, and zero, up to a multiple of so many bits.
inline constexpr std::size_t weight_padding = 32;

// Sums over the coordinates v of an item and what their cells stand for, r.
struct Products {
    double inside, product, squares;  // of v v, of v r, of r r
};

// How integers of a query become the integers that rank: far + scale * (step * sum + bias) + unit * add.
struct Ranking {
    float far, bias, step, unit;
};

struct TransformKernels {
    // sums[i] += the weights of the set bits of the n_bytes bytes at rows + order[i] * stride, i < n.
    void (*add_weights)(const std::uint8_t* rows, std::size_t stride, const std::uint32_t* order, std::size_t n,
                        std::size_t n_bytes, const std::int16_t* weights, std::int32_t* sums);
    // lane[r % bit_lanes] += the weights of the set bits r of one row, ascending.
    void (*add_real_weights)(const std::uint8_t* row, std::size_t n_bytes, const float* weights, float* lane);
    // ranks[i] = the nearest integer of a ranking, with sums[i] + more for the sum, i < n.
    void (*rank)(const std::int32_t* sums, std::int32_t more, const float* scale, const float* add, std::size_t n,
                 const Ranking& by, std::int32_t* ranks);
    // Eight sums side by side, added up in one order, in double precision.
    double (*squared_distance)(const float* x, const float* y, std::size_t n);
    // cells[i] = clip(floor(shrink * values[i] / steps[i]) + halves[i], 0, 2 halves[i] - 1); sums as above.
    Products (*quantize)(const float* values, std::size_t n, float shrink, const float* steps, const float* halves,
                         std::uint32_t* cells);
};

}  // namespace bilsh
