// Centres of cells: the majority of the codes around them.
#include <algorithm>
#include <numeric>

#include "blocks.h"
#include "cells.h"

namespace bilsh {

void majority(const Queries& codes, const std::int32_t* cell_of, std::size_t n_cells, int n_jobs,
              std::uint8_t* centres) {
    std::vector<std::size_t> ends(n_cells + 1);
    for (std::size_t row = 0; row < codes.n; ++row) ++ends[static_cast<std::size_t>(cell_of[row]) + 1];
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    std::vector<std::size_t> place(ends.begin(), ends.end() - 1), rows(codes.n);
    for (std::size_t row = 0; row < codes.n; ++row) rows[place[static_cast<std::size_t>(cell_of[row])]++] = row;
    // A byte's bits as eight bytes of a word: 255 of them can be added before a byte overflows.
    std::vector<std::uint64_t> spread(256);
    for (std::size_t byte = 0; byte < 256; ++byte)
        for (std::size_t bit = 0; bit < 8; ++bit)
            spread[byte] |= static_cast<std::uint64_t>(byte >> bit & 1) << (8 * bit);
    constexpr std::size_t share = 16;  // cells per task
    parallel_for(ceil_div(n_cells, share), n_jobs, [&](std::size_t task, int) {
        std::vector<std::uint64_t> words(codes.bytes);
        std::vector<std::uint32_t> counts(8 * codes.bytes);
        for (std::size_t cell = share * task; cell < std::min(share * (task + 1), n_cells); ++cell) {
            const std::size_t n = ends[cell + 1] - ends[cell];
            if (n == 0) continue;
            std::fill(counts.begin(), counts.end(), 0u);
            for (std::size_t first = 0; first < n; first += 255) {
                std::fill(words.begin(), words.end(), 0u);
                for (std::size_t i = first; i < std::min(first + 255, n); ++i) {
                    const std::uint8_t* code = codes.at(rows[ends[cell] + i]);
                    for (std::size_t j = 0; j < codes.bytes; ++j) words[j] += spread[code[j]];
                }
                for (std::size_t j = 0; j < codes.bytes; ++j)
                    for (std::size_t bit = 0; bit < 8; ++bit) counts[8 * j + bit] += words[j] >> (8 * bit) & 0xff;
            }
            std::uint8_t* centre = centres + cell * codes.bytes;
            for (std::size_t j = 0; j < codes.bytes; ++j) {
                unsigned byte = 0;
                for (std::size_t bit = 0; bit < 8; ++bit)
                    byte |= static_cast<unsigned>(2 * counts[8 * j + bit] > n) << bit;
                centre[j] = static_cast<std::uint8_t>(byte);
            }
        }
    });
}

}  // namespace bilsh
