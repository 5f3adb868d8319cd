r"""From a Hamming fraction back to a distance.

p(s) rises strictly from 0 to its supremum P, so it has an inverse. ln(p / (P - p)) is a smooth, nearly
straight function of ln s at both ends; its inverse is kept as a cubic spline per kernel, built once from
exact values, so a million fractions cost one table look-up each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from bilsh.errors import InvalidInputError
from bilsh.theory._series import SUPREMUM, check_thresholds
from bilsh.theory.distance import check_kernel, expected_hamming, hamming_gap
from bilsh.theory.kernels import as_nonnegative, as_spectrum
from bilsh.theory.spline import Spline
from bilsh.types import Floats


def distance_from_hamming(
    fraction: ArrayLike,
    *,
    kernel: str = "bilinear",
    thresholds: str = "random",
    shape: ArrayLike | None = None,
    nu: float | None = None,
) -> Floats:
    r"""Distance at which the expected Hamming fraction is `fraction`.

    .. math:: s = p^{-1}(\text{fraction}), \qquad p \text{ as in Lemma 2}

    The fraction p is that of :func:`expected_hamming`.

    Parameters
    ----------
    fraction : array (...)
        Fraction of differing bits, in [0, 1].
    kernel, thresholds, nu
        As in :func:`expected_hamming`.
    shape : array (r,), optional
        For "bilinear" (required) the direction of the spectrum, lambda_j / sum(lambda); for "cauchy"
        (required) the direction of the difference vector. Only ratios matter: it is normalised here. A
        bilinear code does not determine the distance without it; ``[1.0]`` and ``np.full(r, 1 / r)`` give the
        extremes (rank one: the largest distance, flat: the smallest).

    Returns
    -------
    array (...)
        The distance s (Frobenius, Euclidean, L1 for "laplacian"; the angle for "angle"). Monotone; 0 for
        fraction 0, inf from the supremum (4/pi^2 or 1/2) on; an observed fraction may lie above it by chance.

    Notes
    -----
    Assumptions: as in :func:`expected_hamming`. Status: exact up to interpolation; expected_hamming of the
    result agrees with `fraction` to a relative 1e-9 (below s = 1e-18: extrapolated as a power law).

    Examples
    --------
    >>> import numpy as np
    >>> from bilsh.theory import expected_hamming
    >>> p = expected_hamming([0.8, 1.5], kernel="gaussian")
    >>> distance_from_hamming(p, kernel="gaussian").round(9)
    array([0.8, 1.5])
    >>> distance_from_hamming([0.0, 0.3, 0.45], shape=[0.7, 0.2, 0.1]).round(4)
    array([0.    , 1.8388,    inf])
    """
    check_kernel(kernel, thresholds, nu)
    p = as_nonnegative(fraction, "fraction")
    if np.any(p > 1):
        raise InvalidInputError(
            f"fraction must be in [0, 1]; got {p.max()}. Divide Hamming distances by the number of bits."
        )
    if kernel == "angle":
        return p * np.pi
    return inverse_law(kernel, thresholds, shape, nu)(p)


def inverse_law(
    kernel: str, thresholds: str, shape: ArrayLike | None = None, nu: float | None = None
) -> Inverse:
    """Return the function behind :func:`distance_from_hamming`, for many calls: it checks nothing any more."""
    check_kernel(kernel, thresholds, nu)
    return _inverse(kernel, thresholds, nu, _direction(shape, kernel))


@dataclass(frozen=True, slots=True)
class Inverse:
    """Distances as a function of fractions: ln s as a spline over ln(p / (P - p))."""

    spline: Spline
    top: float

    def __call__(self, p: Floats) -> Floats:
        """Return the distance with that expected fraction; inf from the supremum on."""
        spline, top = self.spline, self.top
        inside = (p > 0) & (p < top)
        safe = np.where(inside, p, 0.5 * top)
        logit = np.log(safe / (top - safe))
        low, high = spline.x[0], spline.x[-1]
        u = spline(np.minimum(np.maximum(logit, low), high))
        # Beyond the table both ends are straight lines: power laws of the distance.
        first, last = spline.end_slopes
        u = u + first * np.minimum(logit - low, 0) + last * np.maximum(logit - high, 0)
        return np.asarray(np.where(inside, np.exp(u), np.where(p > 0, np.inf, 0.0)))


def invert(
    mismatch: Callable[[Floats], Floats], thresholds: str, gap: Callable[[Floats], Floats] | None = None
) -> Inverse:
    """Inverse of an expected fraction that rises strictly with the distance, built from its values.

    Parameters
    ----------
    mismatch : function of distances (n,)
    thresholds : {"random", "zero"}
        Decides the supremum P.
    gap : function of distances, optional
        P - mismatch without cancellation, where it is known.

    Examples
    --------
    >>> from bilsh.theory import expected_hamming
    >>> inverse = invert(lambda s: expected_hamming(s, kernel="laplacian"), "random")
    >>> inverse(expected_hamming([0.5], kernel="laplacian")).round(6)
    array([0.5])
    """
    top = SUPREMUM[check_thresholds(thresholds)]
    scale = np.exp(_grid())
    p = mismatch(scale)
    rest = top - p if gap is None else gap(scale)
    # No float64 fraction lies closer to the supremum; a difference is told to 1e-12 of it.
    keep = (rest > (1e-12 if gap is None else 1e-17)) & (p > 0)
    logit, log_scale = np.log(p[keep] / rest[keep]), np.log(scale[keep])
    # Where rounding has eaten the rise of p, there is nothing to invert.
    rises = np.diff(logit, prepend=-np.inf) > 1e-9
    first = len(rises) - int(np.argmin(rises[::-1])) if not rises.all() else 0
    return Inverse(Spline.through(logit[first:], log_scale[first:]), top)


def _grid() -> Floats:
    """Ln s, finest where p bends, coarse where ln p is a straight line of ln s."""
    pieces = (
        (-41.5, -11.0, 0.1),
        (-11.0, -3.0, 0.02),
        (-3.0, 4.0, 0.01),
        (4.0, 7.0, 0.02),
        (7.0, 36.0, 0.25),
    )
    return np.concatenate([np.arange(*piece) for piece in pieces])


def _direction(shape: ArrayLike | None, kernel: str) -> tuple[float, ...] | None:
    """Normalise the direction of a spectrum or difference vector; hashable, for the cache of splines."""
    if kernel not in ("bilinear", "cauchy"):
        if shape is not None:
            raise InvalidInputError(
                f"shape belongs to the bilinear and Cauchy kernels, not to {kernel!r}. Leave it out."
            )
        return None
    if shape is None:
        raise InvalidInputError(
            f"kernel={kernel!r} needs shape: a fraction alone does not determine the distance. "
            "Use the mean spectrum of your data's differences, or [1.0] for the rank-one extreme."
        )
    values = as_spectrum(np.abs(np.asarray(shape)) if kernel == "cauchy" else shape)
    largest = values.max()
    if values.ndim != 1 or not 0 < largest < np.inf:
        raise InvalidInputError(
            f"shape must be one vector (r,) with a finite positive sum; got an array of shape {values.shape} "
            f"with largest entry {largest}."
        )
    # The largest entry becomes 1 first: neither a square nor the sum may overflow.
    values = (values / largest) ** (2 if kernel == "cauchy" else 1)
    values = np.sort(values[values > 0] / values.sum())[::-1]
    return tuple(np.sqrt(values) if kernel == "cauchy" else values)


@lru_cache(maxsize=64)
def _inverse(kernel: str, thresholds: str, nu: float | None, direction: tuple[float, ...] | None) -> Inverse:
    """Inverse of one of the laws, from exact values."""

    def argument(scale: Floats) -> Floats:
        if direction is None:
            return scale
        return np.asarray(scale[:, None] ** (2 if kernel == "bilinear" else 1) * np.array(direction))

    def law(function: Callable[..., Floats]) -> Callable[[Floats], Floats]:
        return lambda scale: function(argument(scale), kernel=kernel, thresholds=thresholds, nu=nu)

    return invert(law(expected_hamming), thresholds, law(hamming_gap))
