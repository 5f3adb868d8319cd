"""Covariance of bits, variance of codes, effective bits: oracles, closed forms, limits, counting."""

import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from bilsh import theory
from bilsh.errors import InvalidInputError
from bilsh.theory import BitSharing
from bilsh.theory.covariance import _exponential_sum
from support import random_spectrum, rng_from

MODES = ("random", "zero")


def conditional(q, thresholds):
    """Expected Hamming fraction of the Gaussian kernel at distance sqrt q, in mpmath."""
    if thresholds == "random":
        if q < 0.15:
            return 2 / mp.pi * mpmath.exp(-q / 8) * mpmath.erfi(mpmath.sqrt(q / 8))
        terms = (8 / mpf(4 * m * m - 1) * mpmath.exp(-m * m * q / 2) for m in range(1, 26))
        return (4 - mpmath.fsum(terms)) / mp.pi**2
    if q < 0.04:
        return mpmath.sqrt(2 * q / mp.pi) / mp.pi
    terms = (4 / mpf(m * m) * mpmath.exp(-m * m * q / 2) for m in range(1, 50, 2))
    return mpf(1) / 2 - mpmath.fsum(terms) / mp.pi**2


@pytest.mark.parametrize("thresholds", MODES)
@pytest.mark.parametrize(("rank", "s"), [(1, 0.01), (1, 1.0), (4, 3.0), (50, 0.5)])
def test_flat_spectra_agree_with_the_chi_square_integral(rank, s, thresholds):
    with mp.workdps(18):
        eigenvalue = mpf(s) ** 2 / rank
        border = mpmath.sqrt((0.15 if thresholds == "random" else 0.04) / eigenvalue)
        breaks = sorted(
            {mpf(0), mpf(1) / 50, mpf(1) / 5, mpf(1), mpf(3), mpf(6), mpf(9), mpf(13), min(border, mpf(13))}
        )
        constant = 2 ** (1 - mpf(rank) / 2) / mpmath.gamma(mpf(rank) / 2)

        def moment(power):
            def integrand(x):
                density = constant * x ** (rank - 1) * mpmath.exp(-x * x / 2)
                return density * conditional(eigenvalue * x * x, thresholds) ** power

            return mpmath.quad(integrand, breaks, maxdegree=4)

        expected = moment(2) - moment(1) ** 2
    got = theory.bit_covariance(np.full(rank, s**2 / rank), thresholds=thresholds)
    assert got == pytest.approx(float(expected), abs=1e-13 * min(1, s**2))


@pytest.mark.parametrize("thresholds", MODES)
def test_the_sum_of_exponentials_has_its_stated_error_everywhere(thresholds):
    """The error of the covariance is bounded by this residual, whatever the spectrum."""
    rates, weights = _exponential_sum(thresholds)
    q = np.concatenate([np.logspace(-12, 3, 30_011), [0.0]])
    fitted = -np.expm1(-np.multiply.outer(q, rates)) @ weights
    exact = theory.expected_hamming(np.sqrt(q), kernel="gaussian", thresholds=thresholds) ** 2
    assert (np.abs(fitted - exact) <= 2e-13 * np.minimum(q, 1)).all()


@pytest.mark.parametrize("thresholds", MODES)
def test_series_of_theorem_3(thresholds):
    """Partial sums of the double series approach the covariance from below; every term is >= 0."""
    orders = np.arange(1, 400) if thresholds == "random" else np.arange(1, 800, 2)
    weights = (8 / np.pi**2) / (4 * orders**2 - 1) if thresholds == "random" else (4 / np.pi**2) / orders**2
    for spectrum in ([0.5, 0.3, 0.2], [2.0], [0.04] * 25):
        lam = np.array(spectrum)
        kernel = theory.bilinear_kernel(orders[:, None] ** 2 * lam)
        radius = (orders[:, None] ** 2 + orders**2).ravel()
        joint = np.ones(radius.shape)
        for value in lam:
            joint /= np.sqrt(1 + radius * value)
        terms = np.outer(weights, weights) * (joint.reshape(len(orders), -1) - np.outer(kernel, kernel))
        assert (terms >= -1e-18).all()
        got = theory.bit_covariance(lam, thresholds=thresholds)
        assert terms.sum() <= got + 1e-13
        assert terms.sum() == pytest.approx(float(got), rel=2e-3)


