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
  and it is judged by its own bits. Unless that is less probable than the interval may fail, the interval holds what its
  own bits say, too: copies are covered as well as ordinary hits, however rare they are.

Everything is in fractions of differing bits, so one code serves Hamming distances and asymmetric scores: a score is
first turned into the fraction whose law has it, see :mod:`bilsh.theory.scores`. The sums are compiled
(native/hit_posterior.cpp): a query alone would wait for NumPy's calls. tests/hit_reference.py has them in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh import _native
from bilsh.errors import InvalidInputError
from bilsh.theory.hit_sample import HitSample, rank_place
from bilsh.types import Floats

__all__ = ["WINDOW", "HitPosterior", "posterior", "window_size"]

EffectiveBits = Callable[[Floats], Floats]

WINDOW = 101
"""Most of the smallest counts of a scan that are used."""

CAUTION = 0.75
"""Share of the tails that intervals leave out: a few hundred sampled queries know their tails that well."""

_STEPS = 2
"""Of Newton's method towards the local dimension; test_steps_of_newton_suffice."""
_FEWEST_BITS = 0.3


@dataclass(frozen=True, slots=True)
class HitPosterior:
    """Where the expected fractions of hits lie, given all that the scan saw: one Beta distribution per hit.

    Attributes
    ----------
    successes, failures : array (q, k)
        Parameters of the Beta distributions, hits in the order of their rank.
    planted : array (q, k)
        Probability that a hit is a copy that somebody put there, of which the model knows nothing.
    differing, agreeing : array (q, k)
        Bits that differ and agree, as many independent ones as the hit's own are worth. None differ from a hit that
        has the query's own code: it may be the same item, so its interval begins at 0.
    dimension : array (q,)
        Local dimension around each query.
    doubt : array (q,)
        Variance of its logarithm.
    sample : HitSample
        What corrects the model.
    """

    successes: Floats
    failures: Floats
    planted: Floats
    differing: Floats
    agreeing: Floats
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
        ends = np.empty((*middle.shape, 2))
        first, last = ends[..., 0], ends[..., 1]
        np.minimum(low, middle, out=first)
        np.maximum(high, middle, out=last)
        own_low, own_high = self._own_ends(tail)
        likely = self.planted > 1 - confidence
        np.minimum(first, own_low, out=first, where=likely | (self.differing == 0))
        np.maximum(last, own_high, out=last, where=likely)
        return middle, ends

    def _own_ends(self, tail: float) -> tuple[Floats, Floats]:
        """Ends (q, k) of what the hits' own bits say: Clopper and Pearson's, which cover at every fraction."""
        z = np.full((1, self.differing.shape[1]), NormalDist().inv_cdf(tail))
        low = _native.beta_quantiles(z, self.differing, self.agreeing + 1, _FEWEST_BITS)
        high = _native.beta_quantiles(-z, self.differing + 1, np.maximum(self.agreeing, 1e-9), _FEWEST_BITS)
        return low, high

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
        z = self.sample.standard(*levels).take(_rank_rows(count, len(self.sample.levels)), axis=1)
        if location or scale:
            place = rank_place(count)
            z = z * np.exp(scale * place) + location * place
        made = _native.beta_quantiles(z, self.successes, self.failures, _FEWEST_BITS)
        return made.reshape(len(levels), *self.successes.shape)

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
    mean = _within(np.asarray(background, dtype=np.float64) / sample.gain, least, 1 - least)
    window = np.asarray(smallest, dtype=np.float64)[:, : window_size(n_items)]
    window = _within(window / sample.gain, 0.0, 1.0)
    middle = np.maximum(window[:, window.shape[1] // 2], least) if window.shape[1] else mean
    # The items of the window are farther than they look; their noise is that of where they are.
    where, u, log_scale = middle, np.full(middle.shape, sample.dimension), None
    doubt = np.full(middle.shape, min(sample.spread**2, 1.0))
    for last in (False, True):
        ranking = worth(where) / q
        if window.shape[1] > 1:
            found = _native.local_dimension(
                window, mean, ranking, u, n_bits, sample.dimension, sample.spread, _STEPS
            )
            u, doubt, log_scale = np.ascontiguousarray(found.T)
        m = np.exp(u)
        if not last:
            where = (middle * ranking + m) / (ranking + m / mean)

    # What the hit's own bits say. The sample's noise is that of farther items; of a copy the bits differ one by one.
    own_bits, count = effective_bits(np.maximum(f, least)) / max(sample.noise, 1.0), f * n_bits
    # A score is worth more than its bits only where several differ; where none does, all of them say so.
    few = np.minimum(own_bits, n_bits + (own_bits - n_bits) * count / (count + 2))
    own_bits = np.where(f < least, float(n_bits), few)
    own = (f * own_bits + q) / (own_bits + 2 * q)
    # What the model makes of them.
    p, pull, prior = own, (q * m / mean)[:, None], (q * m)[:, None]
    for _ in range(3):
        bits = worth(p)
        p = (f * bits + prior) / (bits + pull)
    made = _native.hit_beta(f, own_bits, own, bits, p, m, mean, doubt, ranking, log_scale, q)
    differing = np.where(f < least, 0.0, f * own_bits)
    return HitPosterior(*made, differing, own_bits - differing, m, doubt, sample)


def window_size(n_items: int) -> int:
    """How many of the smallest fractions are used: a tenth of the items, at least 10 and at most 101."""
    return min(WINDOW, max(10, n_items // 10))


@lru_cache(maxsize=64)
def _rank_rows(n: int, rows: int) -> NDArray[np.int64]:
    """Row of a sample's levels for each of n ranks; later ranks take the last one."""
    return np.minimum(np.arange(n), rows - 1)


def _within(array: Floats, low: Floats | float, high: Floats | float) -> Floats:
    return np.asarray(np.minimum(np.maximum(array, low), high))


# -- Beta distributions by cube roots (Paulson): closed in both directions, so the sample's correction fits exactly ----


def beta_to_normal(p: Floats, a: Floats, b: Floats) -> Floats:
    """Turn values of Beta(a, b) into nearly standard normal ones.

    Examples
    --------
    >>> a, b = np.array([[3.0, 30.0]]), np.array([[40.0, 90.0]])
    >>> p = _native.beta_quantiles(np.array([[1.5, -2.0]]), a, b, _FEWEST_BITS)
    >>> beta_to_normal(p, a, b).round(9)
    array([[ 1.5, -2. ]])
    """
    u, v = 1 / (9 * np.maximum(a, _FEWEST_BITS)), 1 / (9 * np.maximum(b, _FEWEST_BITS))
    p = np.clip(p, 0.0, 1 - 1e-12)
    root = np.cbrt(p * b / ((1 - p) * a))
    return np.asarray(((1 - v) * root - (1 - u)) / np.sqrt(v * root * root + u))
