// Distances and search as Python sees them. Type, shape and bounds of arguments are checked here; meaning in Python.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>

#include "bindings.h"
#include "hamming.h"
#include "progressive.h"
#include "scores.h"

namespace nb = nanobind;

// ---- search: distances of packed codes ----
namespace {

using Codes = nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Bias = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Ids = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bitmap = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Distances are int32, and so is every partial sum.
constexpr std::size_t max_code_bytes = (std::size_t{1} << 28) - 1;

template <class T>
using Array = nb::ndarray<nb::numpy, T>;

// An array that owns its memory; `data` is for the work done without the GIL.
template <class T>
Array<T> new_array(std::initializer_list<std::size_t> shape, T*& data) {
    std::size_t size = 1;
    for (std::size_t extent : shape) size *= extent;
    data = new T[size ? size : 1];
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return Array<T>(data, shape, owner);
}

template <class T>
Array<T> array_of(std::vector<T>&& values) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return Array<T>(kept->data(), {kept->size()}, owner);
}

void require(bool holds, const std::string& message) {
    if (!holds) throw nb::value_error(message.c_str());
}

bilsh::Queries queries_of(const Codes& codes) {
    require(codes.shape(1) <= max_code_bytes, "codes must be shorter than 2^31 bits");
    return {codes.data(), codes.shape(0), codes.shape(1)};
}

bilsh::CodeSet code_set(const std::vector<Codes>& slabs, std::size_t code_bytes, const std::optional<Ids>& ids,
                        const std::optional<Bitmap>& alive) {
    require(!slabs.empty(), "slabs must hold at least one matrix of codes");
    bilsh::CodeSet set;
    set.n = slabs[0].shape(0);
    for (const Codes& slab : slabs) {
        require(slab.shape(0) == set.n, "all slabs must have as many rows as the first, " + std::to_string(set.n) +
                                            "; got " + std::to_string(slab.shape(0)));
        set.slabs.push_back({slab.data(), slab.shape(1)});
    }
    require(set.bytes() == code_bytes, "the slabs together hold " + std::to_string(set.bytes()) +
                                           " bytes per code; the queries have " + std::to_string(code_bytes));
    require(set.n <= 0xffffffffu, "a code set must have fewer than 2^32 rows");
    if (ids) {
        require(ids->shape(0) == set.n, "ids must have one entry per row, " + std::to_string(set.n) + "; got " +
                                            std::to_string(ids->shape(0)));
        set.ids = ids->data();
    }
    if (alive) {
        require(alive->shape(0) == (set.n + 7) / 8, "alive must have one bit per row, " +
                                                        std::to_string((set.n + 7) / 8) + " bytes; got " +
                                                        std::to_string(alive->shape(0)));
        set.alive = alive->data();
    }
    return set;
}

Array<std::int32_t> hamming_matrix(const Codes& a, const Codes& b, int n_jobs) {
    require(a.shape(1) == b.shape(1), "a has " + std::to_string(a.shape(1)) + " bytes per code, b has " +
                                          std::to_string(b.shape(1)));
    std::int32_t* out;
    Array<std::int32_t> result = new_array({a.shape(0), b.shape(0)}, out);
    const bilsh::Queries left = queries_of(a), right = queries_of(b);
    nb::gil_scoped_release unlocked;
    bilsh::hamming_matrix(left, right, n_jobs, out);
    return result;
}

nb::tuple hamming_top_k(const Codes& queries, const std::vector<Codes>& slabs, std::size_t k,
                        const std::optional<Ids>& ids, const std::optional<Bitmap>& alive, int n_jobs) {
    const bilsh::Queries asked = queries_of(queries);
    const bilsh::CodeSet set = code_set(slabs, asked.bytes, ids, alive);
    const std::size_t width = std::min(k, set.count_alive());
    std::int64_t* found;
    std::int32_t* distances;
    Array<std::int64_t> id_array = new_array({asked.n, width}, found);
    Array<std::int32_t> distance_array = new_array({asked.n, width}, distances);
    {
        nb::gil_scoped_release unlocked;
        bilsh::hamming_top_k(asked, set, k, n_jobs, found, distances);
    }
    return nb::make_tuple(id_array, distance_array);
}

nb::tuple hamming_within(const Codes& queries, const std::vector<Codes>& slabs, std::int32_t radius,
                         const std::optional<Ids>& ids, const std::optional<Bitmap>& alive, int n_jobs) {
    const bilsh::Queries asked = queries_of(queries);
    const bilsh::CodeSet set = code_set(slabs, asked.bytes, ids, alive);
    bilsh::Matches matches;
    {
        nb::gil_scoped_release unlocked;
        matches = bilsh::hamming_within(asked, set, radius, n_jobs);
    }
    return nb::make_tuple(array_of(std::move(matches.offsets)), array_of(std::move(matches.ids)),
                          array_of(std::move(matches.distances)));
}

