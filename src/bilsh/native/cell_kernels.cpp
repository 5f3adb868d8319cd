// What a search by cells does beside distances, compiled once per instruction set; where it is a plain loop, every
// compiler turns it into vectors.
#include "cell_kernels.h"

#include <algorithm>

#if defined(__AVX512BW__)
#    include "bits_avx512.h"
#elif defined(__AVX2__)
#    include "bits_avx2.h"
#endif

namespace bilsh::BILSH_LEVEL {
namespace {

using std::int32_t;
using std::size_t;
using std::uint32_t;
using std::uint64_t;
using std::uint8_t;

int32_t smallest(const int32_t* values, size_t n) {
    int32_t least = INT32_MAX;
    for (size_t i = 0; i < n; ++i) least = values[i] < least ? values[i] : least;
    return least;
}

struct Bracket {
    int32_t low, most;
};

#if defined(__AVX512BW__)
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

size_t keep(uint32_t* rows, int32_t* values, size_t n, int32_t limit) {
    const __m512i bound = _mm512_set1_epi32(limit);
    size_t found = 0;
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 here = n - i >= 16 ? 0xffff : lanes_of(n - i);
        const __m512i value = _mm512_maskz_loadu_epi32(here, values + i),
                      row = _mm512_maskz_loadu_epi32(here, rows + i);
        const __mmask16 close = _mm512_mask_cmple_epi32_mask(here, value, bound);
        _mm512_storeu_si512(rows + found, _mm512_maskz_compress_epi32(close, row));
        _mm512_storeu_si512(values + found, _mm512_maskz_compress_epi32(close, value));
        found += static_cast<size_t>(__builtin_popcount(close));
    }
    return found;
}

// The smallest value, and one that so many are not above: every lane has a value that is not above its smallest.
inline Bracket bracket(const int32_t* values, size_t n, size_t wanted, int32_t most) {
    __m512i least[2] = {_mm512_set1_epi32(INT32_MAX), _mm512_set1_epi32(INT32_MAX)};
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 here = n - i >= 16 ? 0xffff : lanes_of(n - i);
        __m512i& mine = least[i / 16 % 2];
        mine = _mm512_mask_min_epi32(mine, here, mine, _mm512_maskz_loadu_epi32(here, values + i));
    }
    const int32_t low = _mm512_reduce_min_epi32(_mm512_min_epi32(least[0], least[1]));
    if (wanted <= 16) most = std::min(most, _mm512_reduce_max_epi32(_mm512_min_epi32(least[0], least[1])));
    if (wanted <= 32) most = std::min(most, _mm512_reduce_max_epi32(_mm512_max_epi32(least[0], least[1])));
    return {low, most};
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

size_t keep(uint32_t* rows, int32_t* values, size_t n, int32_t limit) {
    size_t found = 0;
    for (size_t i = 0; i < n; ++i) {
        const int32_t value = values[i];
        rows[found] = rows[i];
        values[found] = value;
        found += value <= limit;
    }
    return found;
}

Bracket bracket(const int32_t* values, size_t n, size_t, int32_t most) { return {smallest(values, n), most}; }
#endif

#if defined(__AVX512BW__)
// Lane i gets the sum of all lanes of register i.
inline __m512i sum_lanes(const __m512i (&x)[4]) {
    const auto halve = [](__m512i a, __m512i b) __attribute__((always_inline)) {
        return _mm512_add_epi32(_mm512_shuffle_i64x2(a, b, 0x88), _mm512_shuffle_i64x2(a, b, 0xdd));
    };
    return halve(halve(x[0], x[1]), halve(x[2], x[3]));
}

// Bits of a row in small parts, which are few enough to fit a byte even in two registers; and sums of four rows, that
// of row i in word i of every lane.
#    if defined(__AVX512VPOPCNTDQ__)
inline __m512i bits_of(__m512i x) { return _mm512_popcnt_epi32(x); }
inline __m512i add_bits(__m512i a, __m512i b) { return _mm512_add_epi32(a, b); }
inline __m512i sum_each(__m512i a, __m512i b, __m512i c, __m512i d) {
    const __m512i bytes = _mm512_packus_epi16(_mm512_packus_epi32(a, b), _mm512_packus_epi32(c, d));
    return _mm512_dpbusd_epi32(_mm512_setzero_si512(), bytes, _mm512_set1_epi8(1));
}
#    else
inline __m512i bits_of(__m512i x) { return counts_of(x); }
inline __m512i add_bits(__m512i a, __m512i b) { return add_counts(a, b); }
inline __m512i sum_each(__m512i a, __m512i b, __m512i c, __m512i d) {
    const __m512i first = _mm512_packus_epi16(sum_pairs(a), sum_pairs(b)),
                  second = _mm512_packus_epi16(sum_pairs(c), sum_pairs(d));
    return sum_fours(_mm512_packus_epi16(sum_pairs(first), sum_pairs(second)));
}
#    endif

template <bool two>
inline size_t near_rows(const uint8_t* rows, const uint8_t* more, size_t more_stride, size_t n_rows,
                        const uint8_t* query, int32_t limit, uint32_t first, uint32_t* numbers, int32_t* distances,
                        RowsAhead& ahead) {
    RowsAhead next = ahead;  // in registers
    const __m512i code = _mm512_loadu_si512(query), rest = two ? _mm512_loadu_si512(query + 64) : code,
                  bound = _mm512_set1_epi32(limit);
    __m512i number = _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                      _mm512_set1_epi32(static_cast<int32_t>(first)));
    const auto differing = [&](const uint8_t* a, const uint8_t* b) __attribute__((always_inline)) {
        const __m512i sum = bits_of(_mm512_xor_si512(code, _mm512_loadu_si512(a)));
        return two ? add_bits(sum, bits_of(_mm512_xor_si512(rest, _mm512_loadu_si512(b)))) : sum;
    };
    // The sums of four rows, those of a quarter of their bits in each lane: a row and the three that lie so far behind.
    const auto four = [&](const uint8_t* a, const uint8_t* b, size_t one, size_t two_more, size_t three)
                          __attribute__((always_inline)) {
                              return sum_each(differing(a, b), differing(a + 64 * one, b + more_stride * one),
                                              differing(a + 64 * two_more, b + more_stride * two_more),
                                              differing(a + 64 * three, b + more_stride * three));
                          };
    size_t found = 0;
    const auto sixteen = [&](const uint8_t* a, const uint8_t* b, __m512i which, __mmask16 here)
                             __attribute__((always_inline)) {
                                 __m512i sums[4];
#    pragma GCC unroll 4
                                 for (size_t i = 0; i < 4; ++i, a += 4 * 64, b += 4 * more_stride)
                                     sums[i] = four(a, b, 1, 2, 3);
                                 const __m512i sum = sum_lanes(sums);
                                 const __mmask16 close = _mm512_mask_cmple_epi32_mask(here, sum, bound);
                                 _mm512_storeu_si512(numbers + found, _mm512_maskz_compress_epi32(close, which));
                                 _mm512_storeu_si512(distances + found, _mm512_maskz_compress_epi32(close, sum));
                                 found += static_cast<size_t>(__builtin_popcount(close));
                             };
    size_t left = n_rows;
    for (; left >= 16; left -= 16, rows += 16 * 64, more += 16 * more_stride) {
        next.ask();
        sixteen(rows, more, number, 0xffff);
        number = _mm512_add_epi32(number, _mm512_set1_epi32(16));
    }
    if (left != 0 && n_rows >= 16) {  // some that were counted come along
        const size_t again = 16 - left;
        next.ask();
        sixteen(rows - again * 64, more - again * more_stride,
                _mm512_sub_epi32(number, _mm512_set1_epi32(static_cast<int32_t>(again))),
                static_cast<__mmask16>(0xffffu << again));
    } else if (left != 0) {  // the last row stands for those that are not there
        __m512i sums[4] = {};
        for (size_t i = 0; 4 * i < left; ++i, rows += 4 * 64, more += 4 * more_stride) {
            const size_t last = left - 4 * i - 1;
            sums[i] = four(rows, more, std::min<size_t>(1, last), std::min<size_t>(2, last), std::min<size_t>(3, last));
        }
        next.ask();
        const __m512i sum = sum_lanes(sums);
        const __mmask16 close = _mm512_mask_cmple_epi32_mask(lanes_of(left), sum, bound);
        _mm512_storeu_si512(numbers, _mm512_maskz_compress_epi32(close, number));
        _mm512_storeu_si512(distances, _mm512_maskz_compress_epi32(close, sum));
        found = static_cast<size_t>(__builtin_popcount(close));
    }
    ahead = next;
    return found;
}
#elif defined(__AVX2__)
// Lanes that are set, one after the other, for every mask of eight.
struct Compressed {
    uint8_t lanes[256][8];
    constexpr Compressed() : lanes() {
        for (unsigned mask = 0; mask < 256; ++mask)
            for (unsigned lane = 0, n = 0; lane < 8; ++lane)
                if (mask >> lane & 1) lanes[mask][n++] = static_cast<uint8_t>(lane);
    }
};
constexpr Compressed compressed;

