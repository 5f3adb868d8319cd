// The smallest estimates of transform codes: bounded from below by small integers, then computed where they may count.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "candidates.h"
#include "digits.h"
#include "kernels.h"
#include "score_tables.h"
#include "threads.h"
#include "transform.h"
#include "transform_block.h"

namespace bilsh {

// What one query bounds the rows of one centre by. Weights of bits become tables of half bytes, whose digits begin at
// 0: so the sum of any part of a code, and the error of all digits, give a bound that only rises with further parts. To
// it comes the rounding of float32 operations (Higham, section 4.2), in the bound and in the estimate.
class TransformBound {
public:
    void build(const QueryWeights& from, std::size_t query, std::size_t centre, const TransformPlan& plan,
               const std::vector<Slab>& parts, const ScoreKernels& kernels, double share) {
        thread_local std::vector<float> weights;
        thread_local Tables tables;
        const std::size_t n_bits = plan.bits();
        const float* own = from.at(query, centre);
        weights.assign(8 * header_bytes + n_bits, 0.0f);  // those of the header's bits are zero
        std::copy_n(own, n_bits, weights.begin() + 8 * header_bytes);
        const float none = 0.0f;
        tables.build(kernels, {weights.data(), &none, 1, weights.size()}, 0, plan.bytes());
        digits_.build(kernels, tables, parts, share);
        const std::size_t at = query * from.n_centres + centre;
        double sum = std::fabs(double{from.bias[at]});
        for (std::size_t r = 0; r < n_bits; ++r) sum += std::fabs(double{own[r]});
        const double scale = double{plan.scale(scale_levels - 1)};
        const double add = std::max(std::fabs(double{plan.add(0)}), std::fabs(double{plan.add(255)}));
        const double size = double{from.far[at]} + scale * sum + (plan.absolute() ? add : scale * scale * add);
        const double additions = 32.0 + static_cast<double>(from.stride / bit_lanes);
        const double rounding = 2.0 * additions * 0x1p-24 / (1.0 - additions * 0x1p-24);
        ranking_ = {static_cast<float>(double{from.far[at]} - rounding * size),
                    static_cast<float>(double{from.bias[at]} + digits_.constant() - digits_.error()),
                    static_cast<float>(digits_.step())};
        useful_ = digits_.useful() && std::isfinite(size) && size < 1e37 && ranking_.step > 1e-30f;
    }

    bool useful() const { return useful_; }
    const Digits& digits() const { return digits_; }
    const Ranking& ranking() const { return ranking_; }

private:
    Digits digits_;
    Ranking ranking_{};
    bool useful_ = false;
};

class TransformScan {
public:
    TransformScan(const TransformPlan& plan, const CodeSet& set, const QueryWeights& weights, std::size_t k, int n_jobs)
        : kernels_(bilsh::kernels()),
          plan_(plan),
          set_(set),
          weights_(weights),
          k_(k),
          n_jobs_(n_jobs),
          parts_(parts_of(set)),
          slabs_(slabs_of(parts_)),
          limits_(weights.n, no_limit),
          found_(weights.n, Nearest(k)) {}

    std::vector<Nearest>& run() {
        std::vector<std::size_t> quick, slow;
        if (kernels_.scores.lanes != 0 && set_.n >= worth_bounds && 8 * k_ <= set_.n) {
            make_bounds();
            for (std::size_t q = 0; q < weights_.n; ++q) (is_useful(q) ? quick : slow).push_back(q);
        } else {
            for (std::size_t q = 0; q < weights_.n; ++q) slow.push_back(q);
        }
        if (!quick.empty()) look(quick);
        if (!slow.empty()) estimate_every_row(slow);
        return found_;
    }

    // Before visits.
    void make_room() { bounds_.resize(weights_.n * weights_.n_centres); }

    // Rows one after the other.
    struct Range {
        std::size_t begin, end;
    };

