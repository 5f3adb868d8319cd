// Bilinear projections: z = w_i^T M v_j for selected pairs (i, j), in two stages, quantised as they are made.
#include <algorithm>
#include <numeric>

#include "blocks.h"
#include "encode.h"
#include "kernels.h"
#include "threads.h"
#include "workspace.h"

namespace bilsh {
namespace {

constexpr uint32_t sign_bit = 0x80000000u;
constexpr std::size_t projected_bytes = std::size_t{3} << 18;  // of stage 1's result for a block of rows: stays in L2
constexpr std::size_t cached_bytes = std::size_t{3} << 19;     // of the items that pass stage 1 together
constexpr std::size_t tile_bytes = std::size_t{3} << 20;       // of items side by side, beyond which they leave L2
constexpr std::size_t near_bytes = std::size_t{1} << 18;       // that stay in L2 beside them, and need not be asked for
constexpr std::size_t first_cache = std::size_t{1} << 15;      // bytes
constexpr std::size_t entries_at_once = 1024;                  // of every item of a tile
constexpr std::size_t pairs_at_once = 48;
constexpr double nanoseconds_per_product = 0.03;
constexpr std::size_t shared_bytes = std::size_t{1} << 24;  // of tiles that all threads work on

std::size_t round_up(std::size_t n, std::size_t step) { return (n + step - 1) / step * step; }

}  // namespace

struct BilinearPlan::Design {
    std::vector<uint32_t> first, second;  // rows that some pair uses, ascending
    std::vector<uint64_t> pair;           // (place in first) << 32 | place in second, ascending
    std::vector<uint32_t> value;          // per bit, its pair

    Design(const int32_t* pairs, std::size_t k, bool left_first) : first(k), second(k), pair(k), value(k) {
        for (std::size_t r = 0; r < k; ++r) {
            first[r] = static_cast<uint32_t>(pairs[2 * r + (left_first ? 0 : 1)]);
            second[r] = static_cast<uint32_t>(pairs[2 * r + (left_first ? 1 : 0)]);
        }
        const std::vector<uint32_t> first_place = number(first), second_place = number(second);
        for (std::size_t r = 0; r < k; ++r) pair[r] = static_cast<uint64_t>(first_place[r]) << 32 | second_place[r];
        value = number(pair);
    }

