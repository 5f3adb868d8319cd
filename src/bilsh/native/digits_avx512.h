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

// The tables of four half bytes: D digits and a factor for each.
template <int D>
struct FourTables {
    __m512i digit[D], factor;

    __attribute__((always_inline)) FourTables(const uint8_t* digits, const std::int8_t* factors, size_t half) {
        for (int d = 0; d < D; ++d) digit[d] = _mm512_load_si512(digits + 2 * half_table * d + half_table * half);
        std::int32_t four = 0;
        __builtin_memcpy(&four, factors + 4 * half, 4);
        factor = _mm512_set1_epi32(four);
    }
};

// D digits of sixteen rows.
template <int D>
struct DigitSums {
    __m512i sum[D];

    DigitSums() {
        for (int d = 0; d < D; ++d) sum[d] = _mm512_setzero_si512();
    }
    __attribute__((always_inline)) void look_up(__m512i index, const FourTables<D>& table) {
        for (int d = 0; d < D; ++d)
            sum[d] = _mm512_dpbusd_epi32(sum[d], _mm512_permutexvar_epi8(index, table.digit[d]), table.factor);
    }
    void add_to(std::int32_t* out) const {
        const __m512i all =
            D == 1 ? sum[0] : _mm512_add_epi32(sum[0], _mm512_slli_epi32(sum[D - 1], digit_layout.bits));
        _mm512_storeu_si512(out, _mm512_add_epi32(_mm512_loadu_si512(out), all));
    }
};

// Up to 64 bytes of sixteen rows: four bytes of all rows in each register.
inline void load_rows(const uint8_t* rows, size_t row_stride, size_t n, __m512i (&x)[16]) {
    if (n >= 64)
        for (size_t i = 0; i < lanes; ++i) x[i] = _mm512_loadu_si512(rows + i * row_stride);
    else
        for (size_t i = 0; i < lanes; ++i)
            x[i] = _mm512_maskz_loadu_epi8(~uint64_t{0} >> (64 - n), rows + i * row_stride);
    transpose(x);
}

