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
from bilsh.codes import hamming, unpack
from bilsh.encoders.calibration import Weights
from bilsh.encoders.coder import Coder
from bilsh.encoders.neighbourhood import MAX_SAMPLE_BYTES, sample_rows
from bilsh.theory.sampling import FEWEST_QUERIES, learn, sample_sizes
from bilsh.theory.scores import score_ratios
from bilsh.types import Floats

_C = TypeVar("_C", bound=Coder)

MAX_MULTIPLY_ADDS = 2**37
"""Bound on the work of encoding the sample; where it allows too few items, nothing is learned."""


def with_hits(coder: _C, X: Any, rng: np.random.Generator) -> _C:
    """Return the coder with what a sample of X tells about hits; as it is where X is too small to tell."""
    affordable = min(
        MAX_SAMPLE_BYTES // (8 * coder.n_features), MAX_MULTIPLY_ADDS // coder.projection.multiply_adds
    )
    n_queries, n_items = sample_sizes(min(X.shape[0], affordable), coder.n_bits)
    if n_queries < FEWEST_QUERIES:
        return coder
    rows = sample_rows(X, n_queries + n_items, rng).reshape(-1, *coder.input_shape)
    queries, items = rows[:n_queries], rows[n_queries:]
    calibration, codes = coder.calibration, coder.encode(items)
    values = coder.values(queries)
    exact = calibration.fraction_at(coder.exact(queries, items))
    observed = hamming(coder.quantize(values), codes) / coder.n_bits
    weights, bias = calibration.score_weights(values)
    scores = _native.scores(weights, bias, [codes], 1).astype(np.float64)
    scores = np.hstack([scores, scores.mean(axis=1, keepdims=True)])
    by_score = score_fractions(coder, values, (weights, bias), scores)
    bits = coder.n_bits
    return replace(
        coder,
        hits=learn(observed, exact, observed.mean(axis=1), bits, calibration.effective_bits),
        score_hits=learn(
            by_score[:, :-1], exact, by_score[:, -1], bits, calibration.score_law.effective_bits
        ),
    )


def score_fractions(coder: Coder, values: NDArray[np.float32], weights: Weights, scores: Floats) -> Floats:
    """Fractions of differing bits (q, k) that scores (q, k) of queries with these values and weights stand for."""
    calibration, (weight, bias) = coder.calibration, weights
    own = unpack(coder.quantize(values), coder.n_bits)
    return calibration.score_law.fractions(
        score_ratios(
            scores,
            bias + np.einsum("ij,ij->i", weight, own, dtype=np.float64),
            bias + weight @ calibration.unrelated_bits(),
        )
    )