// Sums of bytes of four rows, that of row i in word i of both lanes.
inline __m256i sum_each(__m256i a, __m256i b, __m256i c, __m256i d) {
    const auto pairs = [](__m256i bytes)
                           __attribute__((always_inline)) { return _mm256_maddubs_epi16(bytes, _mm256_set1_epi8(1)); };
    const __m256i first = _mm256_packus_epi16(pairs(a), pairs(b)), second = _mm256_packus_epi16(pairs(c), pairs(d));
    return _mm256_madd_epi16(pairs(_mm256_packus_epi16(pairs(first), pairs(second))), _mm256_set1_epi16(1));
}

template <bool two>
inline size_t near_rows(const uint8_t* rows, const uint8_t* more, size_t more_stride, size_t n_rows,
                        const uint8_t* query, int32_t limit, uint32_t first, uint32_t* numbers, int32_t* distances,
                        RowsAhead& ahead) {
    RowsAhead next = ahead;  // in registers
    const __m256i code[4] = {load_bytes(query), load_bytes(query + 32), load_bytes(query + (two ? 64 : 0)),
                             load_bytes(query + (two ? 96 : 0))};
    const __m256i bound = _mm256_set1_epi32(limit), lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const auto bits = [&](const uint8_t* row, int part) __attribute__((always_inline)) {
        return count_bytes(_mm256_xor_si256(load_bytes(row), code[part]));
    };
    const auto differing = [&](const uint8_t* a, const uint8_t* b) __attribute__((always_inline)) {
        const __m256i sum = _mm256_add_epi8(bits(a, 0), bits(a + 32, 1));
        return two ? _mm256_add_epi8(sum, _mm256_add_epi8(bits(b, 2), bits(b + 32, 3))) : sum;
    };
    const auto four = [&](const uint8_t* a, const uint8_t* b, size_t one, size_t two_more, size_t three)
                          __attribute__((always_inline)) {
                              return sum_each(differing(a, b), differing(a + 64 * one, b + more_stride * one),
                                              differing(a + 64 * two_more, b + more_stride * two_more),
                                              differing(a + 64 * three, b + more_stride * three));
                          };
    size_t found = 0;
    const auto take = [&](__m256i low, __m256i high, uint32_t number, unsigned here) __attribute__((always_inline)) {
        const __m256i sum =
            _mm256_add_epi32(_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31));
        const unsigned far =
            static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(sum, bound))));
        const unsigned close = ~far & here;
        const __m256i order =
            _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(compressed.lanes[close])));
        const __m256i which = _mm256_add_epi32(lane, _mm256_set1_epi32(static_cast<int32_t>(number)));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(numbers + found), _mm256_permutevar8x32_epi32(which, order));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(distances + found), _mm256_permutevar8x32_epi32(sum, order));
        found += static_cast<size_t>(__builtin_popcount(close));
    };
    const auto eight = [&](const uint8_t* a, const uint8_t* b, uint32_t number, unsigned here)
                           __attribute__((always_inline)) {
                               const __m256i low = four(a, b, 1, 2, 3);
                               take(low, four(a + 4 * 64, b + 4 * more_stride, 1, 2, 3), number, here);
                           };
    size_t r = 0;
    for (; r + 8 <= n_rows; r += 8) {
        if (r % 16 == 0) next.ask();
        eight(rows + 64 * r, more + more_stride * r, first + static_cast<uint32_t>(r), 0xff);
    }
    if (r < n_rows && n_rows >= 8) {  // some that were counted come along
        const size_t from = n_rows - 8;
        eight(rows + 64 * from, more + more_stride * from, first + static_cast<uint32_t>(from),
              0xffu << (r - from) & 0xff);
    } else if (r < n_rows) {  // the last row stands for those that are not there
        __m256i sums[2] = {};
        for (size_t i = 0; 4 * i < n_rows; ++i) {
            const size_t last = n_rows - 4 * i - 1;
            sums[i] = four(rows + 256 * i, more + 4 * more_stride * i, std::min<size_t>(1, last),
                           std::min<size_t>(2, last), std::min<size_t>(3, last));
        }
        take(sums[0], sums[1], first, 0xffu >> (8 - n_rows));
    }
    if (r % 16 != 0 || n_rows < 8) next.ask();
    ahead = next;
    return found;
}
#endif

