#include "progressive.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>

#include "blocks.h"
#include "hamming_kernels.h"
#include "nearest.h"
#include "row_block.h"
#include "threads.h"

namespace bilsh {
namespace {

constexpr std::size_t cell_rows = 2048;

// The items of one block of rows that one query still considers, and their distances so far.
struct Cell {
    std::vector<std::uint32_t> rows;
    std::vector<std::int32_t> distances;
};

// What one thread writes while it works on cells.
struct Scratch {
    std::vector<std::int32_t> distances;
    std::vector<std::uint32_t> chosen;
    std::vector<std::uint8_t> queries;
    std::vector<std::int64_t> survivors, bytes;
    std::vector<Nearest> seeds;
    RowBlock rows;

    explicit Scratch(const HammingKernels& kernels) : rows(kernels) {}
};

// Stages run one after the other over all rows, and the bound T moves only between stages. So what is kept depends
// on the data alone, whatever thread did which block.
class Batch {
  public:
    Batch(const Queries& queries, const CodeSet& set, std::size_t k, const Limits& limits, std::size_t seeds, int n_jobs,
          Effort& effort)
        : kernels_(hamming_kernels()),
          queries_(queries),
          set_(set),
          k_(k),
          limits_(limits),
          n_seeds_(std::max(seeds, k)),
          n_jobs_(n_jobs),
          effort_(effort),
          n_cells_(ceil_div(set.n, cell_rows)),
          first_(new std::int32_t[queries.n * set.n]),
          cells_(queries.n * n_cells_),
          evaluated_(queries.n),
          best_(queries.n, Nearest(k)),
          scratch_(static_cast<std::size_t>(n_jobs), Scratch(kernels_)) {
        for (const Slab& slab : set.slabs) {
            offsets_.push_back(offsets_.empty() ? 0 : offsets_.back() + set.slabs[offsets_.size() - 1].bytes);
            longest_ = std::max(longest_, slab.bytes);
        }
        for (Scratch& scratch : scratch_) {
            scratch.distances.resize(group * cell_rows);
            scratch.chosen.resize(cell_rows);
            scratch.queries.resize(group * longest_);
            scratch.survivors.resize(set.slabs.size());
            scratch.bytes.resize(set.slabs.size());
            scratch.seeds.assign(queries.n, Nearest(n_seeds_));
        }
    }

    std::vector<Nearest>& run() {
        const std::size_t stages = set_.slabs.size();
        for (std::size_t stage = 0; stage < stages; ++stage) {
            const auto start = std::chrono::steady_clock::now();
            parallel_for(n_cells_, n_jobs_, [&](std::size_t cell, int worker) {
                Scratch& scratch = scratch_[static_cast<std::size_t>(worker)];
                if (stage == 0)
                    compare_first(cell, scratch);
                else
                    compare(stage, cell, scratch);
            });
            parallel_for(queries_.n, n_jobs_, [&](std::size_t query, int worker) {
                Scratch& scratch = scratch_[static_cast<std::size_t>(worker)];
                if (stage == 0)
                    evaluate(query, stage, best_by_first_slab(query), scratch);
                else if (stage + 1 < stages)
                    evaluate(query, stage, best_by_prefix(query), scratch);
                else
                    finish(query);
            });
            effort_.seconds[stage] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        }
        for (const Scratch& scratch : scratch_)
            for (std::size_t stage = 0; stage < stages; ++stage) {
                effort_.survivors[stage] += scratch.survivors[stage];
                effort_.bytes[stage] += scratch.bytes[stage];
            }
        return best_;
    }

  private:
    std::size_t rows_in(std::size_t cell) const { return std::min(cell_rows, set_.n - cell * cell_rows); }
    Cell& cell_of(std::size_t query, std::size_t cell) { return cells_[query * n_cells_ + cell]; }
    const std::uint8_t* part(std::size_t query, std::size_t stage) const { return queries_.at(query) + offsets_[stage]; }

    // The first slab of a block against all queries; each keeps its closest items as seeds.
    void compare_first(std::size_t cell, Scratch& scratch) {
        const Slab& slab = set_.slabs[0];
        const std::size_t row = cell * cell_rows, n_rows = rows_in(cell);
        scratch.rows.load(&slab, 1, row, n_rows, queries_.n);
        scratch.rows.compare(queries_.data, queries_.bytes, queries_.n, first_.get() + row, set_.n);
        for (std::size_t query = 0; query < queries_.n; ++query) {
            const std::int32_t* values = first_.get() + query * set_.n + row;
            Nearest& seeds = scratch.seeds[query];
            const std::size_t found =
                kernels_.select(values, n_rows, seeds.limit(static_cast<std::int64_t>(row)), scratch.chosen.data());
            for (std::size_t i = 0; i < found; ++i) {
                const std::size_t at = scratch.chosen[i];
                if (set_.is_alive(row + at)) seeds.push({values[at], static_cast<std::int64_t>(row + at)});
            }
        }
        scratch.survivors[0] += static_cast<std::int64_t>(n_rows * queries_.n);
        scratch.bytes[0] += static_cast<std::int64_t>(n_rows * queries_.n * slab.bytes);
    }

