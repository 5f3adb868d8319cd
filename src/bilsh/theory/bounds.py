"""Bounds: the published ones with their assumptions, and those that need none.

Exact values are cheap (:mod:`bilsh.theory.distance`, :mod:`bilsh.theory.covariance`); bounds answer what can
be said from a kernel value or a distance alone. Functions "as published" state the paper's formula to the
letter. Give them the data (`data=(X, Y)`) and they warn where its assumptions fail.
"""

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh.errors import AssumptionWarning, InvalidInputError
from bilsh.theory._series import bilinear_mismatch, check_thresholds
from bilsh.theory.distance import gaussian_split
from bilsh.theory.kernels import (
    Floats,
    as_nonnegative,
    as_spectrum,
    gaussian_kernel,
    spectrum_of,
)
from bilsh.validation import check_integer

Booleans = NDArray[np.bool_]

LEMMA1_EXPONENT = 0.79
"""Exponent of the upper bound in Lemma 1: exp(0.79 u) <= 1 + u for 0 <= u <= 0.575."""

LEMMA1_MAX_NORM = 0.8
"""Lemma 1 assumes Frobenius norms up to this (of X as printed; its proof needs it of Y too)."""

LEMMA1_MAX_RATIO = 0.28
"""Lemma 1 assumes lambda_1 <= 0.28 (lambda_2 + lambda_3 + ...), which needs rank 5 at least."""

_MANY = 100_000  # equal eigenvalues; beyond, the Gaussian value bounds theirs and is as good


class Bounds(NamedTuple):
    """A lower and an upper bound, elementwise."""

    lower: Floats
    upper: Floats


def _as_kernel_value(kernel_value: ArrayLike) -> Floats:
    """Check that a kernel value is in [0, 1]."""
    values = as_nonnegative(kernel_value, "kernel_value")
    if np.any(values > 1):
        raise InvalidInputError(
            f"kernel_value must be in [0, 1]; got {values.max()}. "
            "The theorems are about kernels with kappa(0) = 1."
        )
    return values


def norm_assumption(X: ArrayLike) -> Booleans:
    r"""Whether :math:`\lVert X \rVert_F \le 0.8` (first assumption of Lemma 1).

    Parameters
    ----------
    X : array (..., d_w, d_v)
        Matrices, divided by the bandwidth.

    Returns
    -------
    bool array (...)

    Notes
    -----
    Status: predicate. The paper asks it of X; the proof uses \|\|X - Y\|\| <= 1.6, so Y must satisfy it as
    well.

    Examples
    --------
    >>> bool(norm_assumption([[0.5, 0.5], [0.3, 0.0]]))
    True
    """
    norms = np.linalg.norm(np.asarray(X, dtype=np.float64), axis=(-2, -1))
    return np.asarray(norms <= LEMMA1_MAX_NORM)


def ratio_assumption(spectrum: ArrayLike) -> Booleans:
    r"""Whether :math:`\lambda_1 \le 0.28 \sum_{i \ge 2} \lambda_i` (second assumption of Lemma 1).

    Parameters
    ----------
    spectrum : array (..., r)
        See :func:`spectrum_of`.

    Returns
    -------
    bool array (...)

    Notes
    -----
    Status: predicate. It bounds lambda_1 by 0.28/1.28 of the whole, so it needs a rank of at least 5.

    Examples
    --------
    >>> ratio_assumption([[1.0, 1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0]])
    array([False,  True])
    """
    values = as_spectrum(spectrum)
    largest = values.max(axis=-1)
    return np.asarray(largest <= LEMMA1_MAX_RATIO * (values.sum(axis=-1) - largest))


def lemma1_assumptions(X: ArrayLike, Y: ArrayLike) -> Booleans:
    """Whether all that the proof of Lemma 1 uses holds for the pair X, Y.

    Parameters
    ----------
    X, Y : array (..., d_w, d_v)
        Matrices, divided by the bandwidth.

    Returns
    -------
    bool array (...)

    Notes
    -----
    Status: predicate, sufficient for Lemma 1 and Theorem 2.

    Examples
    --------
    >>> import numpy as np
    >>> bool(lemma1_assumptions(0.2 * np.eye(6), -0.2 * np.eye(6)))
    True
    """
    return np.asarray(norm_assumption(X) & norm_assumption(Y) & ratio_assumption(spectrum_of(X, Y)))


