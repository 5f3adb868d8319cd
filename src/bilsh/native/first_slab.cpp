// The first slab of a progressive search: every row is looked at, and few go on.
#include <numeric>

#include "progressive_batch.h"

namespace bilsh::progressive {

// The first slab of all rows; the closest items of each query are its seeds. Their full distances give T, and T
// says who goes on: from the distances, if they were kept; else mostly those of the shortlist, and where it is too
// short the first slab is read again.
void Batch::compare_first() {
    std::vector<std::size_t> every(queries_.n);
    for (std::size_t query = 0; query < queries_.n; ++query) every[query] = query;
    const Parts parts(*this, every, 0);
    parallel(n_blocks_, [&](std::size_t block, Scratch& scratch) {
        tiled(0, block, parts, scratch,
              [&](std::size_t query, std::size_t row, std::size_t n_rows, const std::int32_t* distances) {
                  if (first_) std::copy_n(distances, n_rows, first_.get() + query * set_.n + row);
                  Shortlist& list = scratch.shortlists[query];
                  const std::size_t found =
                      kernels_.hamming.select(distances, n_rows, list.bound() - 1, scratch.chosen.data());
                  for (std::size_t i = 0; i < found; ++i) {
                      const std::size_t at = scratch.chosen[i];
                      if (set_.is_alive(row + at)) list.push({distances[at], static_cast<std::int64_t>(row + at)});
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
        if (n_seeds < hits.size())
            std::nth_element(hits.begin(), hits.begin() + static_cast<std::ptrdiff_t>(n_seeds), hits.end());
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

// The items that pass the first slab, by the distances kept of it.
void Batch::choose(std::size_t query, Scratch& scratch) {
    const std::int32_t* distances = first_.get() + query * set_.n;
    const std::int32_t limit = limit_after(0, query);
    Items& items = items_[query];
    std::size_t total = 0;
    for (std::size_t row = 0; row < set_.n; row += block_rows) {
        const std::size_t n_rows = std::min(block_rows, set_.n - row);
        const std::size_t found = kernels_.hamming.select(distances + row, n_rows, limit, scratch.chosen.data());
        total += found;
        if (is_dense(total, set_.n)) {
            items = {true, {}, {distances, distances + set_.n}};
            return;
        }
        std::size_t end = items.rows.size();
        items.rows.resize(end + found);
        items.distances.resize(end + found);
        for (std::size_t i = 0; i < found; ++i) {
            const std::size_t at = row + scratch.chosen[i];
            items.rows[end] = static_cast<std::uint32_t>(at);
            items.distances[end] = distances[at];
            end += set_.is_alive(at);
        }
        items.rows.resize(end);
        items.distances.resize(end);
    }
}

// Looks at the first slab again for queries whose shortlist does not hold all that pass. Every sixteenth block tells
// whether they are many.
void Batch::collect(const std::vector<std::size_t>& queries) {
    constexpr std::size_t every = 16;
    const std::size_t n_samples = ceil_div(n_blocks_, every);
    std::vector<std::size_t> found(n_samples * queries.size());
    const Parts parts(*this, queries, 0);
    parallel(n_samples, [&](std::size_t sample, Scratch& scratch) {
        tiled(0, sample * every, parts, scratch,
              [&](std::size_t i, std::size_t, std::size_t n_rows, const std::int32_t* distances) {
                  found[i * n_samples + sample] +=
                      kernels_.hamming.select(distances, n_rows, limit_after(0, queries[i]), scratch.chosen.data());
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

void Batch::list(const std::vector<std::size_t>& queries) {
    std::vector<Items> found(queries.size() * n_blocks_);
    const Parts parts(*this, queries, 0);
    parallel(n_blocks_, [&](std::size_t block, Scratch& scratch) {
        tiled(0, block, parts, scratch,
              [&](std::size_t i, std::size_t row, std::size_t n_rows, const std::int32_t* distances) {
                  const std::size_t n =
                      kernels_.hamming.select(distances, n_rows, limit_after(0, queries[i]), scratch.chosen.data());
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

}  // namespace bilsh::progressive
