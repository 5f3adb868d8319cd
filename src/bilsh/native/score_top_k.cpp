// The largest scores: found by their digits, then told apart by the scores themselves.
#include <algorithm>
#include <limits>
#include <vector>

#include "candidates.h"
#include "digits.h"
#include "kernels.h"
#include "nearest.h"
#include "score_tables.h"

namespace bilsh {
namespace {

constexpr std::size_t worth_digits = 2048;   // rows; fewer are scored before the digits are made
constexpr std::size_t queries_at_once = 64;  // that share packed rows
constexpr std::size_t worth_packing = 3;     // queries
constexpr std::size_t touched_bytes = 1024;  // of each row of a block, which stay in the second-level cache
// Rows and bytes of codes that are packed together: they stay in the first-level cache while all queries pass, and the
// queries' tables of so many bytes in the second-level one.
constexpr std::size_t packed_rows = 64, packed_panel = 128;

// One batch of queries, whose tables are in memory together.
class Batch {
public:
    Batch(const Weights& weights, std::size_t start, std::size_t n, const CodeSet& set, std::size_t k, int n_jobs)
        : kernels_(bilsh::kernels()), set_(set), k_(k), n_jobs_(n_jobs), tables_(n), digits_(n), found_(n, Nearest(k)) {
        const std::size_t n_bytes = set.bytes();
        const bool worth = kernels_.scores.lanes != 0 && set.n >= worth_digits && 8 * k <= set.n;
        parallel_for(n, n_jobs, [&](std::size_t q, int) {
            tables_[q].build(kernels_.scores, weights, start + q, n_bytes);
            if (worth)
                digits_[q].build(kernels_.scores, tables_[q], set.slabs,
                                 static_cast<double>(k) / static_cast<double>(set.n));
        });
    }

    std::vector<Nearest>& run() {
        std::vector<std::size_t> by_digits, by_scores;
        for (std::size_t q = 0; q < tables_.size(); ++q) (digits_[q].useful() ? by_digits : by_scores).push_back(q);
        if (!by_digits.empty()) look(by_digits, by_scores);
        if (!by_scores.empty()) score_every_row(by_scores);
        return found_;
    }

private:
    // Digits of all rows; the candidates they leave are scored. Queries that they leave too many of go to `rest`.
    void look(const std::vector<std::size_t>& queries, std::vector<std::size_t>& rest) {
        CandidateSets candidates(queries, k_, set_.n, n_jobs_, [&](std::size_t q) { return digits_[q].margin(); });
        const std::size_t block = queries.size() < worth_packing ? 256 : 512;  // rows
        Grid(set_.n, block, queries.size(), queries_at_once, n_jobs_)
            .run(n_jobs_,
                 [&](std::size_t row, std::size_t row_end, std::size_t query, std::size_t query_end, int worker) {
                     Candidates* own = candidates.of(worker);
                     Space space;
                     for (; row < row_end; row += block)
                         for (std::size_t first = query; first < query_end; first += queries_at_once) {
                             poll();
                             const std::size_t n = std::min(queries_at_once, query_end - first);
                             look_at_block(row, std::min(block, row_end - row), queries.data() + first, n, own + first,
                                           space);
                         }
                 });
        candidates.tell_apart(rest, [&](std::size_t query, const std::vector<Hit>& rows) { score_rows(query, rows); });
    }

    struct Space {
        std::vector<std::uint8_t> packed;
        std::vector<DigitTables> tables;
        std::vector<std::int32_t> sums;
        std::vector<std::uint32_t> chosen;
    };

