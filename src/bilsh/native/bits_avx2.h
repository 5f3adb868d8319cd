// Counts of bits with AVX2, which cannot count: by look-ups of half bytes.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "byte_lanes.h"

namespace bilsh::BILSH_LEVEL {
namespace {

using std::int32_t;
using std::size_t;
using std::uint8_t;

// Bits per byte by two look-ups of half a byte each.
inline __m256i count_bytes(__m256i x) {
    const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,  //
                                           0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    return _mm256_add_epi8(_mm256_shuffle_epi8(table, low_halves(x)), _mm256_shuffle_epi8(table, high_halves(x)));
}

inline __m256i sum_words(__m256i bytes) { return _mm256_sad_epu8(bytes, _mm256_setzero_si256()); }

inline __m256i differing(const uint8_t* a, const uint8_t* b) { return _mm256_xor_si256(load_bytes(a), load_bytes(b)); }

inline int32_t sum_across(__m256i words) {
    const __m128i half = _mm_add_epi64(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    return static_cast<int32_t>(_mm_cvtsi128_si64(half) + _mm_extract_epi64(half, 1));
}

// low + 2 high = low + b + c, bit by bit.
inline void add_carry(__m256i& high, __m256i& low, __m256i b, __m256i c) {
    const __m256i u = _mm256_xor_si256(low, b);
    high = _mm256_or_si256(_mm256_and_si256(low, b), _mm256_and_si256(u, c));
    low = _mm256_xor_si256(u, c);
}

}  // namespace
}  // namespace bilsh::BILSH_LEVEL
