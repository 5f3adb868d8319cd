// Cells that are near each other form a region, so that a query need not look at all centres: it looks at the middles
// of regions, and at the centres of those whose middles are near.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hamming.h"
#include "kernels.h"

namespace bilsh {

// Found by k-majority among the centres, so they follow from these, and are the same everywhere. Cells are ordered by
// regions, and ascend within one.
class Regions {
public:
    // At least one region, and at most as many as centres; of one nothing is learned.
    Regions(const Queries& centres, std::size_t regions);

    std::size_t n() const { return begins_.size() - 1; }
    std::size_t n_cells() const { return begins_.back(); }
    std::size_t bytes() const { return bytes_; }
    const std::uint8_t* middles() const { return middles_.data(); }
    std::size_t begin(std::size_t region) const { return begins_[region]; }
    // Behind the last of both others may be read.
    const std::uint32_t* cells() const { return cells_.data(); }
    const std::uint8_t* centres() const { return centres_.data(); }

private:
    std::size_t bytes_;
    std::vector<std::uint8_t> middles_, centres_;
    std::vector<std::uint32_t> begins_, cells_;
};

// What a thread works with that looks at regions.
struct RegionRoom {
    struct Visit {
        std::uint32_t query, at;  // where its distances begin among those of the query
    };

    std::vector<std::int32_t> far, strip;  // distances to centres that were looked at; to those of one region
    std::vector<std::uint32_t> cells;      // whose they are
    std::vector<std::size_t> n;            // how many, of each query
    std::vector<std::int32_t> middles;     // distances to the middles
    std::vector<std::uint32_t> near, counts, begins;
    std::vector<Visit> visits;
    std::vector<std::uint8_t> laid, some, packed;  // queries and centres as kernels want them

    std::size_t held() const { return 2 * far.size() + strip.size() + middles.size() + near.size() + visits.size(); }
};

// How far some queries are from centres of regions near them.
class Sight {
public:
    Sight(const Kernels& kernels, const Regions& regions, RegionRoom& room);

    // Looks at the regions whose middles are at most `width` farther than the nearest one. Queries that come together
    // share the way.
    void look(const Queries& queries, std::int32_t width);

    // Distances to the centres that a query looked at, region by region, whose these are, and how many. There is room
    // for all cells.
    std::int32_t* far(std::size_t query) const { return far_ + query * stride_; }
    std::uint32_t* cells(std::size_t query) const { return room_.cells.data() + query * stride_; }
    std::size_t n(std::size_t query) const { return room_.n[query]; }
    // Centres and middles that were looked at by all queries.
    std::int64_t n_compared() const;

private:
    // Queries; where many share a way, as kernels want them.
    struct Asked {
        const Queries* plain;
        const std::uint8_t* laid;
        std::size_t stride;
    };

    Asked laid_out(const Queries& queries);
    void choose(const Asked& asked, std::int32_t width);
    void measure(const Asked& asked, std::size_t region);
    bool packs(std::size_t n_queries) const;
    void compare_packed(const std::uint8_t* rows, std::size_t n_rows, const std::uint8_t* laid, std::size_t stride,
                        std::size_t n_queries, std::int32_t* out, std::size_t out_stride);

    const Kernels& kernels_;
    const Regions& regions_;
    RegionRoom& room_;
    const std::size_t stride_;
    std::int32_t* far_ = nullptr;
};

}  // namespace bilsh
