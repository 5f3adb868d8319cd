// Differing bits with NEON: cnt per byte, uadalp to widen.
#pragma once

#include <arm_neon.h>

#include "count_words.h"

namespace bilsh::BILSH_LEVEL {
namespace {

using std::int32_t;
using std::size_t;
using std::uint8_t;

inline uint8x16_t differing(const uint8_t* a, const uint8_t* b) { return vcntq_u8(veorq_u8(vld1q_u8(a), vld1q_u8(b))); }

inline int32_t distance(const uint8_t* a, const uint8_t* b, size_t n_bytes) {
    uint32x4_t sum = vdupq_n_u32(0);
    size_t j = 0;
    while (j + 64 <= n_bytes) {
        // A counter of 16 bits takes 64 per round of two bytes of four registers.
        uint16x8_t part = vdupq_n_u16(0);
        const size_t whole = n_bytes / 64 * 64, end = whole - j > 512 * 64 ? j + 512 * 64 : whole;
        for (; j < end; j += 64)
            part = vpadalq_u8(part,
                              vaddq_u8(vaddq_u8(differing(a + j, b + j), differing(a + j + 16, b + j + 16)),
                                       vaddq_u8(differing(a + j + 32, b + j + 32), differing(a + j + 48, b + j + 48))));
        sum = vpadalq_u16(sum, part);
    }
    for (; j + 16 <= n_bytes; j += 16) sum = vpadalq_u16(sum, vpaddlq_u8(differing(a + j, b + j)));
    return static_cast<int32_t>(vaddvq_u32(sum)) + distance_by_words(a, b, j, n_bytes);
}

// Distances of the first rows to one query, if they are short; returns how many. Four rows share the sums across lanes.
inline size_t short_tile(const uint8_t* rows, size_t row_stride, size_t n_rows, const uint8_t* query, size_t n_bytes,
                         int32_t* out, bool add) {
    if (n_bytes > 128) return 0;
    const size_t whole = n_bytes / 16 * 16;
    size_t r = 0;
    for (; r + 4 <= n_rows; r += 4) {
        const uint8_t* row = rows + r * row_stride;
        uint16x8_t sum[4];
        for (int i = 0; i < 4; ++i) {
            sum[i] = vdupq_n_u16(0);
            for (size_t j = 0; j < whole; j += 16)
                sum[i] = vpadalq_u8(sum[i], differing(row + i * row_stride + j, query + j));
        }
        const uint16x8_t all = vpaddq_u16(vpaddq_u16(sum[0], sum[1]), vpaddq_u16(sum[2], sum[3]));
        const int32x4_t wide = vreinterpretq_s32_u32(vpaddlq_u16(all));
        vst1q_s32(out + r, add ? vaddq_s32(wide, vld1q_s32(out + r)) : wide);
        if (whole < n_bytes)
            for (int i = 0; i < 4; ++i) out[r + i] += distance_by_words(row + i * row_stride, query, whole, n_bytes);
    }
    return r;
}

}  // namespace
}  // namespace bilsh::BILSH_LEVEL
