// Quantisation and packing for the encoders, compiled once per instruction set.
#include "encode_kernels.h"

#include "product_kernels.h"
#include "simd.h"
#include "stream_kernels.h"

namespace bilsh::BILSH_LEVEL {
namespace {

constexpr std::size_t T = tile_items;
constexpr uint32_t index_bits = 0x7fffffffu;

// W entries of W items, starting at item t0: one row of items per entry.
inline void load_transposed(const float* x, std::size_t x_stride, std::size_t n_items, std::size_t t0, std::size_t e,
                            int width, Vec (&block)[W]) {
#pragma GCC unroll 16
    for (int l = 0; l < W; ++l) {
        const float* item = x + (t0 + l) * x_stride + e;
        block[l] = t0 + l >= n_items ? zero() : width == W ? load(item) : load_some(item, width);
    }
    transpose(block);
}

void interleave(const float* x, std::size_t x_stride, std::size_t n_items, std::size_t n, const uint32_t* target,
                float* out) {
    for (std::size_t e = 0; e < n; e += W) {
        const int width = (int)(n - e < (std::size_t)W ? n - e : W);
        for (std::size_t t0 = 0; t0 < T; t0 += W) {
            Vec block[W];
            load_transposed(x, x_stride, n_items, t0, e, width, block);
            for (int s = 0; s < width; ++s) {
                const uint32_t row = target ? target[e + s] : (uint32_t)(e + s);
                store(out + (std::size_t)(row & index_bits) * T + t0, flip(block[s], isplat(row & ~index_bits)));
            }
        }
    }
}

void rearrange(const float* x, std::size_t d, const uint32_t* source, std::size_t n, float* out) {
    std::size_t e = 0;
    for (; e + W <= n; e += W) {
        const Ints from = iload(source + e);
        const Vec value = gather_below(x, (uint32_t)d, iand(from, isplat(index_bits)));
        store(out + e, flip(value, iand(from, isplat(~index_bits))));
    }
    for (; e < n; ++e) {
        const uint32_t from = source[e] & index_bits;
        const float value = from < d ? x[from] : 0.0f;
        out[e] = source[e] >> 31 ? -value : value;
    }
}

// One bit per lane: |z - rint(z)| <= tau in turns (cosine mode), z >= 0 (sign mode).
template <bool cosine>
inline uint32_t quantize_vector(Vec z, Vec tau) {
    if constexpr (cosine)
        return le(abs(sub(z, rint(z))), tau);
    else
        return le(zero(), z);
}

template <bool cosine>
void quantize_tile_as(const float* values, std::size_t begin, std::size_t end, const BitTable& bits, uint8_t* planes,
                      std::size_t plane_stride) {
    for (std::size_t u = begin; u < end; ++u) {
        const float* value = values + (u - begin) * T;
        for (uint32_t s = bits.first[u]; s < bits.first[u + 1]; ++s) {
            const Vec offset = splat(bits.offset[s]);
            const Vec tau = splat(cosine ? bits.tau[s] : 0.0f);
            uint64_t mask = 0;
            for (std::size_t t = 0; t < T; t += W)
                mask |= (uint64_t)quantize_vector<cosine>(add(load(value + t), offset), tau) << t;
            uint8_t* at = planes + bits.position[s];
            for (std::size_t b = 0; b < T / 8; ++b) at[b * plane_stride] = (uint8_t)(mask >> 8 * b);
        }
    }
}

void quantize_tile(const float* values, std::size_t begin, std::size_t end, const BitTable& bits, uint8_t* planes,
                   std::size_t plane_stride) {
    (bits.tau ? quantize_tile_as<true> : quantize_tile_as<false>)(values, begin, end, bits, planes, plane_stride);
}

void write_tile(const float* values, std::size_t begin, std::size_t end, const BitTable& bits, std::size_t n_items,
                float* out, std::size_t out_stride) {
    for (std::size_t u = begin; u < end; ++u)
        for (uint32_t s = bits.first[u]; s < bits.first[u + 1]; ++s)
            for (std::size_t t = 0; t < n_items; ++t)
                out[t * out_stride + bits.position[s]] = values[(u - begin) * T + t] + bits.offset[s];
}

// Writes the first `width` <= 64 bits of a word; the padding bits of its last byte are 0.
inline void write_word(uint64_t word, std::size_t width, uint8_t* code) {
    if (width < 64) word &= ((uint64_t)1 << width) - 1;
    for (std::size_t b = 0; b < (width + 7) / 8; ++b) code[b] = (uint8_t)(word >> 8 * b);
}

void pack_planes(const uint8_t* planes, std::size_t plane_stride, std::size_t k, std::size_t n_items, uint8_t* codes,
                 std::size_t code_stride) {
    for (std::size_t t0 = 0; t0 < n_items; t0 += 8) {
        const uint8_t* plane = planes + t0 / 8 * plane_stride;
        const std::size_t items = n_items - t0 < 8 ? n_items - t0 : 8;
        for (std::size_t r = 0; r < k; r += 64) {
            uint64_t word[8];
            transpose_plane(plane + r, word);
            for (std::size_t t = 0; t < items; ++t) {
                uint8_t* code = codes + (t0 + t) * code_stride + r / 8;
                if (k - r >= 64)
                    write_word(word[t], 64, code);
                else
                    write_word(word[t], k - r, code);
            }
        }
    }
}

inline Vec item_values(const float* values, const uint32_t* index, Vec scale, const float* offset, std::size_t r) {
    Vec z = index ? gather(values, iload(index + r)) : load(values + r);
    z = mul(z, scale);
    return offset ? add(z, load(offset + r)) : z;
}

template <bool cosine>
void quantize_item_as(const float* values, const uint32_t* index, float scale, const float* offset, const float* tau,
                      std::size_t k, uint8_t* code) {
    for (std::size_t r = 0; r < k; r += 64) {
        uint64_t word = 0;
        for (std::size_t s = 0; s < 64; s += W) {
            const Vec z = item_values(values, index, splat(scale), offset, r + s);
            word |= (uint64_t)quantize_vector<cosine>(z, cosine ? load(tau + r + s) : zero()) << s;
        }
        if (k - r >= 64)
            write_word(word, 64, code + r / 8);
        else
            write_word(word, k - r, code + r / 8);
    }
}

void quantize_item(const float* values, const uint32_t* index, float scale, const float* offset, const float* tau,
                   std::size_t k, uint8_t* code) {
    (tau ? quantize_item_as<true> : quantize_item_as<false>)(values, index, scale, offset, tau, k, code);
}

void write_item(const float* values, const uint32_t* index, float scale, const float* offset, std::size_t k,
                float* out) {
    for (std::size_t r = 0; r < k; r += W) {
        const Vec z = item_values(values, index, splat(scale), offset, r);
        store_some(out + r, z, (int)(k - r < (std::size_t)W ? k - r : W));
    }
}

}  // namespace

extern const EncodeKernels encode_kernels;
const EncodeKernels encode_kernels = {T,           multiply,      multiply_tile, multiply_panel, dots,
                                      panel_dots,  interleave,    rearrange,     quantize_tile,  write_tile,
                                      pack_planes, quantize_item, write_item,    generate,       hadamard};

}  // namespace bilsh::BILSH_LEVEL
