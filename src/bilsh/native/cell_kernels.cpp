// What a search by cells does beside distances, compiled once per instruction set; where it is a plain loop, every
// compiler turns it into vectors.
#include "cell_kernels.h"

#if defined(__AVX512VPOPCNTDQ__)
#    include <immintrin.h>

#    include "sums_avx512.h"
#endif

namespace bilsh::BILSH_LEVEL {
namespace {

using std::int32_t;
using std::size_t;
using std::uint32_t;
using std::uint8_t;

int32_t smallest(const int32_t* values, size_t n) {
    int32_t least = INT32_MAX;
    for (size_t i = 0; i < n; ++i) least = values[i] < least ? values[i] : least;
    return least;
}

#if defined(__AVX512VPOPCNTDQ__)
// The lanes of the last register that count.
inline __mmask16 lanes_of(size_t n) { return static_cast<__mmask16>(0xffffu >> (16 - n)); }

size_t count_within(const int32_t* values, size_t n, int32_t limit) {
    const __m512i bound = _mm512_set1_epi32(limit);
    size_t count = 0, i = 0;
    for (; i + 16 <= n; i += 16)
        count +=
            static_cast<size_t>(__builtin_popcount(_mm512_cmple_epi32_mask(_mm512_loadu_si512(values + i), bound)));
    if (i < n) {
        const __mmask16 here = lanes_of(n - i);
        count += static_cast<size_t>(
            __builtin_popcount(_mm512_mask_cmple_epi32_mask(here, _mm512_maskz_loadu_epi32(here, values + i), bound)));
    }
    return count;
}

size_t within(const int32_t* values, size_t n, int32_t limit, uint32_t* out) {
    const __m512i bound = _mm512_set1_epi32(limit);
    __m512i place = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    size_t found = 0, i = 0;
    const auto take = [&](__mmask16 close) __attribute__((always_inline)) {
        _mm512_storeu_si512(out + found, _mm512_maskz_compress_epi32(close, place));
        found += static_cast<size_t>(__builtin_popcount(close));
        place = _mm512_add_epi32(place, _mm512_set1_epi32(16));
    };
    for (; i + 16 <= n; i += 16) take(_mm512_cmple_epi32_mask(_mm512_loadu_si512(values + i), bound));
    if (i < n) {
        const __mmask16 here = lanes_of(n - i);
        take(_mm512_mask_cmple_epi32_mask(here, _mm512_maskz_loadu_epi32(here, values + i), bound));
    }
    return found;
}

size_t near(const uint8_t* rows, size_t n_rows, const uint8_t* query, int32_t limit, uint32_t first, uint32_t* numbers,
            int32_t* distances) {
    constexpr size_t ahead = 64;  // rows that memory is asked for beforehand
    const __m512i code = _mm512_loadu_si512(query), bound = _mm512_set1_epi32(limit);
    __m512i number = _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                      _mm512_set1_epi32(static_cast<int32_t>(first)));
    const auto differing = [&](size_t row) __attribute__((always_inline)) {
        return _mm512_popcnt_epi64(_mm512_xor_si512(code, _mm512_loadu_si512(rows + 64 * row)));
    };
    size_t found = 0;
    const auto take = [&](__m512i sums, __mmask16 here) __attribute__((always_inline)) {
        const __mmask16 close = _mm512_mask_cmple_epi32_mask(here, sums, bound);
        _mm512_storeu_si512(numbers + found, _mm512_maskz_compress_epi32(close, number));
        _mm512_storeu_si512(distances + found, _mm512_maskz_compress_epi32(close, sums));
        found += static_cast<size_t>(__builtin_popcount(close));
        number = _mm512_add_epi32(number, _mm512_set1_epi32(16));
    };
    size_t r = 0;
    __m512i count[8], more[8];
    for (; r + 16 <= n_rows; r += 16) {
        if (r + ahead < n_rows)
            for (size_t i = 0; i < 16; ++i) __builtin_prefetch(rows + 64 * (r + ahead + i), 0, 2);
        for (size_t i = 0; i < 8; ++i) {
            count[i] = differing(r + i);
            more[i] = differing(r + 8 + i);
        }
        take(sum_sixteen(count, more), 0xffff);
    }
    if (r == n_rows) return found;
    // The last row stands for those that are not there.
    const auto at = [&](size_t row) { return row < n_rows ? row : n_rows - 1; };
    for (size_t i = 0; i < 8; ++i) count[i] = differing(at(r + i));
    if (r + 8 >= n_rows) {
        take(_mm512_castsi256_si512(sum_eight(count)), lanes_of(n_rows - r));
    } else {
        for (size_t i = 0; i < 8; ++i) more[i] = differing(at(r + 8 + i));
        take(sum_sixteen(count, more), lanes_of(n_rows - r));
    }
    return found;
}
#else
size_t count_within(const int32_t* values, size_t n, int32_t limit) {
    uint32_t count = 0;
    for (size_t i = 0; i < n; ++i) count += values[i] <= limit;
    return count;
}

size_t within(const int32_t* values, size_t n, int32_t limit, uint32_t* out) {
    size_t found = 0;
    for (size_t i = 0; i < n; ++i) {
        out[found] = static_cast<uint32_t>(i);
        found += values[i] <= limit;
    }
    return found;
}

constexpr decltype(CellKernels::near) near = nullptr;
#endif

// Halving asks for all values again and again, but nothing has to be foreseen.
int32_t smallest_within(const int32_t* values, size_t n, size_t wanted, int32_t most) {
    int32_t low = -1;  // too few
    while (most - low > 1) {
        const int32_t middle = low + (most - low) / 2;
        (count_within(values, n, middle) < wanted ? low : most) = middle;
    }
    return most;
}

}  // namespace

extern const CellKernels cell_kernels;
const CellKernels cell_kernels = {smallest, smallest_within, within, near};

}  // namespace bilsh::BILSH_LEVEL
