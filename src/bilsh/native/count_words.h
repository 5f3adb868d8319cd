// Differing bits by words of eight bytes: for machines without vectors that count, and for the tails of those with.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bilsh::BILSH_LEVEL {

static inline int count_bits(std::uint64_t x) {
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
static inline std::uint64_t load_word(const std::uint8_t* p, std::size_t n) {
    std::uint64_t word = 0;
    __builtin_memcpy(&word, p, n < 8 ? n : 8);
    return word;
}

static inline std::int32_t distance_by_words(const std::uint8_t* a, const std::uint8_t* b, std::size_t begin,
                                             std::size_t end) {
    std::int64_t sum[4] = {};
    std::size_t j = begin;
    for (; j + 32 <= end; j += 32)
        for (int i = 0; i < 4; ++i) sum[i] += count_bits(load_word(a + j + 8 * i, 8) ^ load_word(b + j + 8 * i, 8));
    for (; j + 8 <= end; j += 8) sum[0] += count_bits(load_word(a + j, 8) ^ load_word(b + j, 8));
    if (j < end) sum[1] += count_bits(load_word(a + j, end - j) ^ load_word(b + j, end - j));
    return static_cast<std::int32_t>(sum[0] + sum[1] + sum[2] + sum[3]);
}

}  // namespace bilsh::BILSH_LEVEL
