// The encoders' compiled plans: parameters laid out once, then encode and project calls that share them.
//
// encode: X (n, d) float32 -> packed codes (n, ceil(k / 8)); project: X -> (n, k) values, offset included, made by the
// same chains of multiply-adds. Codes do not depend on the batch, the number of threads or the instruction set.
#pragma once

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "encode_kernels.h"

namespace bilsh {

// Thrown when the projection of an item is useless: it holds NaN or infinity, or numbers so large that the projection
// overflows or, for cosine bits, has lost its phase.
struct NonFinite : std::domain_error {
    using std::domain_error::domain_error;
};

// Where results go: packed codes or float values, row by row.
//
// A NaN or infinity anywhere in an item spreads to every one of its projections, so looking at one of them per item
// finds it at no cost; looking at all of the input would read it a second time.
struct Output {
    uint8_t* codes = nullptr;
    float* values = nullptr;
    std::atomic<bool>* nonfinite = nullptr;

    void look(float value, float limit) const {
        if (!(std::fabs(value) <= limit)) nonfinite->store(true, std::memory_order_relaxed);
    }
};

// Which value each of the k bits uses and how it becomes a bit.
class Bits {
public:
    // value[r] < n_values is the value of bit r. tau: k thresholds in turns, or null for sign bits.
    Bits(std::vector<uint32_t> value, std::size_t n_values, const float* offsets, const float* tau);

    std::size_t size() const { return k_; }
    std::size_t bytes() const { return (k_ + 7) / 8; }
    std::size_t plane_stride() const { return (k_ + 63) / 64 * 64; }
    BitTable table() const;  // bits sorted by value

    void finish_tile(const EncodeKernels& kernels, const float* values, std::size_t begin, std::size_t end,
                     std::size_t n_items, uint8_t* planes, Output output, std::size_t item) const;
    void pack_tile(const EncodeKernels& kernels, const uint8_t* planes, std::size_t n_items, Output output,
                   std::size_t item) const;
    // One item whose values lie in one array; bit r uses values[value[r]] * scale.
    void finish_item(const EncodeKernels& kernels, const float* values, const uint32_t* index, float scale,
                     Output output, std::size_t item) const;

    const uint32_t* value() const { return value_.data(); }

private:
    // Beyond 2^20 turns a float32 tells the phase to no better than an eighth of a turn.
    float limit() const { return tau_.empty() ? std::numeric_limits<float>::max() : 0x1p20f; }

    std::size_t k_;
    std::vector<uint32_t> value_, first_, position_;
    std::vector<float> offset_, tau_, sorted_offset_, sorted_tau_;
};

class Plan {
public:
    virtual ~Plan() = default;
    virtual std::size_t dimension() const = 0;
    const Bits& bits() const { return bits_; }
    virtual void run(const float* x, std::size_t n, Output output, int n_jobs) const = 0;

protected:
    explicit Plan(Bits bits) : bits_(std::move(bits)) {}
    Bits bits_;
};

struct BilinearShape {
    std::size_t left_rows, left_dim, right_rows, right_dim, d;
};

class BilinearPlan final : public Plan {
public:
    // pairs: k x (row of left, row of right). permutation and signs (of +-1) may be null.
    BilinearPlan(const BilinearShape& shape, const float* left, const float* right, const int32_t* pairs, std::size_t k,
                 const float* offsets, const float* tau, const int32_t* permutation, const float* signs,
                 bool left_first);
    BilinearPlan(const BilinearPlan&) = delete;  // holds pointers into itself
    BilinearPlan& operator=(const BilinearPlan&) = delete;
    std::size_t dimension() const override { return d_; }
    void run(const float* x, std::size_t n, Output output, int n_jobs) const override;

private:
    struct Design;  // the rows and distinct pairs in use, and the pair of each bit
    BilinearPlan(const BilinearShape& shape, const float* left, const float* right, Design design, const float* offsets,
                 const float* tau, const int32_t* permutation, const float* signs, bool left_first);
    void fill_tile(const EncodeKernels& kernels, const float* x, std::size_t n_items, float* tile) const;
    void run_rows(const EncodeKernels& kernels, const float* tile, std::size_t row, std::size_t last,
                  std::size_t n_items, uint8_t* planes, Output output, std::size_t item) const;
    void run_tile(const EncodeKernels& kernels, const float* x, std::size_t n_items, Output output,
                  std::size_t item) const;
    void run_shared(const EncodeKernels& kernels, const float* x, std::size_t n, Output output, int n_jobs) const;
    void finish_rows(const EncodeKernels& kernels, const float* projected, std::size_t stride, std::size_t row,
                     std::size_t row_end, std::size_t n_items, uint8_t* planes, Output output, std::size_t item) const;
    void run_few(const EncodeKernels& kernels, const float* x, std::size_t n, Output output, std::size_t item,
                 int n_jobs) const;

