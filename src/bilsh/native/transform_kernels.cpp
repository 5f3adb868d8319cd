// Sums of the weights of set bits, compiled once per instruction set. Real sums have one order, so all levels give the
// same.
#include "transform_kernels.h"

#include "simd.h"

namespace bilsh::BILSH_LEVEL {
namespace {

using std::int32_t;
using std::size_t;
using std::uint32_t;
using std::uint64_t;
using std::uint8_t;

// Up to four bytes of a row; those beyond n are zero.
inline uint32_t load_word(const uint8_t* row, size_t n) {
    uint32_t word = 0;
    if (n >= 4)
        __builtin_memcpy(&word, row, 4);
    else
        for (size_t b = 0; b < n; ++b) word |= static_cast<uint32_t>(row[b]) << 8 * b;
    return word;
}

bool read_headers(const uint8_t* rows, size_t stride, size_t n, const float* scales, float add_least, float add_step,
                  bool absolute, float* scale, float* add) {
    uint32_t differs = 0;
    const uint32_t first = n == 0 ? 0 : load_word(rows, 4);
    for (size_t i = 0; i < n; ++i, rows += stride) {
        const uint32_t header = load_word(rows, 4);
        differs |= header ^ first;
        scale[i] = scales[header >> 8 & 255];
        add[i] = static_cast<float>(static_cast<int32_t>(header >> 16 & 255));
    }
    if (absolute)
        for (size_t i = 0; i < n; ++i) add[i] = add_least + add_step * add[i];
    else
        for (size_t i = 0; i < n; ++i) add[i] = scale[i] * scale[i] * (add_least + add_step * add[i]);
    return (differs & 255) == 0;
}

// Without branches, which bits of codes would mislead. To bit l, alone in its lane, comes what moves it to the sign,
// and the sign becomes a mask of the weight.
void add_real_weights(const uint8_t* row, size_t n_bytes, const float* weights, float* lane) {
    constexpr size_t vectors = bit_lanes / W;
    static_assert(bit_lanes % W == 0, "lanes fill whole vectors");
    Ints place[vectors], carry[vectors];
    Vec sum[vectors];
    for (size_t v = 0; v < vectors; ++v) {
        uint32_t bit[W], missing[W];
        for (size_t l = 0; l < W; ++l) {
            bit[l] = 1u << (W * v + l);
            missing[l] = 0x80000000u - bit[l];
        }
        place[v] = iload(bit);
        carry[v] = iload(missing);
        sum[v] = load(lane + W * v);
    }
    for (size_t j = 0; j < n_bytes; j += 2, weights += bit_lanes) {
        const Ints word = isplat(load_word(row + j, n_bytes - j < 2 ? n_bytes - j : 2));
        for (size_t v = 0; v < vectors; ++v) {
            const Ints mask = sar<31>(iadd(iand(word, place[v]), carry[v]));
            sum[v] = add(sum[v], as_float(iand(as_ints(load(weights + W * v)), mask)));
        }
    }
    for (size_t v = 0; v < vectors; ++v) store(lane + W * v, sum[v]);
}

void rank(const int32_t* sums, const float* scale, const float* add, size_t n, const Ranking& by, int32_t* keys) {
    const Ranking all = by;
    for (size_t i = 0; i < n; ++i) {
        const float bound = all.far + (scale[i] * (all.step * static_cast<float>(sums[i]) + all.bias) + add[i]);
        int32_t bits;
        __builtin_memcpy(&bits, &bound, sizeof bits);
        keys[i] = bits ^ (bits >> 31 & 0x7fffffff);
    }
}

constexpr size_t lanes = 8;

inline double total_of(const double (&lane)[lanes]) {
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

double squared_distance(const float* x, const float* y, size_t n) {
    double lane[lanes] = {};
    const auto add = [&](size_t i, size_t l) {
        const double off = static_cast<double>(x[i]) - static_cast<double>(y[i]);
        lane[l] += off * off;
    };
    size_t i = 0;
    for (; i + lanes <= n; i += lanes)
        for (size_t l = 0; l < lanes; ++l) add(i + l, l);
    for (size_t l = 0; i < n; ++i, ++l) add(i, l);
    return total_of(lane);
}

// As many doubles as a register holds; as plain arrays GCC would keep sums in memory.
#if defined(__AVX512F__)
constexpr size_t doubles = 8;
#elif defined(__AVX2__)
constexpr size_t doubles = 4;
#else
constexpr size_t doubles = 2;
#endif
using Doubles = double __attribute__((vector_size(doubles * sizeof(double))));

inline Doubles load_doubles(const double* p) {
    Doubles found;
    __builtin_memcpy(&found, p, sizeof found);
    return found;
}

inline void store_doubles(double* p, Doubles values) { __builtin_memcpy(p, &values, sizeof values); }

// Cell of a value, less half the number of cells. Halves are whole, so that nothing is rounded after the floor.
inline float signed_cell(float shrink, float value, float step, float half) {
    float cell = __builtin_floorf(shrink * value / step);
    const float least = -half, last = half - 1.0f;
    cell = cell < least ? least : cell;
    return cell > last ? last : cell;
}

// Arrays on the stack begin at a cache line: it lies anywhere, and registers that cross lines are read half as fast.
constexpr size_t line = 64;

// Some coordinates of an item, padded by zeros that add nothing.
struct Coordinates {
    static constexpr size_t most = 256;
    size_t n;  // a multiple of the lanes
    alignas(line) float value[most], step[most], half[most];
    alignas(line) double wide_value[most], wide_step[most];

    void load(const float* values, const float* steps, const float* halves, size_t some) {
        n = (some + 2 * lanes - 1) / (2 * lanes) * (2 * lanes);
        for (size_t i = 0; i < n; ++i) {
            value[i] = i < some ? values[i] : 0.0f;
            step[i] = i < some ? steps[i] : 1.0f;
            half[i] = i < some ? halves[i] : 1.0f;
            wide_value[i] = static_cast<double>(value[i]);
            wide_step[i] = i < some ? static_cast<double>(step[i]) : 0.0;
        }
    }
};

void add_squares(const Coordinates& from, double* squares) {
#pragma GCC unroll 4
    for (size_t l = 0; l < lanes; l += doubles) {
        Doubles sum = load_doubles(squares + l);
        for (size_t i = l; i < from.n; i += lanes) {
            const Doubles v = load_doubles(from.wide_value + i);
            sum += v * v;
        }
        store_doubles(squares + l, sum);
    }
}

void add_products(const Coordinates& from, float shrink, double* product, double* squares) {
    alignas(line) double cell[Coordinates::most];
    for (size_t i = 0; i < from.n; ++i)
        cell[i] = static_cast<double>(signed_cell(shrink, from.value[i], from.step[i], from.half[i]) + 0.5f);
#pragma GCC unroll 4
    for (size_t l = 0; l < lanes; l += doubles) {
        Doubles products = load_doubles(product + l), sum = load_doubles(squares + l);
        for (size_t i = l; i < from.n; i += lanes) {
            const Doubles r = load_doubles(from.wide_step + i) * load_doubles(cell + i);
            products += load_doubles(from.wide_value + i) * r;
            sum += r * r;
        }
        store_doubles(product + l, products);
        store_doubles(squares + l, sum);
    }
}

void try_shrinks(const float* values, size_t n, const float* shrinks, size_t n_shrinks, const float* steps,
                 const float* halves, Products* products) {
    constexpr size_t at_once = 16;
    for (; n_shrinks > at_once; n_shrinks -= at_once, shrinks += at_once, products += at_once)
        try_shrinks(values, n, shrinks, at_once, steps, halves, products);
    alignas(line) double inside[lanes] = {}, product[at_once][lanes] = {}, squares[at_once][lanes] = {};
    Coordinates some;
    for (size_t i = 0; i < n; i += Coordinates::most) {
        some.load(values + i, steps + i, halves + i, n - i < Coordinates::most ? n - i : Coordinates::most);
        add_squares(some, inside);
        for (size_t t = 0; t < n_shrinks; ++t) add_products(some, shrinks[t], product[t], squares[t]);
    }
    for (size_t t = 0; t < n_shrinks; ++t) products[t] = {total_of(inside), total_of(product[t]), total_of(squares[t])};
}

void quantize(const float* values, size_t n, float shrink, const float* steps, const float* halves, uint8_t* low,
              uint8_t* high) {
    for (size_t i = 0; i < n; ++i) {
        const float cell = signed_cell(shrink, values[i], steps[i], halves[i]) + halves[i];
        const uint32_t bits = static_cast<uint32_t>(static_cast<int32_t>(cell));
        low[i] = static_cast<uint8_t>(bits);
        high[i] = static_cast<uint8_t>(bits >> 8);
    }
}

#if defined(__AVX512VBMI__)
// One byte of each of 64 numbers, from bit `shift` on.
template <int shift>
inline __m512i bytes_of(const uint32_t* from) {
    __m512i found = _mm512_castsi128_si512(_mm512_cvtepi32_epi8(_mm512_srli_epi32(_mm512_loadu_si512(from), shift)));
    found = _mm512_inserti32x4(found, _mm512_cvtepi32_epi8(_mm512_srli_epi32(_mm512_loadu_si512(from + 16), shift)), 1);
    found = _mm512_inserti32x4(found, _mm512_cvtepi32_epi8(_mm512_srli_epi32(_mm512_loadu_si512(from + 32), shift)), 2);
    return _mm512_inserti32x4(found, _mm512_cvtepi32_epi8(_mm512_srli_epi32(_mm512_loadu_si512(from + 48), shift)), 3);
}

// 64 bits at a time, looked up in tables of 128 bytes; returns how many bytes of the code were made so.
size_t pack_words(const uint8_t* bytes, size_t n, const uint32_t* at, const uint8_t* mask, size_t n_bytes,
                  uint8_t* code) {
    constexpr size_t table = 128;
    if (n > 8 * table) return 0;
    size_t made = 0;
    for (; made + 8 <= n_bytes; made += 8, at += 64) {
        const __m512i place = bytes_of<0>(at), which = bytes_of<7>(at);
        __m512i found = _mm512_setzero_si512();
        for (size_t t = 0; t * table < n; ++t) {
            const __m512i first = _mm512_loadu_si512(bytes + t * table);
            const __m512i second = _mm512_loadu_si512(bytes + t * table + table / 2);
            const __mmask64 here = _mm512_cmpeq_epi8_mask(which, _mm512_set1_epi8(static_cast<char>(t)));
            found = _mm512_mask_mov_epi8(found, here, _mm512_permutex2var_epi8(first, place, second));
        }
        const uint64_t word = _mm512_test_epi8_mask(found, _mm512_loadu_si512(mask + 8 * made));
        __builtin_memcpy(code + made, &word, sizeof word);
    }
    return made;
}
#else
size_t pack_words(const uint8_t*, size_t, const uint32_t*, const uint8_t*, size_t, uint8_t*) { return 0; }
#endif

void pack(const uint8_t* bytes, size_t n, const uint32_t* at, const uint8_t* mask, size_t n_bytes, uint8_t* code) {
    for (size_t b = pack_words(bytes, n, at, mask, n_bytes, code); b < n_bytes; ++b) {
        uint32_t packed = 0;
#pragma GCC unroll 8
        for (size_t j = 0; j < 8; ++j)
            packed |= static_cast<uint32_t>((bytes[at[8 * b + j]] & mask[8 * b + j]) != 0) << j;
        code[b] = static_cast<uint8_t>(packed);
    }
}

}  // namespace

extern const TransformKernels transform_kernels;
const TransformKernels transform_kernels = {read_headers, add_real_weights, rank, squared_distance,
                                            try_shrinks,  quantize,         pack};

}  // namespace bilsh::BILSH_LEVEL
