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

inline constexpr std::size_t slice_queries = 5;  // that share groups of bits, at most
inline constexpr std::size_t slice_bytes = 512;  // of a code that are sliced together
inline constexpr std::size_t slice_lines = 8 * slice_bytes;

// The bits of some queries in a part of the code, by group: those whose number's bit q is set are ones in query q.
// Each group is filled up to a multiple of eight with the number of the line that is zero.
struct SliceGroups {
    std::size_t n_queries;
    const std::uint16_t* places;
    const std::uint32_t* ends;  // of the groups; the first is a zero
    std::size_t n_planes;       // that hold the size of any group
};

// Rows that are asked for while others are counted, one line of the cache after the other as they lie.
struct SliceAhead {
    const std::uint8_t* row;
    std::size_t stride, n_rows, n_bytes;
    std::size_t at;     // byte of the row
    std::size_t lines;  // to be asked for in a call
};

// Rows by bit: see slices.h. A plane is a line that holds one binary digit of a number of every row.
struct SliceKernels {
    std::size_t rows;                                        // of a slice; a line has as many bits
    std::size_t worth_queries, worth_bytes, worth_together;  // queries, bytes of a row and of all from which it pays
    // Up to `rows` rows, n_bytes of each up to slice_bytes; `sliced` has room for a line for each bit and one more.
    void (*slice)(const std::uint8_t* rows, std::size_t row_stride, std::size_t n_rows, std::size_t n_bytes,
                  std::uint8_t* sliced);
    // The number of places where both row and query have ones, for each query, in n_planes planes each; and, unless
    // null, the number of ones of each row. Added to what is there if `add`.
    void (*count)(const std::uint8_t* sliced, const SliceGroups& groups, std::size_t n_planes, std::uint8_t* sums,
                  std::uint8_t* weights, bool add, SliceAhead& next);
    // Tells whether weight - 2 sum + 2^n_planes is at most `bound` for any row, for which; and writes n_planes + 1
    // planes of it.
    bool (*close)(const std::uint8_t* weights, const std::uint8_t* sums, std::size_t n_planes, std::uint32_t bound,
                  std::uint8_t* differences, std::uint64_t* rows);
    // The numbers that planes hold, of all rows.
    void (*values)(const std::uint8_t* planes, std::size_t n_planes, std::int32_t* out);
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
    SliceKernels slices;
};

}  // namespace bilsh
