r"""Intervals of hits: what a distance means after a search has chosen the item for its small distance.

The best of 20,000 counts is small partly by luck, so an interval made for a pair that was chosen beforehand misses
the truth to one side. Here every hit has a posterior instead. Three things go into it:

- A model. The expected fractions p of a query's items are Beta distributed with the mean mu of all items and a density
  that grows like p^(m - 1) near 0, m the local dimension around the query; given p, h of k bits differ. Then p given
  all counts is p given the item's own count, whatever was selected from the counts: Beta(h + m, k - h + m (1 - mu)/mu).
  The counts are beta-binomial, so m is estimated from the smallest ones, cut where they end: a Hill estimator with the
  noise of the bits removed.
- A sample (:mod:`bilsh.theory.hit_sample`, made by :mod:`bilsh.theory.sampling`): how this encoder strays from its law,
  which share of the noise differs between the items of one query (the rest moves all of them together and selects
  none), which dimensions are usual, and where in their posteriors the truths lie.
- A doubt. Where the model expects no ordinary item at so small a count, the hit may be a copy that somebody put there,
  and it is judged by its own bits.

Everything is in fractions of differing bits, so one code serves Hamming distances and asymmetric scores: a score is
first turned into the fraction whose law has it, see :mod:`bilsh.theory.scores`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh.errors import InvalidInputError
from bilsh.theory.hit_sample import HitSample, rank_place
from bilsh.types import Floats

__all__ = ["WINDOW", "HitPosterior", "posterior", "window_size"]

EffectiveBits = Callable[[Floats], Floats]

WINDOW = 101
"""Most of the smallest counts of a scan that are used."""

CAUTION = 0.75
"""Share of the tails that intervals leave out: a few hundred sampled queries know their tails that well."""

PLANTED = 2.0
"""Copies are expected to have this density over all counts, from 0 to n_bits."""

_SMALLEST, _LARGEST = 0.5, 1.5
"""Bounds of the local dimension; the upper one over the bits of ranking, beyond which all hits look alike."""
_STEPS, _GROUPS = 2, 12
_DISPERSION = 3.0
"""Variance of an estimated log dimension over that of independent counts: neighbours have neighbours in common."""
_FEWEST_BITS = 0.3


@dataclass(frozen=True, slots=True)
class HitPosterior:
    """Where the expected fractions of hits lie, given all that the scan saw: one Beta distribution per hit.

    Attributes
    ----------
    successes, failures : array (q, k)
        Parameters of the Beta distributions, hits in the order of their rank.
    copies : array (q, k)
        Hits with the query's own code: they may be the same item, so their intervals begin at 0.
    dimension : array (q,)
        Local dimension around each query.
    doubt : array (q,)
        Variance of its logarithm.
    sample : HitSample
        What corrects the model.
    """

    successes: Floats
    failures: Floats
    copies: NDArray[np.bool_]
    dimension: Floats
    doubt: Floats
    sample: HitSample

    def answer(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Return point estimates (q, k) and intervals (q, k, 2) at once.

        Estimates never fall from one rank to the next; intervals hold the truth with the given confidence, and the
        estimate.
        """
        if not 0 < confidence < 1:
            raise InvalidInputError(f"confidence must be between 0 and 1, ends excluded; got {confidence!r}.")
        tail = CAUTION * (1 - confidence) / 2
        low, middle, high = self._quantiles(tail, 0.5, 1 - tail)
        middle = np.maximum.accumulate(middle, axis=1)
        low = np.where(self.copies, 0.0, np.minimum(low, middle))
        return middle, np.stack([low, np.maximum(high, middle)], axis=-1)

    def median(self) -> Floats:
        """Return point estimates (q, k), which never fall from one rank to the next."""
        return np.asarray(np.maximum.accumulate(self.quantile(0.5), axis=1))

    def interval(self, confidence: float = 0.95) -> Floats:
        """Return intervals (q, k, 2) that hold the truth with the given confidence, and the point estimate."""
        return self.answer(confidence)[1]

    def quantile(self, level: float) -> Floats:
        """Return fractions (q, k) below which the truths lie with probability `level`."""
        return np.asarray(self._quantiles(level)[0])

    def _quantiles(self, *levels: float) -> Floats:
        location, scale = self.sample.drift
        count = self.successes.shape[1]
        place, row = rank_place(count), np.minimum(np.arange(count), len(self.sample.levels) - 1)
        z = np.array([self.sample.standard(level)[row] for level in levels])[:, None, :]
        return normal_to_beta(z * np.exp(scale * place) + location * place, self.successes, self.failures)

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
    With k_e effective bits whose noise selects by a share q, a hit is worth k_e / q bits of ranking. The posterior's
    mean is (f k_e / q + m) / (k_e / q + m / mu); of its variance q is shrunk like the mean, 1 - q is not, and the
    variance of m is added.

    Examples
    --------
    >>> counts = np.array([[30, 33, 34, 36, 36, 37, 38, 38, 39, 39, 39, 40]])
    >>> hits = posterior(counts[:, :3] / 256, counts / 256, [0.4], 12, 256, lambda p: np.full(p.shape, 256.0))
    >>> hits.median().round(3)
    array([[0.149, 0.16 , 0.164]])
    """
    sample = HitSample.unseen() if sample is None else sample
    q = sample.share

    def worth(p: Floats) -> Floats:
        return effective_bits(p) / sample.noise

    least = 0.5 / n_bits
    f = _within(np.asarray(fractions, dtype=np.float64) / sample.gain, 0.0, 1.0)
    mean = _within(np.asarray(background, dtype=np.float64)[:, None] / sample.gain, least, 1 - least)
    window = np.asarray(smallest, dtype=np.float64)[:, : window_size(n_items)]
    window = _within(window / sample.gain, 0.0, 1.0)
    middle = np.maximum(window[:, window.shape[1] // 2, None], least) if window.shape[1] else mean
    # The items of the window are farther than they look; their noise is that of where they are.
    where, u = middle, np.full(middle.shape, sample.dimension)
    seen = _Window.of(window, n_bits)
    for last in (False, True):
        ranking = worth(where) / q
        u, doubt, log_scale = _dimension(seen, mean, ranking, sample, u, last)
        m = np.exp(u)
        if not last:
            where = (middle * ranking + m) / (ranking + m / mean)

    # What the hit's own bits say.
    bits = worth(np.maximum(f, least))
    own = (f * bits + q) / (bits + 2 * q)
    own_variance = own * (1 - own) / (bits + 3)
    # What the model makes of them.
    p, pull = own, q * m / mean
    for _ in range(3):
        bits = worth(p)
        p = (f * bits + q * m) / (bits + pull)
    kept = bits / (bits + pull)
    variance = p * (1 - p) * (q * kept / (bits + 1) + (1 - q) / bits)
    variance += doubt * np.square(pull * kept * (mean - f) / (bits + pull))

    planted = _planted(f * ranking, m, mean, log_scale, ranking, n_bits)
    centre = planted * own + (1 - planted) * p
    variance = (
        planted * own_variance + (1 - planted) * variance + planted * (1 - planted) * np.square(p - own)
    )
    total = np.maximum(centre * (1 - centre) / variance - 1, 2.0)
    return HitPosterior(centre * total, (1 - centre) * total, f < least, m[:, 0], doubt[:, 0], sample)


def window_size(n_items: int) -> int:
    """How many of the smallest fractions are used: a tenth of the items, at least 10 and at most 101."""
    return min(WINDOW, max(10, n_items // 10))


@dataclass(frozen=True, slots=True)
class _Window:
    """The smallest fractions of queries: how many (q, 1), where they end, and groups of them that stand for all.

    The likelihood needs the mean of a smooth function only; groups are means of neighbouring values with their shares.
    """

    count: Floats
    end: Floats
    value: Floats
    share: Floats

    @classmethod
    def of(cls, window: Floats, n_bits: int) -> _Window | None:
        width = window.shape[1]
        if width < 2:
            return None
        end = np.minimum(np.maximum(window[:, -1:], window[:, :1] + 1 / n_bits), 1.0)
        inside = (window < end - 1e-12).astype(np.float64)
        starts = np.arange(0, width, max(1, width // _GROUPS))
        counts = np.add.reduceat(inside, starts, axis=1)
        sums = np.add.reduceat(inside * window, starts, axis=1)
        total = _sum(counts)
        value, share = sums / np.maximum(counts, 1.0), counts / np.maximum(total, 1.0)
        return cls(np.maximum(total, 0.5), end - 0.5 / n_bits, value, share)


def _dimension(
    window: _Window | None, mean: Floats, ranking: Floats, sample: HitSample, u: Floats, last: bool
) -> tuple[Floats, Floats, Floats | None]:
    """Logarithm u of the local dimension (q, 1), its variance, and the logarithm of N over the likelihood's integral.

    Maximum of the truncated likelihood times a normal prior of u: with few counts the sample decides, with many the
    query's own neighbourhood. Newton's method with Fisher's information. Only the last of several calls gives variance
    and integral that belong to the u it returns: the integral changes by powers of e where u does by hundredths.
    """
    prior = _DISPERSION / max(sample.spread, 0.1) ** 2
    if window is None:
        return u, np.full(u.shape, min(sample.spread**2, 1.0)), None
    nodes, log_weights = _quadrature()
    reach, count = ranking * window.end, window.count
    # Differing and agreeing bits, first those that were seen, then where the likelihood's integral is taken.
    split = window.value.shape[1]
    differ = np.concatenate([window.value * ranking, reach * nodes], axis=1)
    bits = np.stack([differ, ranking - differ])
    free = _log_gamma(bits[:, :, split:] + 1)[0]
    fixed = log_weights - free[0] - free[1]
    odds = (1 - mean) / mean
    prior_odds = np.stack([np.ones(odds.shape), odds])
    low, high = np.log(_SMALLEST), np.log(np.maximum(_LARGEST * ranking, 1.0))
    u = np.minimum(u, high)
    for steps_left in range(_STEPS, -1, -1):
        m = np.exp(u)
        log_gamma, digamma = _log_gamma(bits + m * prior_odds)
        score = digamma[0] + odds * digamma[1]
        log_density = fixed + log_gamma[0, :, split:] + log_gamma[1, :, split:]
        top = np.maximum.reduce(log_density, axis=1, keepdims=True)
        density = np.exp(log_density - top)
        total = _sum(density)
        density /= total
        grid = score[:, split:]
        expected = _sum(density * grid)
        spread = _sum(density * np.square(grid - expected))
        information = count * np.maximum(m * m * spread, 0.02) + prior
        if not steps_left:
            break
        seen = _sum(score[:, :split] * window.share)
        step = (count * m * (seen - expected) - prior * (u - sample.dimension)) / information
        u = _within(u + _within(step, -1.0, 1.0), low, high)
        if not last and steps_left == 1:
            break
    log_scale = np.log(count / (total * reach)) - top
    return u, np.minimum(_DISPERSION / information, 1.0), log_scale


def _sum(array: Floats) -> Floats:
    """Sums of rows as a column. A query alone waits for the calls, not for the arithmetic: this is the shortest."""
    return np.asarray(np.add.reduce(array, axis=1, keepdims=True))


def _within(array: Floats, low: Floats | float, high: Floats | float) -> Floats:
    return np.asarray(np.minimum(np.maximum(array, low), high))


@cache
def _quadrature() -> tuple[Floats, Floats]:
    """Nodes on (0, 1), dense near 1 where the density of a window lies, and the logarithms of their weights."""
    i = np.arange(1, 24)
    beside = np.diag(i / np.sqrt(4.0 * i**2 - 1), -1)  # Golub and Welsch; NumPy's own rule takes long to load
    nodes, vectors = np.linalg.eigh(beside)
    v = (nodes + 1) / 2
    return v ** (1 / 6), np.log(np.square(vectors[0]) * v ** (1 / 6 - 1) / 6)


def _planted(
    x: Floats, m: Floats, mean: Floats, log_scale: Floats | None, ranking: Floats, n_bits: int
) -> Floats:
    """Probability that a hit is a copy that the model knows nothing of, given the ordinary items expected there."""
    if log_scale is None:
        return np.full(x.shape, 0.5)
    rest = np.maximum(ranking - x, 0.0)
    prior = np.stack([x + m, rest + m * (1 - mean) / mean])
    density = _log_gamma(prior)[0] - _log_gamma(np.stack([x, rest]) + 1)[0]
    expected = log_scale + density[0] + density[1] + np.log(ranking)
    return np.asarray(1 / (1 + np.exp(_within(expected, -50.0, 50.0)) / PLANTED))


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


def _log_gamma(x: Floats) -> tuple[Floats, Floats]:
    """Logarithm of the Gamma function and its derivative: Stirling's series one step up, from 0.5 on within 0.006."""
    y = x + 0.5
    log_y, inverse = np.log(y), (1 / 24) / y
    return y * (log_y - 1) - np.log(x) + (0.9189385332046727 - inverse), log_y + inverse / y - 1 / x