    // The smallest estimates among some rows; weigh(centre) sees to the query's weights before they are looked at.
    template <class Weigh>
    Nearest visit(std::size_t query, const std::vector<Range>& ranges, const Weigh& weigh) {
        std::vector<Look> looks(weights_.n_centres, Look::no);
        TransformBlock block(plan_, parts_, kernels_.scores.lanes);
        Nearest best(k_);
        Room room;
        for (const Range& range : ranges)
            for (std::size_t row = range.begin; row < range.end;) {
                row += block.load(row, range.end - row);
                for (const TransformBlock::Run& run : block.runs()) {
                    Look& look = looks[run.centre];
                    if (look == Look::no) {
                        weigh(run.centre);
                        look = prepare(query, run.centre) ? Look::bounds : Look::estimates;
                    }
                    if (look == Look::bounds)
                        look_at_run(block, run, &query, 1, &best, room);
                    else
                        estimate_run(block, run, query, best);
                }
            }
        return best;
    }

    float estimate(std::size_t query, std::size_t row) const {
        const Header header{set_.slabs[0].data + row * set_.slabs[0].bytes};
        const std::size_t centre = header.centre(weights_.n_centres);
        float lane[bit_lanes] = {};
        const std::uint8_t* bits = header.code + header_bytes;
        if (set_.slabs.size() > 1) {
            // Lanes count from the first bit of all, wherever slabs end.
            thread_local std::vector<std::uint8_t> whole;
            whole.clear();
            for (const Slab& slab : set_.slabs)
                whole.insert(whole.end(), slab.data + row * slab.bytes, slab.data + (row + 1) * slab.bytes);
            bits = whole.data() + header_bytes;
        }
        kernels_.transforms.add_real_weights(bits, plan_.bytes() - header_bytes, weights_.at(query, centre), lane);
        for (std::size_t half = bit_lanes / 2; half > 0; half /= 2)
            for (std::size_t l = 0; l < half; ++l) lane[l] += lane[l + half];
        const std::size_t at = query * weights_.n_centres + centre;
        const float scale = header.scale(plan_), add = header.add(plan_), sum = lane[0] + weights_.bias[at];
        return weights_.far[at] + (plan_.absolute() ? scale * sum + add : scale * (sum + scale * add));
    }

private:
    static constexpr std::size_t worth_bounds = 1024;   // rows; fewer are estimated before the bounds are made
    static constexpr std::size_t rows_together = 512;   // whose sums stay in the first-level cache
    static constexpr std::size_t queries_at_once = 64;  // that share packed rows
    static constexpr std::size_t worth_packing = 3;     // queries
    static constexpr std::size_t packed_rows = 64;
    static constexpr std::size_t few = 6;                 // one of so many rows goes on alone instead of all going on
    static constexpr std::int32_t no_limit = 0x7f7fffff;  // the key of the largest float: rows that fill up are beyond
    enum class Look : char { no, bounds, estimates };     // how rows of a centre are told apart

    void make_bounds() {
        make_room();
        parallel_for(bounds_.size(), n_jobs_,
                     [&](std::size_t i, int) { prepare(i / weights_.n_centres, i % weights_.n_centres); });
    }
    // Makes the bound of a query and a centre; false where it does not tell rows apart.
    bool prepare(std::size_t query, std::size_t centre) {
        if (kernels_.scores.lanes == 0) return false;
        TransformBound& made = bounds_[query * weights_.n_centres + centre];
        const double share = static_cast<double>(k_) / static_cast<double>(set_.n);
        made.build(weights_, query, centre, plan_, slabs_, kernels_.scores, share);
        return made.useful();
    }
    bool is_useful(std::size_t query) const {
        const auto begin = bounds_.begin() + static_cast<std::ptrdiff_t>(query * weights_.n_centres);
        return std::all_of(begin, begin + static_cast<std::ptrdiff_t>(weights_.n_centres),
                           [](const TransformBound& bound) { return bound.useful(); });
    }
    const TransformBound& bound(std::size_t query, std::size_t centre) const {
        return bounds_[query * weights_.n_centres + centre];
    }

