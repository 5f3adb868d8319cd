// Vectors of ARM's NEON. See simd.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include <arm_neon.h>

namespace bilsh::BILSH_LEVEL {

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
template <int n>
static inline Ints shl(Ints a) {
    return vshlq_n_u32(a, n);
}
template <int n>
static inline Ints shr(Ints a) {
    return vshrq_n_u32(a, n);
}
template <int n>
static inline Ints sar(Ints a) {
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

}  // namespace bilsh::BILSH_LEVEL
