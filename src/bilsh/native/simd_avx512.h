// Vectors of AVX-512. See simd.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

namespace bilsh::BILSH_LEVEL {

constexpr int W = 16;           // lanes of a vector
constexpr int block_rows = 12;  // register block of the matrix kernel: rows x vectors accumulators
constexpr int block_vectors = 2;
using Vec = __m512;
using Ints = __m512i;

static inline Vec zero() { return _mm512_setzero_ps(); }
static inline Vec splat(float x) { return _mm512_set1_ps(x); }
static inline Vec load(const float* p) { return _mm512_loadu_ps(p); }
static inline Vec load_some(const float* p, int n) { return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p); }
static inline void store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
static inline void store_some(float* p, Vec v, int n) { _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), v); }
static inline Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
static inline Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
static inline Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
static inline Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
static inline Vec div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
static inline Vec sqrt(Vec a) { return _mm512_sqrt_ps(a); }
static inline Vec abs(Vec a) { return _mm512_abs_ps(a); }
static inline Vec rint(Vec a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
// Bit l of the result: a[l] <= b[l].
static inline uint32_t le(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
static inline Vec gather(const float* base, Ints index) { return _mm512_i32gather_ps(index, base, 4); }
// 0 where index >= limit (both below 2^31)
static inline Vec gather_below(const float* base, uint32_t limit, Ints index) {
    const __mmask16 inside = _mm512_cmplt_epi32_mask(index, _mm512_set1_epi32((int)limit));
    return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), inside, index, base, 4);
}
static inline Vec flip(Vec a, Ints sign_bits) {
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a), sign_bits));
}

static inline Ints isplat(uint32_t x) { return _mm512_set1_epi32((int)x); }
static inline Ints iload(const uint32_t* p) { return _mm512_loadu_si512(p); }
static inline Ints iadd(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
static inline Ints isub(Ints a, Ints b) { return _mm512_sub_epi32(a, b); }
static inline Ints iand(Ints a, Ints b) { return _mm512_and_si512(a, b); }
static inline Ints ixor(Ints a, Ints b) { return _mm512_xor_si512(a, b); }
template <int n>
static inline Ints shl(Ints a) {
    return _mm512_slli_epi32(a, n);
}
template <int n>
static inline Ints shr(Ints a) {
    return _mm512_srli_epi32(a, n);
}
template <int n>
static inline Ints sar(Ints a) {
    return _mm512_srai_epi32(a, n);
}
static inline Vec to_float(Ints a) { return _mm512_cvtepi32_ps(a); }  // signed, to nearest even
static inline Vec as_float(Ints a) { return _mm512_castsi512_ps(a); }
static inline Ints as_ints(Vec a) { return _mm512_castps_si512(a); }
// mask lanes are all ones or all zeros
static inline Vec select(Ints mask, Vec yes, Vec no) {
    return _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(mask, _mm512_castps_si512(yes), _mm512_castps_si512(no), 0xca));
}
// The two halves of the 64-bit products a * m.
static inline void multiply_wide(Ints a, uint32_t m, Ints& high, Ints& low) {
    const Ints factor = _mm512_set1_epi32((int)m);
    const Ints even = _mm512_mul_epu32(a, factor);
    const Ints odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), factor);
    low = _mm512_mask_mov_epi32(even, 0xaaaa, _mm512_slli_epi64(odd, 32));
    high = _mm512_mask_mov_epi32(_mm512_srli_epi64(even, 32), 0xaaaa, odd);
}

static inline void transpose(Vec (&r)[W]) {
    Vec t[W];
    for (int i = 0; i < W; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < W; i += 4) {
        r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
        t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; ++i) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
        r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

static inline void transpose(Ints (&x)[W]) {
    Vec r[W];
    for (int i = 0; i < W; ++i) r[i] = as_float(x[i]);
    transpose(r);
    for (int i = 0; i < W; ++i) x[i] = as_ints(r[i]);
}

// column[s][l] = rows[l][offset + s]. Quarters go to their place while they are loaded, which spares half the shuffles.
static inline void load_columns(const float* const* rows, std::size_t offset, Vec (&column)[W]) {
#pragma GCC unroll 4
    for (int g = 0; g < W; g += 4) {
        Vec part[4];
#pragma GCC unroll 4
        for (int l = 0; l < 4; ++l) {
            part[l] = _mm512_castps128_ps512(_mm_loadu_ps(rows[l] + offset + g));
            part[l] = _mm512_insertf32x4(part[l], _mm_loadu_ps(rows[l + 4] + offset + g), 1);
            part[l] = _mm512_insertf32x4(part[l], _mm_loadu_ps(rows[l + 8] + offset + g), 2);
            part[l] = _mm512_insertf32x4(part[l], _mm_loadu_ps(rows[l + 12] + offset + g), 3);
        }
        const Vec low01 = _mm512_unpacklo_ps(part[0], part[1]), high01 = _mm512_unpackhi_ps(part[0], part[1]);
        const Vec low23 = _mm512_unpacklo_ps(part[2], part[3]), high23 = _mm512_unpackhi_ps(part[2], part[3]);
        column[g] = _mm512_shuffle_ps(low01, low23, 0x44);
        column[g + 1] = _mm512_shuffle_ps(low01, low23, 0xee);
        column[g + 2] = _mm512_shuffle_ps(high01, high23, 0x44);
        column[g + 3] = _mm512_shuffle_ps(high01, high23, 0xee);
    }
}

}  // namespace bilsh::BILSH_LEVEL