#if defined(__AVX2__)
size_t near(const uint8_t* rows, const uint8_t* more, size_t more_stride, size_t n_rows, const uint8_t* query,
            int32_t limit, uint32_t first, uint32_t* numbers, int32_t* distances, RowsAhead& next) {
    return (more ? near_rows<true> : near_rows<false>)(rows, more, more_stride, n_rows, query, limit, first, numbers,
                                                       distances, next);
}
#else
constexpr decltype(CellKernels::near) near = nullptr;
#endif

// Halving asks for all values again and again, but nothing has to be foreseen.
int32_t smallest_within(const int32_t* values, size_t n, size_t wanted, int32_t most) {
    if (n < wanted) return most;
    const Bracket found = bracket(values, n, wanted, most);
    int32_t low = found.low - 1;  // too few
    for (most = found.most; most - low > 1;) {
        const int32_t middle = low + (most - low) / 2;
        (count_within(values, n, middle) < wanted ? low : most) = middle;
    }
    return most;
}

void ranks(const uint64_t* keys, size_t n, uint32_t* out) {
    for (size_t i = 0; i < n; ++i) {
        uint64_t rank = 0;
        for (size_t j = 0; j < n; ++j) rank += keys[j] < keys[i];
        out[i] = static_cast<uint32_t>(rank);
    }
}

}  // namespace

extern const CellKernels cell_kernels;
const CellKernels cell_kernels = {smallest, smallest_within, within, keep, ranks, near};

}  // namespace bilsh::BILSH_LEVEL
