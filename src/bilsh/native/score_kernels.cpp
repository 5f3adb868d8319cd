// Table look-ups with rows in lanes, compiled once per instruction set; plain loops and intrinsics only.
#include "score_kernels.h"

#include "simd.h"
#if defined(__AVX512VBMI__)
#    include "digits_avx512.h"
#else
#    include "byte_lanes.h"
#endif

namespace bilsh::BILSH_LEVEL {
namespace {

using std::size_t;
using std::uint32_t;
using std::uint8_t;

void tables(const float* weights, size_t n_groups, float* out) {
    for (; n_groups > 0; --n_groups, weights += 4, out += 16) {
#if defined(__AVX512BW__)
        const auto where = [&](__mmask16 mask, int b) __attribute__((always_inline)) {
            return _mm512_maskz_mov_ps(mask, _mm512_set1_ps(weights[b]));
        };
        const __m512 low = _mm512_add_ps(where(0xaaaa, 0), where(0xcccc, 1));
        _mm512_storeu_ps(out, _mm512_add_ps(low, _mm512_add_ps(where(0xf0f0, 2), where(0xff00, 3))));
#else
        const float low[4] = {0.0f, weights[0] + 0.0f, 0.0f + weights[1], weights[0] + weights[1]};
        const float high[4] = {0.0f, weights[2] + 0.0f, 0.0f + weights[3], weights[2] + weights[3]};
        for (unsigned h = 0; h < 4; ++h)
            for (unsigned l = 0; l < 4; ++l) out[4 * h + l] = low[l] + high[h];
#endif
    }
}

// Plain loops of a fixed length: compilers make vectors of them.
void digits(const float* sums, float least, float scale, float most, int bits, uint8_t* first, uint8_t* second) {
    std::int32_t steps[16];
    for (int p = 0; p < 16; ++p) {
        const float step = (sums[p] - least) * scale + 0.5f;
        steps[p] = static_cast<std::int32_t>(step < most ? step : most);
    }
    const std::int32_t mask = (1 << bits) - 1;
    for (int p = 0; p < 16; ++p) first[p] = static_cast<uint8_t>(steps[p] & mask);
    if (second == nullptr) return;
    for (int p = 0; p < 16; ++p) second[p] = static_cast<uint8_t>(steps[p] >> bits);
}

inline void look_up_row(const uint8_t* row, size_t n_bytes, const float* tables, float* partial) {
    float sum = *partial;
    for (size_t j = 0; j < n_bytes; ++j, tables += floats_per_byte) {
        sum += tables[row[j] & 15];
        sum += tables[16 + (row[j] >> 4)];
    }
    *partial = sum;
}

#if defined(__AVX512BW__)

constexpr size_t float_lanes = 16;

// Word w (four bytes) of sixteen rows in x[w], for up to sixteen words; bytes beyond n_bytes are zero.
inline void load_words(const uint8_t* const* rows, size_t n_bytes, __m512i (&x)[16]) {
    const __mmask64 mask = ~std::uint64_t{0} >> (64 - n_bytes);
    for (int i = 0; i < 16; ++i) x[i] = _mm512_maskz_loadu_epi8(mask, rows[i]);
    transpose(x);
}

// G groups of sixteen rows share each table that is loaded.
template <int G>
inline void look_up_groups(const uint8_t* const* rows, size_t n_bytes, const float* tables, float* partial) {
    alignas(64) uint32_t words[G][16][16];
    for (int g = 0; g < G; ++g) {
        __m512i x[16];
        load_words(rows + 16 * g, n_bytes, x);
        for (int i = 0; i < 16; ++i) _mm512_store_si512(words[g][i], x[i]);
    }
    __m512 sum[G];
    for (int g = 0; g < G; ++g) sum[g] = _mm512_loadu_ps(partial + 16 * g);
    for (size_t w = 0; w < (n_bytes + 3) / 4; ++w) {
        __m512i index[G];
        for (int g = 0; g < G; ++g) index[g] = _mm512_load_si512(words[g][w]);
        for (int half = 0; half < 8; ++half, tables += 16) {
            const __m512 table = _mm512_loadu_ps(tables);
            for (int g = 0; g < G; ++g) {
                // Only the low four bits of an index count.
                sum[g] = _mm512_add_ps(sum[g], _mm512_permutexvar_ps(index[g], table));
                index[g] = _mm512_srli_epi32(index[g], 4);
            }
        }
    }
    for (int g = 0; g < G; ++g) _mm512_storeu_ps(partial + 16 * g, sum[g]);
}

#elif defined(__AVX2__)

constexpr size_t float_lanes = 8;

template <int G>
inline void look_up_groups(const uint8_t* const* rows, size_t n_bytes, const float* tables, float* partial) {
    __m256 sum[G];
    for (int g = 0; g < G; ++g) sum[g] = _mm256_loadu_ps(partial + 8 * g);
    for (size_t j = 0; j < n_bytes; j += 4) {
        const size_t n = n_bytes - j < 4 ? n_bytes - j : 4;
        __m256i index[G];
        for (int g = 0; g < G; ++g) {
            alignas(32) uint32_t word[8] = {};
            for (int i = 0; i < 8; ++i)
                if (n == 4)
                    __builtin_memcpy(&word[i], rows[8 * g + i] + j, 4);
                else
                    __builtin_memcpy(&word[i], rows[8 * g + i] + j, n);
            index[g] = _mm256_load_si256(reinterpret_cast<const __m256i*>(word));
        }
        for (int half = 0; half < 8; ++half, tables += 16) {
            const __m256 low = _mm256_loadu_ps(tables), high = _mm256_loadu_ps(tables + 8);
            for (int g = 0; g < G; ++g) {
                // Bit 3 of the half byte, moved to the sign, chooses between the two halves of the table.
                const __m256 upper = _mm256_castsi256_ps(_mm256_slli_epi32(index[g], 28));
                sum[g] = _mm256_add_ps(sum[g], _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, index[g]),
                                                                _mm256_permutevar8x32_ps(high, index[g]), upper));
                index[g] = _mm256_srli_epi32(index[g], 4);
            }
        }
    }
    for (int g = 0; g < G; ++g) _mm256_storeu_ps(partial + 8 * g, sum[g]);
}

