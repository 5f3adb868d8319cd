// Sums of the weights of set bits, compiled once per instruction set. Integers are exact and real sums have one order,
// so all levels give the same.
#include "transform_kernels.h"

#if defined(__AVX2__)
#    include <immintrin.h>
#endif

namespace bilsh::BILSH_LEVEL {
namespace {

using std::int16_t;
using std::int32_t;
using std::size_t;
using std::uint32_t;
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

#if defined(__AVX512BW__)

using Sum = __m512i;
inline Sum no_sum() { return _mm512_setzero_si512(); }
inline Sum add_word(Sum sum, uint32_t word, const int16_t* weights) {
    const __m512i chosen = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(word), weights);
    return _mm512_add_epi32(sum, _mm512_madd_epi16(chosen, _mm512_set1_epi16(1)));
}
inline __m256i halved(Sum sum) {
    return _mm256_add_epi32(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64(sum, 1));
}

#elif defined(__AVX2__)

using Sum = __m256i;
inline Sum no_sum() { return _mm256_setzero_si256(); }
inline Sum add_word(Sum sum, uint32_t word, const int16_t* weights) {
    const __m256i place = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384,
                                            static_cast<int16_t>(0x8000));
    const __m256i* at = reinterpret_cast<const __m256i*>(weights);
    for (int half = 0; half < 2; ++half) {
        const __m256i bits = _mm256_and_si256(_mm256_set1_epi16(static_cast<int16_t>(word >> 16 * half)), place);
        const __m256i chosen = _mm256_and_si256(_mm256_cmpeq_epi16(bits, place), _mm256_loadu_si256(at + half));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(chosen, _mm256_set1_epi16(1)));
    }
    return sum;
}
inline __m256i halved(Sum sum) { return sum; }

#else

struct Sum {
    int32_t lane[8];
};
inline Sum no_sum() { return Sum{}; }
inline Sum add_word(Sum sum, uint32_t word, const int16_t* weights) {
    for (int byte = 0; byte < 4; ++byte)
        for (int l = 0; l < 8; ++l)
            sum.lane[l] += weights[8 * byte + l] & -static_cast<int32_t>(word >> (8 * byte + l) & 1);
    return sum;
}

#endif

#if defined(__AVX2__)
inline __m128i totals(const Sum (&sum)[4]) {
    const __m256i pairs = _mm256_hadd_epi32(_mm256_hadd_epi32(halved(sum[0]), halved(sum[1])),
                                            _mm256_hadd_epi32(halved(sum[2]), halved(sum[3])));
    return _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
}
#endif
inline void add_totals(const Sum (&sum)[4], size_t n, int32_t* sums) {
    int32_t total[4] = {};
#if defined(__AVX2__)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(total), totals(sum));
#else
    for (int i = 0; i < 4; ++i)
        for (int l = 0; l < 8; ++l) total[i] += sum[i].lane[l];
#endif
    for (size_t i = 0; i < n; ++i) sums[i] += total[i];
}

void add_weights(const uint8_t* rows, size_t stride, const uint32_t* order, size_t n, size_t n_bytes,
                 const int16_t* weights, int32_t* sums) {
    for (size_t first = 0; first < n; first += 4) {
        const size_t some = n - first < 4 ? n - first : 4;
        const uint8_t* row[4];
        Sum sum[4];
        for (size_t i = 0; i < 4; ++i) {
            row[i] = rows + order[first + (i < some ? i : 0)] * stride;
            sum[i] = no_sum();
        }
        size_t j = 0;
        for (; j + 4 <= n_bytes; j += 4)
#pragma GCC unroll 4
            for (size_t i = 0; i < 4; ++i) sum[i] = add_word(sum[i], load_word(row[i] + j, 4), weights + 8 * j);
        if (j < n_bytes)
            for (size_t i = 0; i < 4; ++i)
                sum[i] = add_word(sum[i], load_word(row[i] + j, n_bytes - j), weights + 8 * j);
        add_totals(sum, some, sums + first);
    }
}

void add_real_weights(const uint8_t* row, size_t n_bytes, const float* weights, float* lane) {
    for (size_t j = 0; j < n_bytes; j += 2, weights += bit_lanes) {
        const uint32_t word = load_word(row + j, n_bytes - j < 2 ? n_bytes - j : 2);
        for (size_t l = 0; l < bit_lanes; ++l) lane[l] += word >> l & 1 ? weights[l] : 0.0f;
    }
}

void rank(const int32_t* sums, int32_t more, const float* scale, const float* add, size_t n, const Ranking& by,
          int32_t* ranks) {
    const Ranking all = by;
    for (size_t i = 0; i < n; ++i) {
        const float sum = static_cast<float>(sums[i] + more);
        ranks[i] = static_cast<int32_t>(
            __builtin_rintf(all.far + (scale[i] * (all.step * sum + all.bias) + all.unit * add[i])));
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

Products quantize(const float* values, size_t n, float shrink, const float* steps, const float* halves,
                  uint32_t* cells) {
    double inside[lanes] = {}, product[lanes] = {}, squares[lanes] = {};
    const auto add = [&](size_t i, size_t l) {
        float cell = __builtin_floorf(shrink * values[i] / steps[i]) + halves[i];
        const float last = 2.0f * halves[i] - 1.0f;
        cell = cell < 0.0f ? 0.0f : cell;
        cell = cell > last ? last : cell;
        cells[i] = static_cast<uint32_t>(static_cast<int32_t>(cell));
        const double v = static_cast<double>(values[i]);
        const double r =
            static_cast<double>(steps[i]) * (static_cast<double>(cell) + 0.5 - static_cast<double>(halves[i]));
        inside[l] += v * v;
        product[l] += v * r;
        squares[l] += r * r;
    };
    size_t i = 0;
    for (; i + lanes <= n; i += lanes)
        for (size_t l = 0; l < lanes; ++l) add(i + l, l);
    for (size_t l = 0; i < n; ++i, ++l) add(i, l);
    return {total_of(inside), total_of(product), total_of(squares)};
}

}  // namespace

extern const TransformKernels transform_kernels;
const TransformKernels transform_kernels = {add_weights, add_real_weights, rank, squared_distance, quantize};

}  // namespace bilsh::BILSH_LEVEL
