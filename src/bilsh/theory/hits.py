r"""Intervals of hits: what a distance means after a search has chosen the item for its small distance.

The best of 20,000 counts is small partly by luck, so an interval made for a pair that was chosen beforehand misses
the truth to one side. Here every hit has a posterior instead. Three things go into it:

- A model. The expected fractions p of a query's items have a density that grows like p^(m - 1) near 0, m the local
  dimension around the query; given p, h of k bits differ. Then p given all counts is p given the item's own count,
  whatever was selected from the counts: Beta(h + m, k - h + 1). And the counts below a limit X are distributed like
  Gamma(h + m) / Gamma(h + 1), whose sum is Gamma(X + m) / (m Gamma(X)): so m is estimated from the smallest counts of
  the scan, a Hill estimator with the noise of the bits removed.
- A sample (:class:`HitSample`, made by :mod:`bilsh.theory.sampling`): which share of the noise differs between the
  items of one query (the rest moves all of them together and selects none), which dimensions are usual, and where in
  their posteriors the truths lie.
- A doubt. Where the model expects no ordinary item at so small a count, the hit may be a copy that somebody put there,
  and it is judged by its own bits.

Everything is in fractions of differing bits, so one code serves Hamming distances and asymmetric scores: a score is
first turned into the fraction whose law has it, see :mod:`bilsh.theory.scores`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh.errors import InvalidInputError

__all__ = ["RANKS", "WINDOW", "HitPosterior", "HitSample", "posterior", "window_size"]

Floats = NDArray[np.float64]
EffectiveBits = Callable[[Floats], Floats]

WINDOW = 101
"""Most of the smallest counts of a scan that are used."""

RANKS = 10
"""Ranks that a sample looks at; later ones are treated like the last of them."""

LEVELS: Floats = np.arange(1, 200) / 200
"""Levels at which a sample keeps quantiles."""

CAUTION = 0.8
"""Share of the tails that intervals leave out: a few hundred sampled queries know their tails that well."""

PLANTED = 2.0
"""Copies are expected to have this density over all counts, from 0 to n_bits."""

_DIMENSIONS = (0.5, 300.0)
_ROUNDS = 5
_DISPERSION = 3.0
"""Variance of an estimated log dimension over that of independent counts: neighbours have neighbours in common."""
_FEWEST_BITS = 0.3


@dataclass(frozen=True, slots=True)
class HitSample:
    """What a sample of the data tells about hits; one for each way of ranking.

    Attributes
    ----------
    share : float
        Part of a fraction's variance that differs between the items of one query, in (0, 1].
    dimension, spread : float
        Mean and standard deviation of the logarithm of the local dimension, over queries.
    drift : (float, float)
        Slopes over the logarithm of the rank: of the standardised truths, and of the logarithm of their spread.
    levels : array (199,)
        Quantiles 1/200 ... 199/200 of the standardised truths (:meth:`HitPosterior.standardised`), the drift taken
        out. The standard normal ones if the model were exact.
    """

    share: float
    dimension: float
    spread: float
    drift: tuple[float, float]
    levels: Floats

    @classmethod
    def unseen(cls, share: float = 1.0) -> HitSample:
        """Return what is assumed where nothing was sampled: the model is exact, all noise selects."""
        return cls(share, float(np.log(10.0)), 1.0, (0.0, 0.0), _normal_levels())

    def to_array(self) -> Floats:
        """Return all numbers in a row, for a file."""
        return np.concatenate([[self.share, self.dimension, self.spread, *self.drift], self.levels])

    @classmethod
    def from_array(cls, numbers: ArrayLike) -> HitSample:
        """Undo :meth:`to_array`."""
        row = np.asarray(numbers, dtype=np.float64)
        if row.shape != (5 + len(LEVELS),) or not np.isfinite(row).all() or not 0 < row[0] <= 1:
            raise InvalidInputError(
                f"a sample of hits is {5 + len(LEVELS)} finite numbers, the first in (0, 1]; got shape {row.shape}."
            )
        return cls(
            float(row[0]), float(row[1]), float(row[2]), (float(row[3]), float(row[4])), row[5:].copy()
        )

    def standard(self, level: float) -> float:
        """Standardised value below which a share `level` of the truths lies."""
        normal, z = _normal_levels(), NormalDist().inv_cdf(level)
        # Beyond the levels that were kept the tails are normal ones.
        beyond = min(z - float(normal[0]), 0.0) + max(z - float(normal[-1]), 0.0)
        return float(np.interp(z, normal, self.levels)) + beyond


@dataclass(frozen=True, slots=True)
class HitPosterior:
    """Where the expected fractions of hits lie, given all that the scan saw: one Beta distribution per hit.

    Attributes
    ----------
    successes, failures : array (q, k)
        Parameters of the Beta distributions, hits in the order of their rank.
    dimension : array (q,)
        Local dimension around each query.
    sample : HitSample
        What corrects the model.
    """

    successes: Floats
    failures: Floats
    dimension: Floats
    sample: HitSample

    def median(self) -> Floats:
        """Return point estimates (q, k), which never fall from one rank to the next."""
        return np.asarray(np.maximum.accumulate(self.quantile(0.5), axis=1))

    def interval(self, confidence: float = 0.95) -> Floats:
        """Return intervals (q, k, 2) that hold the truth with the given confidence, and the point estimate."""
        if not 0 < confidence < 1:
            raise InvalidInputError(f"confidence must be between 0 and 1, ends excluded; got {confidence!r}.")
        tail = CAUTION * (1 - confidence) / 2
        middle = self.median()
        ends = np.minimum(self.quantile(tail), middle), np.maximum(self.quantile(1 - tail), middle)
        return np.stack(ends, axis=-1)

    def quantile(self, level: float) -> Floats:
        """Return fractions (q, k) below which the truths lie with probability `level`."""
        location, scale = self.sample.drift
        place = rank_place(self.successes.shape[1])
        z = self.sample.standard(level) * np.exp(scale * place) + location * place
        return normal_to_beta(z, self.successes, self.failures)

    def standardised(self, fractions: ArrayLike) -> Floats:
        """Turn expected fractions (q, k) into numbers that are standard normal if the model is exact."""
        return beta_to_normal(np.asarray(fractions, dtype=np.float64), self.successes, self.failures)


def posterior(
    fractions: ArrayLike,
    smallest: ArrayLike,
    background: ArrayLike,
    n_items: int,
    n_bits: int,
    effective_bits: EffectiveBits,
    sample: HitSample | None = None,
) -> HitPosterior:
    r"""Posterior of the expected fraction of every hit.

    Parameters
    ----------
    fractions : array (q, k)
        Observed fractions of differing bits of the hits (or those that their scores stand for), by rank.
    smallest : array (q, w)
        The smallest fractions of each scan, ascending, hits included; w about :func:`window_size`. Where only
        candidates are known (progressive search, cells), what is known; none is possible too.
    background : array (q,)
        Mean fraction over all items, or over some hundred of them.
    n_items : int
        Items that were searched (those that pass a filter).
    n_bits : int
        Length of the code.
    effective_bits : callable
        Independent bits that the code (or the score) is worth at expected fractions; array to array.
    sample : HitSample, optional
        What a sample of the data told. Without it the model is believed.

    Returns
    -------
    HitPosterior

    Notes
    -----
    With k_e effective bits of which the noise selects by a share q, a hit is worth k_e / q bits of ranking; the
    posterior's mean is that of Beta(f k_e / q + m, ...), while its variance counts all noise and that of m.

    Examples
    --------
    >>> counts = np.array([[30, 33, 34, 36, 36, 37, 38, 38, 39, 39, 39, 40]])
    >>> hits = posterior(counts[:, :3] / 256, counts / 256, [0.4], 12, 256, lambda p: np.full(p.shape, 256.0))
    >>> hits.median().round(3)
    array([[0.153, 0.165, 0.169]])
    """
    f = np.asarray(fractions, dtype=np.float64)
    mean = np.asarray(background, dtype=np.float64)[:, None]
    sample = HitSample.unseen() if sample is None else sample
    q = sample.share
    window = np.asarray(smallest, dtype=np.float64)[:, : window_size(n_items)]
    least = 0.5 / n_bits
    middle = window[:, window.shape[1] // 2, None] if window.shape[1] else f[:, :1]
    ranking = effective_bits(np.maximum(middle, least)) / q
    m, doubt, log_count = _dimension(window, ranking, n_bits, sample)

    # What the hit's own bits say.
    bits = effective_bits(np.maximum(f, least))
    own = np.maximum((f * bits + q) / (bits + 2 * q), least / 2)
    own_variance = own * (1 - own) / (bits + 3) + np.square(np.maximum(f - mean, 0.0)) / 4
    # What the model makes of them: no further than the mean of all items.
    p = own
    for _ in range(3):
        bits = effective_bits(p)
        p = (f * bits + q * m) / (bits + q * m + q)
    p = np.clip(p, least / 2, np.maximum(mean, own))
    bits = effective_bits(p)
    pull = np.clip((p - f) * bits / (1 - p) + q, 0.0, q * m)
    variance = p * (1 - p) / (bits + pull + q + 1) + doubt * np.square(pull * (1 - p) / (bits + pull))
    variance += np.square(np.maximum(f - mean, 0.0)) / 4

    planted = _planted(np.maximum(f, 0.0) * ranking, m, log_count, ranking, n_bits)
    centre = planted * own + (1 - planted) * p
    variance = (
        planted * own_variance + (1 - planted) * variance + planted * (1 - planted) * np.square(p - own)
    )
    total = np.maximum(centre * (1 - centre) / variance - 1, 2.0)
    return HitPosterior(centre * total, (1 - centre) * total, m[:, 0], sample)


def window_size(n_items: int) -> int:
    """How many of the smallest fractions are used: a tenth of the items, at least 10 and at most 101."""
    return min(WINDOW, max(10, n_items // 10))


def rank_place(n: int) -> Floats:
    """Logarithms of the ranks 1 ... n about their mean over the sampled ranks; constant after those."""
    log_rank = np.log(np.minimum(np.arange(1, n + 1), RANKS))
    return np.asarray(log_rank - np.log(np.arange(1, RANKS + 1)).mean())


def _dimension(
    window: Floats, ranking: Floats, n_bits: int, sample: HitSample
) -> tuple[Floats, Floats, Floats | None]:
    """Local dimension (q, 1), the variance of its logarithm, and what :func:`_planted` needs of the window.

    Maximum of the truncated likelihood times a normal prior of the logarithm: with few counts the sample decides,
    with many the query's own neighbourhood.
    """
    prior = _DISPERSION / max(sample.spread, 0.1) ** 2
    u = np.full((len(window), 1), sample.dimension)
    if window.shape[1] < 2:
        return np.exp(u), np.full(u.shape, min(sample.spread**2, 1.0)), None
    end = np.maximum(window[:, -1:], window[:, :1] + 1 / n_bits)
    inside = (window < end - 1e-12).astype(np.float64)
    count = inside.sum(axis=1, keepdims=True)
    x = np.maximum(window, 0.0) * ranking
    limit = np.maximum(ranking * (end - 0.5 / n_bits), 0.0) + 0.5
    for _ in range(_ROUNDS):
        m = np.exp(u)
        slope = np.einsum("ij,ij->i", digamma(x + m), inside)[:, None] - count * digamma(limit + m)
        u = u + (count + m * slope - prior * (u - sample.dimension)) / (count + prior)
        u = np.clip(u, np.log(_DIMENSIONS[0]), np.log(_DIMENSIONS[1]))
    m = np.exp(u)
    curve = count * trigamma(limit + m) - np.einsum("ij,ij->i", trigamma(x + m), inside)[:, None]
    information = np.maximum(count + m**2 * curve, 0.02 * count)
    log_count = np.log(count * m) + _log_gamma(limit) - _log_gamma(limit + m)
    return m, np.minimum(_DISPERSION / (information + prior), 1.0), log_count


def _planted(x: Floats, m: Floats, log_count: Floats | None, ranking: Floats, n_bits: int) -> Floats:
    """Probability that a hit is a copy that the model knows nothing of, given the ordinary items expected there."""
    if log_count is None:
        return np.full(x.shape, 0.5)
    expected = log_count + np.log(ranking / n_bits) + _log_gamma(x + m) - _log_gamma(x + 1)
    return np.asarray(1 / (1 + n_bits / PLANTED * np.exp(np.minimum(expected, 50.0))))


# -- Beta distributions by cube roots (Paulson): closed in both directions, so the sample's correction fits exactly ----


def beta_to_normal(p: Floats, a: Floats, b: Floats) -> Floats:
    """Turn values of Beta(a, b) into nearly standard normal ones."""
    u, v = 1 / (9 * np.maximum(a, _FEWEST_BITS)), 1 / (9 * np.maximum(b, _FEWEST_BITS))
    p = np.clip(p, 0.0, 1 - 1e-12)
    root = np.cbrt(p * b / ((1 - p) * a))
    return np.asarray(((1 - v) * root - (1 - u)) / np.sqrt(v * root * root + u))


def normal_to_beta(z: Floats | float, a: Floats, b: Floats) -> Floats:
    """Undo :func:`beta_to_normal`; 0 where the normal value lies below all of them.

    Examples
    --------
    >>> a, b = np.array([3.0]), np.array([40.0])
    >>> beta_to_normal(normal_to_beta(1.5, a, b), a, b).round(9)
    array([1.5])
    """
    u, v = 1 / (9 * np.maximum(a, _FEWEST_BITS)), 1 / (9 * np.maximum(b, _FEWEST_BITS))
    square = np.square(z)
    inner = np.maximum(u * (1 - v) ** 2 + v * (1 - u) ** 2 - square * (u * v), 0.0)
    bottom = np.maximum((1 - v) ** 2 - square * v, 1e-6)
    root = np.maximum(((1 - u) * (1 - v) + z * np.sqrt(inner)) / bottom, 0.0)
    odds = root**3 * (a / b)
    return np.asarray(odds / (1 + odds))


# -- functions of the Gamma family for arguments from 0.5 on; errors below 0.003, far below those of the model ---------


def digamma(x: Floats) -> Floats:
    """Logarithmic derivative of the Gamma function."""
    y = x + 0.5
    return np.asarray(np.log(y) + (1 / 24) / (y * y) - 1 / x)


def trigamma(x: Floats) -> Floats:
    """Second derivative of the logarithm of the Gamma function."""
    y = x + 0.5
    return np.asarray(1 / y - (1 / 12) / y**3 + 1 / (x * x))


def _log_gamma(x: Floats) -> Floats:
    """Logarithm of the Gamma function, by Stirling's series one step up."""
    y = x + 1
    return np.asarray((y - 0.5) * np.log(y) - y + 0.9189385332046727 + (1 / 12) / y - np.log(x))


@cache
def _normal_levels() -> Floats:
    """Quantiles of the standard normal distribution at LEVELS."""
    return np.array([NormalDist().inv_cdf(float(level)) for level in LEVELS])
