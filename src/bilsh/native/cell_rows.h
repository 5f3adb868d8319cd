// The rows of visited cells, compared with a query as far as it takes to leave most of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "cell_room.h"
#include "cells.h"
#include "kernels.h"

namespace bilsh {

// Of all rows of a query's nearest cells the first two stages are counted, one row after the other; and so of other
// cells, where stages say so. Else it is the first, and the second of rows within a limit: these lie here and there, so
// memory is asked for them, and they are counted while rows of the next cells are read.
class CellRows {
public:
    CellRows(const Kernels& kernels, const Queries& queries, const CodeSet& set, const Stages& stages,
             const Cells& cells)
        : kernels_(kernels), queries_(queries), set_(set), stages_(stages), cells_(cells) {}

    // Stages after the first that are counted of rows that wait; bytes of a code by then.
    std::size_t counted() const { return stages_.later.empty() ? 0 : 1; }
    // Stages after the first that are counted of a row before it is left.
    std::size_t counted_at_once() const { return stages_.together ? 1 : 0; }
    std::size_t bytes() const { return stages_.first.bytes + (stages_.later.empty() ? 0 : stages_.later[0].bytes); }
    const Reading& reading() const { return reading_; }
    void count_bytes(std::size_t n) { reading_.bytes += static_cast<std::int64_t>(n); }

    // The first rows of a cell, to be asked for before they are read: all of what is counted, or the first stage.
    RowsAhead ahead(std::size_t cell, bool nearest) const {
        nearest = nearest || stages_.together;
        const std::size_t row = cells_.begin(cell), n = std::min(cells_.size(cell), most_ahead);
        const std::uint8_t* first = stages_.first.data + stages_.first.stride * row;
        if (!nearest || stages_.later.empty()) return {first, stages_.first.stride, nullptr, 0, n, 16};
        const Stage& second = stages_.later[0];
        return {first, stages_.first.stride, second.data + second.stride * row, second.stride, n, 16};
    }

    // All living rows of a cell wait.
    void read_all(std::size_t query, std::size_t cell, Picked& waiting, RowsAhead& next) {
        const std::size_t n = cells_.size(cell);
        waiting.make_room(n + few);
        std::uint32_t* rows = waiting.rows.data() + waiting.n;
        std::int32_t* sums = waiting.sums.data() + waiting.n;
        waiting.n += living(rows, sums, both(query, cell, farthest - 1, rows, sums, next));
        reading_.rows += static_cast<std::int64_t>(n);
        count_bytes(n * bytes());
    }

    // The living rows of a cell wait that are within a limit, by what is counted at once.
    void read_near(std::size_t query, std::size_t cell, std::int32_t limit, Picked& waiting, RowsAhead& next) {
        const std::size_t row = cells_.begin(cell), n = cells_.size(cell), from = waiting.n;
        const Stage& first = stages_.first;
        const std::uint8_t* data = first.data + first.stride * row;
        waiting.make_room(n + few);
        std::uint32_t* rows = waiting.rows.data() + from;
        std::int32_t* sums = waiting.sums.data() + from;
        std::size_t found;
        if (stages_.together) {
            found = both(query, cell, limit, rows, sums, next);
        } else if (kernels_.cells.near && first.bytes == 64) {
            found = kernels_.cells.near(data, nullptr, 0, n, queries_.at(query), limit, static_cast<std::uint32_t>(row),
                                        rows, sums, next);
        } else {
            found = kernels_.hamming.near(data, first.stride, n, queries_.at(query), first.bytes, limit, rows, sums);
            for (std::size_t i = 0; i < found; ++i) rows[i] += static_cast<std::uint32_t>(row);
        }
        waiting.n += found = living(rows, sums, found);
        reading_.rows += static_cast<std::int64_t>(n);
        count_bytes(n * (stages_.together ? bytes() : first.bytes));
        if (stages_.together || stages_.later.empty() || found == 0) return;
        for (std::size_t i = 0; i < found; ++i) ask(0, rows[i]);
        Late& late = late_[n_late_++ % late_.size()];
        settle(late);
        late = {&waiting, query, from, found};
    }

    // Nothing of rows that wait is left to be counted.
    void settle() {
        for (Late& late : late_) settle(late);
    }

    // Asks memory for what one of the later stages wants of a row.
    void ask(std::size_t stage, std::size_t row) const {
        const Stage& part = stages_.later[stage];
        const std::uint8_t* data = part.data + row * part.stride;
        for (std::size_t j = 0; j < std::min<std::size_t>(part.bytes, 256); j += 64) __builtin_prefetch(data + j);
    }

private:
    static constexpr std::size_t most_ahead = 1024;  // rows; the second-level cache holds them

    // Rows that wait, from one on, for their second stage.
    struct Late {
        Picked* waiting;
        std::size_t query, from, n;
    };

    // Rows of a cell within a limit by the first two stages.
    std::size_t both(std::size_t query, std::size_t cell, std::int32_t limit, std::uint32_t* rows, std::int32_t* sums,
                     RowsAhead& next) const {
        const std::size_t row = cells_.begin(cell), n = cells_.size(cell);
        const auto first = static_cast<std::uint32_t>(row);
        if (kernels_.cells.near && stages_.first.bytes == 64 && (bytes() == 64 || bytes() == 128)) {
            const RowsAhead here = ahead(cell, true);
            return kernels_.cells.near(here.rows, here.more, here.more_stride, n, queries_.at(query), limit, first,
                                       rows, sums, next);
        }
        tile(stages_.first, query, row, n, sums, false);
        if (!stages_.later.empty()) tile(stages_.later[0], query, row, n, sums, true);
        std::iota(rows, rows + n, first);
        return kernels_.cells.keep(rows, sums, n, limit);
    }

    void settle(Late& late) {
        if (late.n == 0) return;
        const Stage& part = stages_.later[0];
        kernels_.hamming.gather(part.data, part.stride, late.waiting->rows.data() + late.from, late.n,
                                queries_.at(late.query) + part.offset, part.bytes,
                                late.waiting->sums.data() + late.from);
        count_bytes(late.n * part.bytes);
        late.n = 0;
    }

    void tile(const Stage& part, std::size_t query, std::size_t row, std::size_t n, std::int32_t* sums,
              bool add) const {
        kernels_.hamming.tile(part.data + part.stride * row, part.stride, n, queries_.at(query) + part.offset, 0, 1,
                              part.bytes, sums, 0, add);
    }

    // Leaves those that live, and tells how many.
    std::size_t living(std::uint32_t* rows, std::int32_t* sums, std::size_t n) const {
        if (!set_.alive) return n;
        std::size_t living = 0;
        for (std::size_t i = 0; i < n; ++i) {
            rows[living] = rows[i];
            sums[living] = sums[i];
            living += set_.is_alive(rows[i]);
        }
        return living;
    }

    const Kernels& kernels_;
    const Queries queries_;
    const CodeSet& set_;
    const Stages& stages_;
    const Cells cells_;
    std::array<Late, 4> late_{};
    std::size_t n_late_ = 0;
    Reading reading_;
};

}  // namespace bilsh
