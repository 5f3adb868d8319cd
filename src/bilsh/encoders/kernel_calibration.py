"""Kernel codes: the fraction of differing bits tells the distance and, for bilinear codes, the spectrum (Lemma 2)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bilsh import theory
from bilsh.encoders.calibration import Calibration, Weights
from bilsh.encoders.likelihood import BitLikelihood
from bilsh.theory.orthogonality import linear_covariance
from bilsh.theory.scores import ScoreLaw
from bilsh.types import Floats, Values

if TYPE_CHECKING:
    from bilsh.encoders.coder import KernelCoder

_SCALES = np.geomspace(0.02, 40.0, 40)
"""Distances (bandwidth 1) at which variances are computed; between them they are interpolated."""

_SCORED = np.concatenate([np.geomspace(0.02, 0.5, 16)[:-1], np.geomspace(0.5, 8.0, 40)])
_FINE = np.geomspace(1e-4, 60.0, 1000)


class KernelCalibration(Calibration):
    """The expected fraction is a function of the distance, through the kernel that the projections have.

    Parameters
    ----------
    coder : KernelCoder
    """

    quantities: ClassVar[tuple[str, ...]] = ("distance", "kernel")
    similarity: ClassVar[str] = "kernel"

    def __init__(self, coder: KernelCoder) -> None:
        super().__init__(coder)
        projection, outputs = coder.projection, coder.outputs
        self.bandwidth, self.thresholds, self.named = coder.bandwidth, coder.thresholds, coder.kernel
        self.kernel = projection.projected_kernel(coder.kernel, coder.spectrum)
        self.sharing = projection.sharing(outputs)
        self._one_grid = projection.one_grid
        self._spread, self._scrambled = coder.spread, projection.scrambled
        self._orthogonal = projection.orthogonality(outputs)
        self._correlation = projection.quadratic_correlation(outputs)
        self._likelihood = BitLikelihood(
            self.kernel,
            np.full(self.n_bits, np.pi / 2) if coder.thresholds == "zero" else np.arccos(-coder.t),
            projection.lengths(outputs) if projection.scrambled else None,
        )

    # -- the law -------------------------------------------------------------------------------------------

    def primary(self, fraction: Floats) -> Floats:
        """Distance in data units at which the expected fraction is `fraction`."""
        return self.bandwidth * self.kernel.distance(fraction, self.thresholds)

    def extremes(self, fraction: Floats) -> tuple[Floats, Floats] | None:
        """Smallest and largest distance that any spectrum gives to an expected fraction; None where it is one."""
        if self.kernel.extremes is None:
            return None
        low, high = (self.bandwidth * k.distance(fraction, self.thresholds) for k in self.kernel.extremes)
        return low, high

    def convert(self, primary: Floats, quantity: str) -> Floats:
        """Distance in data units to the quantity asked for."""
        return self.named.value(primary / self.bandwidth) if quantity == "kernel" else primary

    def fraction_at(self, primary: Floats) -> Floats:
        """Expected fraction of differing bits at a distance in data units."""
        scale, fraction = self._fractions
        return np.asarray(np.interp(primary / self.bandwidth, scale, fraction))

    @cached_property
    def _fractions(self) -> tuple[Floats, Floats]:
        return np.concatenate([[0.0], _FINE]), np.concatenate([[0.0], self._mismatch(_FINE)])

    def _mismatch(self, scale: Floats) -> Floats:
        return self.kernel.mismatch(scale, self.thresholds)

    # -- how far a code strays from it -----------------------------------------------------------------------

    def effective_bits(self, fraction: Floats) -> Floats:
        """Independent bits the code is worth where the expected fraction is `fraction`."""
        p, bits = self._worth
        return np.interp(fraction, p, bits)

    def spread(self, fraction: Floats) -> Floats | None:
        """How far expected fractions of pairs lie from the law of the mean spectrum."""
        if self._spread is not None:
            return self._spread.spread_at(fraction)
        return None if self.kernel.spectra is not None and not self._scrambled else super().spread(fraction)

    @property
    def one_grid(self) -> bool:
        """Whether bits share vectors all over the code, so that longer codes share more."""
        return self._one_grid and self.sharing.one > 0

    @cached_property
    def _worth(self) -> tuple[Floats, Floats]:
        p, twice = self._mismatch(_SCALES), self._mismatch(2 * _SCALES)
        total = self.n_bits * p * (1 - p) + self.sharing.quadrature * (p - 0.5 * twice - p**2)
        total += self._correlation * _quadratic_share(self._mismatch)
        if self.kernel.spectra is not None:
            spectra = self.kernel.spectra(_SCALES)
            shared = theory.bit_covariance(spectra, thresholds=self.thresholds)
            if self._spread is not None and not self._scrambled:
                shared = np.maximum(shared, self._spread.covariance_at(p))
            total += self.sharing.one * shared
            if self._orthogonal is not None:
                linear = linear_covariance(spectra, self.thresholds)
                total += self._orthogonal.correction(linear, theory.effective_rank(spectra))
        return p, np.minimum(self.n_bits**2 * p * (1 - p) / total, 4.0 * self.n_bits)

    # -- asymmetric scores: the bits against the query's own phases -----------------------------------------

    def score_weights(self, values: Values) -> Weights:
        """Score: log-likelihood ratio of a near and a far distance, bit by bit."""
        return self._likelihood.weights(values)

    @cached_property
    def score_law(self) -> ScoreLaw:
        """By quadrature over the phases, thresholds and lengths of the bits."""
        fraction = self._mismatch(_SCORED)
        rising = np.concatenate([[True], np.diff(fraction) > 1e-7])
        scale, fraction = _SCORED[rising], fraction[rising]
        return self._likelihood.score_law(scale, fraction, self.effective_bits(fraction))

    def unrelated_bits(self) -> Floats:
        """Alpha / pi of every bit."""
        return self._likelihood.unrelated


def _quadratic_share(mean: Callable[[Floats], Floats]) -> Floats:
    """Variance of the part of a bit's value that is quadratic in the projection: (s mean'(s))^2 / 2."""
    up, down = mean(_SCALES * 1.001), mean(_SCALES / 1.001)
    return np.asarray(np.square((up - down) / (2 * np.log(1.001))) / 2)
