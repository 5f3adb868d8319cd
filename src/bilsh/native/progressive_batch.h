// A progressive search of some queries: what is known of each, and the steps that the slabs share.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>

#include "blocks.h"
#include "kernels.h"
#include "nearest.h"
#include "progressive.h"
#include "row_block.h"
#include "shortlist.h"
#include "threads.h"

namespace bilsh::progressive {

constexpr std::size_t block_rows = 2048;
constexpr std::size_t most_stored = 1 << 20;  // first-slab distances worth keeping: more would leave the cache
constexpr std::int32_t dropped = 1 << 30;     // the distance of rows that have been dropped but not removed

// Items that a query still considers, ascending, and their distances so far. While they are many it is cheaper to keep
// the distances of all rows and no list.
struct Items {
    bool all = false;
    std::vector<std::uint32_t> rows;
    std::vector<std::int32_t> distances;
};

// What one thread writes while it works.
struct Scratch {
    std::vector<std::uint32_t> chosen;
    std::vector<std::int64_t> survivors, bytes;
    std::vector<Shortlist> shortlists;
    RowBlock rows;

    explicit Scratch(const Kernels& kernels) : chosen(block_rows), rows(kernels) {}
};

// Stages run one after the other over all rows, and the bound T moves only between stages. So what is kept depends
// on the data alone, whatever thread did which part.
class Batch {
public:
    Batch(const Queries& queries, const CodeSet& set, std::size_t k, const Limits& limits, std::size_t seeds,
          int n_jobs, Effort& effort)
        : kernels_(bilsh::kernels()),
          queries_(queries),
          set_(set),
          k_(k),
          limits_(limits),
          n_seeds_(std::max(seeds, k)),
          n_jobs_(n_jobs),
          effort_(effort),
          n_blocks_(ceil_div(set.n, block_rows)),
          first_(queries.n * set.n <= most_stored ? new std::int32_t[queries.n * set.n] : nullptr),
          items_(queries.n),
          evaluated_(queries.n),
          best_(queries.n, Nearest(k)),
          scratch_(static_cast<std::size_t>(n_jobs), Scratch(kernels_)) {
        std::size_t offset = 0;
        for (const Slab& slab : set.slabs) {
            offsets_.push_back(offset);
            offset += slab.bytes;
        }
        const std::size_t kept = first_ ? n_seeds_ : std::max<std::size_t>(2 * n_seeds_, 256);
        for (Scratch& scratch : scratch_) {
            scratch.survivors.resize(set.slabs.size());
            scratch.bytes.resize(set.slabs.size());
            scratch.shortlists.assign(queries.n, Shortlist(kept, 8 * set.slabs[0].bytes));
        }
    }

    std::vector<Nearest>& run();

private:
    template <class Task>  // task(index, scratch)
    void parallel(std::size_t n_tasks, const Task& task) {
        parallel_for(n_tasks, n_jobs_,
                     [&](std::size_t index, int worker) { task(index, scratch_[static_cast<std::size_t>(worker)]); });
    }

    const std::uint8_t* part(std::size_t query, std::size_t stage) const {
        return queries_.at(query) + offsets_[stage];
    }

    std::int32_t limit_after(std::size_t stage, std::size_t query) const {
        const Nearest& best = best_[query];
        return limits_.at(stage, best.full() ? best.worst() : std::numeric_limits<std::int32_t>::max());
    }

    // What some queries hold of one slab.
    struct Parts {
        std::size_t n;
        std::vector<std::uint8_t> bytes;
        QueryBlock block;

        Parts(const Batch& batch, const std::vector<std::size_t>& queries, std::size_t stage)
            : n(queries.size()),
              bytes(copy(batch, queries, stage)),
              block(batch.kernels_, {bytes.data(), n, batch.set_.slabs[stage].bytes}, &batch.set_.slabs[stage], 1,
                    batch.set_.n) {}

        static std::vector<std::uint8_t> copy(const Batch& batch, const std::vector<std::size_t>& queries,
                                              std::size_t stage) {
            std::vector<std::uint8_t> bytes;
            for (const std::size_t query : queries)
                bytes.insert(bytes.end(), batch.part(query, stage),
                             batch.part(query, stage) + batch.set_.slabs[stage].bytes);
            return bytes;
        }
    };

