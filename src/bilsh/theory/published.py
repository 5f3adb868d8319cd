"""The paper's bounds to the letter (Lemma 1, Theorems 1 to 3), with their assumptions as predicates.

Give them the data (`data=(X, Y)`) and they warn where the assumptions fail. Bounds that need none are in
:mod:`bilsh.theory.bounds`.
"""

import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh.errors import AssumptionWarning, InvalidInputError
from bilsh.theory.bounds import Bounds, as_kernel_value
from bilsh.theory.distance import gaussian_split
from bilsh.theory.kernels import as_spectrum, spectrum_of

Booleans = NDArray[np.bool_]

LEMMA1_EXPONENT = 0.79
"""Exponent of the upper bound in Lemma 1: exp(0.79 u) <= 1 + u for 0 <= u <= 0.575."""

LEMMA1_MAX_NORM = 0.8
"""Lemma 1 assumes Frobenius norms up to this (of X as printed; its proof needs it of Y too)."""

LEMMA1_MAX_RATIO = 0.28
"""Lemma 1 assumes lambda_1 <= 0.28 (lambda_2 + lambda_3 + ...), which needs rank 5 at least."""


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
    values = as_kernel_value(kernel_value)
    return Bounds(values, values**LEMMA1_EXPONENT)


def hamming_bounds(
    kernel_value: ArrayLike,
    method: str = "dense",
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
        "dense": the kernel of the code, kappa_b included; "bilinear": the Gaussian kernel of the distance.
    method : {"dense", "bilinear"}
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
    if method not in ("dense", "bilinear"):
        raise InvalidInputError(
            f"method must be 'dense' (Theorem 1) or 'bilinear' (Theorem 2); got {method!r}."
        )
    values = as_kernel_value(kernel_value)
    if data is not None and (method == "dense" or sharpened):
        raise InvalidInputError("data is only checked for method='bilinear' as published; leave it out here.")
    root = np.sqrt(2) / np.pi if sharpened else 0.5
    upper = np.minimum(root * np.sqrt(1 - values), 4 / np.pi**2 * (1 - 2 / 3 * values))
    if method == "dense":
        largest = values
    elif sharpened:
        # A Gaussian kernel underflows at distance 38; the smallest normal number keeps the bound true there.
        largest = 1 / np.sqrt(1 - 2 * np.log(np.maximum(values, np.finfo(np.float64).tiny)))
    else:
        _warn_outside("Theorem 2's lower bound", data)
        largest = values**LEMMA1_EXPONENT
    return Bounds(4 / np.pi**2 * (1 - largest), upper)


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
    Assumptions: those of Lemma 1 (the paper prints none). Its proof applies Lemma 1 to sqrt(m^2 + n^2) D, where
    Lemma 1 is false for every D other than 0; the statement is true all the same, by the Schur-convexity of the
    covariance (docs/theory.md): at most 0.9865 of the bound is reached, at distance 1.6. Outside the assumptions it
    does fail (rank one at distance 1: exact 0.01210, bound 0.00818). Status: as published. Exact:
    :func:`bit_covariance`.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = covariance_bounds(np.exp(-0.5))
    >>> print(f"{low:.5f} {high:.5f}")
    -0.00818 0.00818
    """
    _warn_outside("Theorem 3", data)
    with np.errstate(divide="ignore"):
        s = np.sqrt(-2 * np.log(as_kernel_value(kernel_value)))
    near, near_gap = gaussian_split(np.sqrt(LEMMA1_EXPONENT) * s, "random")
    far, far_gap = gaussian_split(s, "random")
    # The sums are gaps to 4/pi^2; the difference of squares is factored so that it keeps its digits near
    # kappa = 1.
    upper = (far - near) * (near_gap + far_gap)
    return Bounds(-upper, upper)
