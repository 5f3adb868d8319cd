// Hamming distances, compiled once per instruction set. Only plain loops and intrinsics here: an inline function of the
// standard library compiled with these flags could be the copy the linker keeps for everyone.
#include "hamming_kernels.h"

#include "slices.h"

#if defined(__AVX512BW__)
#    define BILSH_PACKED 1
#    include "count_avx512.h"
#elif defined(__AVX2__)
#    define BILSH_PACKED 1
#    include "count_avx2.h"
#elif defined(__aarch64__)
#    include "count_neon.h"
#else
#    include "count_words.h"
#endif

namespace bilsh::BILSH_LEVEL {
namespace {

using std::int32_t;
using std::size_t;
using std::uint32_t;
using std::uint8_t;

#if !defined(__AVX2__) && !defined(__aarch64__)
inline int32_t distance(const uint8_t* a, const uint8_t* b, size_t n_bytes) {
    return distance_by_words(a, b, 0, n_bytes);
}
inline size_t short_tile(const uint8_t*, size_t, size_t, const uint8_t*, size_t, int32_t*, bool) { return 0; }
#endif

// Memory is read as it lies: one row after the other, short ones a few at a time. While a row is near, all queries meet
// it; counting, not loading, is what takes the time.
void tile(const uint8_t* rows, size_t row_stride, size_t n_rows, const uint8_t* queries, size_t query_stride,
          size_t n_queries, size_t n_bytes, int32_t* out, size_t out_stride, bool add) {
    size_t r = 0;
    for (size_t q = 0; q < n_queries; ++q)
        r = short_tile(rows, row_stride, n_rows, queries + q * query_stride, n_bytes, out + q * out_stride, add);
#if defined(__AVX512BW__)
    if (n_queries == 1 && r == 0) r = long_tile(rows, row_stride, n_rows, queries, n_bytes, out, add);
#endif
    for (; r < n_rows; ++r)
        for (size_t q = 0; q < n_queries; ++q) {
            int32_t& target = out[q * out_stride + r];
            target = distance(rows + r * row_stride, queries + q * query_stride, n_bytes) + (add ? target : 0);
        }
}

#if defined(BILSH_PACKED)
void tile_packed(const uint8_t* packed, size_t n_rows, const uint8_t* queries, size_t query_stride, size_t n_queries,
                 size_t n_bytes, int32_t* out, size_t out_stride, bool add) {
    size_t q = 0;
    if (n_bytes == 0 && !add)
        for (; q < n_queries; ++q)
            for (size_t r = 0; r < n_rows; ++r) out[q * out_stride + r] = 0;
    for (; q + 4 <= n_queries; q += 4)
        strip_packed<4>(packed, n_rows, queries + q * query_stride, query_stride, n_bytes, out + q * out_stride,
                        out_stride, add);
    for (; q < n_queries; ++q)
        strip_packed<1>(packed, n_rows, queries + q * query_stride, query_stride, n_bytes, out + q * out_stride,
                        out_stride, add);
}
#endif

void gather(const uint8_t* rows, size_t row_stride, const uint32_t* index, size_t n, const uint8_t* query,
            size_t n_bytes, int32_t* out) {
    // Scattered rows: the lines of short ones are asked for long before, more than the first-level cache waits for at a
    // time; the first lines of a long one soon, and the rest the hardware foresees.
    constexpr size_t is_long = 512, ahead = 8, short_ahead = 32;
    size_t i = 0;
#if defined(__AVX512BW__)
    if (n_bytes == 64) return gather_registers(rows, row_stride, index, n, query, out);
#endif
    for (; i < n; ++i) {
        if (n_bytes < is_long && n_bytes > 0 && i + short_ahead < n) {
            const uint8_t* later = rows + size_t{index[i + short_ahead]} * row_stride;
            for (size_t j = 0; j < n_bytes; j += 64) __builtin_prefetch(later + j, 0, 2);
            __builtin_prefetch(later + n_bytes - 1, 0, 2);  // a row seldom begins with a line
        } else if (n_bytes >= is_long && i + ahead < n) {
            const uint8_t* later = rows + size_t{index[i + ahead]} * row_stride;
            for (size_t j = 0; j < is_long; j += 64) __builtin_prefetch(later + j);
        }
        out[i] += distance(rows + size_t{index[i]} * row_stride, query, n_bytes);
    }
}

size_t select(const int32_t* values, size_t n, int32_t limit, uint32_t* out) {
    size_t found = 0, i = 0;
#if defined(__AVX512BW__)
    const __m512i bound = _mm512_set1_epi32(limit);
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const auto close = [&](size_t at) __attribute__((always_inline)) {
        return _mm512_cmple_epi32_mask(_mm512_loadu_si512(values + at), bound);
    };
    // Compressed in a register: to compress into memory takes some processors a hundred cycles. found <= at, so there
    // is room.
    const auto take = [&](size_t at, __mmask16 mask) __attribute__((always_inline)) {
        const __m512i place = _mm512_add_epi32(lane, _mm512_set1_epi32(static_cast<int>(at)));
        _mm512_storeu_si512(out + found, _mm512_maskz_compress_epi32(mask, place));
        found += static_cast<size_t>(__builtin_popcount(mask));
    };
    for (; i + 64 <= n; i += 64) {  // most are far
        const __mmask16 a = close(i), b = close(i + 16), c = close(i + 32), d = close(i + 48);
        if ((a | b | c | d) == 0) continue;
        if (a != 0) take(i, a);
        if (b != 0) take(i + 16, b);
        if (c != 0) take(i + 32, c);
        if (d != 0) take(i + 48, d);
    }
    for (; i + 16 <= n; i += 16) take(i, close(i));
#elif defined(__AVX2__)
    const __m256i bound = _mm256_set1_epi32(limit);
    const auto far = [&](size_t at) __attribute__((always_inline)) {
        return _mm256_cmpgt_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + at)), bound);
    };
    for (; i + 16 <= n; i += 16) {
        const __m256i first = far(i), second = far(i + 8);
        const __m256i order = _mm256_permute4x64_epi64(_mm256_packs_epi32(first, second), 0xd8);
        const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(order), _mm256_extracti128_si256(order, 1));
        unsigned close = 0xffffu & ~static_cast<unsigned>(_mm_movemask_epi8(bytes));
        for (; close != 0; close &= close - 1) out[found++] = static_cast<uint32_t>(i) + __builtin_ctz(close);
    }
