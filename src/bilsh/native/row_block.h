// Blocks of rows and the queries they are compared with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "blocks.h"
#include "hamming.h"
#include "kernels.h"

namespace bilsh {

inline constexpr std::size_t worth_packing = 8;      // queries
inline constexpr std::size_t worth_expanding = 128;  // queries

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
        return rows_per_block(queries_.bytes * (packs(queries_.n) ? 2 * layout_.growth : 1),
                              queries_.n == 1 ? 4096 : 1024);
    }
    std::size_t together() const { return expands_ ? 512 : group; }
    bool packs(std::size_t n_queries) const { return !expands_ && layout_.rows != 0 && n_queries >= worth_packing; }
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

class RowBlock {
public:
    explicit RowBlock(const Kernels& kernels) : kernels_(kernels) {}

    // Rows [row, row + n_rows) of some slabs, about to meet n_queries of the queries: packing pays from a few on.
    void load(const QueryBlock& queries, const Slab* slabs, std::size_t n_slabs, std::size_t row, std::size_t n_rows,
              std::size_t n_queries) {
        slabs_ = slabs;
        n_slabs_ = n_slabs;
        row_ = row;
        n_rows_ = n_rows;
        stride_ =
            ceil_div(n_rows, product_rows) * product_rows + 16;  // rows a power of two apart would share cache sets
        const PackedLayout& layout = kernels_.hamming.layout;
        n_packed_ = queries.packs(n_queries) ? n_rows / layout.rows * layout.rows : 0;
        if (n_packed_ == 0) return;
        std::size_t size = 0;
        for (std::size_t s = 0; s < n_slabs; ++s) size += layout.bytes(n_packed_, slabs[s].bytes);
        if (size + 63 > packed_.size()) packed_.resize(size + 63);
        std::uint8_t* target = align_64(packed_);
        for (std::size_t s = 0; s < n_slabs; ++s) {
            const std::uint8_t* rows = slabs[s].data + row * slabs[s].bytes;
            touch(rows, n_packed_ * slabs[s].bytes);
            kernels_.hamming.pack(rows, slabs[s].bytes, n_packed_, slabs[s].bytes, target);
            target += layout.bytes(n_packed_, slabs[s].bytes);
        }
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
    void count(const std::uint8_t* queries, std::size_t query_stride, std::size_t n) {
        const std::uint8_t* packed = align_64(packed_);
        for (std::size_t s = 0; s < n_slabs_; ++s) {
            const Slab& slab = slabs_[s];
            const bool add = s != 0;
            if (n_packed_ != 0)
                kernels_.hamming.tile_packed(packed, n_packed_, queries, query_stride, n, slab.bytes,
                                             align_64(distances_), stride_, add);
            if (n_packed_ < n_rows_)
                kernels_.hamming.tile(slab.data + (row_ + n_packed_) * slab.bytes, slab.bytes, n_rows_ - n_packed_,
                                      queries, query_stride, n, slab.bytes, align_64(distances_) + n_packed_, stride_,
                                      add);
            packed += kernels_.hamming.layout.bytes(n_packed_, slab.bytes);
            queries += slab.bytes;
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
    std::size_t n_slabs_ = 0, row_ = 0, n_rows_ = 0, n_packed_ = 0, stride_ = 0;
    std::vector<std::uint8_t> packed_;
    std::vector<std::int32_t> distances_;
};

}  // namespace bilsh
