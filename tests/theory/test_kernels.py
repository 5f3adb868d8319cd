"""Kernels against mpmath, at their limits, and at the door."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bilsh import theory
from bilsh.errors import InvalidInputError
from support import pair_with_spectrum, rng_from

spectra = st.lists(st.floats(0, 50), min_size=1, max_size=8)


def test_spectrum_is_that_of_the_gram_matrix():
    rng = rng_from(0)
    X, Y = rng.normal(size=(2, 7, 5, 3))
    D = X - Y
    expected = np.linalg.eigvalsh(np.swapaxes(D, 1, 2) @ D)[:, ::-1]
    np.testing.assert_allclose(theory.spectrum_of(X, Y), expected, rtol=1e-10)
    swapped = theory.spectrum_of(np.swapaxes(X, 1, 2), np.swapaxes(Y, 1, 2))
    np.testing.assert_allclose(swapped, expected, rtol=1e-10)


def test_small_eigenvalues_keep_their_digits():
    X, Y = pair_with_spectrum([1.0, 1e-10, 1e-20], shape=(4, 3), rng=1)
    np.testing.assert_allclose(theory.spectrum_of(X - Y, np.zeros((4, 3)))[:2], [1.0, 1e-10], rtol=1e-8)


def test_vectors_as_one_column_have_their_squared_distance():
    x = np.array([[3.0], [4.0]])
    np.testing.assert_allclose(theory.spectrum_of(x, np.zeros((2, 1))), [25.0])


def test_bilinear_kernel_is_the_determinant():
    X, Y = rng_from(2).normal(size=(2, 6, 4))
    expected = np.linalg.det(np.eye(6) + (X - Y) @ (X - Y).T) ** -0.5
    np.testing.assert_allclose(theory.bilinear_kernel(theory.spectrum_of(X, Y)), expected, rtol=1e-12)


@given(spectra)
def test_bilinear_kernel_stays_between_its_extremes(spectrum):
    s = np.sqrt(np.sum(spectrum))
    low, high = theory.kernel_bounds(s, rank=len(spectrum))
    kernel = theory.bilinear_kernel(spectrum)
    assert theory.gaussian_kernel(s) <= low * (1 + 1e-12)
    assert low <= kernel * (1 + 1e-12)
    assert kernel <= high * (1 + 1e-12)
    exponent = theory.kernel_exponent(max(spectrum))
    assert kernel <= theory.gaussian_kernel(s) ** exponent * (1 + 1e-12)


def test_many_equal_eigenvalues_approach_the_gaussian_kernel():
    flat = np.full(10**6, 1e-6)
    np.testing.assert_allclose(theory.bilinear_kernel(flat), theory.gaussian_kernel(1.0), rtol=1e-6)


@pytest.mark.parametrize("nu", [0.05, 0.1, 0.5, 1.5, 3.3, 40.0, 400.0])
@pytest.mark.parametrize("s", [1e-3, 0.3, 2.0, 10.0])
def test_matern_kernel_agrees_with_mpmath(nu, s):
    x = mpmath.sqrt(2 * mpmath.mpf(nu)) * mpmath.mpf(s)
    expected = 2 ** (1 - mpmath.mpf(nu)) / mpmath.gamma(nu) * x**nu * mpmath.besselk(nu, x)
    assert theory.matern_kernel(s, nu) == pytest.approx(float(expected), abs=2e-15)


def test_kernels_at_their_ends():
    ends = [0.0, np.inf]
    for kernel in (theory.gaussian_kernel, theory.laplacian_kernel, lambda s: theory.matern_kernel(s, 1.5)):
        np.testing.assert_allclose(kernel(ends), [1.0, 0.0], atol=1e-15)
    np.testing.assert_array_equal(theory.bilinear_kernel([[0.0, 0.0], [np.inf, 1.0]]), [1.0, 0.0])
    np.testing.assert_allclose(theory.matern_kernel([0.5, 1.5], np.inf), theory.gaussian_kernel([0.5, 1.5]))
    np.testing.assert_allclose(theory.matern_kernel([0.5, 1.5], 0.5), theory.laplacian_kernel([0.5, 1.5]))


def test_kernels_beyond_the_range_of_squares():
    assert theory.gaussian_kernel(1e200) == 0
    assert theory.cauchy_kernel([1e200]) == 0
    for nu in (0.05, 0.3, 2.5):
        np.testing.assert_array_equal(theory.matern_kernel([0.0, 1e200], nu), [1, 0])


def test_cauchy_kernel_is_a_product():
    D = rng_from(3).normal(size=(4, 6))
    np.testing.assert_allclose(theory.cauchy_kernel(D), (1 / (1 + D**2)).prod(axis=1))


def test_effective_rank():
    np.testing.assert_allclose(theory.effective_rank([[1, 1, 1, 1], [5, 0, 0, 0]]), [4, 1])
    assert np.isnan(theory.effective_rank([0.0, 0.0]))
    assert theory.effective_rank([1e-200, 1e-200]) == pytest.approx(2)
    assert theory.effective_rank([1e308, 1e308]) == pytest.approx(2)
    np.testing.assert_array_equal(theory.effective_rank([[np.inf, 1, 0], [np.inf, np.inf, 3]]), [1, 2])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.bilinear_kernel(1.0), r"shape \(\.\.\., r\)"),
        (lambda: theory.bilinear_kernel([1.0, -0.1]), ">= 0"),
        (lambda: theory.bilinear_kernel([np.nan]), "NaN"),
        (lambda: theory.bilinear_kernel([1j]), "real"),
        (lambda: theory.gaussian_kernel(-1.0), ">= 0"),
        (lambda: theory.matern_kernel(1.0, 0.0), r"nu >= 0\.05"),
        (lambda: theory.matern_kernel(0.0, 0.001), r"nu >= 0\.05; got nu=0\.001"),
        (lambda: theory.spectrum_of(np.eye(2) * 1j, np.eye(2)), "X must be real numbers; got.*complex128"),
        (lambda: theory.spectrum_of(np.eye(2), np.eye(2) * 1j), "Y must be real numbers"),
        (lambda: theory.spectrum_of(np.zeros(3), np.zeros(3)), "matrices"),
        (lambda: theory.spectrum_of(np.zeros((3, 2)), np.zeros((2, 3))), "one shape"),
        (lambda: theory.spectrum_of(np.full((2, 2), np.nan), np.zeros((2, 2))), "NaN or inf"),
    ],
)
def test_the_door(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
