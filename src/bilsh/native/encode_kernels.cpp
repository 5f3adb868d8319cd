// Matrix products, quantisation and packing for the encoders, compiled once per instruction set.
#include "encode_kernels.h"

#include "simd.h"
#include "stream_kernels.h"

namespace bilsh::BILSH_LEVEL {
namespace {

constexpr std::size_t T = tile_items;
constexpr uint32_t index_bits = 0x7fffffffu;

// How the columns of b lie: whole tiles (row stride T), without or with others to be asked for meanwhile, whole vectors
// at any stride, or with a partial last vector.
enum class Strip { tile, tile_ahead, whole, partial };

// Lines of the next rows, to be asked for one after the other.
class Ahead {
public:
    explicit Ahead(const NextRows& next) : row_(next.rows), last_(next.rows + next.n), length_(next.length) {}

    void ask(std::size_t lines) {
        for (; lines > 0; --lines) {
            if (at_ >= end_) {
                if (row_ == last_) return;
                at_ = *row_++;
                end_ = at_ + length_;
            }
            __builtin_prefetch(at_, 0, 2);
            at_ += line;
        }
    }

private:
    static constexpr std::size_t line = 64 / sizeof(float);
    const float *at_ = nullptr, *end_ = nullptr;
    const float *const *row_, *const *last_;
    std::size_t length_;
};

// Steps of the chain between two portions that are asked for, each of as many lines: enough for a tile to come while
// two blocks of rows pass over the one before.
constexpr std::size_t steps_between = 16;

// The register block: R x C accumulators, one broadcast of a per row, C loads of b, per step of the chain. A stride
// known to the compiler leaves a register for each of the R row pointers; asking within a step would take some of them.
template <int R, int C, Strip strip>
inline void multiply_block(const float* const* a, const float* b, std::size_t any_stride, std::size_t inner, int tail,
                           float* c, std::size_t c_stride, bool resume, Ahead& ahead) {
    const std::size_t b_stride = strip == Strip::tile || strip == Strip::tile_ahead ? T : any_stride;
    const std::size_t steps = strip == Strip::tile_ahead ? steps_between : inner;
    Vec acc[R][C];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int j = 0; j < C; ++j) acc[r][j] = resume ? load(c + r * c_stride + j * W) : zero();
    const float* row[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) row[r] = a[r];
    for (std::size_t begin = 0; begin < inner; begin += steps) {
        if constexpr (strip == Strip::tile_ahead) ahead.ask(steps);
        const std::size_t end = inner - begin < steps ? inner : begin + steps;
#pragma GCC unroll 4
        for (std::size_t p = begin; p < end; ++p, b += b_stride) {
            Vec x[C];
#pragma GCC unroll 4
            for (int j = 0; j < C; ++j)
                x[j] = strip == Strip::partial && j == C - 1 ? load_some(b + j * W, tail) : load(b + j * W);
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r) {
                const Vec weight = splat(row[r][p]);
#pragma GCC unroll 4
                for (int j = 0; j < C; ++j) acc[r][j] = fma(weight, x[j], acc[r][j]);
            }
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int j = 0; j < C; ++j) store(c + r * c_stride + j * W, acc[r][j]);
}

template <int R, int C, Strip strip>
inline void multiply_rows(int rows, const float* const* a, const float* b, std::size_t b_stride, std::size_t inner,
                          int tail, float* c, std::size_t c_stride, bool resume, Ahead& ahead) {
    if (rows == R)
        multiply_block<R, C, strip>(a, b, b_stride, inner, tail, c, c_stride, resume, ahead);
    else if constexpr (R > 1)
        multiply_rows<R - 1, C, strip>(rows, a, b, b_stride, inner, tail, c, c_stride, resume, ahead);
}

// All rows, one strip of C vectors. Rows are dealt evenly to the register blocks: 13 rows make 7 + 6, not 12 + 1.
template <int C, Strip strip>
void multiply_strip(const float* const* a, std::size_t rows, const float* b, std::size_t b_stride, std::size_t inner,
                    int tail, float* c, std::size_t c_stride, bool resume = false, const NextRows& next = {}) {
    const std::size_t blocks = (rows + block_rows - 1) / block_rows;
    std::size_t begin = 0;
    Ahead ahead(next);
    for (std::size_t i = 0; i < blocks; ++i) {
        const std::size_t end = begin + (rows - begin + (blocks - i) - 1) / (blocks - i);
        multiply_rows<block_rows, C, strip>((int)(end - begin), a + begin, b, b_stride, inner, tail,
                                            c + begin * c_stride, c_stride, resume, ahead);
        begin = end;
    }
}

void multiply_tile(const float* const* a, std::size_t rows, const float* b, std::size_t inner, float* c,
                   std::size_t c_stride, bool resume, const NextRows& next) {
    if (next.n == 0)
        multiply_strip<block_vectors, Strip::tile>(a, rows, b, T, inner, 0, c, c_stride, resume, next);
    else
        multiply_strip<block_vectors, Strip::tile_ahead>(a, rows, b, T, inner, 0, c, c_stride, resume, next);
}

void multiply(const float* const* a, std::size_t rows, const float* b, std::size_t b_stride, std::size_t n,
              std::size_t inner, float* c, std::size_t c_stride) {
    if (n == T && b_stride == T) {
        multiply_tile(a, rows, b, inner, c, c_stride, false, {});
        return;
    }
    std::size_t j = 0;
    for (; j + block_vectors * W <= n; j += block_vectors * W)
        multiply_strip<block_vectors, Strip::whole>(a, rows, b + j, b_stride, inner, 0, c + j, c_stride);
    if constexpr (block_vectors == 2)
        if (n - j > W) {
            multiply_strip<2, Strip::partial>(a, rows, b + j, b_stride, inner, (int)(n - j) - W, c + j, c_stride);
            return;
        }
    if (n > j) multiply_strip<1, Strip::partial>(a, rows, b + j, b_stride, inner, (int)(n - j), c + j, c_stride);
}

// Up to W rows in lanes: their W x W blocks are transposed in registers, once for all N items.
template <int N>
inline void dots_block(const float* const* rows, int n_rows, const float* const* items, std::size_t inner, float* out,
                       std::size_t out_stride, bool resume) {
    Vec acc[N];
#pragma GCC unroll 8
    for (int t = 0; t < N; ++t) acc[t] = resume ? load_some(out + t * out_stride, n_rows) : zero();
    std::size_t p = 0;
    Vec column[W];
    for (; p + W <= inner; p += W) {
        load_columns(rows, p, column);
#pragma GCC unroll 16
        for (int s = 0; s < W; ++s)
#pragma GCC unroll 8
            for (int t = 0; t < N; ++t) acc[t] = fma(splat(items[t][p + s]), column[s], acc[t]);
    }
    if (p < inner) {
        const int rest = (int)(inner - p);
        load_columns(rows, p, column);
#pragma GCC unroll 16
        for (int s = 0; s < W; ++s) {
            if (s >= rest) break;
#pragma GCC unroll 8
            for (int t = 0; t < N; ++t) acc[t] = fma(splat(items[t][p + s]), column[s], acc[t]);
        }
    }
#pragma GCC unroll 8
    for (int t = 0; t < N; ++t) store_some(out + t * out_stride, acc[t], n_rows);
}

template <int N>
inline void dots_items(int n, const float* const* rows, int n_rows, const float* const* items, std::size_t inner,
                       float* out, std::size_t out_stride, bool resume) {
    if (n == N)
        dots_block<N>(rows, n_rows, items, inner, out, out_stride, resume);
    else if constexpr (N > 1)
        dots_items<N - 1>(n, rows, n_rows, items, inner, out, out_stride, resume);
}

void dots(const float* const* rows, std::size_t n_rows, const float* const* items, std::size_t n_items,
          std::size_t inner, float* out, std::size_t out_stride, bool resume) {
    constexpr std::size_t items_at_once = 8;
    const std::size_t groups = (n_items + items_at_once - 1) / items_at_once;
    for (std::size_t r = 0; r < n_rows; r += W) {
        const float* lane_rows[W];
        const int n = (int)(n_rows - r < (std::size_t)W ? n_rows - r : W);
        for (int l = 0; l < W; ++l) lane_rows[l] = rows[r + (l < n ? l : 0)];
        std::size_t t = 0;
        for (std::size_t g = 0; g < groups; ++g) {
            const std::size_t count = (n_items - t + (groups - g) - 1) / (groups - g);
            dots_items<items_at_once>((int)count, lane_rows, n, items + t, inner, out + t * out_stride + r, out_stride,
                                      resume);
            t += count;
        }
    }
}

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
const EncodeKernels encode_kernels = {T,          multiply,      multiply_tile, dots,        interleave,
                                      rearrange,  quantize_tile, write_tile,    pack_planes, quantize_item,
                                      write_item, generate,      hadamard};

}  // namespace bilsh::BILSH_LEVEL
