// Transform codes: the nearest centre of an item, its coordinates in a frame of that centre, each quantised by as many
// bits as it deserves, and two numbers that say what the bits leave out.
//
// A code, byte by byte:
//   0      the centre
//   1      t: the scale scales[t]; scales[0] is 0
//   2      add: |r|^2 + share * |x - x_hat|^2 / scale^2 is about add_least + add_step * add; where the added number
//          is absolute, scale^2 times that is
//   3      e: the error |x - x_hat| is at most errors[e]; the last value stands for all that is larger
//   4 ..   bits in the order of their worth, the j-th in bit j % 8 of byte 4 + j / 8
// A coordinate is divided by the length |x - centre| of its item, v = (1 / length) * coordinate. Where all bits of a v
// of step s and depth b are there, u = clip(floor(v / s) + 2^(b - 1), 0, 2^b - 1), the highest bit first, and r = s (u
// + 1/2 - 2^(b - 1)). Where some are not, r is the middle of what is left open. The code stands for x_hat = centre +
// scale * r, with the scale that errs least. Other lengths than its own are tried for an item, scales next to
// length / stretch for each of some stretches; the r is kept by which estimates vary least. The squared distance of a
// query with coordinates q from an item is estimated by |q - centre|^2 + scale (scale * (add_least + add_step * add) -
// 2 <q, r>), or by |q - centre|^2 - 2 scale <q, r> + add_least + add_step * add.
//
// Every number comes from chains of operations in a fixed order, so codes do not depend on machine, batch or threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "encode.h"
#include "hamming.h"

namespace bilsh {

inline constexpr std::size_t header_bytes = 4;
inline constexpr std::size_t error_levels = 256;
inline constexpr std::size_t scale_levels = 256;
inline constexpr std::size_t most_centres = 256;

struct TransformParts {
    std::size_t n_centres, d, bits;   // bits of a whole code
    std::size_t bytes;                // of a code that is kept: header and a prefix of the bits
    const Plan* nearest;              // <x, centre> - |centre|^2 / 2, for every centre
    std::vector<const Plan*> frames;  // coordinates of x - centre
    const float* centres;             // (n_centres, d)
    const std::int32_t* coordinate;   // (n_centres, bits): which coordinate a bit tells of; -1: none, the bit is 0
    const float* steps;               // of all coordinates, centre by centre
    const std::int32_t* depths;       // bits of each of them
    const float* scales;              // (scale_levels,), ascending from 0
    const float* errors;              // (error_levels - 1,), ascending
    std::vector<float> stretches;     // of items, tried beside none
    std::vector<float> origin;        // where items and queries are counted from, centres too; empty for 0
    float add_least, add_step, share;
    bool absolute;  // the added number is that of the item, else of an item of scale 1
};

// What a batch of queries is compared by: far + scale * (bias + the weights of the set bits + scale * add).
struct QueryWeights {
    std::size_t n, n_centres, stride;       // floats from one centre's weights to the next
    std::vector<float> weights, bias, far;  // (n, n_centres, stride), (n, n_centres), (n, n_centres)

    const float* at(std::size_t query, std::size_t centre) const {
        return weights.data() + (query * n_centres + centre) * stride;
    }
};

// Rows in cells, [offsets[c], offsets[c + 1]) of each. A query reads the nearest, until they hold more than `budget`
// living rows before the last.
struct PlaceCells {
    const float* closeness;  // (queries, cells), largest for the nearest
    const std::int64_t* offsets;
    const std::int64_t* living;  // rows of each cell
    std::size_t n;
    std::int64_t budget;
};

class TransformPlan {
public:
    explicit TransformPlan(const TransformParts& parts);

    std::size_t dimension() const { return d_; }
    std::size_t bytes() const { return bytes_; }
    std::size_t bits() const { return 8 * (bytes_ - header_bytes); }
    std::size_t n_centres() const { return frames_.size(); }
    float scale(std::uint8_t level) const { return scales_[level]; }
    float add(std::uint8_t level) const { return add_least_ + add_step_ * static_cast<float>(level); }
    bool absolute() const { return absolute_; }
    // scale[i], and what is added to the item's estimates, of n headers; true if all name the same centre.
    bool read_headers(const std::uint8_t* rows, std::size_t stride, std::size_t n, float* scale, float* add) const;

    void encode(const float* x, std::size_t n, std::uint8_t* codes, std::atomic<bool>* nonfinite, int n_jobs) const;
    QueryWeights weights(const float* q, std::size_t n, std::atomic<bool>* nonfinite, int n_jobs) const;
    // Room for weights that are made centre by centre, and those of some of the queries for one centre.
    QueryWeights no_weights(std::size_t n) const;
    void weigh(const float* q, std::size_t centre, const std::vector<std::size_t>& queries, QueryWeights& made,
               std::atomic<bool>* nonfinite, int n_jobs) const;

    // Smallest estimates of each query first, ties by id; k is at most the number of living rows. True, whatever the
    // batch, the threads and the instruction set.
    void top_k(const float* q, std::size_t n, const CodeSet& set, std::size_t k, std::int64_t* ids, float* estimates,
               std::atomic<bool>* nonfinite, int n_jobs) const;
    // The same among the cells near each query, how many cells these are, and how many rows all queries read. Where
    // fewer than k live in them, ids are -1 and estimates infinite.
    std::size_t visit(const float* q, std::size_t n, const CodeSet& set, const PlaceCells& cells, std::size_t k,
                      std::int64_t* ids, float* estimates, std::int32_t* visited, std::atomic<bool>* nonfinite,
                      int n_jobs) const;
    // Estimates of given rows (n, per_query).
    void rows(const float* q, std::size_t n, const CodeSet& set, const std::int64_t* rows, std::size_t per_query,
              float* estimates, std::atomic<bool>* nonfinite, int n_jobs) const;

private:
    struct Bit {
        std::int32_t coordinate;
        std::int32_t shift;
    };
    void encode_item(const float* item, std::uint8_t* code, std::atomic<bool>* nonfinite, int n_jobs) const;
    void encode_block(const float* rows, std::size_t n, std::uint8_t* codes, std::atomic<bool>* nonfinite,
                      int n_jobs) const;
    void quantize(const float* x, const float* values, std::size_t centre, std::uint8_t* code) const;
    std::size_t nearest_scale(double wanted) const;
    // Rows less the origin, in `room`, or where they are.
    const float* from_origin(const float* x, std::size_t n, std::vector<float>& room) const;
    std::size_t queries_per_batch() const;

    std::size_t d_, whole_bits_, bytes_;
    const Plan* nearest_;
    std::vector<const Plan*> frames_;
    std::vector<float> centres_, steps_, halves_, scales_, stretches_, errors_;
    std::vector<float> origin_;       // empty where it is 0
    std::vector<double> norms_;       // of the centres
    std::vector<std::size_t> first_;  // coordinate of each centre among all
    std::vector<std::int32_t> depths_;
    std::vector<Bit> bit_;  // (n_centres, whole_bits)
    // Where the bytes of cells lie that these are bits of, which bits, and how many bytes there are for each centre.
    std::vector<std::uint32_t> byte_;
    std::vector<std::uint8_t> mask_;
    std::vector<std::size_t> cell_bytes_;
    float add_least_, add_step_, share_;
    bool absolute_;
};

}  // namespace bilsh
