r"""How far the law of a code may be off for a pair: what more bits do not mend.

The expected fraction of a bilinear code depends on more than the distance or the angle: on the spectrum of the
difference, or of the items. The law that turns fractions back takes the mean of sampled pairs; here is how far pairs
lie from it. An interval that holds the truth counts both, the noise of the bits and this spread:

    Var = p(1 - p)/k_eff + spread(p)^2.

Intervals with it are called combined. The union with the identification interval, which makes no use of a sample at
all, is several times wider.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh.errors import InvalidInputError
from bilsh.theory.covariance import bit_covariance
from bilsh.theory.distance import expected_hamming
from bilsh.theory.sign_covariance import SignMoments, sign_variance
from bilsh.types import Floats

__all__ = ["SignSpread", "SpectrumSpread", "combined_bits"]


BINS = 8
"""Groups of pairs, by their angles or distances."""

TAILS = 1.2
"""Spread that intervals take over the one that was seen: deviations of spectra have heavier tails than normal ones."""


def combined_bits(fraction: Floats, effective_bits: Floats, spread: Floats) -> Floats:
    """Effective bits of both errors: Wilson's interval with them is the combined interval.

    Examples
    --------
    >>> combined_bits(np.array([0.25]), np.array([1000.0]), np.array([0.02])).round(1)
    array([245.6])
    """
    single = fraction * (1 - fraction)
    total = single / effective_bits + np.square(TAILS * spread)
    return np.asarray(
        np.divide(single, total, out=np.array(effective_bits), where=(total > 0) & (single > 0))
    )


@dataclass(frozen=True, slots=True)
class SignSpread:
    """Bilinear sign codes of some data: their law, the pairs' spread about it, and how shared vectors repeat.

    All but the angle are relative, so that they tend to constants for small angles: the fraction and its spread over
    angle / pi, covariances over its square.

    Attributes
    ----------
    angle : array (g,)
        Mean angles of groups of pairs, ascending.
    ratio, spread : array (g,)
        Expected fraction over angle / pi, its mean and standard deviation between pairs.
    left, right : array (g,)
        Covariance of bits that share the left vector, the right vector, over (angle / pi)^2.
    """

    angle: Floats
    ratio: Floats
    spread: Floats
    left: Floats
    right: Floats

    @classmethod
    def of(cls, moments: SignMoments, n_draws: int) -> SignSpread:
        """From sampled pairs, near ones and far ones.

        Parameters
        ----------
        moments : SignMoments
            Of the pairs.
        n_draws : int
            Vectors that the moments were averaged over: their own noise is taken out of the spread.
        """
        keep = moments.angle > 0
        if keep.sum() < 2 * BINS:
            raise InvalidInputError(
                f"at least {2 * BINS} pairs of different items are needed; got {keep.sum()}."
            )
        order = np.argsort(moments.angle[keep], kind="stable")
        base = moments.angle[keep][order] / np.pi
        fraction, left, right = (x[keep][order] for x in (moments.fraction, moments.left, moments.right))
        groups = np.array_split(np.arange(len(base)), BINS)

        def mean(values: Floats) -> Floats:
            return np.array([values[group].mean() for group in groups])

        ratio, own_noise = fraction / base, (left + right) / (4 * n_draws * base**2)
        variance = np.array([ratio[group].var(ddof=1) for group in groups]) - mean(own_noise)
        return cls(
            np.pi * mean(base),
            mean(ratio),
            np.sqrt(np.maximum(variance, 0.0)),
            mean(left / base**2),
            mean(right / base**2),
        )

    def about_angle(self) -> SignSpread:
        """Return the spread about angle / pi, the law of scrambled matrices and orthogonal vectors.

        Such vectors repeat each other no more than others do, so covariances are 0.
        """
        none = np.zeros_like(self.ratio)
        spread = np.hypot(self.spread, self.ratio - 1)
        return replace(self, ratio=np.ones_like(self.ratio), spread=spread, left=none, right=none)

    @property
    def angular(self) -> bool:
        """Whether the law is angle / pi, so that only the spread tells something."""
        return not self.left.any() and not self.right.any()

    def to_array(self) -> Floats:
        """Return all numbers, for a file."""
        return np.stack([getattr(self, name) for name in self.__dataclass_fields__])

    @classmethod
    def from_array(cls, numbers: ArrayLike) -> SignSpread:
        """Undo :meth:`to_array`."""
        rows = np.asarray(numbers, dtype=np.float64)
        if rows.ndim != 2 or len(rows) != 5 or rows.shape[1] < 2 or not np.isfinite(rows).all():
            raise InvalidInputError(f"a spread is 5 rows of finite numbers; got shape {rows.shape}.")
        if (np.diff(rows[0]) < 0).any() or rows.min() < 0 or rows[0, 0] <= 0:
            raise InvalidInputError("a spread has numbers >= 0, the first row ascending from above 0.")
        return cls(*rows)

    def fraction_at(self, angle: Floats) -> Floats:
        """Expected fraction of differing bits at an angle; 1 at pi."""
        # Y and -Y have supplementary angles and fractions.
        half = np.minimum(angle, np.pi - angle)
        value = half / np.pi * np.interp(half, self.angle, self.ratio)
        return np.where(angle <= np.pi / 2, value, 1 - value)

    def angle_at(self, fraction: Floats) -> Floats:
        """Angle at which the expected fraction is `fraction`."""
        grid = np.linspace(0.0, np.pi, 2001)
        return np.interp(fraction, np.maximum.accumulate(self.fraction_at(grid)), grid)

    def spread_at(self, fraction: Floats) -> Floats:
        """Spread of pairs about the law, as a standard deviation of the expected fraction."""
        return self._relative(fraction, self.spread, 1)

    def effective_bits(self, fraction: Floats, pairs: NDArray[np.integer]) -> Floats:
        """Independent bits that a code of the given pairs (k, 2) of vectors is worth, its law taken as exact."""
        variance = sign_variance(
            fraction, self._relative(fraction, self.left, 2), self._relative(fraction, self.right, 2), pairs
        )
        bits = np.full(np.shape(fraction), float(len(pairs)))
        return np.asarray(np.divide(fraction * (1 - fraction), variance, out=bits, where=variance > 0))

    def _relative(self, fraction: Floats, values: Floats, power: int) -> Floats:
        angle = self.angle_at(np.clip(fraction, 0.0, 1.0))
        half = np.minimum(angle, np.pi - angle)
        return np.asarray((half / np.pi) ** power * np.interp(half, self.angle, values))


@dataclass(frozen=True, slots=True)
class SpectrumSpread:
    """Bilinear cosine codes of some data: how far the pairs' own expected fractions lie from the law's.

    Attributes
    ----------
    fraction : array (g,)
        Expected fractions by the law, ascending.
    spread : array (g,)
        Root mean square of the deviations of pairs from it.
    covariance : array (g,)
        Mean covariance of two bits that share one vector, over the pairs: larger than that of the mean spectrum.
    """

    fraction: Floats
    spread: Floats
    covariance: Floats

    @classmethod
    def of(cls, spectra: Floats, distances: Floats, shape: Floats, thresholds: str) -> SpectrumSpread:
        """From sampled pairs, near ones and far ones.

        Parameters
        ----------
        spectra : array (n, r)
            Eigenvalues of (X - Y)(X - Y)^T of each pair over their sum.
        distances : array (n,)
            Distances of the pairs in bandwidths.
        shape : array (r,)
            The mean spectrum that the law takes.
        thresholds : {"zero", "random"}
            Of the code.
        """
        keep = distances > 0
        if keep.sum() < 2 * BINS:
            raise InvalidInputError(
                f"at least {2 * BINS} pairs of different items are needed; got {keep.sum()}."
            )
        order = np.argsort(distances[keep], kind="stable")
        scale, spectra = distances[keep][order], spectra[keep][order]
        groups = np.array_split(np.arange(len(scale)), BINS)
        rows = []
        for group in groups:
            # Beyond the sampled distances the nearest and the farthest pairs stand for the rest.
            nearer = (0.05, 0.25, 0.5) if group is groups[0] else ()
            farther = (1.5, 2.5, 5.0) if group is groups[-1] else ()
            for factor in (*nearer, 1.0, *farther):
                square = (factor * float(scale[group].mean())) ** 2
                law, own = (
                    expected_hamming(square * s, kernel="bilinear", thresholds=thresholds)
                    for s in (shape[None], spectra[group])
                )
                shared = bit_covariance(square * spectra[group], thresholds=thresholds).mean()
                rows.append((law[0], np.sqrt(np.square(own - law).mean()), shared))
        return cls(*np.array(rows, dtype=np.float64).T)

    def to_array(self) -> Floats:
        """Return all numbers, for a file."""
        return np.stack([getattr(self, name) for name in self.__dataclass_fields__])

    @classmethod
    def from_array(cls, numbers: ArrayLike) -> SpectrumSpread:
        """Undo :meth:`to_array`."""
        rows = np.asarray(numbers, dtype=np.float64)
        if rows.ndim != 2 or len(rows) != 3 or rows.shape[1] < 2 or not np.isfinite(rows).all():
            raise InvalidInputError(f"a spread is 3 rows of finite numbers; got shape {rows.shape}.")
        if (np.diff(rows[0]) < 0).any() or rows.min() < 0 or rows[0, 0] <= 0:
            raise InvalidInputError("a spread has numbers >= 0, the first row ascending from above 0.")
        return cls(*rows)

    def spread_at(self, fraction: Floats) -> Floats:
        """Spread of pairs about the law, as a standard deviation of the expected fraction."""
        return self._near_zero(fraction) * np.interp(fraction, self.fraction, self.spread)

    def covariance_at(self, fraction: Floats) -> Floats:
        """Mean covariance of two bits that share one vector."""
        return self._near_zero(fraction) ** 2 * np.interp(fraction, self.fraction, self.covariance)

    def _near_zero(self, fraction: Floats) -> Floats:
        """Below the first sampled fraction deviations are proportional to it."""
        return np.asarray(np.minimum(fraction / self.fraction[0], 1.0))
