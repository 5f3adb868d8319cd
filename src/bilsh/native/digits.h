// A first look at the scores of one query: small integers whose distance from the scores is known.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "score_tables.h"

namespace bilsh {

// With step s, every score lies within `error` of  constant + s * (sum of factor * digits of its half bytes).
//
// An entry t of a half byte's table is replaced by  least + f s * round((t - least) / (f s)),  the rounded number from
// 0 to as many as the digits can tell, and is off by f s / 2 at most. Where a table has a factor f of its own, its
// error is in proportion to its own width, not to that of the widest of all. To the sum of these comes the rounding of
// the float32 score itself, which adds up to 128 entries, then the partial sums, then the bias: gamma_m * (|bias| + sum
// |entries|) with gamma_m = m u / (1 - m u), u = 2^-24 (Higham, Accuracy and Stability of Numerical Algorithms,
// section 4.2). So a score whose sum of digits is more than `margin` = 2 error / s below that of another is the smaller
// one.
class Digits {
public:
    // `share` of the rows are wanted: it tells whether a single digit leaves few enough to be scored.
    void build(const ScoreKernels& kernels, const Tables& tables, const std::vector<Slab>& slabs, double share) {
        const DigitLayout& layout = layout_ = kernels.layout;
        margin_ = 0;
        constant_ = 0.0;
        float widest = 0.0f;
        double total = 0.0;
        double size = std::fabs(double{tables.bias()}), variance = 0.0;
        std::size_t n_bytes = 0;
        for (const Slab& slab : slabs) n_bytes += slab.bytes;
        for (std::size_t half = 0; half < 2 * n_bytes; ++half) {
            const float* entry = tables.at(0) + 16 * half;
            const float low = least(entry), high = entry[15 ^ least_at(entry)];
            widest = std::max(widest, high - low);
            total += double{high - low};
            constant_ += double{low};
            size += double{std::max(-low, high)};
            for (unsigned b = 0; b < 4; ++b) variance += 0.25 * double{entry[1u << b]} * double{entry[1u << b]};
        }
        const double halves = 2.0 * static_cast<double>(n_bytes);
        const int one = (1 << layout.bits) - 1;
        // In the spread that scores of random codes have.
        const double width = total / one / std::sqrt(variance);
        n_ = layout.has_factors && upper_tail(upper_point(share) - width) < few ? 1 : 2;
        const double room = largest_sum / halves;
        const int most = n_ == 1 ? one : static_cast<int>(std::min<double>((1 << 2 * layout.bits) - 1, room));
        const int most_factor = n_ == 1 ? static_cast<int>(std::min(127.0, room / one)) : 1;
        if (most < one || most_factor < 1) return;
        const double step = double{widest} / most / most_factor;
        const float scale = static_cast<float>(1.0 / step);
        if (!std::isfinite(size) || !std::isfinite(scale) || !(scale > 0.0f)) return;
        const double factors = static_cast<double>(fill(kernels, tables, slabs, step, most, most_factor));
        // Half a step, and what the roundings of a digit add to it: four times 2^-24 of the steps at most.
        double error = factors * (0.5 + 4.0 * most * 0x1p-24) * step;
        const double additions = 132.0 + static_cast<double>(n_bytes / score_block);
        error += additions * 0x1p-24 / (1.0 - additions * 0x1p-24) * size;
        // The doubles above are rounded too, by far less than a millionth.
        const double margin = std::ceil(2.0 * error / step * (1.0 + 1e-6)) + 1.0;
        if (margin < largest_sum) margin_ = static_cast<std::int32_t>(margin);
        step_ = step;
        error_ = error;
    }

