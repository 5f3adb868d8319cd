// Encoding as Python sees it. Type, shape and bounds of arguments are checked here; meaning in Python.
#include <cmath>

#include "bindings.h"
#include "encode.h"
#include "finite.h"

namespace {

using Vector = In<float, 1>;
using OptionalVector = OptionalIn<float, 1>;

void check_bits(std::size_t k, const Vector& offsets, const OptionalVector& tau) {
    require(k >= 1, "a plan needs at least one bit");
    require(offsets.shape(0) == k,
            "offsets must have " + text(k) + " entries, one per bit; got " + text(offsets.shape(0)));
    require(!tau || tau->shape(0) == k,
            "tau must have " + text(k) + " entries, one per bit; got " + text(tau ? tau->shape(0) : 0));
}

template <class Indices>
void check_indices(const Indices& indices, std::size_t column, std::size_t columns, std::size_t limit,
                   const char* name) {
    for (std::size_t r = 0; r < indices.shape(0); ++r) {
        const int32_t index = indices.data()[r * columns + column];
        require(index >= 0 && static_cast<std::size_t>(index) < limit, std::string(name) + " must lie in [0, " +
                                                                           text(limit) + "); entry " + text(r) +
                                                                           " is " + std::to_string(index));
    }
}

bilsh::Variate variate(const std::string& kind) {
    if (kind == "gaussian") return bilsh::Variate::gaussian;
    if (kind == "cauchy") return bilsh::Variate::cauchy;
    if (kind == "laplace") return bilsh::Variate::laplace;
    throw std::invalid_argument("kind must be 'gaussian', 'cauchy' or 'laplace'; got '" + kind + "'");
}

void check_input(const bilsh::Plan& plan, const In<float, 2>& x, int n_jobs) {
    require(x.shape(1) == plan.dimension(),
            "X has " + text(x.shape(1)) + " columns; this plan encodes " + text(plan.dimension()));
    require(n_jobs >= 1, "n_jobs must be at least 1; got " + std::to_string(n_jobs));
}

void run(const bilsh::Plan& plan, const In<float, 2>& x, bilsh::Output output, int n_jobs) {
    std::atomic<bool> nonfinite{false};
    output.nonfinite = &nonfinite;
    unlocked([&] { plan.run(x.data(), x.shape(0), output, thread_count(n_jobs)); });
    if (nonfinite) throw bilsh::NonFinite("the projection of an item is not finite");
}

Out<uint8_t, 2> encode(const bilsh::Plan& plan, const In<float, 2>& x, int n_jobs) {
    check_input(plan, x, n_jobs);
    auto codes = new_matrix<uint8_t>(x.shape(0), plan.bits().bytes());
    bilsh::Output output;
    output.codes = codes.data();
    run(plan, x, output, n_jobs);
    return codes;
}

Out<float, 2> project(const bilsh::Plan& plan, const In<float, 2>& x, int n_jobs) {
    check_input(plan, x, n_jobs);
    auto values = new_matrix<float>(x.shape(0), plan.bits().size());
    bilsh::Output output;
    output.values = values.data();
    run(plan, x, output, n_jobs);
    return values;
}

void check_rearrangement(const OptionalIn<int32_t, 1>& permutation, const OptionalVector& signs, std::size_t size) {
    if (permutation) {
        require(permutation->shape(0) == size,
                "permutation must have d_w * d_v = " + text(size) + " entries; got " + text(permutation->shape(0)));
        check_indices(*permutation, 0, 1, size, "permutation");
        std::vector<bool> seen(size);
        for (std::size_t e = 0; e < size; ++e) {
            require(!seen[permutation->data()[e]], "permutation must name each entry once; " +
                                                       std::to_string(permutation->data()[e]) + " occurs twice");
            seen[permutation->data()[e]] = true;
        }
    }
    if (signs) {
        require(signs->shape(0) == size,
                "signs must have d_w * d_v = " + text(size) + " entries; got " + text(signs->shape(0)));
        for (std::size_t e = 0; e < size; ++e)
            require(std::fabs(signs->data()[e]) == 1.0f,
                    "signs must be +1 or -1; entry " + text(e) + " is " + std::to_string(signs->data()[e]));
    }
}

void new_bilinear_plan(bilsh::BilinearPlan* self, In<float, 2> left, In<float, 2> right, In<int32_t, 2> pairs,
                       Vector offsets, OptionalVector tau, std::size_t d, OptionalIn<int32_t, 1> permutation,
                       OptionalVector signs, bool left_first) {
    require(pairs.shape(1) == 2, "pairs must have shape (k, 2); got " + text(pairs.shape(1)) + " columns");
    check_bits(pairs.shape(0), offsets, tau);
    const bilsh::BilinearShape shape{left.shape(0), left.shape(1), right.shape(0), right.shape(1), d};
    constexpr std::size_t too_many = std::size_t{1} << 31;
    require(shape.left_dim < too_many && shape.right_dim < too_many && shape.left_dim * shape.right_dim < too_many,
            "d_w * d_v must be below 2^31; got " + text(shape.left_dim) + " * " + text(shape.right_dim));
    const std::size_t size = shape.left_dim * shape.right_dim;
    require(d >= 1 && d <= size, "d must lie in [1, d_w * d_v = " + text(size) + "]; got " + text(d));
    check_indices(pairs, 0, 2, shape.left_rows, "pairs[:, 0]");
    check_indices(pairs, 1, 2, shape.right_rows, "pairs[:, 1]");
    check_rearrangement(permutation, signs, size);
    new (self) bilsh::BilinearPlan(shape, left.data(), right.data(), pairs.data(), pairs.shape(0), offsets.data(),
                                   data_or_null(tau), permutation ? permutation->data() : nullptr, data_or_null(signs),
                                   left_first);
}

void new_dense_plan(bilsh::DensePlan* self, In<float, 2> weights, In<int32_t, 1> outputs, Vector offsets,
                    OptionalVector tau) {
    check_bits(outputs.shape(0), offsets, tau);
    require(weights.shape(1) >= 1, "weights must have at least one column");
    check_indices(outputs, 0, 1, weights.shape(0), "outputs");
    new (self) bilsh::DensePlan(weights.data(), weights.shape(1), outputs.data(), outputs.shape(0), offsets.data(),
                                data_or_null(tau));
}

struct StreamedDensePlan : bilsh::DensePlan {
    using bilsh::DensePlan::DensePlan;
};

void new_streamed_plan(StreamedDensePlan* self, uint64_t seed, const std::string& kind, Vector row_scale, std::size_t d,
                       In<int32_t, 1> outputs, Vector offsets, OptionalVector tau, std::size_t block_bytes) {
    check_bits(outputs.shape(0), offsets, tau);
    require(d >= 1 && d < (std::size_t{1} << 32), "d must lie in [1, 2^32); got " + text(d));
    check_indices(outputs, 0, 1, row_scale.shape(0), "outputs");
    new (self) StreamedDensePlan(seed, variate(kind), row_scale.data(), row_scale.shape(0), d, outputs.data(),
                                 outputs.shape(0), offsets.data(), data_or_null(tau), block_bytes);
}

void new_hadamard_plan(bilsh::HadamardPlan* self, In<float, 3> signs, In<int32_t, 1> outputs, std::size_t d,
                       float scale, Vector offsets, OptionalVector tau) {
    check_bits(outputs.shape(0), offsets, tau);
    const std::size_t blocks = signs.shape(0), size = signs.shape(2);
    require(signs.shape(1) == 3,
            "signs must have shape (blocks, 3, D); got " + text(signs.shape(1)) + " in the middle");
    require(size >= 1 && (size & (size - 1)) == 0, "D must be a power of two; got " + text(size));
    require(d >= 1 && d <= size, "d must lie in [1, D = " + text(size) + "]; got " + text(d));
    require(blocks < (std::size_t{1} << 31) / size,
            "blocks * D must be below 2^31; got " + text(blocks) + " * " + text(size));
    check_indices(outputs, 0, 1, blocks * size, "outputs");
    new (self) bilsh::HadamardPlan(signs.data(), blocks, size, outputs.data(), outputs.shape(0), d, scale,
                                   offsets.data(), data_or_null(tau));
}

Out<float, 2> dense_weights(uint64_t seed, const std::string& kind, Vector row_scale, std::size_t d,
                            std::size_t row_start, std::size_t row_stop) {
    require(row_start <= row_stop && row_stop <= row_scale.shape(0),
            "rows must satisfy 0 <= row_start <= row_stop <= " + text(row_scale.shape(0)) + "; got " + text(row_start) +
                " and " + text(row_stop));
    require(d < (std::size_t{1} << 32), "d must be below 2^32; got " + text(d));
    const bilsh::Variate variates = variate(kind);
    auto weights = new_matrix<float>(row_stop - row_start, d);
    unlocked([&] { bilsh::dense_weights(seed, variates, row_scale.data(), d, row_start, row_stop, weights.data()); });
    return weights;
}

Out<uint8_t, 2> quantize(In<float, 2> values, OptionalVector tau) {
    const std::size_t n = values.shape(0), k = values.shape(1);
    require(!tau || tau->shape(0) == k,
            "tau must have " + text(k) + " entries, one per column; got " + text(tau ? tau->shape(0) : 0));
    auto codes = new_matrix<uint8_t>(n, (k + 7) / 8);
    if (k == 0) return codes;
    unlocked([&] { bilsh::quantize(values.data(), n, k, data_or_null(tau), codes.data()); });
    return codes;
}

}  // namespace

