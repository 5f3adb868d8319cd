"""Intervals of hits measured on one version of a store: what its codes told of hits, against their exact distances."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.encoders.coder import Coder
from bilsh.encoders.sampling import affordable_sample, learn_hits
from bilsh.estimates.evidence import Evidence, Samples
from bilsh.files import seconds
from bilsh.search.request import Mode
from bilsh.search.results import Neighbors
from bilsh.search.searchable import Asked
from bilsh.store.calibration import Intervals
from bilsh.store.ids import as_names
from bilsh.store.items import pick
from bilsh.store.searching import StoreView
from bilsh.store.snapshot import Snapshot
from bilsh.theory.hit_sample import RANKS, HitSample
from bilsh.types import Floats

QUERIES = 1000
"""Most queries that are used."""

SHOWN = (0, RANKS - 1)
BLOCK_BYTES = 1 << 27

Shares = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Trial:
    """Hits of one way of ranking with their true distances or angles (q, k)."""

    evidence: Evidence
    exact: Floats

    def half(self, rows: slice) -> Trial:
        """Some of the queries."""
        seen = self.evidence
        some = replace(seen, seen=seen.seen.part(rows), picked=seen.picked[rows])
        return Trial(some, self.exact[rows])

    def covered(self, sample: HitSample | None) -> NDArray[np.bool_]:
        """Whether truths lie in 95 % intervals that rest on a sample, for some ranks (q, 2)."""
        made = replace(self.evidence, sample=sample).estimate(None, 0.95)
        inside = (made.interval[..., 0] <= self.exact) & (self.exact <= made.interval[..., 1])
        return np.asarray(inside[:, [min(rank, inside.shape[1] - 1) for rank in SHOWN]])


def measure(
    view: StoreView, snapshot: Snapshot, asked: NDArray[Any] | None, rng: np.random.Generator
) -> Intervals:
    """Search, compare, learn.

    Parameters
    ----------
    view, snapshot
        The version.
    asked : array (q, ...) or None
        Queries; None: items of the store.
    rng : Generator
        Chooses items.
    """
    coder, fitted = view.coder, Samples.of(view.coder)
    base, names = _sampled(view, snapshot, asked, rng), None
    if asked is None:
        numbers, vectors = some_items(snapshot, QUERIES, rng)
        names, asked = snapshot.external_ids(numbers), vectors.reshape(-1, *coder.input_shape)
    modes: tuple[Mode, Mode] = ("hamming", "auto")
    store, trials = Asked(view), []
    for mode in modes:
        hits = (
            store.search(asked, k=RANKS, mode=mode)
            if names is None
            else store.search(ids=names, k=RANKS, mode=mode)
        )
        trials.append(_judged(coder, snapshot, asked, hits))
    by_distance, by_score = trials
    known = base.by_score or fitted.by_score
    first, second = slice(0, None, 2), slice(1, None, 2)
    crossed = [
        by_score.half(one).covered(_learned(by_score.half(other), known))
        for one, other in ((first, second), (second, first))
    ]
    return Intervals(
        _learned(by_distance, base.by_distance or fitted.by_distance),
        _learned(by_score, known),
        len(asked),
        snapshot.n_alive,
        names is None,
        seconds(),
        _shares(by_score.covered(fitted.by_score)),
        _shares(np.concatenate(crossed)),
    )


def some_items(
    snapshot: Snapshot, count: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Numbers and vectors of random living items in random order; all where there are fewer."""
    total = snapshot.n_alive
    chosen = np.sort(rng.choice(total, min(count, total), replace=False))
    numbers, vectors, at = [], [], 0
    for segment in snapshot.segments:
        mine = chosen[(chosen >= at) & (chosen < at + segment.n_alive)] - at
        at += segment.n_alive
        alive = segment.alive_bits(0, len(segment))
        rows = mine if alive is None else np.flatnonzero(alive)[mine]
        numbers.append(np.asarray(segment.ids[rows]))
        vectors.append(segment.file.take("vectors", rows).astype(np.float32))
    order = rng.permutation(len(chosen))
    return np.concatenate(numbers)[order], np.concatenate(vectors)[order]


def _sampled(
    view: StoreView, snapshot: Snapshot, asked: NDArray[Any] | None, rng: np.random.Generator
) -> Samples:
    """What queries tell among a sample of the items: the gain and the noise of the encoder, usual dimensions."""
    coder = view.coder
    n_queries, n_items = affordable_sample(coder, snapshot.n_alive)
    items = some_items(snapshot, n_items, rng)[1].reshape(-1, *coder.input_shape)
    if asked is None:
        found = learn_hits(coder, items[:n_queries], items, np.arange(min(n_queries, len(items))))
    else:
        found = learn_hits(coder, np.asarray(asked[:n_queries], dtype=np.float32), items)
    return Samples(*found)


def _judged(coder: Coder, snapshot: Snapshot, asked: NDArray[Any], hits: Neighbors) -> Trial:
    """Hits with their exact distances, by the vectors that are kept."""
    if not isinstance(hits.evidence, Evidence):
        raise TypeError("hits without evidence of their bits cannot be judged.")
    exact, kind = np.empty(hits.ids.shape), snapshot.manifest.id_kind
    step = max(1, BLOCK_BYTES // (4 * coder.n_features * max(1, hits.ids.shape[1])))
    for start in range(0, len(asked), step):
        ids = hits.ids[start : start + step]
        kept = pick(snapshot, as_names(ids.ravel(), kind, unique=False)).vectors
        vectors = np.asarray(kept, dtype=np.float32).reshape(*ids.shape, *coder.input_shape)
        for at, own in enumerate(vectors, start):
            exact[at] = coder.exact(np.asarray(asked[at : at + 1], dtype=np.float32), own)[0]
    return Trial(hits.evidence, exact)


def _learned(trial: Trial, base: HitSample | None) -> HitSample:
    return trial.evidence.learn(trial.exact, base)


def _shares(inside: NDArray[np.bool_]) -> Shares:
    first, last = inside.mean(axis=0)
    return float(first), float(last)
