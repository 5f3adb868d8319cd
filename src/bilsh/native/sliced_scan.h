// Many queries against rows by bit (slices.h): the bits of the queries in groups, and the rows that are close.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "blocks.h"
#include "hamming.h"
#include "kernels.h"
#include "row_block.h"
#include "threads.h"

namespace bilsh {

inline std::size_t digits_of(std::size_t largest) {
    std::size_t n = 0;
    for (; largest >> n != 0; ++n) continue;
    return n;
}

// Bit b of a byte becomes byte b.
inline std::uint64_t spread_bits(std::uint8_t byte) {
    const std::uint64_t each = (byte * std::uint64_t{0x0101010101010101}) & std::uint64_t{0x8040201008040201};
    return (each + std::uint64_t{0x00406070787c7e7f}) >> 7 & std::uint64_t{0x0101010101010101};
}

// The bits of all queries in groups. All threads share one.
class SlicedQueries {
public:
    SlicedQueries(const Queries& queries, const Slab* slabs, std::size_t n_slabs)
        : queries_(queries),
          n_planes_(digits_of(8 * queries.bytes)),
          // Few groups where there are few bits for each.
          group_(queries.bytes < 128   ? slice_queries - 2
                 : queries.bytes < 512 ? slice_queries - 1
                                       : slice_queries) {
        for_each_part(slabs, n_slabs, slice_bytes, PackedLayout{0, 1, 1, 0, 0, 0},
                      [&](const CodePart& part) { parts_.push_back(part); });
        for (const CodePart& part : parts_)
            for (std::size_t first = 0; first < queries.n; first += group_) group_bits(part, first);
        for (std::size_t q = 0; q < queries.n; ++q) {
            std::int32_t weight = 0;
            for (std::size_t j = 0; j < queries.bytes; ++j) weight += __builtin_popcount(queries.at(q)[j]);
            weights_.push_back(weight);
        }
    }

    static bool pays(const SliceKernels& slices, const Queries& queries, std::size_t n_rows) {
        return queries.n >= slices.worth_queries && queries.bytes >= slices.worth_bytes &&
               queries.bytes * n_rows >= slices.worth_together;
    }
    // The groups take four times the memory of the queries, and are held to about 64 MB.
    static std::size_t at_most(const Queries& queries) {
        return std::max<std::size_t>((std::size_t{1} << 24) / std::max<std::size_t>(queries.bytes, 1), 64);
    }

    std::size_t n() const { return queries_.n; }
    // Queries that share groups of bits; a thread's share begins at a multiple.
    std::size_t group() const { return group_; }
    std::size_t n_planes() const { return n_planes_; }
    const std::vector<CodePart>& parts() const { return parts_; }
    std::int32_t weight(std::size_t query) const { return weights_[query]; }
    SliceGroups groups(std::size_t part, std::size_t first) const {
        const Groups& found = groups_[part * ceil_div(queries_.n, group_) + first / group_];
        return {group_, places_.data() + found.at, found.ends, found.n_planes};
    }

private:
    struct Groups {
        std::size_t at, n_planes;
        std::uint32_t ends[(1 << slice_queries) + 1];
    };

    void group_bits(const CodePart& part, std::size_t first) {
        const std::size_t n = std::min(group_, queries_.n - first);
        std::vector<std::uint16_t> of[1 << slice_queries];
        std::size_t sizes[1 << slice_queries] = {};
        for (std::vector<std::uint16_t>& group : of) group.resize(8 * part.bytes + 8);
        for (std::size_t j = 0; j < part.bytes; ++j) {
            std::uint64_t groups = 0;  // a byte for each bit
            for (std::size_t q = 0; q < n; ++q) groups |= spread_bits(queries_.at(first + q)[part.at + j]) << q;
            for (std::size_t bit = 8 * j; bit < 8 * j + 8; ++bit, groups >>= 8) {
                const std::size_t group = groups & 255;
                of[group][sizes[group]++] = static_cast<std::uint16_t>(bit);
            }
        }
        Groups groups{places_.size(), 0, {}};
        std::size_t longest = 0;
        for (std::size_t g = 0; g < std::size_t{1} << group_; ++g) {
            longest = std::max(longest, sizes[g]);
            while (sizes[g] % 8 != 0) of[g][sizes[g]++] = static_cast<std::uint16_t>(8 * part.bytes);
            places_.insert(places_.end(), of[g].begin(), of[g].begin() + static_cast<std::ptrdiff_t>(sizes[g]));
            groups.ends[g + 1] = static_cast<std::uint32_t>(places_.size() - groups.at);
        }
        groups.n_planes = std::max<std::size_t>(digits_of(longest), 3);
        groups_.push_back(groups);
    }

    Queries queries_;
    std::size_t n_planes_, group_;
    std::vector<CodePart> parts_;
    std::vector<std::uint16_t> places_;
    std::vector<Groups> groups_;
    std::vector<std::int32_t> weights_;
};

// What one thread makes of the rows of a slice.
class SlicedRows {
public:
    SlicedRows(const Kernels& kernels, const SlicedQueries& queries, const Slab* slabs)
        : slices_(kernels.hamming.slices), queries_(queries), slabs_(slabs), line_(slices_.rows / 8) {
        sliced_.resize((slice_lines + 1) * line_ + 63);
        weights_.resize(queries.n_planes() * line_ + 63);
        differences_.resize((queries.n_planes() + 1) * line_ + 63);
        sums_.resize(std::min(queries.n() + slice_queries, together) * sum_bytes() + 63);
        mask_.resize(line_ / 8);
        values_.resize(slices_.rows);
    }