#endif
    for (; i < n; ++i)
        if (values[i] <= limit) out[found++] = static_cast<uint32_t>(i);
    return found;
}

size_t near(const uint8_t* rows, size_t row_stride, size_t n_rows, const uint8_t* query, size_t n_bytes, int32_t limit,
            uint32_t* at, int32_t* distances) {
    constexpr size_t strip = 256;  // whose distances stay in the first-level cache, and memory is not kept waiting
    int32_t values[strip];
    size_t found = 0;
    for (size_t r = 0; r < n_rows; r += strip) {
        const size_t n = n_rows - r < strip ? n_rows - r : strip;
        tile(rows + r * row_stride, row_stride, n, query, 0, 1, n_bytes, values, 0, false);
        for (size_t end = found + select(values, n, limit, at + found); found < end; ++found) {
            distances[found] = values[at[found]];
            at[found] += static_cast<uint32_t>(r);
        }
    }
    return found;
}

}  // namespace

// From where it pays was measured; the faster a level counts row by row, the later.
#if defined(__AVX512BW__)
constexpr SliceKernels slice_kernels = {slice_rows, 24, 64, 1 << 22, slice, count, close, values};
#elif defined(__AVX2__)
constexpr SliceKernels slice_kernels = {slice_rows, 12, 32, 1 << 19, slice, count, close, values};
#else
constexpr SliceKernels slice_kernels = {slice_rows, 12, 8, 1 << 14, slice, count, close, values};
#endif
extern const HammingKernels hamming_kernels;
#if defined(BILSH_PACKED)
const HammingKernels hamming_kernels = {tile, packed_layout, pack,   lay,          tile_packed,
                                        near, gather,        select, slice_kernels};
#else
const HammingKernels hamming_kernels = {tile,   {0, 1, 1, 0, 0, 0}, nullptr, nullptr, nullptr, near, gather,
                                        select, slice_kernels};
#endif

}  // namespace bilsh::BILSH_LEVEL
