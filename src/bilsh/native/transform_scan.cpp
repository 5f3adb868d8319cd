// The smallest estimates of transform codes: found by integers, then told apart by the estimates themselves.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "blocks.h"
#include "candidates.h"
#include "kernels.h"
#include "score_tables.h"
#include "threads.h"
#include "transform.h"

namespace bilsh {
namespace {

constexpr std::size_t worth_integers = 512;  // rows; fewer are estimated before the integers are made
constexpr std::size_t scan_rows = 1024;      // of a block, sorted by their centres
constexpr std::size_t queries_at_once = 4;   // whose integers stay in the second-level cache
constexpr std::size_t worth_pruning = 4;     // rows of a block for each that goes on

struct Header {
    const std::uint8_t* code;
    // A damaged code may name a centre that is not there: it reads that of another.
    std::size_t centre(std::size_t n_centres) const { return std::min<std::size_t>(code[0], n_centres - 1); }
    std::uint16_t add() const { return static_cast<std::uint16_t>(code[2] | code[3] << 8); }
};

// Every estimate lies within `low` and `high` steps of its integer: start[centre] + the integer weights of the set bits
// + round(factor * add). All errors are known: those of weights add up to their sums, by sign; starts and adds are off
// by half a step; a float32 estimate is off by the rounding of its additions (Higham, section 4.2), which comes on top.
class Integers {
public:
    Integers(const QueryWeights& from, std::size_t query, const TransformPlan& plan,
             const std::vector<std::size_t>& ends)
        : stride_(from.stride), n_parts_(ends.size()) {
        double widest = 0.0, size = 0.0;
        for (std::size_t c = 0; c < from.n_centres; ++c) {
            double sum = std::fabs(double{from.bias[query * from.n_centres + c]});
            const float* w = from.at(query, c);
            for (std::size_t r = 0; r < stride_; ++r) {
                sum += std::fabs(double{w[r]});
                widest = std::max(widest, std::fabs(double{w[r]}));
            }
            size = std::max(size, sum + 65535.0 * double{plan.add_step()});
        }
        const double step = std::max(widest / 32767.0, size / double{1 << 29});
        if (!std::isfinite(size) || !(step > 1e-30)) return;
        weights_.resize(from.n_centres * stride_);
        start_.resize(from.n_centres);
        best_rest_.resize(from.n_centres * n_parts_);
        double over = 0.0, under = 0.0;
        for (std::size_t c = 0; c < from.n_centres; ++c) {
            const float* w = from.at(query, c);
            std::int16_t* whole = weights_.data() + c * stride_;
            double above = 0.0, below = 0.0;
            std::int32_t* rest = best_rest_.data() + c * n_parts_;
            for (std::size_t r = 0; r < stride_; ++r) {
                whole[r] = static_cast<std::int16_t>(std::lrint(double{w[r]} / step));
                const double off = double{w[r]} / step - whole[r];
                (off > 0 ? above : below) += off;
                for (std::size_t part = 0; part < n_parts_ && r >= ends[part]; ++part)
                    rest[part] += std::min<std::int32_t>(whole[r], 0);
            }
            over = std::max(over, above);
            under = std::min(under, below);
            start_[c] = static_cast<std::int32_t>(std::lrint(double{from.bias[query * from.n_centres + c]} / step));
        }
        factor_ = static_cast<float>(double{plan.add_step()} / step);
        const double additions = 8.0 + static_cast<double>(stride_ / bit_lanes);
        const double rounding = additions * 0x1p-24 / (1.0 - additions * 0x1p-24) * size / step;
        // factor_ itself is rounded: 65535 * factor * 2^-23 steps at most.
        const double margin = over - under + 2.0 * (1.0 + rounding + 65535.0 * double{factor_} * 0x1p-23) + 2.0;
        if (margin < double{1 << 28}) margin_ = static_cast<std::int32_t>(margin);
    }

    bool useful() const { return margin_ > 0; }
    std::int32_t margin() const { return margin_; }
    const std::int16_t* weights(std::size_t centre, std::size_t bit) const {
        return weights_.data() + centre * stride_ + bit;
    }
    const std::int32_t* start() const { return start_.data(); }
    float factor() const { return factor_; }
    // The least that the bits after a part can add.
    std::int32_t best_rest(std::size_t centre, std::size_t part) const { return best_rest_[centre * n_parts_ + part]; }

private:
    std::size_t stride_, n_parts_;
    std::vector<std::int16_t> weights_;
    std::vector<std::int32_t> start_, best_rest_;
    float factor_ = 0.0f;
    std::int32_t margin_ = 0;
};

// Rows of a block by their centres.
struct Block {
    std::size_t row = 0, n = 0;
    std::vector<std::uint8_t> centre;
    std::vector<std::uint16_t> add;
    std::vector<std::uint32_t> order, begin;

