#include "hamming.h"

#include <algorithm>
#include <memory>

#include "blocks.h"
#include "kernels.h"
#include "row_block.h"
#include "sliced_scan.h"

namespace bilsh {

std::size_t CodeSet::count_alive() const {
    if (!alive) return n;
    std::size_t count = 0;
    for (std::size_t byte = 0; byte < n / 8; ++byte) count += static_cast<std::size_t>(__builtin_popcount(alive[byte]));
    for (std::size_t row = n / 8 * 8; row < n; ++row) count += is_alive(row);
    return count;
}

namespace {

inline constexpr std::size_t worth_a_look = 16;              // queries for which ids are looked through
inline constexpr std::size_t row_bytes_per_query = 100'000;  // below which threads share queries rather than rows

// Whether ids ascend, as they do where items were added in turn: of equal distances the first stays then.
bool ascends(const CodeSet& set, std::size_t n_queries) {
    if (!set.ids) return true;
    if (n_queries < worth_a_look) return false;
    bool all = true;
    for (std::size_t row = 1; row < set.n; ++row) all &= set.ids[row - 1] < set.ids[row];
    return all;
}

// Calls use(first query, batch) for batches of at most so many queries that are small enough for a QueryBlock.
template <class Use>
void in_batches(const Kernels& kernels, const Queries& queries, std::size_t at_most, const Use& use) {
    const std::size_t batch =
        std::min({at_most, QueryBlock::at_most(kernels, queries), SlicedQueries::at_most(queries)});
    for (std::size_t start = 0; start < queries.n; start += batch)
        use(start, Queries{queries.at(start), std::min(batch, queries.n - start), queries.bytes});
}

// Calls close(query, row, distance) for every living row whose distance is at most limit(query), which only `close`
// changes. Here for one query and rows in one piece, which are chosen from while they are counted.
template <class Limit, class Close>
void scan_one(const Kernels& kernels, const Queries& queries, const CodeSet& set, std::size_t row, std::size_t row_end,
              std::size_t query, const Limit& limit, const Close& close) {
    const std::size_t most = std::min(rows_per_block(queries.bytes, 4096), row_end - row);
    const std::unique_ptr<std::uint32_t[]> at(new std::uint32_t[most]);
    const std::unique_ptr<std::int32_t[]> distances(new std::int32_t[most]);
    // While little is known much is close, so the limit is asked again soon.
    for (std::size_t n = 64; row < row_end; row += n, n = std::min(2 * n, most)) {
        poll();
        n = std::min({n, most, row_end - row});
        const std::size_t found =
            kernels.hamming.near(set.slabs[0].data + row * queries.bytes, queries.bytes, n, queries.at(query),
                                 queries.bytes, limit(query), at.get(), distances.get());
        for (std::size_t i = 0; i < found; ++i)
            if (set.is_alive(row + at[i])) close(query, row + at[i], distances[i]);
    }
}

// The same for some queries and any slabs.
template <class Limit, class Close>
void scan_some(const Kernels& kernels, const QueryBlock& queries, const CodeSet& set, std::size_t row,
               std::size_t row_end, std::size_t query, std::size_t query_end, const Limit& limit, const Close& close) {
    const std::size_t block = queries.rows();
    const std::unique_ptr<std::uint32_t[]> chosen(new std::uint32_t[std::min(block, row_end - row)]);
    std::vector<std::int32_t> limits;  // side by side: those who keep the hits are far apart
    for (std::size_t q = query; q < query_end; ++q) limits.push_back(limit(q));
    RowBlock rows(kernels);
    for (; row < row_end; row += block) {
        const std::size_t n_rows = std::min(block, row_end - row);
        rows.load(queries, set.slabs.data(), set.slabs.size(), row, n_rows, query_end - query,
                  std::min(block, row_end - row - n_rows));
        for (std::size_t first = query; first < query_end; first += queries.together()) {
            poll();
            const std::size_t n_queries = std::min(queries.together(), query_end - first);
            const std::int32_t* distances = rows.compare(queries, first, n_queries);
            for (std::size_t q = 0; q < n_queries; ++q) {
                const std::int32_t* values = distances + q * rows.stride();
                std::int32_t& bound = limits[first + q - query];
                // While little is known much is close, so the limit is asked again soon.
                for (std::size_t begin = 0, end; begin < n_rows; begin = end) {
                    end = row == 0 ? std::min(2 * begin + 64, n_rows) : n_rows;
                    const std::size_t found = kernels.hamming.select(values + begin, end - begin, bound, chosen.get());
                    if (found == 0) continue;
                    for (std::size_t i = 0; i < found; ++i) {
                        const std::size_t at = begin + chosen[i];
                        if (set.is_alive(row + at)) close(first + q, row + at, values[at]);
                    }
                    bound = limit(first + q);
                }
            }
        }
    }
}

// Queries as the scans want them.
struct Asked {
    QueryBlock block;
    std::unique_ptr<SlicedQueries> sliced;
    std::size_t rows, unit;  // of a block; where a thread's share of the queries may begin

