// Vectors of AVX2. See simd.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

namespace bilsh::BILSH_LEVEL {

constexpr int W = 8;
constexpr int block_rows = 6;
constexpr int block_vectors = 2;
using Vec = __m256;
using Ints = __m256i;

static inline __m256i first_lanes(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline Vec zero() { return _mm256_setzero_ps(); }
static inline Vec splat(float x) { return _mm256_set1_ps(x); }
static inline Vec load(const float* p) { return _mm256_loadu_ps(p); }
static inline Vec load_some(const float* p, int n) { return _mm256_maskload_ps(p, first_lanes(n)); }
static inline void store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
static inline void store_some(float* p, Vec v, int n) { _mm256_maskstore_ps(p, first_lanes(n), v); }
static inline Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
static inline Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
static inline Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
static inline Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
static inline Vec div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
static inline Vec sqrt(Vec a) { return _mm256_sqrt_ps(a); }
static inline Vec abs(Vec a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
static inline Vec rint(Vec a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline uint32_t le(Vec a, Vec b) { return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_LE_OQ)); }
static inline Vec gather(const float* base, Ints index) { return _mm256_i32gather_ps(base, index, 4); }
static inline Vec gather_below(const float* base, uint32_t limit, Ints index) {
    const __m256i inside = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)limit), index);
    return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), base, index, _mm256_castsi256_ps(inside), 4);
}
static inline Vec flip(Vec a, Ints sign_bits) { return _mm256_xor_ps(a, _mm256_castsi256_ps(sign_bits)); }

static inline Ints isplat(uint32_t x) { return _mm256_set1_epi32((int)x); }
static inline Ints iload(const uint32_t* p) { return _mm256_loadu_si256((const __m256i*)p); }
static inline Ints iadd(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
static inline Ints isub(Ints a, Ints b) { return _mm256_sub_epi32(a, b); }
static inline Ints iand(Ints a, Ints b) { return _mm256_and_si256(a, b); }
static inline Ints ixor(Ints a, Ints b) { return _mm256_xor_si256(a, b); }
template <int n>
static inline Ints shl(Ints a) {
    return _mm256_slli_epi32(a, n);
}
template <int n>
static inline Ints shr(Ints a) {
    return _mm256_srli_epi32(a, n);
}
template <int n>
static inline Ints sar(Ints a) {
    return _mm256_srai_epi32(a, n);
}
static inline Vec to_float(Ints a) { return _mm256_cvtepi32_ps(a); }
static inline Vec as_float(Ints a) { return _mm256_castsi256_ps(a); }
static inline Ints as_ints(Vec a) { return _mm256_castps_si256(a); }
static inline Vec select(Ints mask, Vec yes, Vec no) { return _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(mask)); }
static inline void multiply_wide(Ints a, uint32_t m, Ints& high, Ints& low) {
    const Ints factor = _mm256_set1_epi32((int)m);
    const Ints even = _mm256_mul_epu32(a, factor);
    const Ints odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), factor);
    low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
    high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}

static inline void transpose(Vec (&r)[W]) {
    Vec t[W];
    for (int i = 0; i < W; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < W; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
        t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
    for (int i = 0; i < W; ++i) r[i] = t[i];
}

}  // namespace bilsh::BILSH_LEVEL
