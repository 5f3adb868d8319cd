// Rows in the lanes of a register, one byte of each: what look-ups of half bytes need. AVX2 and NEON.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace bilsh::BILSH_LEVEL {

#if defined(__AVX2__)

#define BILSH_BYTE_LANES 1
constexpr std::size_t lanes = 32;
using Bytes = __m256i;
static inline Bytes load_bytes(const std::uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const Bytes*>(p)); }
static inline void store_bytes(std::uint8_t* p, Bytes x) { _mm256_storeu_si256(reinterpret_cast<Bytes*>(p), x); }
static inline Bytes load_table(const std::uint8_t* p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
static inline Bytes look_up(Bytes table, Bytes index) { return _mm256_shuffle_epi8(table, index); }
static inline Bytes low_halves(Bytes x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
static inline Bytes high_halves(Bytes x) { return _mm256_and_si256(_mm256_srli_epi16(x, 4), _mm256_set1_epi8(15)); }
static inline Bytes zip_low(Bytes a, Bytes b) { return _mm256_unpacklo_epi8(a, b); }
static inline Bytes zip_high(Bytes a, Bytes b) { return _mm256_unpackhi_epi8(a, b); }
// Sixteen bytes of row i, and of row i + 16.
static inline Bytes load_rows(const std::uint8_t* row, std::size_t row_stride) {
    const __m128i* second = reinterpret_cast<const __m128i*>(row + 16 * row_stride);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row))),
                                   _mm_loadu_si128(second), 1);
}

#elif defined(__aarch64__)

#define BILSH_BYTE_LANES 1
constexpr std::size_t lanes = 16;
using Bytes = uint8x16_t;
static inline Bytes load_bytes(const std::uint8_t* p) { return vld1q_u8(p); }
static inline void store_bytes(std::uint8_t* p, Bytes x) { vst1q_u8(p, x); }
static inline Bytes load_table(const std::uint8_t* p) { return vld1q_u8(p); }
static inline Bytes look_up(Bytes table, Bytes index) { return vqtbl1q_u8(table, index); }
static inline Bytes low_halves(Bytes x) { return vandq_u8(x, vdupq_n_u8(15)); }
static inline Bytes high_halves(Bytes x) { return vshrq_n_u8(x, 4); }
static inline Bytes zip_low(Bytes a, Bytes b) { return vzip1q_u8(a, b); }
static inline Bytes zip_high(Bytes a, Bytes b) { return vzip2q_u8(a, b); }
static inline Bytes load_rows(const std::uint8_t* row, std::size_t) { return vld1q_u8(row); }

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

// `lanes` rows side by side: for each byte of a code, the low halves of all rows, then the high ones. n_rows is a multiple
// of `lanes`; packed takes two bytes for each.
static inline void pack_halves(const std::uint8_t* rows, std::size_t row_stride, std::size_t n_rows,
                               std::size_t n_bytes, std::uint8_t* packed) {
    alignas(64) std::uint8_t last[lanes * 16] = {};
    for (std::size_t r = 0; r < n_rows; r += lanes, rows += lanes * row_stride)
        for (std::size_t j = 0; j < n_bytes; j += 16) {
            const std::size_t n = n_bytes - j < 16 ? n_bytes - j : 16;
            const std::uint8_t* from = rows + j;
            std::size_t stride = row_stride;
            if (n < 16) {  // not to read beyond the rows
                for (std::size_t i = 0; i < lanes; ++i) __builtin_memcpy(last + 16 * i, from + i * row_stride, n);
                from = last;
                stride = 16;
            }
            Bytes half[16];
#pragma GCC unroll 4
            for (int i = 0; i < 4; ++i) {
                Bytes x[4];
#pragma GCC unroll 4
                for (int k = 0; k < 4; ++k) x[k] = load_rows(from + (i + 4 * k) * stride, stride);
                zip_twice(x);
#pragma GCC unroll 4
                for (int k = 0; k < 4; ++k) half[4 * i + k] = x[k];
            }
#pragma GCC unroll 4
            for (int i = 0; i < 4; ++i) {
                Bytes x[4] = {half[i], half[i + 4], half[i + 8], half[i + 12]};
                zip_twice(x);
                for (std::size_t k = 0; k < 4 && 4 * i + k < n; ++k) {
                    std::uint8_t* out = packed + 2 * lanes * (4 * i + k);
                    store_bytes(out, low_halves(x[k]));
                    store_bytes(out + lanes, high_halves(x[k]));
                }
            }
            packed += 2 * lanes * n;
        }
}

#endif

}  // namespace bilsh::BILSH_LEVEL
