// Hamming distances in register tiles, compiled once per instruction set. Only plain loops and intrinsics here: an
// inline function of the standard library compiled with these flags could be the copy the linker keeps for everyone.
#include "hamming_kernels.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace bilsh::BILSH_LEVEL {
namespace {

using std::int32_t;
using std::size_t;
using std::uint32_t;
using std::uint64_t;
using std::uint8_t;

inline int count_bits(uint64_t x) {
#if defined(__x86_64__) && !defined(__POPCNT__)
    // Without the instruction the built-in is a call; this is the usual sum by halves.
    x -= (x >> 1) & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return static_cast<int>((x * 0x0101010101010101u) >> 56);
#else
    return __builtin_popcountll(x);
#endif
}

// Up to eight bytes as one word, zero beyond n.
inline uint64_t load_word(const uint8_t* p, size_t n) {
    uint64_t word = 0;
    __builtin_memcpy(&word, p, n < 8 ? n : 8);
    return word;
}

inline int32_t distance_by_words(const uint8_t* a, const uint8_t* b, size_t begin, size_t end) {
    int32_t sum = 0;
    size_t j = begin;
    for (; j + 8 <= end; j += 8) sum += count_bits(load_word(a + j, 8) ^ load_word(b + j, 8));
    if (j < end) sum += count_bits(load_word(a + j, end - j) ^ load_word(b + j, end - j));
    return sum;
}

#if defined(__AVX512VPOPCNTDQ__)

// Sums of the eight words of each of sixteen registers, in order: pairs share a register (counts stay below 2^32),
// then three rounds of halving.
inline __m512i sum_each(const __m512i* acc) {
    __m512i v[8];
    for (int i = 0; i < 8; ++i) v[i] = _mm512_or_si512(acc[2 * i], _mm512_slli_epi64(acc[2 * i + 1], 32));
    __m512i w[4];
    for (int i = 0; i < 4; ++i)
        w[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(v[2 * i], v[2 * i + 1]),
                                _mm512_unpackhi_epi64(v[2 * i], v[2 * i + 1]));
    __m512i x[2];
    for (int i = 0; i < 2; ++i)
        x[i] = _mm512_add_epi32(_mm512_shuffle_i64x2(w[2 * i], w[2 * i + 1], 0x88),
                                _mm512_shuffle_i64x2(w[2 * i], w[2 * i + 1], 0xdd));
    return _mm512_add_epi32(_mm512_shuffle_i64x2(x[0], x[1], 0x88), _mm512_shuffle_i64x2(x[0], x[1], 0xdd));
}

// Few queries are bound by memory, and several rows at once confuse the hardware's guesses: ask this many bytes early.
constexpr size_t ahead = 8192;

template <int R, int Q>
inline void micro(const uint8_t* rows, size_t row_stride, const uint8_t* queries, size_t query_stride, size_t n_bytes,
                  int32_t* out, size_t out_stride, bool add) {
    static_assert(R * Q <= 16);
    __m512i acc[16];
    for (int i = 0; i < 16; ++i) acc[i] = _mm512_setzero_si512();
    size_t j = 0;
    for (; j + 64 <= n_bytes; j += 64) {
        __m512i query[Q];
        for (int q = 0; q < Q; ++q) query[q] = _mm512_loadu_si512(queries + q * query_stride + j);
        for (int r = 0; r < R; ++r) {
            __builtin_prefetch(rows + r * row_stride + j + ahead);
            const __m512i row = _mm512_loadu_si512(rows + r * row_stride + j);
            for (int q = 0; q < Q; ++q)
                acc[q * R + r] =
                    _mm512_add_epi64(acc[q * R + r], _mm512_popcnt_epi64(_mm512_xor_si512(row, query[q])));
        }
    }
    if (j < n_bytes) {
        const __mmask64 mask = ~uint64_t{0} >> (64 - (n_bytes - j));
        __m512i query[Q];
        for (int q = 0; q < Q; ++q) query[q] = _mm512_maskz_loadu_epi8(mask, queries + q * query_stride + j);
        for (int r = 0; r < R; ++r) {
            const __m512i row = _mm512_maskz_loadu_epi8(mask, rows + r * row_stride + j);
            for (int q = 0; q < Q; ++q)
                acc[q * R + r] =
                    _mm512_add_epi64(acc[q * R + r], _mm512_popcnt_epi64(_mm512_xor_si512(row, query[q])));
        }
    }
    const __m512i sums = sum_each(acc);
    if constexpr (R == 16) {
        _mm512_storeu_si512(out, add ? _mm512_add_epi32(sums, _mm512_loadu_si512(out)) : sums);
    } else if constexpr (R == 4) {
        const __m128i part[4] = {_mm512_castsi512_si128(sums), _mm512_extracti32x4_epi32(sums, 1),
                                 _mm512_extracti32x4_epi32(sums, 2), _mm512_extracti32x4_epi32(sums, 3)};
        for (int q = 0; q < Q; ++q) {
            __m128i* target = reinterpret_cast<__m128i*>(out + q * out_stride);
            _mm_storeu_si128(target, add ? _mm_add_epi32(part[q], _mm_loadu_si128(target)) : part[q]);
        }
    } else {
        alignas(64) int32_t values[16];
        _mm512_store_si512(values, sums);
        for (int q = 0; q < Q; ++q)
            for (int r = 0; r < R; ++r) {
                int32_t& target = out[q * out_stride + r];
                target = values[q * R + r] + (add ? target : 0);
            }
    }
}

inline int32_t distance(const uint8_t* a, const uint8_t* b, size_t n_bytes) {
    __m512i even = _mm512_setzero_si512(), odd = _mm512_setzero_si512();
    size_t j = 0;
    for (; j + 128 <= n_bytes; j += 128) {
        even = _mm512_add_epi64(even, _mm512_popcnt_epi64(_mm512_xor_si512(_mm512_loadu_si512(a + j),
                                                                          _mm512_loadu_si512(b + j))));
        odd = _mm512_add_epi64(odd, _mm512_popcnt_epi64(_mm512_xor_si512(_mm512_loadu_si512(a + j + 64),
                                                                        _mm512_loadu_si512(b + j + 64))));
    }
    for (; j < n_bytes; j += 64) {
        const __mmask64 mask = n_bytes - j >= 64 ? ~uint64_t{0} : ~uint64_t{0} >> (64 - (n_bytes - j));
        even = _mm512_add_epi64(even, _mm512_popcnt_epi64(_mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, a + j),
                                                                          _mm512_maskz_loadu_epi8(mask, b + j))));
    }
    return static_cast<int32_t>(_mm512_reduce_add_epi64(_mm512_add_epi64(even, odd)));
}

