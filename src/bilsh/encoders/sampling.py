"""What fitting learns about hits: sampled queries are searched among items whose true distances are known.

A hit is returned because it looks near, so its distance is too small on average. How much, and how sure one can be,
depends on the data; :mod:`bilsh.theory.sampling` learns it from this sample, and :mod:`bilsh.theory.hits` uses it.

Noise is learned from sampled items, all against all. Where the data are more than these, the queries are then searched
among all of them, as far as that is affordable: of a cluster of twenty among 60,000 items, a sample of a few thousand
holds one or two, and says nothing of how the twenty crowd around a query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bilsh import _native
from bilsh.codes import hamming
from bilsh.encoders.calibration import Weights
from bilsh.encoders.coder import Coder
from bilsh.encoders.neighbourhood import MAX_SAMPLE_BYTES, choose_rows, take_rows
from bilsh.theory.hit_sample import RANKS, HitSample
from bilsh.theory.hits import EffectiveBits, window_size
from bilsh.theory.sampling import FEWEST_QUERIES, Looked, learn, learn_again, sample_sizes
from bilsh.theory.scores import score_ratios
from bilsh.types import Floats

_C = TypeVar("_C", bound=Coder)

MAX_MULTIPLY_ADDS = 2**37
"""Bound on the work of encoding the sample; where it allows too few items, nothing is learned."""

ALL_MULTIPLY_ADDS, ALL_BITS, ALL_ROWS = 2**34, 2**27, 2**17
"""Bounds on encoding, on scanning and on reading the data among which the sampled queries are searched."""

BLOCK = 8192
"""Rows that are encoded and looked at together."""

Turn = Callable[[Floats], Floats]


def affordable_sample(coder: Coder, n: int) -> tuple[int, int]:
    """Queries and items to sample of n descriptors, within the bounds on memory and work."""
    most = MAX_SAMPLE_BYTES // (8 * coder.n_features), MAX_MULTIPLY_ADDS // coder.projection.multiply_adds
    return sample_sizes(min(n, *most), coder.n_bits)


def with_hits(coder: _C, X: Any, rng: np.random.Generator) -> _C:
    """Return the coder with what a sample of X tells about hits; as it is where X is too small to tell."""
    n_queries, n_items = affordable_sample(coder, X.shape[0])
    if n_queries < FEWEST_QUERIES:
        return coder
    chosen = choose_rows(X.shape[0], n_items, rng)
    rows = take_rows(X, chosen).reshape(-1, *coder.input_shape)
    queries = rows[:n_queries]
    found = learn_hits(coder, queries, rows, np.arange(n_queries))
    if n_items < min(X.shape[0], _affordable_rows(coder)):
        found = _among_all(coder, X, queries, chosen[:n_queries], found, rng)
    return replace(coder, hits=found[0], score_hits=found[1])


def learn_hits(
    coder: Coder,
    queries: NDArray[np.float32],
    items: NDArray[np.float32],
    own: NDArray[np.int64] | None = None,
) -> tuple[HitSample | None, HitSample | None]:
    """What queries among items tell about hits ranked by distances, and by scores.

    Parameters
    ----------
    coder : Coder
    queries, items : arrays (q, ...) and (n, ...)
    own : integer array (q,), optional
        Which item each query is: it is not among its own neighbours. None: no query is an item.
    """
    calibration, codes = coder.calibration, coder.encode(items)
    bits, law, values = coder.n_bits, calibration.score_law, coder.values(queries)
    weights = calibration.score_weights(values)
    truths = Looked(_others(coder.exact(queries, items), own), calibration.fraction_at)
    counts = _others(hamming(coder.quantize(values), codes), own)
    scores = _others(_native.scores(*weights, [codes], 1), own)

    def scored(worst_last: Floats) -> Floats:
        return score_fractions(coder, values, weights, -worst_last)

    mean_scores = scores.mean(axis=1, dtype=np.float64, keepdims=True)
    by_distance, by_score = Looked(counts, lambda some: some / bits), Looked(-scores, scored)
    return (
        learn(by_distance, truths, counts.mean(axis=1) / bits, bits, calibration.effective_bits),
        learn(by_score, truths, scored(-mean_scores)[:, 0], bits, law.effective_bits),
    )


def _affordable_rows(coder: Coder) -> int:
    """How many items the sampled queries may be searched among."""
    return min(ALL_MULTIPLY_ADDS // coder.projection.multiply_adds, ALL_BITS // coder.n_bits, ALL_ROWS)


def _among_all(
    coder: Coder,
    X: Any,
    queries: NDArray[np.float32],
    chosen: NDArray[np.int64],
    known: tuple[HitSample | None, HitSample | None],
    rng: np.random.Generator,
) -> tuple[HitSample | None, HitSample | None]:
    """Learn anew from the hits of queries, rows `chosen` of X, among all other rows, or as many as are affordable."""
    calibration, bits = coder.calibration, coder.n_bits
    most = _affordable_rows(coder)
    others = np.setdiff1d(np.arange(X.shape[0]), chosen, assume_unique=True)
    if most < len(others):
        others = np.sort(rng.choice(others, most, replace=False))
    values = coder.values(queries)
    weights = calibration.score_weights(values)
    codes = coder.quantize(values)
    by_distance, by_score = (_Best(len(queries), window_size(len(others))) for _ in range(2))
    for start in range(0, len(others), BLOCK):
        rows = others[start : start + BLOCK]
        block = coder.encode(take_rows(X, rows).reshape(-1, *coder.input_shape), n_jobs=1)
        by_distance.see(hamming(codes, block).astype(np.float64), rows)
        by_score.see(-_native.scores(*weights, [block], 1).astype(np.float64), rows)

    def learned(
        sample: HitSample | None, best: _Best, fractions: Turn, worth: EffectiveBits
    ) -> HitSample | None:
        if sample is None:
            return None
        exact = [
            coder.exact(query[None], take_rows(X, rows).reshape(-1, *coder.input_shape))[0]
            for query, rows in zip(queries, best.rows[:, :RANKS], strict=True)
        ]
        background = fractions(best.total[:, None] / len(others))[:, 0]
        truths = calibration.fraction_at(np.array(exact))
        return learn_again(sample, truths, fractions(best.values), background, len(others), bits, worth)

    return (
        learned(known[0], by_distance, lambda counts: counts / bits, calibration.effective_bits),
        learned(
            known[1],
            by_score,
            lambda worst_last: score_fractions(coder, values, weights, -worst_last),
            calibration.score_law.effective_bits,
        ),
    )


class _Best:
    """The smallest of a stream of numbers for each query, the rows that they belong to, and the sum of all."""

    def __init__(self, n_queries: int, count: int) -> None:
        self.count = count
        self.values = np.empty((n_queries, 0))
        self.rows = np.empty((n_queries, 0), dtype=np.int64)
        self.total = np.zeros(n_queries)

    def see(self, values: Floats, rows: NDArray[np.int64]) -> None:
        """Look at the numbers (q, n) of n more rows."""
        self.total += values.sum(axis=1)
        order = _native.smallest(values, min(self.count, values.shape[1]))
        values = np.concatenate([self.values, np.take_along_axis(values, order, axis=1)], axis=1)
        found = np.concatenate([self.rows, rows[order]], axis=1)
        order = _native.smallest(values, min(self.count, values.shape[1]))
        self.values, self.rows = (np.take_along_axis(one, order, axis=1) for one in (values, found))


def _others(array: NDArray[Any], own: NDArray[np.int64] | None) -> NDArray[Any]:
    """Rows (q, n) without their entry in column own[row], where the last one takes its place: (q, n - 1)."""
    if own is None:
        return array
    array[np.arange(len(array)), own] = array[:, -1]
    return array[:, :-1]


def score_fractions(coder: Coder, values: NDArray[np.float32], weights: Weights, scores: Floats) -> Floats:
    """Fractions of differing bits (q, k) that scores (q, k) of queries with these values and weights stand for."""
    calibration, (weight, bias) = coder.calibration, weights
    codes = coder.quantize(values)
    own = _native.score_rows(weight, bias, [codes], np.arange(len(codes))[:, None], 1)[:, 0]
    return calibration.score_law.fractions(
        score_ratios(
            scores,
            own.astype(np.float64),
            bias + np.einsum("ij,j->i", weight, calibration.unrelated_bits()),
        )
    )
