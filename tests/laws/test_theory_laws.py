"""The formulas against the hash itself, sampled literally; false-failure rate 1e-6 each.

Every sample draws its own w, v, b, t; so samples are independent, whatever the bits of one code share.
"""

import numpy as np
import pytest

from bilsh import theory
from bilsh.theory import BitSharing
from support import SEED, assert_mean, assert_proportion, pair_with_spectrum, random_spectrum, rng_from

N_BITS = 200_000
RANKS = [(1, 0.6), (2, 1.5), (5, 1.0), (30, 0.3), (200, 1.2)]


def blocks(n, size=20_000):
    return (min(size, n - start) for start in range(0, n, size))


def hash_bits(u, b, t):
    """eq. 7: [cos(w^T X v + b) + t >= 0] for projections u = w^T X v."""
    return np.cos(u + b) + t >= 0


def offsets(n, rng, thresholds):
    t = rng.uniform(-1, 1, size=n) if thresholds == "random" else np.zeros(n)
    return rng.uniform(0, 2 * np.pi, size=n), t


def differs(u_x, u_y, rng, thresholds):
    b, t = offsets(len(u_x), rng, thresholds)
    return hash_bits(u_x, b, t) != hash_bits(u_y, b, t)


@pytest.mark.parametrize(("rank", "s"), RANKS)
def test_bilinear_bits_follow_lemma_2(rank, s):
    rng = rng_from([SEED, rank])
    spectrum = random_spectrum(rank, s, rng)
    X, Y = pair_with_spectrum(spectrum, shape=(rank, rank + 1), rng=rng)
    count = {"random": 0, "zero": 0}
    for n in blocks(N_BITS):
        w, v = (rng.standard_normal((n, d), dtype=np.float32) for d in X.shape)
        u_x, u_y = (np.einsum("ij,ij->i", w @ M.astype(np.float32), v) for M in (X, Y))
        for thresholds in count:
            count[thresholds] += differs(u_x, u_y, rng, thresholds).sum()
    for thresholds, successes in count.items():
        expected = theory.expected_hamming(theory.spectrum_of(X, Y), thresholds=thresholds)
        assert_proportion(successes, N_BITS, float(expected), detects=0.009)


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "cauchy", "matern", "angle"])
def test_dense_bits_of_every_kernel(kernel):
    rng, d, nu = rng_from([SEED, 1]), 6, 1.5
    x, y = rng.normal(size=(2, d)) * 0.4
    D = x - y
    w = {
        "gaussian": lambda: rng.normal(size=(N_BITS, d)),
        "laplacian": lambda: rng.standard_cauchy(size=(N_BITS, d)),
        "cauchy": lambda: rng.laplace(size=(N_BITS, d)),
        "matern": lambda: rng.normal(size=(N_BITS, d)) / np.sqrt(rng.gamma(nu, 1 / nu, size=(N_BITS, 1))),
        "angle": lambda: rng.normal(size=(N_BITS, d)),
    }[kernel]()
    if kernel == "angle":
        angle = np.arccos(x @ y / np.linalg.norm(x) / np.linalg.norm(y))
        mismatches = (w @ x >= 0) != (w @ y >= 0)
        expected = theory.expected_hamming(angle, kernel="angle")
        assert_proportion(mismatches.sum(), N_BITS, float(expected), detects=0.009)
        return
    argument = {"laplacian": np.abs(D).sum(), "cauchy": D}.get(kernel, np.linalg.norm(D))
    extra = {"nu": nu} if kernel == "matern" else {}
    for thresholds in ("random", "zero"):
        mismatches = differs(w @ x, w @ y, rng, thresholds)
        expected = theory.expected_hamming(argument, kernel=kernel, thresholds=thresholds, **extra)
        assert_proportion(mismatches.sum(), N_BITS, float(expected), detects=0.009)


