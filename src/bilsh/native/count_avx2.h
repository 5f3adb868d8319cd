// Differing bits with AVX2, which cannot count: by look-ups of half bytes, and by carry-save adders for long rows.
#pragma once

#include <immintrin.h>

#include "bits_avx2.h"
#include "count_words.h"

namespace bilsh::BILSH_LEVEL {
namespace {

// Harley and Seal's count (Mula, Kurz and Lemire 2016): sixteen registers make one to look up. Whole blocks of 512
// bytes.
inline __m256i long_distance(const uint8_t* a, const uint8_t* b, size_t n_bytes) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i total = zero, ones = zero, twos = zero, fours = zero, eights = zero;
    for (size_t j = 0; j < n_bytes; j += 512) {
        __m256i eight[2];
#pragma GCC unroll 2
        for (int h = 0; h < 2; ++h) {
            __m256i four[2];
#pragma GCC unroll 2
            for (int i = 0; i < 2; ++i) {
                const size_t at = j + 256 * h + 128 * i;
                __m256i first, second;
                add_carry(first, ones, differing(a + at, b + at), differing(a + at + 32, b + at + 32));
                add_carry(second, ones, differing(a + at + 64, b + at + 64), differing(a + at + 96, b + at + 96));
                add_carry(four[i], twos, first, second);
            }
            add_carry(eight[h], fours, four[0], four[1]);
        }
        __m256i sixteens;
        add_carry(sixteens, eights, eight[0], eight[1]);
        total = _mm256_add_epi64(total, sum_words(count_bytes(sixteens)));
    }
    const __m256i rest[4] = {ones, twos, fours, eights};
    total = _mm256_slli_epi64(total, 4);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) total = _mm256_add_epi64(total, _mm256_slli_epi64(sum_words(count_bytes(rest[i])), i));
    return total;
}

// One row after the other, as memory likes it. Carry-save adders win from about 1,024 bytes on.
inline int32_t distance(const uint8_t* a, const uint8_t* b, size_t n_bytes) {
    __m256i sum = _mm256_setzero_si256();
    size_t j = 0;
    if (n_bytes >= 1024) {
        j = n_bytes / 512 * 512;
        sum = long_distance(a, b, j);
    }
    // Fewer than 1,024 bytes are left. A byte holds at most 8 per round, so no counter overflows in 31 rounds.
    __m256i even = _mm256_setzero_si256(), odd = _mm256_setzero_si256();
    for (; j + 64 <= n_bytes; j += 64) {
        even = _mm256_add_epi8(even, count_bytes(differing(a + j, b + j)));
        odd = _mm256_add_epi8(odd, count_bytes(differing(a + j + 32, b + j + 32)));
    }
    if (j + 32 <= n_bytes) {
        even = _mm256_add_epi8(even, count_bytes(differing(a + j, b + j)));
        j += 32;
    }
    sum = _mm256_add_epi64(sum, _mm256_add_epi64(sum_words(even), sum_words(odd)));
    return sum_across(sum) + distance_by_words(a, b, j, n_bytes);
}

// Short rows, eight at a time, of V whole registers and a rest: they share the sums across lanes. Pairs share a
// register (counts stay below 2^32), then come two rounds of halving.
template <int V>
size_t short_strip(const uint8_t* rows, size_t row_stride, size_t n_rows, const uint8_t* query, size_t n_bytes,
                   int32_t* out, bool add) {
    size_t r = 0;
    for (; r + 8 <= n_rows; r += 8) {
        const uint8_t* row = rows + r * row_stride;
        __m256i sum[8], pair[4], four[2];
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) {
            __m256i counts = _mm256_setzero_si256();
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v)
                counts = _mm256_add_epi8(counts, count_bytes(differing(row + i * row_stride + 32 * v, query + 32 * v)));
            sum[i] = sum_words(counts);
        }
        for (int i = 0; i < 4; ++i) pair[i] = _mm256_or_si256(sum[2 * i], _mm256_slli_epi64(sum[2 * i + 1], 32));
        for (int i = 0; i < 2; ++i)
            four[i] = _mm256_add_epi32(_mm256_unpacklo_epi64(pair[2 * i], pair[2 * i + 1]),
                                       _mm256_unpackhi_epi64(pair[2 * i], pair[2 * i + 1]));
        const __m256i all = _mm256_add_epi32(_mm256_permute2x128_si256(four[0], four[1], 0x20),
                                             _mm256_permute2x128_si256(four[0], four[1], 0x31));
        __m256i* target = reinterpret_cast<__m256i*>(out + r);
        _mm256_storeu_si256(target, add ? _mm256_add_epi32(all, _mm256_loadu_si256(target)) : all);
        if (n_bytes > 32 * V)
            for (int i = 0; i < 8; ++i) out[r + i] += distance_by_words(row + i * row_stride, query, 32 * V, n_bytes);
    }
    return r;
}

// Distances of the first rows to one query, if they are short; returns how many.
inline size_t short_tile(const uint8_t* rows, size_t row_stride, size_t n_rows, const uint8_t* query, size_t n_bytes,
                         int32_t* out, bool add) {
    constexpr size_t (*strips[])(const uint8_t*, size_t, size_t, const uint8_t*, size_t, int32_t*, bool) = {
        short_strip<0>, short_strip<1>, short_strip<2>, short_strip<3>, short_strip<4>};
    return n_bytes < 160 ? strips[n_bytes / 32](rows, row_stride, n_rows, query, n_bytes, out, add) : 0;
}

