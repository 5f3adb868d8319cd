// Vectors as small arrays, for every other machine. See simd.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bilsh::BILSH_LEVEL {

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
static inline Vec splat(float x) {
    return lanewise<Vec>([&](int) { return x; });
}
static inline Vec load(const float* p) {
    return lanewise<Vec>([&](int l) { return p[l]; });
}
static inline Vec load_some(const float* p, int n) {
    return lanewise<Vec>([&](int l) { return l < n ? p[l] : 0.0f; });
}
static inline void store(float* p, Vec v) {
    for (int l = 0; l < W; ++l) p[l] = v.lane[l];
}
static inline void store_some(float* p, Vec v, int n) {
    for (int l = 0; l < n; ++l) p[l] = v.lane[l];
}
static inline Vec fma(Vec a, Vec b, Vec c) {
    return lanewise<Vec>([&](int l) { return __builtin_fmaf(a.lane[l], b.lane[l], c.lane[l]); });
}
static inline Vec add(Vec a, Vec b) {
    return lanewise<Vec>([&](int l) { return a.lane[l] + b.lane[l]; });
}
static inline Vec sub(Vec a, Vec b) {
    return lanewise<Vec>([&](int l) { return a.lane[l] - b.lane[l]; });
}
static inline Vec mul(Vec a, Vec b) {
    return lanewise<Vec>([&](int l) { return a.lane[l] * b.lane[l]; });
}
static inline Vec div(Vec a, Vec b) {
    return lanewise<Vec>([&](int l) { return a.lane[l] / b.lane[l]; });
}
static inline Vec sqrt(Vec a) {
    return lanewise<Vec>([&](int l) { return __builtin_sqrtf(a.lane[l]); });
}
static inline Vec abs(Vec a) {
    return lanewise<Vec>([&](int l) { return __builtin_fabsf(a.lane[l]); });
}
static inline Vec rint(Vec a) {
    return lanewise<Vec>([&](int l) { return __builtin_rintf(a.lane[l]); });
}
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
static inline Ints isplat(uint32_t x) {
    return lanewise<Ints>([&](int) { return x; });
}
static inline Ints iload(const uint32_t* p) {
    return lanewise<Ints>([&](int l) { return p[l]; });
}
static inline Ints iadd(Ints a, Ints b) {
    return lanewise<Ints>([&](int l) { return a.lane[l] + b.lane[l]; });
}
static inline Ints isub(Ints a, Ints b) {
    return lanewise<Ints>([&](int l) { return a.lane[l] - b.lane[l]; });
}
static inline Ints iand(Ints a, Ints b) {
    return lanewise<Ints>([&](int l) { return a.lane[l] & b.lane[l]; });
}
static inline Ints ixor(Ints a, Ints b) {
    return lanewise<Ints>([&](int l) { return a.lane[l] ^ b.lane[l]; });
}
static inline Vec flip(Vec a, Ints sign_bits) { return as_float(ixor(as_ints(a), sign_bits)); }
template <int n>
static inline Ints shl(Ints a) {
    return lanewise<Ints>([&](int l) { return a.lane[l] << n; });
}
template <int n>
static inline Ints shr(Ints a) {
    return lanewise<Ints>([&](int l) { return a.lane[l] >> n; });
}
template <int n>
static inline Ints sar(Ints a) {
    return lanewise<Ints>([&](int l) { return (uint32_t)((int32_t)a.lane[l] >> n); });
}
static inline Vec to_float(Ints a) {
    return lanewise<Vec>([&](int l) { return (float)(int32_t)a.lane[l]; });
}
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

}  // namespace bilsh::BILSH_LEVEL
