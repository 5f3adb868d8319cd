// Distances and search as Python sees them. Type, shape and bounds of arguments are checked here; meaning in Python.
#include <algorithm>

#include "bind_codes.h"
#include "bindings.h"
#include "hamming.h"
#include "progressive.h"
#include "scores.h"

namespace {

using Hits = std::tuple<Out<std::int64_t, 2>, Out<std::int32_t, 2>>;

Out<std::int32_t, 2> hamming_matrix(const Codes& a, const Codes& b, int n_jobs) {
    require(a.shape(1) == b.shape(1), "a has " + text(a.shape(1)) + " bytes per code, b has " + text(b.shape(1)));
    const bilsh::Queries left = queries_of(a), right = queries_of(b);
    auto distances = new_matrix<std::int32_t>(left.n, right.n);
    unlocked([&] { bilsh::hamming_matrix(left, right, thread_count(n_jobs), distances.data()); });
    return distances;
}

using Found = std::optional<std::tuple<In<std::int64_t, 2>, In<std::int32_t, 2>>>;

// Hits of other sets, checked.
bilsh::Before before_of(const Found& found, const bilsh::Queries& queries) {
    if (!found) return {};
    const auto& [ids, distances] = *found;
    const std::size_t columns = ids.shape(1);
    require(ids.shape(0) == queries.n && distances.shape(0) == queries.n && distances.shape(1) == columns,
            "before must hold ids and distances, each with one row per query, " + text(queries.n) + "; got shapes (" +
                text(ids.shape(0)) + ", " + text(columns) + ") and (" + text(distances.shape(0)) + ", " +
                text(distances.shape(1)) + ")");
    const bilsh::Before before{ids.data(), distances.data(), columns};
    for (std::size_t query = 0; query < queries.n; ++query)
        for (std::size_t i = 1; i < columns; ++i)
            require(before.at(query, i - 1) < before.at(query, i), "before must be sorted by distance, then id");
    return before;
}

Hits hamming_top_k(const Codes& queries, const Slabs& slabs, std::size_t k, const Ids& ids, const Bitmap& alive,
                   int n_jobs, const Found& before) {
    const bilsh::Queries asked = queries_of(queries);
    const bilsh::CodeSet set = code_set(slabs, asked.bytes, ids, alive);
    const bilsh::Before known = before_of(before, asked);
    const std::size_t width = std::min(k, set.count_alive() + known.columns);
    auto found = new_matrix<std::int64_t>(asked.n, width);
    auto distances = new_matrix<std::int32_t>(asked.n, width);
    unlocked(
        [&] { bilsh::hamming_top_k(asked, set, width, thread_count(n_jobs), found.data(), distances.data(), known); });
    return {found, distances};
}

std::tuple<Out<std::int64_t, 1>, Out<std::int64_t, 1>, Out<std::int32_t, 1>> hamming_within(
    const Codes& queries, const Slabs& slabs, std::int32_t radius, const Ids& ids, const Bitmap& alive, int n_jobs) {
    const bilsh::Queries asked = queries_of(queries);
    const bilsh::CodeSet set = code_set(slabs, asked.bytes, ids, alive);
    bilsh::Matches matches;
    unlocked([&] { matches = bilsh::hamming_within(asked, set, radius, thread_count(n_jobs)); });
    return {array_of(std::move(matches.offsets)), array_of(std::move(matches.ids)),
            array_of(std::move(matches.distances))};
}

std::tuple<Out<std::int64_t, 2>, Out<std::int32_t, 2>, Counters> progressive_top_k(const Codes& queries,
                                                                                   const Slabs& slabs, std::size_t k,
                                                                                   const In<std::int32_t, 2>& limits,
                                                                                   std::size_t seeds, const Ids& ids,
                                                                                   const Bitmap& alive, int n_jobs) {
    const bilsh::Queries asked = queries_of(queries);
    const bilsh::CodeSet set = code_set(slabs, asked.bytes, ids, alive);
    require(limits.shape(0) + 1 == slabs.size() && limits.shape(1) > 0,
            "limits must have a row for every slab but the last, " + text(slabs.size() - 1) +
                ", and a column for every distance; got shape (" + text(limits.shape(0)) + ", " +
                text(limits.shape(1)) + ")");
    const std::size_t width = std::min(k, set.count_alive());
    auto found = new_matrix<std::int64_t>(asked.n, width);
    auto distances = new_matrix<std::int32_t>(asked.n, width);
    bilsh::Effort effort(0);
    unlocked([&] {
        effort = bilsh::progressive_top_k(asked, set, width, {limits.data(), limits.shape(1)}, std::min(seeds, set.n),
                                          thread_count(n_jobs), found.data(), distances.data());
    });
    return {found, distances, counters_of(std::move(effort))};
}

bilsh::Weights weights_of(const In<float, 2>& weights, const In<float, 1>& bias) {
    require(bias.shape(0) == weights.shape(0),
            "bias must have one entry per query, " + text(weights.shape(0)) + "; got " + text(bias.shape(0)));
    return {weights.data(), bias.data(), weights.shape(0), weights.shape(1)};
}

std::tuple<Out<float, 2>, Out<float, 1>> weights_of_turns(const In<float, 2>& turns, const In<float, 3>& tables,
                                                          const In<std::uint8_t, 1>& table) {
    const std::size_t n = turns.shape(0), bits = turns.shape(1), bins = tables.shape(1);
    require(table.shape(0) == bits,
            "table must have one entry per bit, " + text(bits) + "; got " + text(table.shape(0)));
    require(bins > 0 && (bins & (bins - 1)) == 0 && tables.shape(2) == 2,
            "tables must have a power of two of pairs each; got " + text(bins) + " of " + text(tables.shape(2)));
    std::uint8_t last = 0;
    for (std::size_t r = 0; r < bits; ++r) last = std::max(last, table.data()[r]);
    require(bits == 0 || last < tables.shape(0),
            "table must name one of " + text(tables.shape(0)) + " tables; got " + text(last));
    auto out = new_matrix<float>(n, bits);
    std::vector<float> bias(n);
    unlocked([&] {
        bilsh::weights_of_turns({turns.data(), n, bits}, {tables.data(), table.data(), bins}, out.data(), bias.data());
    });
    return {out, array_of(std::move(bias))};
}

Out<float, 2> scores(const In<float, 2>& weights, const In<float, 1>& bias, const Slabs& slabs, int n_jobs) {
    const bilsh::Weights asked = weights_of(weights, bias);
    const bilsh::CodeSet set = code_set(slabs, (asked.bits + 7) / 8);
    auto out = new_matrix<float>(asked.n, set.n);
    unlocked([&] { bilsh::scores(asked, set, thread_count(n_jobs), out.data()); });
    return out;
}

Out<float, 2> score_rows(const In<float, 2>& weights, const In<float, 1>& bias, const Slabs& slabs,
                         const In<std::int64_t, 2>& rows, int n_jobs) {
    const bilsh::Weights asked = weights_of(weights, bias);
    const bilsh::CodeSet set = code_set(slabs, (asked.bits + 7) / 8);
    check_rows(rows, asked.n, set.n);
    auto out = new_matrix<float>(asked.n, rows.shape(1));
    unlocked([&] { bilsh::score_rows(asked, set, rows.data(), rows.shape(1), thread_count(n_jobs), out.data()); });
    return out;
}

std::tuple<Out<std::int64_t, 2>, Out<float, 2>> score_top_k(const In<float, 2>& weights, const In<float, 1>& bias,
                                                            const Slabs& slabs, std::size_t k, const Ids& ids,
                                                            const Bitmap& alive, int n_jobs) {
    const bilsh::Weights asked = weights_of(weights, bias);
    const bilsh::CodeSet set = code_set(slabs, (asked.bits + 7) / 8, ids, alive);
    const std::size_t width = std::min(k, set.count_alive());
    auto found = new_matrix<std::int64_t>(asked.n, width);
    auto out = new_matrix<float>(asked.n, width);
    unlocked([&] { bilsh::score_top_k(asked, set, width, thread_count(n_jobs), found.data(), out.data()); });
    return {found, out};
}

}  // namespace

