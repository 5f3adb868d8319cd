// The smallest of many numbers, where few are wanted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace bilsh {

// Places of the k smallest of n numbers, ascending by (number, place); k <= n. Room is kept from call to call.
class Smallest {
public:
    void find(const double* values, std::size_t n, std::size_t k, std::int64_t* places) {
        found_.resize(n);
        std::size_t count = below(values, n, likely_bound(values, n, k));
        if (count < k) count = below(values, n, infinity);
        const auto first = found_.begin(), end = first + static_cast<std::ptrdiff_t>(k);
        if (k < count) std::nth_element(first, end, first + static_cast<std::ptrdiff_t>(count));
        std::sort(first, end);
        for (std::size_t i = 0; i < k; ++i) places[i] = found_[i].second;
    }

private:
    static constexpr std::size_t looked_at = 256;
    static constexpr double infinity = std::numeric_limits<double>::infinity();

    static double ordered(double value) { return value == value ? value : infinity; }  // NaN comes last

    // A number that a few more than k are probably not above: some of them, at equal steps, tell.
    double likely_bound(const double* values, std::size_t n, std::size_t k) {
        const std::size_t step = std::max<std::size_t>(1, n / looked_at);
        some_.clear();
        for (std::size_t i = 0; i < n; i += step) some_.push_back(ordered(values[i]));
        const std::size_t at = std::min(some_.size() - 1, (k + k / 2) / step + 8);
        const auto place = some_.begin() + static_cast<std::ptrdiff_t>(at);
        std::nth_element(some_.begin(), place, some_.end());
        return *place;
    }

    std::size_t below(const double* values, std::size_t n, double bound) {
        std::size_t count = 0;
        for (std::size_t i = 0; i < n; ++i) {
            const double value = ordered(values[i]);
            found_[count] = {value, static_cast<std::int64_t>(i)};
            count += value <= bound;
        }
        return count;
    }

    std::vector<std::pair<double, std::int64_t>> found_;
    std::vector<double> some_;
};

}  // namespace bilsh
