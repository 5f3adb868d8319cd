"""Every erratum of docs/theory.md that is a matter of numbers, by its number there; and the proofs' inequalities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bilsh import theory
from bilsh.experiments.cost import multiply_adds
from bilsh.theory import BitSharing
from support import random_spectrum, rng_from

STEEPEST = np.array([0.21875] * 4 + [0.125])
"""The spectrum of sum 1 that majorises all others with lambda_1 <= 0.28 (lambda_2 + ...)."""


def covariance_share(spectrum):
    """Exact covariance over the bound of Theorem 3."""
    s = np.sqrt(np.asarray(spectrum).sum(axis=-1))
    return theory.bit_covariance(spectrum) / theory.covariance_bounds(theory.gaussian_kernel(s)).upper


def grid_of(side):
    return BitSharing.from_degrees([side] * side, [side] * side)


def test_4_either_order_of_multiplication_may_be_cheaper():
    for d_w, d_v in ((28, 28), (10, 200), (200, 10)):
        side, bits = 5 * 30, 900
        left_first = side * d_v * (d_w + side)
        right_first = side * d_w * (d_v + side)
        assert multiply_adds("bilinear m=5", bits, (d_w, d_v))[1] == min(left_first, right_first)


def test_5_the_exponent_reaches_as_far_as_the_proof_needs():
    assert theory.kernel_exponent(0.575) >= theory.LEMMA1_EXPONENT > theory.kernel_exponent(0.5755)
    assert pytest.approx(0.56) == (2 * theory.LEMMA1_MAX_NORM) ** 2 * 0.28 / 1.28


def test_6_the_assumption_on_eigenvalues_needs_rank_5():
    assert not theory.ratio_assumption(np.ones(4))
    assert theory.ratio_assumption(np.ones(5))


def test_7_the_lower_bound_of_theorem_2_fails_for_rank_one_beyond_1404():
    for s, holds in ((1.403, True), (1.405, False)):
        lower = theory.hamming_bounds(theory.gaussian_kernel(s), "bilinear").lower
        assert (lower <= theory.expected_hamming([s**2])) == holds


@pytest.mark.parametrize(("s", "beyond"), [(0.1, 16.96), (0.5, 3.39), (1.0, 1.70), (1.6, 1.06)])
def test_8_lemma_1_is_false_at_large_multiples_of_any_difference(s, beyond):
    flat = np.full(5, s**2 / 5)
    assert theory.ratio_assumption(flat)
    for factor, holds in ((0.99, True), (1.01, False)):
        x = factor * beyond
        bound = theory.gaussian_kernel(x * s) ** theory.LEMMA1_EXPONENT
        assert (theory.bilinear_kernel(x**2 * flat) <= bound) == holds


def test_8_theorem_3_fails_for_rank_one_at_distance_one():
    upper = theory.covariance_bounds(theory.gaussian_kernel(1.0)).upper
    assert upper == pytest.approx(0.00818, abs=5e-6)
    assert theory.bit_covariance([1.0]) == pytest.approx(0.01210, abs=5e-6)


@given(st.floats(0, 0.25), st.floats(0, 1e6))
def test_8_the_proof_of_schur_convexity_rests_on_this(w, u):
    """(1 + t)^3 >= 1 - 2 w + 2 w u + 2 w^2 u^2 for t = w u^2 / (1 + u), 0 <= w <= 1/4, u >= 0."""
    t = w * u * u / (1 + u)
    right = 1 - 2 * w + 2 * w * u + 2 * w * w * u * u
    assert (1 + t) ** 3 >= right * (1 - 1e-12)


@given(st.integers(2, 12), st.floats(0.05, 6), st.sampled_from(["random", "zero"]), st.integers(0, 10**6))
def test_8_the_covariance_is_schur_convex(rank, s, thresholds, seed):
    """Moving weight from a smaller to a larger eigenvalue never lowers it."""
    rng = rng_from(seed)
    spectrum = np.sort(random_spectrum(rank, s, rng))
    steeper = spectrum.copy()
    moved = rng.random() * spectrum[0]
    steeper[[0, -1]] += [-moved, moved]
    low, high = (theory.bit_covariance(x, thresholds=thresholds) for x in (spectrum, steeper))
    assert high >= low - 4e-13
    low, high = theory.covariance_range(s, rank=rank, thresholds=thresholds)
    assert low - 4e-13 <= theory.bit_covariance(spectrum, thresholds=thresholds) <= high + 4e-13


def test_8_theorem_3_holds_inside_the_assumptions_by_one_part_in_seventy():
    s = np.linspace(1e-3, 1.6, 1600)
    shares = covariance_share(STEEPEST * s[:, None] ** 2)
    assert (np.diff(shares) > 0).all()
    assert shares[-1] == pytest.approx(0.9865, abs=5e-5)
    assert covariance_share(STEEPEST * 1.611**2) > 1
    assert theory.ratio_assumption(STEEPEST)


@given(st.integers(5, 40), st.floats(0.01, 1.6), st.integers(0, 10**6))
def test_8_the_steepest_spectrum_is_the_worst(rank, s, seed):
    spectrum = random_spectrum(rank, s, rng=seed)
    if theory.ratio_assumption(spectrum):
        assert covariance_share(spectrum) <= covariance_share(STEEPEST * s**2) + 1e-9


def test_9_theorem_1_needs_kernels_that_stay_nonnegative_at_multiples():
    """The cosine kernel of one fixed frequency is normalised and falls at first, but g_2 fails for it."""
    z = np.pi / 2
    fraction = 2 / np.pi * abs(np.sin(z / 2))
    orders = np.arange(1, 200_000)
    series = 8 / np.pi**2 * ((1 - np.cos(orders * z)) / (4 * orders**2 - 1)).sum()
    assert fraction == pytest.approx(series, abs=1e-5)
    assert np.cos(2 * z) < 0
    assert fraction > theory.hamming_bounds(max(np.cos(z), 0.0)).upper


def test_10_the_sharing_of_long_grids_costs_ever_more():
    geometric = 0.6 ** np.arange(40)
    geometric /= geometric.sum()
    assert theory.effective_rank(geometric) == pytest.approx(4, abs=1e-6)
    worth = [float(theory.effective_bits(geometric, grid_of(side))) for side in (20, 50, 250, 1000)]
    assert [round(value) for value in worth] == [220, 804, 5331, 22713]
    p = theory.expected_hamming(geometric)
    rho = theory.bit_covariance(geometric) / (p * (1 - p))
    assert float(theory.effective_bits(geometric, grid_of(10**5))) == pytest.approx(
        10**5 / (2 * rho), rel=1e-3
    )


def test_11_oversampling_makes_sharing_rarer_and_leaves_its_covariance():
    counts = [BitSharing.from_design(400, oversampling=m, design="random").one for m in (1, 2, 5, 10)]
    assert counts == sorted(counts, reverse=True)
    np.testing.assert_allclose(counts[1:] / np.array(counts[0]), [0.5, 0.2, 0.1], rtol=0.06)


def test_12_offsets_and_thresholds_outnumber_the_vectors():
    d_w, d_v, k, m = 250, 256, 62_500, 10
    assert m * 250 * (d_w + d_v) == 1_265_000
    assert 2 * m**2 * k == 12_500_000


def test_zero_thresholds_carry_more_information():
    s = np.array([0.5, 1.0, 1.25, 1.5, 2.0])
    zero, random = (theory.fisher_information(s, kernel="gaussian", thresholds=t) for t in ("zero", "random"))
    np.testing.assert_allclose(zero / random, [1.11, 1.55, 1.81, 1.98, 2.11], atol=0.006)
