// Integer and real weights of the set bits of rows: what scans of transform codes add up.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bilsh {

// Real sums run in so many lanes: bit r adds to lane r % lanes, so that every level adds in the same order.
inline constexpr std::size_t bit_lanes = 16;

// Weights are readable, and zero, up to a multiple of so many bits.
inline constexpr std::size_t weight_padding = 32;

struct TransformKernels {
    // sums[order[i]] += the weights of the set bits of the n_bytes bytes at rows + order[i] * stride, i < n.
    void (*add_weights)(const std::uint8_t* rows, std::size_t stride, const std::uint32_t* order, std::size_t n,
                        std::size_t n_bytes, const std::int16_t* weights, std::int32_t* sums);
    // lane[r % bit_lanes] += the weights of the set bits r of one row, ascending.
    void (*add_real_weights)(const std::uint8_t* row, std::size_t n_bytes, const float* weights, float* lane);
    // sums[i] = start[centre[i]] + round(factor * extra[i]), to the nearest even, i < n.
    void (*start_sums)(const std::uint8_t* centre, const std::uint16_t* extra, std::size_t n, const std::int32_t* start,
                       float factor, std::int32_t* sums);
};

}  // namespace bilsh