    std::vector<Hit> best_by_first_slab(std::size_t query) {
        Nearest& seeds = scratch_[0].seeds[query];
        for (std::size_t worker = 1; worker < scratch_.size(); ++worker) seeds.push_all(scratch_[worker].seeds[query]);
        return seeds.sorted();
    }

    std::vector<Hit> best_by_prefix(std::size_t query) {
        Nearest best(k_);
        for (std::size_t cell = 0; cell < n_cells_; ++cell) {
            const Cell& kept = cell_of(query, cell);
            for (std::size_t i = 0; i < kept.rows.size(); ++i)
                if (kept.distances[i] <= best.limit(kept.rows[i])) best.push({kept.distances[i], kept.rows[i]});
        }
        return best.sorted();
    }

    // Full distances of promising items, given those over slabs 0..stage: they tighten T, and are hits themselves.
    void evaluate(std::size_t query, std::size_t stage, const std::vector<Hit>& hits, Scratch& scratch) {
        std::vector<std::uint32_t> rows;
        for (const Hit& hit : hits) rows.push_back(static_cast<std::uint32_t>(hit.id));
        std::vector<std::int32_t> distances;
        for (const Hit& hit : hits) distances.push_back(hit.distance);
        for (std::size_t later = stage + 1; later < set_.slabs.size(); ++later) {
            const Slab& slab = set_.slabs[later];
            kernels_.gather(slab.data, slab.bytes, rows.data(), rows.size(), part(query, later), slab.bytes,
                            distances.data());
            scratch.bytes[later] += static_cast<std::int64_t>(rows.size() * slab.bytes);
        }
        for (std::size_t i = 0; i < rows.size(); ++i) best_[query].push({distances[i], set_.id(rows[i])});
        std::vector<std::uint32_t>& evaluated = evaluated_[query];
        evaluated.insert(evaluated.end(), rows.begin(), rows.end());
        std::sort(evaluated.begin(), evaluated.end());
    }

    // Those of a block that may still be near after `stage`: close enough, alive, and not evaluated already.
    void keep(std::size_t stage, std::size_t query, std::size_t cell, Scratch& scratch) {
        Cell& kept = cell_of(query, cell);
        const std::size_t row = cell * cell_rows;
        const std::int32_t* values = stage == 0 ? first_.get() + query * set_.n + row : kept.distances.data();
        const std::size_t n_values = stage == 0 ? rows_in(cell) : kept.rows.size();
        const Nearest& best = best_[query];
        const std::int32_t bound = best.full() ? best.worst() : std::numeric_limits<std::int32_t>::max();
        const std::size_t found = kernels_.select(values, n_values, limits_.at(stage, bound), scratch.chosen.data());
        if (stage == 0) {
            kept.rows.resize(found);
            kept.distances.resize(found);
        }
        const std::vector<std::uint32_t>& evaluated = evaluated_[query];
        auto done = std::lower_bound(evaluated.begin(), evaluated.end(), static_cast<std::uint32_t>(row));
        std::size_t n_kept = 0;
        for (std::size_t i = 0; i < found; ++i) {
            const std::size_t at = scratch.chosen[i];
            const std::uint32_t item = stage == 0 ? static_cast<std::uint32_t>(row + at) : kept.rows[at];
            while (done != evaluated.end() && *done < item) ++done;
            if ((done != evaluated.end() && *done == item) || !set_.is_alive(item)) continue;
            kept.distances[n_kept] = stage == 0 ? values[at] : kept.distances[at];
            kept.rows[n_kept++] = item;
        }
        kept.rows.resize(n_kept);
        kept.distances.resize(n_kept);
    }

