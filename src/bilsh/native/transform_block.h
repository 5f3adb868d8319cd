// Some rows of a set of transform codes, in runs of one centre each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "blocks.h"
#include "hamming.h"
#include "transform.h"

namespace bilsh {

struct Header {
    const std::uint8_t* code;
    // A damaged code may name a centre that is not there: it reads that of another.
    std::size_t centre(std::size_t n_centres) const { return std::min<std::size_t>(code[0], n_centres - 1); }
    float scale(const TransformPlan& plan) const { return plan.scale(code[1]); }
    float add(const TransformPlan& plan) const { return plan.add(code[2]); }
};

// A run of bytes of every code, inside of a slab; so many rows of it may be read.
struct Part {
    const std::uint8_t* data;
    std::size_t stride, bytes, readable;
};

// A first part that most rows do not go beyond, then the rest of each slab.
inline std::vector<Part> parts_of(const CodeSet& set) {
    constexpr std::size_t first = 32, worth = 48;
    std::vector<Part> parts;
    for (const Slab& slab : set.slabs) {
        const std::size_t head = parts.empty() && slab.bytes >= worth ? first : slab.bytes;
        parts.push_back({slab.data, slab.bytes, head, set.n});
        if (head < slab.bytes) parts.push_back({slab.data + head, slab.bytes, slab.bytes - head, set.n});
    }
    return parts;
}

inline std::vector<Slab> slabs_of(const std::vector<Part>& parts) {
    std::vector<Slab> slabs;
    for (const Part& part : parts) slabs.push_back({part.data, part.bytes});
    return slabs;
}

// Rows that lie in the order of their centres are read where they are; others are copied into that order, each centre
// from a multiple of `lanes` on, rows that fill up being farther than all.
class TransformBlock {
public:
    static constexpr std::size_t most_rows = 4096;
    struct Run {
        std::size_t centre, begin, end;
    };

    TransformBlock(const TransformPlan& plan, const std::vector<Part>& parts, std::size_t lanes)
        : plan_(plan), parts_(parts), lanes_(std::max<std::size_t>(lanes, 1)), copies_(parts.size()) {}

    // Rows from `row` on, at most n of them: returns how many. Where a centre has many together they are few, so that
    // they stay in the first-level cache.
    std::size_t load(std::size_t row, std::size_t n) {
        row_ = row;
        copied_ = 0;
        runs_.clear();
        n = std::min(n, most_rows);
        const std::size_t some = std::min(n, few_rows);
        if (header(0).code[0] == header(some - 1).code[0] && read(some)) {
            in_place_ = true;
            runs_.push_back({header(0).centre(plan_.n_centres()), 0, some});
            return some;
        }
        read(n);
        in_place_ = find_runs(n);
        if (!in_place_) arrange(n);
        return n;
    }

    const std::vector<Run>& runs() const { return runs_; }
    const float* scale(std::size_t i) const { return scale_.data() + i; }
    const float* add(std::size_t i) const { return add_.data() + i; }
    // Whether a place holds a row, and is not one that fills up; and which of the set.
    bool is_row(std::size_t i) const { return in_place_ || order_[i] != nobody; }
    std::size_t row(std::size_t i) const { return row_ + (in_place_ ? i : order_[i]); }

    // Bytes of a part, from place i on.
    Part part(std::size_t p, std::size_t i) {
        const Part& from = parts_[p];
        if (in_place_) return {from.data + (row_ + i) * from.stride, from.stride, from.bytes, from.readable - row_ - i};
        for (; copied_ <= p; ++copied_) copy(copied_);
        return {copies_[p].data() + i * from.bytes, from.bytes, from.bytes, order_.size() - i};
    }

private:
    static constexpr std::size_t few_runs = 4, few_rows = 512;
    static constexpr std::uint32_t nobody = std::numeric_limits<std::uint32_t>::max();

    Header header(std::size_t i) const { return {parts_[0].data + (row_ + i) * parts_[0].stride}; }
    bool read(std::size_t n) {
        scale_.resize(n);
        add_.resize(n);
        return plan_.read_headers(header(0).code, parts_[0].stride, n, scale_.data(), add_.data());
    }
    // False where they are many, or out of order.
    bool find_runs(std::size_t n) {
        centre_.resize(n);
        for (std::size_t i = 0; i < n; ++i) {
            centre_[i] = static_cast<std::uint8_t>(header(i).centre(plan_.n_centres()));
            if (runs_.size() > few_runs || (i > 0 && centre_[i] < centre_[i - 1])) continue;
            if (i == 0 || centre_[i] != centre_[i - 1]) runs_.push_back({centre_[i], i, i});
            runs_.back().end = i + 1;
        }
        return runs_.size() <= few_runs && std::is_sorted(centre_.begin(), centre_.end());
    }
    void arrange(std::size_t n) {
        next_.assign(plan_.n_centres(), 0);
        for (std::size_t i = 0; i < n; ++i) ++next_[centre_[i]];
        runs_.clear();
        std::size_t end = 0;
        for (std::size_t c = 0; c < next_.size(); ++c) {
            const std::size_t begin = end;
            end += ceil_div(next_[c], lanes_) * lanes_;
            next_[c] = static_cast<std::uint32_t>(begin);
            if (begin < end) runs_.push_back({c, begin, end});
        }
        order_.assign(end, nobody);
        told_.assign(2 * end, 0.0f);
        std::fill_n(told_.begin() + static_cast<std::ptrdiff_t>(end), end, std::numeric_limits<float>::infinity());
        for (std::size_t i = 0; i < n; ++i) {
            const std::size_t at = next_[centre_[i]]++;
            order_[at] = static_cast<std::uint32_t>(i);
            told_[at] = scale_[i];
            told_[end + at] = add_[i];
        }
        scale_.assign(told_.begin(), told_.begin() + static_cast<std::ptrdiff_t>(end));
        add_.assign(told_.begin() + static_cast<std::ptrdiff_t>(end), told_.end());
    }
    void copy(std::size_t p) {
        const Part& from = parts_[p];
        copies_[p].resize(order_.size() * from.bytes);
        std::uint8_t* to = copies_[p].data();
        for (std::size_t i = 0; i < order_.size(); ++i, to += from.bytes)
            if (order_[i] != nobody) std::memcpy(to, from.data + (row_ + order_[i]) * from.stride, from.bytes);
    }

    const TransformPlan& plan_;
    const std::vector<Part>& parts_;
    const std::size_t lanes_;
    std::size_t row_ = 0, copied_ = 0;  // parts that are copied
    bool in_place_ = true;
    std::vector<Run> runs_;
    std::vector<std::uint8_t> centre_;
    std::vector<std::uint32_t> order_, next_;
    std::vector<float> scale_, add_, told_;  // add: what is added to estimates
    std::vector<std::vector<std::uint8_t>> copies_;
};

}  // namespace bilsh
