// The Walsh-Hadamard transform, compiled once per instruction set.
#include "simd.h"
#include "stream_kernels.h"

namespace bilsh::BILSH_LEVEL {
namespace {

// Butterflies between R registers, strides 1, 2, ... R / 2.
template <int R>
inline void butterflies(Vec (&r)[R]) {
#pragma GCC unroll 4
    for (int h = 1; h < R; h *= 2)
#pragma GCC unroll 16
        for (int i = 0; i < R; ++i)
            if (!(i & h)) {
                const Vec a = r[i], b = r[i + h];
                r[i] = add(a, b);
                r[i + h] = sub(a, b);
            }
}

// The strides h, 2 h, ... R h / 2 of a transform.
template <int R>
void long_strides(float* y, std::size_t size, std::size_t h) {
    for (std::size_t base = 0; base < size; base += R * h)
        for (std::size_t j = base; j < base + h; j += W) {
            Vec r[R];
#pragma GCC unroll 16
            for (int i = 0; i < R; ++i) r[i] = load(y + j + i * h);
            butterflies(r);
#pragma GCC unroll 16
            for (int i = 0; i < R; ++i) store(y + j + i * h, r[i]);
        }
}

void signed_transform(float* y, std::size_t size, const float* signs) {
    std::size_t h;
    if (size < (std::size_t)W * W) {
        for (std::size_t e = 0; e < size; ++e) y[e] *= signs[e];
        for (h = 1; h < size; h *= 2)
            for (std::size_t base = 0; base < size; base += 2 * h)
                for (std::size_t j = base; j < base + h; ++j) {
                    const float a = y[j], b = y[j + h];
                    y[j] = a + b;
                    y[j + h] = a - b;
                }
        return;
    }
    for (std::size_t base = 0; base < size; base += (std::size_t)W * W) {
        Vec r[W];
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) r[i] = mul(load(y + base + i * W), load(signs + base + i * W));
        transpose(r);
        butterflies(r);
        transpose(r);
        butterflies(r);
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) store(y + base + i * W, r[i]);
    }
    for (h = (std::size_t)W * W; size / h >= (std::size_t)W; h *= W) long_strides<W>(y, size, h);
    if (size / h == 8) long_strides<8>(y, size, h);
    if (size / h == 4) long_strides<4>(y, size, h);
    if (size / h == 2) long_strides<2>(y, size, h);
}

}  // namespace

void hadamard(float* y, std::size_t size, const float* signs) {
    for (int stage = 0; stage < 3; ++stage) signed_transform(y, size, signs + stage * size);
}

}  // namespace bilsh::BILSH_LEVEL
