#include "transform.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels.h"
#include "threads.h"
#include "transform_kernels.h"

namespace bilsh {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 24;  // of items that are sorted by their centres together
constexpr std::size_t most_rows = 4096;
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
      errors_(parts.errors, parts.errors + error_levels - 1),
      bit_(parts.n_centres * parts.bits),
      add_least_(parts.add_least),
      add_step_(parts.add_step),
      share_(parts.share) {
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
            bit_[c * whole_bits_ + r] = {i, i < 0 ? 0 : --left[static_cast<std::size_t>(i)]};
        }
    }
}

void TransformPlan::quantize(const float* x, const float* values, std::size_t centre, std::uint8_t* code) const {
    const std::size_t m = frames_[centre]->bits().size();
    thread_local std::vector<std::uint32_t> place;
    place.resize(m + 1);
    const TransformKernels& kernels = bilsh::kernels().transforms;
    const double from_centre = kernels.squared_distance(x, centres_.data() + centre * d_, d_);
    const double length = std::sqrt(from_centre);
    const float shrink = length > 0.0 && 1.0 / length < 1e37 ? static_cast<float>(1.0 / length) : 0.0f;
    const Products found = kernels.quantize(values, m, shrink, steps_.data() + first_[centre],
                                            halves_.data() + first_[centre], place.data());
    const double wanted = found.squares > 0.0 ? found.product / found.squares : 0.0;
    auto above = std::lower_bound(scales_.begin(), scales_.end() - 1, wanted,
                                  [](float scale, double value) { return double{scale} < value; });
    if (above != scales_.begin() && wanted - double{*(above - 1)} < double{*above} - wanted) --above;
    const double scale = double{*above};
    const double inside = found.inside - 2.0 * scale * found.product + scale * scale * found.squares;
    const double error = std::max(inside, 0.0) + std::max(from_centre - found.inside, 0.0);
    // |x| is at most |centre| + |x - centre|.
    const double bound = std::sqrt(error) + slack * (norms_[centre] + 2.0 * length);
    const auto level = std::lower_bound(errors_.begin(), errors_.end(), bound,
                                        [](float at_most, double value) { return double{at_most} < value; });
    const double rest = scale > 0.0 ? double{share_} * error / (scale * scale) : 0.0;
    const double add = (found.squares + rest - double{add_least_}) / double{add_step_};
    code[0] = static_cast<std::uint8_t>(centre);
    code[1] = static_cast<std::uint8_t>(above - scales_.begin());
    code[2] = static_cast<std::uint8_t>(std::lrint(std::clamp(std::isfinite(add) ? add : 255.0, 0.0, 255.0)));
    code[3] = static_cast<std::uint8_t>(level - errors_.begin());
    const Bit* bit = bit_.data() + centre * whole_bits_;
    place[m] = 0;
    for (std::size_t byte = header_bytes; byte < bytes_; ++byte, bit += 8) {
        unsigned packed = 0;
        for (unsigned b = 0; b < 8; ++b)
            packed |=
                (place[bit[b].coordinate < 0 ? m : static_cast<std::size_t>(bit[b].coordinate)] >> bit[b].shift & 1u)
                << b;
        code[byte] = static_cast<std::uint8_t>(packed);
    }
}

void TransformPlan::encode_block(const float* x, std::size_t n, std::uint8_t* codes, std::atomic<bool>* nonfinite,
                                 int n_jobs) const {
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
    const std::size_t rows = std::clamp<std::size_t>(block_bytes / (d_ * sizeof(float)), 64, most_rows);
    for (std::size_t start = 0; start < n; start += rows)
        encode_block(x + start * d_, std::min(rows, n - start), codes + start * bytes_, nonfinite, n_jobs);
}

QueryWeights TransformPlan::weights(const float* q, std::size_t n, std::atomic<bool>* nonfinite, int n_jobs) const {
    const std::size_t n_centres = frames_.size(), n_bits = bits();
    QueryWeights made{n, n_centres, (n_bits + weight_padding - 1) / weight_padding * weight_padding, {}, {}, {}};
    made.weights.assign(n * n_centres * made.stride, 0.0f);
    made.bias.resize(n * n_centres);
    made.far.resize(n * n_centres);
    const bool by_centre = n_jobs > 1 && n_centres >= 2 * static_cast<std::size_t>(n_jobs);
    parallel_for(n_centres, by_centre ? n_jobs : 1, [&](std::size_t c, int) {
        const std::size_t m = frames_[c]->bits().size();
        std::vector<float> values(n * m);
        Output output;
        output.values = values.data();
        output.nonfinite = nonfinite;
        frames_[c]->run(q, n, output, by_centre ? 1 : n_jobs);
        const float* centre = centres_.data() + c * d_;
        const Bit* bit = bit_.data() + c * whole_bits_;
        for (std::size_t i = 0; i < n; ++i) {
            const float *own = values.data() + i * m, *item = q + i * d_;
            float* weight = made.weights.data() + (i * n_centres + c) * made.stride;
            double bias = 0.0;
            for (std::size_t r = 0; r < n_bits; ++r) {
                if (bit[r].coordinate < 0) continue;
                const std::size_t at = static_cast<std::size_t>(bit[r].coordinate);
                const float half = own[at] * steps_[first_[c] + at] * static_cast<float>(1u << bit[r].shift);
                weight[r] = -2.0f * half;
                bias += double{half};
            }
            made.bias[i * n_centres + c] = static_cast<float>(bias);
            made.far[i * n_centres + c] =
                static_cast<float>(bilsh::kernels().transforms.squared_distance(item, centre, d_));
        }
    });
    return made;
}

std::size_t TransformPlan::queries_per_batch() const {
    const std::size_t bytes = n_centres() * (bits() + weight_padding) * (sizeof(float) + sizeof(std::int16_t));
    return std::clamp<std::size_t>((std::size_t{1} << 26) / bytes, 1, 1024);
}

}  // namespace bilsh
