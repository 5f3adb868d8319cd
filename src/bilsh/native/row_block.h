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
inline constexpr std::size_t strip_bytes = 1 << 14;  // of rows that are compared before more memory is asked for

// Some bytes of every code: of a slab, from `offset` on; where they are in a query, and in one that is laid out.
struct CodePart {
    std::size_t slab, offset, bytes, at, laid;
};

// Calls use(part) for parts of at most so many bytes.
template <class Use>
void for_each_part(const Slab* slabs, std::size_t n_slabs, std::size_t most, const PackedLayout& layout,
                   const Use& use) {
    std::size_t at = 0, laid = 0;
    for (std::size_t s = 0; s < n_slabs; ++s)
        for (std::size_t j = 0; j < std::max<std::size_t>(slabs[s].bytes, 1); j += std::min(most, slabs[s].bytes + 1)) {
            const std::size_t bytes = std::min(most, slabs[s].bytes - j);
            use(CodePart{s, j, bytes, at, laid});
            at += bytes;
            laid += layout.whole(bytes);
        }
}

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
        if (packs(queries.n) && kernels.hamming.lay) lay(kernels, slabs, n_slabs);
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

    // Expanded queries are held to about 64 MB, as are those laid out: more are compared one batch after the other.
    // (Codes of more than 64 KB are not expanded at all, since too few would share the work.)
    static std::size_t at_most(const Kernels& kernels, const Queries& queries) {
        const std::size_t n = fitting(queries.bytes);
        if (kernels.product && n >= worth_expanding) return n;
        return kernels.hamming.lay ? std::max(8 * n, worth_expanding) : queries.n;
    }
    // How a comparison is cut: rows of a block, queries that share a pass over it, and where a thread's share may
    // begin.
    std::size_t rows() const {
        if (expands_) return 512;
        if (!packs(queries_.n)) return rows_per_block(queries_.bytes);
        return std::max(layout_.panel_rows, rows_per_block(queries_.bytes * 4 * layout_.growth));
    }
    std::size_t together() const {
        if (expands_) return 512;
        return packs(queries_.n) ? block_bytes / 2 / (rows() * sizeof(std::int32_t)) / group * group : group;
    }
    bool packs(std::size_t n_queries) const { return !expands_ && layout_.rows != 0 && n_queries >= worth_packing; }
    // Long codes are packed a panel at a time, and all queries that go together meet it.
    bool panels() const { return packs(queries_.n) && queries_.bytes > layout_.panel_bytes; }
    bool expands() const { return expands_; }
    const Queries& plain() const { return queries_; }
    std::size_t unit() const { return expands_ ? product_queries : group; }

private:
    static std::size_t fitting(std::size_t bytes) { return (std::size_t{1} << 23) / std::max<std::size_t>(bytes, 1); }

    void lay(const Kernels& kernels, const Slab* slabs, std::size_t n_slabs) {
        std::vector<CodePart> parts;
        for_each_part(slabs, n_slabs, most(), layout_, [&](const CodePart& part) { parts.push_back(part); });
        // Queries a power of two apart would share cache sets.
        laid_stride_ = (parts.back().laid + layout_.whole(parts.back().bytes)) / 64 * 64 + 64;
        laid_.resize(queries_.n * laid_stride_);
        for (std::size_t q = 0; q < queries_.n; ++q)
            for (const CodePart& part : parts)
                kernels.hamming.lay(queries_.at(q) + part.at, part.bytes, laid_.data() + q * laid_stride_ + part.laid);
    }
    std::size_t most() const { return panels() ? layout_.panel_bytes : std::numeric_limits<std::size_t>::max(); }

    struct Part {
        std::size_t slab, offset, bytes, place;
    };

    Queries queries_;
    PackedLayout layout_;
    bool expands_;
    std::size_t laid_stride_ = 0;
    std::vector<std::uint8_t> laid_;
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
        asked_ = next_rows_ != 0 && row == row_ + n_rows_;
        row_ = row;
        n_rows_ = n_rows;
        next_rows_ = next_rows;
        stride_ =
            ceil_div(n_rows, product_rows) * product_rows + 16;  // rows a power of two apart would share cache sets
        const PackedLayout& layout = kernels_.hamming.layout;
        n_packed_ = queries.packs(n_queries) ? n_rows / layout.rows * layout.rows : 0;
        panels_ = n_packed_ != 0 && queries.panels();
        slabs_ = slabs;
        parts_.clear();
        for_each_part(slabs, n_slabs, panels_ ? layout.panel_bytes : std::numeric_limits<std::size_t>::max(), layout,
                      [&](const CodePart& part) { parts_.push_back({part}); });
        if (n_packed_ == 0) return;
        const std::size_t size = panels_ ? layout.bytes(n_packed_, layout.panel_bytes)
                                         : place(parts_.back()) + layout.bytes(n_packed_, parts_.back().bytes);
        if (size + 63 > packed_.size()) packed_.resize(size + 63);
        if (!panels_)
            for (Part& part : parts_) pack(part, n_queries);
    }

    // Distances of the block to queries [first, first + n), n up to queries.together(): at [q * stride() + r].
    const std::int32_t* compare(const QueryBlock& queries, std::size_t first, std::size_t n) {
        const std::size_t size = (queries.expands_ ? ceil_div(n, product_queries) * product_queries : n) * stride_;
        if (size + 16 > distances_.size()) distances_.resize(size + 16);
        if (queries.expands_)
            multiply(queries, first, n);
        else
            count(queries, first, n);
        return align_64(distances_);
    }
    std::size_t stride() const { return stride_; }