    std::size_t rows() const { return slices_.rows; }

    // Calls close(query, row, distance) for every row in [row, row + n_rows) whose distance is at most limit(query), of
    // queries [query, query_end), which begin at a multiple of queries.group(). So many rows follow.
    template <class Limit, class Close>
    void scan(std::size_t row, std::size_t n_rows, std::size_t next_rows, std::size_t query, std::size_t query_end,
              const Limit& limit, const Close& close) {
        const std::vector<CodePart>& parts = queries_.parts();
        for (std::size_t first = query; first < query_end; first += together) {
            const std::size_t end = std::min(first + together, query_end);
            for (std::size_t p = 0; p < parts.size(); ++p) {
                poll();
                if (first == query || parts.size() > 1) load(p, row, n_rows);
                SliceAhead next = after(p, row, n_rows, end == query_end ? next_rows : 0);
                next.lines =
                    ceil_div(next.n_rows * ceil_div(next.n_bytes, 64), ceil_div(end - first, queries_.group()));
                for (std::size_t q = first; q < end; q += queries_.group()) {
                    slices_.count(align_64(sliced_), queries_.groups(p, q), queries_.n_planes(), sum(q - first),
                                  q == query ? align_64(weights_) : nullptr, p != 0, next);
                    if (p + 1 == parts.size())
                        choose(q, std::min(q + queries_.group(), end), first, row, n_rows, limit, close);
                }
            }
        }
    }

private:
    static constexpr std::size_t together = 480;  // queries whose sums are kept from part to part; whole groups
    static constexpr std::size_t worth_all = 32;  // rows of a slice; for more, the distances of all are written

    std::size_t sum_bytes() const { return queries_.n_planes() * line_; }
    std::uint8_t* sum(std::size_t query) { return align_64(sums_) + query * sum_bytes(); }
    const std::uint8_t* at(const CodePart& part, std::size_t row) const {
        return slabs_[part.slab].data + row * slabs_[part.slab].bytes + part.offset;
    }
    SliceAhead after(std::size_t p, std::size_t row, std::size_t n_rows, std::size_t next_rows) const {
        const std::vector<CodePart>& parts = queries_.parts();
        const bool here = p + 1 < parts.size();
        const CodePart& part = parts[here ? p + 1 : 0];
        // Rows that do not begin with a line of the cache reach into one more.
        const std::size_t stride = slabs_[part.slab].bytes, bytes = part.bytes + (stride % 64 == 0 ? 0 : 63);
        return {at(part, here ? row : row + n_rows), stride, here ? n_rows : next_rows, bytes, 0, 0};
    }

    void load(std::size_t p, std::size_t row, std::size_t n_rows) {
        const CodePart& part = queries_.parts()[p];
        slices_.slice(at(part, row), slabs_[part.slab].bytes, n_rows, part.bytes, align_64(sliced_));
    }

    template <class Limit, class Close>
    void choose(std::size_t query, std::size_t query_end, std::size_t first, std::size_t row, std::size_t n_rows,
                const Limit& limit, const Close& close) {
        const std::int64_t middle = std::int64_t{1} << queries_.n_planes();
        for (; query < query_end; ++query) {
            const std::int64_t bound = limit(query) - queries_.weight(query) + middle;
            if (bound < 0) continue;
            if (!slices_.close(align_64(weights_), sum(query - first), queries_.n_planes(),
                               static_cast<std::uint32_t>(std::min(bound, 2 * middle - 1)), align_64(differences_),
                               mask_.data()))
                continue;
            std::size_t many = 0;
            for (const std::uint64_t word : mask_) many += static_cast<std::size_t>(__builtin_popcountll(word));
            if (many > worth_all) slices_.values(align_64(differences_), queries_.n_planes() + 1, values_.data());
            const std::int64_t base = queries_.weight(query) - middle;
            for (std::size_t word = 0; 64 * word < n_rows; ++word) {
                std::uint64_t found = mask_[word];
                if (n_rows - 64 * word < 64) found &= (std::uint64_t{1} << (n_rows - 64 * word)) - 1;
                for (; found != 0; found &= found - 1) {
                    const std::size_t r = 64 * word + static_cast<std::size_t>(__builtin_ctzll(found));
                    const std::int64_t value = many > worth_all ? values_[r] : value_of(r);
                    close(query, row + r, static_cast<std::int32_t>(base + value));
                }
            }
        }
    }

    std::int64_t value_of(std::size_t r) {
        const std::uint8_t* plane = align_64(differences_) + r / 8;
        std::int64_t sum = 0;
        for (std::size_t p = 0; p <= queries_.n_planes(); ++p, plane += line_)
            sum |= std::int64_t{*plane >> r % 8 & 1} << p;
        return sum;
    }

    const SliceKernels& slices_;
    const SlicedQueries& queries_;
    const Slab* slabs_;
    std::size_t line_;
    std::vector<std::uint8_t> sliced_, weights_, differences_, sums_;
    std::vector<std::uint64_t> mask_;
    std::vector<std::int32_t> values_;
};

}  // namespace bilsh
