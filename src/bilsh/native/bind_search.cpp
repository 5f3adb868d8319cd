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

namespace nb = nanobind;

// ---- search: distances of packed codes ----
namespace {

using Codes = nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
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
}