    // Stage 1 multiplies an item by `first`, stage 2 by `second`: left and right, or right and left, where the item
    // is the transposed matrix. So one code serves both orders.
    std::size_t d_, first_rows_, first_dim_, second_rows_, second_dim_;
    std::vector<float> first_, second_;
    std::vector<float> second_columns_;               // second, transposed; only for designs that use most pairs
    std::vector<uint32_t> source_;                    // item entry -> input entry and sign; empty when equal
    std::vector<uint32_t> target_;                    // input entry -> entry of a tile, and sign
    std::vector<uint32_t> empty_;                     // entries of a tile that no input reaches
    std::vector<uint32_t> pair_begin_;                // first pair of each row of first
    std::vector<const float*> first_row_, pair_row_;  // rows of first; the row of second of each pair
    std::vector<uint32_t> grid_index_;  // per bit, its place in the grid of all pairs; with second_columns_
};

// Rows of weights, stored or regenerated while encoding.
class DensePlan : public Plan {
public:
    DensePlan(const float* weights, std::size_t d, const int32_t* outputs, std::size_t k, const float* offsets,
              const float* tau);
    DensePlan(uint64_t seed, Variate kind, const float* row_scale, std::size_t rows, std::size_t d,
              const int32_t* outputs, std::size_t k, const float* offsets, const float* tau, std::size_t block_bytes);
    std::size_t dimension() const override { return d_; }
    void run(const float* x, std::size_t n, Output output, int n_jobs) const override;

private:
    DensePlan(std::vector<uint32_t> used, std::size_t d, const int32_t* outputs, std::size_t k, const float* offsets,
              const float* tau);
    bool stored() const { return row_scale_.empty(); }
    std::size_t few_of(std::size_t items, std::size_t tile) const;
    std::size_t stride(std::size_t row) const;
    std::size_t place(std::size_t row, std::size_t column) const;
    void generate(const EncodeKernels& kernels, std::size_t row, std::size_t row_end, std::size_t begin,
                  std::size_t end, const float** rows) const;
    void project_few(const EncodeKernels& kernels, const float* x, std::size_t n, std::size_t row, std::size_t row_end,
                     float* values) const;
    void project_tiles(const EncodeKernels& kernels, const float* x, std::size_t n, std::size_t row,
                       std::size_t row_end, uint8_t* planes, Output output, std::size_t item) const;

    std::size_t d_;
    std::size_t rows_at_once_ = 0;
    std::vector<uint32_t> used_;    // rows that some bit needs
    std::vector<float> weights_;    // of the used rows, in panels; empty when regenerated
    bool finite_ = false;           // all of them
    std::vector<float> row_scale_;  // of all rows; empty when stored
    uint64_t seed_ = 0;
    Variate kind_ = Variate::gaussian;
};

class HadamardPlan final : public Plan {
public:
    HadamardPlan(const float* signs, std::size_t blocks, std::size_t size, const int32_t* outputs, std::size_t k,
                 std::size_t d, float scale, const float* offsets, const float* tau);
    std::size_t dimension() const override { return d_; }
    void run(const float* x, std::size_t n, Output output, int n_jobs) const override;

private:
    std::size_t d_, blocks_, size_;
    float scale_;
    std::vector<float> signs_;
};

void dense_weights(uint64_t seed, Variate kind, const float* row_scale, std::size_t d, std::size_t row_begin,
                   std::size_t row_end, float* out);

// Codes of ready values (offset included).
void quantize(const float* values, std::size_t n, std::size_t k, const float* tau, uint8_t* codes);

}  // namespace bilsh