def _warn_outside(statement: str, data: tuple[ArrayLike, ArrayLike] | None) -> None:
    """Warn if the caller's pairs do not meet the assumptions of Lemma 1."""
    if data is None:
        return
    holds = lemma1_assumptions(*data)
    if not holds.all():
        warnings.warn(
            f"{statement} is stated under the assumptions of Lemma 1, which hold for "
            f"{np.count_nonzero(holds)} of {holds.size} pairs; elsewhere it may be wrong. "
            "See check_assumptions; exact values need no assumption.",
            AssumptionWarning,
            stacklevel=3,
        )


def lemma1_bounds(kernel_value: ArrayLike, *, data: tuple[ArrayLike, ArrayLike] | None = None) -> Bounds:
    r"""Bounds on the bilinear kernel by the Gaussian one (Lemma 1).

    .. math:: \kappa_g \le \kappa_b \le \kappa_g^{0.79}

    Parameters
    ----------
    kernel_value : array (...)
        Gaussian kernel of the distance.
    data : (X, Y), optional
        The matrices (..., d_w, d_v); an :class:`bilsh.errors.AssumptionWarning` tells if they do not qualify.

    Returns
    -------
    Bounds

    Notes
    -----
    Assumptions: \|\|X\|\|_F, \|\|Y\|\|_F <= 0.8 and lambda_1 <= 0.28 (lambda_2 + ...) for the upper bound;
    none for the lower. Status: as published (with the condition on Y that its proof needs).

    Examples
    --------
    >>> low, high = lemma1_bounds(0.5)
    >>> print(f"{low:.4f} {high:.4f}")
    0.5000 0.5783
    """
    _warn_outside("Lemma 1's upper bound", data)
    values = _as_kernel_value(kernel_value)
    return Bounds(values, values**LEMMA1_EXPONENT)


def kernel_bounds(distance: ArrayLike, *, rank: int | None = None) -> Bounds:
    r"""Bounds on the bilinear kernel from the distance alone.

    .. math:: \kappa_g \le (1 + s^2/r)^{-r/2} \le \kappa_b \le (1 + s^2)^{-1/2}

    Parameters
    ----------
    distance : array (...)
        Frobenius distance s.
    rank : int, optional
        Largest possible rank r, e.g. min(d_w, d_v); without it the lower bound is kappa_g.

    Returns
    -------
    Bounds
        Attained by the flat spectrum of rank r and by a rank-one difference.

    Notes
    -----
    Assumptions: none. Status: bound (sharp).

    Examples
    --------
    >>> low, high = kernel_bounds(1.0, rank=4)
    >>> print(f"{low:.4f} {high:.4f}")
    0.6400 0.7071
    """
    s = as_nonnegative(distance, "distance")
    largest = np.asarray(1 / np.hypot(1, s))
    if rank is None:
        return Bounds(gaussian_kernel(s), largest)
    r = _as_rank(rank)
    if r == 1:
        return Bounds(largest, largest)
    with np.errstate(over="ignore"):  # to inf, where the kernel underflows too
        return Bounds(np.asarray(np.exp(-0.5 * r * np.log1p(s**2 / r))), largest)


def kernel_exponent(largest_eigenvalue: ArrayLike) -> Floats:
    r"""Exponent e with :math:`\kappa_b \le \kappa_g^e` for every spectrum with this largest eigenvalue.

    .. math:: e = \ln(1 + \lambda_1) / \lambda_1

    It takes the place of 0.79 in Lemma 1.

    Parameters
    ----------
    largest_eigenvalue : array (...)
        lambda_1 >= 0.

    Returns
    -------
    array (...)
        In [0, 1], 0 only for inf; at least 0.79 for lambda_1 <= 0.575.

    Notes
    -----
    Assumptions: none. Status: bound (sharp for flat spectra).

    Examples
    --------
    >>> kernel_exponent([0.0, 0.56, 3.0]).round(4)
    array([1.    , 0.7941, 0.4621])
    """
    values = as_nonnegative(largest_eigenvalue, "largest_eigenvalue")
    finite = np.minimum(values, np.finfo(np.float64).max)
    exponents = np.divide(np.log1p(finite), finite, out=np.ones_like(finite), where=finite > 0)
    return np.where(np.isinf(values), 0.0, exponents)


