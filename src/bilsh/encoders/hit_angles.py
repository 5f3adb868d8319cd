"""What the hits of a sample tell at fit about intervals of learned codes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bilsh.encoders.euclidean_coder import EuclideanCoder
from bilsh.encoders.fitting import Sample
from bilsh.theory.error_angles import AngleTable, cosine_at
from bilsh.types import Values

HITS = 10
"""Hits of each sampled query from which angles of errors are learned."""
BLOCK = 2**24
"""Numbers of such hits that are looked at together."""


def with_angles(coder: EuclideanCoder, apart: EuclideanCoder, sample: Sample) -> EuclideanCoder:
    """Return the coder with what the sample's hits tell about angles of errors.

    Parameters
    ----------
    coder : EuclideanCoder
    apart : EuclideanCoder
        The same, learned from nothing but the rows of ``sample.apart()``. Many centres leave more of items that they
        were not learned from, in other directions: intervals hold for hits of either kind.
    sample : Sample
    """
    # As many items as there are: the more of them, the nearer and the luckier are the hits.
    every = sample.items if sample.items is sample.train else np.concatenate([sample.items, sample.train])
    table = angles_of(coder, every, sample.queries)
    others = sample.apart()
    if table is not None and coder.transform.n_centres > 1 and others.items is not others.train:
        theirs = angles_of(apart, others.items, sample.queries)
        table = table if theirs is None else table.holding(theirs)
    return replace(coder, angles=table)


def angles_of(coder: EuclideanCoder, items: Values, asked: Values) -> AngleTable | None:
    """What hits of some queries among some items tell; None where they are too few."""
    codes = coder.encode(items)
    k = min(HITS, len(codes) // 5)
    if k < 1:
        return None
    queries = np.ascontiguousarray(asked)
    ids = coder.compiled.top_k(queries, [codes], k)[0]
    chosen = codes[ids.ravel()]
    distance, true = np.empty((2, len(chosen)))
    # Some queries at a time: all their hits in float64 would take more memory than the sample.
    block = max(1, BLOCK // (k * items.shape[1]))
    for start in range(0, len(queries), block):
        hits, some = ids[start : start + block], queries[start : start + block, None].astype(np.float64)
        here = slice(start * k, start * k + hits.size)
        stand = coder.decode(chosen[here]).reshape(*hits.shape, -1)
        distance[here] = np.sqrt(np.square(some - stand).sum(axis=2)).ravel()
        true[here] = np.sqrt(np.square(some - items[hits]).sum(axis=2)).ravel()
    error = coder.errors(chosen)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios, cosines = distance / error, cosine_at(distance, error, true)
    return AngleTable.of(ratios.reshape(ids.shape), cosines.reshape(ids.shape), len(codes))
