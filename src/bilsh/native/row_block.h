// Blocks of rows and the queries they are compared with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "blocks.h"
#include "hamming.h"
#include "kernels.h"

namespace bilsh {

inline constexpr std::size_t worth_packing = 8;      // queries
inline constexpr std::size_t worth_expanding = 128;  // queries
inline constexpr std::size_t strip_bytes = 1 << 16;  // of rows that are compared before more memory is asked for

// Queries as the kernels want them: as they are or, where a product of matrices pays, expanded. All threads share one.
class QueryBlock {
public:
    // The bytes of a query lie one after the other; those of the n_rows rows in slabs.
    QueryBlock(const Kernels& kernels, const Queries& queries, const Slab* slabs, std::size_t n_slabs,
               std::size_t n_rows)
        : queries_(queries),
          layout_(kernels.hamming.layout),
          expands_(kernels.product && queries.n >= worth_expanding && queries.n <= fitting(queries.bytes) &&
                   queries.bytes > 0 && n_rows >= 1024) {
        if (!expands_) return;
        const std::size_t padded = ceil_div(queries.n, product_queries) * product_queries;
        std::size_t size = 0;
        for (std::size_t s = 0; s < n_slabs; ++s)
            for (std::size_t offset = 0; offset < slabs[s].bytes; offset += product_bytes) {
                const std::size_t bytes = std::min(product_bytes, slabs[s].bytes - offset);
                parts_.push_back({s, offset, bytes, size});
                size += padded * ceil_div(bytes, 8) * 64;
            }
        expanded_.resize(size + 63);
        factor_ = align_64(expanded_);
        const std::uint8_t* from = queries.data;
        for (const Part& part : parts_) {
            kernels.product->expand(from, queries.bytes, queries.n, part.bytes, factor_ + part.place);
            from += part.bytes;
        }
        const std::vector<std::uint8_t> zeros(queries.bytes);
        start_.resize(16 * padded);  // the distances from zero
        kernels.hamming.tile(zeros.data(), 0, 16, queries.data, queries.bytes, queries.n, queries.bytes, start_.data(),
                             16, false);
    }

    QueryBlock(const QueryBlock&) = delete;
    QueryBlock& operator=(const QueryBlock&) = delete;

    // Expanded queries are held to about 64 MB: more are compared one batch after the other. (Codes of more than 64 KB
    // are not expanded at all, since too few would share the work.)
    static std::size_t at_most(const Kernels& kernels, const Queries& queries) {
        const std::size_t n = fitting(queries.bytes);
        return kernels.product && n >= worth_expanding ? n : queries.n;
    }
    // How a comparison is cut: rows of a block, queries that share a pass over it, and where a thread's share may
    // begin.
    std::size_t rows() const {
        if (expands_) return 512;
        if (panels()) return layout_.panel_rows;
        return rows_per_block(queries_.bytes * (packs(queries_.n) ? 1 + layout_.growth : 1),
                              queries_.n == 1 ? 4096 : 1024);
    }
    std::size_t together() const {
        if (expands_) return 512;
        return panels() ? block_bytes / 2 / (layout_.panel_rows * sizeof(std::int32_t)) / group * group : group;
    }
    bool packs(std::size_t n_queries) const { return !expands_ && layout_.rows != 0 && n_queries >= worth_packing; }
    // Long codes are packed a panel at a time, and all queries that go together meet it.
    bool panels() const { return packs(queries_.n) && queries_.bytes > layout_.panel_bytes; }
    std::size_t unit() const { return expands_ ? product_queries : group; }

private:
    static std::size_t fitting(std::size_t bytes) { return (std::size_t{1} << 23) / std::max<std::size_t>(bytes, 1); }

    struct Part {
        std::size_t slab, offset, bytes, place;
    };

