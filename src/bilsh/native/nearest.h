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
        ascending_ = false;  // from here on
        for (std::size_t i = 0; i < other.n_; ++i) push(other.hits_[i].distance, other.hits_[i].id);
    }

    // Nothing above this can enter any more.
    std::int32_t limit() const {
        if (total_ < k_) return std::numeric_limits<std::int32_t>::max();
        const std::size_t first = ascending_ && shift_ == 0 ? last_ : (last_ + 1) << shift_;
        return static_cast<std::int32_t>(first) - 1;
    }
    // Nothing enters any more.
    const std::vector<Hit>& sorted() {
        hits_.resize(n_);
        if (std::is_sorted(hits_.begin(), hits_.end())) {
            hits_.resize(std::min(k_, n_));
        } else {
            // How many there are of each distance says where they go; of equal ones the first came first, mostly.
            counts_.resize(last_ + 2);
            counts_[last_ + 1] = 0;
            std::uint32_t before = 0;
            for (std::uint32_t& count : counts_) std::swap(before, count), before += count;
            std::vector<Hit> ordered(n_);
            for (const Hit& hit : hits_)
                ordered[counts_[std::min(static_cast<std::size_t>(hit.distance) >> shift_, last_ + 1)]++] = hit;
            ordered.resize(total_);
            if (!std::is_sorted(ordered.begin(), ordered.end())) std::sort(ordered.begin(), ordered.end());
            ordered.resize(std::min(k_, total_));
            hits_.swap(ordered);
        }
        n_ = total_ = hits_.size();
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
        // Many share the last place: it alone is left by some.
        const std::size_t stay = counts_[last_] - (n_ - k_);
        if (ascending_ && shift_ == 0) {
            std::size_t seen = kept = 0;
            for (std::size_t i = 0; i < n_; ++i) {
                const bool is_last = static_cast<std::size_t>(hits_[i].distance) == last_;
                hits_[kept] = hits_[i];
                kept += !is_last || seen < stay;
                seen += is_last;
            }
        } else {
            std::nth_element(hits_.begin(), hits_.begin() + static_cast<std::ptrdiff_t>(k_),
                             hits_.begin() + static_cast<std::ptrdiff_t>(n_));
        }
        counts_[last_] = static_cast<std::uint32_t>(stay);
        n_ = total_ = k_;
    }

    std::size_t k_, last_ = 0, total_ = 0, n_ = 0;  // the last place that may enter; hits up to it; hits in all
    int shift_ = 0;
    bool ascending_;
    std::vector<std::uint32_t> counts_;
    std::vector<Hit> hits_;
};

}  // namespace bilsh
