#include "progressive.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <numeric>

#include "blocks.h"
#include "hamming_kernels.h"
#include "nearest.h"
#include "row_block.h"
#include "shortlist.h"
#include "threads.h"

namespace bilsh {
namespace {

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

    explicit Scratch(const HammingKernels& kernels) : chosen(block_rows), rows(kernels) {}
};

// Stages run one after the other over all rows, and the bound T moves only between stages. So what is kept depends
// on the data alone, whatever thread did which part.
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

    std::vector<Nearest>& run() {
        const std::size_t stages = set_.slabs.size();
        for (std::size_t stage = 0; stage < stages; ++stage) {
            const auto start = std::chrono::steady_clock::now();
            if (stage == 0)
                compare_first();
            else
                compare(stage);
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
    template <class Task>  // task(index, scratch)
    void parallel(std::size_t n_tasks, const Task& task) {
        parallel_for(n_tasks, n_jobs_, [&](std::size_t index, int worker) {
            task(index, scratch_[static_cast<std::size_t>(worker)]);
        });
    }

    const std::uint8_t* part(std::size_t query, std::size_t stage) const { return queries_.at(query) + offsets_[stage]; }

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

    // The first slab of all rows; the closest items of each query are its seeds. Their full distances give T, and T
    // says who goes on: from the distances, if they were kept; else mostly those of the shortlist, and where it is too
    // short the first slab is read again.
    void compare_first() {
        std::vector<std::size_t> every(queries_.n);
        for (std::size_t query = 0; query < queries_.n; ++query) every[query] = query;
        const Parts parts(*this, every, 0);
        parallel(n_blocks_, [&](std::size_t block, Scratch& scratch) {
            tiled(0, block, parts, scratch,
                  [&](std::size_t query, std::size_t row, std::size_t n_rows, const std::int32_t* distances) {
                      if (first_) std::copy_n(distances, n_rows, first_.get() + query * set_.n + row);
                      Shortlist& list = scratch.shortlists[query];
                      const std::size_t found = kernels_.select(distances, n_rows, list.bound() - 1, scratch.chosen.data());
                      for (std::size_t i = 0; i < found; ++i) {
                          const std::size_t at = scratch.chosen[i];
                          if (set_.is_alive(row + at))
                              list.push({distances[at], static_cast<std::int64_t>(row + at)});
                      }
                  });
        });
        scratch_[0].survivors[0] += static_cast<std::int64_t>(queries_.n * set_.n);
        std::vector<char> again(queries_.n);
        parallel(queries_.n, [&](std::size_t query, Scratch& scratch) {
            Shortlist& list = scratch_[0].shortlists[query];
            for (std::size_t worker = 1; worker < scratch_.size(); ++worker)
                list.absorb(scratch_[worker].shortlists[query]);
            list.close();
            std::vector<Hit>& hits = list.hits();
            const std::size_t n_seeds = std::min(n_seeds_, hits.size());
            std::partial_sort(hits.begin(), hits.begin() + static_cast<std::ptrdiff_t>(n_seeds), hits.end());
            evaluate(query, 0, hits.data(), n_seeds, scratch);
            if (first_) return choose(query, scratch);
            const std::int32_t limit = limit_after(0, query);
            again[query] = limit >= list.bound();
            if (again[query]) return;
            std::sort(hits.begin(), hits.end(), [](const Hit& a, const Hit& b) { return a.id < b.id; });
            for (const Hit& hit : hits)
                if (hit.distance <= limit) add(items_[query], hit);
        });
        std::vector<std::size_t> queries;
        for (std::size_t query = 0; query < queries_.n; ++query)
            if (again[query]) queries.push_back(query);
        if (!queries.empty()) collect(queries);
    }

    static void add(Items& items, const Hit& hit) {
        items.rows.push_back(static_cast<std::uint32_t>(hit.id));
        items.distances.push_back(hit.distance);
    }

    // The items that pass the first slab, by the distances kept of it.
    void choose(std::size_t query, Scratch& scratch) {
        const std::int32_t* distances = first_.get() + query * set_.n;
        const std::int32_t limit = limit_after(0, query);
        Items& items = items_[query];
        std::size_t total = 0;
        for (std::size_t row = 0; row < set_.n; row += block_rows) {
            const std::size_t n_rows = std::min(block_rows, set_.n - row);
            const std::size_t found = kernels_.select(distances + row, n_rows, limit, scratch.chosen.data());
            total += found;
            if (is_dense(total, set_.n)) {
                items = {true, {}, {distances, distances + set_.n}};
                return;
            }
            for (std::size_t i = 0; i < found; ++i) {
                const std::size_t at = row + scratch.chosen[i];
                if (set_.is_alive(at)) add(items, {distances[at], static_cast<std::int64_t>(at)});
            }
        }
    }

    // Looks at the first slab again for queries whose shortlist does not hold all that pass. Every sixteenth block tells
    // whether they are many.
    void collect(const std::vector<std::size_t>& queries) {
        constexpr std::size_t every = 16;
        const std::size_t n_samples = ceil_div(n_blocks_, every);
        std::vector<std::size_t> found(n_samples * queries.size());
        const Parts parts(*this, queries, 0);
        parallel(n_samples, [&](std::size_t sample, Scratch& scratch) {
            tiled(0, sample * every, parts, scratch,
                  [&](std::size_t i, std::size_t, std::size_t n_rows, const std::int32_t* distances) {
                      found[i * n_samples + sample] +=
                          kernels_.select(distances, n_rows, limit_after(0, queries[i]), scratch.chosen.data());
                  });
        });
        std::size_t n_sampled = 0;
        for (std::size_t block = 0; block < n_blocks_; block += every)
            n_sampled += std::min(block_rows, set_.n - block * block_rows);
        std::vector<std::size_t> few, many;
        for (std::size_t i = 0; i < queries.size(); ++i) {
            const auto counts = found.begin() + static_cast<std::ptrdiff_t>(i * n_samples);
            const std::size_t n = std::accumulate(counts, counts + static_cast<std::ptrdiff_t>(n_samples), std::size_t{0});
            (is_dense(n, n_sampled) ? many : few).push_back(queries[i]);
        }
        for (const std::size_t query : many) {
            items_[query].all = true;
            items_[query].distances.resize(set_.n);
        }
        if (!many.empty()) add_all(0, many);
        if (!few.empty()) list(few);
    }

    void list(const std::vector<std::size_t>& queries) {
        std::vector<Items> found(queries.size() * n_blocks_);
        const Parts parts(*this, queries, 0);
        parallel(n_blocks_, [&](std::size_t block, Scratch& scratch) {
            tiled(0, block, parts, scratch,
                  [&](std::size_t i, std::size_t row, std::size_t n_rows, const std::int32_t* distances) {
                      const std::size_t n =
                          kernels_.select(distances, n_rows, limit_after(0, queries[i]), scratch.chosen.data());
                      for (std::size_t j = 0; j < n; ++j) {
                          const std::size_t at = scratch.chosen[j];
                          if (set_.is_alive(row + at))
                              add(found[i * n_blocks_ + block], {distances[at], static_cast<std::int64_t>(row + at)});
                      }
                  });
        });
        parallel(queries.size(), [&](std::size_t i, Scratch&) {
            Items& items = items_[queries[i]];
            for (std::size_t block = 0; block < n_blocks_; ++block) {
                const Items& more = found[i * n_blocks_ + block];
                items.rows.insert(items.rows.end(), more.rows.begin(), more.rows.end());
                items.distances.insert(items.distances.end(), more.distances.begin(), more.distances.end());
            }
        });
    }

    // Where more than a fifth of the rows is left, the tiled pass over all is cheaper than picking them one by one.
    static bool is_dense(std::size_t found, std::size_t n_rows) { return 5 * found > n_rows; }

    void add_all(std::size_t stage, const std::vector<std::size_t>& queries) {
        const Parts parts(*this, queries, stage);
        parallel(n_blocks_, [&](std::size_t block, Scratch& scratch) {
            tiled(stage, block, parts, scratch,
                  [&](std::size_t i, std::size_t row, std::size_t n_rows, const std::int32_t* distances) {
                      std::int32_t* sums = items_[queries[i]].distances.data() + row;
                      for (std::size_t r = 0; r < n_rows; ++r) sums[r] += distances[r];
                  });
        });
    }

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
                kernels_.select(distances, n_rows, std::min(limit(row), dropped - 1), scratch.chosen.data());
            auto done = std::lower_bound(evaluated.begin(), evaluated.end(), static_cast<std::uint32_t>(row));
            for (std::size_t i = 0; i < found; ++i) {
                const std::size_t at = row + scratch.chosen[i];
                while (done != evaluated.end() && *done < at) ++done;
                if ((done == evaluated.end() || *done != at) && set_.is_alive(at))
                    use(Hit{items.distances[at], static_cast<std::int64_t>(at)});
            }
        }
    }

