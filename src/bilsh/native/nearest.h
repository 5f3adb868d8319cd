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
            if (hits_.empty()) hits_.reserve(k_);
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

// The same for streams of which much enters, of distances up to `largest`. A count per distance (or per few of them)
// moves the bound with every one that enters, at the cost of some instructions; the best are told from the rest at the
// end.
class Counted {
public:
    // `ascending`: ids come in ascending order, so that of equal distances the first stays.
    Counted(std::size_t k, std::size_t largest, bool ascending) : k_(k), ascending_(ascending) {
        while (largest >> shift_ >= most_counts) ++shift_;
        counts_.resize((largest >> shift_) + 1);
        last_ = counts_.size() - 1;
    }

    void push(std::int32_t distance, std::int64_t id) {
        const std::size_t place = static_cast<std::size_t>(distance) >> shift_;
        if (place > last_) return;
        if (n_ == hits_.size()) make_room();
        hits_[n_].distance = distance;
        hits_[n_++].id = id;
        ++counts_[place];
        for (++total_; total_ - counts_[last_] >= k_;) total_ -= counts_[last_--];
    }
    void push_all(const Counted& other) {
        for (std::size_t i = 0; i < other.n_; ++i) push(other.hits_[i].distance, other.hits_[i].id);
    }

    // Nothing above this can enter any more.
    std::int32_t limit() const {
        if (total_ < k_) return std::numeric_limits<std::int32_t>::max();
        const std::size_t first = ascending_ && shift_ == 0 ? last_ : (last_ + 1) << shift_;
        return static_cast<std::int32_t>(first) - 1;
    }
    const std::vector<Hit>& sorted() {
        hits_.resize(n_);
        const auto end = hits_.begin() + static_cast<std::ptrdiff_t>(std::min(k_, n_));
        if (end != hits_.end()) std::nth_element(hits_.begin(), end, hits_.end());
        std::sort(hits_.begin(), end);
        hits_.erase(end, hits_.end());
        n_ = hits_.size();
        return hits_;
    }

    static std::size_t bytes(std::size_t k) { return most_counts * sizeof(std::uint32_t) + room(k) * sizeof(Hit); }

private:
    static constexpr std::size_t most_counts = 1024;
    static std::size_t room(std::size_t k) { return 2 * k + 64; }

    void make_room() {
        if (hits_.empty()) return hits_.resize(room(k_));
        std::size_t kept = 0;
        for (const Hit& hit : hits_) {
            hits_[kept] = hit;
            kept += static_cast<std::size_t>(hit.distance) >> shift_ <= last_;
        }
        n_ = kept;
        if (n_ < k_ + k_ / 2 + 32) return;
        std::nth_element(hits_.begin(), hits_.begin() + static_cast<std::ptrdiff_t>(k_),
                         hits_.begin() + static_cast<std::ptrdiff_t>(n_));
        counts_[last_] -= static_cast<std::uint32_t>(n_ - k_);  // many share the last place: it alone is left by some
        n_ = total_ = k_;
    }

    std::size_t k_, last_ = 0, total_ = 0, n_ = 0;  // the last place that may enter; hits up to it; hits in all
    int shift_ = 0;
    bool ascending_;
    std::vector<std::uint32_t> counts_;
    std::vector<Hit> hits_;
};

}  // namespace bilsh
