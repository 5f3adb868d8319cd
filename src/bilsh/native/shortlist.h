// The items closest by a first look, from which the seeds and most survivors of a progressive search come.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "nearest.h"

namespace bilsh {

// The closest items by the first slab, found in ascending order of rows: the best `kept` by (distance, row), and all
// whose distance is below the bound. A count per distance moves the bound with every item, without sorting.
class Shortlist {
public:
    Shortlist(std::size_t kept, std::size_t n_bits)
        : kept_(kept), bound_(static_cast<std::int32_t>(n_bits) + 1), counts_(n_bits + 1) {}

    std::int32_t bound() const { return bound_; }
    void push(const Hit& hit) {
        if (hit.distance >= bound_) return;
        hits_.push_back(hit);
        ++counts_[static_cast<std::size_t>(hit.distance)];
        for (++below_; below_ >= kept_;) below_ -= counts_[static_cast<std::size_t>(--bound_)];
        if (hits_.size() >= 2 * kept_)
            hits_.erase(std::remove_if(hits_.begin(), hits_.end(), [&](const Hit& h) { return h.distance > bound_; }),
                        hits_.end());
    }
    void absorb(const Shortlist& other) { hits_.insert(hits_.end(), other.hits_.begin(), other.hits_.end()); }
    // Once all are absorbed: the bound becomes that of the whole, whoever found what.
    void close() {
        if (hits_.size() < kept_) return;
        const auto end = hits_.begin() + static_cast<std::ptrdiff_t>(kept_);
        std::nth_element(hits_.begin(), end - 1, hits_.end());
        bound_ = end[-1].distance;
        hits_.erase(end, hits_.end());
    }
    std::vector<Hit>& hits() { return hits_; }

private:
    std::size_t kept_;
    std::size_t below_ = 0;  // hits below the bound
    std::int32_t bound_;
    std::vector<std::uint32_t> counts_;  // hits of each distance
    std::vector<Hit> hits_;
};

}  // namespace bilsh