constexpr int tile_rows = 4, tile_queries = 4;

// Eight registers of eight words, transposed.
inline void transpose(__m512i* x) {
    __m512i y[8], z[8];
    for (int i = 0; i < 8; i += 2) {
        y[i] = _mm512_unpacklo_epi64(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi64(x[i], x[i + 1]);
    }
    for (int i = 0; i < 2; ++i) {
        z[i] = _mm512_shuffle_i64x2(y[i], y[i + 2], 0x88);
        z[i + 2] = _mm512_shuffle_i64x2(y[i], y[i + 2], 0xdd);
        z[i + 4] = _mm512_shuffle_i64x2(y[i + 4], y[i + 6], 0x88);
        z[i + 6] = _mm512_shuffle_i64x2(y[i + 4], y[i + 6], 0xdd);
    }
    for (int i = 0; i < 4; ++i) {
        x[i] = _mm512_shuffle_i64x2(z[i], z[i + 4], 0x88);
        x[i + 4] = _mm512_shuffle_i64x2(z[i], z[i + 4], 0xdd);
    }
}

void pack(const uint8_t* rows, size_t row_stride, size_t n_rows, size_t n_bytes, uint64_t* packed) {
    const size_t words = (n_bytes + 7) / 8;
    for (size_t r = 0; r < n_rows; r += 8, packed += 8 * words)
        for (size_t j = 0; j < n_bytes; j += 64) {
            const size_t left = n_bytes - j < 64 ? n_bytes - j : 64;
            const __mmask64 mask = ~uint64_t{0} >> (64 - left);
            __m512i x[8];
            for (int i = 0; i < 8; ++i) {
                __builtin_prefetch(rows + (r + i) * row_stride + j + ahead);
                x[i] = _mm512_maskz_loadu_epi8(mask, rows + (r + i) * row_stride + j);
            }
            transpose(x);
            for (size_t i = 0; i < (left + 7) / 8; ++i) _mm512_store_si512(packed + j + 8 * i, x[i]);
        }
}

// G groups of eight rows against Q queries.
template <int G, int Q>
inline void micro_packed(const uint64_t* packed, size_t words, const uint8_t* queries, size_t query_stride,
                         size_t n_bytes, int32_t* out, size_t out_stride, bool add) {
    __m512i acc[Q][G];
    for (int q = 0; q < Q; ++q)
        for (int g = 0; g < G; ++g) acc[q][g] = _mm512_setzero_si512();
    const auto step = [&](size_t j, size_t n) __attribute__((always_inline)) {
        __m512i row[G];
        for (int g = 0; g < G; ++g) row[g] = _mm512_load_si512(packed + 8 * (g * words + j));
        for (int q = 0; q < Q; ++q) {
            const uint64_t word = load_word(queries + q * query_stride + 8 * j, n);
            const __m512i query = _mm512_set1_epi64(static_cast<long long>(word));
            for (int g = 0; g < G; ++g)
                acc[q][g] = _mm512_add_epi64(acc[q][g], _mm512_popcnt_epi64(_mm512_xor_si512(row[g], query)));
        }
    };
    const size_t whole = n_bytes / 8;
    for (size_t j = 0; j < whole; ++j) step(j, 8);
    if (whole < words) step(whole, n_bytes % 8);
    for (int q = 0; q < Q; ++q)
        for (int g = 0; g < G; ++g) {
            __m256i* target = reinterpret_cast<__m256i*>(out + q * out_stride + 8 * g);
            const __m256i sums = _mm512_cvtepi64_epi32(acc[q][g]);
            _mm256_storeu_si256(target, add ? _mm256_add_epi32(sums, _mm256_loadu_si256(target)) : sums);
        }
}

template <int Q>
void strip_packed(const uint64_t* packed, size_t n_rows, const uint8_t* queries, size_t query_stride, size_t n_bytes,
                  int32_t* out, size_t out_stride, bool add) {
    const size_t words = (n_bytes + 7) / 8;
    size_t r = 0;
    for (; r + 32 <= n_rows; r += 32)
        micro_packed<4, Q>(packed + r * words, words, queries, query_stride, n_bytes, out + r, out_stride, add);
    for (; r < n_rows; r += 8)
        micro_packed<1, Q>(packed + r * words, words, queries, query_stride, n_bytes, out + r, out_stride, add);
}

void tile_packed(const uint64_t* packed, size_t n_rows, const uint8_t* queries, size_t query_stride, size_t n_queries,
                 size_t n_bytes, int32_t* out, size_t out_stride, bool add) {
    size_t q = 0;
    for (; q + 4 <= n_queries; q += 4)
        strip_packed<4>(packed, n_rows, queries + q * query_stride, query_stride, n_bytes, out + q * out_stride,
                        out_stride, add);
    for (; q < n_queries; ++q)
        strip_packed<1>(packed, n_rows, queries + q * query_stride, query_stride, n_bytes, out + q * out_stride,
                        out_stride, add);
}

#elif defined(__AVX2__)

// Bits per byte by two look-ups of half a byte each.
inline __m256i count_bytes(__m256i x) {
    const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,  //
                                           0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    const __m256i low = _mm256_set1_epi8(15);
    return _mm256_add_epi8(_mm256_shuffle_epi8(table, _mm256_and_si256(x, low)),
                           _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(x, 4), low)));
}

