// The k smallest of a stream of (distance, id), ties by id.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace bilsh {

struct Hit {
    std::int32_t distance;
    std::int64_t id;

    bool operator<(const Hit& other) const {
        return distance != other.distance ? distance < other.distance : id < other.id;
    }
};

class Nearest {
  public:
    explicit Nearest(std::size_t k = 0) : k_(k) {}

    void push(const Hit& hit) {
        if (hits_.size() < k_) {
            hits_.push_back(hit);
            std::push_heap(hits_.begin(), hits_.end());
        } else if (k_ != 0 && hit < hits_.front()) {
            std::pop_heap(hits_.begin(), hits_.end());
            hits_.back() = hit;
            std::push_heap(hits_.begin(), hits_.end());
        }
    }
    void push_all(const Nearest& other) {
        for (const Hit& hit : other.hits_) push(hit);
    }

    // No id from `first_id` on can enter with a distance above this.
    std::int32_t limit(std::int64_t first_id) const {
        if (!full()) return std::numeric_limits<std::int32_t>::max();
        return hits_.front().distance - (hits_.front().id < first_id ? 1 : 0);
    }
    bool full() const { return hits_.size() == k_; }
    std::int32_t worst() const { return hits_.front().distance; }
    std::vector<Hit>& sorted() {
        std::sort(hits_.begin(), hits_.end());
        return hits_;
    }

  private:
    std::size_t k_;
    std::vector<Hit> hits_;  // a heap, the worst first
};

}  // namespace bilsh