    void load(const Slab& first, std::size_t from, std::size_t n_rows, std::size_t n_centres) {
        row = from;
        n = n_rows;
        centre.resize(n);
        add.resize(n);
        order.resize(n);
        begin.assign(n_centres + 1, 0);
        for (std::size_t i = 0; i < n; ++i) {
            const Header header{first.data + (row + i) * first.bytes};
            centre[i] = static_cast<std::uint8_t>(header.centre(n_centres));
            add[i] = header.add();
            ++begin[centre[i] + 1];
        }
        for (std::size_t c = 0; c < n_centres; ++c) begin[c + 1] += begin[c];
        std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
        for (std::size_t i = 0; i < n; ++i) order[next[centre[i]]++] = static_cast<std::uint32_t>(i);
    }
};

class Scan {
public:
    Scan(const TransformPlan& plan, const CodeSet& set, const QueryWeights& weights, std::size_t k, int n_jobs)
        : kernels_(bilsh::kernels()),
          plan_(plan),
          set_(set),
          weights_(weights),
          k_(k),
          n_jobs_(n_jobs),
          found_(weights.n, Nearest(k)) {
        for (const Slab& slab : set.slabs)
            ends_.push_back((ends_.empty() ? 0 : ends_.back()) + 8 * slab.bytes -
                            (ends_.empty() ? 8 * header_bytes : 0));
    }

    std::vector<Nearest>& run() {
        std::vector<std::size_t> quick, slow;
        if (set_.n >= worth_integers && 8 * k_ <= set_.n) {
            integers_.resize(weights_.n);
            parallel_for(weights_.n, n_jobs_, [&](std::size_t q, int) {
                integers_[q] = std::make_unique<Integers>(weights_, q, plan_, ends_);
            });
            for (std::size_t q = 0; q < weights_.n; ++q) (integers_[q]->useful() ? quick : slow).push_back(q);
        } else {
            for (std::size_t q = 0; q < weights_.n; ++q) slow.push_back(q);
        }
        if (!quick.empty()) look(quick, slow);
        if (!slow.empty()) estimate_every_row(slow);
        return found_;
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
        const float add = plan_.add_step() * static_cast<float>(header.add());
        return (lane[0] + add) + weights_.bias[query * weights_.n_centres + centre];
    }

private:
    void look(const std::vector<std::size_t>& queries, std::vector<std::size_t>& rest) {
        CandidateSets candidates(queries, k_, set_.n, n_jobs_, [&](std::size_t q) { return integers_[q]->margin(); });
        Grid(set_.n, scan_rows, queries.size(), queries_at_once, n_jobs_)
            .run(n_jobs_,
                 [&](std::size_t row, std::size_t row_end, std::size_t query, std::size_t query_end, int worker) {
                     Candidates* own = candidates.of(worker);
                     Block block;
                     std::vector<std::int32_t> sums(scan_rows);
                     std::vector<std::uint32_t> chosen(scan_rows);
                     for (; row < row_end; row += scan_rows) {
                         block.load(set_.slabs[0], row, std::min(scan_rows, row_end - row), weights_.n_centres);
                         for (std::size_t q = query; q < query_end; ++q) {
                             poll();
                             look_at_block(block, *integers_[queries[q]], own[q], sums.data(), chosen.data());
                         }
                     }
                 });
        candidates.tell_apart(rest, [&](std::size_t query, const std::vector<Hit>& rows) {
            for (const Hit& hit : rows) take(query, static_cast<std::size_t>(hit.id), found_[query]);
        });
    }

