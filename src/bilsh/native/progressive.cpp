// The later slabs of a progressive search: those who go on are compared further, until the distances are full.
#include "progressive.h"

#include "progressive_batch.h"

namespace bilsh {
namespace progressive {

std::vector<Nearest>& Batch::run() {
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

void Batch::add_all(std::size_t stage, const std::vector<std::size_t>& queries) {
    const Parts parts(*this, queries, stage);
    parallel(n_blocks_, [&](std::size_t block, Scratch& scratch) {
        tiled(stage, block, parts, scratch,
              [&](std::size_t i, std::size_t row, std::size_t n_rows, const std::int32_t* distances) {
                  std::int32_t* sums = items_[queries[i]].distances.data() + row;
                  for (std::size_t r = 0; r < n_rows; ++r) sums[r] += distances[r];
              });
    });
}

// Full distances of promising items, given those over slabs 0..stage: they tighten T, and are hits themselves.
void Batch::evaluate(std::size_t query, std::size_t stage, const Hit* hits, std::size_t n, Scratch& scratch) {
    Items items;
    for (std::size_t i = 0; i < n; ++i) add(items, hits[i]);
    for (std::size_t later = stage + 1; later < set_.slabs.size(); ++later) gather(query, later, items, 0, n, scratch);
    for (std::size_t i = 0; i < n; ++i) best_[query].push({items.distances[i], set_.id(items.rows[i])});
    std::vector<std::uint32_t>& evaluated = evaluated_[query];
    evaluated.insert(evaluated.end(), items.rows.begin(), items.rows.end());
    std::sort(evaluated.begin(), evaluated.end());
}

void Batch::gather(std::size_t query, std::size_t stage, Items& items, std::size_t begin, std::size_t end,
                   Scratch& scratch) {
    const Slab& slab = set_.slabs[stage];
    kernels_.hamming.gather(slab.data, slab.bytes, items.rows.data() + begin, end - begin, part(query, stage),
                            slab.bytes, items.distances.data() + begin);
    scratch.bytes[stage] += static_cast<std::int64_t>((end - begin) * slab.bytes);
}

// Drops what is too far after `stage`, and what was evaluated.
void Batch::prune(std::size_t query, std::size_t stage, Scratch& scratch) {
    Items& items = items_[query];
    const std::int32_t limit = limit_after(stage, query);
    if (items.all) {
        std::size_t found = 0;
        for (std::size_t row = 0; row < set_.n; row += block_rows)
            found += kernels_.hamming.select(items.distances.data() + row, std::min(block_rows, set_.n - row), limit,
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

void Batch::compare(std::size_t stage) {
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
void Batch::evaluate_best(std::size_t query, std::size_t stage, Scratch& scratch) {
    Counted best(k_, 8 * (offsets_[stage] + set_.slabs[stage].bytes), true);
    visit(
        query, scratch, [&](std::size_t) { return best.limit(); },
        [&](const Hit& hit) { best.push(hit.distance, hit.id); });
    const std::vector<Hit>& hits = best.sorted();
    evaluate(query, stage, hits.data(), hits.size(), scratch);
}

// After the last slab the distances are full.
void Batch::finish(std::size_t query, Scratch& scratch) {
    Nearest& best = best_[query];
    visit(
        query, scratch, [&](std::size_t) { return best.limit(std::numeric_limits<std::int64_t>::min()); },
        [&](const Hit& hit) { best.push({hit.distance, set_.id(static_cast<std::size_t>(hit.id))}); });
}

}  // namespace progressive

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
    n_jobs = threads_for(scan_nanoseconds(queries.n, set.n, set.slabs[0].bytes), n_jobs);
    // Where nothing can be pruned, the items of a batch of queries take about 128 MB.
    const std::size_t batch = std::clamp<std::size_t>((std::size_t{1} << 25) / set.n, 16, 256);
    for (std::size_t start = 0; start < queries.n; start += batch) {
        const Queries part{queries.at(start), std::min(batch, queries.n - start), queries.bytes};
        progressive::Batch work(part, set, k, limits, seeds, n_jobs, effort);
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