    void look_at_block(std::size_t row, std::size_t n_rows, const std::size_t* queries, std::size_t n_queries,
                       Candidates* candidates, Space& space) {
        const std::size_t lanes = kernels_.scores.lanes, n_packed = n_rows / lanes * lanes;
        const bool packs = n_queries >= worth_packing;
        if (packs) space.packed.resize(2 * packed_rows * packed_panel + 63);
        std::uint8_t* packed = packs ? align_64(space.packed) : nullptr;
        space.sums.assign(n_queries * n_rows, 0);
        space.chosen.resize(n_rows);
        for (std::size_t s = 0; s < set_.slabs.size(); ++s) {
            const Slab& slab = set_.slabs[s];
            const std::uint8_t* rows = slab.data + row * slab.bytes;
            for (std::size_t j = 0; packs && j < slab.bytes; j += packed_panel) {
                if (slab.bytes <= touched_bytes && j == 0) touch(rows, n_rows * slab.bytes);
                if (slab.bytes > touched_bytes && j % touched_bytes == 0)
                    for (std::size_t r = 0; r < n_rows; ++r)
                        touch(rows + r * slab.bytes + j, std::min(touched_bytes, slab.bytes - j));
                const std::size_t n = std::min(packed_panel, slab.bytes - j);
                space.tables.clear();
                for (std::size_t q = 0; q < n_queries; ++q) space.tables.push_back(digits_[queries[q]].at(s, j));
                for (std::size_t r = 0; r < n_packed; r += packed_rows) {
                    const std::size_t together = std::min(packed_rows, n_packed - r);
                    kernels_.scores.pack(rows + r * slab.bytes + j, slab.bytes, together, n, packed);
                    kernels_.scores.add_packed_digits(packed, together, n, space.tables.data(), n_queries,
                                                      space.sums.data() + r, n_rows);
                }
            }
            for (std::size_t q = 0; !packs && q < n_queries; ++q)
                kernels_.scores.add_digits_of_rows(rows, slab.bytes, n_packed, slab.bytes, digits_[queries[q]].at(s, 0),
                                                   space.sums.data() + q * n_rows);
            for (std::size_t q = 0; q < n_queries; ++q)
                for (std::size_t r = n_packed; r < n_rows; ++r)
                    space.sums[q * n_rows + r] += digits_[queries[q]].sum(rows + r * slab.bytes, slab.bytes, s);
        }
        for (std::size_t q = 0; q < n_queries; ++q) {
            std::int32_t* keys = space.sums.data() + q * n_rows;
            for (std::size_t r = 0; r < n_rows; ++r) keys[r] = -keys[r];
            candidates[q].push_rows(kernels_, set_, row, n_rows, keys, space.chosen.data());
        }
    }

    void score_rows(std::size_t query, const std::vector<Hit>& rows) {
        for (std::size_t i = 0; i < rows.size(); i += rows_at_once) {
            float out[rows_at_once];
            const std::size_t n = std::min(rows_at_once, rows.size() - i);
            score(
                kernels_.scores, set_, tables_[query], n,
                [&](std::size_t r) { return static_cast<std::size_t>(rows[i + r].id); }, out);
            for (std::size_t r = 0; r < n; ++r)
                found_[query].push({key_of(out[r]), set_.id(static_cast<std::size_t>(rows[i + r].id))});
        }
    }

    void score_every_row(const std::vector<std::size_t>& queries) {
        std::vector<const Tables*> tables;
        for (const std::size_t q : queries) tables.push_back(&tables_[q]);
        std::vector<std::vector<Nearest>> found(static_cast<std::size_t>(n_jobs_),
                                                std::vector<Nearest>(queries.size(), Nearest(k_)));
        score_all(kernels_.scores, set_, tables.data(), queries.size(), n_jobs_,
                  [&](std::size_t query, std::size_t row, std::size_t n_rows, const float* values, int worker) {
                      std::int32_t keys[rows_at_once];
                      std::uint32_t chosen[rows_at_once];
                      for (std::size_t i = 0; i < n_rows; ++i) keys[i] = key_of(values[i]);
                      Nearest& best = found[static_cast<std::size_t>(worker)][query];
                      const std::int64_t first_id =
                          set_.ids ? std::numeric_limits<std::int64_t>::min() : static_cast<std::int64_t>(row);
                      const std::size_t n = kernels_.hamming.select(keys, n_rows, best.limit(first_id), chosen);
                      for (std::size_t i = 0; i < n; ++i)
                          if (set_.is_alive(row + chosen[i])) best.push({keys[chosen[i]], set_.id(row + chosen[i])});
                  });
        join_nearest(found, queries, found_);
    }

    const Kernels& kernels_;
    const CodeSet& set_;
    const std::size_t k_;
    const int n_jobs_;
    std::vector<Tables> tables_;
    std::vector<Digits> digits_;
    std::vector<Nearest> found_;
};

}  // namespace

void score_top_k(const Weights& weights, const CodeSet& set, std::size_t k, int n_jobs, std::int64_t* ids, float* out) {
    k = std::min(k, set.count_alive());
    if (k == 0) return;
    n_jobs = threads_for(2.0 * scan_nanoseconds(weights.n, set.n, set.bytes()), n_jobs);
    const std::size_t batch = queries_per_batch(Tables::bytes(set.bytes()) + Digits::bytes(set.bytes()));
    std::size_t at = 0;
    for (std::size_t start = 0; start < weights.n; start += batch) {
        Batch work(weights, start, std::min(batch, weights.n - start), set, k, n_jobs);
        for (Nearest& best : work.run())
            for (const Hit& hit : best.sorted()) {
                ids[at] = hit.id;
                out[at++] = score_of(hit.distance);
            }
    }
}

}  // namespace bilsh
