// Differing bits with AVX-512: one row, some short rows, and rows packed for many queries.
#pragma once

#include <immintrin.h>

#include "bits_avx512.h"
#include "count_words.h"
#include "simd_avx512.h"
#include "sums_avx512.h"

namespace bilsh::BILSH_LEVEL {
namespace {

using std::int32_t;
using std::size_t;
using std::uint32_t;
using std::uint64_t;
using std::uint8_t;

inline __m512i differing(const uint8_t* a, const uint8_t* b) {
    return _mm512_xor_si512(_mm512_loadu_si512(a), _mm512_loadu_si512(b));
}

inline __m512i differing_start(const uint8_t* a, const uint8_t* b, size_t n_bytes) {
    const __mmask64 mask = ~uint64_t{0} >> (64 - n_bytes);
    return _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, a), _mm512_maskz_loadu_epi8(mask, b));
}

// Differing bits of whole blocks, and how many bytes that were: four sums keep the counting units busy; or carry-save
// adders make one count of eight registers. Ahead: bytes to ask for beforehand.
#if defined(__AVX512VPOPCNTDQ__)
template <size_t Ahead>
inline size_t count_blocks(const uint8_t* a, const uint8_t* b, size_t n_bytes, __m512i& words) {
    __m512i sum[4] = {words, _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    size_t j = 0;
    for (; j + 256 <= n_bytes; j += 256)
        for (size_t i = 0; i < 4; ++i) {
            if (Ahead > 0) __builtin_prefetch(a + j + 64 * i + Ahead, 0, 2);
            sum[i] = add_counts(sum[i], counts_of(differing(a + j + 64 * i, b + j + 64 * i)));
        }
    words = _mm512_add_epi64(_mm512_add_epi64(sum[0], sum[1]), _mm512_add_epi64(sum[2], sum[3]));
    return j;
}
#else
template <size_t Ahead>
inline size_t count_blocks(const uint8_t* a, const uint8_t* b, size_t n_bytes, __m512i& words) {
    if (n_bytes < 512) return 0;
    const __m512i zero = _mm512_setzero_si512();
    __m512i eights = zero, ones = zero, twos = zero, fours = zero;
    size_t j = 0;
    for (; j + 512 <= n_bytes; j += 512) {
        __m512i two[4], four[2], eight;
#    pragma GCC unroll 4
        for (size_t i = 0; i < 4; ++i) {
            const uint8_t *x = a + j + 128 * i, *y = b + j + 128 * i;
            if (Ahead > 0) __builtin_prefetch(x + Ahead, 0, 2);
            if (Ahead > 0) __builtin_prefetch(x + 64 + Ahead, 0, 2);
            add_carry(two[i], ones, differing(x, y), differing(x + 64, y + 64));
        }
        add_carry(four[0], twos, two[0], two[1]);
        add_carry(four[1], twos, two[2], two[3]);
        add_carry(eight, fours, four[0], four[1]);
        eights = _mm512_add_epi64(eights, words_of(counts_of(eight)));
    }
    const __m512i rest = add_counts(add_counts(counts_of(ones), counts_of<2>(twos)), counts_of<4>(fours));
    words = _mm512_add_epi64(words, _mm512_add_epi64(_mm512_slli_epi64(eights, 3), words_of(rest)));
    return j;
}
#endif

// One row after the other, as memory likes it.
template <size_t Ahead>
inline int32_t distance_ahead(const uint8_t* a, const uint8_t* b, size_t n_bytes) {
    __m512i counts = _mm512_setzero_si512(), words = _mm512_setzero_si512();
    size_t j = 0;
    if (Ahead > 0) {  // whole lines of the row, wherever the query lies
        j = -reinterpret_cast<uintptr_t>(a) % 64;
        if (j > 0) counts = counts_of(differing_start(a, b, j));
    }
    j += count_blocks<Ahead>(a + j, b + j, n_bytes - j, words);
    for (; j + 64 <= n_bytes; j += 64) counts = add_counts(counts, counts_of(differing(a + j, b + j)));
    if (j < n_bytes) counts = add_counts(counts, counts_of(differing_start(a + j, b + j, n_bytes - j)));
    return static_cast<int32_t>(_mm512_reduce_add_epi64(_mm512_add_epi64(words, words_of(counts))));
}

inline int32_t distance(const uint8_t* a, const uint8_t* b, size_t n_bytes) { return distance_ahead<0>(a, b, n_bytes); }

// Distances of one query to long rows that lie one behind the other; returns how many. What follows is asked for
// beforehand, into the second-level cache: 2 KB was best with small and with huge pages, and 4 KB reads a third less of
// rows of 2 KB.
inline size_t long_tile(const uint8_t* rows, size_t row_stride, size_t n_rows, const uint8_t* query, size_t n_bytes,
                        int32_t* out, bool add) {
    if (n_bytes < 2048 || row_stride != n_bytes) return 0;
    for (size_t r = 0; r < n_rows; ++r)
        out[r] = distance_ahead<2048>(rows + r * row_stride, query, n_bytes) + (add ? out[r] : 0);
    return n_rows;
}

inline __m512i add_differing(__m512i counts, __m512i a, __m512i b) {
    return add_counts(counts, counts_of(_mm512_xor_si512(a, b)));
}

// Rows of 32 bytes one after the other: a register holds two.
inline size_t half_register_tile(const uint8_t* rows, size_t n_rows, const uint8_t* query, int32_t* out, bool add) {
    const __m512i both = _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(query)));
    const __m512i order = _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
    size_t r = 0;
    for (; r + 16 <= n_rows; r += 16) {
        __m512i count[8];
        for (int i = 0; i < 8; ++i)
            count[i] = words_of(counts_of(_mm512_xor_si512(both, _mm512_loadu_si512(rows + 32 * r + 64 * i))));
        const __m512i all = _mm512_permutexvar_epi32(order, sum_halves(count));
        _mm512_storeu_si512(out + r, add ? _mm512_add_epi32(all, _mm512_loadu_si512(out + r)) : all);
    }
    return r;
}

