// Rows in the lanes of a register, one byte of each: what look-ups of half bytes need. AVX2 and NEON.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__AVX2__)
#    include <immintrin.h>
#elif defined(__aarch64__)
#    include <arm_neon.h>
#endif

namespace bilsh::BILSH_LEVEL {

#if defined(__AVX2__)

#    define BILSH_BYTE_LANES 1
constexpr std::size_t lanes = 32;
using Bytes = __m256i;
static inline Bytes load_bytes(const std::uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const Bytes*>(p)); }
static inline void store_bytes(std::uint8_t* p, Bytes x) { _mm256_storeu_si256(reinterpret_cast<Bytes*>(p), x); }
static inline Bytes load_table(const std::uint8_t* p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
static inline Bytes look_up_bytes(Bytes table, Bytes index) { return _mm256_shuffle_epi8(table, index); }
static inline Bytes low_halves(Bytes x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
static inline Bytes high_halves(Bytes x) { return _mm256_and_si256(_mm256_srli_epi16(x, 4), _mm256_set1_epi8(15)); }
static inline Bytes zip_low(Bytes a, Bytes b) { return _mm256_unpacklo_epi8(a, b); }
static inline Bytes zip_high(Bytes a, Bytes b) { return _mm256_unpackhi_epi8(a, b); }
static inline Bytes add_bytes(Bytes a, Bytes b) { return _mm256_add_epi8(a, b); }

// Sums of bytes in 16 bits: of even lanes and of odd ones.
struct Wide {
    __m256i even = _mm256_setzero_si256(), odd = _mm256_setzero_si256();

    void add(Bytes x) {
        even = _mm256_add_epi16(even, _mm256_and_si256(x, _mm256_set1_epi16(255)));
        odd = _mm256_add_epi16(odd, _mm256_srli_epi16(x, 8));
    }
};
static inline void add_eight(__m128i low, __m128i high, std::int32_t* out) {
    __m256i* target = reinterpret_cast<__m256i*>(out);
    const __m256i sum = _mm256_add_epi32(_mm256_cvtepu16_epi32(low), _mm256_slli_epi32(_mm256_cvtepu16_epi32(high), 6));
    _mm256_storeu_si256(target, _mm256_add_epi32(_mm256_loadu_si256(target), sum));
}
// out[r] += low + 64 high, in the order of the rows.
static inline void add_digits(const Wide& low, const Wide& high, std::int32_t* out) {
    const __m256i low0 = _mm256_unpacklo_epi16(low.even, low.odd), low1 = _mm256_unpackhi_epi16(low.even, low.odd);
    const __m256i high0 = _mm256_unpacklo_epi16(high.even, high.odd),
                  high1 = _mm256_unpackhi_epi16(high.even, high.odd);
    add_eight(_mm256_castsi256_si128(low0), _mm256_castsi256_si128(high0), out);
    add_eight(_mm256_castsi256_si128(low1), _mm256_castsi256_si128(high1), out + 8);
    add_eight(_mm256_extracti128_si256(low0, 1), _mm256_extracti128_si256(high0, 1), out + 16);
    add_eight(_mm256_extracti128_si256(low1, 1), _mm256_extracti128_si256(high1, 1), out + 24);
}

// Sixteen bytes of row i, and of row i + 16.
static inline Bytes load_rows(const std::uint8_t* row, std::size_t row_stride) {
    const __m128i* second = reinterpret_cast<const __m128i*>(row + 16 * row_stride);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row))),
                                   _mm_loadu_si128(second), 1);
}

#elif defined(__aarch64__)

#    define BILSH_BYTE_LANES 1
constexpr std::size_t lanes = 16;
using Bytes = uint8x16_t;
static inline Bytes load_bytes(const std::uint8_t* p) { return vld1q_u8(p); }
static inline void store_bytes(std::uint8_t* p, Bytes x) { vst1q_u8(p, x); }
static inline Bytes load_table(const std::uint8_t* p) { return vld1q_u8(p); }
static inline Bytes look_up_bytes(Bytes table, Bytes index) { return vqtbl1q_u8(table, index); }
static inline Bytes low_halves(Bytes x) { return vandq_u8(x, vdupq_n_u8(15)); }
static inline Bytes high_halves(Bytes x) { return vshrq_n_u8(x, 4); }
static inline Bytes zip_low(Bytes a, Bytes b) { return vzip1q_u8(a, b); }
static inline Bytes zip_high(Bytes a, Bytes b) { return vzip2q_u8(a, b); }
static inline Bytes load_rows(const std::uint8_t* row, std::size_t) { return vld1q_u8(row); }
static inline Bytes add_bytes(Bytes a, Bytes b) { return vaddq_u8(a, b); }