def _as_rank(rank: int) -> float:
    """Check a rank; from 1e280 on float64 cannot tell it from an infinite one."""
    return float(min(check_integer("rank", rank, minimum=1), 10**280))


def hamming_bounds(
    kernel_value: ArrayLike,
    method: str = "linear",
    *,
    sharpened: bool = False,
    data: tuple[ArrayLike, ArrayLike] | None = None,
) -> Bounds:
    r"""Bounds :math:`g_1, g_2` on the expected Hamming fraction, random thresholds (Theorems 1 and 2).

    .. math::
        g_1(\zeta) = \tfrac{4}{\pi^2}(1 - \zeta) \text{ (Theorem 1)},\quad
        \tfrac{4}{\pi^2}(1 - \zeta^{0.79}) \text{ (Theorem 2)}, \qquad
        g_2(\zeta) = \min\{\tfrac12\sqrt{1-\zeta},\; \tfrac{4}{\pi^2}(1 - \tfrac23 \zeta)\}

    Parameters
    ----------
    kernel_value : array (...)
        "linear": the kernel of the code, kappa_b included; "bilinear": the Gaussian kernel of the distance.
    method : {"linear", "bilinear"}
        Theorem 1 or Theorem 2.
    sharpened : bool
        Replace sqrt(1 - zeta)/2 by (sqrt 2/pi) sqrt(1 - zeta), and for "bilinear" zeta^0.79 by (1 +
        s^2)^(-1/2) with s^2 = -2 ln zeta, which needs no assumption.
    data : (X, Y), optional
        For "bilinear" as published: matrices (..., d_w, d_v) to check the assumptions on.

    Returns
    -------
    Bounds

    Notes
    -----
    Assumptions: kernel >= 0 with kappa(m D) <= kappa(D); "bilinear" as published: those of Lemma 1 for g_1
    (g_2 always holds). g_1 fails e.g. for rank-one differences beyond distance 1.404. Status: as published,
    or bound with ``sharpened=True``.

    Examples
    --------
    >>> low, high = hamming_bounds(0.5)
    >>> print(f"{low:.4f} {high:.4f}")
    0.2026 0.2702
    >>> low, high = hamming_bounds(0.5, "bilinear")
    >>> print(f"{low:.4f} {high:.4f}")
    0.1709 0.2702
    """
    if method not in ("linear", "bilinear"):
        raise InvalidInputError(
            f"method must be 'linear' (Theorem 1) or 'bilinear' (Theorem 2); got {method!r}."
        )
    values = _as_kernel_value(kernel_value)
    if data is not None and (method == "linear" or sharpened):
        raise InvalidInputError("data is only checked for method='bilinear' as published; leave it out here.")
    root = np.sqrt(2) / np.pi if sharpened else 0.5
    upper = np.minimum(root * np.sqrt(1 - values), 4 / np.pi**2 * (1 - 2 / 3 * values))
    if method == "linear":
        largest = values
    elif sharpened:
        # A Gaussian kernel underflows at distance 38; the smallest normal number keeps the bound true there.
        largest = 1 / np.sqrt(1 - 2 * np.log(np.maximum(values, np.finfo(np.float64).tiny)))
    else:
        _warn_outside("Theorem 2's lower bound", data)
        largest = values**LEMMA1_EXPONENT
    return Bounds(4 / np.pi**2 * (1 - largest), upper)


