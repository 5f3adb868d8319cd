// What one instruction set offers to the encoders: a table of functions, one per level. Plain pointers only, because
// the same source is compiled once per level (kernels.h). All strides are in elements.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bilsh {

// The bits made of each value. Values are numbered; bits first[u] .. first[u + 1] of the sorted arrays use value u.
struct BitTable {
    const uint32_t* first;
    const uint32_t* position;  // where the bit lies in the code
    const float* offset;
    const float* tau;  // null: sign mode
};

enum class Variate { gaussian = 0, cauchy = 1, laplace = 2 };

// Rows of weights are padded to a multiple of this many floats, so that vectors may read past their end.
constexpr std::size_t row_padding = 16;

// Rows of weights side by side, so that vectors along the rows read them as they lie: `panel[p * stride + r]` is column
// p of row r. A panel has so many rows, the last one those that are left, up to a multiple of row_padding.
constexpr std::size_t panel_rows = 128;

// Rows of `length` floats that the next product reads. Asked for while this one is made, they come from a distant cache
// or from memory in small portions, for which nothing waits.
struct NextRows {
    const float* const* rows = nullptr;
    std::size_t n = 0, length = 0;
};

struct EncodeKernels {
    std::size_t tile_items;  // items a batch tile holds side by side, T

    // c[r][j] = sum_p a[r][p] * b[p][j] for j < n: one FMA chain per output, p ascending, from 0. c is written up to
    // the next multiple of row_padding columns at most.
    void (*multiply)(const float* const* a, std::size_t rows, const float* b, std::size_t b_stride, std::size_t n,
                     std::size_t inner, float* c, std::size_t c_stride);
    // The same for a tile, b[p][T], and from c when `resume`.
    void (*multiply_tile)(const float* const* a, std::size_t rows, const float* b, std::size_t inner, float* c,
                          std::size_t c_stride, bool resume, const NextRows& next);
    // The same with rows that lie in a panel.
    void (*multiply_panel)(const float* panel, std::size_t stride, std::size_t rows, const float* b, std::size_t inner,
                           float* c, std::size_t c_stride, bool resume);

    // out[t * out_stride + r] = sum_p rows[r][p] * items[t][p]: the same chain, lanes along r. Rows are readable up to
    // a multiple of row_padding.
    void (*dots)(const float* const* rows, std::size_t n_rows, const float* const* items, std::size_t n_items,
                 std::size_t inner, float* out, std::size_t out_stride, bool resume);
    // The same with rows that lie in a panel. Where these are finite, zeros of a single item need not be multiplied.
    void (*panel_dots)(const float* panel, std::size_t stride, std::size_t n_rows, const float* const* items,
                       std::size_t n_items, std::size_t inner, float* out, std::size_t out_stride, bool resume,
                       bool finite);

    // out[e][t] = x[t * x_stride + e], e < n; items beyond n_items are 0. With `target`, entry e goes to row
    // target[e] & 0x7fffffff and changes sign where the top bit is set.
    void (*interleave)(const float* x, std::size_t x_stride, std::size_t n_items, std::size_t n, const uint32_t* target,
                       float* out);

    // out[e] = x[source[e] & 0x7fffffff] with the sign of the top bit, 0 where that index is >= d.
    void (*rearrange)(const float* x, std::size_t d, const uint32_t* source, std::size_t n, float* out);

    // Quantises values[u - begin][t] for begin <= u < end into bit planes: byte [t / 8][position], bit t % 8.
    void (*quantize_tile)(const float* values, std::size_t begin, std::size_t end, const BitTable& bits,
                          uint8_t* planes, std::size_t plane_stride);
    // The same values plus offsets, as floats: out[t * out_stride + position] for t < n_items.
    void (*write_tile)(const float* values, std::size_t begin, std::size_t end, const BitTable& bits,
                       std::size_t n_items, float* out, std::size_t out_stride);
    // Bit planes -> codes. Planes are readable up to a multiple of 64 bits.
    void (*pack_planes)(const uint8_t* planes, std::size_t plane_stride, std::size_t k, std::size_t n_items,
                        uint8_t* codes, std::size_t code_stride);

    // One item: bit r of the value values[index[r]] (or values[r]) * scale + offset[r]. index, offset and tau are
    // readable up to a multiple of 64; so are values when there is no index. `offset` may be null.
    void (*quantize_item)(const float* values, const uint32_t* index, float scale, const float* offset,
                          const float* tau, std::size_t k, uint8_t* code);
    void (*write_item)(const float* values, const uint32_t* index, float scale, const float* offset, std::size_t k,
                       float* out);

    // Weights [row_begin, row_end) x [column_begin, column_end) of the stream; columns begin at a multiple of 64 and
    // out rows are written up to a multiple of 64 columns.
    void (*generate)(uint64_t seed, Variate kind, const float* row_scale, std::size_t row_begin, std::size_t row_end,
                     std::size_t column_begin, std::size_t column_end, float* out, std::size_t out_stride);

    // In place: y <- H s3 H s2 H s1 y with the unnormalised Walsh-Hadamard transform, strides 1, 2, 4, ...
    void (*hadamard)(float* y, std::size_t size, const float* signs);
};

}  // namespace bilsh
