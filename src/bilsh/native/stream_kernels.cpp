// The weight generator, compiled once per instruction set.
//
// Weight stream. Philox4x32-10 (Salmon et al. 2011) with key = the seed's two 32-bit halves (low first) and counter
// (g, row, 0, 0), where counter g = 16 * (column / 64) + column % 16 serves four columns of its row: its output word
// t belongs to column 64 * (column / 64) + 16 * t + column % 16. So any weight can be made alone, in any order, and
// vectors of 4, 8 or 16 lanes make whole runs of columns.
//   gaussian  words (0, 1) and (2, 3): Box-Muller, u = (w + 1/2) / 2^32 of the first word, angle of the second;
//             the first column gets r cos, the second r sin
//   cauchy    tan(angle of its word)
//   laplace   sign of the top bit, -log u of the other 31
// Every step is an integer operation or one correctly rounded float operation, so all machines agree on each bit.
#include "stream_kernels.h"

#include "simd.h"

namespace bilsh::BILSH_LEVEL {
namespace {

struct Words {
    Ints word[4];
};

inline Words philox(Ints c0, uint32_t row, uint64_t seed) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    Ints c1 = isplat(row), c2 = isplat(0), c3 = isplat(0);
    for (int round = 0; round < 10; ++round) {
        Ints high0, low0, high1, low1;
        multiply_wide(c0, 0xd2511f53u, high0, low0);
        multiply_wide(c2, 0xcd9e8d57u, high1, low1);
        c0 = ixor(ixor(high1, c1), isplat(k0));
        c2 = ixor(ixor(high0, c3), isplat(k1));
        c1 = low1;
        c3 = low0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return {{c0, c1, c2, c3}};
}

// (w + 1/2) / 2^32 rounded twice, in (0, 1].
inline Vec unit(Ints w) {
    const Vec whole = fma(to_float(shr<16>(w)), splat(65536.0f), to_float(iand(w, isplat(0xffffu))));
    return fma(whole, splat(0x1p-32f), splat(0x1p-33f));
}

// Natural logarithm of a normal u > 0, after Cephes' logf.
inline Vec log(Vec u) {
    const Ints half_root = isplat(0x3f3504f3u);  // sqrt(1/2): the mantissa is taken in [sqrt(1/2), sqrt(2))
    const Ints exponent = sar<23>(isub(as_ints(u), half_root));
    const Vec x = sub(as_float(isub(as_ints(u), shl<23>(exponent))), splat(1.0f));
    const Vec e = to_float(exponent);
    const Vec z = mul(x, x);
    Vec y = splat(7.0376836292e-2f);
    y = fma(y, x, splat(-1.1514610310e-1f));
    y = fma(y, x, splat(1.1676998740e-1f));
    y = fma(y, x, splat(-1.2420140846e-1f));
    y = fma(y, x, splat(1.4249322787e-1f));
    y = fma(y, x, splat(-1.6668057665e-1f));
    y = fma(y, x, splat(2.0000714765e-1f));
    y = fma(y, x, splat(-2.4999993993e-1f));
    y = fma(y, x, splat(3.3333331174e-1f));
    y = mul(mul(y, x), z);
    y = fma(e, splat(-2.12194440e-4f), y);
    y = fma(z, splat(-0.5f), y);
    return fma(e, splat(0.693359375f), add(x, y));
}

// Sine and cosine of a uniform angle: the top two bits choose the quarter turn, the others the place in it
// (never 0 exactly). `odd` has all ones where sine and cosine of the place must be exchanged.
inline void place_in_quarter(Ints w, Vec& sine, Vec& cosine, Ints& odd) {
    const Vec quarter = fma(to_float(shl<2>(w)), splat(0x1p-32f), splat(0x1p-33f));
    const Vec x = mul(quarter, splat(1.57079632679f));
    const Vec z = mul(x, x);
    Vec s = fma(splat(-1.9515295891e-4f), z, splat(8.3321608736e-3f));
    s = fma(s, z, splat(-1.6666654611e-1f));
    sine = fma(mul(s, z), x, x);
    Vec c = fma(splat(2.443315711809948e-5f), z, splat(-1.388731625493765e-3f));
    c = fma(c, z, splat(4.166664568298827e-2f));
    cosine = fma(mul(c, z), z, fma(z, splat(-0.5f), splat(1.0f)));
    odd = sar<31>(shl<1>(w));
}

inline void box_muller(Ints first, Ints second, Vec& a, Vec& b) {
    const Vec radius = sqrt(abs(mul(splat(-2.0f), log(unit(first)))));
    Vec sine, cosine;
    Ints odd;
    place_in_quarter(second, sine, cosine, odd);
    const Ints top = isplat(0x80000000u);
    const Ints half_turn = iand(second, top);             // quarters 2 and 3
    const Ints turned = ixor(half_turn, iand(odd, top));  // the cosine is negative in quarters 1 and 2
    a = mul(radius, flip(select(odd, sine, cosine), turned));
    b = mul(radius, flip(select(odd, cosine, sine), half_turn));
}

inline Vec cauchy(Ints w) {
    Vec sine, cosine;
    Ints odd;
    place_in_quarter(w, sine, cosine, odd);
    const Vec ratio = div(select(odd, cosine, sine), select(odd, sine, cosine));
    return flip(ratio, iand(odd, isplat(0x80000000u)));
}

inline Vec laplace(Ints w) {
    const Vec magnitude = abs(log(unit(shl<1>(w))));
    return flip(magnitude, iand(w, isplat(0x80000000u)));
}

const uint32_t lane_numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

template <Variate kind>
void generate_as(uint64_t seed, const float* row_scale, std::size_t row_begin, std::size_t row_end,
                 std::size_t column_begin, std::size_t column_end, float* out, std::size_t out_stride) {
    for (std::size_t row = row_begin; row < row_end; ++row, out += out_stride) {
        const Vec scale = splat(row_scale[row]);
        for (std::size_t column = column_begin; column < column_end; column += 64)
            for (int l = 0; l < 16; l += W) {
                const Ints counter = iadd(isplat((uint32_t)(column / 4) + l), iload(lane_numbers));
                const Words w = philox(counter, (uint32_t)row, seed);
                Vec v[4];
                if constexpr (kind == Variate::gaussian) {
                    box_muller(w.word[0], w.word[1], v[0], v[1]);
                    box_muller(w.word[2], w.word[3], v[2], v[3]);
                } else {
                    for (int t = 0; t < 4; ++t) v[t] = kind == Variate::cauchy ? cauchy(w.word[t]) : laplace(w.word[t]);
                }
                for (int t = 0; t < 4; ++t) store(out + (column - column_begin) + 16 * t + l, mul(scale, v[t]));
            }
    }
}

}  // namespace

void generate(uint64_t seed, Variate kind, const float* row_scale, std::size_t row_begin, std::size_t row_end,
              std::size_t column_begin, std::size_t column_end, float* out, std::size_t out_stride) {
    const auto make = kind == Variate::gaussian ? generate_as<Variate::gaussian>
                      : kind == Variate::cauchy ? generate_as<Variate::cauchy>
                                                : generate_as<Variate::laplace>;
    make(seed, row_scale, row_begin, row_end, column_begin, column_end, out, out_stride);
}

}  // namespace bilsh::BILSH_LEVEL