private:
    struct Part : CodePart {
        Ahead next = {};
        std::size_t lines = 0, strip = 0;  // of it, to be asked for with every strip of so many rows
    };

    // Of a part, in what is packed.
    std::size_t place(const Part& part) const {
        return panels_ ? 0 : n_packed_ * kernels_.hamming.layout.growth * part.laid;
    }
    const std::uint8_t* rows_of(const Part& part, std::size_t row) const {
        return slabs_[part.slab].data + row * slabs_[part.slab].bytes + part.offset;
    }

    // For so many queries.
    void pack(Part& part, std::size_t n_queries) {
        part.next = after(part);
        part.strip =
            std::max(kernels_.hamming.layout.strip, strip_bytes / std::max<std::size_t>(part.bytes, 1) / 32 * 32);
        part.lines = ceil_div(part.next.lines(), ceil_div(n_queries, group) * ceil_div(n_packed_, part.strip));
        const std::size_t stride = slabs_[part.slab].bytes;
        const std::uint8_t* rows = rows_of(part, row_);
        const bool asked = asked_ || (panels_ && part.at != 0);
        if (!asked && part.bytes == stride) touch(rows, n_packed_ * stride);
        for (std::size_t r = 0; !asked && part.bytes < stride && r < n_packed_; ++r)
            touch(rows + r * stride, part.bytes);
        kernels_.hamming.pack(rows, stride, n_packed_, part.bytes, align_64(packed_) + place(part));
    }

    // What comes after a part: the next panel of these rows, or that of the rows that follow.
    Ahead after(const Part& part) const {
        const bool here = panels_ && &part != &parts_.back();
        const Part& next = here ? *(&part + 1) : panels_ ? parts_.front() : part;
        return {rows_of(next, here ? row_ : row_ + n_rows_), slabs_[next.slab].bytes, here ? n_rows_ : next_rows_,
                next.bytes};
    }

    void count(const QueryBlock& queries, std::size_t first, std::size_t n) {
        const std::uint8_t* plain = queries.queries_.at(first);
        const bool lays = n_packed_ != 0 && !queries.laid_.empty();
        for (Part& part : parts_) {
            if (n_packed_ != 0) {
                if (panels_) poll();
                if (panels_) pack(part, n);
                if (lays)
                    count_packed(part, queries.laid_.data() + first * queries.laid_stride_ + part.laid,
                                 queries.laid_stride_, n);
                else
                    count_packed(part, plain + part.at, queries.queries_.bytes, n);
            }
            if (n_packed_ < n_rows_)
                kernels_.hamming.tile(rows_of(part, row_ + n_packed_), slabs_[part.slab].bytes, n_rows_ - n_packed_,
                                      plain + part.at, queries.queries_.bytes, n, part.bytes,
                                      align_64(distances_) + n_packed_, stride_, part.at != 0);
        }
    }

    // A strip stays in the first-level cache while the queries pass.
    void count_packed(Part& part, const std::uint8_t* queries, std::size_t query_stride, std::size_t n) {
        const PackedLayout& layout = kernels_.hamming.layout;
        for (std::size_t r = 0; r < n_packed_; r += part.strip)
            for (std::size_t q = 0; q < n; q += group) {
                part.next.ask(part.lines);
                kernels_.hamming.tile_packed(align_64(packed_) + place(part) + layout.bytes(r, part.bytes),
                                             std::min(part.strip, n_packed_ - r), queries + q * query_stride,
                                             query_stride, std::min(group, n - q), part.bytes,
                                             align_64(distances_) + q * stride_ + r, stride_, part.at != 0);
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
    bool panels_ = false, asked_ = false;
    std::vector<Part> parts_;
    std::vector<std::uint8_t> packed_;
    std::vector<std::int32_t> distances_;
};

}  // namespace bilsh
