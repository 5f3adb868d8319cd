"""The kernels behind the codes, as plain functions of a difference D = X - Y.

Every kernel has bandwidth 1: divide the data by the bandwidth first. What a code keeps is the kernel along
the ray m D, m = 1, 2, ...; see :mod:`bilsh.theory.distance`.
"""

import numpy as np
from numpy.typing import ArrayLike

from bilsh.errors import InvalidInputError
from bilsh.types import Floats

SMALLEST_NU = 0.05
"""Smoothness of the roughest Matern kernel here; below it the mixture leaves the range of float64."""


def as_nonnegative(values: ArrayLike, name: str) -> Floats:
    """Return `values` as float64, refusing NaN and negative numbers; inf is allowed.

    Parameters
    ----------
    values : array (...)
        What to check.
    name : str
        The argument's name, for the message.

    Returns
    -------
    array (...)
    """
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise InvalidInputError(f"{name} must be real numbers; got an array of type {array.dtype}.")
    array = array.astype(np.float64)
    if not np.all(array >= 0):
        bad = array[~(array >= 0)].flat[0]
        raise InvalidInputError(f"{name} must be >= 0 and not NaN; got {bad}. Check how it was computed.")
    return array


def as_spectrum(spectrum: ArrayLike) -> Floats:
    r"""Check a spectrum: eigenvalues :math:`\lambda_j \ge 0` along the last axis.

    Negative values are refused, however small: a solver that returns them has lost the small eigenvalues too, while
    :func:`spectrum_of` keeps them.

    Parameters
    ----------
    spectrum : array (..., r)
        Eigenvalues of (X - Y)(X - Y)^T in any order, r >= 1.

    Returns
    -------
    array (..., r)

    Examples
    --------
    >>> as_spectrum([1, 0.5, 0])
    array([1. , 0.5, 0. ])
    """
    array = np.asarray(spectrum)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise InvalidInputError(
            f"spectrum must have shape (..., r) with r >= 1; got shape {array.shape}. "
            "For one eigenvalue write [value]; for a pair of matrices use spectrum_of(X, Y)."
        )
    return as_nonnegative(array, "spectrum")


def spectrum_of(X: ArrayLike, Y: ArrayLike) -> Floats:
    r"""Eigenvalues :math:`\lambda_j` of :math:`(X - Y)(X - Y)^\top`, largest first (Lemma 1).

    Computed as squared singular values, so small eigenvalues keep their accuracy, and only for the smaller
    side: the other d - min(d_w, d_v) eigenvalues are zero and change nothing.

    Parameters
    ----------
    X, Y : array (..., d_w, d_v)
        Matrices, or batches of them that broadcast against each other.

    Returns
    -------
    array (..., min(d_w, d_v))

    Notes
    -----
    Assumptions: none. Status: exact.

    Examples
    --------
    >>> import numpy as np
    >>> spectrum_of(np.diag([3.0, 1.0]), np.zeros((2, 2)))
    array([9., 1.])
    """
    left, right = np.asarray(X), np.asarray(Y)
    for name, array in (("X", left), ("Y", right)):
        if array.dtype.kind not in "fiub":
            raise InvalidInputError(f"{name} must be real numbers; got an array of type {array.dtype}.")
    left, right = left.astype(np.float64), right.astype(np.float64)
    if left.ndim < 2 or left.shape[-2:] != right.shape[-2:]:
        raise InvalidInputError(
            f"X and Y must be matrices (..., d_w, d_v) of one shape; got {left.shape} and {right.shape}. "
            "Reshape vectors first, e.g. x.reshape(28, 28)."
        )
    difference = left - right
    if not np.isfinite(difference).all():
        raise InvalidInputError("X - Y has NaN or inf entries. Remove or impute them first.")
    return np.asarray(np.linalg.svd(difference, compute_uv=False) ** 2, dtype=np.float64)