    // Rows that even the best bits could not bring below the limit leave the block at the end of a slab: none of the k
    // smallest is among them.
    void look_at_block(const Block& block, const Integers& integers, Candidates& candidates, std::int32_t* sums,
                       std::uint32_t* chosen) const {
        kernels_.transforms.start_sums(block.centre.data(), block.add.data(), block.n, integers.start(),
                                       integers.factor(), sums);
        const std::vector<std::uint32_t>*order = &block.order, *begin = &block.begin;
        std::vector<std::uint32_t> fewer, edges;
        const std::int32_t limit = candidates.limit();
        for (std::size_t part = 0; part < set_.slabs.size(); ++part) {
            const std::size_t skip = part == 0 ? header_bytes : 0, first_bit = part == 0 ? 0 : ends_[part - 1];
            const Slab& slab = set_.slabs[part];
            const std::uint8_t* rows = slab.data + block.row * slab.bytes + skip;
            for (std::size_t c = 0; c < weights_.n_centres; ++c)
                if ((*begin)[c] < (*begin)[c + 1])
                    kernels_.transforms.add_weights(rows, slab.bytes, order->data() + (*begin)[c],
                                                    (*begin)[c + 1] - (*begin)[c], slab.bytes - skip,
                                                    integers.weights(c, first_bit), sums);
            if (part + 1 == set_.slabs.size() || limit == std::numeric_limits<std::int32_t>::max()) continue;
            std::vector<std::uint32_t> stay, stay_begin{0};
            stay.reserve(order->size());
            for (std::size_t c = 0; c < weights_.n_centres; ++c) {
                const std::int32_t most = limit - integers.best_rest(c, part);
                for (std::uint32_t i = (*begin)[c]; i < (*begin)[c + 1]; ++i)
                    if (sums[(*order)[i]] <= most) stay.push_back((*order)[i]);
                stay_begin.push_back(static_cast<std::uint32_t>(stay.size()));
            }
            if (worth_pruning * stay.size() > block.n) continue;
            std::vector<std::int32_t> kept;
            for (const std::uint32_t i : stay) kept.push_back(sums[i]);
            for (const std::uint32_t i : *order) sums[i] = std::numeric_limits<std::int32_t>::max();
            for (std::size_t i = 0; i < stay.size(); ++i) sums[stay[i]] = kept[i];
            fewer.swap(stay);
            edges.swap(stay_begin);
            order = &fewer;
            begin = &edges;
        }
        candidates.push_rows(kernels_, set_, block.row, block.n, sums, chosen);
    }

    void take(std::size_t query, std::size_t row, Nearest& best) const {
        best.push({key_of(-estimate(query, row)), set_.id(row)});
    }

    void estimate_every_row(const std::vector<std::size_t>& queries) {
        std::vector<std::vector<Nearest>> found(static_cast<std::size_t>(n_jobs_),
                                                std::vector<Nearest>(queries.size(), Nearest(k_)));
        Grid(set_.n, scan_rows, queries.size(), queries_at_once, n_jobs_)
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
    std::vector<std::size_t> ends_;  // bits up to the end of each slab, headers apart
    std::vector<std::unique_ptr<Integers>> integers_;
    std::vector<Nearest> found_;
};

}  // namespace

void TransformPlan::top_k(const float* q, std::size_t n, const CodeSet& set, std::size_t k, std::int64_t* ids,
                          float* estimates, std::atomic<bool>* nonfinite, int n_jobs) const {
    k = std::min(k, set.count_alive());
    if (k == 0) return;
    const int scanners = threads_for(2.0 * scan_nanoseconds(n, set.n, set.bytes()), n_jobs);
    const std::size_t batch = queries_per_batch();
    std::size_t at = 0;
    for (std::size_t start = 0; start < n; start += batch) {
        const std::size_t some = std::min(batch, n - start);
        const QueryWeights made = weights(q + start * d_, some, nonfinite, n_jobs);
        if (nonfinite->load()) return;
        Scan scan(*this, set, made, k, scanners);
        for (Nearest& best : scan.run())
            for (const Hit& hit : best.sorted()) {
                ids[at] = hit.id;
                estimates[at++] = -score_of(hit.distance);
            }
    }
}

void TransformPlan::rows(const float* q, std::size_t n, const CodeSet& set, const std::int64_t* rows,
                         std::size_t per_query, float* estimates, std::atomic<bool>* nonfinite, int n_jobs) const {
    const std::size_t batch = queries_per_batch();
    for (std::size_t start = 0; start < n; start += batch) {
        const std::size_t some = std::min(batch, n - start);
        const QueryWeights made = weights(q + start * d_, some, nonfinite, n_jobs);
        if (nonfinite->load()) return;
        const Scan scan(*this, set, made, 1, n_jobs);
        parallel_for(some, n_jobs, [&](std::size_t i, int) {
            for (std::size_t j = (start + i) * per_query; j < (start + i + 1) * per_query; ++j)
                estimates[j] = scan.estimate(i, static_cast<std::size_t>(rows[j]));
        });
    }
}

}  // namespace bilsh
