// Sums across the lanes of eight registers at once.
#pragma once

#include <immintrin.h>

namespace bilsh::BILSH_LEVEL {

// Counts of eight registers, each of eight words: pairs share a register (counts stay below 2^32), then two rounds of
// halving leave a sum for each half register. Lane by lane: the first halves of 0..3, the second halves, those of 4..7.
static inline __m512i sum_halves(const __m512i (&count)[8]) {
    __m512i pair[4], four[2];
    for (int i = 0; i < 4; ++i) pair[i] = _mm512_or_si512(count[2 * i], _mm512_slli_epi64(count[2 * i + 1], 32));
    for (int i = 0; i < 2; ++i)
        four[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(pair[2 * i], pair[2 * i + 1]),
                                   _mm512_unpackhi_epi64(pair[2 * i], pair[2 * i + 1]));
    return _mm512_add_epi32(_mm512_shuffle_i64x2(four[0], four[1], 0x88), _mm512_shuffle_i64x2(four[0], four[1], 0xdd));
}

// The sum of each register.
static inline __m256i sum_eight(const __m512i (&count)[8]) {
    const __m512i half = sum_halves(count);
    const __m512i both = _mm512_add_epi32(half, _mm512_shuffle_i64x2(half, half, 0xb1));  // in lanes 0 and 2
    return _mm512_castsi512_si256(_mm512_shuffle_i64x2(both, both, 0x08));
}

}  // namespace bilsh::BILSH_LEVEL
