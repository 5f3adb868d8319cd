// Hamming distances as products of matrices of small integers, on the tile registers of AMX. With rows as 0 and 1 and
// a query q as +1 (bit 0) and -1 (bit 1), the distance is |q| + q . row: one instruction counts 16 x 16 x 64 bits.
#include "hamming_kernels.h"
#include "simd.h"

namespace bilsh::amx {
namespace {

using std::int32_t;
using std::int8_t;
using std::size_t;
using std::uint16_t;
using std::uint64_t;
using std::uint8_t;

constexpr size_t tile_bytes = 1024;                   // 16 lines of 64 bytes: 64 bits of 16 rows or queries
constexpr size_t steps_at_most = product_bytes / 8;   // of 8 code bytes, one tile each
constexpr size_t panel = steps_at_most * tile_bytes;  // room for 16 rows

// The compiler does not know that tiles are read from memory and written to it.
inline void settle_memory() { __asm__ volatile("" ::: "memory"); }

struct alignas(64) TileShapes {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t line_bytes[16] = {};
    uint8_t lines[16] = {};
};

// Sixteen rows as tiles. A line of a tile holds four entries of each row: bit b of the four bytes of one dword. Which
// bits meet in a line does not matter, as long as the queries are laid out alike.
void expand_rows(const uint8_t* rows, size_t row_stride, size_t n_rows, size_t n_bytes, uint8_t* tiles) {
    for (size_t j = 0; j < n_bytes; j += 64) {
        const size_t left = n_bytes - j < 64 ? n_bytes - j : 64;
        const __mmask64 mask = ~uint64_t{0} >> (64 - left);
        __m512i x[16];
        for (size_t i = 0; i < 16; ++i)
            x[i] = i < n_rows ? _mm512_maskz_loadu_epi8(mask, rows + i * row_stride + j) : _mm512_setzero_si512();
        transpose(x);
        for (size_t dword = 0; dword < (left + 7) / 8 * 2; ++dword)
            for (unsigned b = 0; b < 8; ++b)
                _mm512_store_si512(tiles + j * 128 + (8 * dword + b) * 64,
                                   _mm512_and_si512(_mm512_srli_epi32(x[dword], b), _mm512_set1_epi8(1)));
    }
}

void prefetch_rows(const uint8_t* rows, size_t row_stride, size_t n_rows, size_t n_bytes) {
    for (size_t r = 0; r < n_rows; ++r)
        for (size_t j = 0; j < n_bytes; j += 64) __builtin_prefetch(rows + r * row_stride + j);
}

void expand(const uint8_t* queries, size_t query_stride, size_t n_queries, size_t n_bytes, int8_t* out) {
    // Within a line of 64 entries: dword, bit, byte, as in the tiles of rows.
    alignas(64) uint8_t byte[64], bit[64];
    for (unsigned i = 0; i < 64; ++i) {
        byte[i] = static_cast<uint8_t>(i / 32 * 4 + i % 4);
        bit[i] = static_cast<uint8_t>(1u << (i / 4 % 8));
    }
    const __m512i bytes = _mm512_load_si512(byte), bits = _mm512_load_si512(bit);
    const __m512i plus = _mm512_set1_epi8(1), minus = _mm512_set1_epi8(-1);
    const size_t steps = (n_bytes + 7) / 8,
                 padded = (n_queries + product_queries - 1) / product_queries * product_queries;
    for (size_t q = 0; q < padded; ++q)
        for (size_t s = 0; s < steps; ++s) {
            int8_t* line = out + (q / 16 * steps + s) * tile_bytes + q % 16 * 64;
            if (q >= n_queries) {
                _mm512_store_si512(line, _mm512_setzero_si512());
                continue;
            }
            uint64_t word = 0;
            __builtin_memcpy(&word, queries + q * query_stride + 8 * s, n_bytes - 8 * s < 8 ? n_bytes - 8 * s : 8);
            const __m512i spread = _mm512_shuffle_epi8(_mm512_set1_epi64(static_cast<long long>(word)), bytes);
            _mm512_store_si512(line, _mm512_mask_blend_epi8(_mm512_test_epi8_mask(spread, bits), plus, minus));
        }
}

void product(const uint8_t* rows, size_t row_stride, size_t n_rows, size_t n_bytes, const int8_t* queries,
             size_t n_queries, const int32_t* start, int32_t* out, size_t out_stride) {
    TileShapes shapes;
    for (int i = 0; i < 8; ++i) {
        shapes.line_bytes[i] = 64;
        shapes.lines[i] = 16;
    }
    settle_memory();
    _tile_loadconfig(&shapes);
    alignas(64) uint8_t tiles[2 * panel];
    const size_t steps = (n_bytes + 7) / 8;
    const size_t line = out_stride * sizeof(int32_t);
    for (size_t r = 0; r < n_rows; r += product_rows) {
        const size_t left = n_rows - r < product_rows ? n_rows - r : product_rows;
        expand_rows(rows + r * row_stride, row_stride, left, n_bytes, tiles);
        expand_rows(rows + (r + 16) * row_stride, row_stride, left > 16 ? left - 16 : 0, n_bytes, tiles + panel);
        if (r + 2 * product_rows <= n_rows)
            prefetch_rows(rows + (r + product_rows) * row_stride, row_stride, product_rows, n_bytes);
        settle_memory();
        for (size_t q = 0; q < n_queries; q += product_queries) {
            const int8_t* a = queries + q / 16 * steps * tile_bytes;
            int32_t* c = out + q * out_stride + r;
            if (start) {
                const int32_t* c0 = start + q * 16;
                _tile_loadd(0, c0, 64);
                _tile_loadd(1, c0, 64);
                _tile_loadd(2, c0 + 256, 64);
                _tile_loadd(3, c0 + 256, 64);
            } else {
                _tile_loadd(0, c, line);
                _tile_loadd(1, c + 16, line);
                _tile_loadd(2, c + 16 * out_stride, line);
                _tile_loadd(3, c + 16 * out_stride + 16, line);
            }
            for (size_t s = 0; s < steps; ++s) {
                // Queries pass by once for each panel of rows and must not push it out of the first-level cache.
                _tile_stream_loadd(4, a + s * tile_bytes, 64);
                _tile_stream_loadd(5, a + (steps + s) * tile_bytes, 64);
                _tile_loadd(6, tiles + s * tile_bytes, 64);
                _tile_loadd(7, tiles + panel + s * tile_bytes, 64);
                _tile_dpbsud(0, 4, 6);
                _tile_dpbsud(1, 4, 7);
                _tile_dpbsud(2, 5, 6);
                _tile_dpbsud(3, 5, 7);
            }
            _tile_stored(0, c, line);
            _tile_stored(1, c + 16, line);
            _tile_stored(2, c + 16 * out_stride, line);
            _tile_stored(3, c + 16 * out_stride + 16, line);
            settle_memory();
        }
    }
    _tile_release();
}

}  // namespace

extern const HammingProduct hamming_product;
const HammingProduct hamming_product = {expand, product};

}  // namespace bilsh::amx