#endif

void look_up(const uint8_t* const* rows, size_t n_rows, size_t n_bytes, const float* tables, float* partial) {
    if (n_bytes == 0) return;
    size_t r = 0;
#if defined(__AVX2__)
    for (; r + 4 * float_lanes <= n_rows; r += 4 * float_lanes)
        look_up_groups<4>(rows + r, n_bytes, tables, partial + r);
    if (n_rows - r > 1) {  // the last rows, repeated to fill the lanes
        const uint8_t* last[4 * float_lanes];
        float sums[4 * float_lanes];
        const size_t left = n_rows - r;
        for (size_t i = 0; i < 4 * float_lanes; ++i) {
            last[i] = rows[r + (i < left ? i : left - 1)];
            sums[i] = partial[r + (i < left ? i : left - 1)];
        }
        const auto groups = left <= float_lanes       ? look_up_groups<1>
                            : left <= 2 * float_lanes ? look_up_groups<2>
                                                      : look_up_groups<4>;
        groups(last, n_bytes, tables, sums);
        for (size_t i = 0; i < left; ++i) partial[r + i] = sums[i];
        r = n_rows;
    }
#endif
    for (; r < n_rows; ++r) look_up_row(rows[r], n_bytes, tables, partial + r);
}

#if defined(BILSH_BYTE_LANES)

constexpr DigitLayout digit_layout = {1, 6, false};
constexpr size_t digits_per_byte = 64;

// Four look-ups of six bits fit a byte, and 256 of their sums fit 16 bits: one panel.
struct DigitSums {
    Wide low, high;
    Bytes low_sum, high_sum;  // of the look-ups not yet added

    void look_up_half(Bytes index, const uint8_t* digits, bool first) {
        const Bytes a = look_up_bytes(load_table(digits), index), b = look_up_bytes(load_table(digits + 16), index);
        low_sum = first ? a : add_bytes(low_sum, a);
        high_sum = first ? b : add_bytes(high_sum, b);
    }
    void close() {
        low.add(low_sum);
        high.add(high_sum);
    }
};

