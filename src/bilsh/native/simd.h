// One vector of floats and one of 32-bit integers, in the widest registers of the level being compiled. Kernels are
// written once over these names. Every operation is exact or rounded once (IEEE), so all levels give the same floats.
// Only kernel sources (compiled once per level) include this header.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace bilsh::BILSH_LEVEL {

#if defined(__AVX512F__)

constexpr int W = 16;                 // lanes of a vector
constexpr int block_rows = 12;        // register block of the matrix kernel: rows x vectors accumulators
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
template <int n> static inline Ints shl(Ints a) { return _mm512_slli_epi32(a, n); }
template <int n> static inline Ints shr(Ints a) { return _mm512_srli_epi32(a, n); }
template <int n> static inline Ints sar(Ints a) { return _mm512_srai_epi32(a, n); }
static inline Vec to_float(Ints a) { return _mm512_cvtepi32_ps(a); }  // signed, to nearest even
static inline Vec as_float(Ints a) { return _mm512_castsi512_ps(a); }
static inline Ints as_ints(Vec a) { return _mm512_castps_si512(a); }
// mask lanes are all ones or all zeros
static inline Vec select(Ints mask, Vec yes, Vec no) {
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(mask, _mm512_castps_si512(yes), _mm512_castps_si512(no), 0xca));
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

#elif defined(__AVX2__)

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
template <int n> static inline Ints shl(Ints a) { return _mm256_slli_epi32(a, n); }
template <int n> static inline Ints shr(Ints a) { return _mm256_srli_epi32(a, n); }
template <int n> static inline Ints sar(Ints a) { return _mm256_srai_epi32(a, n); }
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

#elif defined(__ARM_NEON) && defined(__aarch64__)

constexpr int W = 4;
constexpr int block_rows = 8;
constexpr int block_vectors = 2;
using Vec = float32x4_t;
using Ints = uint32x4_t;

static inline Vec zero() { return vdupq_n_f32(0.0f); }
static inline Vec splat(float x) { return vdupq_n_f32(x); }
static inline Vec load(const float* p) { return vld1q_f32(p); }
static inline Vec load_some(const float* p, int n) {
    float lanes[W] = {};
    for (int l = 0; l < n; ++l) lanes[l] = p[l];
    return vld1q_f32(lanes);
}
static inline void store(float* p, Vec v) { vst1q_f32(p, v); }
static inline void store_some(float* p, Vec v, int n) {
    float lanes[W];
    vst1q_f32(lanes, v);
    for (int l = 0; l < n; ++l) p[l] = lanes[l];
}
static inline Vec fma(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
static inline Vec add(Vec a, Vec b) { return vaddq_f32(a, b); }
static inline Vec sub(Vec a, Vec b) { return vsubq_f32(a, b); }
static inline Vec mul(Vec a, Vec b) { return vmulq_f32(a, b); }
static inline Vec div(Vec a, Vec b) { return vdivq_f32(a, b); }
static inline Vec sqrt(Vec a) { return vsqrtq_f32(a); }
static inline Vec abs(Vec a) { return vabsq_f32(a); }
static inline Vec rint(Vec a) { return vrndnq_f32(a); }
static inline uint32_t le(Vec a, Vec b) {
    const uint32_t weights[W] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(vcleq_f32(a, b), vld1q_u32(weights)));
}
static inline Vec gather_below(const float* base, uint32_t limit, Ints index) {
    uint32_t at[W];
    vst1q_u32(at, index);
    float lanes[W];
    for (int l = 0; l < W; ++l) lanes[l] = at[l] < limit ? base[at[l]] : 0.0f;
    return vld1q_f32(lanes);
}
static inline Vec gather(const float* base, Ints index) { return gather_below(base, 0xffffffffu, index); }
static inline Vec flip(Vec a, Ints sign_bits) {
    return vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(a), sign_bits));
}

static inline Ints isplat(uint32_t x) { return vdupq_n_u32(x); }
static inline Ints iload(const uint32_t* p) { return vld1q_u32(p); }
static inline Ints iadd(Ints a, Ints b) { return vaddq_u32(a, b); }
static inline Ints isub(Ints a, Ints b) { return vsubq_u32(a, b); }
static inline Ints iand(Ints a, Ints b) { return vandq_u32(a, b); }
static inline Ints ixor(Ints a, Ints b) { return veorq_u32(a, b); }
template <int n> static inline Ints shl(Ints a) { return vshlq_n_u32(a, n); }
template <int n> static inline Ints shr(Ints a) { return vshrq_n_u32(a, n); }
template <int n> static inline Ints sar(Ints a) {
    return vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_u32(a), n));
}
static inline Vec to_float(Ints a) { return vcvtq_f32_s32(vreinterpretq_s32_u32(a)); }
static inline Vec as_float(Ints a) { return vreinterpretq_f32_u32(a); }
static inline Ints as_ints(Vec a) { return vreinterpretq_u32_f32(a); }
static inline Vec select(Ints mask, Vec yes, Vec no) { return vbslq_f32(mask, yes, no); }
static inline void multiply_wide(Ints a, uint32_t m, Ints& high, Ints& low) {
    const uint64x2_t first = vmull_n_u32(vget_low_u32(a), m);
    const uint64x2_t second = vmull_n_u32(vget_high_u32(a), m);
    low = vcombine_u32(vmovn_u64(first), vmovn_u64(second));
    high = vcombine_u32(vshrn_n_u64(first, 32), vshrn_n_u64(second, 32));
}

