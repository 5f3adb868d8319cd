// Transform codes as Python sees them. Type, shape and bounds of arguments are checked here; meaning in Python.
#include <atomic>

#include "bind_codes.h"
#include "bindings.h"
#include "transform.h"

namespace {

using Frames = nb::typed<nb::tuple, bilsh::Plan, nb::ellipsis>;

void check_input(const bilsh::TransformPlan& plan, const In<float, 2>& x) {
    require(x.shape(1) == plan.dimension(),
            "X has " + text(x.shape(1)) + " columns; this plan encodes " + text(plan.dimension()));
}

bilsh::CodeSet codes_of(const bilsh::TransformPlan& plan, const Slabs& slabs, const Ids& ids = {},
                        const Bitmap& alive = {}) {
    const bilsh::CodeSet set = code_set(slabs, plan.bytes(), ids, alive);
    require(set.slabs[0].bytes >= bilsh::header_bytes,
            "the first slab must hold the header of " + text(bilsh::header_bytes) + " bytes");
    return set;
}

void new_transform_plan(bilsh::TransformPlan* self, const bilsh::Plan& nearest, const Frames& frames,
                        In<float, 2> centres, In<int32_t, 2> coordinates, In<float, 1> steps, In<int32_t, 1> depths,
                        In<float, 1> scales, In<float, 1> errors, In<float, 1> stretches, double add_least,
                        double add_step, double share, std::size_t n_bytes, bool absolute,
                        const OptionalIn<float, 1>& origin) {
    bilsh::TransformParts parts{centres.shape(0),
                                centres.shape(1),
                                coordinates.shape(1),
                                n_bytes,
                                &nearest,
                                {},
                                centres.data(),
                                coordinates.data(),
                                steps.data(),
                                depths.data(),
                                scales.data(),
                                errors.data(),
                                {stretches.data(), stretches.data() + stretches.shape(0)},
                                {},
                                static_cast<float>(add_least),
                                static_cast<float>(add_step),
                                static_cast<float>(share),
                                absolute};
    require(parts.n_centres >= 1 && parts.n_centres <= bilsh::most_centres, "there must be from 1 to 256 centres");
    require(frames.size() == parts.n_centres && coordinates.shape(0) == parts.n_centres &&
                nearest.bits().size() == parts.n_centres,
            "frames, coordinates and nearest must have one entry per centre, " + text(parts.n_centres));
    require(nearest.dimension() == parts.d, "nearest must take the centres' " + text(parts.d) + " numbers");
    if (origin) {
        require(origin->shape(0) == parts.d, "origin must have the centres' " + text(parts.d) + " numbers");
        parts.origin.assign(origin->data(), origin->data() + parts.d);
    }
    std::size_t total = 0;
    for (std::size_t c = 0; c < parts.n_centres; ++c) {
        const bilsh::Plan* frame = nb::cast<const bilsh::Plan*>(frames[c]);
        require(frame->dimension() == parts.d, "frames must take the centres' " + text(parts.d) + " numbers");
        const std::size_t m = frame->bits().size();
        require(total + m <= depths.shape(0), "depths must have one entry per coordinate");
        std::vector<int32_t> left(depths.data() + total, depths.data() + total + m);
        for (const int32_t depth : left) require(depth >= 1 && depth <= 16, "depths must lie in [1, 16]");
        for (std::size_t r = 0; r < parts.bits; ++r) {
            const int32_t i = coordinates.data()[c * parts.bits + r];
            require(i >= -1 && i < static_cast<int64_t>(m), "coordinates must lie in [-1, " + text(m) + ")");
            require(i < 0 || left[static_cast<std::size_t>(i)]-- > 0, "a coordinate has more bits than its depth");
        }
        parts.frames.push_back(frame);
        total += m;
    }
    require(steps.shape(0) == total && depths.shape(0) == total,
            "steps and depths must have one entry per coordinate, " + text(total));
    for (std::size_t i = 0; i < total; ++i) require(steps.data()[i] > 0.0f, "steps must be above 0");
    require(scales.shape(0) == bilsh::scale_levels, "scales must have 256 entries");
    require(scales.data()[0] >= 0.0f && std::is_sorted(scales.data(), scales.data() + scales.shape(0)),
            "scales must ascend from 0");
    require(errors.shape(0) == bilsh::error_levels - 1, "errors must have 255 entries");
    require(std::is_sorted(errors.data(), errors.data() + errors.shape(0)), "errors must ascend");
    for (const float stretch : parts.stretches)
        require(stretch > 0.0f && std::isfinite(stretch), "stretches must be above 0");
    require(parts.add_step > 0.0f, "add_step must be above 0");
    require(parts.bits % 8 == 0 && n_bytes > bilsh::header_bytes && n_bytes <= bilsh::header_bytes + parts.bits / 8,
            "codes must have from 5 to " + text(bilsh::header_bytes + parts.bits / 8) + " bytes; got " + text(n_bytes));
    new (self) bilsh::TransformPlan(parts);
}

template <class Work>
void checked(const Work& work) {
    std::atomic<bool> nonfinite{false};
    unlocked([&] { work(&nonfinite); });
    if (nonfinite) throw bilsh::NonFinite("the projection of an item is not finite");
}

Out<uint8_t, 2> encode(const bilsh::TransformPlan& plan, const In<float, 2>& x, int n_jobs) {
    check_input(plan, x);
    auto codes = new_matrix<uint8_t>(x.shape(0), plan.bytes());
    checked([&](auto* bad) { plan.encode(x.data(), x.shape(0), codes.data(), bad, thread_count(n_jobs)); });
    return codes;
}

std::tuple<Out<std::int64_t, 2>, Out<float, 2>> top_k(const bilsh::TransformPlan& plan, const In<float, 2>& q,
                                                      const Slabs& slabs, std::size_t k, const Ids& ids,
                                                      const Bitmap& alive, int n_jobs) {
    check_input(plan, q);
    const bilsh::CodeSet set = codes_of(plan, slabs, ids, alive);
    const std::size_t width = std::min(k, set.count_alive());
    auto found = new_matrix<std::int64_t>(q.shape(0), width);
    auto out = new_matrix<float>(q.shape(0), width);
    checked([&](auto* bad) {
        plan.top_k(q.data(), q.shape(0), set, width, found.data(), out.data(), bad, thread_count(n_jobs));
    });
    return {found, out};
}

using Visited = std::tuple<Out<std::int64_t, 2>, Out<float, 2>, Out<std::int32_t, 1>, std::size_t>;

Visited visit(const bilsh::TransformPlan& plan, const In<float, 2>& q, const Slabs& slabs, std::size_t k,
              const In<float, 2>& closeness, const In<std::int64_t, 1>& offsets, const In<std::int64_t, 1>& living,
              std::int64_t budget, const Ids& ids, const Bitmap& alive, int n_jobs) {
    check_input(plan, q);
    const bilsh::CodeSet set = codes_of(plan, slabs, ids, alive);
    const std::size_t n_cells = living.shape(0);
    require(offsets.shape(0) == n_cells + 1 && offsets.data()[0] == 0 &&
                offsets.data()[n_cells] == static_cast<std::int64_t>(set.n) &&
                std::is_sorted(offsets.data(), offsets.data() + n_cells + 1),
            "offsets must cut the rows into the cells");
    require(closeness.shape(0) == q.shape(0) && closeness.shape(1) == n_cells,
            "closeness must have one entry per query and cell");
    for (std::size_t c = 0; c < n_cells; ++c)
        require(living.data()[c] >= 0 && living.data()[c] <= offsets.data()[c + 1] - offsets.data()[c],
                "no more rows can live in a cell than it has");
    const std::size_t width = std::min(k, set.count_alive());
    auto found = new_matrix<std::int64_t>(q.shape(0), width);
    auto out = new_matrix<float>(q.shape(0), width);
    std::vector<std::int32_t> visited(q.shape(0));
    std::size_t rows = 0;
    const bilsh::PlaceCells cells{closeness.data(), offsets.data(), living.data(), n_cells, budget};
    checked([&](auto* bad) {
        rows = plan.visit(q.data(), q.shape(0), set, cells, width, found.data(), out.data(), visited.data(), bad,
                          thread_count(n_jobs));
    });
    return {found, out, array_of(std::move(visited)), rows};
}

Out<float, 2> rows(const bilsh::TransformPlan& plan, const In<float, 2>& q, const Slabs& slabs,
                   const In<std::int64_t, 2>& rows, int n_jobs) {
    check_input(plan, q);
    const bilsh::CodeSet set = codes_of(plan, slabs);
    check_rows(rows, q.shape(0), set.n);
    auto out = new_matrix<float>(q.shape(0), rows.shape(1));
    checked([&](auto* bad) {
        plan.rows(q.data(), q.shape(0), set, rows.data(), rows.shape(1), out.data(), bad, thread_count(n_jobs));
    });
    return out;
}

}  // namespace

