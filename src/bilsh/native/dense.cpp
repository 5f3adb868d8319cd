// Dense projections: a blocked product of weight rows with the items, quantised as it is made. The weights are stored,
// or regenerated block by block; each block serves every item of the call (in groups) before the next one is made.
#include <algorithm>

#include "encode.h"
#include "finite.h"
#include "kernels.h"
#include "threads.h"
#include "workspace.h"

namespace bilsh {
namespace {

constexpr std::size_t column_block = 1024;  // a multiple of 64; a block of a tile's columns stays in the L2 cache
constexpr std::size_t stored_group = 256;   // items worked on together
constexpr std::size_t streamed_group = 2048;
constexpr std::size_t fewest_rows = 16;  // that a thread takes

std::size_t round_up(std::size_t n, std::size_t step) { return (n + step - 1) / step * step; }

std::vector<uint32_t> used_rows(const int32_t* outputs, std::size_t k) {
    std::vector<uint32_t> rows(outputs, outputs + k);
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    return rows;
}

Bits bits_of(const std::vector<uint32_t>& used, const int32_t* outputs, std::size_t k, const float* offsets,
             const float* tau) {
    std::vector<uint32_t> value(k);
    for (std::size_t r = 0; r < k; ++r)
        value[r] = static_cast<uint32_t>(std::lower_bound(used.begin(), used.end(), static_cast<uint32_t>(outputs[r])) -
                                         used.begin());
    return Bits(std::move(value), used.size(), offsets, tau);
}

}  // namespace

DensePlan::DensePlan(std::vector<uint32_t> used, std::size_t d, const int32_t* outputs, std::size_t k,
                     const float* offsets, const float* tau)
    : Plan(bits_of(used, outputs, k, offsets, tau)), d_(d), used_(std::move(used)) {}

DensePlan::DensePlan(const float* weights, std::size_t d, const int32_t* outputs, std::size_t k, const float* offsets,
                     const float* tau)
    : DensePlan(used_rows(outputs, k), d, outputs, k, offsets, tau) {
    rows_at_once_ = panel_rows;
    weights_.resize(round_up(used_.size(), row_padding) * d);
    for (std::size_t u = 0; u < used_.size(); ++u) {
        const float* row = weights + used_[u] * d;
        float* at = weights_.data() + place(u, 0);
        for (std::size_t p = 0; p < d; ++p) at[p * stride(u)] = row[p];
    }
    finite_ = first_nonfinite(weights_.data(), weights_.size()) < 0;
}

DensePlan::DensePlan(uint64_t seed, Variate kind, const float* row_scale, std::size_t rows, std::size_t d,
                     const int32_t* outputs, std::size_t k, const float* offsets, const float* tau,
                     std::size_t block_bytes)
    : DensePlan(used_rows(outputs, k), d, outputs, k, offsets, tau) {
    seed_ = seed;
    kind_ = kind;
    row_scale_.assign(row_scale, row_scale + rows);
    rows_at_once_ = std::max<std::size_t>(block_bytes / (column_block * sizeof(float)), 1);
}

// Rows of the panel that a used row lies in, and where one of its weights is.
std::size_t DensePlan::stride(std::size_t row) const {
    return std::min(panel_rows, round_up(used_.size(), row_padding) - row / panel_rows * panel_rows);
}

std::size_t DensePlan::place(std::size_t row, std::size_t column) const {
    return row / panel_rows * panel_rows * d_ + column * stride(row) + row % panel_rows;
}

// Columns [begin, end) of used rows [row, row_end), made anew: rows[i] points at the first of them.
void DensePlan::generate(const EncodeKernels& kernels, std::size_t row, std::size_t row_end, std::size_t begin,
                         std::size_t end, const float** rows) const {
    float* made = workspace().weights.floats((row_end - row) * column_block);
    for (std::size_t u = row; u < row_end; ++u, made += column_block) {
        kernels.generate(seed_, kind_, row_scale_.data(), used_[u], used_[u] + 1, begin, end, made, column_block);
        rows[u - row] = made;
    }
}

void DensePlan::project_few(const EncodeKernels& kernels, const float* x, std::size_t n, std::size_t row,
                            std::size_t row_end, float* values) const {
    std::vector<const float*> rows(stored() ? 0 : row_end - row), items(n);
    for (std::size_t begin = 0; begin < d_; begin += column_block) {
        poll();
        const std::size_t end = std::min(begin + column_block, d_);
        for (std::size_t t = 0; t < n; ++t) items[t] = x + t * d_ + begin;
        if (stored()) {
            kernels.panel_dots(weights_.data() + place(row, begin), stride(row), row_end - row, items.data(), n,
                               end - begin, values + row, used_.size(), begin > 0, finite_);
            continue;
        }
        generate(kernels, row, row_end, begin, end, rows.data());
        kernels.dots(rows.data(), rows.size(), items.data(), n, end - begin, values + row, used_.size(), begin > 0);
    }
}

void DensePlan::project_tiles(const EncodeKernels& kernels, const float* x, std::size_t n, std::size_t row,
                              std::size_t row_end, uint8_t* planes, Output output, std::size_t item) const {
    const std::size_t n_rows = row_end - row, tile = kernels.tile_items, n_tiles = (n + tile - 1) / tile;
    float* sums = workspace().projected.floats(n_tiles * n_rows * tile);
    float* block = workspace().tile.floats(column_block * tile);
    std::vector<const float*> rows(stored() ? 0 : n_rows);
    for (std::size_t begin = 0; begin < d_; begin += column_block) {
        poll();
        const std::size_t width = std::min(column_block, d_ - begin);
        if (!stored()) generate(kernels, row, row_end, begin, begin + width, rows.data());
        for (std::size_t t = 0; t < n_tiles; ++t) {
            const std::size_t items = std::min(tile, n - t * tile);
            kernels.interleave(x + t * tile * d_ + begin, d_, items, width, nullptr, block);
            float* sum = sums + t * n_rows * tile;
            if (stored())
                kernels.multiply_panel(weights_.data() + place(row, begin), stride(row), n_rows, block, width, sum,
                                       tile, begin > 0);
            else
                kernels.multiply_tile(rows.data(), n_rows, block, width, sum, tile, begin > 0, {});
        }
    }
    for (std::size_t t = 0; t < n_tiles; ++t)
        bits_.finish_tile(kernels, sums + t * n_rows * tile, row, row_end, std::min(tile, n - t * tile),
                          planes + t * tile / 8 * bits_.plane_stride(), output, item + t * tile);
}

// The last items, by which no tile is worth filling. Weights are made only once, for all items or for few.
std::size_t DensePlan::few_of(std::size_t items, std::size_t tile) const {
    if (!stored()) return 2 * items < tile ? items : 0;
    return 4 * (items % tile) < 3 * tile ? items % tile : 0;
}

void DensePlan::run(const float* x, std::size_t n, Output output, int n_jobs) const {
    const EncodeKernels& kernels = bilsh::kernels().encode;
    const std::size_t group = stored() ? stored_group : streamed_group;
    const double weights = static_cast<double>(used_.size() * d_);
    n_jobs = threads_for(weights * (0.03 * static_cast<double>(n) + (stored() ? 0.0 : 0.5)), n_jobs);
    // Enough row groups to keep every thread busy to the end; none reaches beyond a panel.
    const std::size_t share = (used_.size() + 4 * n_jobs - 1) / (4 * n_jobs);
    std::size_t n_rows = rows_at_once_;
    while (n_jobs > 1 && n_rows > std::max(share, fewest_rows)) n_rows /= 2;
    const std::size_t row_groups = (used_.size() + n_rows - 1) / n_rows;
    for (std::size_t item = 0; item < n; item += group) {
        const std::size_t items = std::min(group, n - item), few = few_of(items, kernels.tile_items);
        const std::size_t tile = kernels.tile_items, tiled = items - few, n_tiles = (tiled + tile - 1) / tile;
        uint8_t* planes = workspace().planes.bytes(n_tiles * tile / 8 * bits_.plane_stride());
        float* values = workspace().values.floats(few * used_.size());
        parallel_for(row_groups, n_jobs, [&](std::size_t g, int) {
            const std::size_t row = g * n_rows, row_end = std::min(row + n_rows, used_.size());
            if (tiled > 0) project_tiles(kernels, x + item * d_, tiled, row, row_end, planes, output, item);
            if (few > 0) project_few(kernels, x + (item + tiled) * d_, few, row, row_end, values);
        });
        parallel_for(n_tiles + few, n_jobs, [&](std::size_t t, int) {
            if (t < n_tiles)
                bits_.pack_tile(kernels, planes + t * tile / 8 * bits_.plane_stride(), std::min(tile, tiled - t * tile),
                                output, item + t * tile);
            else
                bits_.finish_item(kernels, values + (t - n_tiles) * used_.size(), bits_.value(), 1.0f, output,
                                  item + tiled + t - n_tiles);
        });
    }
}

void dense_weights(uint64_t seed, Variate kind, const float* row_scale, std::size_t d, std::size_t row_begin,
                   std::size_t row_end, float* out) {
    const EncodeKernels& kernels = bilsh::kernels().encode;
    const std::size_t padded = (d + 63) / 64 * 64;
    float* row = workspace().weights.floats(padded);
    for (std::size_t r = row_begin; r < row_end; ++r, out += d) {
        poll();
        kernels.generate(seed, kind, row_scale, r, r + 1, 0, d, row, padded);
        std::copy_n(row, d, out);
    }
}

}  // namespace bilsh