    // Whether there are digits at all: not for weights that are all zero or not finite, nor for very long codes.
    bool useful() const { return margin_ > 0; }
    std::int32_t margin() const { return margin_; }
    // A score without its bias lies within error() of constant() + step() * sum. No sum of digits is negative.
    double constant() const { return constant_; }
    double step() const { return step_; }
    double error() const { return error_; }
    // Of byte j of a slab, a multiple of the layout's unit.
    DigitTables at(std::size_t slab, std::size_t j) const {
        return {start_ + first_[slab] + layout_.place(j, 0, 0, n_), factors_.data() + factor_at(slab, j, 0), n_};
    }
    std::int32_t sum(const std::uint8_t* row, std::size_t n_bytes, std::size_t slab) const {
        std::int32_t total = 0;
        for (int d = 0; d < n_; ++d) {
            std::int32_t digits = 0;
            for (std::size_t j = 0; j < n_bytes; ++j) {
                const std::uint8_t* table = start_ + first_[slab];
                digits += table[layout_.place(j, 0, d, n_) + (row[j] & 15u)] * factors_[factor_at(slab, j, 0)];
                digits += table[layout_.place(j, 1, d, n_) + (row[j] >> 4)] * factors_[factor_at(slab, j, 1)];
            }
            total += digits << layout_.bits * d;
        }
        return total;
    }
    static std::size_t bytes(std::size_t n_bytes) { return n_bytes * 66; }

private:
    static constexpr double largest_sum = std::numeric_limits<std::int32_t>::max() / 4;
    static constexpr double few = 0.03;

    // The normal law beyond x, and where that is p.
    static double upper_tail(double x) { return 0.5 * std::erfc(x / std::sqrt(2.0)); }
    static double upper_point(double p) {
        double x = 0.0;
        for (double step = 4.0; step > 1e-3; step /= 2.0)
            if (upper_tail(x + step) > p) x += step;
        return x;
    }

    // Sums grow with their terms, rounded or not: the least one has just the negative weights.
    static unsigned least_at(const float* entry) {
        unsigned pattern = 0;
        for (unsigned b = 0; b < 4; ++b) pattern |= static_cast<unsigned>(entry[1u << b] < 0.0f) << b;
        return pattern;
    }
    static float least(const float* entry) { return entry[least_at(entry)]; }

    // Every half byte has one; at() begins with those of a unit's low halves, those of its high ones follow.
    std::size_t factor_at(std::size_t slab, std::size_t byte, std::size_t high_half) const {
        const std::size_t unit = layout_.unit;
        return first_[slab] / static_cast<std::size_t>(16 * n_) + byte / unit * 2 * unit + high_half * unit +
               byte % unit;
    }

    // Returns the sum of all factors.
    std::int64_t fill(const ScoreKernels& kernels, const Tables& tables, const std::vector<Slab>& slabs, double step,
                      int most, int most_factor) {
        first_.clear();
        std::size_t total = 0;
        for (const Slab& slab : slabs) {
            first_.push_back(total);
            total += layout_.bytes(slab.bytes, n_);
        }
        digits_.assign(total + 63, 0);
        factors_.assign(total / static_cast<std::size_t>(16 * n_), 1);
        std::int64_t all_factors = 0;
        start_ = align_64(digits_);
        const float* entry = tables.at(0);
        for (std::size_t s = 0; s < slabs.size(); ++s)
            for (std::size_t j = 0; j < slabs[s].bytes; ++j)
                for (std::size_t half = 0; half < 2; ++half, entry += 16) {
                    const float low = least(entry), last = static_cast<float>(most);
                    const double width = double{entry[15 ^ least_at(entry)] - low} / step / most;
                    const int factor = std::clamp(static_cast<int>(std::ceil(width)), 1, most_factor);
                    const float scale = static_cast<float>(1.0 / (factor * step));
                    factors_[factor_at(s, j, half)] = static_cast<std::int8_t>(factor);
                    all_factors += factor;
                    std::uint8_t* at = start_ + first_[s];
                    kernels.digits(entry, low, scale, last, layout_.bits, at + layout_.place(j, half, 0, n_),
                                   n_ == 1 ? nullptr : at + layout_.place(j, half, 1, n_));
                }
        return all_factors;
    }

    std::int32_t margin_ = 0;
    double constant_ = 0.0, step_ = 0.0, error_ = 0.0;
    int n_ = 2;
    DigitLayout layout_{1, 6, false};
    std::vector<std::size_t> first_;  // of each slab
    std::vector<std::uint8_t> digits_;
    std::vector<std::int8_t> factors_;
    std::uint8_t* start_ = nullptr;  // in them, at the begin of a cache line
};

}  // namespace bilsh