    // Distances of a block of rows over one slab to some queries, a few at a time: use(i, distances) for queries[i].
    template <class Use>
    void tiled(std::size_t stage, std::size_t block, const Parts& parts, Scratch& scratch, const Use& use) {
        const Slab& slab = set_.slabs[stage];
        const std::size_t row = block * block_rows, end = std::min(row + block_rows, set_.n);
        const std::size_t step = parts.block.rows(), together = parts.block.together();
        for (std::size_t first = row; first < end; first += step) {
            const std::size_t n_rows = std::min(step, end - first);
            scratch.rows.load(parts.block, &slab, 1, first, n_rows, parts.n);
            for (std::size_t q = 0; q < parts.n; q += together) {
                const std::size_t n = std::min(together, parts.n - q);
                const std::int32_t* distances = scratch.rows.compare(parts.block, q, n);
                for (std::size_t i = 0; i < n; ++i) use(q + i, first, n_rows, distances + i * scratch.rows.stride());
            }
        }
        scratch.bytes[stage] += static_cast<std::int64_t>((end - row) * parts.n * slab.bytes);
    }

    void compare_first();

    static void add(Items& items, const Hit& hit) {
        items.rows.push_back(static_cast<std::uint32_t>(hit.id));
        items.distances.push_back(hit.distance);
    }

    void choose(std::size_t query, Scratch& scratch);
    void collect(const std::vector<std::size_t>& queries);
    void list(const std::vector<std::size_t>& queries);

    // Where more than a fifth of the rows is left, the tiled pass over all is cheaper than picking them one by one.
    static bool is_dense(std::size_t found, std::size_t n_rows) { return 5 * found > n_rows; }

    void add_all(std::size_t stage, const std::vector<std::size_t>& queries);

    // Calls use({distance, row}) for the living items of a query, not evaluated, with a distance up to limit(row).
    template <class Limit, class Use>
    void visit(std::size_t query, Scratch& scratch, const Limit& limit, const Use& use) {
        const Items& items = items_[query];
        if (!items.all) {
            for (std::size_t i = 0; i < items.rows.size(); ++i)
                if (items.distances[i] <= limit(items.rows[i])) use(Hit{items.distances[i], items.rows[i]});
            return;
        }
        const std::vector<std::uint32_t>& evaluated = evaluated_[query];
        for (std::size_t row = 0; row < set_.n; row += block_rows) {
            const std::int32_t* distances = items.distances.data() + row;
            const std::size_t n_rows = std::min(block_rows, set_.n - row);
            const std::size_t found =
                kernels_.hamming.select(distances, n_rows, std::min(limit(row), dropped - 1), scratch.chosen.data());
            auto done = std::lower_bound(evaluated.begin(), evaluated.end(), static_cast<std::uint32_t>(row));
            for (std::size_t i = 0; i < found; ++i) {
                const std::size_t at = row + scratch.chosen[i];
                while (done != evaluated.end() && *done < at) ++done;
                if ((done == evaluated.end() || *done != at) && set_.is_alive(at))
                    use(Hit{items.distances[at], static_cast<std::int64_t>(at)});
            }
        }
    }

    void evaluate(std::size_t query, std::size_t stage, const Hit* hits, std::size_t n, Scratch& scratch);
    void gather(std::size_t query, std::size_t stage, Items& items, std::size_t begin, std::size_t end,
                Scratch& scratch);
    void prune(std::size_t query, std::size_t stage, Scratch& scratch);
    void compare(std::size_t stage);
    void evaluate_best(std::size_t query, std::size_t stage, Scratch& scratch);
    void finish(std::size_t query, Scratch& scratch);

    const Kernels& kernels_;
    const Queries queries_;
    const CodeSet& set_;
    const std::size_t k_;
    const Limits limits_;
    const std::size_t n_seeds_;
    const int n_jobs_;
    Effort& effort_;
    const std::size_t n_blocks_;
    std::vector<std::size_t> offsets_;                   // of each slab's bytes in a query
    std::unique_ptr<std::int32_t[]> first_;              // (query, row) distances over the first slab, if not too many
    std::vector<Items> items_;                           // of each query
    std::vector<std::vector<std::uint32_t>> evaluated_;  // rows whose full distance is known, ascending
    std::vector<Nearest> best_;
    std::vector<Scratch> scratch_;
};

}  // namespace bilsh::progressive
