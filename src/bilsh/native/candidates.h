// What a first look by integers leaves to be told apart by real numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "nearest.h"

namespace bilsh {

// The rows that may be among the k smallest by integers that stand for real keys: two of them that differ by more than
// `margin` are in the order of their keys.
struct Candidates {
    Nearest best;
    std::int32_t margin = 0;
    std::size_t at_most = 0;
    bool too_many = false;
    std::vector<Hit> rows;

    std::int32_t limit() const {
        if (too_many) return std::numeric_limits<std::int32_t>::min();
        return best.full() ? best.worst() + margin : std::numeric_limits<std::int32_t>::max();
    }
    void push(const Hit& hit) {
        best.push(hit);
        rows.push_back(hit);
        if (rows.size() >= at_most) prune();
    }
    void prune() {
        const std::int32_t last = limit();
        rows.erase(std::remove_if(rows.begin(), rows.end(), [&](const Hit& hit) { return hit.distance > last; }),
                   rows.end());
        too_many = 2 * rows.size() >= at_most;  // the integers do not tell rows apart
    }
};

}  // namespace bilsh