    Queries queries_;
    PackedLayout layout_;
    bool expands_;
    std::vector<Part> parts_;
    std::vector<std::int8_t> expanded_;
    std::int8_t* factor_ = nullptr;
    std::vector<std::int32_t> start_;

    friend class RowBlock;
};

// Memory that is asked for while something else is counted.
class Ahead {
public:
    Ahead() = default;
    Ahead(const std::uint8_t* rows, std::size_t row_stride, std::size_t n_rows, std::size_t n_bytes)
        : row_(rows), stride_(row_stride), left_(n_rows), bytes_(n_bytes) {}

    std::size_t lines() const { return left_ * ceil_div(bytes_, 64); }
    void ask(std::size_t n) {
        for (; n > 0 && left_ > 0; --n) {
            __builtin_prefetch(row_ + at_, 0, 2);
            at_ += 64;
            if (at_ < bytes_) continue;
            at_ = 0;
            row_ += stride_;
            --left_;
        }
    }

private:
    const std::uint8_t* row_ = nullptr;
    std::size_t stride_ = 0, left_ = 0, bytes_ = 0, at_ = 0;
};

class RowBlock {
public:
    explicit RowBlock(const Kernels& kernels) : kernels_(kernels) {}

    // Rows [row, row + n_rows) of some slabs, about to meet n_queries of the queries: packing pays from a few on. Where
    // the rows that follow are loaded next, they are asked for meanwhile.
    void load(const QueryBlock& queries, const Slab* slabs, std::size_t n_slabs, std::size_t row, std::size_t n_rows,
              std::size_t n_queries, std::size_t next_rows = 0) {
        row_ = row;
        n_rows_ = n_rows;
        next_rows_ = next_rows;
        stride_ =
            ceil_div(n_rows, product_rows) * product_rows + 16;  // rows a power of two apart would share cache sets
        const PackedLayout& layout = kernels_.hamming.layout;
        n_packed_ = queries.packs(n_queries) ? n_rows / layout.rows * layout.rows : 0;
        panels_ = n_packed_ != 0 && queries.panels();
        slabs_ = slabs;
        const std::size_t most = panels_ ? layout.panel_bytes : std::numeric_limits<std::size_t>::max();
        parts_.clear();
        std::size_t at = 0, size = 0;
        for (std::size_t s = 0; s < n_slabs; ++s)
            for (std::size_t j = 0; j < std::max<std::size_t>(slabs[s].bytes, 1);
                 j += std::min(most, slabs[s].bytes + 1)) {
                const std::size_t bytes = std::min(most, slabs[s].bytes - j);
                parts_.push_back({s, j, bytes, at, panels_ ? 0 : size});
                at += bytes;
                size += layout.bytes(n_packed_, bytes);
            }
        if (n_packed_ == 0) return;
        if (panels_) size = layout.bytes(n_packed_, most);
        if (size + 63 > packed_.size()) packed_.resize(size + 63);
        for (std::size_t p = 0; !panels_ && p < parts_.size(); ++p) pack(p, n_queries);
    }

    // Distances of the block to queries [first, first + n), n up to queries.together(): at [q * stride() + r].
    const std::int32_t* compare(const QueryBlock& queries, std::size_t first, std::size_t n) {
        const std::size_t size = (queries.expands_ ? ceil_div(n, product_queries) * product_queries : n) * stride_;
        if (size + 16 > distances_.size()) distances_.resize(size + 16);
        if (queries.expands_)
            multiply(queries, first, n);
        else
            count(queries.queries_.at(first), queries.queries_.bytes, n);
        return align_64(distances_);
    }
    std::size_t stride() const { return stride_; }

private:
    // Some bytes of all rows: of a slab, from `offset` on; where they are in a query, and in what is packed.
    struct Part {
        std::size_t slab, offset, bytes, at, packed;
        Ahead next = {};
        std::size_t lines = 0, strip = 0;  // of it, to be asked for with every strip of so many rows
    };