    void compare(std::size_t stage, std::size_t cell, Scratch& scratch) {
        const Slab& slab = set_.slabs[stage];
        std::size_t dense[group], n_dense = 0;
        for (std::size_t query = 0; query < queries_.n; ++query) {
            keep(stage - 1, query, cell, scratch);
            Cell& kept = cell_of(query, cell);
            scratch.survivors[stage] += static_cast<std::int64_t>(kept.rows.size());
            // Where more than a fifth is left, the tiled pass over all rows is cheaper than picking them one by one.
            if (5 * kept.rows.size() > rows_in(cell)) {
                dense[n_dense++] = query;
                if (n_dense == group) {
                    compare_all(stage, cell, dense, n_dense, scratch);
                    n_dense = 0;
                }
                continue;
            }
            kernels_.gather(slab.data, slab.bytes, kept.rows.data(), kept.rows.size(), part(query, stage), slab.bytes,
                            kept.distances.data());
            scratch.bytes[stage] += static_cast<std::int64_t>(kept.rows.size() * slab.bytes);
        }
        if (n_dense != 0) compare_all(stage, cell, dense, n_dense, scratch);
    }

    // All rows of a block against a few queries that kept most of them.
    void compare_all(std::size_t stage, std::size_t cell, const std::size_t* queries, std::size_t n_queries,
                     Scratch& scratch) {
        const Slab& slab = set_.slabs[stage];
        const std::size_t row = cell * cell_rows, n_rows = rows_in(cell);
        for (std::size_t q = 0; q < n_queries; ++q)
            std::copy_n(part(queries[q], stage), slab.bytes, scratch.queries.data() + q * slab.bytes);
        kernels_.tile(slab.data + row * slab.bytes, slab.bytes, n_rows, scratch.queries.data(), slab.bytes, n_queries,
                      slab.bytes, scratch.distances.data(), cell_rows, false);
        for (std::size_t q = 0; q < n_queries; ++q) {
            Cell& kept = cell_of(queries[q], cell);
            const std::int32_t* distances = scratch.distances.data() + q * cell_rows;
            for (std::size_t i = 0; i < kept.rows.size(); ++i) kept.distances[i] += distances[kept.rows[i] - row];
        }
        scratch.bytes[stage] += static_cast<std::int64_t>(n_queries * n_rows * slab.bytes);
    }

    // After the last slab the distances are full.
    void finish(std::size_t query) {
        Nearest& best = best_[query];
        for (std::size_t cell = 0; cell < n_cells_; ++cell) {
            const Cell& kept = cell_of(query, cell);
            for (std::size_t i = 0; i < kept.rows.size(); ++i)
                if (kept.distances[i] <= best.limit(std::numeric_limits<std::int64_t>::min()))
                    best.push({kept.distances[i], set_.id(kept.rows[i])});
        }
    }

    const HammingKernels& kernels_;
    const Queries queries_;
    const CodeSet& set_;
    const std::size_t k_;
    const Limits limits_;
    const std::size_t n_seeds_;
    const int n_jobs_;
    Effort& effort_;
    const std::size_t n_cells_;
    std::vector<std::size_t> offsets_;                    // of each slab's bytes in a query
    std::size_t longest_ = 0;                             // bytes of the widest slab
    std::unique_ptr<std::int32_t[]> first_;               // (query, row) distances over the first slab
    std::vector<Cell> cells_;                             // (query, block)
    std::vector<std::vector<std::uint32_t>> evaluated_;   // rows whose full distance is known, ascending
    std::vector<Nearest> best_;
    std::vector<Scratch> scratch_;
};

}  // namespace

Effort progressive_top_k(const Queries& queries, const CodeSet& set, std::size_t k, const Limits& limits,
                         std::size_t seeds, int n_jobs, std::int64_t* ids, std::int32_t* distances) {
    Effort effort(set.slabs.size());
    k = std::min(k, set.count_alive());
    if (k == 0) return effort;
    if (set.slabs.size() == 1) {  // nothing to prune by
        const auto start = std::chrono::steady_clock::now();
        hamming_top_k(queries, set, k, n_jobs, ids, distances);
        effort.survivors[0] = static_cast<std::int64_t>(queries.n * set.n);
        effort.bytes[0] = effort.survivors[0] * static_cast<std::int64_t>(queries.bytes);
        effort.seconds[0] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        return effort;
    }
    // First-slab distances of a batch of queries are held to about 64 MB.
    const std::size_t batch = std::clamp<std::size_t>((std::size_t{1} << 24) / set.n, group, 256);
    for (std::size_t start = 0; start < queries.n; start += batch) {
        const Queries part{queries.at(start), std::min(batch, queries.n - start), queries.bytes};
        Batch work(part, set, k, limits, seeds, std::max(n_jobs, 1), effort);
        std::size_t at = start * k;
        for (Nearest& best : work.run())
            for (const Hit& hit : best.sorted()) {
                ids[at] = hit.id;
                distances[at++] = hit.distance;
            }
    }
    return effort;
}

}  // namespace bilsh
