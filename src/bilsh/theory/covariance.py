r"""How much bits of one bilinear code repeat each other, exactly; and what that costs.

Bits that use the same left vector w are independent given w, so their covariance is the variance of a
conditional mean: C = Var_w[g(\|D^T w\|^2)], g(q) = expected Hamming fraction of the Gaussian kernel at
distance sqrt q. g^2 is a smooth function of q, and a short sum of exponentials equals it on the whole half
line to rounding; each exponential has a closed mean under w. So the covariance costs 51 products, whatever
the spectrum.
"""

from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from bilsh.errors import InvalidInputError
from bilsh.theory._series import bilinear_mismatch, bilinear_squared_triangle, check_thresholds
from bilsh.theory.distance import gaussian_split
from bilsh.theory.kernels import as_spectrum
from bilsh.theory.sharing import BitSharing
from bilsh.types import Floats

SHARED = ("none", "one", "both", "quadrature")
"""What two bits may have in common, see :func:`bit_covariance`."""


def bit_covariance(spectrum: ArrayLike, *, shared: str = "one", thresholds: str = "random") -> Floats:
    r"""Covariance of two bits' mismatch indicators (the quantity of Theorem 3), exactly.

    .. math::
        C = \frac{64}{\pi^4} \sum_{m,n \ge 1}
        \frac{\kappa_b(\sqrt{m^2+n^2}\, D) - \kappa_b(mD)\,\kappa_b(nD)}{(4m^2-1)(4n^2-1)}
        = \mathrm{Var}_w\!\left[p_{\mathrm{gauss}}(\lVert D^\top w \rVert)\right] \ge 0

    Parameters
    ----------
    spectrum : array (..., r)
        Eigenvalues of (X - Y)(X - Y)^T, see :func:`spectrum_of`.
    shared : {"one", "both", "none", "quadrature"}
        What the two bits have in common: one projection vector (w or v, eq. 12-13: the sum above, with odd m,
        n and coefficients (4/pi^2)/m^2 for zero thresholds); both vectors but independent offsets and
        thresholds (random: (2/pi^2)(1 - kappa_b) - p^2; zero: E tri(z)^2 - p^2); nothing (0); or both vectors
        and offsets b and b - pi/2 with zero thresholds (p(D) - p(2D)/2 - p(D)^2, which is negative for close
        items).
    thresholds : {"random", "zero"}
        As in :func:`expected_hamming`.

    Returns
    -------
    array (...)

    Notes
    -----
    Assumptions: independent Gaussian projection vectors. Orthogonal vectors repel each other, which these
    formulas do not count. Bits of angle codes are not covered: their joint law depends on X and Y beyond the
    spectrum.

    Status: exact; absolute error below 2e-13 min(1, s^2) for shared="one". Every term of the series is >= 0,
    so its partial sums are lower bounds.

    Quadrature: with b uniform, both bits differ iff an interval of length \|z\| covers a zero of the cosine
    and one of the sine, an odd number of times each. That has probability tri(z) - tri(2z)/2, tri the
    triangle wave of period 2 pi.

    Examples
    --------
    >>> print(f"{bit_covariance([1.0]):.5f}")
    0.01210
    >>> print(f"{bit_covariance([0.3, 0.1], shared='quadrature', thresholds='zero'):.5f}")
    -0.01074
    """
    values = as_spectrum(spectrum)
    check_thresholds(thresholds)
    if shared not in SHARED:
        raise InvalidInputError(f"shared must be one of {', '.join(SHARED)}; got {shared!r}.")
    if shared == "none":
        return np.zeros(values.shape[:-1])
    p = bilinear_mismatch(values, thresholds)
    if shared == "one":
        return np.maximum(_mean_square(values, thresholds) - p**2, 0.0)
    if shared == "quadrature":
        if thresholds != "zero":
            raise InvalidInputError(
                "quadrature bits have zero thresholds; got thresholds='random'. Pass thresholds='zero', or "
                "shared='both' for bits with their own offsets and thresholds."
            )
        return np.asarray(p - 0.5 * bilinear_mismatch(4 * values, "zero") - p**2)
    if thresholds == "random":
        one_minus_kernel = -np.expm1(-0.5 * np.log1p(values).sum(axis=-1))
        return np.asarray((2 / np.pi**2) * one_minus_kernel - p**2)
    return np.asarray(bilinear_squared_triangle(values) - p**2)


