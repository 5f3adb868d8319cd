"""Numbers of docs/theory.md."""

from functools import cache

import numpy as np
from claim import Claim
from scipy.optimize import brentq

from bilsh import datasets, theory
from bilsh.evaluation import ground_truth
from bilsh.theory import BitSharing
from bilsh.theory.covariance import _exponential_sum
from bilsh.theory.distance import gaussian_split

PAGE = "docs/theory.md"
STEEPEST = np.array([0.21875] * 4 + [0.125])
GEOMETRIC = 0.6 ** np.arange(40) / (0.6 ** np.arange(40)).sum()


def fisher_ratios():
    s = np.array([0.5, 1, 1.25, 1.5, 2])
    zero, random = (theory.fisher_information(s, kernel="gaussian", thresholds=t) for t in ("zero", "random"))
    return [*(zero / random), *s]


def worth_of_grids():
    sides = (20, 50, 250, 1000)
    sharing = [BitSharing.from_degrees([side] * side, [side] * side) for side in sides]
    return [float(theory.effective_bits(GEOMETRIC, item)) for item in sharing]


def covariance_share(spectrum):
    s = np.sqrt(np.sum(spectrum, axis=-1))
    return theory.bit_covariance(spectrum) / theory.covariance_bounds(theory.gaussian_kernel(s)).upper


def breaking_points():
    v = brentq(lambda x: np.log1p(x) - theory.LEMMA1_EXPONENT * x, 0.1, 2)
    return [np.sqrt(5 * v) / s for s in (0.1, 0.5, 1, 1.6)] + [0.1, 0.5, 1, 1.6]


def steepest_crossing():
    return [brentq(lambda s: covariance_share(STEEPEST * s * s) - 1, 1.5, 1.7)]


def rank_one_at_one():
    return [theory.bit_covariance([1.0]), theory.covariance_bounds(np.exp(-0.5)).upper]


def printed_sizes():
    """Millions of offsets and thresholds, and of entries of W and V, for k = 62,500, m = 10, 250 x 256."""
    return [2 * 10**2 * 62_500 / 1e6, 10 * 250 * (250 + 256) / 1e6]


def broken_lower_bounds():
    return [100 * (1 - report(False).theorem_2)]


def largest_residual():
    """Largest relative error of the sum of exponentials, over min(q, 1), in units of 1e-13."""
    rates, weights = _exponential_sum("random")
    q = np.exp(np.linspace(np.log(1e-6), np.log(1e4), 20_001))
    again = -np.expm1(-np.multiply.outer(q, rates)) @ weights
    worst = np.max(np.abs(again - gaussian_split(np.sqrt(q), "random")[0] ** 2) / np.minimum(q, 1))
    return [len(rates), 2.0 if worst <= 2e-13 else 1e13 * worst]


def rank_one_crossing():
    def room(s):
        lower = theory.hamming_bounds(theory.gaussian_kernel(s), "bilinear").lower
        return float(theory.expected_hamming([s * s]) - lower)

    return [brentq(room, 1.0, 2.0)]


@cache
def mnist():
    images = datasets.mnist().X.astype(np.float64)
    return images, ground_truth(images, rng=0).threshold


def scrambled(images):
    """Random signs and a permutation of the entries, the same for all images."""
    rng, d = np.random.default_rng(0), images[0].size
    signs, order = rng.choice((-1.0, 1.0), d), rng.permutation(d)
    return (images.reshape(len(images), d) * signs)[:, order].reshape(images.shape)


@cache
def report(scramble):
    images, bandwidth = mnist()
    data = scrambled(images) if scramble else images
    return theory.check_assumptions(data, n_pairs=2000, bandwidth=bandwidth, rng=0)


def natural():
    found = report(False)
    shares = (found.norms, found.ratio, found.assumptions, found.lemma_1, found.theorem_2, found.theorem_3)
    return [
        found.n_pairs,
        *found.matrix_shape,
        found.median_distance,
        found.median_effective_rank,
        *(100 * x for x in shares),
    ]


def after_scrambling():
    found = report(True)
    holds = found.lemma_1 == found.theorem_2 == found.theorem_3 == 1
    return [found.median_effective_rank if holds else np.nan, 100 * found.ratio]


def small_norms():
    images, bandwidth = mnist()
    norms = np.linalg.norm(images / bandwidth, axis=(1, 2))
    return [100 * np.mean(norms <= theory.LEMMA1_MAX_NORM)]


CLAIMS = [
    Claim(PAGE, r"the farther the items are: (.*?) times as much at distance (.*?) \(dense", fisher_ratios),
    Claim(PAGE, r"are worth (.*?) independent ones", worth_of_grids),
    Claim(PAGE, r"to (0\.\d+) at the largest distance", lambda: [covariance_share(STEEPEST * 1.6**2)]),
    Claim(PAGE, r"the ratio passes 1 at \$s = ([\d.]+)\$", steepest_crossing),
    Claim(PAGE, r"rank 5: beyond (.*?) for \$s\$ = (.*?)\)", breaking_points),
    Claim(PAGE, r"covariance (0\.\d+), bound (0\.\d+)\)", rank_one_at_one),
    Claim(PAGE, r"rank-one differences beyond distance (1\.\d+)", rank_one_crossing),
    Claim(
        PAGE,
        r"holds up to \$u = ([\d.]+)\$",
        lambda: [brentq(lambda u: theory.kernel_exponent(u) - 0.79, 0.1, 1)],
    ),
    Claim(PAGE, r"equals a sum of (\d+) terms .*? to within \$(\d) ", largest_residual),
    Claim(PAGE, r"they are ([\d.]+) million numbers as printed, beside ([\d.]+) million", printed_sizes),
    Claim(PAGE, r"those of the selected bits: ([\d,]+)\.", lambda: [2 * 62_500]),
    Claim(
        PAGE,
        r"```\n(\d+ random pairs of 28 x 28 matrices: median distance [\d.]+, effective rank [\d.]+)\nassumptions"
        + 3 * r".*?\n +([\d.]+)%"
        + r".*?\nstatements"
        + 3 * r".*?\n +([\d.]+)%",
        natural,
        slow=True,
    ),
    Claim(
        PAGE,
        r"rank is ([\d.]+), the condition on eigenvalues holds for ([\d.]+) %",
        after_scrambling,
        slow=True,
    ),
    Claim(PAGE, r"and ([\d.]+) % of the images have norm", small_norms, slow=True),
    Claim(PAGE, r"distance 1\.404, and for ([\d.]+) % of random MNIST pairs", broken_lower_bounds, slow=True),
]