def test_value_of_the_errata():
    assert theory.bit_covariance([1.0]) == pytest.approx(0.01210, abs=5e-6)


@pytest.mark.parametrize("thresholds", MODES)
@pytest.mark.parametrize("shared", ["one", "both"])
def test_limits(shared, thresholds):
    ends = theory.bit_covariance([[0.0, 0.0], [1e-30, 0.0]], shared=shared, thresholds=thresholds)
    np.testing.assert_allclose(ends, 0, atol=1e-28)
    far = theory.bit_covariance([np.inf, 1.0], shared=shared, thresholds=thresholds)
    limits = {("both", "random"): 2 / np.pi**2 - 16 / np.pi**4, ("both", "zero"): 1 / 3 - 1 / 4}
    assert far == pytest.approx(limits.get((shared, thresholds), 0.0), abs=1e-13)
    # many directions: sharing one vector means nothing
    if shared == "one":
        assert theory.bit_covariance(np.full(20_000, 1 / 20_000), thresholds=thresholds) < 1e-5


def test_sharing_both_with_zero_thresholds():
    """E tri(z)^2 of a Laplace variable, from the density of |z| wrapped to (0, pi)."""
    x = np.array([0.1, 0.3, 1.0, 5.0])
    z, weights = np.polynomial.legendre.leggauss(200)
    z, weights = np.pi * (z + 1) / 2, np.pi * weights / 2
    scale = x[:, None]
    wrapped = (np.exp(-z / scale) + np.exp((z - 2 * np.pi) / scale)) / (-np.expm1(-2 * np.pi / scale)) / scale
    second = (wrapped * (z / np.pi) ** 2) @ weights
    first = (wrapped * (z / np.pi)) @ weights
    spectrum = np.repeat(x[:, None] ** 2, 2, axis=1)
    got = theory.bit_covariance(spectrum, shared="both", thresholds="zero")
    np.testing.assert_allclose(got, second - first**2, rtol=1e-9)


def test_quadrature_bits_of_close_items_avoid_each_other():
    spectrum = random_spectrum(6, 0.1, rng=0)
    p = theory.expected_hamming(spectrum, thresholds="zero")
    got = theory.bit_covariance(spectrum, shared="quadrature", thresholds="zero")
    assert got == pytest.approx(float(-(p**2)), abs=1e-3 * float(p**2))
    assert theory.bit_covariance([1e9, 1e9], shared="quadrature", thresholds="zero") == pytest.approx(
        0, abs=1e-4
    )


@given(st.integers(1, 12), st.floats(1e-3, 30), st.sampled_from(MODES), st.integers(0, 10**6))
def test_covariance_is_a_variance(rank, s, thresholds, seed):
    spectrum = random_spectrum(rank, s, rng=seed)
    p = theory.expected_hamming(spectrum, thresholds=thresholds)
    one = theory.bit_covariance(spectrum, thresholds=thresholds)
    both = theory.bit_covariance(spectrum, shared="both", thresholds=thresholds)
    assert 0 <= one <= both + 1e-13
    assert both <= p * (1 - p)
    assert theory.bit_covariance(spectrum, shared="none", thresholds=thresholds) == 0


def brute_force(pairs, quadrature=False):
    one = both = 0
    for (i, j), (k, m) in itertools.permutations(pairs, 2):
        both += (i, j) == (k, m)
        one += (i == k) != (j == m)
    return BitSharing(len(pairs), one, 0 if quadrature else both, both if quadrature else 0)


