// A first look at the scores of one query: small integers whose distance from the scores is known.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "score_tables.h"

namespace bilsh {

// With step s, every score lies within `error` of  constant + s * (sum of the digits of its half bytes).
//
// An entry t of a half byte's table is replaced by  least + s * round((t - least) / s),  from 0 to 4,095 steps, and is off
// by half a step at most. To the sum of these comes the rounding of the float32 score itself, which adds up to 128 entries,
// then the partial sums, then the bias: gamma_m * (|bias| + sum |entries|) with gamma_m = m u / (1 - m u), u = 2^-24
// (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2). So a score whose sum of digits is more than
// `margin` = 2 error / s below that of another is the smaller one.
class Digits {
  public:
    void build(const Tables& tables, std::size_t n_bytes) {
        margin_ = 0;
        float widest = 0.0f;
        double size = std::fabs(double{tables.bias()});
        for (std::size_t half = 0; half < 2 * n_bytes; ++half) {
            const float* entry = tables.at(0) + 16 * half;
            const float low = least(entry), high = entry[15 ^ least_at(entry)];
            widest = std::max(widest, high - low);
            size += double{std::max(-low, high)};
        }
        const double step = double{widest} / most_digits;
        const float scale = static_cast<float>(1.0 / step);
        if (!std::isfinite(size) || !std::isfinite(scale) || !(scale > 0.0f) || n_bytes > longest) return;
        digits_.resize(n_bytes * digits_per_byte);
        for (std::size_t half = 0; half < 2 * n_bytes; ++half) {
            const float* entry = tables.at(0) + 16 * half;
            std::uint8_t* digit = digits_.data() + 32 * half;
            const float low = least(entry);
            for (int p = 0; p < 16; ++p) {
                const int steps = std::min(static_cast<int>((entry[p] - low) * scale + 0.5f), most_digits);
                digit[p] = static_cast<std::uint8_t>(steps % 64);
                digit[16 + p] = static_cast<std::uint8_t>(steps / 64);
            }
        }
        // Half a step, and what the four roundings above add to it: 4 * 4096 * 2^-24 of a step at most.
        double error = 2.0 * static_cast<double>(n_bytes) * 0.501 * step;
        const double additions = 132.0 + static_cast<double>(n_bytes / score_block);
        error += additions * 0x1p-24 / (1.0 - additions * 0x1p-24) * size;
        // The doubles above are rounded too, by far less than a millionth.
        const double margin = std::ceil(2.0 * error / step * (1.0 + 1e-6)) + 1.0;
        if (margin < std::numeric_limits<std::int32_t>::max() / 4) margin_ = static_cast<std::int32_t>(margin);
    }

    // Whether there are digits at all: not for weights that are all zero or not finite, nor for very long codes.
    bool useful() const { return margin_ > 0; }
    std::int32_t margin() const { return margin_; }
    const std::uint8_t* at(std::size_t byte) const { return digits_.data() + byte * digits_per_byte; }
    std::int32_t sum(const std::uint8_t* row, std::size_t n_bytes, std::size_t byte) const {
        std::int32_t total = 0;
        for (std::size_t j = 0; j < n_bytes; ++j) {
            const std::uint8_t* low = at(byte + j) + (row[j] & 15);
            const std::uint8_t* high = at(byte + j) + 32 + (row[j] >> 4);
            total += (low[0] + high[0]) + 64 * (low[16] + high[16]);
        }
        return total;
    }
    static std::size_t bytes(std::size_t n_bytes) { return n_bytes * digits_per_byte; }

  private:
    // Sums grow with their terms, rounded or not: the least one has just the negative weights.
    static unsigned least_at(const float* entry) {
        unsigned pattern = 0;
        for (unsigned b = 0; b < 4; ++b) pattern |= static_cast<unsigned>(entry[1u << b] < 0.0f) << b;
        return pattern;
    }
    static float least(const float* entry) { return entry[least_at(entry)]; }

    static constexpr int most_digits = 4095;
    static constexpr std::size_t longest = std::numeric_limits<std::int32_t>::max() / (2 * most_digits) / 2;

    std::int32_t margin_ = 0;
    std::vector<std::uint8_t> digits_;
};

}  // namespace bilsh