void bind_encode(nb::module_& m) {
    nb::exception<bilsh::NonFinite>(m, "NonFiniteError", PyExc_ValueError);
    nb::class_<bilsh::Plan>(m, "Plan",
                            "Compiled projection and quantiser: float32 rows in, packed codes or values out.")
        .def("encode", &encode, nb::arg("X").noconvert(), nb::arg("n_jobs") = 1, "Packed codes (n, ceil(k / 8)).")
        .def("project", &project, nb::arg("X").noconvert(), nb::arg("n_jobs") = 1,
             "Values (n, k) of every bit, offset included, by the chains that encode uses.");
    nb::class_<bilsh::BilinearPlan, bilsh::Plan>(m, "BilinearPlan", "w_i^T M v_j for selected pairs (i, j).")
        .def("__init__", &new_bilinear_plan, nb::arg("left").noconvert(), nb::arg("right").noconvert(),
             nb::arg("pairs").noconvert(), nb::arg("offsets").noconvert(), nb::arg("tau").noconvert().none(),
             nb::arg("d"), nb::arg("permutation").noconvert().none(), nb::arg("signs").noconvert().none(),
             nb::arg("left_first"));
    nb::class_<bilsh::DensePlan, bilsh::Plan>(m, "DensePlan", "Rows of stored weights.")
        .def("__init__", &new_dense_plan, nb::arg("weights").noconvert(), nb::arg("outputs").noconvert(),
             nb::arg("offsets").noconvert(), nb::arg("tau").noconvert().none());
    nb::class_<StreamedDensePlan, bilsh::Plan>(m, "StreamedDensePlan",
                                               "Rows of weights regenerated in blocks while encoding.")
        .def("__init__", &new_streamed_plan, nb::arg("seed"), nb::arg("kind"), nb::arg("row_scale").noconvert(),
             nb::arg("d"), nb::arg("outputs").noconvert(), nb::arg("offsets").noconvert(),
             nb::arg("tau").noconvert().none(), nb::arg("block_bytes") = std::size_t{1} << 20);
    nb::class_<bilsh::HadamardPlan, bilsh::Plan>(m, "HadamardPlan", "H s3 H s2 H s1 x in blocks.")
        .def("__init__", &new_hadamard_plan, nb::arg("signs").noconvert(), nb::arg("outputs").noconvert(), nb::arg("d"),
             nb::arg("scale"), nb::arg("offsets").noconvert(), nb::arg("tau").noconvert().none());
    m.def("dense_weights", &dense_weights, nb::arg("seed"), nb::arg("kind"), nb::arg("row_scale").noconvert(),
          nb::arg("d"), nb::arg("row_start"), nb::arg("row_stop"),
          "Rows [row_start, row_stop) of the weights that StreamedDensePlan uses: row_scale[row] * variate.");
    m.def(
        "first_nonfinite",
        [](const In<float, 2>& x) {
            std::int64_t first = -1;
            unlocked([&] { first = bilsh::first_nonfinite(x.data(), x.size()); });
            return first;
        },
        nb::arg("X").noconvert(), "Flat index of the first NaN or infinity, or -1.");
    m.def("quantize", &quantize, nb::arg("values").noconvert(), nb::arg("tau").noconvert().none(),
          "Packed codes of ready values: value >= 0, or |value - rint(value)| <= tau.");
}
