#include "regions.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "blocks.h"
#include "cells.h"
#include "row_block.h"

namespace bilsh {
namespace {

constexpr int rounds = 8;
constexpr std::size_t behind = 64;  // centres that may be read beyond the last

constexpr std::size_t line = 64;

// Whole lines: a few are copied before memcpy is called. There is room for them, and what follows comes later.
inline void copy_lines(const void* from, std::size_t bytes, void* to) {
    const auto* source = static_cast<const std::uint8_t*>(from);
    auto* target = static_cast<std::uint8_t*>(to);
    for (std::size_t i = 0; i < bytes; i += line) std::memcpy(target + i, source + i, line);
}

}  // namespace

Regions::Regions(const Queries& centres, std::size_t regions) : bytes_(centres.bytes) {
    const std::size_t n = centres.n;
    std::vector<std::int32_t> of(n, 0);
    if (regions > 1) {
        for (std::size_t r = 0; r < regions; ++r)
            middles_.insert(middles_.end(), centres.at(r * n / regions), centres.at(r * n / regions) + bytes_);
        const Queries middles{middles_.data(), regions, bytes_};
        for (int round = 0; round < rounds; ++round) {
            nearest_centres(centres, middles, 1, of.data());
            majority(centres, of.data(), regions, 1, middles_.data());
        }
        nearest_centres(centres, middles, 1, of.data());
    }
    begins_.assign(regions + 1, 0);
    for (const std::int32_t region : of) ++begins_[static_cast<std::size_t>(region) + 1];
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    cells_.resize(n + behind);
    centres_.resize((n + behind) * bytes_);
    std::vector<std::uint32_t> place(begins_.begin(), begins_.end() - 1);
    for (std::size_t cell = 0; cell < n; ++cell) {
        const std::uint32_t at = place[static_cast<std::size_t>(of[cell])]++;
        cells_[at] = static_cast<std::uint32_t>(cell);
        std::copy_n(centres.at(cell), bytes_, centres_.data() + at * bytes_);
    }
}

Sight::Sight(const Kernels& kernels, const Regions& regions, RegionRoom& room)
    : kernels_(kernels), regions_(regions), room_(room), stride_(ceil_div(regions.n_cells(), 16) * 16 + 16) {}

void Sight::look(const Queries& queries, std::int32_t width) {
    enlarge(room_.far, queries.n * stride_ + 16);
    enlarge(room_.cells, queries.n * stride_);
    far_ = align_64(room_.far);
    room_.n.assign(queries.n, 0);
    const Asked asked = laid_out(queries);
    choose(asked, width);
    for (std::size_t region = 0; region < regions_.n(); ++region) measure(asked, region);
}

std::int64_t Sight::n_compared() const {
    const std::size_t middles = regions_.n() > 1 ? regions_.n() * room_.n.size() : 0;
    return static_cast<std::int64_t>(std::accumulate(room_.n.begin(), room_.n.end(), middles));
}

bool Sight::packs(std::size_t n_queries) const {
    const std::size_t rows = kernels_.hamming.layout.rows;
    return rows != 0 && rows <= behind && n_queries >= worth_packing;
}

// As kernels want them, each beginning a line; as they are where too few come together.
Sight::Asked Sight::laid_out(const Queries& queries) {
    if (!packs(queries.n)) return {&queries, nullptr, 0};
    const HammingKernels& kernels = kernels_.hamming;
    const std::size_t stride = ceil_div(kernels.layout.whole(regions_.bytes()), line) * line;
    enlarge(room_.laid, queries.n * stride);
    for (std::size_t q = 0; q < queries.n; ++q)
        if (kernels.lay)
            kernels.lay(queries.at(q), regions_.bytes(), room_.laid.data() + q * stride);
        else
            std::memcpy(room_.laid.data() + q * stride, queries.at(q), regions_.bytes());
    return {&queries, room_.laid.data(), stride};
}

// Of rows behind which others may be read, and room for the distances of these.
void Sight::compare_packed(const std::uint8_t* rows, std::size_t n_rows, const std::uint8_t* laid, std::size_t stride,
                           std::size_t n_queries, std::int32_t* out, std::size_t out_stride) {
    const HammingKernels& kernels = kernels_.hamming;
    const std::size_t bytes = regions_.bytes();
    // Many queries meet a strip while it is in the first-level cache.
    const std::size_t strip =
        std::max(kernels.layout.strip, strip_bytes / bytes / kernels.layout.rows * kernels.layout.rows);
    enlarge(room_.packed, kernels.layout.bytes(strip, bytes) + 63);
    for (std::size_t row = 0; row < n_rows; row += strip) {
        const std::size_t some = std::min(strip, n_rows - row);
        kernels.pack(rows + row * bytes, bytes, some, bytes, align_64(room_.packed));
        kernels.tile_packed(align_64(room_.packed), some, laid, stride, n_queries, bytes, out + row, out_stride, false);
    }
}

// Which regions each query looks at.
void Sight::choose(const Asked& asked, std::int32_t width) {
    const std::size_t n = asked.plain->n, regions = regions_.n();
    std::size_t found = 0;
    room_.counts.assign(n, 1);
    if (regions == 1) {
        room_.near.assign(n, 0);
        found = n;
    } else {
        const std::size_t stride = ceil_div(regions, 16) * 16;
        enlarge(room_.middles, n * stride + 16);
        std::int32_t* middles = align_64(room_.middles);
        const std::size_t packed = packs(n) ? regions / kernels_.hamming.layout.rows * kernels_.hamming.layout.rows : 0;
        if (packed != 0) compare_packed(regions_.middles(), packed, asked.laid, asked.stride, n, middles, stride);
        if (packed < regions)
            kernels_.hamming.tile(regions_.middles() + packed * regions_.bytes(), regions_.bytes(), regions - packed,
                                  asked.plain->data, asked.plain->bytes, n, regions_.bytes(), middles + packed, stride,
                                  false);
        const auto most_far = static_cast<std::int32_t>(8 * regions_.bytes());
        for (std::size_t q = 0; q < n; ++q) {
            const std::int32_t* mine = middles + q * stride;
            const std::int32_t limit = kernels_.cells.smallest(mine, regions) + std::min(width, most_far);
            enlarge(room_.near, found + regions + few);
            room_.counts[q] =
                static_cast<std::uint32_t>(kernels_.cells.within(mine, regions, limit, room_.near.data() + found));
            found += room_.counts[q];
        }
    }
    // By region.
    room_.begins.assign(regions + 1, 0);
    for (std::size_t i = 0; i < found; ++i) ++room_.begins[room_.near[i] + 1];
    std::partial_sum(room_.begins.begin(), room_.begins.end(), room_.begins.begin());
    enlarge(room_.visits, found);
    const std::uint32_t* region = room_.near.data();
    for (std::size_t q = 0; q < n; ++q)
        for (std::uint32_t i = 0; i < room_.counts[q]; ++i, ++region) {
            room_.visits[room_.begins[*region]++] = {static_cast<std::uint32_t>(q),
                                                     static_cast<std::uint32_t>(room_.n[q])};
            room_.n[q] += regions_.begin(*region + 1) - regions_.begin(*region);
        }
    std::copy_backward(room_.begins.begin(), room_.begins.end() - 1, room_.begins.end());
    room_.begins[0] = 0;
}

// The queries that look at a region meet its centres.
void Sight::measure(const Asked& asked, std::size_t region) {
    const RegionRoom::Visit* visits = room_.visits.data() + room_.begins[region];
    const std::size_t n = room_.begins[region + 1] - room_.begins[region], begin = regions_.begin(region),
                      size = regions_.begin(region + 1) - begin, bytes = regions_.bytes();
    const std::uint8_t* centres = regions_.centres() + begin * bytes;
    if (packs(n)) {
        const std::uint8_t* laid = asked.laid;
        if (n < asked.plain->n) {
            enlarge(room_.some, n * asked.stride);
            for (std::size_t i = 0; i < n; ++i)
                copy_lines(laid + visits[i].query * asked.stride, asked.stride, room_.some.data() + i * asked.stride);
            laid = room_.some.data();
        }
        const std::size_t whole = ceil_div(size, kernels_.hamming.layout.rows) * kernels_.hamming.layout.rows;
        enlarge(room_.strip, n * whole + 32);
        std::int32_t* strip = align_64(room_.strip);
        compare_packed(centres, whole, laid, asked.stride, n, strip, whole);
        for (std::size_t i = 0; i < n; ++i)
            copy_lines(strip + i * whole, size * sizeof(std::int32_t), far(visits[i].query) + visits[i].at);
    } else {
        for (std::size_t i = 0; i < n; ++i)
            kernels_.hamming.tile(centres, bytes, size, asked.plain->at(visits[i].query), 0, 1, bytes,
                                  far(visits[i].query) + visits[i].at, 0, false);
    }
    for (std::size_t i = 0; i < n; ++i)
        copy_lines(regions_.cells() + begin, size * sizeof(std::uint32_t), cells(visits[i].query) + visits[i].at);
}

}  // namespace bilsh