nb::tuple progressive_top_k(const Codes& queries, const std::vector<Codes>& slabs, std::size_t k, const Table& limits,
                            std::size_t seeds, const std::optional<Ids>& ids, const std::optional<Bitmap>& alive,
                            int n_jobs) {
    const bilsh::Queries asked = queries_of(queries);
    const bilsh::CodeSet set = code_set(slabs, asked.bytes, ids, alive);
    require(limits.shape(0) + 1 == slabs.size() && limits.shape(1) > 0,
            "limits must have a row for every slab but the last, " + std::to_string(slabs.size() - 1) +
                ", and a column for every distance; got shape (" + std::to_string(limits.shape(0)) + ", " +
                std::to_string(limits.shape(1)) + ")");
    const std::size_t width = std::min(k, set.count_alive());
    std::int64_t* found;
    std::int32_t* distances;
    Array<std::int64_t> id_array = new_array({asked.n, width}, found);
    Array<std::int32_t> distance_array = new_array({asked.n, width}, distances);
    bilsh::Effort effort(0);
    {
        nb::gil_scoped_release unlocked;
        effort = bilsh::progressive_top_k(asked, set, k, {limits.data(), limits.shape(1)}, seeds, n_jobs, found, distances);
    }
    nb::dict counters;
    counters["survivors"] = array_of(std::move(effort.survivors));
    counters["bytes"] = array_of(std::move(effort.bytes));
    counters["seconds"] = array_of(std::move(effort.seconds));
    return nb::make_tuple(id_array, distance_array, counters);
}

bilsh::Weights weights_of(const Floats& weights, const Bias& bias) {
    require(bias.shape(0) == weights.shape(0), "bias must have one entry per query, " +
                                                   std::to_string(weights.shape(0)) + "; got " +
                                                   std::to_string(bias.shape(0)));
    return {weights.data(), bias.data(), weights.shape(0), weights.shape(1)};
}

Array<float> scores(const Floats& weights, const Bias& bias, const std::vector<Codes>& slabs, int n_jobs) {
    const bilsh::Weights asked = weights_of(weights, bias);
    const bilsh::CodeSet set = code_set(slabs, (asked.bits + 7) / 8, std::nullopt, std::nullopt);
    float* out;
    Array<float> result = new_array({asked.n, set.n}, out);
    nb::gil_scoped_release unlocked;
    bilsh::scores(asked, set, n_jobs, out);
    return result;
}

Array<float> score_rows(const Floats& weights, const Bias& bias, const std::vector<Codes>& slabs, const Rows& rows,
                        int n_jobs) {
    const bilsh::Weights asked = weights_of(weights, bias);
    const bilsh::CodeSet set = code_set(slabs, (asked.bits + 7) / 8, std::nullopt, std::nullopt);
    require(rows.shape(0) == asked.n, "rows must have one row per query, " + std::to_string(asked.n) + "; got " +
                                          std::to_string(rows.shape(0)));
    for (std::size_t i = 0; i < rows.size(); ++i)
        require(rows.data()[i] >= 0 && static_cast<std::size_t>(rows.data()[i]) < set.n,
                "rows must be from 0 to " + std::to_string(set.n) + " - 1; got " + std::to_string(rows.data()[i]));
    float* out;
    Array<float> result = new_array({asked.n, rows.shape(1)}, out);
    nb::gil_scoped_release unlocked;
    bilsh::score_rows(asked, set, rows.data(), rows.shape(1), n_jobs, out);
    return result;
}

nb::tuple score_top_k(const Floats& weights, const Bias& bias, const std::vector<Codes>& slabs, std::size_t k,
                      const std::optional<Ids>& ids, const std::optional<Bitmap>& alive, int n_jobs) {
    const bilsh::Weights asked = weights_of(weights, bias);
    const bilsh::CodeSet set = code_set(slabs, (asked.bits + 7) / 8, ids, alive);
    const std::size_t width = std::min(k, set.count_alive());
    std::int64_t* found;
    float* out;
    Array<std::int64_t> id_array = new_array({asked.n, width}, found);
    Array<float> score_array = new_array({asked.n, width}, out);
    {
        nb::gil_scoped_release unlocked;
        bilsh::score_top_k(asked, set, k, n_jobs, found, out);
    }
    return nb::make_tuple(id_array, score_array);
}

}  // namespace

void bind_search(nb::module_& m) {
    m.def("hamming_matrix", &hamming_matrix, nb::arg("a").noconvert(), nb::arg("b").noconvert(), nb::arg("n_jobs") = 1,
          "Distances of every code of a to every code of b.");
    m.def("hamming_top_k", &hamming_top_k, nb::arg("queries").noconvert(), nb::arg("slabs").noconvert(), nb::arg("k"),
          nb::arg("ids").noconvert() = nb::none(), nb::arg("alive").noconvert() = nb::none(), nb::arg("n_jobs") = 1,
          "The k nearest codes of each query, by (distance, id).");
    m.def("hamming_within", &hamming_within, nb::arg("queries").noconvert(), nb::arg("slabs").noconvert(),
          nb::arg("radius"), nb::arg("ids").noconvert() = nb::none(), nb::arg("alive").noconvert() = nb::none(),
          nb::arg("n_jobs") = 1, "All codes within the radius of each query: offsets, ids, distances.");
    m.def("progressive_top_k", &progressive_top_k, nb::arg("queries").noconvert(), nb::arg("slabs").noconvert(),
          nb::arg("k"), nb::arg("limits").noconvert(), nb::arg("seeds"), nb::arg("ids").noconvert() = nb::none(),
          nb::arg("alive").noconvert() = nb::none(), nb::arg("n_jobs") = 1,
          "The k nearest codes of each query, found slab by slab: ids, distances, counters.");
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
