"""What a Hamming distance means for a fitted encoder: the law of its bits, and how far a code strays from it.

A calibration knows two things of its encoder: which distance or angle has a given expected fraction of differing
bits, and how many independent bits the code is worth there. It is made once per encoder and kept with it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bilsh import theory
from bilsh.encoders.coder import AngleCoder, Coder, KernelCoder
from bilsh.errors import InvalidInputError, InvalidTypeError
from bilsh.projections import BilinearMap, CirculantMap, HadamardMap
from bilsh.projections.base import Integers, LinearMap
from bilsh.theory import BitSharing
from bilsh.theory.orthogonality import OrthogonalPairs, linear_covariance

Floats = NDArray[np.float64]

_SCALES = np.geomspace(0.02, 40.0, 40)
"""Distances (bandwidth 1) at which variances are computed; between them they are interpolated."""

_FINE = np.geomspace(1e-4, 60.0, 4000)


class AngleCalibration:
    r"""Sign codes: two codes differ in a fraction theta / pi of their bits (eq. 2).

    Exact for dense projections, approximate for structured ones. Orthogonal vectors in d dimensions repel: the part
    of a bit's mismatch that is quadratic in w has variance sin(theta)^2 / pi^2 and a correlation of
    -d / ((d - 1)(d + 2)) between two of them. Other bits are counted as independent.

    Parameters
    ----------
    encoder : AngleEncoder
        Fitted.
    """

    quantities = ("angle", "cosine")

    def __init__(self, encoder: AngleCoder) -> None:
        self.n_bits = len(encoder.outputs_)
        count, d = _orthogonal_pairs(encoder.projection_)
        self._repulsion = count * d / max((d - 1) * (d + 2), 1)
        self._spread = 1.0
        if isinstance(encoder.projection_, BilinearMap):
            # Real projections weigh bits by the lengths of their vectors: fewer count.
            w, v = (np.linalg.norm(x, axis=1) for x in (encoder.projection_.left, encoder.projection_.right))
            lengths = w[encoder.pairs_[:, 0]] * v[encoder.pairs_[:, 1]]
            self._spread = float(np.square(lengths).mean() / lengths.mean() ** 2)

    def primary(self, fraction: Floats) -> Floats:
        """Angle in radians at which the expected fraction is `fraction`."""
        return np.pi * fraction

    def extremes(self, fraction: Floats) -> tuple[Floats, Floats] | None:
        """Nothing beyond the angle is taken to matter."""
        return None

    def effective_bits(self, fraction: Floats) -> Floats:
        """Independent bits the code is worth where the expected fraction is `fraction`."""
        single = self.n_bits * fraction * (1 - fraction)
        total = single - self._repulsion * np.square(np.sin(np.pi * fraction) / np.pi)
        bits = np.full(fraction.shape, float(self.n_bits))
        return np.asarray(np.divide(self.n_bits * single, total, out=bits, where=total > 0))

    def convert(self, angle: Floats, quantity: str) -> Floats:
        """Angle to the quantity asked for."""
        return np.asarray(np.cos(angle)) if quantity == "cosine" else angle

    def fraction_at(self, angle: Floats) -> Floats:
        """Expected fraction of differing bits at an angle."""
        return angle / np.pi

    def from_means(self, means: Floats) -> Floats:
        """Angle from sum u (2 h - 1) / sum |u|, whose expectation is cos(theta) whatever the lengths of the w."""
        return np.arccos(np.clip(means, -1.0, 1.0))

    def mean_deviation(self, means: Floats) -> Floats:
        """Standard deviation of that ratio (delta method), with the repulsion of its quadratic part."""
        c = np.clip(means, -1.0, 1.0)
        both = 2 / np.pi * (np.arcsin(c) + c * np.sqrt(1 - c**2))  # E[u^2 sgn(u) sgn(v)] at correlation c
        single = 1 + c**2 - 2 * c * both
        turn = c + 1j * np.sqrt(1 - c**2)
        quadratic = 9 / (8 * np.pi) * np.square(np.abs(turn - turn**3 / 3 - 2 * c / 3))
        total = self.n_bits * self._spread * single - self._repulsion * quadratic
        return np.asarray(np.sqrt(np.pi / 2 * np.maximum(total, 0.0)) / self.n_bits)


class KernelCalibration:
    """Cosine codes: the expected fraction is a function of the distance and, for bilinear codes, of the spectrum.

    Parameters
    ----------
    encoder : KernelEncoder
        Fitted.
    """

    quantities = ("distance", "kernel")

    def __init__(self, encoder: KernelCoder) -> None:
        self.n_bits = len(encoder.outputs_)
        self.bandwidth = float(encoder.bandwidth_)
        self.thresholds = str(encoder.thresholds)
        self.nu = (1.5 if encoder.nu is None else float(encoder.nu)) if encoder.kernel == "matern" else None
        self.name = str(encoder.kernel)
        self.law = self.name
        self.shape: Floats | None = None
        self.orthogonal: OrthogonalPairs | None = None
        self.stacked = False
        self.block_covariance = 0.0
        used = np.bincount(encoder.outputs_)
        self.sharing = BitSharing(self.n_bits, quadrature=float((used * (used - 1)).sum()))
        if isinstance(encoder.projection_, BilinearMap) and encoder.difference_spectrum_ is not None:
            self.law = "bilinear"
            spectrum = np.asarray(encoder.difference_spectrum_, dtype=np.float64)
            self.shape = spectrum[spectrum > 0] / spectrum.sum()
            self.full_rank = min(encoder.projection_.matrix_shape)
            self.stacked = len(encoder.projection_.grid_shapes) > 1
            self.sharing = BitSharing.from_pairs(encoder.pairs_, quadrature=True)
            self.orthogonal = OrthogonalPairs.of(
                encoder.projection_.left, encoder.projection_.right, encoder.pairs_
            )
        elif isinstance(encoder.projection_, HadamardMap):
            count, d = _orthogonal_pairs(encoder.projection_, encoder.outputs_)
            self.block_covariance = -count / (d + 2)
        elif isinstance(encoder.projection_, CirculantMap):
            # Shifted by random signs, two rows have a squared correlation of 1 / d on average.
            d = encoder.projection_.columns.shape[1]
            self.block_covariance = _pairs_in_blocks(encoder.projection_.selected[encoder.outputs_], d) / d
        if self.law == "cauchy":
            # The direction of a difference matters; the flat one stands for all.
            self.full_rank = encoder.n_features_in_
            self.shape = np.full(self.full_rank, self.full_rank**-0.5)

    def primary(self, fraction: Floats) -> Floats:
        """Distance in data units at which the expected fraction is `fraction`."""
        return self._distance(fraction, self.shape)

    def extremes(self, fraction: Floats) -> tuple[Floats, Floats] | None:
        """Smallest and largest distance that any spectrum gives to an expected fraction; None where it is one."""
        if self.shape is None:
            return None
        flat = np.full(self.full_rank, 1 / self.full_rank)
        return self._distance(fraction, flat), self._distance(fraction, np.ones(1))

    def _distance(self, fraction: Floats, shape: Floats | None) -> Floats:
        return self.bandwidth * theory.distance_from_hamming(
            fraction, kernel=self.law, thresholds=self.thresholds, shape=shape, nu=self.nu
        )

    def convert(self, distance: Floats, quantity: str) -> Floats:
        """Distance in data units to the quantity asked for."""
        return self._named_kernel(distance / self.bandwidth) if quantity == "kernel" else distance

    def effective_bits(self, fraction: Floats) -> Floats:
        """Independent bits the code is worth where the expected fraction is `fraction`."""
        p, bits = self._worth
        return np.interp(fraction, p, bits)

    @cached_property
    def _worth(self) -> tuple[Floats, Floats]:
        p, twice = self._fractions(_SCALES), self._fractions(2 * _SCALES)
        total = self.n_bits * p * (1 - p) + self.sharing.quadrature * (p - 0.5 * twice - p**2)
        total += self.block_covariance * self._quadratic_share(self._fractions)
        if self.law == "bilinear":
            spectra = self._spectra(_SCALES)
            total += self.sharing.one * theory.bit_covariance(spectra, thresholds=self.thresholds)
            if self.orthogonal is not None:
                linear = linear_covariance(spectra, self.thresholds)
                total += self.orthogonal.correction(linear, theory.effective_rank(spectra))
        return p, np.minimum(self.n_bits**2 * p * (1 - p) / total, 4.0 * self.n_bits)

    def fraction_at(self, distance: Floats) -> Floats:
        """Expected fraction of differing bits at a distance in data units."""
        scale = np.minimum(distance / self.bandwidth, _SCALES[-1])
        return np.asarray(
            np.interp(scale, np.concatenate([[0.0], _FINE]), np.concatenate([[0.0], self._fractions(_FINE)]))
        )

    @property
    def one_grid(self) -> bool:
        """Whether bits share vectors all over the code, so that longer codes share more."""
        return self.law == "bilinear" and self.sharing.one > 0 and not self.stacked

    # -- asymmetric scores: the bits against the query's own phases -----------------------------------------

    @property
    def mean_factor(self) -> float:
        """Factor between the mean of cos(u) (2 h - 1) and the kernel: pi/2 for zero thresholds, 2 for random."""
        return np.pi / 2 if self.thresholds == "zero" else 2.0

    def from_means(self, means: Floats) -> Floats:
        """Distance in data units from the mean of cos(u) (2 h - 1), whose expectation is kernel / factor."""
        value = np.clip(self.mean_factor * means, self._projected[-1], 1.0)
        with np.errstate(divide="ignore"):
            log = np.log(-np.log(np.minimum(value, 1 - 1e-300)))
            scale = np.exp(
                np.interp(log, np.log(-np.log(self._projected)), np.log(_FINE[: len(self._projected)]))
            )
        scale = np.where(value >= self._projected[0], 0.0, scale)
        return self.bandwidth * np.where(value <= self._projected[-1], np.inf, scale)

    def mean_deviation(self, means: Floats) -> Floats:
        """Standard deviation of that mean."""
        value, deviation = self._mean_deviations
        return np.interp(self.mean_factor * means, value, deviation)

    @cached_property
    def _mean_deviations(self) -> tuple[Floats, Floats]:
        value, k = self.projection_kernel(_SCALES), self.n_bits
        single = (np.pi**2 / 8 if self.thresholds == "zero" else 2.0) - value**2
        # cos(u) sgn cos(u') sin(u) sgn sin(u') averages cos(2 u' - 2 u) / pi over the offset.
        quadrature = np.pi / 4 * self.projection_kernel(2 * _SCALES) - value**2
        total = k * single + self.sharing.quadrature * quadrature
        total += self.block_covariance * self._quadratic_share(self.projection_kernel)
        if self.law == "bilinear":
            spectra = self._spectra(_SCALES)
            total += self.sharing.one * (theory.bilinear_kernel(2 * spectra) - value**2)
            if self.orthogonal is not None:
                linear = 0.5 * np.square(spectra / (1 + spectra)).sum(axis=-1) * value**2
                total += self.orthogonal.correction(linear, theory.effective_rank(spectra))
        return value[::-1], (np.sqrt(np.maximum(total, 0.0)) / k / self.mean_factor)[::-1]

    @cached_property
    def _projected(self) -> Floats:
        value = self.projection_kernel(_FINE)
        return value[value > 1e-12]

    def _quadratic_share(self, mean: Callable[[Floats], Floats]) -> Floats:
        """Variance of the part of a bit's value that is quadratic in the projection: (s mean'(s))^2 / 2."""
        up, down = mean(_SCALES * 1.001), mean(_SCALES / 1.001)
        return np.asarray(np.square((up - down) / (2 * np.log(1.001))) / 2)

    # -- the law at a distance of so many bandwidths -----------------------------------------------------------

    def _spectra(self, scale: Floats) -> Floats:
        return np.asarray(np.square(scale)[:, None] * self.shape)

    def argument(self, scale: Floats) -> Floats:
        """Return what theory.expected_hamming takes, at distances `scale` (bandwidth 1)."""
        if self.law == "bilinear":
            return self._spectra(scale)
        return scale[:, None] * self.shape if self.shape is not None else scale

    def _fractions(self, scale: Floats) -> Floats:
        return theory.expected_hamming(
            self.argument(scale), kernel=self.law, thresholds=self.thresholds, nu=self.nu
        )

    def projection_kernel(self, scale: Floats) -> Floats:
        """Kernel that the projections have: kappa_b for bilinear ones."""
        if self.law == "bilinear":
            return theory.bilinear_kernel(self._spectra(scale))
        return self._named_kernel(scale)

    def _named_kernel(self, scale: Floats) -> Floats:
        """Kernel that the encoder is named after; the Gaussian one for bilinear codes."""
        if self.name == "gaussian":
            return theory.gaussian_kernel(scale)
        if self.name == "laplacian":
            return theory.laplacian_kernel(scale)
        if self.name == "matern":
            return np.where(
                np.isinf(scale), 0.0, theory.matern_kernel(np.minimum(scale, 1e6), self.nu or 1.5)
            )
        return np.asarray(np.exp(-self.full_rank * np.log1p(np.square(scale) / self.full_rank)))


Calibration = AngleCalibration | KernelCalibration


def _orthogonal_pairs(projection: LinearMap, outputs: Integers | None = None) -> tuple[int, int]:
    """Ordered pairs of bits with orthogonal projection vectors in d dimensions, and d."""
    if isinstance(projection, BilinearMap):
        # w_i v_j^T of orthogonal factors are orthogonal matrices; scrambled, they lie in no special direction.
        pairs = OrthogonalPairs.of(projection.left, projection.right, projection.pairs)
        d_w, d_v = projection.matrix_shape
        return (pairs.both and pairs.both + pairs.shared_left + pairs.shared_right), d_w * d_v
    if isinstance(projection, HadamardMap):
        d = projection.signs.shape[2]
        selected = projection.selected if outputs is None else projection.selected[outputs]
        return _pairs_in_blocks(selected, d), d
    return 0, 2


def _pairs_in_blocks(selected: Integers, d: int) -> int:
    """Ordered pairs of bits in the same block of d outputs, made from different outputs."""
    blocks, outputs = np.bincount(selected // d), np.bincount(selected)
    return int(np.square(blocks).sum() - np.square(outputs).sum())


_known: WeakKeyDictionary[Any, tuple[Any, Calibration]] = WeakKeyDictionary()


def calibration_of(encoder: Any) -> Calibration:
    """Calibration of a fitted encoder; made at the first call, made anew when the encoder is fitted again."""
    if not isinstance(encoder, Coder):
        raise InvalidTypeError(
            f"encoder must be a fitted AngleEncoder or KernelEncoder; got {type(encoder).__name__}."
        )
    if not hasattr(encoder, "_plan"):
        raise InvalidInputError("the encoder is not fitted yet. Call encoder.fit(X) first.")
    plan, calibration = _known.get(encoder, (None, None))
    if calibration is None or plan is not encoder._plan:
        if isinstance(encoder, AngleCoder):
            calibration = AngleCalibration(encoder)
        elif isinstance(encoder, KernelCoder):
            calibration = KernelCalibration(encoder)
        else:
            raise InvalidTypeError(f"encoders of type {type(encoder).__name__} have no calibration.")
        _known[encoder] = (encoder._plan, calibration)
    return calibration
