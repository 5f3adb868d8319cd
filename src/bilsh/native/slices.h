// Codes by bit, compiled once per instruction set: a line holds one bit of every row of a slice, and rows are counted
// all at once by carry-save adders of whole lines.
//
// Some queries cut the bits of a code into groups by the bits that they have there. A line is counted once, in its
// group, and serves all these queries: each adds up the groups where it has a one. So four queries cost little more
// than one (the method of the four Russians; Arlazarov, Dinic, Kronrod and Faradzev 1970).
#pragma once

#include "hamming_kernels.h"
#if defined(__AVX2__)
#    include <immintrin.h>
#endif

namespace bilsh::BILSH_LEVEL {
namespace {

using std::int32_t;
using std::size_t;
using std::uint16_t;
using std::uint32_t;
using std::uint64_t;
using std::uint8_t;

#if defined(__AVX512BW__)
constexpr size_t line_bytes = 64;
#elif defined(__AVX2__)
constexpr size_t line_bytes = 32;
#else
constexpr size_t line_bytes = 16;
#endif
typedef uint64_t Line __attribute__((vector_size(line_bytes), may_alias));
typedef uint8_t LineBytes __attribute__((vector_size(line_bytes), may_alias));

constexpr size_t slice_rows = 8 * line_bytes;
constexpr Line no_bits = {};

inline Line load_line(const uint8_t* p) { return *reinterpret_cast<const Line*>(p); }
inline void store_line(uint8_t* p, Line x) { *reinterpret_cast<Line*>(p) = x; }
inline Line load_anywhere(const uint8_t* p) {
    Line x;
    __builtin_memcpy(&x, p, sizeof x);
    return x;
}
inline Line every(uint64_t word) { return no_bits + word; }

#if defined(__AVX512BW__)
template <int table>
inline Line logic(Line a, Line b, Line c) {
    return (Line)_mm512_ternarylogic_epi64((__m512i)a, (__m512i)b, (__m512i)c, table);
}
inline Line parity(Line a, Line b, Line c) { return logic<0x96>(a, b, c); }
inline Line majority(Line a, Line b, Line c) { return logic<0xe8>(a, b, c); }
inline Line choose(Line where, Line a, Line b) { return logic<0xca>(where, a, b); }
inline Line zip_low(Line a, Line b) { return (Line)_mm512_unpacklo_epi8((__m512i)a, (__m512i)b); }
inline Line zip_high(Line a, Line b) { return (Line)_mm512_unpackhi_epi8((__m512i)a, (__m512i)b); }
inline bool any_bit(Line x) { return _mm512_test_epi64_mask((__m512i)x, (__m512i)x) != 0; }
#else
inline Line parity(Line a, Line b, Line c) { return a ^ b ^ c; }
inline Line majority(Line a, Line b, Line c) { return (a & b) | ((a ^ b) & c); }
inline Line choose(Line where, Line a, Line b) { return (a & where) | (b & ~where); }
inline bool any_bit(Line x) {
    uint64_t all = 0;
    for (size_t i = 0; i < line_bytes / 8; ++i) all |= x[i];
    return all != 0;
}
#    if defined(__AVX2__)
inline Line zip_low(Line a, Line b) { return (Line)_mm256_unpacklo_epi8((__m256i)a, (__m256i)b); }
inline Line zip_high(Line a, Line b) { return (Line)_mm256_unpackhi_epi8((__m256i)a, (__m256i)b); }
#    else
inline Line zip_low(Line a, Line b) {
    return (Line)__builtin_shufflevector((LineBytes)a, (LineBytes)b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7,
                                         23);
}
inline Line zip_high(Line a, Line b) {
    return (Line)__builtin_shufflevector((LineBytes)a, (LineBytes)b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14,
                                         30, 15, 31);
}
#    endif
#endif

// low + 2 high = low + b + c, bit by bit.
inline void add_bits(Line& high, Line& low, Line b, Line c) {
    high = majority(low, b, c);
    low = parity(low, b, c);
}

// Exchanges bit `shift` of the register's number with that of the bit's place in its byte.
template <int shift>
inline void swap_bits(Line (&x)[8], Line low) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i)
        if ((i & shift) == 0) {
            const Line a = x[i], b = x[i + shift];
            x[i] = choose(low, a, b << shift);
            x[i + shift] = choose(low, a >> shift, b);
        }
}

// Two of the four rounds that transpose 16 x 16 bytes: what they leave of four registers is four registers.
inline void zip_twice(Line (&x)[4]) {
    const Line a = zip_low(x[0], x[2]), b = zip_high(x[0], x[2]), c = zip_low(x[1], x[3]), d = zip_high(x[1], x[3]);
    x[0] = zip_low(a, c);
    x[1] = zip_high(a, c);
    x[2] = zip_low(b, d);
    x[3] = zip_high(b, d);
}