    Asked(const Kernels& kernels, const Queries& queries, const CodeSet& set)
        : block(kernels, queries, set.slabs.data(), set.slabs.size(), set.n) {
        if (!block.expands() && SlicedQueries::pays(kernels.hamming.slices, queries, set.n))
            sliced.reset(new SlicedQueries(queries, set.slabs.data(), set.slabs.size()));
        rows = sliced ? kernels.hamming.slices.rows : block.rows();
        unit = sliced ? sliced->group() : block.unit();
    }
};

// The same for any.
template <class Limit, class Close>
void scan(const Kernels& kernels, const Asked& asked, const CodeSet& set, std::size_t row, std::size_t row_end,
          std::size_t query, std::size_t query_end, const Limit& limit, const Close& close) {
    if (query_end - query == 1 && set.slabs.size() == 1)
        return scan_one(kernels, asked.block.plain(), set, row, row_end, query, limit, close);
    if (!asked.sliced) return scan_some(kernels, asked.block, set, row, row_end, query, query_end, limit, close);
    SlicedRows rows(kernels, *asked.sliced, set.slabs.data());
    const auto if_alive = [&](std::size_t q, std::size_t r, std::int32_t d) {
        if (set.is_alive(r)) close(q, r, d);
    };
    for (std::size_t n; row < row_end; row += n) {
        n = std::min(rows.rows(), row_end - row);
        rows.scan(row, n, std::min(rows.rows(), row_end - row - n), query, query_end, limit, if_alive);
    }
}

}  // namespace

void hamming_matrix(const Queries& a, const Queries& b, int n_jobs, std::int32_t* out) {
    const Kernels& kernels = bilsh::kernels();
    const Slab slab{b.data, b.bytes};
    n_jobs = threads_for(scan_nanoseconds(a.n, b.n, b.bytes), n_jobs);
    in_batches(kernels, a, a.n, [&](std::size_t start, const Queries& part) {
        const QueryBlock queries(kernels, part, &slab, 1, b.n);
        const std::size_t block = queries.rows(), together = queries.together();
        Grid(b.n, block, part.n, queries.unit(), n_jobs)
            .run(n_jobs, [&](std::size_t row, std::size_t row_end, std::size_t query, std::size_t query_end, int) {
                RowBlock rows(kernels);
                for (; row < row_end; row += block) {
                    const std::size_t n_rows = std::min(block, row_end - row);
                    rows.load(queries, &slab, 1, row, n_rows, query_end - query);
                    for (std::size_t first = query; first < query_end; first += together) {
                        poll();
                        const std::size_t n = std::min(together, query_end - first);
                        const std::int32_t* distances = rows.compare(queries, first, n);
                        for (std::size_t q = 0; q < n; ++q)
                            std::copy_n(distances + q * rows.stride(), n_rows, out + (start + first + q) * b.n + row);
                    }
                }
            });
    });
}

void hamming_top_k(const Queries& queries, const CodeSet& set, std::size_t k, int n_jobs, std::int64_t* ids,
                   std::int32_t* distances, const Before& before) {
    const Kernels& kernels = bilsh::kernels();
    k = std::min(k, set.count_alive() + before.columns);
    if (k == 0) return;
    n_jobs = threads_for(scan_nanoseconds(queries.n, set.n, queries.bytes), n_jobs);
    const bool ascending = ascends(set, queries.n);
    // The hits of a batch of queries, kept per thread, are held to about 64 MB.
    const std::size_t batch =
        std::max<std::size_t>((std::size_t{1} << 26) / (Counted::bytes(k) * static_cast<std::size_t>(n_jobs)), group);
    in_batches(kernels, queries, batch, [&](std::size_t start, const Queries& part) {
        const Asked asked(kernels, part, set);
        const Counted none(k, 8 * queries.bytes, ascending);
        // Few rows are laid out in less time than two threads take to find, and to join, nearest ones of each query.
        const bool apart = part.n > asked.unit && set.n * queries.bytes < row_bytes_per_query * part.n;
        std::vector<std::vector<Counted>> found(apart ? 1 : static_cast<std::size_t>(n_jobs),
                                                std::vector<Counted>(part.n, none));
        const Grid grid = apart ? Grid::by_queries(set.n, part.n, asked.unit, n_jobs)
                                : Grid(set.n, asked.rows, part.n, asked.unit, n_jobs);
        grid.run(n_jobs, [&](std::size_t row, std::size_t row_end, std::size_t query, std::size_t query_end,
                             int worker) {
            std::vector<Counted>& nearest = found[apart ? 0 : static_cast<std::size_t>(worker)];
            const auto limit = [&](std::size_t q) { return std::min(nearest[q].limit(), before.limit(start + q, k)); };
            const auto close = [&](std::size_t q, std::size_t r, std::int32_t d) { nearest[q].push(d, set.id(r)); };
            scan(kernels, asked, set, row, row_end, query, query_end, limit, close);
            for (std::size_t q = query; apart && q < query_end; ++q) nearest[q].sorted();
        });
        for (std::size_t q = 0; q < part.n; ++q) {
            for (std::size_t worker = 1; worker < found.size(); ++worker) found[0][q].push_all(found[worker][q]);
            const std::vector<Hit>& here = found[0][q].sorted();
            std::size_t mine = 0, theirs = 0;
            for (std::size_t at = (start + q) * k; at < (start + q + 1) * k; ++at) {
                const bool known = theirs < before.columns;
                const Hit other = known ? before.at(start + q, theirs) : Hit{};
                const bool take = !known || (mine < here.size() && here[mine] < other);
                const Hit& hit = take ? here[mine++] : (++theirs, other);
                ids[at] = hit.id;
                distances[at] = hit.distance;
            }
        }
    });
}

Matches hamming_within(const Queries& queries, const CodeSet& set, std::int32_t radius, int n_jobs) {
    const Kernels& kernels = bilsh::kernels();
    n_jobs = threads_for(scan_nanoseconds(queries.n, set.n, queries.bytes), n_jobs);
    std::vector<std::vector<std::vector<Hit>>> found(static_cast<std::size_t>(n_jobs),
                                                     std::vector<std::vector<Hit>>(queries.n));
    in_batches(kernels, queries, queries.n, [&](std::size_t start, const Queries& part) {
        const Asked asked(kernels, part, set);
        Grid(set.n, asked.rows, part.n, asked.unit, n_jobs)
            .run(n_jobs, [&](std::size_t row, std::size_t row_end, std::size_t query, std::size_t query_end,
                             int worker) {
                std::vector<std::vector<Hit>>& mine = found[static_cast<std::size_t>(worker)];
                scan(
                    kernels, asked, set, row, row_end, query, query_end, [&](std::size_t) { return radius; },
                    [&](std::size_t q, std::size_t r, std::int32_t d) { mine[start + q].push_back({d, set.id(r)}); });
            });
    });
    Matches matches;
    matches.offsets.push_back(0);
    std::vector<Hit> hits;
    for (std::size_t q = 0; q < queries.n; ++q) {
        hits.clear();
        for (std::vector<std::vector<Hit>>& mine : found) {
            hits.insert(hits.end(), mine[q].begin(), mine[q].end());
            mine[q] = {};
        }
        std::sort(hits.begin(), hits.end());
        for (const Hit& hit : hits) {
            matches.ids.push_back(hit.id);
            matches.distances.push_back(hit.distance);
        }
        matches.offsets.push_back(static_cast<std::int64_t>(matches.ids.size()));
    }
    return matches;
}

}  // namespace bilsh
