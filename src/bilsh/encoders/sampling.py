"""What fitting learns about hits: sampled queries are searched among sampled items whose true distances are known.

A hit is returned because it looks near, so its distance is too small on average. How much, and how sure one can be,
depends on the data; :mod:`bilsh.theory.sampling` learns it from this sample, and :mod:`bilsh.theory.hits` uses it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bilsh import _native
from bilsh.codes import hamming
from bilsh.encoders.calibration import Weights
from bilsh.encoders.coder import Coder
from bilsh.encoders.neighbourhood import MAX_SAMPLE_BYTES, sample_rows
from bilsh.theory.hit_sample import HitSample
from bilsh.theory.sampling import FEWEST_QUERIES, Looked, learn, sample_sizes
from bilsh.theory.scores import score_ratios
from bilsh.types import Floats

_C = TypeVar("_C", bound=Coder)

MAX_MULTIPLY_ADDS = 2**37
"""Bound on the work of encoding the sample; where it allows too few items, nothing is learned."""


def affordable_sample(coder: Coder, n: int) -> tuple[int, int]:
    """Queries and items to sample of n descriptors, within the bounds on memory and work."""
    most = MAX_SAMPLE_BYTES // (8 * coder.n_features), MAX_MULTIPLY_ADDS // coder.projection.multiply_adds
    return sample_sizes(min(n, *most), coder.n_bits)


def with_hits(coder: _C, X: Any, rng: np.random.Generator) -> _C:
    """Return the coder with what a sample of X tells about hits; as it is where X is too small to tell."""
    n_queries, n_items = affordable_sample(coder, X.shape[0])
    if n_queries < FEWEST_QUERIES:
        return coder
    rows = sample_rows(X, n_items, rng).reshape(-1, *coder.input_shape)
    hits, score_hits = learn_hits(coder, rows[:n_queries], rows, np.arange(n_queries))
    return replace(coder, hits=hits, score_hits=score_hits)


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