// Register i gets part i of all registers; a part has sixteen bytes.
#if defined(__AVX512BW__)
inline void swap_parts(Line (&x)[4]) {
    const __m512i a = _mm512_shuffle_i64x2((__m512i)x[0], (__m512i)x[1], 0x44),
                  b = _mm512_shuffle_i64x2((__m512i)x[2], (__m512i)x[3], 0x44),
                  c = _mm512_shuffle_i64x2((__m512i)x[0], (__m512i)x[1], 0xee),
                  d = _mm512_shuffle_i64x2((__m512i)x[2], (__m512i)x[3], 0xee);
    x[0] = (Line)_mm512_shuffle_i64x2(a, b, 0x88);
    x[1] = (Line)_mm512_shuffle_i64x2(a, b, 0xdd);
    x[2] = (Line)_mm512_shuffle_i64x2(c, d, 0x88);
    x[3] = (Line)_mm512_shuffle_i64x2(c, d, 0xdd);
}
#elif defined(__AVX2__)
inline void swap_parts(Line (&x)[2]) {
    const __m256i a = (__m256i)x[0], b = (__m256i)x[1];
    x[0] = (Line)_mm256_permute2x128_si256(a, b, 0x20);
    x[1] = (Line)_mm256_permute2x128_si256(a, b, 0x31);
}
#else
inline void swap_parts(Line (&)[1]) {}
#endif

// Bits of slice_rows rows in as many bytes as a line has, of which n count: eight rows become eight registers, one for
// each bit of their bytes; then the bytes of one bit, a matrix of as many rows as columns, are transposed.
inline void slice_square(const uint8_t* rows, size_t row_stride, size_t n, uint8_t* out) {
    constexpr size_t parts = line_bytes / 16;
    Line bits[8][line_bytes + 1];  // a power of two apart, they would share cache sets
    for (size_t g = 0; g < line_bytes; ++g) {
        Line x[8];
#pragma GCC unroll 8
        for (size_t i = 0; i < 8; ++i) x[i] = load_anywhere(rows + (8 * g + i) * row_stride);
        swap_bits<4>(x, every(0x0f0f0f0f0f0f0f0f));
        swap_bits<2>(x, every(0x3333333333333333));
        swap_bits<1>(x, every(0x5555555555555555));
#pragma GCC unroll 8
        for (size_t i = 0; i < 8; ++i) bits[i][g] = x[i];
    }
    for (size_t b = 0; b < 8; ++b) {
        Line columns[parts][16];
        for (size_t p = 0; p < parts; ++p) {
            const Line* from = bits[b] + 16 * p;
            Line half[16];
#pragma GCC unroll 4
            for (size_t i = 0; i < 4; ++i) {
                Line x[4] = {from[i], from[i + 4], from[i + 8], from[i + 12]};
                zip_twice(x);
#pragma GCC unroll 4
                for (size_t k = 0; k < 4; ++k) half[4 * i + k] = x[k];
            }
#pragma GCC unroll 4
            for (size_t i = 0; i < 4; ++i) {
                Line x[4] = {half[i], half[i + 4], half[i + 8], half[i + 12]};
                zip_twice(x);
#pragma GCC unroll 4
                for (size_t k = 0; k < 4; ++k) columns[p][4 * i + k] = x[k];
            }
        }
        for (size_t j = 0; j < 16 && j < n; ++j) {
            Line x[parts];
#pragma GCC unroll 4
            for (size_t p = 0; p < parts; ++p) x[p] = columns[p][j];
            swap_parts(x);
#pragma GCC unroll 4
            for (size_t p = 0; p < parts; ++p)
                if (j + 16 * p < n) store_line(out + (8 * (j + 16 * p) + b) * line_bytes, x[p]);
        }
    }
}

// Line 8 j + b holds bit b of byte j of every row, rows in ascending bits; rows that are not there are zero, and so is
// a last line.
void slice(const uint8_t* rows, size_t row_stride, size_t n_rows, size_t n_bytes, uint8_t* out) {
    for (size_t j = 0; j < n_bytes; j += line_bytes) {
        const size_t n = n_bytes - j < line_bytes ? n_bytes - j : line_bytes;
        uint8_t* target = out + 8 * j * line_bytes;
        if (n == line_bytes && n_rows == slice_rows) {
            slice_square(rows + j, row_stride, n, target);
            continue;
        }
        alignas(64) uint8_t copy[slice_rows * line_bytes] = {};
        for (size_t i = 0; i < n_rows; ++i) __builtin_memcpy(copy + i * line_bytes, rows + i * row_stride + j, n);
        slice_square(copy, line_bytes, n, target);
    }
    store_line(out + 8 * n_bytes * line_bytes, no_bits);
}

// Adds n lines, a multiple of eight: three planes of the sums, and carries, which count eight each.
template <class At>
inline size_t add_eights(const At& line, size_t n, Line* planes, Line* carries) {
    Line one = no_bits, two = no_bits, four = no_bits;
    for (size_t i = 0; i < n; i += 8) {
        Line a, b, c, d, carry;
        add_bits(a, one, line(i), line(i + 1));
        add_bits(b, one, line(i + 2), line(i + 3));
        add_bits(c, two, a, b);
        add_bits(a, one, line(i + 4), line(i + 5));
        add_bits(b, one, line(i + 6), line(i + 7));
        add_bits(d, two, a, b);
        add_bits(carry, four, c, d);
        carries[i / 8] = carry;
    }
    planes[0] = one;
    planes[1] = two;
    planes[2] = four;
    return n / 8;
}

