// Counts of bits in registers of AVX-512: of words by the instruction that counts, or of bytes by look-ups of half
// bytes where a processor has none (Skylake and Cascade Lake).
#pragma once

#include <immintrin.h>

#include <cstddef>

namespace bilsh::BILSH_LEVEL {
namespace {

#if defined(__AVX512VPOPCNTDQ__)
constexpr std::size_t most_counts = ~std::size_t{0};  // that may be added before words_of
inline __m512i counts_of(__m512i x) { return _mm512_popcnt_epi64(x); }
inline __m512i add_counts(__m512i a, __m512i b) { return _mm512_add_epi64(a, b); }
inline __m512i words_of(__m512i counts) { return counts; }  // of eight bytes
#else
constexpr std::size_t most_counts = 31;
// By two look-ups of half a byte each; a bit may count for more than one.
template <int weight = 1>
inline __m512i counts_of(__m512i x) {
    constexpr int one = weight, two = 2 * weight, three = 3 * weight, four = 4 * weight;
    const __m512i table = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, one, one, two, one, two, two, three, one, two, two, three, two, three, three, four));
    const __m512i half = _mm512_set1_epi8(15);
    return _mm512_add_epi8(_mm512_shuffle_epi8(table, _mm512_and_si512(x, half)),
                           _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(x, 4), half)));
}
inline __m512i add_counts(__m512i a, __m512i b) { return _mm512_add_epi8(a, b); }
inline __m512i words_of(__m512i counts) { return _mm512_sad_epu8(counts, _mm512_setzero_si512()); }
// Sums of two bytes; and of four.
inline __m512i sum_pairs(__m512i bytes) { return _mm512_maddubs_epi16(bytes, _mm512_set1_epi8(1)); }
inline __m512i sum_fours(__m512i bytes) { return _mm512_madd_epi16(sum_pairs(bytes), _mm512_set1_epi16(1)); }
#endif

inline __m512i parity(__m512i a, __m512i b, __m512i c) { return _mm512_ternarylogic_epi64(a, b, c, 0x96); }
inline __m512i majority(__m512i a, __m512i b, __m512i c) { return _mm512_ternarylogic_epi64(a, b, c, 0xe8); }

// low + 2 high = low + b + c, bit by bit.
inline void add_carry(__m512i& high, __m512i& low, __m512i b, __m512i c) {
    high = majority(low, b, c);
    low = parity(low, b, c);
}

}  // namespace
}  // namespace bilsh::BILSH_LEVEL