@pytest.mark.parametrize("thresholds", ["random", "zero"])
@pytest.mark.parametrize(("rank", "s"), [(1, 1.0), (3, 1.3), (20, 1.0)])
def test_covariance_of_bits_that_share_a_vector(rank, s, thresholds):
    rng = rng_from([SEED, rank, 2])
    X, Y = pair_with_spectrum(random_spectrum(rank, s, rng), shape=(rank, rank + 1), rng=rng)
    spectrum = theory.spectrum_of(X, Y)
    p = theory.expected_hamming(spectrum, thresholds=thresholds)
    products = {"one": [], "both": []}
    for n in blocks(N_BITS):
        w, v, other = rng.normal(size=(n, rank)), *rng.normal(size=(2, n, rank + 1))
        left_x, left_y = w @ X, w @ Y
        first = differs((left_x * v).sum(axis=1), (left_y * v).sum(axis=1), rng, thresholds) - p
        for shared, right in (("one", other), ("both", v)):
            second = differs((left_x * right).sum(axis=1), (left_y * right).sum(axis=1), rng, thresholds) - p
            products[shared].append(first * second)
    for shared, samples in products.items():
        expected = theory.bit_covariance(spectrum, shared=shared, thresholds=thresholds)
        assert_mean(np.concatenate(samples), float(expected), detects=0.005)


def test_covariance_of_quadrature_bits():
    rng = rng_from([SEED, 3])
    X, Y = pair_with_spectrum([1.5, 0.7, 0.1], rng=rng)
    w, v = rng.normal(size=(N_BITS, X.shape[0])), rng.normal(size=(N_BITS, X.shape[1]))
    u_x, u_y = ((w @ M * v).sum(axis=1) for M in (X, Y))
    b, t = offsets(N_BITS, rng, "zero")
    spectrum = theory.spectrum_of(X, Y)
    p = theory.expected_hamming(spectrum, thresholds="zero")
    first, second = (hash_bits(u_x, b - turn, t) != hash_bits(u_y, b - turn, t) for turn in (0, np.pi / 2))
    expected = theory.bit_covariance(spectrum, shared="quadrature", thresholds="zero")
    assert_mean((first - p) * (second - p), float(expected), detects=0.005)
    joint = theory.expected_hamming(spectrum, thresholds="zero") - 0.5 * theory.expected_hamming(
        4 * spectrum, thresholds="zero"
    )
    assert_proportion((first & second).sum(), N_BITS, float(joint), detects=0.009)


@pytest.mark.parametrize("design", ["grid", "prefix", "quadrature"])
def test_variance_of_whole_codes(design):
    """Squared deviations of 4,000 independent codes from the exact mean have the exact variance."""
    rng, side, n_codes = rng_from([SEED, 4]), 6, 4000
    thresholds = "zero" if design == "quadrature" else "random"
    X, Y = pair_with_spectrum([0.8, 0.5], shape=(3, 3), rng=rng)
    spectrum = theory.spectrum_of(X, Y)
    pairs = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), axis=-1).reshape(-1, 2)
    sharing = BitSharing.from_pairs(
        np.repeat(pairs, 2, axis=0) if design == "quadrature" else pairs, quadrature=design == "quadrature"
    )
    if design == "prefix":
        sharing = sharing.prefix(20)
    W, V = rng.normal(size=(n_codes, 3, side)), rng.normal(size=(n_codes, 3, side))
    u_x, u_y = ((np.swapaxes(W, 1, 2) @ M @ V).reshape(n_codes, -1) for M in (X, Y))
    b, t = (values.reshape(u_x.shape) for values in offsets(u_x.size, rng, thresholds))
    mismatches = hash_bits(u_x, b, t) != hash_bits(u_y, b, t)
    if design == "prefix":
        mismatches = rng.permuted(mismatches, axis=1)[:, :20]
    if design == "quadrature":
        turned = b - np.pi / 2
        mismatches = np.concatenate(
            [mismatches, hash_bits(u_x, turned, t) != hash_bits(u_y, turned, t)], axis=1
        )
    deviations = mismatches.mean(axis=1) - theory.expected_hamming(spectrum, thresholds=thresholds)
    expected = theory.code_variance(spectrum, sharing, thresholds=thresholds)
    assert_mean(deviations**2, float(expected), detects=0.25 * float(expected))