static inline void transpose(Vec (&r)[W]) {
    const float32x4x2_t a = vtrnq_f32(r[0], r[1]);
    const float32x4x2_t b = vtrnq_f32(r[2], r[3]);
    r[0] = vcombine_f32(vget_low_f32(a.val[0]), vget_low_f32(b.val[0]));
    r[1] = vcombine_f32(vget_low_f32(a.val[1]), vget_low_f32(b.val[1]));
    r[2] = vcombine_f32(vget_high_f32(a.val[0]), vget_high_f32(b.val[0]));
    r[3] = vcombine_f32(vget_high_f32(a.val[1]), vget_high_f32(b.val[1]));
}

#else

constexpr int W = 8;
constexpr int block_rows = 4;
constexpr int block_vectors = 1;
struct Vec {
    float lane[W];
};
struct Ints {
    uint32_t lane[W];
};

template <class Result, class Operation>
static inline Result lanewise(Operation operation) {
    Result result;
    for (int l = 0; l < W; ++l) result.lane[l] = operation(l);
    return result;
}

static inline Vec zero() { return Vec{}; }
static inline Vec splat(float x) { return lanewise<Vec>([&](int) { return x; }); }
static inline Vec load(const float* p) { return lanewise<Vec>([&](int l) { return p[l]; }); }
static inline Vec load_some(const float* p, int n) { return lanewise<Vec>([&](int l) { return l < n ? p[l] : 0.0f; }); }
static inline void store(float* p, Vec v) {
    for (int l = 0; l < W; ++l) p[l] = v.lane[l];
}
static inline void store_some(float* p, Vec v, int n) {
    for (int l = 0; l < n; ++l) p[l] = v.lane[l];
}
static inline Vec fma(Vec a, Vec b, Vec c) {
    return lanewise<Vec>([&](int l) { return __builtin_fmaf(a.lane[l], b.lane[l], c.lane[l]); });
}
static inline Vec add(Vec a, Vec b) { return lanewise<Vec>([&](int l) { return a.lane[l] + b.lane[l]; }); }
static inline Vec sub(Vec a, Vec b) { return lanewise<Vec>([&](int l) { return a.lane[l] - b.lane[l]; }); }
static inline Vec mul(Vec a, Vec b) { return lanewise<Vec>([&](int l) { return a.lane[l] * b.lane[l]; }); }
static inline Vec div(Vec a, Vec b) { return lanewise<Vec>([&](int l) { return a.lane[l] / b.lane[l]; }); }
static inline Vec sqrt(Vec a) { return lanewise<Vec>([&](int l) { return __builtin_sqrtf(a.lane[l]); }); }
static inline Vec abs(Vec a) { return lanewise<Vec>([&](int l) { return __builtin_fabsf(a.lane[l]); }); }
static inline Vec rint(Vec a) { return lanewise<Vec>([&](int l) { return __builtin_rintf(a.lane[l]); }); }
static inline uint32_t le(Vec a, Vec b) {
    uint32_t mask = 0;
    for (int l = 0; l < W; ++l) mask |= (uint32_t)(a.lane[l] <= b.lane[l]) << l;
    return mask;
}
static inline Vec gather(const float* base, Ints index) {
    return lanewise<Vec>([&](int l) { return base[index.lane[l]]; });
}
static inline Vec gather_below(const float* base, uint32_t limit, Ints index) {
    return lanewise<Vec>([&](int l) { return index.lane[l] < limit ? base[index.lane[l]] : 0.0f; });
}
static inline Vec as_float(Ints a) {
    Vec v;
    __builtin_memcpy(&v, &a, sizeof v);
    return v;
}
static inline Ints as_ints(Vec a) {
    Ints v;
    __builtin_memcpy(&v, &a, sizeof v);
    return v;
}
static inline Ints isplat(uint32_t x) { return lanewise<Ints>([&](int) { return x; }); }
static inline Ints iload(const uint32_t* p) { return lanewise<Ints>([&](int l) { return p[l]; }); }
static inline Ints iadd(Ints a, Ints b) { return lanewise<Ints>([&](int l) { return a.lane[l] + b.lane[l]; }); }
static inline Ints isub(Ints a, Ints b) { return lanewise<Ints>([&](int l) { return a.lane[l] - b.lane[l]; }); }
static inline Ints iand(Ints a, Ints b) { return lanewise<Ints>([&](int l) { return a.lane[l] & b.lane[l]; }); }
static inline Ints ixor(Ints a, Ints b) { return lanewise<Ints>([&](int l) { return a.lane[l] ^ b.lane[l]; }); }
static inline Vec flip(Vec a, Ints sign_bits) { return as_float(ixor(as_ints(a), sign_bits)); }
template <int n> static inline Ints shl(Ints a) { return lanewise<Ints>([&](int l) { return a.lane[l] << n; }); }
template <int n> static inline Ints shr(Ints a) { return lanewise<Ints>([&](int l) { return a.lane[l] >> n; }); }
template <int n> static inline Ints sar(Ints a) {
    return lanewise<Ints>([&](int l) { return (uint32_t)((int32_t)a.lane[l] >> n); });
}
static inline Vec to_float(Ints a) { return lanewise<Vec>([&](int l) { return (float)(int32_t)a.lane[l]; }); }
static inline Vec select(Ints mask, Vec yes, Vec no) {
    return lanewise<Vec>([&](int l) { return mask.lane[l] ? yes.lane[l] : no.lane[l]; });
}
static inline void multiply_wide(Ints a, uint32_t m, Ints& high, Ints& low) {
    for (int l = 0; l < W; ++l) {
        const uint64_t product = (uint64_t)a.lane[l] * m;
        high.lane[l] = (uint32_t)(product >> 32);
        low.lane[l] = (uint32_t)product;
    }
}
static inline void transpose(Vec (&r)[W]) {
    for (int i = 0; i < W; ++i)
        for (int j = 0; j < i; ++j) {
            const float t = r[i].lane[j];
            r[i].lane[j] = r[j].lane[i];
            r[j].lane[i] = t;
        }
}

