"""Bounds hold where they claim to, fail where the errata say so, and warn on the caller's data."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bilsh import theory
from bilsh.errors import AssumptionWarning, InvalidInputError
from support import pair_with_spectrum, random_spectrum, rng_from


def spectrum_within_lemma_1(seed):
    """A random spectrum that the assumptions of Lemma 1 allow: lambda_1 <= 0.28 of the rest, sum <= 2.56."""
    rng = rng_from(seed)
    while True:
        spectrum = random_spectrum(int(rng.integers(5, 40)), rng.uniform(0.01, 1.6), rng)
        if theory.ratio_assumption(spectrum):
            return spectrum


@given(st.integers(0, 10**6))
def test_published_statements_hold_within_their_assumptions(seed):
    spectrum = spectrum_within_lemma_1(seed)
    kernel = theory.gaussian_kernel(np.sqrt(spectrum.sum()))
    low, high = theory.lemma1_bounds(kernel)
    assert low <= theory.bilinear_kernel(spectrum) * (1 + 1e-12)
    assert theory.bilinear_kernel(spectrum) <= high
    low, high = theory.hamming_bounds(kernel, "bilinear")
    assert low <= theory.expected_hamming(spectrum) <= high
    low, high = theory.covariance_bounds(kernel)
    assert low <= theory.bit_covariance(spectrum) <= high


@given(st.integers(1, 30), st.floats(1e-3, 100), st.integers(0, 10**6))
def test_assumption_free_bounds_hold_for_all(rank, s, seed):
    spectrum = random_spectrum(rank, s, rng=seed)
    bilinear = theory.bilinear_kernel(spectrum)
    random = theory.expected_hamming(spectrum)
    zero = theory.expected_hamming(spectrum, thresholds="zero")
    room = 1 + 1e-12
    for sharpened in (False, True):
        low, high = theory.hamming_bounds(bilinear, sharpened=sharpened)
        assert low <= random * room
        assert random <= high * room
    low, high = theory.hamming_bounds(theory.gaussian_kernel(s), "bilinear", sharpened=True)
    assert low <= random * room
    assert random <= high * room
    assert (
        random <= theory.hamming_bounds(theory.gaussian_kernel(s), "bilinear").upper * room
    )  # g_2 always holds
    low, high = theory.zero_threshold_bounds(bilinear)
    assert low <= zero * room
    assert zero <= high * room


def test_ends():
    for method in ("dense", "bilinear"):
        for sharpened in (False, True):
            low, high = theory.hamming_bounds([0.0, 1.0], method, sharpened=sharpened)
            underflow = 0.03 if method == "bilinear" and sharpened else 0.0
            np.testing.assert_allclose(low, [4 / np.pi**2, 0], rtol=underflow, atol=1e-15)
            np.testing.assert_allclose(high, [4 / np.pi**2, 0], atol=1e-15)
    np.testing.assert_allclose(theory.covariance_bounds([0.0, 1.0]).upper, 0, atol=1e-15)
    np.testing.assert_allclose(theory.zero_threshold_bounds([0.0, 1.0]), [[0.5, 0], [0.5, 0]])
    low, high = theory.identification_bounds([0.0, np.inf], rank=3)
    np.testing.assert_allclose([low, high], [[0, 4 / np.pi**2]] * 2)


def test_flat_spectra_of_any_rank_cost_the_same():
    s = np.array([0.0, 1e-120, 1e-4, 0.4, 1.0, 5.0, 60.0])
    for rank in (1, 2, 7, 500):
        flat = np.repeat(s[:, None] ** 2 / rank, rank, axis=1)
        np.testing.assert_allclose(
            theory.kernel_bounds(s, rank=rank).lower, theory.bilinear_kernel(flat), rtol=1e-12
        )
        for thresholds in ("random", "zero"):
            np.testing.assert_allclose(
                theory.identification_bounds(s, rank=rank, thresholds=thresholds).upper,
                theory.expected_hamming(flat, thresholds=thresholds),
                rtol=1e-12,
            )
    for thresholds in ("random", "zero"):
        rising = [
            theory.identification_bounds(s, rank=rank, thresholds=thresholds).upper
            for rank in (28, 10**5, 10**5 + 1, 10**12, 10**400)
        ]
        assert (np.diff(rising, axis=0) >= -1e-13).all()
        np.testing.assert_allclose(rising[1], rising[2], rtol=6e-6)
    np.testing.assert_allclose(
        theory.kernel_bounds(s, rank=10**400).lower, theory.gaussian_kernel(s), rtol=1e-12
    )


def test_bounds_have_limits():
    for rank in (None, 1, 2, 10**12):
        np.testing.assert_array_equal(theory.kernel_bounds([0.0, np.inf], rank=rank), [[1, 0], [1, 0]])
        low, high = theory.kernel_bounds(1e200, rank=rank)
        assert 0 <= low <= high <= 1e-200
    np.testing.assert_array_equal(theory.kernel_exponent([0.0, np.inf]), [1, 0])


def test_theorem_3_is_the_printed_series():
    kernel, orders = np.array([0.1, 0.5, 0.99]), np.arange(1, 3000)

    def total(exponent):
        return (kernel[:, None] ** (exponent * orders**2.0) / (4 * orders**2 - 1)).sum(axis=1)

    expected = 64 / np.pi**4 * (total(0.79) ** 2 - total(1.0) ** 2)
    np.testing.assert_allclose(theory.covariance_bounds(kernel).upper, expected, rtol=1e-11)
    np.testing.assert_allclose(theory.covariance_bounds(kernel).lower, -expected, rtol=1e-11)


CALLS = [
    lambda data: theory.lemma1_bounds(0.6, data=data),
    lambda data: theory.hamming_bounds(0.6, "bilinear", data=data),
    lambda data: theory.covariance_bounds(0.6, data=data),
]


@pytest.mark.parametrize("call", CALLS)
def test_warns_on_data_outside_the_assumptions(call):
    call((0.2 * np.eye(6), -0.2 * np.eye(6)))
    with pytest.warns(AssumptionWarning, match="hold for 0 of 1 pairs"):
        call(pair_with_spectrum([1.0], shape=(6, 6), rng=0))


def test_check_assumptions_tells_good_from_bad_data():
    rng = rng_from(0)
    good = rng.normal(size=(60, 25, 25)) / 40
    report = theory.check_assumptions(good, n_pairs=200, rng=0)
    assert report.assumptions == report.lemma_1 == report.theorem_2 == report.theorem_3 == 1
    assert report == theory.check_assumptions(10 * good, n_pairs=200, bandwidth=10, rng=0)
    rank_one = rng.normal(size=(60, 20, 1)) * np.ones(20)
    report = theory.check_assumptions(rank_one, n_pairs=200, rng=0)
    assert report.ratio == report.norms == report.assumptions == 0
    assert report.theorem_2 < 1
    assert report.median_effective_rank == pytest.approx(1)
    text = str(report)
    assert "200 random pairs of 20 x 20 matrices" in text
    assert "Theorem 2" in text


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.hamming_bounds(1.2), r"\[0, 1\]"),
        (lambda: theory.hamming_bounds(0.5, "linear"), "Theorem 1"),
        (lambda: theory.hamming_bounds(0.5, data=(np.eye(2), np.eye(2))), "leave it out"),
        (lambda: theory.kernel_bounds(1.0, rank=0), "rank must be >= 1"),
        (lambda: theory.check_assumptions(np.zeros((5, 4))), "n, d_w, d_v"),
        (lambda: theory.check_assumptions(np.zeros((5, 4, 4)), n_pairs=0), "n_pairs"),
    ],
)
def test_the_door(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