def effective_rank(spectrum: ArrayLike) -> Floats:
    r"""How many directions a difference really has.

    .. math:: r_{\mathrm{eff}} = \frac{(\sum_j \lambda_j)^2}{\sum_j \lambda_j^2}

    Parameters
    ----------
    spectrum : array (..., r)
        See :func:`spectrum_of`.

    Returns
    -------
    array (...)
        Between 1 (rank one) and r (flat); NaN for a difference that is zero. Infinite eigenvalues outweigh all
        others and are as large as each other.

    Notes
    -----
    Assumptions: none. Status: exact.

    Examples
    --------
    >>> float(effective_rank([2.0, 2.0, 0.0]))
    2.0
    """
    values = as_spectrum(spectrum)
    largest = values.max(axis=-1, keepdims=True)
    endless = np.isinf(largest)
    values, largest = np.where(endless, np.isinf(values), values), np.where(endless, 1.0, largest)
    shape = np.divide(values, largest, out=np.full_like(values, np.nan), where=largest > 0)
    return np.asarray(shape.sum(axis=-1) ** 2 / (shape**2).sum(axis=-1))


def gaussian_kernel(distance: ArrayLike) -> Floats:
    r"""Gaussian kernel, what dense Gaussian projections preserve (section 2.2).

    .. math:: \kappa_g = \exp(-s^2 / 2)

    Parameters
    ----------
    distance : array (...)
        Euclidean (Frobenius) distance s >= 0.

    Returns
    -------
    array (...)
        In [0, 1].

    Notes
    -----
    Assumptions: none. Status: exact.

    Examples
    --------
    >>> gaussian_kernel([0.0, 1.0]).round(4)
    array([1.    , 0.6065])
    """
    return np.asarray(np.exp(-0.5 * np.minimum(as_nonnegative(distance, "distance"), 1e100) ** 2))


def bilinear_kernel(spectrum: ArrayLike) -> Floats:
    r"""Kernel that bilinear Gaussian projections preserve (Lemma 1).

    .. math:: \kappa_b = \prod_j (1 + \lambda_j)^{-1/2}

    Parameters
    ----------
    spectrum : array (..., r)
        Eigenvalues of (X - Y)(X - Y)^T, see :func:`spectrum_of`.

    Returns
    -------
    array (...)
        In [0, 1]; never below the Gaussian kernel of the same distance.

    Notes
    -----
    Assumptions: none. Status: exact. The published upper bound kappa_g^0.79 needs assumptions that real data
    rarely meet; see :func:`bilsh.theory.check_assumptions`.

    Examples
    --------
    >>> float(bilinear_kernel([3.0, 0.0]))
    0.5
    """
    return np.asarray(np.exp(-0.5 * np.log1p(as_spectrum(spectrum)).sum(axis=-1)))


def laplacian_kernel(distance: ArrayLike) -> Floats:
    r"""Laplacian kernel; its projection weights are Cauchy distributed.

    .. math:: \kappa = \exp(-\lVert D \rVert_1)

    Parameters
    ----------
    distance : array (...)
        The L1 distance, sum of \|D_j\|.

    Returns
    -------
    array (...)

    Notes
    -----
    Assumptions: none. Status: exact.

    Examples
    --------
    >>> float(laplacian_kernel(0.0))
    1.0
    """
    return np.asarray(np.exp(-as_nonnegative(distance, "distance")))


def cauchy_kernel(differences: ArrayLike) -> Floats:
    r"""Cauchy kernel; its projection weights are Laplace distributed.

    .. math:: \kappa = \prod_j \frac{1}{1 + D_j^2}

    It equals the bilinear kernel of the spectrum that has every :math:`D_j^2` twice.

    Parameters
    ----------
    differences : array (..., d)
        The coordinates of D = x - y.

    Returns
    -------
    array (...)

    Notes
    -----
    Assumptions: none. Status: exact.

    Examples
    --------
    >>> float(cauchy_kernel([1.0, 0.0]))
    0.5
    """
    return bilinear_kernel(cauchy_spectrum(differences))


