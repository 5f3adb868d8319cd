// Posteriors of hits as Python sees them.
#include "bindings.h"
#include "hit_posterior.h"
#include "smallest.h"

namespace {

using Column = In<double, 1>;
using Matrix = In<double, 2>;

void same_rows(std::size_t rows, std::initializer_list<std::size_t> others) {
    for (const std::size_t other : others)
        require(other == rows, "one number per query is needed, " + text(rows) + "; got " + text(other));
}

Out<double, 2> local_dimension(const Matrix& window, const Column& mean, const Column& ranking, const Column& start,
                               std::size_t n_bits, double usual, double spread, int steps) {
    const std::size_t n = window.shape(0), width = window.shape(1);
    same_rows(n, {mean.shape(0), ranking.shape(0), start.shape(0)});
    require(width >= 2, "a window has at least two fractions");
    require(n_bits >= 1, "n_bits must be at least 1");
    Out<double, 2> out = new_matrix<double>(n, 3);
    const nb::gil_scoped_release released;
    for (std::size_t i = 0; i < n; ++i) {
        const bilsh::LocalDimension found =
            bilsh::local_dimension(window.data() + i * width, width, mean.data()[i], ranking.data()[i], start.data()[i],
                                   n_bits, {usual, spread}, steps);
        double* row = out.data() + 3 * i;
        row[0] = found.log_dimension, row[1] = found.doubt, row[2] = found.log_scale;
    }
    return out;
}

std::tuple<Out<double, 2>, Out<double, 2>, Out<double, 2>> hit_beta(
    const Matrix& fractions, const Matrix& own_bits, const Matrix& own, const Matrix& bits, const Matrix& estimates,
    const Column& dimension, const Column& mean, const Column& doubt, const Column& ranking,
    const std::optional<Column>& log_scale, double share) {
    const std::size_t n = fractions.shape(0), k = fractions.shape(1);
    same_rows(
        n, {dimension.shape(0), mean.shape(0), doubt.shape(0), ranking.shape(0), log_scale ? log_scale->shape(0) : n});
    for (const Matrix* one : {&own_bits, &own, &bits, &estimates})
        require(one->shape(0) == n && one->shape(1) == k, "all matrices must have the shape of the hits");
    Out<double, 2> successes = new_matrix<double>(n, k), failures = new_matrix<double>(n, k),
                   planted = new_matrix<double>(n, k);
    {
        const nb::gil_scoped_release released;
        for (std::size_t i = 0; i < n; ++i) {
            const bilsh::QueryModel model{dimension.data()[i],
                                          mean.data()[i],
                                          doubt.data()[i],
                                          ranking.data()[i],
                                          log_scale ? log_scale->data()[i] : 0.0,
                                          log_scale.has_value()};
            for (std::size_t at = i * k; at < (i + 1) * k; ++at) {
                const double copy = bilsh::planted(fractions.data()[at], model);
                const bilsh::Beta beta = bilsh::hit_beta(
                    {fractions.data()[at], own_bits.data()[at], own.data()[at], bits.data()[at], estimates.data()[at]},
                    model, share, copy);
                successes.data()[at] = beta.successes, failures.data()[at] = beta.failures, planted.data()[at] = copy;
            }
        }
    }
    return {successes, failures, planted};
}

Out<double, 2> beta_quantiles(const Matrix& z, const Matrix& successes, const Matrix& failures, double fewest) {
    const std::size_t n = successes.shape(0), k = successes.shape(1), levels = z.shape(0);
    require(failures.shape(0) == n && failures.shape(1) == k, "successes and failures must have one shape");
    require(z.shape(1) == k, "a level has one number per rank, " + text(k) + "; got " + text(z.shape(1)));
    Out<double, 2> out = new_matrix<double>(levels * n, k);
    const nb::gil_scoped_release released;
    for (std::size_t level = 0; level < levels; ++level)
        for (std::size_t at = 0; at < n * k; ++at)
            out.data()[level * n * k + at] =
                bilsh::beta_quantile(z.data()[level * k + at % k], {successes.data()[at], failures.data()[at]}, fewest);
    return out;
}

Out<std::int64_t, 2> smallest(const Matrix& values, std::size_t k) {
    const std::size_t rows = values.shape(0), n = values.shape(1);
    require(k <= n, "k must be at most the number of columns, " + text(n) + "; got " + text(k));
    Out<std::int64_t, 2> places = new_matrix<std::int64_t>(rows, k);
    if (k == 0) return places;
    unlocked([&] {
        bilsh::Smallest search;
        for (std::size_t i = 0; i < rows; ++i) search.find(values.data() + i * n, n, k, places.data() + i * k);
    });
    return places;
}

}  // namespace

void bind_hits(nb::module_& m) {
    m.def("local_dimension", &local_dimension, nb::arg("window"), nb::arg("mean"), nb::arg("ranking"), nb::arg("start"),
          nb::arg("n_bits"), nb::arg("usual"), nb::arg("spread"), nb::arg("steps"),
          "Logarithm of the local dimension, its variance, and the logarithm of expected items over the likelihood's "
          "integral: a row per query.");
    m.def("hit_beta", &hit_beta, nb::arg("fractions"), nb::arg("own_bits"), nb::arg("own"), nb::arg("bits"),
          nb::arg("estimates"), nb::arg("dimension"), nb::arg("mean"), nb::arg("doubt"), nb::arg("ranking"),
          nb::arg("log_scale"), nb::arg("share"),
          "Parameters of the Beta distributions of hits, and the probabilities of copies.");
    m.def("beta_quantiles", &beta_quantiles, nb::arg("z"), nb::arg("successes"), nb::arg("failures"), nb::arg("fewest"),
          "Values of Beta distributions at standard normal ones: a matrix for each row of z.");
    m.def("smallest", &smallest, nb::arg("values"), nb::arg("k"),
          "Columns of the k smallest numbers of each row, ascending by (number, column).");
}
