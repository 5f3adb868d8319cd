"""Bilinear sign bits: their mismatch and covariance against drawn codes and against limits known in closed form."""

import numpy as np
import pytest

from bilsh.errors import InvalidInputError
from bilsh.theory.sign_covariance import sign_mismatch, sign_moments, sign_variance
from support import SEED


def some_pairs(n, shape, rng, decay=0.3):
    """Pairs with energy in few directions."""
    scale = np.geomspace(1, decay, shape[1])
    X = rng.normal(size=(n, *shape)) * scale
    return X, 0.7 * X + 0.6 * rng.normal(size=X.shape) * scale


def test_vectors_have_the_angle_over_pi():
    X, Y = some_pairs(20, (1, 6), np.random.default_rng(SEED))
    moments = sign_moments(X, Y, n_draws=2000, rng=SEED)
    np.testing.assert_allclose(sign_mismatch(X, Y), moments.angle / np.pi, atol=1e-4)
    np.testing.assert_allclose(moments.left, 0, atol=1e-20)  # one w: its length does not matter
    np.testing.assert_allclose(moments.right, moments.fraction * (1 - moments.fraction), atol=0.02)


def test_integral_agrees_with_the_average():
    X, Y = some_pairs(10, (5, 7), np.random.default_rng([SEED, 1]))
    moments = sign_moments(X, Y, n_draws=20_000, rng=SEED)
    error = np.sqrt((moments.left + moments.right) / 4 / 20_000)
    assert np.all(np.abs(sign_mismatch(X, Y) - moments.fraction) < 5.5 * error + 1e-4)
    np.testing.assert_allclose(sign_mismatch(X, -Y), 1 - sign_mismatch(X, Y), atol=1e-6)


@pytest.mark.parametrize("n_left", [4, 12])
def test_variance_of_drawn_codes(n_left):
    """4,000 grids: the variance has a relative error of 2.3 %; one of 15 % more would be seen."""
    rng = np.random.default_rng([SEED, n_left])
    X, Y = some_pairs(1, (6, 8), rng)
    grid = np.stack(np.divmod(np.arange(n_left * 6), 6), axis=1)
    fractions = []
    for _ in range(4000):
        w, v = rng.normal(size=(n_left, 6)), rng.normal(size=(6, 8))
        fractions.append(np.mean((w @ X[0] @ v.T >= 0) != (w @ Y[0] @ v.T >= 0)))
    moments = sign_moments(X, Y, n_draws=20_000, rng=SEED)
    expected = sign_variance(moments.fraction, moments.left, moments.right, grid)[0]
    assert np.var(fractions, ddof=1) == pytest.approx(expected, rel=0.13)
    assert np.mean(fractions) == pytest.approx(moments.fraction[0], abs=6 * np.sqrt(expected / 4000))
    independent = moments.fraction[0] * (1 - moments.fraction[0]) / len(grid)
    assert expected > 1.3 * independent


def test_wrong_shapes():
    with pytest.raises(InvalidInputError, match="same shape"):
        sign_mismatch(np.zeros((2, 3)), np.zeros((3, 2)))
    with pytest.raises(InvalidInputError, match="n, d_w, d_v"):
        sign_moments(np.zeros((2, 3)), np.zeros((2, 3)))
