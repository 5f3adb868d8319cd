// One vector of floats and one of 32-bit integers, in the widest registers of the level being compiled. Kernels are
// written once over these names. Every operation is exact or rounded once (IEEE), so all levels give the same floats.
// Only kernel sources (compiled once per level) include this header.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__AVX512F__)
#    include "simd_avx512.h"
#elif defined(__AVX2__)
#    include "simd_avx2.h"
#elif defined(__ARM_NEON) && defined(__aarch64__)
#    include "simd_neon.h"
#else
#    include "simd_portable.h"
#endif

namespace bilsh::BILSH_LEVEL {

// 64 bytes, one per bit, each holding that bit of 8 items -> 64 bits of each item.
static inline void transpose_plane(const uint8_t* plane, uint64_t (&item)[8]) {
#if defined(__AVX512BW__)
    __m512i bytes = _mm512_loadu_si512(plane);
    for (int t = 7; t >= 0; --t) {
        item[t] = _mm512_movepi8_mask(bytes);
        bytes = _mm512_add_epi8(bytes, bytes);
    }
#elif defined(__AVX2__)
    __m256i low = _mm256_loadu_si256((const __m256i*)plane), high = _mm256_loadu_si256((const __m256i*)(plane + 32));
    for (int t = 7; t >= 0; --t) {
        item[t] = (uint64_t)(uint32_t)_mm256_movemask_epi8(low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(high) << 32;
        low = _mm256_add_epi8(low, low);
        high = _mm256_add_epi8(high, high);
    }
#else
    for (int t = 0; t < 8; ++t) item[t] = 0;
    for (int r = 0; r < 64; r += 8) {
        uint64_t x = 0;
        for (int s = 0; s < 8; ++s) x |= (uint64_t)plane[r + s] << 8 * s;
        // The 8 x 8 bit matrix transposed: Hacker's Delight, 7-3.
        uint64_t t = (x ^ (x >> 7)) & 0x00aa00aa00aa00aaull;
        x ^= t ^ (t << 7);
        t = (x ^ (x >> 14)) & 0x0000cccc0000ccccull;
        x ^= t ^ (t << 14);
        t = (x ^ (x >> 28)) & 0x00000000f0f0f0f0ull;
        x ^= t ^ (t << 28);
        for (int s = 0; s < 8; ++s) item[s] |= (x >> 8 * s & 0xff) << r;
    }
#endif
}

#if !defined(__AVX512F__)
// column[s][l] = rows[l][offset + s].
static inline void load_columns(const float* const* rows, std::size_t offset, Vec (&column)[W]) {
    for (int l = 0; l < W; ++l) column[l] = load(rows[l] + offset);
    transpose(column);
}
#endif

// Items per tile of the batch path: as many as one register block holds, at least eight (one byte of a bit plane).
constexpr int tile_items = W * block_vectors;
static_assert(tile_items % 8 == 0, "a tile fills whole bytes of its bit planes");

}  // namespace bilsh::BILSH_LEVEL