    // Full distances of promising items, given those over slabs 0..stage: they tighten T, and are hits themselves.
    void evaluate(std::size_t query, std::size_t stage, const Hit* hits, std::size_t n, Scratch& scratch) {
        Items items;
        for (std::size_t i = 0; i < n; ++i) add(items, hits[i]);
        for (std::size_t later = stage + 1; later < set_.slabs.size(); ++later)
            gather(query, later, items, 0, n, scratch);
        for (std::size_t i = 0; i < n; ++i) best_[query].push({items.distances[i], set_.id(items.rows[i])});
        std::vector<std::uint32_t>& evaluated = evaluated_[query];
        evaluated.insert(evaluated.end(), items.rows.begin(), items.rows.end());
        std::sort(evaluated.begin(), evaluated.end());
    }

    void gather(std::size_t query, std::size_t stage, Items& items, std::size_t begin, std::size_t end, Scratch& scratch) {
        const Slab& slab = set_.slabs[stage];
        kernels_.gather(slab.data, slab.bytes, items.rows.data() + begin, end - begin, part(query, stage), slab.bytes,
                        items.distances.data() + begin);
        scratch.bytes[stage] += static_cast<std::int64_t>((end - begin) * slab.bytes);
    }

    // Drops what is too far after `stage`, and what was evaluated.
    void prune(std::size_t query, std::size_t stage, Scratch& scratch) {
        Items& items = items_[query];
        const std::int32_t limit = limit_after(stage, query);
        if (items.all) {
            std::size_t found = 0;
            for (std::size_t row = 0; row < set_.n; row += block_rows)
                found += kernels_.select(items.distances.data() + row, std::min(block_rows, set_.n - row), limit,
                                         scratch.chosen.data());
            scratch.survivors[stage + 1] += static_cast<std::int64_t>(found);
            if (is_dense(found, set_.n)) {
                for (std::int32_t& distance : items.distances) distance = distance <= limit ? distance : dropped;
                return;
            }
            Items list;
            visit(query, scratch, [&](std::size_t) { return limit; }, [&](const Hit& hit) { add(list, hit); });
            items = std::move(list);
            return;
        }
        const std::vector<std::uint32_t>& evaluated = evaluated_[query];
        std::size_t kept = 0, i = 0;
        const auto keep_until = [&](std::size_t end) {
            for (; i < end; ++i) {  // without a branch: whether an item stays is hard to foresee
                items.rows[kept] = items.rows[i];
                items.distances[kept] = items.distances[i];
                kept += items.distances[i] <= limit;
            }
        };
        for (const std::uint32_t row : evaluated) {
            const auto at = std::lower_bound(items.rows.begin() + static_cast<std::ptrdiff_t>(i), items.rows.end(), row);
            keep_until(static_cast<std::size_t>(at - items.rows.begin()));
            if (at != items.rows.end() && *at == row) ++i;
        }
        keep_until(items.rows.size());
        items.rows.resize(kept);
        items.distances.resize(kept);
        scratch.survivors[stage + 1] += static_cast<std::int64_t>(kept);
    }