    struct Room {
        std::vector<std::uint8_t> packed;
        std::vector<DigitTables> tables;
        std::vector<std::int32_t> sums, keys;
        std::vector<std::uint32_t> chosen;
        // Of those that were chosen.
        std::vector<std::size_t> rows;
        std::vector<std::int32_t> bounds, own_sums;
        std::vector<float> told;
        std::vector<std::uint8_t> copied;
    };

    void look(const std::vector<std::size_t>& queries) {
        parallel_for(queries.size(), n_jobs_, [&](std::size_t i, int) { seed(queries[i]); });
        std::vector<std::vector<Nearest>> found(static_cast<std::size_t>(n_jobs_),
                                                std::vector<Nearest>(queries.size(), Nearest(k_)));
        const std::size_t rows = TransformBlock::most_rows;
        Grid(set_.n, rows, queries.size(), queries_at_once, n_jobs_)
            .run(n_jobs_,
                 [&](std::size_t row, std::size_t row_end, std::size_t query, std::size_t query_end, int worker) {
                     Nearest* best = found[static_cast<std::size_t>(worker)].data();
                     TransformBlock block(plan_, parts_, kernels_.scores.lanes);
                     Room room;
                     while (row < row_end) {
                         row += block.load(row, row_end - row);
                         for (std::size_t q = query; q < query_end; q += queries_at_once)
                             look_at_block(block, queries.data() + q, std::min(queries_at_once, query_end - q),
                                           best + q, room);
                     }
                 });
        join_nearest(found, queries, found_);
    }

    // A first limit, from some rows of the nearest centre where rows lie in the order of their centres; of any others
    // where they do not.
    void seed(std::size_t query) {
        const float* far = weights_.far.data() + query * weights_.n_centres;
        const auto nearest = static_cast<std::size_t>(std::min_element(far, far + weights_.n_centres) - far);
        std::size_t row = 0;
        for (std::size_t left = set_.n; left > 0;) {
            const std::size_t half = left / 2;
            const Header header{parts_[0].data + (row + half) * parts_[0].stride};
            if (header.centre(weights_.n_centres) < nearest) {
                row += half + 1;
                left -= half + 1;
            } else {
                left = half;
            }
        }
        const std::size_t rows = TransformBlock::most_rows;
        row = std::min(row, set_.n - std::min(set_.n, rows));
        TransformBlock block(plan_, parts_, kernels_.scores.lanes);
        Nearest best(k_);
        Room room;
        for (const std::size_t end = std::min(row + rows, set_.n); row < end;) {
            row += block.load(row, end - row);
            look_at_block(block, &query, 1, &best, room);
        }
        if (best.full()) limits_[query] = best.worst();
    }

    void look_at_block(TransformBlock& block, const std::size_t* queries, std::size_t n_queries, Nearest* best,
                       Room& room) const {
        for (const TransformBlock::Run& run : block.runs()) look_at_run(block, run, queries, n_queries, best, room);
    }

    void look_at_run(TransformBlock& block, const TransformBlock::Run& run, const std::size_t* queries,
                     std::size_t n_queries, Nearest* best, Room& room) const {
        poll();
        room.sums.resize(n_queries * rows_together);
        room.keys.resize(rows_together);
        room.chosen.resize(rows_together);
        for (std::size_t at = run.begin; at < run.end; at += rows_together) {
            const std::size_t n = std::min(rows_together, run.end - at);
            std::fill_n(room.sums.begin(), n_queries * rows_together, 0);
            if (n_queries < worth_packing)
                for (std::size_t q = 0; q < n_queries; ++q)
                    add_part(block.part(0, at), 0, n, bound(queries[q], run.centre).digits(),
                             room.sums.data() + q * rows_together);
            else
                add_packed(block.part(0, at), n, run.centre, queries, n_queries, room);
            for (std::size_t q = 0; q < n_queries; ++q) go_on(block, run.centre, at, n, queries[q], best[q], q, room);
        }
    }

