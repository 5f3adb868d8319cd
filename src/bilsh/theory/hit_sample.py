"""What a sample of the data tells about hits, as numbers: kept in encoder files, and beside calibrated stores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh.errors import InvalidInputError
from bilsh.types import Floats

__all__ = ["LEVELS", "RANKS", "HitSample", "rank_place"]


RANKS = 10
"""Ranks that a sample looks at; later ones are treated like the last of them."""

LEVELS: Floats = np.arange(1, 200) / 200
"""Levels at which a sample keeps quantiles."""

_PLACES: Floats = np.log(np.arange(1, RANKS + 1)) - np.log(np.arange(1, RANKS + 1)).mean()

_FIRST = 7
"""Numbers in front of the quantiles."""


@dataclass(frozen=True, slots=True)
class HitSample:
    """What a sample of the data tells about hits; one for each way of ranking.

    Attributes
    ----------
    gain : float
        Observed over expected fractions of near pairs: 1 on average over encoders, something else for this one.
    noise : float
        Variance of an observed fraction, the gain taken out, over the one that the effective bits say.
    share : float
        Part of that variance that differs between the items of one query, in (0, 1].
    dimension, spread : float
        Mean and standard deviation of the logarithm of the local dimension, over queries.
    drift : (float, float)
        Slopes over the logarithm of the rank: of the standardised truths, and of the logarithm of their spread. Of
        samples with one row of `levels`, as earlier versions kept them; else 0.
    levels : array (r, 199)
        Quantiles 1/200 ... 199/200 of the standardised truths (:meth:`bilsh.theory.hits.HitPosterior.standardised`),
        the drift taken out; the standard normal ones if the model were exact. One row for all ranks, or one for each
        of the first ranks (later ones take the last row).
    """

    gain: float
    noise: float
    share: float
    dimension: float
    spread: float
    drift: tuple[float, float]
    levels: Floats

    @classmethod
    def unseen(cls, share: float = 1.0) -> HitSample:
        """Return what is assumed where nothing was sampled: the model is exact, all noise selects."""
        return cls(1.0, 1.0, share, float(np.log(10.0)), 1.0, (0.0, 0.0), _normal_levels()[None])

    def to_array(self) -> Floats:
        """Return all numbers in a row, for a file."""
        first = [self.gain, self.noise, self.share, self.dimension, self.spread, *self.drift]
        return np.concatenate([first, self.levels.ravel()])

    @classmethod
    def from_array(cls, numbers: ArrayLike) -> HitSample:
        """Undo :meth:`to_array`."""
        row = np.asarray(numbers, dtype=np.float64)
        rows, left = divmod(row.size - _FIRST, len(LEVELS))
        fits = row.ndim == 1 and 1 <= rows <= RANKS and not left
        if not fits or not np.isfinite(row).all() or not (row[:3] > 0).all():
            raise InvalidInputError(
                f"a sample of hits is {_FIRST} finite numbers, the first three above 0, and {len(LEVELS)} for each of "
                f"at most {RANKS} ranks; got {row[:_FIRST]} of shape {row.shape}."
            )
        gain, noise, share, dimension, spread, location, scale = (float(number) for number in row[:_FIRST])
        levels = row[_FIRST:].reshape(rows, len(LEVELS)).copy()
        return cls(gain, noise, share, dimension, spread, (location, scale), levels)

    def standard(self, *levels: float) -> Floats:
        """Standardised values (l, r) below which the given shares of the truths lie, for each row of `levels`."""
        before, after, weight, beyond = _between(levels)
        z = self.levels.take(before, axis=1)
        return np.asarray((z + (self.levels.take(after, axis=1) - z) * weight + beyond).T)


@lru_cache(maxsize=64)
def rank_place(n: int) -> Floats:
    """Logarithms of the ranks 1 ... n about their mean over the sampled ranks; constant after those."""
    return _PLACES[np.minimum(np.arange(n), RANKS - 1)]


@cache
def _normal_levels() -> Floats:
    """Quantiles of the standard normal distribution at LEVELS."""
    return np.array([NormalDist().inv_cdf(float(level)) for level in LEVELS])


@lru_cache(maxsize=64)
def _between(levels: tuple[float, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats, Floats]:
    """Which of LEVELS lie on both sides of those asked for, weights of the later ones, how far the ends are passed."""
    normal, z = _normal_levels(), np.array([NormalDist().inv_cdf(level) for level in levels])
    at = np.clip(np.searchsorted(normal, z) - 1, 0, len(normal) - 2)
    weight = np.clip((z - normal[at]) / (normal[at + 1] - normal[at]), 0.0, 1.0)
    # Beyond the levels that were kept the tails are normal ones.
    return at, at + 1, weight, np.minimum(z - normal[0], 0.0) + np.maximum(z - normal[-1], 0.0)
