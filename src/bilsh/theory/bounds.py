"""Bounds that need no assumption: what a distance or a kernel value alone can say.

Exact values are cheap (:mod:`bilsh.theory.distance`, :mod:`bilsh.theory.covariance`); bounds answer what can be
said without the spectrum. The published ones are in :mod:`bilsh.theory.published`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bilsh.errors import InvalidInputError
from bilsh.theory._series import bilinear_mismatch, check_thresholds
from bilsh.theory.covariance import bit_covariance
from bilsh.theory.distance import gaussian_split
from bilsh.theory.kernels import as_nonnegative, gaussian_kernel
from bilsh.types import Floats
from bilsh.validation import check_integer

_MANY = 100_000  # equal eigenvalues; beyond, the Gaussian value bounds theirs and is as good


class Bounds(NamedTuple):
    """A lower and an upper bound, elementwise."""

    lower: Floats
    upper: Floats


def as_kernel_value(kernel_value: ArrayLike) -> Floats:
    """Check that a kernel value is in [0, 1]."""
    values = as_nonnegative(kernel_value, "kernel_value")
    if np.any(values > 1):
        raise InvalidInputError(
            f"kernel_value must be in [0, 1]; got {values.max()}. "
            "The theorems are about kernels with kappa(0) = 1."
        )
    return values


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
    values = as_kernel_value(kernel_value)
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


def covariance_range(distance: ArrayLike, *, rank: int | None = None, thresholds: str = "random") -> Bounds:
    r"""Range of the covariance of two bits that share a vector, at a fixed distance.

    .. math:: C_{\text{flat}}(r, s) \le C \le C_{\text{rank 1}}(s)

    C is Schur-convex in the spectrum: the steeper, the more two bits repeat each other (proof in docs/theory.md).

    Parameters
    ----------
    distance : array (...)
        Frobenius distance s.
    rank : int, optional
        Largest possible rank up to 100,000, e.g. min(d_w, d_v); without it the lower bound is 0.
    thresholds : {"random", "zero"}
        As in :func:`expected_hamming`.

    Returns
    -------
    Bounds

    Notes
    -----
    Assumptions: independent Gaussian projection vectors. Status: bound (sharp).

    Examples
    --------
    >>> low, high = covariance_range(1.0, rank=28)
    >>> print(f"{low:.5f} {high:.5f}")
    0.00067 0.01210
    """
    s = as_nonnegative(distance, "distance")
    squares = (np.minimum(s, 1e140) ** 2)[..., None]
    highest = bit_covariance(squares, thresholds=thresholds)
    if rank is None or (r := _as_rank(rank)) > _MANY:
        return Bounds(np.zeros_like(highest), highest)
    return Bounds(bit_covariance(np.repeat(squares / r, int(r), axis=-1), thresholds=thresholds), highest)