// G groups of rows share each table.
template <int G>
inline void digits_of_groups(const uint8_t* packed, size_t n_bytes, const uint8_t* digits, std::int32_t* sums) {
    const size_t group_bytes = 2 * lanes * n_bytes;
    DigitSums sum[G];
    const auto step = [&](size_t j, int halves) __attribute__((always_inline)) {
#    pragma GCC unroll 4
        for (int h = 0; h < halves; ++h)
#    pragma GCC unroll 2
            for (int g = 0; g < G; ++g)
                sum[g].look_up_half(load_bytes(packed + g * group_bytes + (2 * j + h) * lanes),
                                    digits + j * digits_per_byte + 32 * h, h == 0);
#    pragma GCC unroll 2
        for (int g = 0; g < G; ++g) sum[g].close();
    };
    size_t j = 0;
    for (; j + 2 <= n_bytes; j += 2) step(j, 4);
    if (j < n_bytes) step(j, 2);
    for (int g = 0; g < G; ++g) add_digits(sum[g].low, sum[g].high, sums + g * lanes);
}

void add_packed_digits(const uint8_t* packed, size_t n_rows, size_t n_bytes, const DigitTables* tables,
                       size_t n_queries, std::int32_t* sums, size_t sums_stride) {
    for (size_t q = 0; q < n_queries; ++q, sums += sums_stride) {
        size_t r = 0;
        for (; r + 2 * lanes <= n_rows; r += 2 * lanes)
            digits_of_groups<2>(packed + 2 * r * n_bytes, n_bytes, tables[q].digits, sums + r);
        if (r < n_rows) digits_of_groups<1>(packed + 2 * r * n_bytes, n_bytes, tables[q].digits, sums + r);
    }
}

// For one query rows need not be packed: they are looked up as they are transposed.
inline void digits_of_lanes(const uint8_t* rows, size_t row_stride, size_t n_bytes, const uint8_t* digits,
                            std::int32_t* sums) {
    for (size_t panel = 0; panel < n_bytes; panel += digit_panel) {
        const size_t n = n_bytes - panel < digit_panel ? n_bytes - panel : digit_panel;
        const uint8_t* tables = digits + panel * digits_per_byte;
        DigitSums sum;
        transpose_rows(rows + panel, row_stride, n,
                       [&](size_t j, const Bytes(&column)[4], size_t columns) __attribute__((always_inline)) {
                           const auto look_up_byte = [&](size_t k) __attribute__((always_inline)) {
                               const uint8_t* table = tables + (j + k) * digits_per_byte;
                               sum.look_up_half(low_halves(column[k]), table, k % 2 == 0);
                               sum.look_up_half(high_halves(column[k]), table + 32, false);
                           };
#    pragma GCC unroll 2
                           for (size_t k = 0; k < 4; k += 2) {
                               if (k >= columns) break;
                               look_up_byte(k);
                               if (k + 1 < columns) look_up_byte(k + 1);
                               sum.close();
                           }
                       });
        add_digits(sum.low, sum.high, sums);
    }
}

void add_digits_of_rows(const uint8_t* rows, size_t row_stride, size_t n_rows, size_t n_bytes,
                        const DigitTables& tables, std::int32_t* sums) {
    for (size_t r = 0; r < n_rows; r += lanes) {
        const volatile uint8_t* line = rows + r * row_stride;  // many rows side by side: first as they lie
        for (size_t i = 0; i < lanes * row_stride; i += 64) static_cast<void>(line[i]);
        digits_of_lanes(rows + r * row_stride, row_stride, n_bytes, tables.digits, sums + r);
    }
}

void pack(const uint8_t* rows, size_t row_stride, size_t n_rows, size_t n_bytes, uint8_t* packed) {
    pack_halves(rows, row_stride, n_rows, n_bytes, packed);
}

#endif

}  // namespace

extern const ScoreKernels score_kernels;
#if defined(BILSH_BYTE_LANES) || defined(__AVX512VBMI__)
const ScoreKernels score_kernels = {
    tables, look_up, digits, lanes, digit_layout, pack, add_packed_digits, add_digits_of_rows};
#else
const ScoreKernels score_kernels = {tables, look_up, digits, 0, {1, 6, false}, nullptr, nullptr, nullptr};
#endif

}  // namespace bilsh::BILSH_LEVEL
