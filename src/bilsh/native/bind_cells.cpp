// Cells as Python sees them. Type, shape and bounds of arguments are checked here; meaning in Python.
#include <algorithm>

#include "bind_codes.h"
#include "cells.h"

namespace {

using Offsets = In<std::int64_t, 1>;

std::tuple<Out<std::int64_t, 2>, Out<std::int32_t, 2>, Out<std::int32_t, 2>, Counters> cells_top_k(
    const Codes& queries, const Slabs& slabs, const Offsets& offsets, const In<std::int32_t, 2>& far, std::size_t k,
    std::size_t first, double share, std::int32_t slack, const In<std::int32_t, 2>& limits, const Ids& ids,
    const Bitmap& alive, int n_jobs) {
    const bilsh::Queries asked = queries_of(queries);
    const bilsh::CodeSet set = code_set(slabs, asked.bytes, ids, alive);
    require(offsets.shape(0) >= 2, "offsets must have one entry more than there are cells, at least 2");
    const std::size_t n = offsets.shape(0) - 1;
    const std::int64_t* at = offsets.data();
    bool ascending = at[0] == 0 && static_cast<std::uint64_t>(at[n]) == set.n;
    for (std::size_t cell = 0; cell < n; ++cell) ascending = ascending && at[cell] <= at[cell + 1];
    require(ascending, "offsets must ascend from 0 to the number of rows, " + text(set.n));
    require(far.shape(0) == asked.n && far.shape(1) == n, "far must have a row per query and a column per cell, (" +
                                                              text(asked.n) + ", " + text(n) + "); got (" +
                                                              text(far.shape(0)) + ", " + text(far.shape(1)) + ")");
    require(limits.shape(0) + 1 == slabs.size() && (limits.shape(1) > 0 || slabs.size() == 1),
            "limits must have a row for every slab but the last, " + text(slabs.size() - 1) +
                ", and a column for every distance; got shape (" + text(limits.shape(0)) + ", " +
                text(limits.shape(1)) + ")");
    require(share >= 0 && share <= 1e6, "share must be at least 0");
    const std::size_t living = set.count_alive();
    const std::size_t width = std::min(k, living);
    auto found = new_matrix<std::int64_t>(asked.n, width);
    auto distances = new_matrix<std::int32_t>(asked.n, width);
    auto visits = new_matrix<std::int32_t>(asked.n, 3);
    std::vector<bilsh::Visit> seen(asked.n);
    bilsh::Effort effort(slabs.size());
    unlocked([&] {
        effort = bilsh::cells_top_k(asked, set, {at, far.data(), n}, width, {std::min(first, living), share, slack},
                                    {limits.data(), limits.shape(1)}, thread_count(n_jobs), found.data(),
                                    distances.data(), seen.data());
    });
    for (std::size_t q = 0; q < asked.n; ++q) {
        visits.data()[3 * q] = seen[q].bound;
        visits.data()[3 * q + 1] = seen[q].front;
        visits.data()[3 * q + 2] = seen[q].cells;
    }
    return {found, distances, visits, counters_of(std::move(effort))};
}

Out<std::uint8_t, 2> majority(const Codes& codes, const In<std::int32_t, 1>& cell_of, const Codes& centres,
                              int n_jobs) {
    const bilsh::Queries rows = queries_of(codes);
    const std::size_t n = centres.shape(0);
    require(centres.shape(1) == rows.bytes,
            "centres must be as long as codes, " + text(rows.bytes) + " bytes; got " + text(centres.shape(1)));
    require(cell_of.shape(0) == rows.n,
            "cell_of must have one entry per code, " + text(rows.n) + "; got " + text(cell_of.shape(0)));
    for (std::size_t i = 0; i < rows.n; ++i)
        require(cell_of.data()[i] >= 0 && static_cast<std::size_t>(cell_of.data()[i]) < n,
                "cell_of must be from 0 to " + text(n) + " - 1");
    auto out = new_matrix<std::uint8_t>(n, rows.bytes);
    std::copy_n(centres.data(), n * rows.bytes, out.data());
    unlocked([&] { bilsh::majority(rows, cell_of.data(), n, thread_count(n_jobs), out.data()); });
    return out;
}

}  // namespace

void bind_cells(nb::module_& m) {
    m.def("cells_top_k", &cells_top_k, nb::arg("queries").noconvert(), nb::arg("slabs").noconvert(),
          nb::arg("offsets").noconvert(), nb::arg("far").noconvert(), nb::arg("k"), nb::arg("first"), nb::arg("share"),
          nb::arg("slack"), nb::arg("limits").noconvert(), nb::arg("ids").noconvert() = nb::none(),
          nb::arg("alive").noconvert() = nb::none(), nb::arg("n_jobs") = 1,
          "The k nearest codes of each query in the cells it visits, found slab by slab: ids, distances, visits (the "
          "bound on the k-th distance, how far the farthest of the first cells was, the number of cells), counters.");
    m.def("majority", &majority, nb::arg("codes").noconvert(), nb::arg("cell_of").noconvert(),
          nb::arg("centres").noconvert(), nb::arg("n_jobs") = 1,
          "New centres: the majority of each bit among the codes of each cell; cells without codes keep theirs.");
}