// Rows of 64 bytes: a register holds one.
inline size_t register_tile(const uint8_t* rows, size_t row_stride, size_t n_rows, const uint8_t* query, int32_t* out,
                            bool add) {
    const __m512i code = _mm512_loadu_si512(query);
    size_t r = 0;
    for (; r + 8 <= n_rows; r += 8) {
        __m512i count[8];
        for (int i = 0; i < 8; ++i)
            count[i] = words_of(counts_of(_mm512_xor_si512(code, _mm512_loadu_si512(rows + (r + i) * row_stride))));
        const __m256i all = sum_eight(count);
        __m256i* target = reinterpret_cast<__m256i*>(out + r);
        _mm256_storeu_si256(target, add ? _mm256_add_epi32(all, _mm256_loadu_si256(target)) : all);
    }
    return r;
}

// Distances of the first rows to one query, if they are short; returns how many. Eight rows share the sums across
// lanes.
inline size_t short_tile(const uint8_t* rows, size_t row_stride, size_t n_rows, const uint8_t* query, size_t n_bytes,
                         int32_t* out, bool add) {
    if (n_bytes > 128) return 0;
    if (n_bytes == 32 && row_stride == 32) return half_register_tile(rows, n_rows, query, out, add);
    if (n_bytes == 64) return register_tile(rows, row_stride, n_rows, query, out, add);
    const size_t whole = n_bytes / 64 * 64;
    const __mmask64 mask = whole < n_bytes ? ~uint64_t{0} >> (64 - (n_bytes - whole)) : 0;
    const __m512i last = _mm512_maskz_loadu_epi8(mask, query + whole);
    size_t r = 0;
    for (; r + 8 <= n_rows; r += 8) {
        const uint8_t* row = rows + r * row_stride;
        __m512i count[8];
        for (int i = 0; i < 8; ++i) count[i] = _mm512_setzero_si512();
        for (size_t j = 0; j < whole; j += 64) {
            const __m512i part = _mm512_loadu_si512(query + j);
            for (int i = 0; i < 8; ++i)
                count[i] = add_differing(count[i], part, _mm512_loadu_si512(row + i * row_stride + j));
        }
        if (mask != 0)
            for (int i = 0; i < 8; ++i)
                count[i] = add_differing(count[i], last, _mm512_maskz_loadu_epi8(mask, row + i * row_stride + whole));
        for (int i = 0; i < 8; ++i) count[i] = words_of(count[i]);
        const __m256i all = sum_eight(count);
        __m256i* target = reinterpret_cast<__m256i*>(out + r);
        _mm256_storeu_si256(target, add ? _mm256_add_epi32(all, _mm256_loadu_si256(target)) : all);
    }
    return r;
}

