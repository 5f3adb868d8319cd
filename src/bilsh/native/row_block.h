// A block of rows that many queries are compared with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hamming.h"
#include "hamming_kernels.h"

namespace bilsh {

class RowBlock {
  public:
    explicit RowBlock(const HammingKernels& kernels) : kernels_(kernels) {}

    // Rows [row, row + n_rows) of some slabs, about to meet n_queries queries: packing pays from a few on.
    void load(const Slab* slabs, std::size_t n_slabs, std::size_t row, std::size_t n_rows, std::size_t n_queries) {
        slabs_ = slabs;
        n_slabs_ = n_slabs;
        row_ = row;
        n_rows_ = n_rows;
        n_packed_ = kernels_.pack && n_queries >= 8 ? n_rows / 8 * 8 : 0;
        if (n_packed_ == 0) return;
        std::size_t words = 0;
        for (std::size_t s = 0; s < n_slabs; ++s) words += packed_words(n_packed_, slabs[s].bytes);
        if (words + 7 > words_.size()) words_.resize(words + 7);
        std::uint64_t* target = aligned();
        for (std::size_t s = 0; s < n_slabs; ++s) {
            kernels_.pack(slabs[s].data + row * slabs[s].bytes, slabs[s].bytes, n_packed_, slabs[s].bytes, target);
            target += packed_words(n_packed_, slabs[s].bytes);
        }
    }

    // out[q * out_stride + r] = distance of query q and row r of the block.
    void compare(const std::uint8_t* queries, std::size_t query_stride, std::size_t n_queries, std::int32_t* out,
                 std::size_t out_stride) {
        const std::uint64_t* packed = aligned();
        for (std::size_t s = 0; s < n_slabs_; ++s) {
            const Slab& slab = slabs_[s];
            const bool add = s != 0;
            if (n_packed_ != 0)
                kernels_.tile_packed(packed, n_packed_, queries, query_stride, n_queries, slab.bytes, out, out_stride,
                                     add);
            if (n_packed_ < n_rows_)
                kernels_.tile(slab.data + (row_ + n_packed_) * slab.bytes, slab.bytes, n_rows_ - n_packed_, queries,
                              query_stride, n_queries, slab.bytes, out + n_packed_, out_stride, add);
            packed += packed_words(n_packed_, slab.bytes);
            queries += slab.bytes;
        }
    }

  private:
    static std::size_t packed_words(std::size_t n_rows, std::size_t n_bytes) { return n_rows * ((n_bytes + 7) / 8); }
    std::uint64_t* aligned() {
        const auto address = reinterpret_cast<std::uintptr_t>(words_.data());
        return reinterpret_cast<std::uint64_t*>((address + 63) / 64 * 64);
    }

    const HammingKernels& kernels_;
    const Slab* slabs_ = nullptr;
    std::size_t n_slabs_ = 0, row_ = 0, n_rows_ = 0, n_packed_ = 0;
    std::vector<std::uint64_t> words_;
};

}  // namespace bilsh