constexpr size_t most_planes = 20;  // of a sum of slice_lines lines, and room for those that are always zero

// The sums of the listed lines, in n_planes planes.
inline void count_group(const uint8_t* sliced, const uint16_t* places, size_t n, size_t n_planes, Line* planes) {
    Line carries[slice_lines / 8 + 8];
    n = add_eights([&](size_t i) __attribute__((always_inline)) { return load_line(sliced + places[i] * line_bytes); },
                   n, planes, carries);
    size_t plane = 3;
    for (; n > 4; plane += 3) {
        while (n % 8 != 0) carries[n++] = no_bits;
        n = add_eights([&](size_t i) __attribute__((always_inline)) { return carries[i]; }, n, planes + plane, carries);
    }
    for (size_t p = plane; p < n_planes; ++p) planes[p] = no_bits;
    for (size_t i = 0; i < n; ++i) {
        Line carry = carries[i];
        for (size_t p = plane; p < n_planes; ++p) {
            const Line sum = planes[p];
            planes[p] = sum ^ carry;
            carry &= sum;
        }
    }
}

// a += b, of so many planes; a has one more.
inline void add_planes(Line* a, const Line* b, size_t n) {
    Line carry = no_bits;
    for (size_t p = 0; p < n; ++p) {
        Line sum = a[p], high;
        add_bits(high, sum, b[p], carry);
        a[p] = sum;
        carry = high;
    }
    a[n] = carry;
}

inline void write_planes(uint8_t* out, const Line* planes, size_t there, size_t n_planes, bool add) {
    Line carry = no_bits;
    for (size_t p = 0; p < n_planes; ++p) {
        Line sum = add ? load_line(out + p * line_bytes) : no_bits, high;
        add_bits(high, sum, p < there ? planes[p] : no_bits, carry);
        store_line(out + p * line_bytes, sum);
        carry = high;
    }
}

// A few at a time: where many are asked for at once, the processor waits.
inline void ask(SliceAhead& next, size_t n) {
    for (; n > 0 && next.n_rows > 0; --n) {
        __builtin_prefetch(next.row + next.at, 0, 2);
        next.at += 64;
        if (next.at < next.n_bytes) continue;
        next.at = 0;
        next.row += next.stride;
        --next.n_rows;
    }
}

void count(const uint8_t* sliced, const SliceGroups& groups, size_t n_planes, uint8_t* sums, uint8_t* weights, bool add,
           SliceAhead& next) {
    Line planes[1 << slice_queries][most_planes];
    const size_t first = weights ? 0 : 1, n_groups = size_t{1} << groups.n_queries;
    size_t width = groups.n_planes;
    for (size_t g = first; g < n_groups; ++g) {
        ask(next, next.lines / (n_groups - 1) + 1);
        count_group(sliced, groups.places + groups.ends[g], groups.ends[g + 1] - groups.ends[g], width, planes[g]);
    }
    for (size_t q = groups.n_queries; q-- > 0;) {
        const size_t upper = size_t{1} << q;
        size_t all = width;
        for (size_t g = first; g < upper; ++g) add_planes(planes[g], planes[upper + g], width);
        for (size_t half = upper / 2; half > 0; half /= 2, ++all)
            for (size_t g = 0; g < half; ++g) add_planes(planes[upper + g], planes[upper + g + half], all);
        write_planes(sums + q * n_planes * line_bytes, planes[upper], all, n_planes, add);
        ++width;
    }
    if (weights) write_planes(weights, planes[0], width, n_planes, add);
}

bool close(const uint8_t* weights, const uint8_t* sums, size_t n_planes, uint32_t bound, uint8_t* differences,
           uint64_t* rows) {
    const Line all_bits = ~no_bits;
    Line carry = all_bits, within = all_bits;
    for (size_t p = 0; p <= n_planes; ++p) {
        Line value = p < n_planes ? load_line(weights + p * line_bytes) : no_bits;
        if (p > 0) {
            Line high;
            add_bits(high, value, ~load_line(sums + (p - 1) * line_bytes), carry);
            carry = high;
        }
        if (p == n_planes) value = ~value;
        store_line(differences + p * line_bytes, value);
        within = majority(~value, within, every(0 - uint64_t{bound >> p & 1}));
    }
    __builtin_memcpy(rows, &within, sizeof within);
    return any_bit(within);
}

void values(const uint8_t* planes, size_t n_planes, int32_t* out) {
    for (size_t r = 0; r < slice_rows; r += 32) {
        uint32_t sum[32] = {};
        for (size_t p = 0; p < n_planes; ++p) {
            uint32_t bits;
            __builtin_memcpy(&bits, planes + p * line_bytes + r / 8, 4);
            for (uint32_t i = 0; i < 32; ++i) sum[i] |= (bits >> i & 1) << p;
        }
        for (size_t i = 0; i < 32; ++i) out[r + i] = static_cast<int32_t>(sum[i]);
    }
}

}  // namespace
}  // namespace bilsh::BILSH_LEVEL
