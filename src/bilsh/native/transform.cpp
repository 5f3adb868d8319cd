#include "transform.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels.h"
#include "threads.h"
#include "transform_kernels.h"
#include "workspace.h"

namespace bilsh {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 24;  // of items that are sorted by their centres together
constexpr std::size_t most_rows = 4096;
// Weights of an error along the item and of one of the added number beside the squared error: a query sees a few
// hundredths of the latter, and all of these.
constexpr double along = 20.0, added = 75.0;
// Low bytes of all cells, then high ones.
std::size_t cell_stride(std::size_t n) { return (n + cell_padding - 1) / cell_padding * cell_padding; }
constexpr double slack = 1e-5;  // of lengths: more than the rounding of coordinates takes from an error

}  // namespace

TransformPlan::TransformPlan(const TransformParts& parts)
    : d_(parts.d),
      whole_bits_(parts.bits),
      bytes_(parts.bytes),
      nearest_(parts.nearest),
      frames_(parts.frames),
      centres_(parts.centres, parts.centres + parts.n_centres * parts.d),
      scales_(parts.scales, parts.scales + scale_levels),
      stretches_(parts.stretches),
      errors_(parts.errors, parts.errors + error_levels - 1),
      origin_(parts.origin),
      bit_(parts.n_centres * parts.bits),
      byte_(parts.n_centres * parts.bits),
      mask_(parts.n_centres * parts.bits),
      cell_bytes_(parts.n_centres),
      add_least_(parts.add_least),
      add_step_(parts.add_step),
      share_(parts.share),
      absolute_(parts.absolute) {
    for (const Plan* frame : frames_) {
        first_.push_back(steps_.size());
        steps_.resize(steps_.size() + frame->bits().size());
    }
    std::copy_n(parts.steps, steps_.size(), steps_.begin());
    depths_.assign(parts.depths, parts.depths + steps_.size());
    for (const std::int32_t depth : depths_) halves_.push_back(static_cast<float>(1u << (depth - 1)));
    const std::vector<float> zero(d_, 0.0f);
    for (std::size_t c = 0; c < frames_.size(); ++c)
        norms_.push_back(
            std::sqrt(bilsh::kernels().transforms.squared_distance(centres_.data() + c * d_, zero.data(), d_)));
    for (std::size_t c = 0; c < frames_.size(); ++c) {
        std::vector<std::int32_t> left(
            depths_.begin() + static_cast<std::ptrdiff_t>(first_[c]),
            depths_.begin() + static_cast<std::ptrdiff_t>(first_[c] + frames_[c]->bits().size()));
        for (std::size_t r = 0; r < whole_bits_; ++r) {
            const std::int32_t i = parts.coordinate[c * whole_bits_ + r];
            const Bit bit{i, i < 0 ? 0 : --left[static_cast<std::size_t>(i)]};
            bit_[c * whole_bits_ + r] = bit;
            if (i < 0) continue;
            const std::size_t byte = static_cast<std::size_t>(i) + (bit.shift < 8 ? 0 : cell_stride(left.size()));
            byte_[c * whole_bits_ + r] = static_cast<std::uint32_t>(byte);
            mask_[c * whole_bits_ + r] = static_cast<std::uint8_t>(1u << bit.shift % 8);
            cell_bytes_[c] = std::max(cell_bytes_[c], byte + 1);
        }
    }
}

std::size_t TransformPlan::nearest_scale(double wanted) const {
    auto above = std::lower_bound(scales_.begin(), scales_.end() - 1, wanted,
                                  [](float scale, double value) { return double{scale} < value; });
    if (above != scales_.begin() && wanted - double{*(above - 1)} < double{*above} - wanted) --above;
    return static_cast<std::size_t>(above - scales_.begin());
}

