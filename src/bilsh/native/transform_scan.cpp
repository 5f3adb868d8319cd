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
    float scale(const TransformPlan& plan) const { return plan.scale(code[1]); }
    float add(const TransformPlan& plan) const { return plan.add(code[2]); }
};

// Integers that rank as estimates do, but for known errors: estimates in units of 2^-29 of the largest, where a sum of
// real weights is replaced by one of 16-bit integers. The errors of weights add up to their sums, by sign; integers are
// off by half a unit; float32 operations by their rounding (Higham, section 4.2), here and in the estimates.
class Integers {
public:
    Integers(const QueryWeights& from, std::size_t query, const TransformPlan& plan,
             const std::vector<std::size_t>& ends)
        : stride_(from.stride), n_parts_(ends.size()) {
        const double scale = double{plan.scale(scale_levels - 1)};
        const double add = std::max(std::fabs(double{plan.add(0)}), std::fabs(double{plan.add(255)}));
        std::vector<double> steps(from.n_centres);
        double size = 0.0;
        for (std::size_t c = 0; c < from.n_centres; ++c) {
            const float* w = from.at(query, c);
            double widest = 0.0, sum = std::fabs(double{from.bias[query * from.n_centres + c]});
            for (std::size_t r = 0; r < stride_; ++r) {
                sum += std::fabs(double{w[r]});
                widest = std::max(widest, std::fabs(double{w[r]}));
            }
            steps[c] = std::max({widest / 32767.0, sum / double{1 << 30}, 1e-30});
            size = std::max(size, double{from.far[query * from.n_centres + c]} + scale * (sum + scale * add));
        }
        const double unit = size / double{1 << 29};
        if (!std::isfinite(size) || !(unit > 1e-30)) return;
        weights_.resize(from.n_centres * stride_);
        best_rest_.resize(from.n_centres * n_parts_);
        double over = 0.0, under = 0.0;
        for (std::size_t c = 0; c < from.n_centres; ++c) {
            const float* w = from.at(query, c);
            std::int16_t* whole = weights_.data() + c * stride_;
            double above = 0.0, below = 0.0;
            std::int32_t* rest = best_rest_.data() + c * n_parts_;
            for (std::size_t r = 0; r < stride_; ++r) {
                whole[r] = static_cast<std::int16_t>(std::lrint(double{w[r]} / steps[c]));
                const double off = double{w[r]} / steps[c] - whole[r];
                (off > 0 ? above : below) += off;
                for (std::size_t part = 0; part < n_parts_ && r >= ends[part]; ++part)
                    rest[part] += std::min<std::int32_t>(whole[r], 0);
            }
            over = std::max(over, above * steps[c]);
            under = std::min(under, below * steps[c]);
            const std::size_t at = query * from.n_centres + c;
            rankings_.push_back({static_cast<float>(double{from.far[at]} / unit),
                                 static_cast<float>(double{from.bias[at]} / unit), static_cast<float>(steps[c] / unit),
                                 static_cast<float>(1.0 / unit)});
        }
        const double additions = 24.0 + static_cast<double>(stride_ / bit_lanes);
        const double rounding = additions * 0x1p-24 / (1.0 - additions * 0x1p-24) * double{1 << 29};
        const double margin = scale * (over - under) / unit + 2.0 * (1.0 + rounding) + 2.0;
        if (margin < double{1 << 28}) margin_ = static_cast<std::int32_t>(margin);
    }

    bool useful() const { return margin_ > 0; }
    std::int32_t margin() const { return margin_; }
    const std::int16_t* weights(std::size_t centre, std::size_t bit) const {
        return weights_.data() + centre * stride_ + bit;
    }
    const Ranking& ranking(std::size_t centre) const { return rankings_[centre]; }
    // The least that the bits after a part can add.
    std::int32_t best_rest(std::size_t centre, std::size_t part) const { return best_rest_[centre * n_parts_ + part]; }

private:
    std::size_t stride_, n_parts_;
    std::vector<std::int16_t> weights_;
    std::vector<std::int32_t> best_rest_;
    std::vector<Ranking> rankings_;
    std::int32_t margin_ = 0;
};

// Some rows of a block by their centres, with what their headers say.
struct Rows {
    std::vector<std::uint32_t> order, begin;  // rows of the block; where each centre's begin
    std::vector<float> scale, add;            // add: scale^2 times what is added

    std::size_t size() const { return order.size(); }
    void clear() {
        order.clear();
        scale.clear();
        add.clear();
        begin.assign(1, 0);
    }
    void push(const Rows& from, std::size_t i) {
        order.push_back(from.order[i]);
        scale.push_back(from.scale[i]);
        add.push_back(from.add[i]);
    }
};

struct Block {
    std::size_t row = 0;
    Rows rows;
    std::vector<std::uint8_t> centre;
    std::vector<std::uint32_t> next;