void bind_search(nb::module_& m) {
    m.def("hamming_matrix", &hamming_matrix, nb::arg("a").noconvert(), nb::arg("b").noconvert(), nb::arg("n_jobs") = 1,
          "Distances of every code of a to every code of b.");
    m.def("hamming_top_k", &hamming_top_k, nb::arg("queries").noconvert(), nb::arg("slabs").noconvert(), nb::arg("k"),
          nb::arg("ids").noconvert() = nb::none(), nb::arg("alive").noconvert() = nb::none(), nb::arg("n_jobs") = 1,
          nb::arg("before").noconvert() = nb::none(),
          "The k nearest codes of each query, by (distance, id); among them those found before, of other codes.");
    m.def("hamming_within", &hamming_within, nb::arg("queries").noconvert(), nb::arg("slabs").noconvert(),
          nb::arg("radius"), nb::arg("ids").noconvert() = nb::none(), nb::arg("alive").noconvert() = nb::none(),
          nb::arg("n_jobs") = 1, "All codes within the radius of each query: offsets, ids, distances.");
    m.def("progressive_top_k", &progressive_top_k, nb::arg("queries").noconvert(), nb::arg("slabs").noconvert(),
          nb::arg("k"), nb::arg("limits").noconvert(), nb::arg("seeds"), nb::arg("ids").noconvert() = nb::none(),
          nb::arg("alive").noconvert() = nb::none(), nb::arg("n_jobs") = 1,
          "The k nearest codes of each query, found slab by slab: ids, distances, counters.");
    m.def(
        "weights_of_turns", &weights_of_turns, nb::arg("turns").noconvert(), nb::arg("tables").noconvert(),
        nb::arg("table").noconvert(),
        "Weights of bits, and biases, of queries whose values in turns are given: look-ups in the table of each bit.");
    m.def("scores", &scores, nb::arg("weights").noconvert(), nb::arg("bias").noconvert(), nb::arg("slabs").noconvert(),
          nb::arg("n_jobs") = 1, "bias + the sum of the weights of the set bits, of every query and code.");
    m.def("score_rows", &score_rows, nb::arg("weights").noconvert(), nb::arg("bias").noconvert(),
          nb::arg("slabs").noconvert(), nb::arg("rows").noconvert(), nb::arg("n_jobs") = 1,
          "The same scores for the given rows of each query.");
    m.def("score_top_k", &score_top_k, nb::arg("weights").noconvert(), nb::arg("bias").noconvert(),
          nb::arg("slabs").noconvert(), nb::arg("k"), nb::arg("ids").noconvert() = nb::none(),
          nb::arg("alive").noconvert() = nb::none(), nb::arg("n_jobs") = 1,
          "The k codes with the largest scores of each query, ties by id.");
}
