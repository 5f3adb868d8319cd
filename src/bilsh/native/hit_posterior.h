// Posteriors of hits, the arithmetic of bilsh/theory/hits.py: a query alone would wait for NumPy's calls, not for sums.
#pragma once

#include <cstddef>

namespace bilsh {

// What is usual for a query's neighbourhood: mean and standard deviation of the logarithm of the local dimension.
struct UsualDimension {
    double mean, spread;
};

// Logarithm of the local dimension around a query, its variance, and the logarithm of the expected number of ordinary
// items over the likelihood's integral.
struct LocalDimension {
    double log_dimension, doubt, log_scale;
};

// Maximum of the truncated beta-binomial likelihood of a query's smallest fractions (ascending, at least two), times a
// normal prior: with few counts the prior decides, with many the query's own neighbourhood. Newton's method with
// Fisher's information, from `start`; variance and integral belong to the dimension after the last step. `ranking` are
// the bits by which items are ranked.
LocalDimension local_dimension(const double* window, std::size_t width, double mean, double ranking, double start,
                               std::size_t n_bits, const UsualDimension& usual, int steps);

// What is known of a query when its hits are judged. Without a window `log_scale` means nothing.
struct QueryModel {
    double dimension, mean, doubt, ranking, log_scale;
    bool windowed;
};

// A hit: its observed fraction; the effective bits and the estimate of its own bits alone; those of the model.
struct HitView {
    double fraction, own_bits, own, bits, estimate;
};

struct Beta {
    double successes, failures;
};

// Probability that a hit is a copy that the model knows nothing of, given the ordinary items expected there.
double planted(double fraction, const QueryModel& model);

// Beta distribution with mean and variance of the mixture: the model's posterior, or with probability `copy` a copy
// judged by its own bits.
Beta hit_beta(const HitView& hit, const QueryModel& model, double share, double copy);

// Value of a Beta distribution at a standard normal one, by cube roots (Paulson); 0 where it lies below all of them.
// Counts below `fewest` are taken for that many.
double beta_quantile(double z, const Beta& beta, double fewest);

}  // namespace bilsh
