"""What a sample of the data tells about hits: made at fit, or on a store that keeps its vectors.

Sampled queries are searched among sampled items whose exact distances are known. Where in the posteriors of the model
the truths lie is kept, and later hits are corrected by it: conformal prediction with the posterior as its score. For
queries like the sampled ones the correction is right whatever the model leaves out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh.errors import InvalidInputError
from bilsh.theory.hits import LEVELS, RANKS, EffectiveBits, HitSample, posterior, rank_place, window_size

__all__ = ["ITEMS", "QUERIES", "calibrate", "learn"]

Floats = NDArray[np.float64]

QUERIES, ITEMS = 400, 1600
"""Sampled descriptors at fit: queries, and others that are searched. With fewer at hand a fifth are queries."""

FEWEST_QUERIES = 20
"""Samples with fewer queries teach nothing."""

NEAREST = 50
_SHARES = (0.05, 1.0)


def learn(
    fractions: ArrayLike, exact: ArrayLike, n_bits: int, effective_bits: EffectiveBits
) -> HitSample | None:
    """Learn from sampled queries and items, all against all.

    Parameters
    ----------
    fractions : array (q, n)
        Observed fractions of differing bits, or those that the scores stand for; no query is among the items.
    exact : array (q, n)
        Expected fractions at the exact angles or distances.
    n_bits : int
        Length of the code.
    effective_bits : callable
        As in :func:`bilsh.theory.hits.posterior`.

    Returns
    -------
    HitSample or None
        None where the sample is too small to tell (below 20 queries or items).
    """
    f, p = np.asarray(fractions, dtype=np.float64), np.asarray(exact, dtype=np.float64)
    if f.ndim != 2 or f.shape != p.shape:
        raise InvalidInputError(
            f"fractions and exact must have the same shape (q, n); got {f.shape} and {p.shape}."
        )
    if min(f.shape) < FEWEST_QUERIES:
        return None
    share = _share(f, p, effective_bits)
    size = max(window_size(f.shape[1]), RANKS)
    # argsort of all would cost more than everything else.
    order = np.argpartition(f, size, axis=1)[:, :size] if size < f.shape[1] else np.argsort(f, axis=1)
    smallest = np.take_along_axis(f, order, axis=1)
    by_rank = np.argsort(smallest, axis=1, kind="stable")
    smallest = np.take_along_axis(smallest, by_rank, axis=1)
    hits = np.take_along_axis(order, by_rank[:, :RANKS], axis=1)
    background = f.mean(axis=1)

    start = HitSample(share, *_usual(np.full(1, 10.0)), (0.0, 0.0), HitSample.unseen().levels)
    for _ in range(2):  # the dimensions are estimated with a prior, and the prior from the dimensions
        made = posterior(smallest[:, :RANKS], smallest, background, f.shape[1], n_bits, effective_bits, start)
        start = HitSample(share, *_usual(made.dimension), start.drift, start.levels)
    return calibrate(
        smallest[:, :RANKS],
        np.take_along_axis(p, hits, axis=1),
        smallest,
        background,
        f.shape[1],
        n_bits,
        effective_bits,
        start,
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
    place, drift = rank_place(z.shape[1]), (0.0, 0.0)
    if z.shape[1] > 2:
        spread = np.log(np.maximum(z.std(axis=0), 1e-3))
        drift = float(np.polyfit(place, z.mean(axis=0), 1)[0]), float(np.polyfit(place, spread, 1)[0])
    level = np.sort(((z - drift[0] * place) / np.exp(drift[1] * place)).ravel())
    # A later query is one of n + 1 alike; the hits of one query are alike too, so n counts queries.
    at = np.clip(LEVELS + (LEVELS - 0.5) / len(z), 0.0, 1.0) * (len(level) - 1)
    levels = np.interp(at, np.arange(len(level)), level)
    return HitSample(sample.share, sample.dimension, sample.spread, drift, levels)


def _share(f: Floats, p: Floats, effective_bits: EffectiveBits) -> float:
    """Variance of the error among each query's exactly nearest items over the expected one."""
    count = min(NEAREST, f.shape[1] // 2)
    near = np.argpartition(p, count, axis=1)[:, :count]
    true = np.take_along_axis(p, near, axis=1)
    error = np.take_along_axis(f, near, axis=1) - true
    expected = true * (1 - true) / effective_bits(true)
    total = float(expected.mean(axis=1).sum())
    return float(np.clip(error.var(axis=1, ddof=1).sum() / total, *_SHARES)) if total > 0 else 1.0


def _usual(dimension: Floats) -> tuple[float, float]:
    """Mean and spread of the logarithm; a spread of 2 where there is but one."""
    u = np.log(dimension)
    return float(u.mean()), max(float(u.std()), 0.2) if len(u) > 1 else 2.0