def zero_threshold_bounds(kernel_value: ArrayLike) -> Bounds:
    r"""Bounds on the expected Hamming fraction with zero thresholds, from the code's own kernel.

    .. math::
        \frac{1 - \kappa}{2} \le p \le \min\{\sqrt{(1-\kappa)/2},\; \tfrac12 - 4\kappa/\pi^2\}

    Parameters
    ----------
    kernel_value : array (...)
        Kernel of the code: kappa_b for bilinear projections.

    Returns
    -------
    Bounds

    Notes
    -----
    Assumptions: kernel >= 0 with kappa(m D) <= kappa(D), as every kernel here. Status: bound.

    Examples
    --------
    >>> low, high = zero_threshold_bounds(0.5)
    >>> print(f"{low:.4f} {high:.4f}")
    0.2500 0.2974
    """
    values = _as_kernel_value(kernel_value)
    upper = np.minimum(np.sqrt((1 - values) / 2), 0.5 - 4 / np.pi**2 * values)
    return Bounds((1 - values) / 2, upper)


def identification_bounds(
    distance: ArrayLike, *, rank: int | None = None, thresholds: str = "random"
) -> Bounds:
    r"""Range of the expected Hamming fraction of bilinear codes at a fixed distance.

    .. math:: p_{\text{rank 1}}(s) \le p \le p_{\text{flat}}(r, s) \le p_{\text{gauss}}(s)

    p is the mean of a concave function of sum_j lambda_j chi^2_j, hence Schur-concave in the spectrum: a
    distance alone does not determine it.

    Parameters
    ----------
    distance : array (...)
        Frobenius distance s.
    rank : int, optional
        Largest possible rank, e.g. min(d_w, d_v); without it the upper bound is the Gaussian value. So it is
        beyond rank 100,000, where both agree to 5e-6.
    thresholds : {"random", "zero"}
        As in :func:`expected_hamming`.

    Returns
    -------
    Bounds

    Notes
    -----
    Assumptions: none. Status: bound (sharp).

    Examples
    --------
    >>> low, high = identification_bounds(1.0, rank=28)
    >>> print(f"{low:.4f} {high:.4f}")
    0.1747 0.2311
    """
    check_thresholds(thresholds)
    s = as_nonnegative(distance, "distance")
    squares = (np.minimum(s, 1e140) ** 2)[..., None]
    if rank is None or (r := _as_rank(rank)) > _MANY:
        flattest = gaussian_split(s, thresholds)[0]
    else:
        flattest = bilinear_mismatch(squares, thresholds, copies=r)
    return Bounds(bilinear_mismatch(squares, thresholds), flattest)


def covariance_bounds(kernel_value: ArrayLike, *, data: tuple[ArrayLike, ArrayLike] | None = None) -> Bounds:
    r"""Bounds on the covariance of two bits that share a projection vector (Theorem 3 and its corollary).

    .. math::
        \pm \frac{64}{\pi^4} \left\{ \Big(\sum_{m \ge 1} \frac{\kappa_g^{0.79 m^2}}{4m^2-1}\Big)^2
        - \Big(\sum_{m \ge 1} \frac{\kappa_g^{m^2}}{4m^2-1}\Big)^2 \right\}

    Parameters
    ----------
    kernel_value : array (...)
        Gaussian kernel of the distance.
    data : (X, Y), optional
        Matrices (..., d_w, d_v) to check the assumptions on.

    Returns
    -------
    Bounds
        The published lower bound is minus the upper one; the covariance itself is never negative.

    Notes
    -----
    Assumptions: those of Lemma 1. Its proof uses Lemma 1 at multiples m D where they fail; no violation is
    known inside the assumptions, outside it does fail (rank one at distance 1: exact 0.01210, bound 0.00818).
    Status: as published. Exact: :func:`bit_covariance`.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = covariance_bounds(np.exp(-0.5))
    >>> print(f"{low:.5f} {high:.5f}")
    -0.00818 0.00818
    """
    _warn_outside("Theorem 3", data)
    with np.errstate(divide="ignore"):
        s = np.sqrt(-2 * np.log(_as_kernel_value(kernel_value)))
    near, near_gap = gaussian_split(np.sqrt(LEMMA1_EXPONENT) * s, "random")
    far, far_gap = gaussian_split(s, "random")
    # The sums are gaps to 4/pi^2; the difference of squares is factored so that it keeps its digits near
    # kappa = 1.
    upper = (far - near) * (near_gap + far_gap)
    return Bounds(-upper, upper)