void TransformPlan::quantize(const float* x, const float* values, std::size_t centre, std::uint8_t* code) const {
    const std::size_t m = frames_[centre]->bits().size();
    thread_local std::vector<std::uint8_t> cells;
    thread_local std::vector<float> shrinks;
    thread_local std::vector<Products> products;
    const TransformKernels& kernels = bilsh::kernels().transforms;
    const float *steps = steps_.data() + first_[centre], *halves = halves_.data() + first_[centre];
    const double from_centre = kernels.squared_distance(x, centres_.data() + centre * d_, d_);
    const double length = std::sqrt(from_centre);
    const auto shrink_of = [](double divisor) {
        return divisor > 0.0 && 1.0 / divisor < 1e37 ? static_cast<float>(1.0 / divisor) : 0.0f;
    };
    shrinks.assign(1, shrink_of(length));
    // Divided by a scale that can be told, an item asks for about that scale back.
    for (const float stretch : stretches_)
        shrinks.push_back(shrink_of(double{scales_[nearest_scale(length / double{stretch})]}));
    products.resize(shrinks.size());
    kernels.try_shrinks(values, m, shrinks.data(), shrinks.size(), steps, halves, products.data());
    struct {
        double loss, error;
        std::size_t scale;
        std::uint8_t add;
        float shrink;
    } kept{};
    for (std::size_t t = 0; t < shrinks.size(); ++t) {
        const Products& now = products[t];
        const double wanted = now.squares > 0.0 ? now.product / now.squares : 0.0;
        const std::size_t level = nearest_scale(wanted);
        const double scale = double{scales_[level]}, off = scale - wanted;
        const double inside = now.inside - 2.0 * scale * now.product + scale * scale * now.squares;
        const double error = std::max(inside, 0.0) + std::max(from_centre - now.inside, 0.0);
        const double square = scale * scale;
        const double rest = scale > 0.0 ? double{share_} * error / square : 0.0;
        const double number = absolute_ ? square * now.squares + double{share_} * error : now.squares + rest;
        const double steps_up = (number - double{add_least_}) / double{add_step_};
        const double add = std::rint(std::clamp(std::isfinite(steps_up) ? steps_up : 255.0, 0.0, 255.0));
        const double missed = (absolute_ ? 1.0 : square) * double{add_step_} * (add - steps_up);
        const double loss = error + along * off * off * now.squares + added * missed * missed / from_centre;
        if (t == 0 || loss < kept.loss) kept = {loss, error, level, static_cast<std::uint8_t>(add), shrinks[t]};
    }
    cells.resize(2 * cell_stride(m));
    kernels.quantize(values, m, kept.shrink, steps, halves, cells.data(), cells.data() + cell_stride(m));
    // |x| is at most |centre| + |x - centre|.
    const double bound = std::sqrt(kept.error) + slack * (norms_[centre] + 2.0 * length);
    const auto level = std::lower_bound(errors_.begin(), errors_.end(), bound,
                                        [](float at_most, double value) { return double{at_most} < value; });
    code[0] = static_cast<std::uint8_t>(centre);
    code[1] = static_cast<std::uint8_t>(kept.scale);
    code[2] = kept.add;
    code[3] = static_cast<std::uint8_t>(level - errors_.begin());
    kernels.pack(cells.data(), cell_bytes_[centre], byte_.data() + centre * whole_bits_,
                 mask_.data() + centre * whole_bits_, bytes_ - header_bytes, code + header_bytes);
}

const float* TransformPlan::from_origin(const float* x, std::size_t n, std::vector<float>& room) const {
    if (origin_.empty()) return x;
    room.resize(n * d_);
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < d_; ++j) room[i * d_ + j] = x[i * d_ + j] - origin_[j];
    return room.data();
}

// One item needs no sorting by centres.
void TransformPlan::encode_item(const float* item, std::uint8_t* code, std::atomic<bool>* nonfinite, int n_jobs) const {
    thread_local std::vector<float> room;
    const float* x = from_origin(item, 1, room);
    const auto run = [&](const Plan& plan) {
        Output output;
        output.values = workspace().coordinates.floats(plan.bits().size());
        output.nonfinite = nonfinite;
        plan.run(x, 1, output, n_jobs);
        return output.values;
    };
    std::size_t centre = 0;
    if (frames_.size() > 1) {
        const float* closeness = run(*nearest_);
        centre = static_cast<std::size_t>(std::max_element(closeness, closeness + frames_.size()) - closeness);
    }
    quantize(x, run(*frames_[centre]), centre, code);
}

void TransformPlan::encode_block(const float* rows, std::size_t n, std::uint8_t* codes, std::atomic<bool>* nonfinite,
                                 int n_jobs) const {
    std::vector<float> room;
    const float* x = from_origin(rows, n, room);
    const std::size_t n_centres = frames_.size();
    std::vector<std::uint32_t> order(n), end(n_centres + 1, 0);
    if (n_centres == 1) {
        for (std::size_t i = 0; i < n; ++i) order[i] = static_cast<std::uint32_t>(i);
        end[1] = static_cast<std::uint32_t>(n);
    } else {
        std::vector<float> closeness(n * n_centres);
        Output output;
        output.values = closeness.data();
        output.nonfinite = nonfinite;
        nearest_->run(x, n, output, n_jobs);
        std::vector<std::uint32_t> of(n);
        for (std::size_t i = 0; i < n; ++i) {
            const float* row = closeness.data() + i * n_centres;
            of[i] = static_cast<std::uint32_t>(std::max_element(row, row + n_centres) - row);
            ++end[of[i] + 1];
        }
        for (std::size_t c = 0; c < n_centres; ++c) end[c + 1] += end[c];
        std::vector<std::uint32_t> next(end.begin(), end.end() - 1);
        for (std::size_t i = 0; i < n; ++i) order[next[of[i]]++] = static_cast<std::uint32_t>(i);
    }
    const bool by_centre = n_jobs > 1 && n_centres >= 2 * static_cast<std::size_t>(n_jobs);
    parallel_for(n_centres, by_centre ? n_jobs : 1, [&](std::size_t c, int) {
        const std::size_t begin = end[c], some = end[c + 1] - begin, m = frames_[c]->bits().size();
        if (some == 0) return;
        const float* items = x;
        std::vector<float> gathered;
        if (n_centres > 1) {
            gathered.resize(some * d_);
            for (std::size_t i = 0; i < some; ++i) std::copy_n(x + order[begin + i] * d_, d_, gathered.data() + i * d_);
            items = gathered.data();
        }
        std::vector<float> values(some * m);
        Output output;
        output.values = values.data();
        output.nonfinite = nonfinite;
        frames_[c]->run(items, some, output, by_centre ? 1 : n_jobs);
        constexpr std::size_t at_once = 64;
        parallel_for((some + at_once - 1) / at_once, by_centre ? 1 : n_jobs, [&](std::size_t part, int) {
            for (std::size_t i = part * at_once; i < std::min(some, (part + 1) * at_once); ++i)
                quantize(items + i * d_, values.data() + i * m, c, codes + order[begin + i] * bytes_);
        });
    });
}

