"""Expected Hamming fraction: mpmath as oracle, closed forms, limits, order, and the way back."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from bilsh import theory
from bilsh.errors import InvalidInputError
from support import random_spectrum, rng_from

TOP = {"random": 4 / np.pi**2, "zero": 0.5}
MODES = ("random", "zero")
modes = st.sampled_from(MODES)
distances = st.floats(1e-6, 1e3)


def oracle(factors, thresholds):
    """Lemma 2 by Euler-Maclaurin in 30 digits; `factors` are (eigenvalue, multiplicity)."""
    with mp.workdps(30):
        factors = [(mpf(value), count) for value, count in factors]

        def term(x):
            kernel = 1 / mpmath.sqrt(mpmath.fprod((1 + x * x * value) ** count for value, count in factors))
            weight = 8 / (4 * x * x - 1) if thresholds == "random" else 4 / (x * x)
            return weight * (1 - kernel) / mp.pi**2

        step, n_direct = (1, 25) if thresholds == "random" else (2, 15)
        total = mpmath.fsum(term(mpf(1 + step * k)) for k in range(n_direct))
        start = mpf(1 + step * n_direct)
        scale = 1 / mpmath.sqrt(mpmath.fsum(value * count for value, count in factors))
        decades = int(mpmath.ceil(mpmath.log10(max(scale, start)))) + 12
        breaks = [start, *(mpf(10) ** k for k in range(2, decades, 2)), mpmath.inf]
        total += mpmath.quad(term, breaks) / step + term(start) / 2
        derivatives = mpmath.taylor(term, start, 11)
        for k in range(1, 6):
            total -= mpmath.bernoulli(2 * k) / (2 * k) * derivatives[2 * k - 1] * mpf(step) ** (2 * k - 1)
        return float(total)


SPECTRA = [
    [(1e-14, 1)],
    [(1.0, 1)],
    [(1e6, 1)],
    [(0.5, 1), (0.3, 1), (0.2, 1)],
    [(1e-6, 1), (3e-8, 2), (1e-10, 3)],
    [(1e-2, 1), (1e-9, 39)],
    [(30.0, 1), (1e-6, 5)],
    [(0.01, 28)],
    [(0.005, 200)],
    [(1e-8, 200)],
    [(6.35e-12, 28)],
    [(1e-12, 1000)],
    [(5.0, 200)],
]


@pytest.mark.parametrize("thresholds", MODES)
@pytest.mark.parametrize("factors", SPECTRA, ids=str)
def test_bilinear_agrees_with_mpmath(factors, thresholds):
    spectrum = np.concatenate([np.full(count, value) for value, count in factors])
    got = theory.expected_hamming(spectrum, thresholds=thresholds)
    assert got == pytest.approx(oracle(factors, thresholds), rel=1e-12, abs=0)


@pytest.mark.parametrize("thresholds", MODES)
def test_gap_completes_the_fraction(thresholds):
    for rank in (1, 3, 50, 200):
        spectra = np.stack([random_spectrum(rank, s, rng=rank) for s in (1e-5, 0.1, 1.0, 10.0, 1e5)])
        total = theory.expected_hamming(spectra, thresholds=thresholds) + theory.hamming_gap(
            spectra, thresholds=thresholds
        )
        np.testing.assert_allclose(total, TOP[thresholds], rtol=1e-13)


def gaussian_oracle(s, thresholds):
    with mp.workdps(30):
        s, orders = mpf(s), range(1, int(14 / s) + 3)
        if thresholds == "random":
            terms = (8 / mpf(4 * m * m - 1) * mpmath.exp(-m * m * s * s / 2) for m in orders)
            return float((4 - mpmath.fsum(terms)) / mp.pi**2)
        terms = (4 / mpf(m * m) * mpmath.exp(-m * m * s * s / 2) for m in orders if m % 2)
        return float(mpf(1) / 2 - mpmath.fsum(terms) / mp.pi**2)


@pytest.mark.parametrize("thresholds", MODES)
def test_gaussian_agrees_with_mpmath(thresholds):
    for s in (0.02, 0.1, 0.2, 0.3, 0.359, 0.361, 0.5, 0.699, 0.701, 0.8, 1.0, 2.0, 5.0):
        got = theory.expected_hamming(s, kernel="gaussian", thresholds=thresholds)
        assert got == pytest.approx(gaussian_oracle(s, thresholds), rel=1e-14)
    slope = {"random": np.sqrt(2 / np.pi) / np.pi, "zero": np.sqrt(2 / np.pi) / np.pi}[thresholds]
    tiny = theory.expected_hamming([1e-9, 1e-200], kernel="gaussian", thresholds=thresholds)
    np.testing.assert_allclose(tiny, [slope * 1e-9, slope * 1e-200], rtol=1e-14)


def chi_2(x):
    return (mpmath.polylog(2, x) - mpmath.polylog(2, -x)) / 2


@pytest.mark.parametrize("kernel", [{"kernel": "laplacian"}, {"kernel": "matern", "nu": 0.5}], ids=str)
@pytest.mark.parametrize("a", [1e-9, 1e-4, 0.1, 0.5, 0.88, 0.89, 3.0, 20.0])
def test_laplacian_closed_forms(a, kernel):
    with mp.workdps(30):
        random = 8 / mp.pi**2 * mpmath.sinh(mpf(a) / 2) * mpmath.atanh(mpmath.exp(-mpf(a) / 2))
        zero = mpf(1) / 2 - 4 / mp.pi**2 * chi_2(mpmath.exp(-mpf(a)))
    assert theory.expected_hamming(a, **kernel) == pytest.approx(float(random), rel=1e-13)
    assert theory.expected_hamming(a, thresholds="zero", **kernel) == pytest.approx(float(zero), rel=1e-13)


@pytest.mark.parametrize("thresholds", MODES)
@pytest.mark.parametrize("nu", [0.2, 1.5, 2.5, 7.0, 300.0])
def test_matern_agrees_with_its_series(nu, thresholds):
    orders = np.arange(1, 600) if thresholds == "random" else np.arange(1, 600, 2)
    weights = 8 / (4 * orders**2 - 1) if thresholds == "random" else 4 / orders**2
    for s in (0.3, 1.0, 4.0):
        series = TOP[thresholds] - (weights * theory.matern_kernel(orders * s, nu)).sum() / np.pi**2
        got = theory.expected_hamming(s, kernel="matern", nu=nu, thresholds=thresholds)
        assert got == pytest.approx(series, abs=1e-13)


def test_rough_matern_keeps_its_power_law_near_zero():
    s = np.array([1e-30, 1e-32])
    p = theory.expected_hamming(s, kernel="matern", nu=0.3)
    assert np.log(p[0] / p[1]) / np.log(100) == pytest.approx(0.6, abs=1e-6)


def test_flat_rank_two_and_one_dimensional_cauchy_have_a_closed_form():
    x = np.array([0.05, 0.3, 1.0, 4.0, 100.0])
    expected = 4 / np.pi * x / np.tanh(np.pi / x) / (4 + x**2)
    np.testing.assert_allclose(theory.expected_hamming(np.stack([x**2, x**2], axis=-1)), expected, rtol=1e-13)
    np.testing.assert_allclose(theory.expected_hamming(x[:, None], kernel="cauchy"), expected, rtol=1e-13)
    # zero thresholds: E|z| of a Laplace variable folded into the triangle wave
    folded = x * np.tanh(np.pi / (2 * x)) / np.pi
    zero = theory.expected_hamming(x[:, None], kernel="cauchy", thresholds="zero")
    np.testing.assert_allclose(zero, folded, rtol=1e-13)


@pytest.mark.parametrize("thresholds", MODES)
def test_limits(thresholds):
    top = TOP[thresholds]
    got = theory.expected_hamming([[0.0, 0.0], [np.inf, 1.0], [1e300, 1e300]], thresholds=thresholds)
    np.testing.assert_allclose(got, [0, top, top], rtol=1e-15)
    for kernel in ({"kernel": "gaussian"}, {"kernel": "laplacian"}, {"kernel": "matern", "nu": 2.0}):
        ends = theory.expected_hamming([0.0, np.inf], thresholds=thresholds, **kernel)
        np.testing.assert_allclose(ends, [0, top], rtol=1e-14)
    # linear in the distance down to the smallest numbers
    tiny = theory.expected_hamming([[1e-20], [1e-240], [1e-300]], thresholds=thresholds)
    np.testing.assert_allclose(tiny / tiny[0], [1, 1e-110, 1e-140], rtol=1e-9)
    # many equal eigenvalues: the Gaussian kernel
    flat = theory.expected_hamming(np.full(100_000, 1e-5), thresholds=thresholds)
    gauss = theory.expected_hamming(1.0, kernel="gaussian", thresholds=thresholds)
    assert flat == pytest.approx(float(gauss), rel=1e-4)


def test_shapes_follow_numpy():
    assert theory.expected_hamming(np.ones((3, 4, 5))).shape == (3, 4)
    assert theory.expected_hamming(np.ones((0, 5))).shape == (0,)
    assert theory.expected_hamming(1.0, kernel="laplacian").shape == ()
    assert theory.expected_hamming(np.zeros((2, 0)), kernel="gaussian").shape == (2, 0)
    padded = theory.expected_hamming([0.5, 0.2, 0.0, 0.0])
    assert padded == pytest.approx(float(theory.expected_hamming([0.2, 0.5])), rel=1e-15)


@given(modes, st.lists(st.floats(1e-6, 10), min_size=2, max_size=6), st.floats(0, 1), distances)
def test_schur_concave(thresholds, values, share, s):
    """Moving weight from a larger to a smaller eigenvalue, short of swapping them, never lowers p."""
    before = np.sort(np.array(values) / np.sum(values) * s**2)
    moved = share * (before[-1] - before[0]) / 2
    after = before.copy()
    after[-1] -= moved
    after[0] += moved
    p, q = theory.expected_hamming([before, after], thresholds=thresholds)
    assert p <= q * (1 + 1e-12)
    low, high = theory.identification_bounds(s, rank=len(values), thresholds=thresholds)
    assert low <= p * (1 + 1e-12)
    assert q <= high * (1 + 1e-12)
    assert high <= theory.expected_hamming(s, kernel="gaussian", thresholds=thresholds) * (1 + 1e-12)


ONE_DISTANCE = [
    {"kernel": "gaussian"},
    {"kernel": "laplacian"},
    {"kernel": "matern", "nu": 1.5},
    {"kernel": "angle"},
]


@given(st.sampled_from(ONE_DISTANCE), modes, st.floats(1e-4, 3.0), st.floats(1e-4, 0.1))
def test_rises_with_distance(kernel, thresholds, s, step):
    if kernel["kernel"] == "angle":
        thresholds = "random"
    near, far = theory.expected_hamming([s, s + step], thresholds=thresholds, **kernel)
    assert near < far


@settings(max_examples=25)
@given(
    st.sampled_from(
        [*ONE_DISTANCE, {"shape": [1.0]}, {"shape": (5, 3, 1, 1)}, {"kernel": "cauchy", "shape": [2, -1]}]
    ),
    modes,
    st.lists(st.floats(1e-9, 0.999), min_size=1, max_size=20),
)
def test_round_trip_of_the_inverse(kernel, thresholds, shares):
    if kernel.get("kernel") == "angle":
        thresholds = "random"
    p = np.array(shares) * (1.0 if kernel.get("kernel") == "angle" else TOP[thresholds])
    s = theory.distance_from_hamming(p, thresholds=thresholds, **kernel)
    arguments = {key: value for key, value in kernel.items() if key != "shape"}
    if "shape" in kernel:
        shape = np.array(kernel["shape"], dtype=float)
        squared = "kernel" not in kernel
        argument = (
            s[:, None] ** 2 * shape / shape.sum() if squared else s[:, None] * shape / np.linalg.norm(shape)
        )
    else:
        argument = s
    back = theory.expected_hamming(argument, thresholds=thresholds, **arguments)
    np.testing.assert_allclose(back, p, rtol=1e-9)


def test_inverse_is_monotone_and_has_ends():
    p = np.concatenate([[0], np.logspace(-25, -2, 500), np.linspace(0.011, 0.405, 5000)])
    s = theory.distance_from_hamming(p, shape=np.full(28, 1 / 28))
    assert s[0] == 0
    assert (np.diff(s) > 0).all()
    top = 4 / np.pi**2
    assert np.isinf(theory.distance_from_hamming([top, 0.45, 1.0], kernel="gaussian")).all()
    assert np.isfinite(theory.distance_from_hamming(np.nextafter(top, 0), kernel="gaussian"))
    np.testing.assert_allclose(
        theory.distance_from_hamming([0, 0.25, 1], kernel="angle"), [0, np.pi / 4, np.pi]
    )


def test_rank_one_angle_hamming():
    assert theory.rank_one_angle_hamming(1.0, 0.0) == pytest.approx(1 / np.pi)
    assert theory.rank_one_angle_hamming(np.pi, np.pi) == pytest.approx(0)
    rng, n = rng_from(0), 5
    a, c, b, d = rng.normal(size=(4, n))
    angles = [np.arccos(x @ y / np.linalg.norm(x) / np.linalg.norm(y)) for x, y in ((a, c), (b, d))]
    w, v = rng.normal(size=(2, 40_000, n))
    differ = ((w @ a) * (v @ b) >= 0) != ((w @ c) * (v @ d) >= 0)
    assert differ.mean() == pytest.approx(float(theory.rank_one_angle_hamming(*angles)), abs=0.02)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.expected_hamming([1.0], kernel="rbf"), "one of bilinear"),
        (lambda: theory.expected_hamming([1.0], thresholds="none"), "'random' or 'zero'"),
        (lambda: theory.expected_hamming([1.0], nu=1.5), "nu belongs to"),
        (lambda: theory.expected_hamming(1.0, kernel="matern"), r"nu >= 0\.05"),
        (lambda: theory.expected_hamming(4.0, kernel="angle"), "radians"),
        (lambda: theory.expected_hamming(1.0, kernel="angle", thresholds="zero"), "no thresholds"),
        (lambda: theory.distance_from_hamming(1.2, kernel="gaussian"), r"\[0, 1\]"),
        (lambda: theory.distance_from_hamming(0.2), "needs shape"),
        (lambda: theory.distance_from_hamming(0.2, shape=[[1.0]]), "one vector"),
        (lambda: theory.distance_from_hamming(0.2, shape=[0.0]), "positive sum"),
        (lambda: theory.distance_from_hamming(0.2, kernel="gaussian", shape=[1.0]), "shape belongs to"),
    ],
)
def test_the_door(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


@pytest.mark.parametrize("thresholds", ["random", "zero"])
def test_laplacian_of_the_smallest_distances(thresholds):
    a = np.array([5e-324, 1e-320, 1e-300, 1e-12])
    # The first terms of the closed forms: a ln(4 / a) and a (1 + ln(2 / a)), times 2 / pi^2.
    expected = (
        2 / np.pi**2 * (np.log(4) - np.log(a) if thresholds == "random" else 1 + np.log(2) - np.log(a)) * a
    )
    found = theory.expected_hamming(a, kernel="laplacian", thresholds=thresholds)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=5e-324)
    assert found[0] > 0
    np.testing.assert_allclose(
        theory.hamming_gap(a, kernel="laplacian", thresholds=thresholds),
        theory.hamming_gap(0.0, kernel="laplacian", thresholds=thresholds),
    )


@pytest.mark.parametrize("kernel", ["bilinear", "cauchy"])
def test_only_ratios_of_a_shape_matter(kernel):
    expected = theory.distance_from_hamming(0.2, kernel=kernel, shape=[1.0, 0.5])
    for scale in (1e-200, 1e200, 1.5e308):
        assert theory.distance_from_hamming(0.2, kernel=kernel, shape=[scale, scale / 2]) == expected


def test_roughest_matern_kernel_has_an_inverse():
    p = theory.expected_hamming([1e-3, 1.0], kernel="matern", nu=0.05)
    np.testing.assert_allclose(
        theory.distance_from_hamming(p, kernel="matern", nu=0.05), [1e-3, 1.0], rtol=1e-6
    )
    with pytest.raises(InvalidInputError, match=r"nu >= 0\.05"):
        theory.distance_from_hamming(0.2, kernel="matern", nu=1e-3)
