"""Shift-invariant kernels, each one record: how its weights are drawn and what its codes tell (Bochner, sec. 2.2).

A kernel kappa(x - y) = E[cos(w . (x - y))] is known by the distribution of w; a distance has a kernel value and an
expected fraction of differing bits. All distances are in bandwidths. A kernel of one's own is a function of (nu, d) in
:data:`KERNELS` that returns its record; everything else follows from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bilsh import theory
from bilsh.errors import InvalidInputError
from bilsh.theory.inverse import Inverse, inverse_law, invert
from bilsh.theory.kernels import SMALLEST_NU
from bilsh.types import Floats
from bilsh.validation import check_choice, check_positive


@dataclass(frozen=True, slots=True)
class Kernel:
    """A shift-invariant kernel of bandwidth 1.

    Attributes
    ----------
    name : str
        As in ``KernelEncoder(kernel=...)``.
    variate : {"gaussian", "cauchy", "laplace"}
        Distribution of the entries of a weight vector, before `row_lengths`.
    metric : {"euclidean", "cityblock"}
        The distance that the kernel depends on.
    value : function of distances
        The kernel.
    mismatch : function of distances and thresholds ("zero" or "random")
        Expected fraction of differing bits (Lemma 2).
    row_lengths : function of (n_rows, generator), optional
        Random length factor of each weight vector; 1 by default.
    inverse : function of fractions and thresholds, optional
        Distance with that expected fraction; found from `mismatch` by default.
    extremes : two kernels, optional
        Those of the smallest and the largest distance with the same fraction, where the distance alone does not tell.
    spectra : function of distances, optional
        Spectra of differences that long, for codes that share projection vectors.
    """

    name: str
    variate: str
    metric: Literal["euclidean", "cityblock"]
    value: Callable[[Floats], Floats]
    mismatch: Callable[[Floats, str], Floats]
    row_lengths: Callable[[int, np.random.Generator], Floats] | None = None
    inverse: Callable[[Floats, str], Floats] | None = None
    extremes: tuple[Kernel, Kernel] | None = None
    spectra: Callable[[Floats], Floats] | None = None

    def row_scale(self, n_rows: int, rng: np.random.Generator) -> NDArray[np.float32]:
        """Length factor of each weight vector."""
        if self.row_lengths is None:
            return np.ones(n_rows, dtype=np.float32)
        return self.row_lengths(n_rows, rng).astype(np.float32)

    def distance(self, fraction: Floats, thresholds: str) -> Floats:
        """Distance at which the expected fraction of differing bits is `fraction`."""
        if self.inverse is not None:
            return self.inverse(fraction, thresholds)
        return invert(lambda scale: self.mismatch(scale, thresholds), thresholds)(fraction)


def _law(
    name: str, shape: Floats | None = None, nu: float | None = None, power: int = 1
) -> tuple[Callable[[Floats, str], Floats], Callable[[Floats, str], Floats]]:
    """Mismatch and inverse of one of the theory's laws; `shape` is the direction of a difference or its spectrum."""

    def mismatch(scale: Floats, thresholds: str) -> Floats:
        argument = scale if shape is None else scale[:, None] ** power * shape
        return theory.expected_hamming(argument, kernel=name, thresholds=thresholds, nu=nu)

    @cache
    def law(thresholds: str) -> Inverse:
        return inverse_law(name, thresholds, shape, nu)

    return mismatch, lambda fraction, thresholds: law(thresholds)(fraction)


def _gaussian(nu: float | None, d: int) -> Kernel:
    mismatch, inverse = _law("gaussian")
    return Kernel("gaussian", "gaussian", "euclidean", theory.gaussian_kernel, mismatch, inverse=inverse)


def _laplacian(nu: float | None, d: int) -> Kernel:
    mismatch, inverse = _law("laplacian")
    return Kernel("laplacian", "cauchy", "cityblock", theory.laplacian_kernel, mismatch, inverse=inverse)


def _cauchy(nu: float | None, d: int) -> Kernel:
    # The direction of a difference matters; the flat one stands for all, and one axis is the other extreme.
    def along(n: int, extremes: tuple[Kernel, Kernel] | None = None) -> Kernel:
        def value(scale: Floats) -> Floats:
            return np.asarray(np.exp(-n * np.log1p(np.square(scale) / n)))

        mismatch, inverse = _law("cauchy", np.full(n, n**-0.5))
        return Kernel("cauchy", "laplace", "euclidean", value, mismatch, None, inverse, extremes)

    return along(d, (along(d), along(1)))


def _matern(nu: float | None, d: int) -> Kernel:
    smoothness = check_positive("nu", 1.5 if nu is None else nu)
    if smoothness < SMALLEST_NU:
        raise InvalidInputError(f"nu must be at least {SMALLEST_NU}; got {nu}.")

    def value(scale: Floats) -> Floats:
        near = theory.matern_kernel(np.minimum(scale, 1e6), smoothness)
        return np.where(np.isinf(scale), 0.0, near)

    def row_lengths(n_rows: int, rng: np.random.Generator) -> Floats:
        return np.asarray(np.sqrt(smoothness / rng.gamma(smoothness, size=n_rows)))

    mismatch, inverse = _law("matern", nu=smoothness)
    return Kernel("matern", "gaussian", "euclidean", value, mismatch, row_lengths, inverse)


KERNELS: dict[str, Callable[[float | None, int], Kernel]] = {
    "gaussian": _gaussian,
    "laplacian": _laplacian,
    "cauchy": _cauchy,
    "matern": _matern,
}
"""Records by name, made for a smoothness nu (Matern only) and a dimension d."""

GAUSSIAN = _gaussian(None, 1)


def kernel_named(name: str, nu: float | None, d: int) -> Kernel:
    """Look up a kernel by name.

    ==========  =============================================  ==========================================
    kernel      kappa(D), bandwidth 1                          weights
    ==========  =============================================  ==========================================
    gaussian    exp(-||D||_2^2 / 2)                            independent N(0, 1)
    laplacian   exp(-||D||_1)                                  independent standard Cauchy
    cauchy      prod_j 1 / (1 + D_j^2)                         independent Laplace(0, 1)
    matern      Matern of smoothness nu, length scale 1        N(0, I) times sqrt(nu / Gamma(nu)), per row
    ==========  =============================================  ==========================================

    Examples
    --------
    >>> kernel_named("laplacian", None, 3).metric
    'cityblock'
    """
    name = check_choice("kernel", name, tuple(KERNELS))
    if nu is not None and name != "matern":
        raise InvalidInputError(f"nu belongs to kernel='matern'; got nu={nu!r} with kernel={name!r}.")
    return KERNELS[name](nu, d)


def bilinear_kernel(spectrum: NDArray[np.float64], rank: int) -> Kernel:
    """kappa_b of Lemma 1 for differences whose spectrum has this direction; flat and rank one are its extremes."""

    def along(shape: Floats, extremes: tuple[Kernel, Kernel] | None = None) -> Kernel:
        def spectra(scale: Floats) -> Floats:
            return np.asarray(np.square(scale)[:, None] * shape)

        def value(scale: Floats) -> Floats:
            return theory.bilinear_kernel(spectra(scale))

        mismatch, inverse = _law("bilinear", shape, power=2)
        return Kernel("bilinear", "gaussian", "euclidean", value, mismatch, None, inverse, extremes, spectra)

    positive = np.asarray(spectrum, dtype=np.float64)
    positive = positive[positive > 0]
    return along(positive / positive.sum(), (along(np.full(rank, 1 / rank)), along(np.ones(1))))