    void estimate_run(const TransformBlock& block, const TransformBlock::Run& run, std::size_t query,
                      Nearest& best) const {
        poll();
        for (std::size_t i = run.begin; i < run.end; ++i)
            if (block.is_row(i) && set_.is_alive(block.row(i))) take(query, block.row(i), best);
    }

    // Digits of one part of rows, for one query; of rows behind them too where that makes whole lanes.
    void add_part(const Part& part, std::size_t p, std::size_t n, const Digits& digits, std::int32_t* sums) const {
        const std::size_t lanes = kernels_.scores.lanes, filled = ceil_div(n, lanes) * lanes;
        const std::size_t whole = filled <= part.readable ? filled : n / lanes * lanes;
        kernels_.scores.add_digits_of_rows(part.data, part.stride, whole, part.bytes, digits.at(p, 0), sums);
        add_last(part, p, whole, n, digits, sums);
    }
    static void add_last(const Part& part, std::size_t p, std::size_t from, std::size_t n, const Digits& digits,
                         std::int32_t* sums) {
        for (std::size_t i = from; i < n; ++i) sums[i] += digits.sum(part.data + i * part.stride, part.bytes, p);
    }

    // The first part of rows, for many queries.
    void add_packed(const Part& part, std::size_t n, std::size_t centre, const std::size_t* queries,
                    std::size_t n_queries, Room& room) const {
        const std::size_t whole = n / kernels_.scores.lanes * kernels_.scores.lanes;
        const std::size_t unit = kernels_.scores.layout.unit;
        const std::size_t panel = digit_panel / unit * unit;
        room.packed.resize(2 * packed_rows * std::min(panel, ceil_div(part.bytes, unit) * unit) + 63);
        std::uint8_t* packed = align_64(room.packed);
        for (std::size_t j = 0; j < part.bytes; j += panel) {
            const std::size_t some = std::min(panel, part.bytes - j);
            room.tables.clear();
            for (std::size_t q = 0; q < n_queries; ++q)
                room.tables.push_back(bound(queries[q], centre).digits().at(0, j));
            for (std::size_t i = 0; i < whole; i += packed_rows) {
                const std::size_t together = std::min(packed_rows, whole - i);
                kernels_.scores.pack(part.data + i * part.stride + j, part.stride, together, some, packed);
                kernels_.scores.add_packed_digits(packed, together, some, room.tables.data(), n_queries,
                                                  room.sums.data() + i, rows_together);
            }
        }
        for (std::size_t q = 0; q < n_queries; ++q)
            add_last(part, 0, whole, n, bound(queries[q], centre).digits(), room.sums.data() + q * rows_together);
    }

    // Rows whose bounds are within the limit go on by further parts: all of them, or those alone where they are few;
    // what is left at the end is estimated.
    void go_on(TransformBlock& block, std::size_t centre, std::size_t at, std::size_t n, std::size_t query,
               Nearest& best, std::size_t q, Room& room) const {
        const TransformBound& by = bound(query, centre);
        std::int32_t* sums = room.sums.data() + q * rows_together;
        std::size_t found = choose(by, sums, block.scale(at), block.add(at), n, limit(query, best), room);
        std::size_t p = 1;
        for (; p < parts_.size() && few * found > n; ++p) {
            add_part(block.part(p, at), p, n, by.digits(), sums);
            found = choose(by, sums, block.scale(at), block.add(at), n, limit(query, best), room);
        }
        room.rows.resize(found);
        room.bounds.resize(found);
        for (std::size_t i = 0; i < found; ++i) {
            room.rows[i] = block.row(at + room.chosen[i]);
            room.bounds[i] = room.keys[room.chosen[i]];
        }
        if (p < parts_.size() && found > 2)
            found = go_on_alone(block, by, at, found, p, limit(query, best), sums, room);
        for (std::size_t i = 0; i < found; ++i)
            if (room.bounds[i] <= limit(query, best) && set_.is_alive(room.rows[i])) take(query, room.rows[i], best);
    }

