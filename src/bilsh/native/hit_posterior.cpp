#include "hit_posterior.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace bilsh {

namespace {

constexpr double smallest_dimension = 0.5;
constexpr double largest_dimension = 1.5;  // over the bits of ranking, beyond which all hits look alike
constexpr double dispersion =
    3.0;  // variance of a log dimension over that of independent counts: neighbours share theirs
constexpr double planted_density = 2.0;  // of copies, over all counts from 0 to n_bits
constexpr std::size_t parts = 12;

struct LogGamma {
    double value, derivative;
};

// Stirling's series one step up: from 0.5 on within 0.006.
LogGamma log_gamma(double x) {
    const double y = x + 0.5, log_y = std::log(y), inverse = (1.0 / 24) / y;
    return {y * (log_y - 1) - std::log(x) + (0.9189385332046727 - inverse), log_y + inverse / y - 1 / x};
}

// Nodes on (0, 1), dense near 1 where the density of a window lies, and the logarithms of their weights: Gauss and
// Legendre's rule for v, the node being v^(1/6).
struct Quadrature {
    static constexpr std::size_t size = 24;
    std::array<double, size> node, log_weight;

    Quadrature() {
        constexpr double pi = 3.141592653589793;
        for (std::size_t i = 0; i < size; ++i) {
            double x = -std::cos(pi * (static_cast<double>(i) + 0.75) / (size + 0.5)), slope = 1;
            for (int round = 0; round < 8; ++round) {  // Newton's method on the Legendre polynomial
                double before = 1, value = x;
                for (std::size_t n = 2; n <= size; ++n) {
                    const double next = ((2.0 * n - 1) * x * value - (n - 1.0) * before) / n;
                    before = value, value = next;
                }
                slope = size * (x * value - before) / (x * x - 1);
                x -= value / slope;
            }
            const double v = (x + 1) / 2;
            node[i] = std::pow(v, 1.0 / 6);
            log_weight[i] = std::log(std::pow(v, 1.0 / 6 - 1) / 6 / ((1 - x * x) * slope * slope));
        }
    }
};

// The likelihood needs the mean of a smooth function only: groups of neighbouring fractions stand for all.
struct Window {
    std::size_t groups = 0;
    std::array<double, 2 * parts> value, share;
    double count, end;

    Window(const double* fractions, std::size_t width, std::size_t n_bits) {
        const double bit = 1.0 / static_cast<double>(n_bits);
        const double cut = std::min(std::max(fractions[width - 1], fractions[0] + bit), 1.0);
        const std::size_t step = std::max<std::size_t>(1, width / parts);
        double total = 0;
        for (std::size_t start = 0; start < width; start += step, ++groups) {
            double inside = 0, sum = 0;
            for (std::size_t i = start; i < std::min(width, start + step); ++i)
                if (fractions[i] < cut - 1e-12) ++inside, sum += fractions[i];
            value[groups] = sum / std::max(inside, 1.0), share[groups] = inside;
            total += inside;
        }
        for (std::size_t i = 0; i < groups; ++i) share[i] /= std::max(total, 1.0);
        count = std::max(total, 0.5), end = cut - bit / 2;
    }
};

}  // namespace

LocalDimension local_dimension(const double* fractions, std::size_t width, double mean, double ranking, double start,
                               std::size_t n_bits, const UsualDimension& usual, int steps) {
    static const Quadrature rule;
    const Window window(fractions, width, n_bits);
    const double prior = dispersion / std::pow(std::max(usual.spread, 0.1), 2);
    const double reach = ranking * window.end, odds = (1 - mean) / mean;
    std::array<double, Quadrature::size> fixed, density, score;
    for (std::size_t i = 0; i < rule.size; ++i) {
        const double differ = reach * rule.node[i];
        fixed[i] = rule.log_weight[i] - log_gamma(differ + 1).value - log_gamma(ranking - differ + 1).value;
    }
    const double low = std::log(smallest_dimension), high = std::log(std::max(largest_dimension * ranking, 1.0));
    double u = std::min(start, high);
    for (int left = steps;; --left) {
        const double m = std::exp(u);
        const auto at = [&](double differ) {
            const LogGamma first = log_gamma(differ + m), second = log_gamma(ranking - differ + m * odds);
            return LogGamma{first.value + second.value, first.derivative + odds * second.derivative};
        };
        for (std::size_t i = 0; i < rule.size; ++i) {
            const LogGamma here = at(reach * rule.node[i]);
            density[i] = fixed[i] + here.value, score[i] = here.derivative;
        }
        const double top = *std::max_element(density.begin(), density.end());
        double total = 0, expected = 0, spread = 0;
        for (double& one : density) total += one = std::exp(one - top);
        for (std::size_t i = 0; i < rule.size; ++i) expected += density[i] / total * score[i];
        for (std::size_t i = 0; i < rule.size; ++i) spread += density[i] / total * std::pow(score[i] - expected, 2);
        const double information = window.count * std::max(m * m * spread, 0.02) + prior;
        if (left <= 0)
            return {u, std::min(dispersion / information, 1.0), std::log(window.count / (total * reach)) - top};
        double seen = 0;
        for (std::size_t i = 0; i < window.groups; ++i)
            if (window.share[i] > 0) seen += at(window.value[i] * ranking).derivative * window.share[i];
        const double step = (window.count * m * (seen - expected) - prior * (u - usual.mean)) / information;
        u = std::clamp(u + std::clamp(step, -1.0, 1.0), low, high);
    }
}

double planted(double fraction, const QueryModel& model) {
    if (!model.windowed) return 0.5;
    const double x = fraction * model.ranking, rest = std::max(model.ranking - x, 0.0), m = model.dimension;
    const double density = log_gamma(x + m).value - log_gamma(x + 1).value +
                           log_gamma(rest + m * (1 - model.mean) / model.mean).value - log_gamma(rest + 1).value;
    const double expected = model.log_scale + density + std::log(model.ranking);
    return 1 / (1 + std::exp(std::clamp(expected, -50.0, 50.0)) / planted_density);
}

Beta hit_beta(const HitView& hit, const QueryModel& model, double q, double copy) {
    const auto [f, own_bits, own, bits, p] = hit;
    const double pull = q * model.dimension / model.mean, kept = bits / (bits + pull);
    // Of the noise the share q is shrunk like the mean, the rest is not; the doubt about the dimension is added.
    double variance = p * (1 - p) * (q * kept / (bits + 1) + (1 - q) / bits);
    variance += model.doubt * std::pow(pull * kept * (model.mean - f) / (bits + pull), 2);
    const double own_variance = own * (1 - own) / (own_bits + 3);
    const double centre = copy * own + (1 - copy) * p;
    variance = copy * own_variance + (1 - copy) * variance + copy * (1 - copy) * std::pow(p - own, 2);
    const double total = std::max(centre * (1 - centre) / variance - 1, 2.0);
    return {centre * total, (1 - centre) * total};
}

double beta_quantile(double z, const Beta& beta, double fewest) {
    const double u = 1 / (9 * std::max(beta.successes, fewest)), v = 1 / (9 * std::max(beta.failures, fewest));
    const double left = 1 - u, right = 1 - v, square = z * z;
    const double inner = std::max(u * right * right + v * left * left - square * (u * v), 0.0);
    const double bottom = std::max(right * right - square * v, 1e-6);
    const double root = std::max((left * right + z * std::sqrt(inner)) / bottom, 0.0);
    const double odds = root * root * root * (beta.successes / beta.failures);
    return odds / (1 + odds);
}

}  // namespace bilsh