#endif

// 64 bytes, one per bit, each holding that bit of 8 items -> 64 bits of each item.
static inline void transpose_plane(const uint8_t* plane, uint64_t (&item)[8]) {
#if defined(__AVX512BW__)
    __m512i bytes = _mm512_loadu_si512(plane);
    for (int t = 7; t >= 0; --t) {
        item[t] = _mm512_movepi8_mask(bytes);
        bytes = _mm512_add_epi8(bytes, bytes);
    }
#elif defined(__AVX2__)
    __m256i low = _mm256_loadu_si256((const __m256i*)plane), high = _mm256_loadu_si256((const __m256i*)(plane + 32));
    for (int t = 7; t >= 0; --t) {
        item[t] = (uint64_t)(uint32_t)_mm256_movemask_epi8(low) |
                  (uint64_t)(uint32_t)_mm256_movemask_epi8(high) << 32;
        low = _mm256_add_epi8(low, low);
        high = _mm256_add_epi8(high, high);
    }
#else
    for (int t = 0; t < 8; ++t) item[t] = 0;
    for (int r = 0; r < 64; r += 8) {
        uint64_t x = 0;
        for (int s = 0; s < 8; ++s) x |= (uint64_t)plane[r + s] << 8 * s;
        // The 8 x 8 bit matrix transposed: Hacker's Delight, 7-3.
        uint64_t t = (x ^ (x >> 7)) & 0x00aa00aa00aa00aaull;
        x ^= t ^ (t << 7);
        t = (x ^ (x >> 14)) & 0x0000cccc0000ccccull;
        x ^= t ^ (t << 14);
        t = (x ^ (x >> 28)) & 0x00000000f0f0f0f0ull;
        x ^= t ^ (t << 28);
        for (int s = 0; s < 8; ++s) item[s] |= (x >> 8 * s & 0xff) << r;
    }
#endif
}

#if !defined(__AVX512F__)
// column[s][l] = rows[l][offset + s].
static inline void load_columns(const float* const* rows, std::size_t offset, Vec (&column)[W]) {
    for (int l = 0; l < W; ++l) column[l] = load(rows[l] + offset);
    transpose(column);
}
#endif

// Items per tile of the batch path: as many as one register block holds, at least eight (one byte of a bit plane).
constexpr int tile_items = W * block_vectors;
static_assert(tile_items % 8 == 0, "a tile fills whole bytes of its bit planes");

}  // namespace bilsh::BILSH_LEVEL
