r"""Bilinear sign codes: how often their bits differ, and how much bits that share a vector repeat each other.

A bit is [w^T X v >= 0]. Given w the vector v sees two directions X^T w and Y^T w, so two codes differ there with
probability theta_w / pi, theta_w the angle between the two. Hence

    p = E_w[theta_w] / pi,        C = Var_w[theta_w] / pi^2

is the covariance of the mismatches of two bits that share w and have their own v; with X^T and Y^T for a shared v.
Neither depends on the angle theta of X and Y alone: p = theta / pi holds where X and Y are vectors, and nearly where
their spectra are flat. The more the energy of X and Y lies in few directions, the larger C.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh.errors import InvalidInputError
from bilsh.types import Floats

DRAWS = 512
"""Vectors w that stand for all of them; the relative error of a covariance is about 6 %, of p below 1 %."""

_ANGLES = 24
_LOGS = np.linspace(-30.0, 30.0, 241)


@dataclass(frozen=True, slots=True)
class SignMoments:
    """Mismatch of bilinear sign bits, one value per pair of items.

    Attributes
    ----------
    angle : array (n,)
        Angle theta of the two items, as vectors.
    fraction : array (n,)
        Expected fraction of differing bits.
    left, right : array (n,)
        Covariance of the mismatches of two bits that share the left vector w; that share the right vector v.
    """

    angle: Floats
    fraction: Floats
    left: Floats
    right: Floats


def sign_mismatch(X: ArrayLike, Y: ArrayLike) -> Floats:
    r"""Expected fraction of differing bits of bilinear sign codes.

    .. math:: p = \frac12 - \frac{1}{\pi^2} \int_0^{\pi/2}
              \frac{L(\cos\varphi\, X + \sin\varphi\, Y) - L(\cos\varphi\, X - \sin\varphi\, Y)}{\sin 2\varphi}
              \,d\varphi, \qquad L(D) = E \ln \sum_j \lambda_j \chi^2_j

    with the eigenvalues lambda of D D^T. From sgn x = (1/pi) int sin(t x)/t dt, E exp(i w^T D v) = kappa_b(D) and
    Frullani's integral.

    Parameters
    ----------
    X, Y : array (..., d_w, d_v)
        Centred items, pair by pair.

    Returns
    -------
    array (...)

    Notes
    -----
    Assumptions: independent Gaussian vectors. Status: exact up to quadrature, about 1e-6; nearly parallel items
    lose digits.

    Examples
    --------
    >>> float(sign_mismatch([[1.0, 0.0]], [[1.0, 1.0]]).round(5))  # vectors: the angle over pi
    0.25
    """
    left, right = _matrices(X, Y)
    nodes, weights = np.polynomial.legendre.leggauss(_ANGLES)
    # phi and pi/2 - phi swap the items: half of the range, and its mirror image, in a variable that eases the ends.
    phi = np.pi / 4 * (nodes + 1)
    total = np.zeros(left.shape[:-2])
    scale_x, scale_y = (np.linalg.norm(a, axis=(-2, -1), keepdims=True) for a in (left, right))
    left, right = left / np.where(scale_x > 0, scale_x, 1.0), right / np.where(scale_y > 0, scale_y, 1.0)
    for angle, weight in zip(phi, weights, strict=True):
        plus, minus = (np.cos(angle) * left + sign * np.sin(angle) * right for sign in (1.0, -1.0))
        total += np.pi / 4 * weight * (_mean_log(plus) - _mean_log(minus)) / np.sin(2 * angle)
    return np.asarray(np.clip(0.5 - total / np.pi**2, 0.0, 1.0))


def sign_moments(
    X: ArrayLike, Y: ArrayLike, *, n_draws: int = DRAWS, rng: np.random.Generator | int = 0
) -> SignMoments:
    """Expected mismatch and covariances, by an average over random vectors.

    Parameters
    ----------
    X, Y : array (n, d_w, d_v)
        Centred items, pair by pair.
    n_draws : int
        Vectors for each side.
    rng : Generator or int
        Draws them; the same vectors serve all pairs.

    Returns
    -------
    SignMoments

    Notes
    -----
    Assumptions: independent Gaussian vectors. Status: unbiased estimates.

    Examples
    --------
    >>> moments = sign_moments(np.eye(3)[None], np.diag([1.0, 1.0, 0.0])[None])
    >>> bool(0.15 < moments.fraction[0] < 0.25), bool(0.005 < moments.left[0] < 0.03)
    (True, True)
    """
    left, right = _matrices(X, Y)
    if left.ndim != 3:
        raise InvalidInputError(f"X and Y must be (n, d_w, d_v); got {left.ndim} axes.")
    generator = np.random.default_rng(rng)
    w, v = (generator.normal(size=(n_draws, d)) for d in left.shape[1:])
    by_w = np.stack([_angles(w @ x, w @ y) for x, y in zip(left, right, strict=True)]) / np.pi
    by_v = np.stack([_angles(v @ x.T, v @ y.T) for x, y in zip(left, right, strict=True)]) / np.pi
    flat = left.reshape(len(left), -1), right.reshape(len(right), -1)
    return SignMoments(
        _angles(*flat),
        0.5 * (by_w.mean(axis=1) + by_v.mean(axis=1)),
        by_w.var(axis=1, ddof=1),
        by_v.var(axis=1, ddof=1),
    )


def sign_variance(
    fraction: ArrayLike, left: ArrayLike, right: ArrayLike, pairs: NDArray[np.integer]
) -> Floats:
    r"""Variance of the observed fraction of a bilinear sign code.

    .. math:: \mathrm{Var} = \frac{k\,p(1-p) + C_w \sum_i r_i (r_i - 1) + C_v \sum_j c_j (c_j - 1)}{k^2}

    Parameters
    ----------
    fraction, left, right : array (...)
        p, C_w and C_v, see :class:`SignMoments`.
    pairs : integer array (k, 2)
        Left and right vector of each bit, all different: w_i is used r_i times, v_j c_j times.

    Returns
    -------
    array (...)

    Examples
    --------
    >>> grid = np.stack(np.divmod(np.arange(64), 8), axis=1)
    >>> print(f"{float(sign_variance(0.25, 0.01, 0.02, grid)):.6f}")
    0.006211
    """
    p = np.asarray(fraction, dtype=np.float64)
    k = len(pairs)
    rows, columns = (np.bincount(side).astype(np.float64) for side in np.asarray(pairs).T)
    total = k * p * (1 - p)
    total = total + np.asarray(left) * (rows * (rows - 1)).sum()
    total = total + np.asarray(right) * (columns * (columns - 1)).sum()
    return np.asarray(total / k**2)


def _matrices(X: ArrayLike, Y: ArrayLike) -> tuple[Floats, Floats]:
    left, right = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
    if left.shape != right.shape or left.ndim < 2:
        raise InvalidInputError(
            f"X and Y must be matrices of the same shape (..., d_w, d_v); got {left.shape} and {right.shape}."
        )
    return left, right


def _angles(a: Floats, b: Floats) -> Floats:
    """Angles between rows; pi/2 where one is zero. By half angles, which keep small ones exact."""
    a_norm, b_norm = (np.linalg.norm(x, axis=-1, keepdims=True) for x in (a, b))
    a, b = a / np.where(a_norm > 0, a_norm, 1.0), b / np.where(b_norm > 0, b_norm, 1.0)
    return np.asarray(
        2 * np.arctan2(np.linalg.norm(a - b, axis=-1), np.linalg.norm(a + b, axis=-1)), dtype=np.float64
    )


def _mean_log(D: Floats) -> Floats:
    """E ln sum lambda_j chi^2_j: int_0^inf (exp(-t) - prod (1 + 2 t lambda_j)^(-1/2)) dt / t, in ln t."""
    gram = D @ np.swapaxes(D, -1, -2) if D.shape[-2] <= D.shape[-1] else np.swapaxes(D, -1, -2) @ D
    spectrum = np.maximum(np.linalg.eigvalsh(gram), 0.0)
    total = np.zeros(spectrum.shape[:-1])
    for t in np.exp(_LOGS):
        total += np.exp(-t) - np.exp(-0.5 * np.log1p(2 * t * spectrum).sum(axis=-1))
    return np.asarray(total * (_LOGS[1] - _LOGS[0]))