    std::size_t choose(const TransformBound& by, const std::int32_t* sums, const float* scale, const float* add,
                       std::size_t n, std::int32_t limit, Room& room) const {
        kernels_.transforms.rank(sums, scale, add, n, by.ranking(), room.keys.data());
        return kernels_.hamming.select(room.keys.data(), n, limit, room.chosen.data());
    }

    // Copies the rows that were chosen side by side. Those that fill up count for nothing.
    std::size_t go_on_alone(const TransformBlock& block, const TransformBound& by, std::size_t at, std::size_t n,
                            std::size_t p, std::int32_t limit, const std::int32_t* sums, Room& room) const {
        const std::size_t padded = ceil_div(n, kernels_.scores.lanes) * kernels_.scores.lanes;
        room.own_sums.assign(padded, 0);
        room.told.resize(2 * n);
        for (std::size_t i = 0; i < n; ++i) {
            room.own_sums[i] = sums[room.chosen[i]];
            room.told[i] = *block.scale(at + room.chosen[i]);
            room.told[n + i] = *block.add(at + room.chosen[i]);
        }
        for (; p < parts_.size(); ++p) {
            const Part& from = parts_[p];
            room.copied.resize(padded * from.bytes);
            for (std::size_t i = 0; i < n; ++i) __builtin_prefetch(from.data + room.rows[i] * from.stride);
            for (std::size_t i = 0; i < n; ++i)
                std::memcpy(room.copied.data() + i * from.bytes, from.data + room.rows[i] * from.stride, from.bytes);
            kernels_.scores.add_digits_of_rows(room.copied.data(), from.bytes, padded, from.bytes, by.digits().at(p, 0),
                                               room.own_sums.data());
        }
        const std::size_t found =
            choose(by, room.own_sums.data(), room.told.data(), room.told.data() + n, n, limit, room);
        for (std::size_t i = 0; i < found; ++i) {
            room.rows[i] = room.rows[room.chosen[i]];
            room.bounds[i] = room.keys[room.chosen[i]];
        }
        return found;
    }

    std::int32_t limit(std::size_t query, const Nearest& best) const {
        return best.full() ? std::min(best.worst(), limits_[query]) : limits_[query];
    }

    void take(std::size_t query, std::size_t row, Nearest& best) const {
        best.push({key_of(-estimate(query, row)), set_.id(row)});
    }

    void estimate_every_row(const std::vector<std::size_t>& queries) {
        std::vector<std::vector<Nearest>> found(static_cast<std::size_t>(n_jobs_),
                                                std::vector<Nearest>(queries.size(), Nearest(k_)));
        Grid(set_.n, worth_bounds, queries.size(), 1, n_jobs_)
            .run(n_jobs_,
                 [&](std::size_t row, std::size_t row_end, std::size_t query, std::size_t query_end, int worker) {
                     for (std::size_t q = query; q < query_end; ++q)
                         for (std::size_t r = row; r < row_end; ++r) {
                             if (r % 256 == 0) poll();
                             if (set_.is_alive(r)) take(queries[q], r, found[static_cast<std::size_t>(worker)][q]);
                         }
                 });
        join_nearest(found, queries, found_);
    }

    const Kernels& kernels_;
    const TransformPlan& plan_;
    const CodeSet& set_;
    const QueryWeights& weights_;
    const std::size_t k_;
    const int n_jobs_;
    const std::vector<Part> parts_;
    const std::vector<Slab> slabs_;       // as long as the parts
    std::vector<std::int32_t> limits_;    // of each query, before it looks at rows
    std::vector<TransformBound> bounds_;  // (queries, centres)
    std::vector<Nearest> found_;
};

}  // namespace bilsh