    void load(const TransformPlan& plan, const Slab& first, std::size_t from, std::size_t n) {
        const std::size_t n_centres = plan.n_centres();
        row = from;
        centre.resize(n);
        rows.order.resize(n);
        rows.scale.resize(n);
        rows.add.resize(n);
        rows.begin.assign(n_centres + 1, 0);
        const std::uint8_t* data = first.data + row * first.bytes;
        for (std::size_t i = 0; i < n; ++i) {
            centre[i] = static_cast<std::uint8_t>(Header{data + i * first.bytes}.centre(n_centres));
            ++rows.begin[centre[i] + 1];
        }
        for (std::size_t c = 0; c < n_centres; ++c) rows.begin[c + 1] += rows.begin[c];
        next.assign(rows.begin.begin(), rows.begin.end() - 1);
        for (std::size_t i = 0; i < n; ++i) {
            const Header header{data + i * first.bytes};
            const std::size_t at = next[centre[i]]++;
            const float scale = header.scale(plan);
            rows.order[at] = static_cast<std::uint32_t>(i);
            rows.scale[at] = scale;
            rows.add[at] = scale * scale * header.add(plan);
        }
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
        const std::size_t at = query * weights_.n_centres + centre;
        const float scale = header.scale(plan_);
        return weights_.far[at] + scale * ((lane[0] + weights_.bias[at]) + scale * header.add(plan_));
    }

private:
    void look(const std::vector<std::size_t>& queries, std::vector<std::size_t>& rest) {
        CandidateSets candidates(queries, k_, set_.n, n_jobs_, [&](std::size_t q) { return integers_[q]->margin(); });
        Grid(set_.n, scan_rows, queries.size(), queries_at_once, n_jobs_)
            .run(n_jobs_,
                 [&](std::size_t row, std::size_t row_end, std::size_t query, std::size_t query_end, int worker) {
                     Candidates* own = candidates.of(worker);
                     Block block;
                     Room room;
                     for (; row < row_end; row += scan_rows) {
                         block.load(plan_, set_.slabs[0], row, std::min(scan_rows, row_end - row));
                         for (std::size_t q = query; q < query_end; ++q) {
                             poll();
                             look_at_block(block, *integers_[queries[q]], own[q], room);
                         }
                     }
                 });
        candidates.tell_apart(rest, [&](std::size_t query, const std::vector<Hit>& rows) {
            for (const Hit& hit : rows) take(query, static_cast<std::size_t>(hit.id), found_[query]);
        });
    }

    struct Room {
        std::vector<std::int32_t> sums, ranks;
        std::vector<std::uint32_t> chosen;
        Rows fewer[2];
    };

    // Rows that even the best bits could not bring below the limit leave the block at the end of a slab: none of the k
    // smallest is among them.
    void look_at_block(const Block& block, const Integers& integers, Candidates& candidates, Room& room) const {
        const Rows* rows = &block.rows;
        room.sums.assign(rows->size(), 0);
        room.ranks.resize(rows->size());
        room.chosen.resize(rows->size());
        const std::int32_t limit = candidates.limit();
        for (std::size_t part = 0; part < set_.slabs.size(); ++part) {
            const std::size_t skip = part == 0 ? header_bytes : 0, first_bit = part == 0 ? 0 : ends_[part - 1];
            const Slab& slab = set_.slabs[part];
            const std::uint8_t* data = slab.data + block.row * slab.bytes + skip;
            const bool last = part + 1 == set_.slabs.size();
            const bool prunes = !last && limit != std::numeric_limits<std::int32_t>::max();
            for (std::size_t c = 0; c < weights_.n_centres; ++c) {
                const std::size_t at = rows->begin[c], n = rows->begin[c + 1] - at;
                if (n == 0) continue;
                std::int32_t* sums = room.sums.data() + at;
                kernels_.transforms.add_weights(data, slab.bytes, rows->order.data() + at, n, slab.bytes - skip,
                                                integers.weights(c, first_bit), sums);
                if (last || prunes)
                    kernels_.transforms.rank(sums, last ? 0 : integers.best_rest(c, part), rows->scale.data() + at,
                                             rows->add.data() + at, n, integers.ranking(c), room.ranks.data() + at);
            }
            if (prunes) rows = those_that_stay(*rows, limit, part, room);
        }
        const std::size_t found =
            kernels_.hamming.select(room.ranks.data(), rows->size(), candidates.limit(), room.chosen.data());
        for (std::size_t i = 0; i < found; ++i) {
            const std::int32_t rank = room.ranks[room.chosen[i]];
            const std::size_t row = block.row + rows->order[room.chosen[i]];
            if (rank <= candidates.limit() && set_.is_alive(row))
                candidates.push({rank, static_cast<std::int64_t>(row)});
        }
    }

    // Rows whose ranks are within the limit, where they are few enough to be worth it.
    const Rows* those_that_stay(const Rows& rows, std::int32_t limit, std::size_t part, Room& room) const {
        const std::size_t found = kernels_.hamming.select(room.ranks.data(), rows.size(), limit, room.chosen.data());
        if (worth_pruning * found > rows.size()) return &rows;
        Rows& stay = room.fewer[part % 2];
        stay.clear();
        std::size_t i = 0;
        for (std::size_t c = 0; c < weights_.n_centres; ++c) {
            for (; i < found && room.chosen[i] < rows.begin[c + 1]; ++i) {
                room.sums[i] = room.sums[room.chosen[i]];
                stay.push(rows, room.chosen[i]);
            }
            stay.begin.push_back(static_cast<std::uint32_t>(stay.size()));
        }
        return &stay;
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
