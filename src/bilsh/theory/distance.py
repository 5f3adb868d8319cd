r"""Expected Hamming fraction: how often one bit of two items differs, exactly.

All cosine codes share one formula (Lemma 2 of the paper, Lemma 2.3 of Raginsky & Lazebnik): with the kernel
kappa of the projection and the mismatch function's Fourier coefficients c(m),

    random thresholds:  p = (8/pi^2) sum_{m >= 1} (1 - kappa(m D)) / (4 m^2 - 1)
    zero thresholds:    p = (4/pi^2) sum_{m odd}  (1 - kappa(m D)) / m^2

Every kernel has its own accurate way to sum it; :func:`expected_hamming` is the one door.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from bilsh.errors import InvalidInputError
from bilsh.theory._series import (
    SUPREMUM,
    bilinear_mismatch,
    bilinear_mismatch_gap,
    check_thresholds,
    coefficient,
)
from bilsh.theory.kernels import (
    as_nonnegative,
    as_spectrum,
    cauchy_spectrum,
    check_nu,
    matern_mixture,
)
from bilsh.types import Floats

KERNELS = ("bilinear", "gaussian", "laplacian", "cauchy", "matern", "angle")
"""What `kernel` may be in :func:`expected_hamming`."""


def expected_hamming(
    difference: ArrayLike, *, kernel: str = "bilinear", thresholds: str = "random", nu: float | None = None
) -> Floats:
    r"""Probability that one bit of X and Y differs (Lemma 2), for every kernel and both kinds of thresholds.

    .. math::
        p = \frac{8}{\pi^2} \sum_{m \ge 1} \frac{1 - \kappa(mD)}{4m^2 - 1} \;(\text{random } t), \qquad
        p = \frac{4}{\pi^2} \sum_{m\,\mathrm{odd}} \frac{1 - \kappa(mD)}{m^2} \;(t = 0)

    Parameters
    ----------
    difference : array
        What the kernel depends on, at bandwidth 1:

        - "bilinear": the spectrum (..., r) of (X - Y)(X - Y)^T, see :func:`spectrum_of`;
        - "gaussian", "matern": the Euclidean distance (...);
        - "laplacian": the L1 distance (...);
        - "cauchy": the coordinate differences (..., d);
        - "angle": the angle in radians (...), in [0, pi].
    kernel : str
        One of `KERNELS`. "angle" is the sign code of eq. 1 with dense projections (eq. 2: theta / pi).
    thresholds : {"random", "zero"}
        t ~ U[-1, 1] as in eq. 4 and 7, or t = 0. The sign code has none: leave the default.
    nu : float, optional
        Smoothness of the Matern kernel, >= 0.05; only with ``kernel="matern"``.

    Returns
    -------
    array (...)
        From 0 (equal items) to 4/pi^2 (random thresholds) or 1/2 (zero thresholds) for unrelated ones.

    Notes
    -----
    Assumptions: projection vectors with the distribution of the kernel; for "angle" dense Gaussian ones.
    Bilinear angle codes do not collide with probability 1 - theta/pi: the exact value depends on more than
    the angle, see
    :func:`rank_one_angle_hamming`.

    Status: exact; relative error below 1e-12 for all distances and spectra of up to 100,000 eigenvalues.

    Examples
    --------
    >>> import numpy as np
    >>> from bilsh.theory import expected_hamming, spectrum_of
    >>> X, Y = np.diag([1.0, 0.5]), np.zeros((2, 2))
    >>> print(f"{expected_hamming(spectrum_of(X, Y)):.6f}")
    0.210493
    >>> print(f"{expected_hamming(np.sqrt(1.25), kernel='gaussian'):.6f}")
    0.256143
    >>> print(f"{expected_hamming(np.pi / 3, kernel='angle'):.6f}")
    0.333333
    """
    check_kernel(kernel, thresholds, nu)
    values = as_argument(difference, kernel)
    if kernel in ("bilinear", "cauchy"):
        return bilinear_mismatch(values, thresholds)
    if kernel == "angle":
        return values / np.pi
    return _SPLITS[kernel](values, thresholds, nu)[0]


def hamming_gap(
    difference: ArrayLike, *, kernel: str = "bilinear", thresholds: str = "random", nu: float | None = None
) -> Floats:
    """Supremum of the expected Hamming fraction minus its value: accurate also for unrelated items.

    Parameters
    ----------
    difference, kernel, thresholds, nu
        As in :func:`expected_hamming`.

    Returns
    -------
    array (...)

    Notes
    -----
    Assumptions: as in :func:`expected_hamming`. Status: exact.

    Examples
    --------
    >>> print(f"{hamming_gap(8.0, kernel='gaussian', thresholds='zero'):.3e}")
    5.133e-15
    """
    check_kernel(kernel, thresholds, nu)
    values = as_argument(difference, kernel)
    if kernel in ("bilinear", "cauchy"):
        return bilinear_mismatch_gap(values, thresholds)
    if kernel == "angle":
        return 1 - values / np.pi
    return _SPLITS[kernel](values, thresholds, nu)[1]


def rank_one_angle_hamming(left_angle: ArrayLike, right_angle: ArrayLike) -> Floats:
    r"""Probability that a bilinear sign bit (eq. 6) differs, for rank-one X = a b^T and Y = c d^T.

    .. math:: p = p_l (1 - p_r) + p_r (1 - p_l), \qquad p_l = \angle(a, c)/\pi,\; p_r = \angle(b, d)/\pi

    because the sign of w^T a b^T v is the product of two independent signs.

    Parameters
    ----------
    left_angle, right_angle : array (...)
        Angles between a and c, and between b and d, in radians.

    Returns
    -------
    array (...)

    Notes
    -----
    Assumptions: rank-one matrices; with d_v = 1 (right_angle = 0) it is eq. 2. For general matrices no closed
    form is known: the bit differs with probability E_w[angle(X^T w, Y^T w)] / pi, which is near theta/pi only
    for matrices of high rank. Status: exact.

    Examples
    --------
    >>> import numpy as np
    >>> float(rank_one_angle_hamming(np.pi / 2, np.pi / 2))
    0.5
    """
    left, right = as_argument(left_angle, "angle") / np.pi, as_argument(right_angle, "angle") / np.pi
    return np.asarray(left * (1 - right) + right * (1 - left))


def check_kernel(kernel: str, thresholds: str, nu: float | None) -> None:
    """Refuse unknown kernels and parameters that the kernel does not have.

    Parameters
    ----------
    kernel, thresholds, nu
        As in :func:`expected_hamming`.
    """
    if kernel not in KERNELS:
        raise InvalidInputError(f"kernel must be one of {', '.join(KERNELS)}; got {kernel!r}.")
    check_thresholds(thresholds)
    if kernel == "matern":
        check_nu(nu)
    elif nu is not None:
        raise InvalidInputError(
            f"nu belongs to kernel='matern'; got nu={nu} with kernel={kernel!r}. Leave it out."
        )
    if kernel == "angle" and thresholds != "random":
        raise InvalidInputError("the angle code has no thresholds; leave `thresholds` at its default.")


def as_argument(difference: ArrayLike, kernel: str) -> Floats:
    """Check what a kernel depends on and return it as float64.

    Parameters
    ----------
    difference, kernel
        As in :func:`expected_hamming`.

    Returns
    -------
    array
        A spectrum for "bilinear" and "cauchy", else distances or angles.
    """
    if kernel == "bilinear":
        return as_spectrum(difference)
    if kernel == "cauchy":
        return cauchy_spectrum(difference)
    values = as_nonnegative(difference, "angle" if kernel == "angle" else "distance")
    if kernel == "angle" and np.any(values > np.pi * (1 + 1e-12)):
        raise InvalidInputError(
            f"an angle must be in [0, pi] radians; got {values.max()}. Convert degrees first."
        )
    return np.minimum(values, np.pi) if kernel == "angle" else values


def gaussian_split(s: Floats, thresholds: str, nu: float | None = None) -> tuple[Floats, Floats]:
    """Fraction and its gap to the supremum for the Gaussian kernel, two expansions that meet.

    Near zero Poisson summation gives (4 / pi^1.5) Dawson(s / sqrt 8), or s sqrt(2 / pi) / pi for zero
    thresholds, up to exp(-2 pi^2 / s^2), exp(-pi^2 / 2 s^2); elsewhere a few terms of the series are enough.
    """
    if thresholds == "random":
        from scipy.special import dawsn

        border, orders = 0.7, np.arange(1.0, 13.0)
        small = 4 * np.pi**-1.5 * np.asarray(dawsn(np.minimum(s, 1.0) / np.sqrt(8)))
    else:
        border, orders = 0.36, np.arange(1.0, 26.0, 2.0)
        small = np.minimum(s, 1.0) * (np.sqrt(2 / np.pi) / np.pi)
    weights = coefficient(orders, thresholds)
    gap = np.zeros_like(s)
    decay = -0.5 * np.minimum(s, 1e100) ** 2
    for order, weight in zip(orders, weights, strict=True):
        gap += weight * np.exp(decay * order**2)
    near, top = s < border, SUPREMUM[thresholds]
    return np.where(near, small, top - gap), np.where(near, top - small, gap)


def _laplacian_split(a: Floats, thresholds: str, nu: float | None = None) -> tuple[Floats, Floats]:
    """Evaluate closed forms near zero, the geometric series elsewhere.

    Random: (8/pi^2) sinh(a/2) atanh(exp(-a/2)). Zero: (4/pi^2) [chi_2(tanh(a/2)) - (a/2) ln tanh(a/2)] with
    Legendre's chi_2(x) = sum_{n odd} x^n / n^2, by its reflection formula.
    """
    top, near = SUPREMUM[thresholds], a < np.log1p(np.sqrt(2))
    safe = np.where(near & (a > 0), a, 1.0)
    # Below 1e-8 p / a is linear in ln a; halves of the smallest numbers would vanish.
    base = np.maximum(safe, 1e-8)
    beyond = np.log(safe) - np.log(base)
    odd = np.arange(1.0, 46.0, 2.0)
    if thresholds == "random":
        ratio = -np.sinh(base / 2) / base * (np.log(np.tanh(base / 4)) + beyond)
    else:
        logs = np.log(np.tanh(base / 2))
        ratio = np.exp(logs[..., None] * odd) @ (1 / odd**2) / base - 0.5 * (logs + beyond)
    small = np.where(a > 0, (4 / np.pi**2) * ratio * safe, 0.0)
    orders = np.arange(1.0, 46.0) if thresholds == "random" else odd
    gap = np.exp(-np.maximum(np.minimum(a, 1e100), 0.8)[..., None] * orders) @ coefficient(orders, thresholds)
    return np.where(near, small, top - gap), np.where(near, top - small, gap)


def _matern_split(s: Floats, thresholds: str, nu: float | None) -> tuple[Floats, Floats]:
    """Mixture of Gaussian values: see :func:`bilsh.theory.kernels.matern_mixture`."""
    positive = s[s > 0]
    factors, weights = matern_mixture(check_nu(nu), float(positive.min()) if positive.size else 1.0)
    fraction, gap = np.zeros_like(s), np.zeros_like(s)
    for factor, weight in zip(factors, weights, strict=True):
        with np.errstate(over="ignore"):
            p, q = gaussian_split(np.where(s > 0, s * min(factor, 1e300), 0.0), thresholds)
        fraction += weight * p
        gap += weight * q
    return fraction, gap


_SPLITS: dict[str, Callable[[Floats, str, float | None], tuple[Floats, Floats]]] = {
    "gaussian": gaussian_split,
    "laplacian": _laplacian_split,
    "matern": _matern_split,
}
