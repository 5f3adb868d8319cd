// Centres of cells: the nearest of each code, and the majority of the codes around them.
#include <algorithm>
#include <limits>
#include <numeric>

#include "blocks.h"
#include "cells.h"
#include "kernels.h"
#include "row_block.h"

namespace bilsh {
namespace {

constexpr std::size_t codes_at_once = 256;
constexpr std::size_t most_strip = 1024;  // centres

// Some codes against all centres. They pass a strip of centres while it is in the first-level cache, and of its
// distances only the smallest is kept.
class NearestCentre {
public:
    NearestCentre(const Queries& centres, std::int32_t* out)
        : kernels_(bilsh::kernels()), centres_(centres), out_(out) {
        const PackedLayout& layout = kernels_.hamming.layout;
        const std::size_t unit = std::max<std::size_t>(layout.rows, 16);
        strip_ = std::clamp(strip_bytes / std::max<std::size_t>(centres.bytes, 1), unit, most_strip) / unit * unit;
        if (layout.rows != 0) packed_.resize(layout.bytes(strip_, centres.bytes) + 63);
        laid_stride_ = layout.rows == 0 ? 0 : layout.whole(centres.bytes) + 64;
        if (kernels_.hamming.lay) laid_.resize(codes_at_once * laid_stride_);
        far_.resize(codes_at_once * strip_ + 16);
        places_.resize(strip_ + few);
    }

    void find(const Queries& codes, std::size_t first, std::size_t n) {
        const HammingKernels& kernels = kernels_.hamming;
        const std::size_t bytes = centres_.bytes;
        const bool packs = kernels.layout.rows != 0 && n >= worth_packing;
        if (packs && kernels.lay)
            for (std::size_t q = 0; q < n; ++q)
                kernels.lay(codes.at(first + q), bytes, laid_.data() + q * laid_stride_);
        const std::uint8_t* asked = packs && kernels.lay ? laid_.data() : codes.at(first);
        const std::size_t stride = packs && kernels.lay ? laid_stride_ : codes.bytes;
        std::int32_t* far = align_64(far_);
        least_.assign(n, std::numeric_limits<std::int32_t>::max());
        for (std::size_t centre = 0; centre < centres_.n; centre += strip_) {
            const std::size_t rows = std::min(strip_, centres_.n - centre);
            const std::size_t packed = packs ? rows / kernels.layout.rows * kernels.layout.rows : 0;
            if (packed != 0) {
                kernels.pack(centres_.at(centre), bytes, packed, bytes, align_64(packed_));
                kernels.tile_packed(align_64(packed_), packed, asked, stride, n, bytes, far, strip_, false);
            }
            if (packed < rows)
                kernels.tile(centres_.at(centre + packed), bytes, rows - packed, codes.at(first), codes.bytes, n, bytes,
                             far + packed, strip_, false);
            for (std::size_t q = 0; q < n; ++q) {
                const std::int32_t least = kernels_.cells.smallest(far + q * strip_, rows);
                if (least >= least_[q]) continue;
                least_[q] = least;
                kernels_.cells.within(far + q * strip_, rows, least, places_.data());
                out_[first + q] = static_cast<std::int32_t>(centre + places_[0]);
            }
        }
    }

private:
    const Kernels& kernels_;
    const Queries centres_;
    std::int32_t* const out_;
    std::size_t strip_, laid_stride_;
    std::vector<std::uint8_t> packed_, laid_;
    std::vector<std::int32_t> far_, least_;
    std::vector<std::uint32_t> places_;
};

}  // namespace

void nearest_centres(const Queries& codes, const Queries& centres, int n_jobs, std::int32_t* out) {
    constexpr std::size_t share = 16 * codes_at_once;  // codes per task
    parallel_for(ceil_div(codes.n, share), n_jobs, [&](std::size_t task, int) {
        NearestCentre nearest(centres, out);
        const std::size_t end = std::min(share * (task + 1), codes.n);
        for (std::size_t first = share * task; first < end; first += codes_at_once) {
            poll();
            nearest.find(codes, first, std::min(codes_at_once, end - first));
        }
    });
}

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