// Adds the distances of listed rows of 64 bytes, eight at a time.
inline void gather_registers(const uint8_t* rows, size_t row_stride, const uint32_t* index, size_t n,
                             const uint8_t* query, int32_t* out) {
    const __m512i code = _mm512_loadu_si512(query);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m512i count[8];
        for (int r = 0; r < 8; ++r)
            count[r] = words_of(
                counts_of(_mm512_xor_si512(code, _mm512_loadu_si512(rows + size_t{index[i + r]} * row_stride))));
        __m256i* target = reinterpret_cast<__m256i*>(out + i);
        _mm256_storeu_si256(target, _mm256_add_epi32(sum_eight(count), _mm256_loadu_si256(target)));
    }
    if (i == n) return;
    __m512i count[8];  // the last row stands for those that are not there
    for (size_t r = 0; r < 8; ++r)
        count[r] = words_of(counts_of(
            _mm512_xor_si512(code, _mm512_loadu_si512(rows + size_t{index[i + r < n ? i + r : n - 1]} * row_stride))));
    const __mmask8 here = static_cast<__mmask8>(0xffu >> (8 - (n - i)));
    const __m256i before = _mm256_maskz_loadu_epi32(here, out + i);
    _mm256_mask_storeu_epi32(out + i, here, _mm256_add_epi32(sum_eight(count), before));
}

// Sixteen rows side by side, four bytes of each: a register holds a part of all, and no sum across lanes is left at the
// end. Every word is the exclusive or of all up to it, in rows and in queries: so the word that tells in which places a
// row and a query differ an odd number of times up to there takes one instruction. A place that differs 2n or 2n + 1
// times falls back to even n times, at most once in two words, so a single count serves both words; or carry-save
// adders make one count of sixteen words.
constexpr PackedLayout packed_layout = {16, 8, 1, 128, 1024, 16};

void pack(const uint8_t* rows, size_t row_stride, size_t n_rows, size_t n_bytes, uint8_t* packed) {
    uint32_t* out = reinterpret_cast<uint32_t*>(packed);
    const size_t words = packed_layout.whole(n_bytes) / 4;
    for (size_t r = 0; r < n_rows; r += 16, out += 16 * words) {
        __m512i all = _mm512_setzero_si512();
        for (size_t j = 0; j < n_bytes; j += 64) {
            const size_t left = n_bytes - j < 64 ? n_bytes - j : 64;
            const __mmask64 mask = ~uint64_t{0} >> (64 - left);
            __m512i x[16];
            for (int i = 0; i < 16; ++i) x[i] = _mm512_maskz_loadu_epi8(mask, rows + (r + i) * row_stride + j);
            transpose(x);
            for (size_t i = 0; i < 16 && 4 * j + 16 * i < 16 * words; ++i) {
                all = _mm512_xor_si512(all, x[i]);
                _mm512_store_si512(out + 4 * j + 16 * i, all);
            }
        }
    }
}

void lay(const uint8_t* query, size_t n_bytes, uint8_t* laid) {
    uint32_t all = 0, word;
    size_t j = 0;
    for (; j + 4 <= n_bytes; j += 4) {
        __builtin_memcpy(&word, query + j, 4);
        all ^= word;
        __builtin_memcpy(laid + j, &all, 4);
    }
    for (; j < packed_layout.whole(n_bytes); j += 4) {
        word = 0;
        if (j < n_bytes) __builtin_memcpy(&word, query + j, n_bytes - j);
        all ^= word;
        __builtin_memcpy(laid + j, &all, 4);
    }
}