def cauchy_spectrum(differences: ArrayLike) -> Floats:
    """Spectrum whose bilinear kernel is the Cauchy kernel: every squared difference twice.

    Parameters
    ----------
    differences : array (..., d)
        The coordinates of D = x - y.

    Returns
    -------
    array (..., 2 d)

    Examples
    --------
    >>> cauchy_spectrum([1.0, -2.0])
    array([1., 1., 4., 4.])
    """
    with np.errstate(over="ignore"):
        squares = np.square(np.asarray(differences))
    return np.repeat(as_spectrum(squares), 2, axis=-1)


def check_nu(nu: float | None) -> float:
    """Return the smoothness of a Matern kernel, a number >= 0.05 (inf is the Gaussian kernel).

    Parameters
    ----------
    nu : float
        The smoothness.

    Returns
    -------
    float
    """
    if nu is None or not nu >= SMALLEST_NU:
        raise InvalidInputError(
            f"a Matern kernel needs its smoothness nu >= {SMALLEST_NU}; got nu={nu}. Use e.g. nu=1.5."
        )
    return float(nu)


def matern_kernel(distance: ArrayLike, nu: float) -> Floats:
    r"""Matern kernel; its projection weights are multivariate t with 2 nu degrees of freedom.

    .. math:: \kappa_\nu = \frac{2^{1-\nu}}{\Gamma(\nu)} (\sqrt{2\nu}\, s)^\nu K_\nu(\sqrt{2\nu}\, s)

    nu = 1/2 is exp(-s); nu = inf is the Gaussian kernel.

    Parameters
    ----------
    distance : array (...)
        Euclidean distance s.
    nu : float
        Smoothness, >= 0.05 (where the kernel has fallen to 0.56 at s = 0.001 already).

    Returns
    -------
    array (...)

    Notes
    -----
    Assumptions: none. Status: exact.

    Examples
    --------
    >>> matern_kernel([0.0, 1.0], nu=0.5).round(4)
    array([1.    , 0.3679])
    """
    values, order = as_nonnegative(distance, "distance"), check_nu(nu)
    factors, weights = matern_mixture(order, 1.0)
    total = np.zeros(values.shape)
    for factor, weight in zip(factors, weights, strict=True):
        with np.errstate(over="ignore"):
            total += weight * np.exp(-0.5 * (np.minimum(values, 1e100) * factor) ** 2)
    return np.where(values > 0, np.minimum(total, 1.0), 1.0)


def matern_mixture(nu: float, smallest: float) -> tuple[Floats, Floats]:
    r"""Discretise the Matern kernel as a mixture of Gaussian kernels.

    .. math:: \kappa_\nu(s) = \mathrm{E}\, \kappa_g(s\, e^{-x/2}), \qquad x = \ln g,\; g \sim \Gamma(\nu, \nu)

    The trapezoidal rule in x converges exponentially (the density is analytic for \|Im x\| < pi/2), so a
    functional that is linear in the kernel, such as the expected Hamming fraction, is the same mixture of its
    Gaussian values.

    Parameters
    ----------
    nu : float
        Smoothness, >= 0.05 or inf.
    smallest : float
        The smallest distance of interest: mass at x near 2 ln(smallest) matters for rough kernels.

    Returns
    -------
    factors, weights : array (nodes,)
        kappa_nu(s) = sum of weights * kappa_g(s * factors); the weights sum to 1.
    """
    if np.isinf(nu):
        return np.ones(1), np.ones(1)
    depth = 45.0  # exp(-45) is far below rounding
    low = -1.5 * (depth / nu + np.sqrt(2 * depth / nu))
    if nu < 2:
        low += 2 * np.log(min(1.0, max(smallest, 1e-200)))
    high = np.log1p(depth / nu + np.sqrt(2 * depth / nu))
    step = min(0.18, 0.65 / np.sqrt(nu))
    x = np.arange(low, high + step, step)
    logs = nu * (x - np.expm1(x))
    weights = np.exp(logs - logs.max())
    with np.errstate(over="ignore"):
        return np.exp(-0.5 * x), weights / weights.sum()