    const std::uint8_t* rows_of(const Part& part, std::size_t row) const {
        return slabs_[part.slab].data + row * slabs_[part.slab].bytes + part.offset;
    }

    // For so many queries.
    void pack(std::size_t p, std::size_t n_queries) {
        Part& part = parts_[p];
        part.next = after(p);
        part.strip =
            std::max(kernels_.hamming.layout.strip, strip_bytes / std::max<std::size_t>(part.bytes, 1) / 32 * 32);
        part.lines = ceil_div(part.next.lines(), ceil_div(n_queries, group) * ceil_div(n_packed_, part.strip));
        const std::size_t stride = slabs_[part.slab].bytes;
        const std::uint8_t* rows = rows_of(part, row_);
        if (part.bytes == stride) touch(rows, n_packed_ * stride);
        for (std::size_t r = 0; part.bytes < stride && r < n_packed_; ++r) touch(rows + r * stride, part.bytes);
        kernels_.hamming.pack(rows, stride, n_packed_, part.bytes, align_64(packed_) + part.packed);
    }

    // What comes after a part: the next panel of these rows, or that of the rows that follow.
    Ahead after(std::size_t part) const {
        const bool here = panels_ && part + 1 < parts_.size();
        const Part& next = parts_[here ? part + 1 : panels_ ? 0 : part];
        return {rows_of(next, here ? row_ : row_ + n_rows_), slabs_[next.slab].bytes, here ? n_rows_ : next_rows_,
                next.bytes};
    }

    void count(const std::uint8_t* queries, std::size_t query_stride, std::size_t n) {
        for (std::size_t p = 0; p < parts_.size(); ++p) {
            const Part& part = parts_[p];
            const std::size_t stride = slabs_[part.slab].bytes;
            if (n_packed_ != 0) {
                if (panels_) poll();
                if (panels_) pack(p, n);
                count_packed(parts_[p], queries + part.at, query_stride, n, p != 0);
            }
            if (n_packed_ < n_rows_)
                kernels_.hamming.tile(rows_of(part, row_ + n_packed_), stride, n_rows_ - n_packed_, queries + part.at,
                                      query_stride, n, part.bytes, align_64(distances_) + n_packed_, stride_, p != 0);
        }
    }

    void count_packed(Part& part, const std::uint8_t* queries, std::size_t query_stride, std::size_t n, bool add) {
        const PackedLayout& layout = kernels_.hamming.layout;
        for (std::size_t q = 0; q < n; q += group)
            for (std::size_t r = 0; r < n_packed_; r += part.strip) {
                part.next.ask(part.lines);
                kernels_.hamming.tile_packed(align_64(packed_) + part.packed + layout.bytes(r, part.bytes),
                                             std::min(part.strip, n_packed_ - r), queries + q * query_stride,
                                             query_stride, std::min(group, n - q), part.bytes,
                                             align_64(distances_) + q * stride_ + r, stride_, add);
            }
    }

    void multiply(const QueryBlock& queries, std::size_t first, std::size_t n) {
        const std::int32_t* start = queries.start_.data() + 16 * first;
        for (const QueryBlock::Part& part : queries.parts_) {
            const Slab& slab = slabs_[part.slab];
            kernels_.product->product(slab.data + row_ * slab.bytes + part.offset, slab.bytes, n_rows_, part.bytes,
                                      queries.factor_ + part.place + first * ceil_div(part.bytes, 8) * 64, n, start,
                                      align_64(distances_), stride_);
            start = nullptr;
        }
    }

    const Kernels& kernels_;
    const Slab* slabs_ = nullptr;
    std::size_t row_ = 0, n_rows_ = 0, next_rows_ = 0, n_packed_ = 0, stride_ = 0;
    bool panels_ = false;
    std::vector<Part> parts_;
    std::vector<std::uint8_t> packed_;
    std::vector<std::int32_t> distances_;
};

}  // namespace bilsh
