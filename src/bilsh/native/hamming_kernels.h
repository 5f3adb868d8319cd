// What each instruction set offers to search: distances of blocks, of listed rows, and the choice of the close ones.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bilsh {

// Distances to many queries at once as a product of matrices, for machines that have tile registers.
inline constexpr std::size_t product_queries = 32;  // queries are padded to a multiple of this
inline constexpr std::size_t product_rows = 32;     // and rows to a multiple of this
inline constexpr std::size_t product_bytes = 128;   // of each code in one call, at most

struct HammingProduct {
    // The factor that stands for the queries: 64 bytes for every 8 bytes of each query, padding included, aligned
    // to 64.
    void (*expand)(const std::uint8_t* queries, std::size_t query_stride, std::size_t n_queries, std::size_t n_bytes,
                   std::int8_t* out);
    // out[q * out_stride + r] = start[16 * q] + (distance of row r and query q over n_bytes) - (bits of query q there);
    // each value of `start` stands sixteen times. Null: added to what is in `out`, which has room for the padding.
    void (*product)(const std::uint8_t* rows, std::size_t row_stride, std::size_t n_rows, std::size_t n_bytes,
                    const std::int8_t* queries, std::size_t n_queries, const std::int32_t* start, std::int32_t* out,
                    std::size_t out_stride);
};

// How packed rows lie: so many side by side, their bytes in whole units, each byte taking `growth` of them. Long rows
// are packed in panels of so many rows and bytes, which stay in the second-level cache while all queries pass; `strip`
// rows at least are compared at a time.
struct PackedLayout {
    std::size_t rows, unit, growth, panel_rows, panel_bytes, strip;

    std::size_t whole(std::size_t n_bytes) const { return (n_bytes + unit - 1) / unit * unit; }
    std::size_t bytes(std::size_t n_rows, std::size_t n_bytes) const { return n_rows * whole(n_bytes) * growth; }
};

struct HammingKernels {
    // out[q * out_stride + r] = distance of row r and query q over n_bytes bytes; added to what is there if `add`.
    void (*tile)(const std::uint8_t* rows, std::size_t row_stride, std::size_t n_rows, const std::uint8_t* queries,
                 std::size_t query_stride, std::size_t n_queries, std::size_t n_bytes, std::int32_t* out,
                 std::size_t out_stride, bool add);
    // The same against many queries: `pack` lays rows side by side, so that a register holds a part of each and no sum
    // across lanes is left at the end. n_rows is a multiple of layout.rows; `packed` is aligned to 64 bytes. Null where
    // the plain tile is as fast.
    PackedLayout layout;
    void (*pack)(const std::uint8_t* rows, std::size_t row_stride, std::size_t n_rows, std::size_t n_bytes,
                 std::uint8_t* packed);
    // Writes a query as tile_packed wants it, in whole units; null: as it is.
    void (*lay)(const std::uint8_t* query, std::size_t n_bytes, std::uint8_t* laid);
    void (*tile_packed)(const std::uint8_t* packed, std::size_t n_rows, const std::uint8_t* queries,
                        std::size_t query_stride, std::size_t n_queries, std::size_t n_bytes, std::int32_t* out,
                        std::size_t out_stride, bool add);
    // Writes the ascending positions of rows whose distance to the query is at most `limit`, and the distances, and
    // returns how many; there is room for n_rows of both.
    std::size_t (*near)(const std::uint8_t* rows, std::size_t row_stride, std::size_t n_rows, const std::uint8_t* query,
                        std::size_t n_bytes, std::int32_t limit, std::uint32_t* at, std::int32_t* distances);
    // out[i] += distance of row index[i] and the query.
    void (*gather)(const std::uint8_t* rows, std::size_t row_stride, const std::uint32_t* index, std::size_t n,
                   const std::uint8_t* query, std::size_t n_bytes, std::int32_t* out);
    // Writes the ascending positions i with values[i] <= limit and returns how many; `out` has room for n.
    std::size_t (*select)(const std::int32_t* values, std::size_t n, std::int32_t limit, std::uint32_t* out);
};

}  // namespace bilsh
