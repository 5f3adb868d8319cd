"""Shift-invariant kernels as random distributions of projection weights (Bochner's theorem, sec. 2.2).

A kernel kappa(x - y) = E[cos(w . (x - y))] is known by the distribution of w: its spectral distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import InvalidInputError
from bilsh.validation import check_choice, check_positive

KERNELS = ("gaussian", "laplacian", "cauchy", "matern")


@dataclass(frozen=True, slots=True)
class SpectralDistribution:
    """How the weights of a dense projection are distributed for a kernel of bandwidth 1.

    Attributes
    ----------
    name : str
        The kernel, one of KERNELS.
    kind : str
        Distribution of the entries before row scaling: "gaussian", "cauchy" or "laplace".
    nu : float or None
        Smoothness of the Matern kernel.
    """

    name: str
    kind: str
    nu: float | None = None

    def row_scale(self, n_rows: int, rng: np.random.Generator) -> NDArray[np.float32]:
        """Random length factor of each weight vector: 1, or sqrt(nu / Gamma(nu)) for the Matern kernel."""
        if self.name != "matern" or self.nu is None:
            return np.ones(n_rows, dtype=np.float32)
        return np.sqrt(self.nu / rng.gamma(self.nu, size=n_rows)).astype(np.float32)


GAUSSIAN = SpectralDistribution("gaussian", "gaussian")


def spectral_distribution(kernel: str, nu: float | None) -> SpectralDistribution:
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
    >>> spectral_distribution("matern", 1.5)
    SpectralDistribution(name='matern', kind='gaussian', nu=1.5)
    """
    name = check_choice("kernel", kernel, KERNELS)
    if name == "matern":
        from bilsh.theory.kernels import SMALLEST_NU  # here, since most encoders need no theory to load

        smoothness = check_positive("nu", 1.5 if nu is None else nu)
        if smoothness < SMALLEST_NU:
            raise InvalidInputError(f"nu must be at least {SMALLEST_NU}; got {nu}.")
        return SpectralDistribution(name, "gaussian", smoothness)
    if nu is not None:
        raise InvalidInputError(f"nu belongs to kernel='matern'; got nu={nu!r} with kernel={name!r}.")
    return SpectralDistribution(name, {"laplacian": "cauchy", "cauchy": "laplace"}.get(name, name))