// Against many queries, rows lie side by side in half bytes, and a look-up tells the distances of 32 rows to half a
// byte of a query: there are sixteen tables, one per value of it. A byte holds at most 4 per look-up, 62 look-ups in
// all.
constexpr PackedLayout packed_layout = {lanes, 1, 2, 512, 256, 512};
constexpr void (*lay)(const uint8_t*, size_t, uint8_t*) = nullptr;
constexpr size_t chunk_bytes = 31;
constexpr size_t span_bytes = 256 * chunk_bytes;  // whose distances fit 16 bits

void pack(const uint8_t* rows, size_t row_stride, size_t n_rows, size_t n_bytes, uint8_t* packed) {
    pack_halves(rows, row_stride, n_rows, n_bytes, packed);
}

struct HalfTables {
    alignas(16) uint8_t table[16][16];
    constexpr HalfTables() : table() {
        for (unsigned value = 0; value < 16; ++value)
            for (unsigned x = 0; x < 16; ++x)
                for (unsigned bit = 0; bit < 4; ++bit) table[value][x] += (x ^ value) >> bit & 1;
    }
};
constexpr HalfTables half_tables;

// G groups of 32 rows against Q queries, over one chunk of bytes; sums of 16 bits are kept in two registers per group.
template <int G, int Q>
inline void micro_packed(const uint8_t* packed, size_t group_bytes, const uint8_t (*tables)[Q][16], size_t n_halves,
                         __m256i (*sums)[2], size_t sums_stride, bool add) {
    __m256i acc[Q][G];
#pragma GCC unroll 4
    for (int q = 0; q < Q; ++q)
#pragma GCC unroll 2
        for (int g = 0; g < G; ++g) acc[q][g] = _mm256_setzero_si256();
#pragma GCC unroll 2
    for (size_t h = 0; h < n_halves; ++h) {
        __m256i row[G];
#pragma GCC unroll 2
        for (int g = 0; g < G; ++g) row[g] = load_bytes(packed + g * group_bytes + h * lanes);
#pragma GCC unroll 4
        for (int q = 0; q < Q; ++q) {
            const __m256i table = load_table(tables[h][q]);
#pragma GCC unroll 2
            for (int g = 0; g < G; ++g) acc[q][g] = _mm256_add_epi8(acc[q][g], look_up_bytes(table, row[g]));
        }
    }
#pragma GCC unroll 4
    for (int q = 0; q < Q; ++q)
#pragma GCC unroll 2
        for (int g = 0; g < G; ++g) {
            __m256i* sum = sums[q * sums_stride + g];
            const __m256i low = _mm256_unpacklo_epi8(acc[q][g], _mm256_setzero_si256());
            const __m256i high = _mm256_unpackhi_epi8(acc[q][g], _mm256_setzero_si256());
            sum[0] = add ? _mm256_add_epi16(sum[0], low) : low;
            sum[1] = add ? _mm256_add_epi16(sum[1], high) : high;
        }
}

inline void write_eight(__m128i sums, int32_t* out, bool add) {
    const __m256i wide = _mm256_cvtepu16_epi32(sums);
    __m256i* target = reinterpret_cast<__m256i*>(out);
    _mm256_storeu_si256(target, add ? _mm256_add_epi32(wide, _mm256_loadu_si256(target)) : wide);
}

constexpr size_t groups_at_once = 16;  // 512 rows, whose sums stay in the first-level cache

template <int Q>
void strip_packed(const uint8_t* packed, size_t n_rows, const uint8_t* queries, size_t query_stride, size_t n_bytes,
                  int32_t* out, size_t out_stride, bool add) {
    const size_t group_bytes = 2 * lanes * n_bytes;
    alignas(16) uint8_t tables[2 * chunk_bytes][Q][16];
    __m256i sums[Q * groups_at_once][2];
    for (size_t first = 0; first < n_rows / lanes; first += groups_at_once) {
        const size_t left = n_rows / lanes - first, n_groups = left < groups_at_once ? left : groups_at_once;
        const uint8_t* from = packed + first * group_bytes;
        bool more = add;
        for (size_t span = 0; span < n_bytes; span += span_bytes) {
            const size_t span_end = n_bytes - span < span_bytes ? n_bytes : span + span_bytes;
            for (size_t chunk = span; chunk < span_end; chunk += chunk_bytes) {
                const size_t bytes = span_end - chunk < chunk_bytes ? span_end - chunk : chunk_bytes;
                for (size_t j = 0; j < bytes; ++j)
                    for (int q = 0; q < Q; ++q) {
                        const uint8_t byte = queries[q * query_stride + chunk + j];
                        __builtin_memcpy(tables[2 * j][q], half_tables.table[byte & 15], 16);
                        __builtin_memcpy(tables[2 * j + 1][q], half_tables.table[byte >> 4], 16);
                    }
                const uint8_t* at = from + chunk * 2 * lanes;
                size_t g = 0;
                for (; g + 2 <= n_groups; g += 2)
                    micro_packed<2, Q>(at + g * group_bytes, group_bytes, tables, 2 * bytes, sums + g, groups_at_once,
                                       chunk != span);
                if (g < n_groups)
                    micro_packed<1, Q>(at + g * group_bytes, group_bytes, tables, 2 * bytes, sums + g, groups_at_once,
                                       chunk != span);
            }
            for (int q = 0; q < Q; ++q)
                for (size_t g = 0; g < n_groups; ++g) {
                    const __m256i* sum = sums[q * groups_at_once + g];
                    int32_t* target = out + q * out_stride + (first + g) * lanes;
                    write_eight(_mm256_castsi256_si128(sum[0]), target, more);
                    write_eight(_mm256_castsi256_si128(sum[1]), target + 8, more);
                    write_eight(_mm256_extracti128_si256(sum[0], 1), target + 16, more);
                    write_eight(_mm256_extracti128_si256(sum[1], 1), target + 24, more);
                }
            more = true;
        }
    }
}

}  // namespace
}  // namespace bilsh::BILSH_LEVEL