inline __m256i load(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }

inline int32_t sum_bytes(__m256i x) {
    const __m256i words = _mm256_sad_epu8(x, _mm256_setzero_si256());
    const __m128i half = _mm_add_epi64(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    return static_cast<int32_t>(_mm_cvtsi128_si64(half) + _mm_extract_epi64(half, 1));
}

template <int R, int Q>
inline void micro(const uint8_t* rows, size_t row_stride, const uint8_t* queries, size_t query_stride, size_t n_bytes,
                  int32_t* out, size_t out_stride, bool add) {
    int32_t sums[Q][R] = {};
    size_t j = 0;
    while (j + 32 <= n_bytes) {
        __m256i acc[Q][R];
        for (int q = 0; q < Q; ++q)
            for (int r = 0; r < R; ++r) acc[q][r] = _mm256_setzero_si256();
        // A byte holds at most 8 per round, so 31 rounds fit before the counters must be emptied.
        const size_t whole = n_bytes / 32 * 32;
        const size_t end = whole - j > 31 * 32 ? j + 31 * 32 : whole;
        for (; j < end; j += 32) {
            __m256i query[Q];
            for (int q = 0; q < Q; ++q) query[q] = load(queries + q * query_stride + j);
            for (int r = 0; r < R; ++r) {
                const __m256i row = load(rows + r * row_stride + j);
                for (int q = 0; q < Q; ++q)
                    acc[q][r] = _mm256_add_epi8(acc[q][r], count_bytes(_mm256_xor_si256(row, query[q])));
            }
        }
        for (int q = 0; q < Q; ++q)
            for (int r = 0; r < R; ++r) sums[q][r] += sum_bytes(acc[q][r]);
    }
    for (int q = 0; q < Q; ++q)
        for (int r = 0; r < R; ++r) {
            int32_t& target = out[q * out_stride + r];
            target = sums[q][r] + (add ? target : 0) +
                     distance_by_words(rows + r * row_stride, queries + q * query_stride, j, n_bytes);
        }
}

inline int32_t distance(const uint8_t* a, const uint8_t* b, size_t n_bytes) {
    int32_t sum = 0;
    micro<1, 1>(a, 0, b, 0, n_bytes, &sum, 0, false);
    return sum;
}

constexpr int tile_rows = 4, tile_queries = 2;

#else

template <int R, int Q>
inline void micro(const uint8_t* rows, size_t row_stride, const uint8_t* queries, size_t query_stride, size_t n_bytes,
                  int32_t* out, size_t out_stride, bool add) {
    int32_t sums[Q][R] = {};
    size_t j = 0;
    for (; j + 8 <= n_bytes; j += 8) {
        uint64_t query[Q];
        for (int q = 0; q < Q; ++q) query[q] = load_word(queries + q * query_stride + j, 8);
        for (int r = 0; r < R; ++r) {
            const uint64_t row = load_word(rows + r * row_stride + j, 8);
            for (int q = 0; q < Q; ++q) sums[q][r] += count_bits(row ^ query[q]);
        }
    }
    for (int q = 0; q < Q; ++q)
        for (int r = 0; r < R; ++r) {
            int32_t& target = out[q * out_stride + r];
            target = sums[q][r] + (add ? target : 0) +
                     distance_by_words(rows + r * row_stride, queries + q * query_stride, j, n_bytes);
        }
}

inline int32_t distance(const uint8_t* a, const uint8_t* b, size_t n_bytes) {
    return distance_by_words(a, b, 0, n_bytes);
}

constexpr int tile_rows = 4, tile_queries = 4;

#endif

template <int Q>
void strip(const uint8_t* rows, size_t row_stride, size_t n_rows, const uint8_t* queries, size_t query_stride,
           size_t n_bytes, int32_t* out, size_t out_stride, bool add) {
    size_t r = 0;
#if defined(__AVX512VPOPCNTDQ__)
    // Short codes against one query: the sums at the end weigh most, so sixteen rows share them.
    if constexpr (Q == 1)
        if (n_bytes <= 512)
            for (; r + 16 <= n_rows; r += 16)
                micro<16, 1>(rows + r * row_stride, row_stride, queries, query_stride, n_bytes, out + r, out_stride, add);
#endif
    for (; r + tile_rows <= n_rows; r += tile_rows)
        micro<tile_rows, Q>(rows + r * row_stride, row_stride, queries, query_stride, n_bytes, out + r, out_stride, add);
    for (; r < n_rows; ++r)
        micro<1, Q>(rows + r * row_stride, row_stride, queries, query_stride, n_bytes, out + r, out_stride, add);
}

void tile(const uint8_t* rows, size_t row_stride, size_t n_rows, const uint8_t* queries, size_t query_stride,
          size_t n_queries, size_t n_bytes, int32_t* out, size_t out_stride, bool add) {
    size_t q = 0;
    for (; q + tile_queries <= n_queries; q += tile_queries)
        strip<tile_queries>(rows, row_stride, n_rows, queries + q * query_stride, query_stride, n_bytes,
                            out + q * out_stride, out_stride, add);
    for (; q + 2 <= n_queries; q += 2)
        strip<2>(rows, row_stride, n_rows, queries + q * query_stride, query_stride, n_bytes, out + q * out_stride,
                 out_stride, add);
    if (q < n_queries)
        strip<1>(rows, row_stride, n_rows, queries + q * query_stride, query_stride, n_bytes, out + q * out_stride,
                 out_stride, add);
}

void gather(const uint8_t* rows, size_t row_stride, const uint32_t* index, size_t n, const uint8_t* query,
            size_t n_bytes, int32_t* out) {
    // Scattered rows: their first lines are asked for early, the rest of a long row the hardware foresees.
    constexpr size_t ahead = 8;
    const size_t lines = n_bytes < 512 ? n_bytes : 512;
    for (size_t i = 0; i < n; ++i) {
        if (i + ahead < n) {
            const uint8_t* later = rows + size_t{index[i + ahead]} * row_stride;
            for (size_t j = 0; j < lines; j += 64) __builtin_prefetch(later + j);
        }
        out[i] += distance(rows + size_t{index[i]} * row_stride, query, n_bytes);
    }
}

size_t select(const int32_t* values, size_t n, int32_t limit, uint32_t* out) {
    size_t found = 0, i = 0;
#if defined(__AVX512VPOPCNTDQ__)
    const __m512i bound = _mm512_set1_epi32(limit);
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (; i + 16 <= n; i += 16) {
        const __mmask16 close = _mm512_cmple_epi32_mask(_mm512_loadu_si512(values + i), bound);
        if (close == 0) continue;
        const __m512i at = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(i)));
        _mm512_mask_compressstoreu_epi32(out + found, close, at);
        found += static_cast<size_t>(__builtin_popcount(close));
    }
#elif defined(__AVX2__)
    const __m256i bound = _mm256_set1_epi32(limit);
    for (; i + 8 <= n; i += 8) {
        const __m256i far = _mm256_cmpgt_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + i)), bound);
        unsigned close = 0xffu & ~static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(far)));
        for (; close != 0; close &= close - 1) out[found++] = static_cast<uint32_t>(i) + __builtin_ctz(close);
    }
#endif
    for (; i < n; ++i)
        if (values[i] <= limit) out[found++] = static_cast<uint32_t>(i);
    return found;
}

}  // namespace

extern const HammingKernels hamming_kernels;
#if defined(__AVX512VPOPCNTDQ__)
const HammingKernels hamming_kernels = {tile, pack, tile_packed, gather, select};
#else
const HammingKernels hamming_kernels = {tile, nullptr, nullptr, gather, select};
#endif

}  // namespace bilsh::BILSH_LEVEL
