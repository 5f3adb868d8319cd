// Digits of half bytes by AVX-512's look-up of 64 entries: four tables at once, so that a register serves four half
// bytes of sixteen rows, and a dot product adds the four.
#pragma once

#include <immintrin.h>

#include "score_kernels.h"
#include "simd_avx512.h"

namespace bilsh::BILSH_LEVEL {
namespace {

using std::size_t;
using std::uint64_t;
using std::uint8_t;

constexpr size_t lanes = 16;
constexpr DigitLayout digit_layout = {4, 8, true};
constexpr size_t half_table = 64;  // bytes: the tables of four half bytes
// Bytes, at least, from what is looked up to what is asked for meanwhile, of the second-level cache: look-ups take so
// long that the hardware foresees too little, and the first level has no room to wait in.
constexpr size_t least_ahead = 16384;

// Where the four bytes of each row find their entries: the table of byte b begins at 16 b.
inline __m512i entries(__m512i halves) {
    return _mm512_ternarylogic_epi32(halves, _mm512_set1_epi8(15), _mm512_set1_epi32(0x30201000), 0xea);  // (a & b) | c
}
inline __m512i low_entries(__m512i bytes) { return entries(bytes); }
inline __m512i high_entries(__m512i bytes) { return entries(_mm512_srli_epi32(bytes, 4)); }

// D digits of sixteen rows.
template <int D>
struct DigitSums {
    __m512i sum[D];

    DigitSums() {
        for (int d = 0; d < D; ++d) sum[d] = _mm512_setzero_si512();
    }
    __attribute__((always_inline)) void look_up(__m512i index, const __m512i (&table)[D]) {
        for (int d = 0; d < D; ++d)
            sum[d] = _mm512_dpbusd_epi32(sum[d], _mm512_permutexvar_epi8(index, table[d]), _mm512_set1_epi8(1));
    }
    void add_to(std::int32_t* out) const {
        const __m512i all =
            D == 1 ? sum[0] : _mm512_add_epi32(sum[0], _mm512_slli_epi32(sum[D - 1], digit_layout.bits));
        _mm512_storeu_si512(out, _mm512_add_epi32(_mm512_loadu_si512(out), all));
    }
};

template <int D>
__attribute__((always_inline)) inline void load_tables(const uint8_t* digits, size_t half, __m512i (&table)[D]) {
    for (int d = 0; d < D; ++d) table[d] = _mm512_load_si512(digits + 2 * half_table * d + half_table * half);
}

// Up to 64 bytes of sixteen rows: four bytes of all rows in each register.
inline void load_rows(const uint8_t* rows, size_t row_stride, size_t n, __m512i (&x)[16]) {
    if (n >= 64)
        for (size_t i = 0; i < lanes; ++i) x[i] = _mm512_loadu_si512(rows + i * row_stride);
    else
        for (size_t i = 0; i < lanes; ++i)
            x[i] = _mm512_maskz_loadu_epi8(~uint64_t{0} >> (64 - n), rows + i * row_stride);
    transpose(x);
}

// Sixteen rows side by side: for every four bytes of a code the entries of all rows, of low halves and then of high
// ones.
void pack(const uint8_t* rows, size_t row_stride, size_t n_rows, size_t n_bytes, uint8_t* packed) {
    for (size_t r = 0; r < n_rows; r += lanes, rows += lanes * row_stride)
        for (size_t j = 0; j < n_bytes; j += 64) {
            __m512i x[16];
            load_rows(rows + j, row_stride, n_bytes - j, x);
            for (size_t i = 0; i < 16 && j + 4 * i < n_bytes; ++i, packed += 2 * half_table) {
                _mm512_store_si512(packed, low_entries(x[i]));
                _mm512_store_si512(packed + half_table, high_entries(x[i]));
            }
        }
}

// G groups of rows share each table.
template <int D, int G>
inline void digits_of_groups(const uint8_t* packed, size_t n_words, const uint8_t* digits, std::int32_t* sums) {
    DigitSums<D> sum[G];
    for (size_t w = 0; w < n_words; ++w, digits += 2 * half_table * D)
        for (size_t half = 0; half < 2; ++half) {
            __m512i table[D];
            load_tables<D>(digits, half, table);
            for (size_t g = 0; g < G; ++g)
                sum[g].look_up(_mm512_load_si512(packed + 2 * half_table * (g * n_words + w) + half_table * half),
                               table);
        }
    for (size_t g = 0; g < G; ++g) sum[g].add_to(sums + g * lanes);
}

template <int D>
void packed_digits(const uint8_t* packed, size_t n_rows, size_t n_bytes, const uint8_t* digits, std::int32_t* sums) {
    const size_t n_words = (n_bytes + 3) / 4, group_bytes = 2 * half_table * n_words;
    size_t r = 0;
    for (; r + 4 * lanes <= n_rows; r += 4 * lanes)
        digits_of_groups<D, 4>(packed + r / lanes * group_bytes, n_words, digits, sums + r);
    for (; r < n_rows; r += lanes) digits_of_groups<D, 1>(packed + r / lanes * group_bytes, n_words, digits, sums + r);
}

void add_packed_digits(const uint8_t* packed, size_t n_rows, size_t n_bytes, const uint8_t* digits, int n_digits,
                       std::int32_t* sums) {
    (n_digits == 1 ? packed_digits<1> : packed_digits<2>)(packed, n_rows, n_bytes, digits, sums);
}

// For one query rows need not be packed: they are looked up as they are transposed.
template <int D>
void digits_of_rows(const uint8_t* rows, size_t row_stride, size_t n_bytes, const uint8_t* digits, std::int32_t* sums) {
    DigitSums<D> low, high;
    // Rows lie one after the other, and so is memory asked for those to come.
    const uint8_t* later = rows + (lanes * row_stride > least_ahead ? lanes * row_stride : least_ahead);
    for (size_t j = 0; j < n_bytes; j += 64) {
        __m512i x[16];
        load_rows(rows + j, row_stride, n_bytes - j, x);
#pragma GCC unroll 16
        for (size_t i = 0; i < 16; ++i) {
            if (j + 4 * i >= n_bytes) break;
            __builtin_prefetch(later + lanes * j + 64 * i, 0, 2);  // one at a time: many at once would block the loads
            __m512i table[D];
            load_tables<D>(digits, 0, table);
            low.look_up(low_entries(x[i]), table);
            load_tables<D>(digits, 1, table);
            high.look_up(high_entries(x[i]), table);
            digits += 2 * half_table * D;
        }
    }
    low.add_to(sums);
    high.add_to(sums);
}

void add_digits_of_rows(const uint8_t* rows, size_t row_stride, size_t n_bytes, const uint8_t* digits, int n_digits,
                        std::int32_t* sums) {
    (n_digits == 1 ? digits_of_rows<1> : digits_of_rows<2>)(rows, row_stride, n_bytes, digits, sums);
}

}  // namespace
}  // namespace bilsh::BILSH_LEVEL