struct Wide {
    uint16x8_t first = vdupq_n_u16(0), second = vdupq_n_u16(0);

    void add(Bytes x) {
        first = vaddw_u8(first, vget_low_u8(x));
        second = vaddw_high_u8(second, x);
    }
};
static inline void add_four(uint16x4_t low, uint16x4_t high, std::int32_t* out) {
    const uint32x4_t sum = vaddq_u32(vmovl_u16(low), vshll_n_u16(high, 6));
    vst1q_s32(out, vaddq_s32(vld1q_s32(out), vreinterpretq_s32_u32(sum)));
}
static inline void add_digits(const Wide& low, const Wide& high, std::int32_t* out) {
    add_four(vget_low_u16(low.first), vget_low_u16(high.first), out);
    add_four(vget_high_u16(low.first), vget_high_u16(high.first), out + 4);
    add_four(vget_low_u16(low.second), vget_low_u16(high.second), out + 8);
    add_four(vget_high_u16(low.second), vget_high_u16(high.second), out + 12);
}

#endif

#if defined(BILSH_BYTE_LANES)

// Two of the four rounds that transpose 16 x 16 bytes: what they leave of four registers is four registers.
static inline void zip_twice(Bytes (&x)[4]) {
    const Bytes a = zip_low(x[0], x[2]), b = zip_high(x[0], x[2]), c = zip_low(x[1], x[3]), d = zip_high(x[1], x[3]);
    x[0] = zip_low(a, c);
    x[1] = zip_high(a, c);
    x[2] = zip_low(b, d);
    x[3] = zip_high(b, d);
}

// Calls use(j, columns, n) for columns j .. j + n of `lanes` rows, n up to four: a register of rows for each.
template <class Use>
static inline void transpose_rows(const std::uint8_t* rows, std::size_t row_stride, std::size_t n_bytes,
                                  const Use& use) {
    alignas(64) std::uint8_t copy[lanes * 64];
    for (std::size_t block = 0; block < n_bytes; block += 64) {
        const std::size_t left = n_bytes - block < 64 ? n_bytes - block : 64;
        const std::uint8_t* from = rows + block;
        std::size_t stride = row_stride;
        // Not to read beyond the rows; and rows a power of two apart would push each other out of the cache.
        if (left % 16 != 0 || row_stride % 1024 == 0) {
            if (left == 64) {
                for (std::size_t i = 0; i < lanes; ++i) __builtin_memcpy(copy + 64 * i, from + i * row_stride, 64);
            } else {
                __builtin_memset(copy, 0, sizeof copy);
                for (std::size_t i = 0; i < lanes; ++i) __builtin_memcpy(copy + 64 * i, from + i * row_stride, left);
            }
            from = copy;
            stride = 64;
        }
        for (std::size_t j = 0; j < left; j += 16) {
            const std::size_t n = left - j < 16 ? left - j : 16;
            Bytes half[16];
#    pragma GCC unroll 4
            for (int i = 0; i < 4; ++i) {
                Bytes x[4];
#    pragma GCC unroll 4
                for (int k = 0; k < 4; ++k) x[k] = load_rows(from + j + (i + 4 * k) * stride, stride);
                zip_twice(x);
#    pragma GCC unroll 4
                for (int k = 0; k < 4; ++k) half[4 * i + k] = x[k];
            }
#    pragma GCC unroll 4
            for (std::size_t i = 0; i < 4; ++i) {
                Bytes x[4] = {half[i], half[i + 4], half[i + 8], half[i + 12]};
                zip_twice(x);
                if (4 * i < n) use(block + j + 4 * i, x, n - 4 * i < 4 ? n - 4 * i : 4);
            }
        }
    }
}

// `lanes` rows side by side: for each byte of a code, the low halves of all rows, then the high ones. n_rows is a
// multiple of `lanes`; packed takes two bytes for each.
static inline void pack_halves(const std::uint8_t* rows, std::size_t row_stride, std::size_t n_rows,
                               std::size_t n_bytes, std::uint8_t* packed) {
    for (std::size_t r = 0; r < n_rows; r += lanes, rows += lanes * row_stride, packed += 2 * lanes * n_bytes)
        transpose_rows(rows, row_stride, n_bytes,
                       [&](std::size_t j, const Bytes(&column)[4], std::size_t n) __attribute__((always_inline)) {
                           for (std::size_t k = 0; k < n; ++k) {
                               store_bytes(packed + 2 * lanes * (j + k), low_halves(column[k]));
                               store_bytes(packed + 2 * lanes * (j + k) + lanes, high_halves(column[k]));
                           }
                       });
}

#endif

}  // namespace bilsh::BILSH_LEVEL
