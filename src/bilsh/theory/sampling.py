"""What a sample of the data tells about hits: made at fit, or on a store that keeps its vectors.

Sampled queries are searched among sampled items whose exact distances are known. Where in the posteriors of the model
the truths lie is kept, and later hits are corrected by it: conformal prediction with the posterior as its score. For
queries like the sampled ones the correction is right whatever the model leaves out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh import _native
from bilsh.errors import InvalidInputError
from bilsh.theory.hit_sample import LEVELS, RANKS, HitSample
from bilsh.theory.hits import EffectiveBits, HitPosterior, posterior, window_size
from bilsh.types import Floats

__all__ = ["QUERIES", "Looked", "calibrate", "differing_share", "learn", "learn_again", "sample_sizes"]


QUERIES = 400
"""Sampled queries at fit."""

FEWEST_QUERIES = 20
"""Samples with fewer queries teach nothing."""

NEAREST = 50
"""Fewest of a query's exactly nearest items that tell the noise."""
ENOUGH = 256
"""Items of each query that tell a rank or a spread well enough: with all queries, 10^5 of them."""
ROUNDS = 4
_GAINS, _NOISES, _SHARES = (0.5, 2.0), (0.1, 10.0), (0.05, 1.0)


def sample_sizes(n: int, n_bits: int) -> tuple[int, int]:
    """Queries and items to sample of n descriptors: 400, and 2^21 / n_bits between 2,000 and 16,384.

    Hits of short codes come from far, so what a sample tells of them depends on how many items it has; and short
    codes are cheap. Queries are items, each without itself.

    Examples
    --------
    >>> sample_sizes(10**6, 64), sample_sizes(10**6, 1024), sample_sizes(1000, 64)
    ((400, 16384), (400, 2048), (400, 1000))
    """
    items = min(n, int(np.clip(2**21 // n_bits, 2000, 16_384)))
    return min(QUERIES, items), items


@dataclass(frozen=True, slots=True)
class Looked:
    """Fractions of all items of each query, by numbers that grow with them: only those looked at are worked out.

    Attributes
    ----------
    values : array (q, n)
        Counts, distances, angles, or fractions themselves.
    fraction : callable
        Turns values (q, c) into fractions; never falls.
    """

    values: NDArray[Any]
    fraction: Callable[[Floats], Floats] = np.asarray

    def nearest(self, count: int) -> NDArray[np.int64]:
        """Items (q, count) with the smallest values, in their order."""
        return _native.smallest(self.values.astype(np.float64), count)

    def at(self, items: NDArray[np.int64]) -> Floats:
        """Fractions (q, c) of those items of each query."""
        return self.fraction(np.take_along_axis(self.values, items, axis=1).astype(np.float64))

    def every(self, step: int) -> Looked:
        """Those of one item in `step`."""
        return self if step < 2 else Looked(np.ascontiguousarray(self.values[:, ::step]), self.fraction)


def learn(
    fractions: ArrayLike | Looked,
    exact: ArrayLike | Looked,
    background: ArrayLike,
    n_bits: int,
    effective_bits: EffectiveBits,
) -> HitSample | None:
    """Learn from sampled queries and items, all against all.

    Parameters
    ----------
    fractions : array (q, n) or Looked
        Observed fractions of differing bits, or those that the scores stand for; no query is among the items.
    exact : array (q, n) or Looked
        Expected fractions at the exact angles or distances.
    background : array (q,)
        Mean fraction over all items, made as it will be made for later queries.
    n_bits : int
        Length of the code.
    effective_bits : callable
        As in :func:`bilsh.theory.hits.posterior`.

    Returns
    -------
    HitSample or None
        None where the sample is too small to tell (below 20 queries or items).
    """
    f, p = (one if isinstance(one, Looked) else Looked(np.asarray(one)) for one in (fractions, exact))
    shape = f.values.shape
    if len(shape) != 2 or shape != p.values.shape:
        raise InvalidInputError(
            f"fractions and exact must have the same shape (q, n); got {shape} and {p.values.shape}."
        )
    if min(shape) < FEWEST_QUERIES:
        return None
    n_items = shape[1]
    order = f.nearest(min(max(window_size(n_items), RANKS), n_items))
    smallest, hits = f.at(order), order[:, :RANKS]
    noise = _noise(f, p, hits, effective_bits)
    return learn_again(
        HitSample(*noise, float(np.log(10.0)), 1.0, (0.0, 0.0), HitSample.unseen().levels),
        p.at(hits),
        smallest,
        background,
        n_items,
        n_bits,
        effective_bits,
    )


def learn_again(
    sample: HitSample,
    exact: ArrayLike,
    smallest: ArrayLike,
    background: ArrayLike,
    n_items: int,
    n_bits: int,
    effective_bits: EffectiveBits,
) -> HitSample:
    """Learn dimensions and correction from the nearest of so many items; the noise of a sample is kept.

    Parameters
    ----------
    sample : HitSample
        Its gain, noise and share are kept.
    exact : array (q, k)
        Expected fractions at the exact angles or distances of the first hits.
    smallest, background, n_items, n_bits, effective_bits
        As in :func:`bilsh.theory.hits.posterior`.
    """
    smallest = np.asarray(smallest, dtype=np.float64)
    for _ in range(ROUNDS):  # the dimensions are estimated with a prior, and the prior from the dimensions
        made = posterior(smallest[:, :0], smallest, background, n_items, n_bits, effective_bits, sample)
        dimension, spread = _usual(made)
        sample = replace(sample, dimension=dimension, spread=spread)
    return calibrate(
        smallest[:, :RANKS], exact, smallest, background, n_items, n_bits, effective_bits, sample
    )


def calibrate(
    fractions: ArrayLike,
    exact: ArrayLike,
    smallest: ArrayLike,
    background: ArrayLike,
    n_items: int,
    n_bits: int,
    effective_bits: EffectiveBits,
    sample: HitSample | None = None,
    *,
    by_rank: bool = False,
) -> HitSample:
    """Learn the correction from hits whose exact distances are known: on the store itself, of its own size.

    Parameters
    ----------
    fractions, exact : array (q, k)
        Hits of q queries by rank, observed and expected fractions; at most 10 ranks are used. The queries should be
        like those to come, and at least 100.
    smallest, background, n_items, n_bits, effective_bits
        As in :func:`bilsh.theory.hits.posterior`.
    sample : HitSample, optional
        From the fit: its share of the noise and its dimensions are kept.
    by_rank : bool
        Learn each rank by itself. Then coverage at every rank is exact for queries like these, whatever the model
        leaves out; it takes some hundred queries. Else ranks have a mean and a spread of their own and one shape.

    Returns
    -------
    HitSample
    """
    f = np.asarray(fractions, dtype=np.float64)[:, :RANKS]
    p = np.asarray(exact, dtype=np.float64)[:, :RANKS]
    if len(f) < FEWEST_QUERIES or f.shape != p.shape:
        raise InvalidInputError(
            f"calibration needs the hits of at least {FEWEST_QUERIES} queries with their exact values; got shapes "
            f"{f.shape} and {p.shape}."
        )
    sample = HitSample.unseen() if sample is None else sample
    z = posterior(f, smallest, background, n_items, n_bits, effective_bits, sample).standardised(p)
    if by_rank:
        levels = np.array([_quantiles(one, len(z)) for one in z.T])
    else:
        mean, spread = z.mean(axis=0), np.maximum(z.std(axis=0), 1e-3)
        shape = _quantiles(((z - mean) / spread).ravel(), len(z))
        levels = mean[:, None] + spread[:, None] * shape
    return replace(sample, drift=(0.0, 0.0), levels=levels)


def _quantiles(values: Floats, n_queries: int) -> Floats:
    """Quantiles at LEVELS for one more query like these: it is one of n + 1, so tails lie a little farther out."""
    level = np.sort(values)
    # The hits of one query are alike, so n counts queries.
    at = np.clip(LEVELS + (LEVELS - 0.5) / n_queries, 0.0, 1.0) * (len(level) - 1)
    return np.asarray(np.interp(at, np.arange(len(level)), level))


def _noise(
    f: Looked, p: Looked, hits: NDArray[np.int64], effective_bits: EffectiveBits
) -> tuple[float, float, float]:
    """Gain, noise and share of :class:`HitSample`, from each query's exactly nearest items."""
    n_items = p.values.shape[1]
    some = p.every(n_items // ENOUGH).values
    rank = np.mean([np.mean(some < one[:, None]) for one in np.take_along_axis(p.values, hits, axis=1).T])
    count = int(np.clip(2 * rank * n_items, NEAREST, n_items // 2))
    step = max(1, count // ENOUGH)
    f, p = f.every(step), p.every(step)
    near = p.nearest(count // step)
    true, seen = p.at(near), f.at(near)
    expected = float((true * (1 - true) / effective_bits(true)).mean())
    if not expected > 0:
        return 1.0, 1.0, 1.0
    gain = float(np.clip(seen.sum() / true.sum(), *_GAINS))
    error = seen / gain - true
    within, total = float(error.var(axis=1, ddof=1).mean()), float(np.square(error).mean())
    noise = float(np.clip(total / expected, *_NOISES))
    return gain, noise, float(np.clip(within / (noise * expected), *_SHARES))


def differing_share(often: Floats, elsewhere: Floats) -> float:
    r"""Bound the share of the noise that differs between some items, by how often each of their bits is 1.

    Bits of two items that agree differ from a query's together. So the counts of two items at fraction p whose own
    distance is d have the correlation 1 - d / (2 p (1 - p)), and what is left differs between them. Over all pairs of
    items d / 2 is the mean of c (1 - c), c how often a bit is 1; hits are more alike than all items, so their share is
    somewhat below.

    Parameters
    ----------
    often : array (n_bits,)
        How often each bit is 1 among the items.
    elsewhere : array (n_bits,)
        The same where queries come from, which tells p.

    Examples
    --------
    >>> apart, alike = np.full(4, 0.5), np.array([1.0, 0.0, 0.9, 0.1])
    >>> differing_share(apart, apart), round(differing_share(alike, apart), 2)
    (1.0, 0.18)
    """
    n, ones = len(often), float(often.sum())
    p = (ones + float(elsewhere.sum()) - 2 * float(often @ elsewhere)) / n
    if not p * (1 - p) > 0:
        return 1.0
    least, most = _SHARES
    return min(max((ones - float(often @ often)) / n / (p * (1 - p)), least), most)


def _usual(made: HitPosterior) -> tuple[float, float]:
    """Mean and spread of the logarithm of the dimension: a step of expectation and maximisation."""
    u = np.log(made.dimension)
    return float(u.mean()), max(float(np.sqrt(u.var() + made.doubt.mean())), 0.2)