    // Leaves the distinct entries, ascending, and returns the place of each former entry among them.
    template <class T>
    static std::vector<uint32_t> number(std::vector<T>& entries) {
        const std::vector<T> all = entries;
        std::sort(entries.begin(), entries.end());
        entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
        std::vector<uint32_t> place;
        place.reserve(all.size());
        for (const T& entry : all)
            place.push_back(
                static_cast<uint32_t>(std::lower_bound(entries.begin(), entries.end(), entry) - entries.begin()));
        return place;
    }
};

BilinearPlan::BilinearPlan(const BilinearShape& shape, const float* left, const float* right, const int32_t* pairs,
                           std::size_t k, const float* offsets, const float* tau, const int32_t* permutation,
                           const float* signs, bool left_first)
    : BilinearPlan(shape, left, right, Design(pairs, k, left_first), offsets, tau, permutation, signs, left_first) {}

BilinearPlan::BilinearPlan(const BilinearShape& shape, const float* left, const float* right, Design design,
                           const float* offsets, const float* tau, const int32_t* permutation, const float* signs,
                           bool left_first)
    : Plan(Bits(design.value, design.pair.size(), offsets, tau)),
      d_(shape.d),
      first_rows_(design.first.size()),
      first_dim_(left_first ? shape.left_dim : shape.right_dim),
      second_rows_(design.second.size()),
      second_dim_(left_first ? shape.right_dim : shape.left_dim) {
    const float* first = left_first ? left : right;
    const float* second = left_first ? right : left;
    first_.resize(first_rows_ * first_dim_);
    for (std::size_t i = 0; i < first_rows_; ++i)
        std::copy_n(first + design.first[i] * first_dim_, first_dim_, first_.data() + i * first_dim_);
    const std::size_t second_stride = round_up(second_dim_, row_padding);
    second_.assign(second_rows_ * second_stride, 0.0f);
    for (std::size_t j = 0; j < second_rows_; ++j)
        std::copy_n(second + design.second[j] * second_dim_, second_dim_, second_.data() + j * second_stride);

    const std::size_t size = first_dim_ * second_dim_;
    source_.resize(size);
    target_.resize(d_);
    for (std::size_t p = 0; p < first_dim_; ++p)
        for (std::size_t q = 0; q < second_dim_; ++q) {
            const std::size_t entry = left_first ? p * second_dim_ + q : q * first_dim_ + p;  // of M, row-major
            const uint32_t from = static_cast<uint32_t>(permutation ? permutation[entry] : entry);
            const uint32_t sign = signs && signs[entry] < 0 ? sign_bit : 0;
            const uint32_t in_tile = static_cast<uint32_t>(q * first_dim_ + p);
            source_[p * second_dim_ + q] = from | sign;
            if (from < d_)
                target_[from] = in_tile | sign;
            else
                empty_.push_back(in_tile);
        }
    if (left_first && !permutation && !signs && d_ == size) source_.clear();

    pair_begin_.assign(first_rows_ + 1, 0);
    pair_row_.reserve(design.pair.size());
    for (uint64_t pair : design.pair) {
        ++pair_begin_[(pair >> 32) + 1];
        pair_row_.push_back(second_.data() + (pair & 0xffffffffu) * second_stride);
    }
    std::partial_sum(pair_begin_.begin(), pair_begin_.end(), pair_begin_.begin());
    for (std::size_t i = 0; i < first_rows_; ++i) first_row_.push_back(first_.data() + i * first_dim_);

    // Computing all pairs in vectors along j wastes nothing on a grid; selected pairs must be much fewer to do better.
    if (4 * design.pair.size() >= first_rows_ * second_rows_) {
        const std::size_t stride = round_up(second_rows_, 64);
        second_columns_.assign(second_dim_ * stride, 0.0f);
        for (std::size_t j = 0; j < second_rows_; ++j)
            for (std::size_t q = 0; q < second_dim_; ++q)
                second_columns_[q * stride + j] = second_[j * second_stride + q];
        for (uint32_t u : design.value)
            grid_index_.push_back(
                static_cast<uint32_t>((design.pair[u] >> 32) * stride + (design.pair[u] & 0xffffffffu)));
        grid_index_.resize(bits_.plane_stride(), 0);
    }
}

// Stage 2 for rows [row, row_end) of stage 1, which lie side by side for all items: projected[i - row][q][item].
void BilinearPlan::finish_rows(const EncodeKernels& kernels, const float* projected, std::size_t stride,
                               std::size_t row, std::size_t row_end, std::size_t n_items, uint8_t* planes,
                               Output output, std::size_t item) const {
    const std::size_t lanes = kernels.tile_items;
    const bool far = second_.size() * sizeof(float) > near_bytes;
    float* values = workspace().values.floats(pairs_at_once * lanes);
    for (std::size_t i = row; i < row_end; ++i) {
        for (std::size_t u = pair_begin_[i]; u < pair_begin_[i + 1]; u += pairs_at_once) {
            const std::size_t end = std::min<std::size_t>(u + pairs_at_once, pair_begin_[i + 1]);
            const std::size_t next = far ? std::min(end - u, pair_row_.size() - end) : 0;
            kernels.multiply_tile(pair_row_.data() + u, end - u, projected + (i - row) * stride, second_dim_, values,
                                  lanes, false, {pair_row_.data() + end, next, second_dim_});
            bits_.finish_tile(kernels, values, u, end, n_items, planes, output, item);
        }
    }
}

// Many items, side by side in the lanes. An entry of the tile holds that entry of all its items; stage 1 wants the
// entries of one column q together, so the tile is laid out [q][p][item]. Large items are read as they lie first, some
// entries of each, since memory does not like to be read at many places at once.
void BilinearPlan::fill_tile(const EncodeKernels& kernels, const float* x, std::size_t n_items, float* tile) const {
    const std::size_t lanes = kernels.tile_items;
    const std::size_t step = d_ * sizeof(float) > first_cache ? entries_at_once : d_;
    for (std::size_t e = 0; e < d_; e += step) {
        const std::size_t entries = std::min(step, d_ - e);
        for (std::size_t t = 0; step < d_ && t < n_items; ++t)
            touch(reinterpret_cast<const uint8_t*>(x + t * d_ + e), entries * sizeof(float));
        kernels.interleave(x + e, d_, n_items, entries, target_.data() + e, tile);
    }
    for (uint32_t entry : empty_) std::fill_n(tile + entry * lanes, lanes, 0.0f);
}

// Both stages for rows [row, last) of `first`.
void BilinearPlan::run_rows(const EncodeKernels& kernels, const float* tile, std::size_t row, std::size_t last,
                            std::size_t n_items, uint8_t* planes, Output output, std::size_t item) const {
    const std::size_t lanes = kernels.tile_items;
    const std::size_t stride = second_dim_ * lanes + 16;  // rows a power of two apart would share cache sets
    const std::size_t rows_at_once =
        std::clamp<std::size_t>(projected_bytes / (stride * sizeof(float)) / 12 * 12, 12, round_up(first_rows_, 12));
    const std::size_t column = first_dim_ * lanes;
    const std::size_t next = column * second_dim_ * sizeof(float) > near_bytes ? 1 : 0;
    float* projected = workspace().projected.floats(rows_at_once * stride);
    for (; row < last; row += rows_at_once) {
        poll();
        const std::size_t row_end = std::min(row + rows_at_once, last);
        for (std::size_t q = 0; q < second_dim_; ++q) {
            const float* next_column = tile + (q + 1) % second_dim_ * column;
            kernels.multiply_tile(first_row_.data() + row, row_end - row, tile + q * column, first_dim_,
                                  projected + q * lanes, stride, false, {&next_column, next, column});
        }
        finish_rows(kernels, projected, stride, row, row_end, n_items, planes, output, item);
    }
}

void BilinearPlan::run_tile(const EncodeKernels& kernels, const float* x, std::size_t n_items, Output output,
                            std::size_t item) const {
    const std::size_t lanes = kernels.tile_items;
    float* tile = workspace().tile.floats(first_dim_ * second_dim_ * lanes);
    uint8_t* planes = workspace().planes.bytes(lanes / 8 * bits_.plane_stride());
    fill_tile(kernels, x, n_items, tile);
    run_rows(kernels, tile, 0, first_rows_, n_items, planes, output, item);
    bits_.pack_tile(kernels, planes, n_items, output, item);
}

// Fewer tiles than would keep all threads busy to the end: their rows are shared out too.
void BilinearPlan::run_shared(const EncodeKernels& kernels, const float* x, std::size_t n, Output output,
                              int n_jobs) const {
    const std::size_t lanes = kernels.tile_items, size = first_dim_ * second_dim_ * lanes;
    const std::size_t tiles = (n + lanes - 1) / lanes, plane_bytes = lanes / 8 * bits_.plane_stride();
    const std::size_t shares = (4 * static_cast<std::size_t>(n_jobs) + tiles - 1) / tiles;
    const std::size_t rows = round_up((first_rows_ + shares - 1) / shares, 12);
    const std::size_t parts = (first_rows_ + rows - 1) / rows;
    float* all = workspace().shared_tiles.floats(tiles * size);
    uint8_t* planes = workspace().shared_planes.bytes(tiles * plane_bytes);
    const auto items = [&](std::size_t tile) { return std::min(lanes, n - tile * lanes); };
    parallel_for(tiles, n_jobs,
                 [&](std::size_t t, int) { fill_tile(kernels, x + t * lanes * d_, items(t), all + t * size); });
    parallel_for(tiles * parts, n_jobs, [&](std::size_t task, int) {
        const std::size_t t = task / parts, row = task % parts * rows;
        run_rows(kernels, all + t * size, row, std::min(row + rows, first_rows_), items(t), planes + t * plane_bytes,
                 output, t * lanes);
    });
    parallel_for(tiles, n_jobs, [&](std::size_t t, int) {
        bits_.pack_tile(kernels, planes + t * plane_bytes, items(t), output, t * lanes);
    });
}

// Few items: lanes along the columns of the item in stage 1, along the rows of `second` in stage 2.
void BilinearPlan::run_few(const EncodeKernels& kernels, const float* x, std::size_t n, Output output, std::size_t item,
                           int n_jobs) const {
    const std::size_t size = first_dim_ * second_dim_;
    const bool grid = !second_columns_.empty();
    const float* matrices = x;
    if (!source_.empty()) {
        float* arranged = workspace().matrices.floats(n * size);
        parallel_for(n, n_jobs, [&](std::size_t t, int) {
            kernels.rearrange(x + t * d_, d_, source_.data(), size, arranged + t * size);
        });
        matrices = arranged;
    }
    const std::size_t grid_stride = round_up(second_rows_, 64);
    const std::size_t n_values = grid ? first_rows_ * grid_stride : pair_row_.size();
    float* values = workspace().values.floats(n * n_values);
    const std::size_t stride = round_up(second_dim_, row_padding) + 16;
    // Blocks of rows that stay in the cache and, with several threads, are small enough to be shared out evenly.
    const std::size_t share = n_jobs > 1 ? (first_rows_ + 4 * n_jobs - 1) / (4 * n_jobs) : first_rows_;
    const std::size_t rows_at_once =
        std::clamp<std::size_t>(projected_bytes / (n * stride * sizeof(float)), 12, std::max<std::size_t>(share, 12));
    parallel_for((first_rows_ + rows_at_once - 1) / rows_at_once, n_jobs, [&](std::size_t block, int) {
        const std::size_t row = block * rows_at_once, row_end = std::min(row + rows_at_once, first_rows_);
        const std::size_t rows = row_end - row;
        float* projected = workspace().projected.floats(n * rows * stride);
        for (std::size_t t = 0; t < n; ++t) {
            // Its columns are read a few at a time, which memory does not like.
            if (size * sizeof(float) > first_cache)
                touch(reinterpret_cast<const uint8_t*>(matrices + t * size), size * sizeof(float));
            kernels.multiply(first_row_.data() + row, rows, matrices + t * size, second_dim_, second_dim_, first_dim_,
                             projected + t * rows * stride, stride);
        }
        if (grid) {
            std::vector<const float*> pointers(rows);
            for (std::size_t t = 0; t < n; ++t) {
                for (std::size_t i = 0; i < rows; ++i) pointers[i] = projected + (t * rows + i) * stride;
                kernels.multiply(pointers.data(), rows, second_columns_.data(), grid_stride, second_rows_, second_dim_,
                                 values + t * n_values + row * grid_stride, grid_stride);
            }
        } else {
            std::vector<const float*> pointers(n);
            for (std::size_t i = row; i < row_end; ++i) {
                for (std::size_t t = 0; t < n; ++t) pointers[t] = projected + (t * rows + (i - row)) * stride;
                const std::size_t u = pair_begin_[i];
                kernels.dots(pair_row_.data() + u, pair_begin_[i + 1] - u, pointers.data(), n, second_dim_, values + u,
                             n_values, false);
            }
        }
    });
    const uint32_t* index = grid ? grid_index_.data() : bits_.value();
    parallel_for(n, n_jobs, [&](std::size_t t, int) {
        bits_.finish_item(kernels, values + t * n_values, index, 1.0f, output, item + t);
    });
}

void BilinearPlan::run(const float* x, std::size_t n, Output output, int n_jobs) const {
    const EncodeKernels& kernels = bilsh::kernels().encode;
    const std::size_t lanes = kernels.tile_items;
    const double products = static_cast<double>(n * (first_rows_ * first_dim_ + pair_row_.size()) * second_dim_);
    n_jobs = threads_for(products * nanoseconds_per_product, n_jobs);
    // A tile costs the same however few items it holds. Long chains make the path of few items nearly as fast per item.
    const std::size_t rest = n % lanes, worth_a_tile = second_dim_ < 64 ? lanes / 2 : lanes * 3 / 4;
    // To lay items side by side must be worth it: not for few rows of `first`, nor where a tile leaves the cache.
    const std::size_t item_bytes = first_dim_ * second_dim_ * sizeof(float);
    const std::size_t rows_worth_it = lanes * item_bytes > tile_bytes ? first_dim_ : first_dim_ / 2;
    const bool as_they_lie = source_.empty() && first_rows_ <= rows_worth_it;
    const std::size_t tiles = as_they_lie ? 0 : n / lanes + (rest >= worth_a_tile ? 1 : 0);
    const bool coarse = n_jobs > 1 && tiles > 0 && tiles < 4 * static_cast<std::size_t>(n_jobs);
    if (coarse && tiles * lanes * item_bytes <= shared_bytes)
        run_shared(kernels, x, std::min(tiles * lanes, n), output, n_jobs);
    else
        parallel_for(tiles, n_jobs, [&](std::size_t t, int) {
            run_tile(kernels, x + t * lanes * d_, std::min(lanes, n - t * lanes), output, t * lanes);
        });
    // Few items share the blocks of rows, but only as many as stay in the cache meanwhile. With many groups of them
    // each thread takes whole groups, else all share one.
    const std::size_t first = std::min(tiles * lanes, n);
    const std::size_t together = std::clamp<std::size_t>(cached_bytes / item_bytes, 1, lanes);
    const std::size_t groups = (n - first + together - 1) / together;
    const bool whole_groups = groups >= 4 * static_cast<std::size_t>(n_jobs);
    parallel_for(groups, whole_groups ? n_jobs : 1, [&](std::size_t group, int) {
        const std::size_t item = first + group * together;
        run_few(kernels, x + item * d_, std::min(together, n - item), output, item, whole_groups ? 1 : n_jobs);
    });
}

}  // namespace bilsh