    void compare(std::size_t stage) {
        parallel(queries_.n, [&](std::size_t query, Scratch& scratch) { prune(query, stage - 1, scratch); });
        struct Piece {
            std::size_t query, begin, end;
        };
        constexpr std::size_t piece = 1024;
        std::vector<Piece> pieces;
        std::vector<std::size_t> dense;
        for (std::size_t query = 0; query < queries_.n; ++query) {
            const std::size_t n = items_[query].rows.size();
            if (items_[query].all) dense.push_back(query);
            for (std::size_t begin = 0; begin < n; begin += piece)
                pieces.push_back({query, begin, std::min(begin + piece, n)});
        }
        parallel(pieces.size(), [&](std::size_t i, Scratch& scratch) {
            const Piece& p = pieces[i];
            gather(p.query, stage, items_[p.query], p.begin, p.end, scratch);
        });
        if (!dense.empty()) add_all(stage, dense);
        const bool last = stage + 1 == set_.slabs.size();
        parallel(queries_.n, [&](std::size_t query, Scratch& scratch) {
            if (last)
                finish(query, scratch);
            else
                evaluate_best(query, stage, scratch);
        });
    }

    // The best by prefix are likely the nearest: known early, they tighten T for the rest.
    void evaluate_best(std::size_t query, std::size_t stage, Scratch& scratch) {
        Nearest best(k_);
        visit(
            query, scratch, [&](std::size_t row) { return best.limit(static_cast<std::int64_t>(row)); },
            [&](const Hit& hit) { best.push(hit); });
        const std::vector<Hit>& hits = best.sorted();
        evaluate(query, stage, hits.data(), hits.size(), scratch);
    }

    // After the last slab the distances are full.
    void finish(std::size_t query, Scratch& scratch) {
        Nearest& best = best_[query];
        visit(
            query, scratch, [&](std::size_t) { return best.limit(std::numeric_limits<std::int64_t>::min()); },
            [&](const Hit& hit) {
                best.push({hit.distance, set_.id(static_cast<std::size_t>(hit.id))});
            });
    }

    const HammingKernels& kernels_;
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
    // Where nothing can be pruned, the items of a batch of queries take about 128 MB.
    const std::size_t batch = std::clamp<std::size_t>((std::size_t{1} << 25) / set.n, 16, 256);
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