// Where sixteen rows and a query fall back to even within two words.
inline __m512i falls(const uint32_t* packed, const uint8_t* query, size_t j, __m512i& odd) {
    const auto word = [&](size_t at) __attribute__((always_inline)) {
        int found;
        __builtin_memcpy(&found, query + 4 * at, 4);
        return _mm512_set1_epi32(found);
    };
    const __m512i middle = _mm512_xor_si512(_mm512_load_si512(packed + 16 * j), word(j)),
                  end = _mm512_xor_si512(_mm512_load_si512(packed + 16 * j + 16), word(j + 1));
    constexpr int fell = 0x74;  // middle ? not end : odd
    const __m512i found = _mm512_ternarylogic_epi32(odd, middle, end, fell);
    odd = end;
    return found;
}

inline void write_sixteen(__m512i sums, int32_t* out, bool add) {
    _mm512_storeu_si512(out, add ? _mm512_add_epi32(sums, _mm512_loadu_si512(out)) : sums);
}

#if defined(__AVX512VPOPCNTDQ__)
// Sixteen rows against Q queries; four keep the counting units busy and their sums in registers.
template <int Q>
inline void micro_packed(const uint32_t* packed, size_t words, const uint8_t* queries, size_t query_stride,
                         int32_t* out, size_t out_stride, bool add) {
    __m512i fallen[Q], odd[Q];
#    pragma GCC unroll 4
    for (int q = 0; q < Q; ++q) fallen[q] = odd[q] = _mm512_setzero_si512();
    for (size_t j = 0; j < words; j += 2)
#    pragma GCC unroll 4
        for (int q = 0; q < Q; ++q)
            fallen[q] =
                _mm512_add_epi32(fallen[q], _mm512_popcnt_epi32(falls(packed, queries + q * query_stride, j, odd[q])));
#    pragma GCC unroll 4
    for (int q = 0; q < Q; ++q)
        write_sixteen(_mm512_add_epi32(_mm512_slli_epi32(fallen[q], 1), _mm512_popcnt_epi32(odd[q])),
                      out + q * out_stride, add);
}
#else
// Sixteen rows against Q queries, one after the other.
template <int Q>
inline void micro_packed(const uint32_t* packed, size_t words, const uint8_t* queries, size_t query_stride,
                         int32_t* out, size_t out_stride, bool add) {
    const __m512i zero = _mm512_setzero_si512();
    for (int q = 0; q < Q; ++q, queries += query_stride, out += out_stride) {
        __m512i odd = zero, ones = zero, twos = zero, fours = zero, sum = zero;
        size_t j = 0;
        while (j + 16 <= words) {
            __m512i eights = zero;
            for (size_t n = 0; n < most_counts && j + 16 <= words; ++n, j += 16) {
                __m512i two[4], four[2], eight;
#    pragma GCC unroll 4
                for (size_t i = 0; i < 4; ++i) {
                    const __m512i first = falls(packed, queries, j + 4 * i, odd);
                    add_carry(two[i], ones, first, falls(packed, queries, j + 4 * i + 2, odd));
                }
                add_carry(four[0], twos, two[0], two[1]);
                add_carry(four[1], twos, two[2], two[3]);
                add_carry(eight, fours, four[0], four[1]);
                eights = add_counts(eights, counts_of(eight));
            }
            sum = _mm512_add_epi32(sum, _mm512_slli_epi32(sum_fours(eights), 4));
        }
        __m512i counts = add_counts(counts_of<2>(ones), add_counts(counts_of<4>(twos), counts_of<8>(fours)));
        for (; j < words; j += 2) counts = add_counts(counts, counts_of<2>(falls(packed, queries, j, odd)));
        counts = add_counts(counts, counts_of(odd));  // at most 16 + 32 + 64 + 7 x 16 + 8
        write_sixteen(_mm512_add_epi32(sum, sum_fours(counts)), out, add);
    }
}
#endif

template <int Q>
void strip_packed(const uint8_t* packed, size_t n_rows, const uint8_t* queries, size_t query_stride, size_t n_bytes,
                  int32_t* out, size_t out_stride, bool add) {
    const uint32_t* from = reinterpret_cast<const uint32_t*>(packed);
    const size_t words = packed_layout.whole(n_bytes) / 4;
    for (size_t r = 0; r < n_rows; r += 16)
        micro_packed<Q>(from + r * words, words, queries, query_stride, out + r, out_stride, add);
}

}  // namespace
}  // namespace bilsh::BILSH_LEVEL