// Up to 32 bytes of sixteen rows, two rows in each register: a third of the shuffles. Rows come in the order of
// half_order.
inline void load_half_rows(const uint8_t* rows, size_t row_stride, size_t n, __m512i (&x)[8]) {
    const __mmask32 mask = ~std::uint32_t{0} >> (32 - n);
    __m512i r[8], t[8];
    for (size_t i = 0; i < 8; ++i, rows += 2 * row_stride)
        r[i] = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_maskz_loadu_epi8(mask, rows)),
                                  _mm256_maskz_loadu_epi8(mask, rows + row_stride), 1);
    for (size_t i = 0; i < 8; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (size_t i = 0; i < 8; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (size_t i = 0; i < 4; ++i) {
        x[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        x[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    }
}
// Where each row is in registers of load_half_rows.
inline __m512i half_order() { return _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15); }

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

// G groups of rows share each table, and Q queries each look at the rows.
template <int D, int G, int Q>
inline void digits_of_groups(const uint8_t* packed, size_t n_words, const DigitTables* tables, std::int32_t* sums,
                             size_t sums_stride) {
    DigitSums<D> sum[Q][G];
    for (size_t w = 0; w < n_words; ++w)
        for (size_t half = 0; half < 2; ++half) {
            const auto at = [&](int q) __attribute__((always_inline)) {
                return FourTables<D>(tables[q].digits + 2 * half_table * D * w, tables[q].factors + 8 * w, half);
            };
            const FourTables<D> first = at(0), last = at(Q - 1);
            for (size_t g = 0; g < G; ++g) {
                const __m512i index =
                    _mm512_load_si512(packed + 2 * half_table * (g * n_words + w) + half_table * half);
                sum[0][g].look_up(index, first);
                if (Q > 1) sum[Q - 1][g].look_up(index, last);
            }
        }
    for (size_t q = 0; q < Q; ++q)
        for (size_t g = 0; g < G; ++g) sum[q][g].add_to(sums + q * sums_stride + g * lanes);
}

template <int D, int Q>
void packed_digits(const uint8_t* packed, size_t n_rows, size_t n_bytes, const DigitTables* tables, std::int32_t* sums,
                   size_t sums_stride) {
    const size_t n_words = (n_bytes + 3) / 4, group_bytes = 2 * half_table * n_words;
    size_t r = 0;
    for (; r + 4 * lanes <= n_rows; r += 4 * lanes)
        digits_of_groups<D, 4, Q>(packed + r / lanes * group_bytes, n_words, tables, sums + r, sums_stride);
    for (; r < n_rows; r += lanes)
        digits_of_groups<D, 1, Q>(packed + r / lanes * group_bytes, n_words, tables, sums + r, sums_stride);
}

void add_packed_digits(const uint8_t* packed, size_t n_rows, size_t n_bytes, const DigitTables* tables,
                       size_t n_queries, std::int32_t* sums, size_t sums_stride) {
    for (size_t q = 0; q < n_queries;) {
        const bool two = q + 1 < n_queries && tables[q].n_digits == 1 && tables[q + 1].n_digits == 1;
        const auto add = two                       ? packed_digits<1, 2>
                         : tables[q].n_digits == 1 ? packed_digits<1, 1>
                                                   : packed_digits<2, 1>;
        add(packed, n_rows, n_bytes, tables + q, sums + q * sums_stride, sums_stride);
        q += two ? 2 : 1;
    }
}

// Bytes of rows up to where all of them begin a cache line: else every load would be of two lines, and rows a power of
// two apart push each other's second out of the cache before its turn. Zero where that does not happen.
inline size_t before_line(const uint8_t* rows, size_t row_stride) {
    const size_t begin = (64 - reinterpret_cast<std::uintptr_t>(rows) % 64) % 64;
    return row_stride % 1024 == 0 && begin % 4 == 0 ? begin : 0;
}

// For one query rows need not be packed: they are looked up as they are transposed. Rows lie one after the other, and
// so is memory asked for those to come, from `later` on: one line at a time, since many at once would block the loads.
template <int D>
void digits_of_rows(const uint8_t* rows, size_t row_stride, size_t n_bytes, const DigitTables& tables,
                    const uint8_t* later, std::int32_t* sums) {
    DigitSums<D> low, high;
    const uint8_t* digits = tables.digits;
    const std::int8_t* factors = tables.factors;
    size_t n = before_line(rows, row_stride);
    for (size_t j = 0; j < n_bytes; j += n, n = 64) {
        if (n == 0 || n > n_bytes - j) n = n_bytes - j < 64 ? n_bytes - j : 64;
        __m512i x[16];
        load_rows(rows + j, row_stride, n, x);
#pragma GCC unroll 16
        for (size_t i = 0; i < 16; ++i) {
            if (4 * i >= n) break;
            __builtin_prefetch(later + lanes * j + 64 * i, 0, 2);
            low.look_up(low_entries(x[i]), FourTables<D>(digits, factors, 0));
            high.look_up(high_entries(x[i]), FourTables<D>(digits, factors, 1));
            digits += 2 * half_table * D;
            factors += 8;
        }
    }
    low.add_to(sums);
    high.add_to(sums);
}

// The same for at most 32 bytes.
template <int D>
void digits_of_short_rows(const uint8_t* rows, size_t row_stride, size_t n_bytes, const DigitTables& tables,
                          const uint8_t* later, std::int32_t* sums) {
    DigitSums<D> low, high;
    __m512i x[8];
    load_half_rows(rows, row_stride, n_bytes, x);
#pragma GCC unroll 8
    for (size_t i = 0; i < 8; ++i) {
        if (4 * i >= n_bytes) break;
        if (64 * i < lanes * row_stride) __builtin_prefetch(later + 64 * i, 0, 2);
        low.look_up(low_entries(x[i]),
                    FourTables<D>(tables.digits + 2 * half_table * D * i, tables.factors + 8 * i, 0));
        high.look_up(high_entries(x[i]),
                     FourTables<D>(tables.digits + 2 * half_table * D * i, tables.factors + 8 * i, 1));
    }
    for (int d = 0; d < D; ++d)
        low.sum[d] = _mm512_permutexvar_epi32(half_order(), _mm512_add_epi32(low.sum[d], high.sum[d]));
    low.add_to(sums);
}

// The same for four groups of long rows, whose tables the first-level cache cannot hold: they share each that is
// loaded.
template <int D>
void digits_of_long_rows(const uint8_t* rows, size_t row_stride, size_t n_bytes, const DigitTables& tables,
                         const uint8_t* later, std::int32_t* sums) {
    constexpr size_t G = 4;
    alignas(64) uint8_t words[G][16][64];
    DigitSums<D> low[G], high[G];
    const uint8_t* digits = tables.digits;
    const std::int8_t* factors = tables.factors;
    size_t n = before_line(rows, row_stride);
    for (size_t j = 0; j < n_bytes; j += n, n = 64) {
        if (n == 0 || n > n_bytes - j) n = n_bytes - j < 64 ? n_bytes - j : 64;
        for (size_t g = 0; g < G; ++g) {
            __m512i x[16];
            load_rows(rows + g * lanes * row_stride + j, row_stride, n, x);
            for (int i = 0; i < 16; ++i) _mm512_store_si512(words[g][i], x[i]);
        }
        for (size_t i = 0; 4 * i < n; ++i) {
            const FourTables<D> low_table(digits, factors, 0), high_table(digits, factors, 1);
            for (size_t g = 0; g < G; ++g) {
                __builtin_prefetch(later + G * (lanes * j + 64 * i) + 64 * g, 0, 2);
                const __m512i bytes = _mm512_load_si512(words[g][i]);
                low[g].look_up(low_entries(bytes), low_table);
                high[g].look_up(high_entries(bytes), high_table);
            }
            digits += 2 * half_table * D;
            factors += 8;
        }
    }
    for (size_t g = 0; g < G; ++g) {
        low[g].add_to(sums + g * lanes);
        high[g].add_to(sums + g * lanes);
    }
}

void add_digits_of_rows(const uint8_t* rows, size_t row_stride, size_t n_rows, size_t n_bytes,
                        const DigitTables& tables, std::int32_t* sums) {
    constexpr size_t shortest = 640, longest = 4096;  // bytes: four groups of longer ones take too much of the cache
    size_t r = 0;
    if (n_bytes >= shortest && row_stride <= longest)
        for (; r + 4 * lanes <= n_rows; r += 4 * lanes) {
            const uint8_t* at = rows + r * row_stride;
            (tables.n_digits == 1 ? digits_of_long_rows<1> : digits_of_long_rows<2>)(at, row_stride, n_bytes, tables,
                                                                                     at + 4 * lanes * row_stride,
                                                                                     sums + r);
        }
    if (n_bytes == 0) return;
    const size_t ahead = lanes * row_stride > least_ahead ? lanes * row_stride : least_ahead;
    for (; r < n_rows; r += lanes) {
        const uint8_t* at = rows + r * row_stride;
        const auto add = n_bytes <= 32 ? (tables.n_digits == 1 ? digits_of_short_rows<1> : digits_of_short_rows<2>)
                                       : (tables.n_digits == 1 ? digits_of_rows<1> : digits_of_rows<2>);
        add(at, row_stride, n_bytes, tables, at + ahead, sums + r);
    }
}

}  // namespace
}  // namespace bilsh::BILSH_LEVEL