def test_counts_agree_with_brute_force():
    rng = rng_from(0)
    pairs = rng.integers(0, 5, size=(40, 2))
    assert BitSharing.from_pairs(pairs) == brute_force([tuple(pair) for pair in pairs])
    grid = np.array(list(itertools.product(range(4), range(6))))
    assert BitSharing.from_pairs(grid) == BitSharing.from_degrees([6] * 4, [4] * 6)
    twice = np.repeat(grid, 2, axis=0)
    expected = brute_force([tuple(pair) for pair in twice], quadrature=True)
    assert BitSharing.from_pairs(twice, quadrature=True) == expected
    assert BitSharing.from_degrees([6] * 4, [4] * 6, quadrature=True) == expected


def test_prefix_is_the_mean_over_subsets():
    grid = list(itertools.product(range(2), range(3)))
    subsets = [BitSharing.from_pairs(subset).one for subset in itertools.combinations(grid, 3)]
    assert BitSharing.from_pairs(grid).prefix(3).one == pytest.approx(np.mean(subsets))


@pytest.mark.parametrize("thresholds", MODES)
def test_formulas_of_the_designs(thresholds):
    spectrum, k, m = random_spectrum(5, 1.2, rng=3), 400, 5
    p = theory.expected_hamming(spectrum, thresholds=thresholds)
    rho = theory.bit_covariance(spectrum, thresholds=thresholds) / (p * (1 - p))

    def effective(**design):
        return theory.effective_bits(spectrum, BitSharing.from_design(k, **design), thresholds=thresholds)

    root = np.sqrt(k)
    assert effective() == pytest.approx(k / (1 + 2 * rho * (root - 1)))
    random = k / (1 + 2 * rho * (k - 1) * (m * root - 1) / (m**2 * k - 1))
    assert effective(design="random", oversampling=m) == pytest.approx(random)
    balanced = k / (1 + 2 * rho * (root / m - 1))
    assert effective(design="balanced", oversampling=m) == pytest.approx(balanced)
    assert effective(design="independent") == pytest.approx(k)
    assert effective() < random < balanced < k


def test_quadrature_raises_the_effective_bits_of_close_items():
    spectrum = random_spectrum(8, 0.5, rng=1)
    plain, paired = (
        theory.effective_bits(
            spectrum, BitSharing.from_design(512, design="independent", quadrature=q), thresholds="zero"
        )
        for q in (False, True)
    )
    assert plain == pytest.approx(512)
    assert paired > 512


@given(st.integers(1, 300), st.sampled_from(["grid", "random", "balanced", "independent"]), st.booleans())
def test_designs_of_any_length(n_bits, design, quadrature):
    oversampling = 1 if design == "grid" else 3
    sharing = BitSharing.from_design(n_bits, oversampling=oversampling, design=design, quadrature=quadrature)
    assert sharing.n_bits == n_bits
    bits = theory.effective_bits([[0.5, 0.2], [0.0, 0.0]], sharing, thresholds="zero")
    assert bits[0] > 0
    assert bits[1] == n_bits


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.bit_covariance([1.0], shared="w"), "none, one, both, quadrature"),
        (lambda: theory.bit_covariance([1.0], shared="quadrature"), "zero thresholds"),
        (lambda: theory.bit_covariance([1.0], thresholds="half"), "'random' or 'zero'"),
        (lambda: BitSharing.from_degrees([1, 2], [2]), "same pairs"),
        (lambda: BitSharing.from_pairs([[1, 2, 3]]), r"\(k, 2\)"),
        (lambda: BitSharing.from_pairs([[1, 2]] * 3, quadrature=True), "at most 2"),
        (lambda: BitSharing.from_design(16, design="latin"), "one of grid"),
        (lambda: BitSharing.from_design(16, oversampling=2), "must be 1"),
        (lambda: BitSharing.from_design(16, oversampling=0.5, design="random"), ">= 1"),
        (lambda: BitSharing(0), "at least 1"),
        (lambda: BitSharing(4, one=-1), "each is >= 0"),
        (lambda: BitSharing(4, both=np.nan), "each is >= 0"),
        (lambda: BitSharing(4, one=8, both=5), "at most 12; got 8, 5 and 0"),
        (lambda: BitSharing.from_degrees([4], [4]), "at most 12"),
        (lambda: BitSharing(8).prefix(9), "1 to 8"),
    ],
)
def test_the_door(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