void TransformPlan::encode(const float* x, std::size_t n, std::uint8_t* codes, std::atomic<bool>* nonfinite,
                           int n_jobs) const {
    if (n == 1) return encode_item(x, codes, nonfinite, n_jobs);
    const std::size_t rows = std::clamp<std::size_t>(block_bytes / (d_ * sizeof(float)), 64, most_rows);
    for (std::size_t start = 0; start < n; start += rows)
        encode_block(x + start * d_, std::min(rows, n - start), codes + start * bytes_, nonfinite, n_jobs);
}

bool TransformPlan::read_headers(const std::uint8_t* rows, std::size_t stride, std::size_t n, float* scale,
                                 float* add) const {
    return kernels().transforms.read_headers(rows, stride, n, scales_.data(), add_least_, add_step_, absolute_, scale,
                                             add);
}

QueryWeights TransformPlan::no_weights(std::size_t n) const {
    const std::size_t n_centres = frames_.size();
    QueryWeights made{n, n_centres, (bits() + weight_padding - 1) / weight_padding * weight_padding, {}, {}, {}};
    made.weights.assign(n * n_centres * made.stride, 0.0f);
    made.bias.resize(n * n_centres);
    made.far.resize(n * n_centres);
    return made;
}

QueryWeights TransformPlan::weights(const float* q, std::size_t n, std::atomic<bool>* nonfinite, int n_jobs) const {
    const std::size_t n_centres = frames_.size();
    QueryWeights made = no_weights(n);
    std::vector<std::size_t> all(n);
    for (std::size_t i = 0; i < n; ++i) all[i] = i;
    const bool by_centre = n_jobs > 1 && n_centres >= 2 * static_cast<std::size_t>(n_jobs);
    parallel_for(n_centres, by_centre ? n_jobs : 1,
                 [&](std::size_t c, int) { weigh(q, c, all, made, nonfinite, by_centre ? 1 : n_jobs); });
    return made;
}

void TransformPlan::weigh(const float* q, std::size_t c, const std::vector<std::size_t>& queries, QueryWeights& made,
                          std::atomic<bool>* nonfinite, int n_jobs) const {
    const std::size_t n = queries.size(), m = frames_[c]->bits().size(), n_bits = bits();
    const float* items = q;
    std::vector<float> gathered, room, values(n * m);
    if (n < made.n) {
        gathered.resize(n * d_);
        for (std::size_t i = 0; i < n; ++i) std::copy_n(q + queries[i] * d_, d_, gathered.data() + i * d_);
        items = gathered.data();
    }
    items = from_origin(items, n, room);
    Output output;
    output.values = values.data();
    output.nonfinite = nonfinite;
    frames_[c]->run(items, n, output, n_jobs);
    const float* centre = centres_.data() + c * d_;
    const Bit* bit = bit_.data() + c * whole_bits_;
    for (std::size_t i = 0; i < n; ++i) {
        const float* own = values.data() + i * m;
        const std::size_t at = queries[i] * made.n_centres + c;
        float* weight = made.weights.data() + at * made.stride;
        double bias = 0.0;
        for (std::size_t r = 0; r < n_bits; ++r) {
            if (bit[r].coordinate < 0) continue;
            const std::size_t j = static_cast<std::size_t>(bit[r].coordinate);
            const float half = own[j] * steps_[first_[c] + j] * static_cast<float>(1u << bit[r].shift);
            weight[r] = -2.0f * half;
            bias += double{half};
        }
        made.bias[at] = static_cast<float>(bias);
        made.far[at] = static_cast<float>(bilsh::kernels().transforms.squared_distance(items + i * d_, centre, d_));
    }
}

}  // namespace bilsh