@cache
def _exponential_sum(thresholds: str) -> tuple[Floats, Floats]:
    r"""Rates theta and weights with g(q)^2 = sum weights (1 - exp(-theta q)) for all q >= 0.

    Fitted relative to min(q, 1); the residual is below 2e-13 min(q, 1), hence so is the error of the mean,
    for every distribution of q: it needs no trust in a tail estimate. Rates that occur in the series itself
    are among the nodes.
    """
    q = np.exp(np.linspace(np.log(1e-4), np.log(100.0), 3000))
    series = 0.5 * np.array([1, 2, 4, 5, 8, 9, 10, 13, 16, 17, 18, 20])
    rates = np.unique(np.concatenate([np.exp(np.linspace(np.log(0.5), np.log(80.0), 40)), series]))
    rows = 1 / np.minimum(q, 1)
    design = -np.expm1(-np.multiply.outer(q, rates)) * rows[:, None]
    target = gaussian_split(np.sqrt(q), thresholds)[0] ** 2 * rows
    weights: Floats = np.linalg.lstsq(design, target, rcond=1e-15)[0]
    return rates, weights


def _mean_square(spectrum: Floats, thresholds: str) -> Floats:
    """E_w[g(q)^2] for q = sum lambda_j chi^2_j, from E exp(-theta q) = prod (1 + 2 theta lambda_j)^(-1/2)."""
    rates, weights = _exponential_sum(thresholds)
    capped, total = np.minimum(spectrum, 1e290), np.zeros(spectrum.shape[:-1])
    for rate, weight in zip(rates, weights, strict=True):
        total -= weight * np.expm1(-0.5 * np.log1p(2 * rate * capped).sum(axis=-1))
    return total


def code_variance(spectrum: ArrayLike, sharing: BitSharing, *, thresholds: str = "random") -> Floats:
    r"""Variance of the observed Hamming fraction of a whole code.

    .. math:: \mathrm{Var} = \frac{k\,p(1-p) + C\,[\sum_i r_i(r_i-1) + \sum_j c_j(c_j-1)] + \dots}{k^2}

    with w_i used r_i times and v_j used c_j times; bits that share both vectors add their own covariance.

    Parameters
    ----------
    spectrum : array (..., r)
        See :func:`spectrum_of`.
    sharing : BitSharing
        How many pairs of bits share what: from degrees, pairs, or a named design.
    thresholds : {"random", "zero"}
        As in :func:`expected_hamming`.

    Returns
    -------
    array (...)

    Notes
    -----
    Assumptions: independent Gaussian projection vectors. Status: exact; for a random subset or prefix the
    variance over the choice of the subset too.

    Examples
    --------
    >>> from bilsh.theory import BitSharing
    >>> grid = BitSharing.from_degrees([20] * 20, [20] * 20)
    >>> print(f"{code_variance([0.5, 0.3, 0.2], grid):.6f}")
    0.000965
    """
    values = as_spectrum(spectrum)
    p = bilinear_mismatch(values, check_thresholds(thresholds))
    total = sharing.n_bits * p * (1 - p)
    for count, shared in (
        (sharing.one, "one"),
        (sharing.both, "both"),
        (sharing.quadrature, "quadrature"),
    ):
        if count:
            total = total + count * bit_covariance(values, shared=shared, thresholds=thresholds)
    return np.asarray(total / sharing.n_bits**2)


def effective_bits(spectrum: ArrayLike, sharing: BitSharing, *, thresholds: str = "random") -> Floats:
    r"""Count the independent bits that would tell as much.

    .. math:: k_{\mathrm{eff}} = p(1-p) / \mathrm{Var}

    Parameters
    ----------
    spectrum, sharing, thresholds
        As in :func:`code_variance`.

    Returns
    -------
    array (...)
        Up to n_bits for random thresholds; quadrature codes may exceed it, since their bits avoid each other.
        It tends to n_bits for D -> 0 unless bits share both vectors; for D = 0 it is n_bits.

    Notes
    -----
    Assumptions: as in :func:`code_variance`. Status: exact.

    Examples
    --------
    >>> from bilsh.theory import BitSharing
    >>> spectrum = [0.5, 0.3, 0.2]
    >>> for design in ("independent", "balanced", "random", "grid"):
    ...     sharing = BitSharing.from_design(400, oversampling=1 if design == "grid" else 5, design=design)
    ...     print(f"{design:12s}{effective_bits(spectrum, sharing):7.1f}")
    independent   400.0
    balanced      330.1
    random        312.8
    grid          170.9
    """
    values = as_spectrum(spectrum)
    p = bilinear_mismatch(values, check_thresholds(thresholds))
    variance = code_variance(values, sharing, thresholds=thresholds)
    independent = np.full(p.shape, float(sharing.n_bits))
    return np.asarray(np.divide(p * (1 - p), variance, out=independent, where=variance > 0))