void bind_transform(nb::module_& m) {
    nb::class_<bilsh::TransformPlan>(m, "TransformPlan",
                                     "Centres, frames and quantisers: float32 rows in, codes or estimates out.")
        .def("__init__", &new_transform_plan, nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::arg("nearest"),
             nb::arg("frames"), nb::arg("centres").noconvert(), nb::arg("coordinates").noconvert(),
             nb::arg("steps").noconvert(), nb::arg("depths").noconvert(), nb::arg("scales").noconvert(),
             nb::arg("errors").noconvert(), nb::arg("stretches").noconvert(), nb::arg("add_least"), nb::arg("add_step"),
             nb::arg("share"), nb::arg("n_bytes"), nb::arg("absolute") = false,
             nb::arg("origin").noconvert() = nb::none())
        .def("encode", &encode, nb::arg("X").noconvert(), nb::arg("n_jobs") = 1, "Codes (n, n_bytes).")
        .def("top_k", &top_k, nb::arg("Q").noconvert(), nb::arg("slabs").noconvert(), nb::arg("k"),
             nb::arg("ids").noconvert() = nb::none(), nb::arg("alive").noconvert() = nb::none(), nb::arg("n_jobs") = 1,
             "Ids and estimated squared distances of the k nearest codes of each query, ties by id.")
        .def("visit", &visit, nb::arg("Q").noconvert(), nb::arg("slabs").noconvert(), nb::arg("k"),
             nb::arg("closeness").noconvert(), nb::arg("offsets").noconvert(), nb::arg("living").noconvert(),
             nb::arg("budget"), nb::arg("ids").noconvert() = nb::none(), nb::arg("alive").noconvert() = nb::none(),
             nb::arg("n_jobs") = 1,
             "The same in the cells nearest to each query, until those before hold more living rows than the budget; "
             "also how many cells each query read, and how many rows all did.")
        .def("rows", &rows, nb::arg("Q").noconvert(), nb::arg("slabs").noconvert(), nb::arg("rows").noconvert(),
             nb::arg("n_jobs") = 1, "Estimated squared distances of the given rows of each query.");
}
