"""What statistical tests share: checks with a stated error rate, and pairs with a given spectrum.

Every check has a false-failure probability and the smallest effect it would notice. A check that could not
notice an effect of that size fails by itself: a test that cannot fail proves nothing.
"""

import os

import numpy as np
from scipy import stats

from bilsh.codes import slab_widths

SEED = int(os.environ.get("BILSH_SEED", "0"))
"""Seed of the statistical tests; any value from 0 to 99 must pass."""

POWER = 0.99
"""Probability with which an effect of size `detects` makes a check fail."""


def rng_from(seed):
    """Generator from a seed, or the generator itself."""
    return np.random.default_rng(seed)


def assert_mean(samples, expected, *, false_fail=1e-6, detects):
    """Fail unless the mean of independent samples agrees with `expected`.

    A two-sided Student t test: the false-failure rate holds for light-tailed samples such as fractions of
    bits or products of bits. For 0/1 samples use :func:`assert_proportion`, which is exact.
    """
    samples = np.asarray(samples, dtype=np.float64).ravel()
    n = len(samples)
    if n < 100:
        raise AssertionError(f"{n} samples are too few for the stated error rate; use at least 100")
    error = samples.std(ddof=1) / np.sqrt(n)
    half_width = stats.t.isf(false_fail / 2, n - 1) * error
    noticed = half_width + stats.norm.ppf(POWER) * error
    if noticed > detects:
        raise AssertionError(
            f"{n} samples notice an effect of {noticed:.2g}, not of {detects:.2g}: use more samples"
        )
    deviation = samples.mean() - expected
    if abs(deviation) > half_width + 1e-14:
        raise AssertionError(
            f"mean {samples.mean():.6g} of {n} samples, expected {expected:.6g}: off by {deviation:.3g}, "
            f"allowed {half_width:.3g} at false-failure rate {false_fail:g}"
        )


def assert_proportion(successes, trials, expected, *, false_fail=1e-6, detects):
    """Fail unless `successes` of `trials` independent bits agree with `expected`: an exact binomial test."""
    low, high = stats.binom.ppf([false_fail / 2, 1 - false_fail / 2], trials, expected)
    for shifted in (expected - detects, expected + detects):
        if 0 <= shifted <= 1:
            missed = stats.binom.cdf(high, trials, shifted) - stats.binom.cdf(low - 1, trials, shifted)
            if missed > 1 - POWER:
                raise AssertionError(
                    f"{trials} bits miss an effect of {detects:.2g} with probability {missed:.2g}"
                )
    if not low <= successes <= high:
        raise AssertionError(
            f"{successes} of {trials} bits ({successes / trials:.6g}), expected {expected:.6g}: outside "
            f"[{low:g}, {high:g}] at false-failure rate {false_fail:g}"
        )


def pair_with_spectrum(spectrum, shape=None, rng=None):
    """Matrices X, Y whose difference D has the given eigenvalues of D D^T, in random directions."""
    rng = rng_from(rng)
    spectrum = np.asarray(spectrum, dtype=np.float64)
    r = len(spectrum)
    d_w, d_v = shape or (r + 2, r + 1)
    if r > min(d_w, d_v):
        raise ValueError(f"a {d_w} x {d_v} matrix has at most {min(d_w, d_v)} eigenvalues; got {r}")
    left = np.linalg.qr(rng.normal(size=(d_w, r)))[0]
    right = np.linalg.qr(rng.normal(size=(d_v, r)))[0]
    Y = rng.normal(size=(d_w, d_v))
    return Y + (left * np.sqrt(spectrum)) @ right.T, Y


def random_spectrum(rank, distance, rng):
    """A spectrum of the given rank and distance: from nearly flat to steep, at random."""
    rng = rng_from(rng)
    values = rng.exponential(size=rank) * np.exp(-rng.uniform(0, 4) * np.arange(rank) / rank)
    return distance**2 * values / values.sum()


def clustered_codes(n, n_bytes, seed, *, n_groups=40, noise=0.1):
    """Codes around random ones: each bit differs with a probability of its own item."""
    rng = np.random.default_rng(seed)
    middles = rng.integers(0, 2, size=(n_groups, 8 * n_bytes), dtype=np.uint8)
    share = noise * rng.uniform(0.3, 1.7, size=(n, 1))
    bits = middles[rng.integers(0, n_groups, size=n)] ^ (rng.random((n, 8 * n_bytes)) < share)
    return np.packbits(bits, axis=1, bitorder="little")


def slabs_of(codes):
    """Codes in slabs, as a segment has them."""
    edges = np.cumsum(slab_widths(codes.shape[1]))[:-1]
    return [np.ascontiguousarray(part) for part in np.split(codes, edges, axis=1)]
