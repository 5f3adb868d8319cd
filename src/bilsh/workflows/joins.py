"""A store against itself: the nearest neighbours of every item, and all pairs that are closer than a limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.encoders.euclidean_coder import EuclideanCoder, require_hamming
from bilsh.errors import InvalidInputError
from bilsh.estimates.intervals import estimate_fractions, pair_ends
from bilsh.search.estimated import query_of
from bilsh.search.modes import Query
from bilsh.search.pairs import blocks_of, living_rows, pairs_of_block, radii
from bilsh.search.request import Mode, Request
from bilsh.store import Store
from bilsh.types import Progress
from bilsh.workflows.parts import Columns, Parts

ITEMS = 2048
"""Items whose neighbours are one part of a graph."""

BLOCKS = 16
"""Blocks of rows whose pairs are one part."""


@dataclass(frozen=True, slots=True)
class Joined:
    """What was written.

    Attributes
    ----------
    rows : int
        Items of a graph, or pairs.
    resumed_at : int
        Part at which a run that was cut off went on, 0 for a new one.
    notes : tuple of str
        What there is to know of it.
    radius : int or None
        Most differing bits of a pair.
    """

    rows: int
    resumed_at: int
    notes: tuple[str, ...] = ()
    radius: int | None = None


def graph(
    store: Store,
    output: Path,
    *,
    k: int = 10,
    recall: float = 1.0,
    overwrite: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Joined:
    """Write the k nearest neighbours of every item by their codes: ids, neighbors (n, k), distances (n, k).

    Distances are differing bits; of learned codes the estimates of the distance from what an item's code stands for.

    Parameters
    ----------
    store : Store
    output : path
        .npz or .parquet.
    k : int
        Fewer where there are fewer other items.
    recall : float
        1 is exact; less is promised where the store has cells.
    overwrite : bool
    jobs : int
    progress : callable (what, done, total), optional
    """
    k = min(k, len(store) - 1)
    if k < 1:
        raise InvalidInputError(f"neighbours need two items; {store.path} holds {len(store)}.")
    view = store._view()
    blocks = blocks_of(view.segments, ITEMS)
    coder = store.coder
    learned = coder if isinstance(coder, EuclideanCoder) else None
    mode: Mode = "progressive" if learned is None else "auto"
    request = Request(k + 1, mode=mode, recall=recall, n_jobs=jobs)
    kind = np.int32 if learned is None else np.float32
    notes: dict[str, None] = {}

    def part(number: int) -> Columns:
        ids, codes = living_rows(view.segments, blocks[number])
        query = Query(codes) if learned is None else query_of(learned, None, codes, None)
        found = view.answer(query, request, None)[0]
        told = found.explanation
        if told is not None and recall < 1:
            notes.update(dict.fromkeys([*([str(told.promise)] if told.promise else []), *told.notes]))
        others = found.without(ids, k)
        near = np.asarray(others.ids).reshape(len(ids), k)
        return {
            "ids": _plain(view.names(ids)),
            "neighbors": _plain(view.names(near)),
            "distances": np.asarray(others.distances, dtype=kind).reshape(len(ids), k),
        }

    job = _job(store, what="graph", k=k, recall=recall)
    rows, begun = _in_parts(output, job, len(blocks), part, _counted(progress, "neighbours"), overwrite)
    return Joined(rows, begun, tuple(notes)[:5])


def duplicates(
    store: Store,
    output: Path,
    *,
    radius: int | None = None,
    similarity: float | None = None,
    confidence: float = 0.95,
    overwrite: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Joined:
    """Write all pairs of items whose codes differ in few bits, each pair once: a, b, distances. Exact.

    Parameters
    ----------
    store : Store
    output : path
        .npz or .parquet.
    radius : int, optional
        Most differing bits. Either this or `similarity` is given.
    similarity : float, optional
        Pairs whose similarity is at least this, as far as their codes can tell: the lower end of the interval.
    confidence : float
        Of that interval, for one pair.
    overwrite : bool
    jobs : int
    progress : callable (what, done, total), optional
    """
    require_hamming(
        store.coder,
        "There are no radii in bits for them: write distances by `bilsh graph`, or encode by `--method angle`.",
    )
    if (radius is None) == (similarity is None):
        raise InvalidInputError("give either a radius in bits or a similarity.")
    if radius is None:
        radius = radius_for(store.coder, float(similarity or 0.0), confidence)
    if not 0 <= radius <= store.n_bits:
        raise InvalidInputError(f"the radius must be from 0 to {store.n_bits} bits; got {radius}.")
    view = store._view()
    segments = view.segments
    blocks = blocks_of(segments)
    count = -(-len(blocks) // BLOCKS)
    wide = radius

    @cache
    def reach() -> list[Any]:
        return [radii(segment) for segment in segments]

    def part(number: int) -> Columns:
        found: list[Any] = []
        for block in blocks[number * BLOCKS : (number + 1) * BLOCKS]:
            found += pairs_of_block(segments, block, wide, reach(), jobs)
        nothing = np.empty(0, dtype=np.int64)
        found.append((nothing, nothing, nothing.astype(np.int32)))
        a, b, far = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.lexsort((b, a, far))
        one, other = (_plain(view.names(ids[order])) for ids in (a, b))
        return {"a": one, "b": other, "distances": far[order]}

    job = _job(store, what="duplicates", radius=radius)
    rows, begun = _in_parts(output, job, count, part, _counted(progress, "rows compared"), overwrite)
    return Joined(rows, begun, radius=radius)


def radius_for(coder: Any, similarity: float, confidence: float) -> int:
    """Most differing bits with which a pair is surely at least so similar."""
    if not coder.tells:
        raise InvalidInputError("these codes tell no similarity: give the radius in bits instead.")
    fractions = np.arange(coder.n_bits // 2 + 1) / coder.n_bits
    ends = pair_ends(fractions, coder, confidence)
    told = estimate_fractions(fractions, ends, coder, of=coder.calibration.similarity)
    good = np.flatnonzero(told.interval[:, 0] >= similarity)
    if not len(good):
        raise InvalidInputError(
            f"codes of {coder.n_bits} bits cannot tell that a pair has a {coder.calibration.similarity} of "
            f"{similarity:g}: even equal codes leave {told.interval[0, 0]:.3f} open. Ask for less, or with less "
            "confidence."
        )
    return int(good[-1])


def _in_parts(
    output: Path,
    job: dict[str, Any],
    count: int,
    part: Callable[[int], Columns],
    progress: Callable[[int, int], None] | None,
    overwrite: bool,
) -> tuple[int, int]:
    """Write an output part by part; return its rows, and at which part the run began."""
    parts = Parts(output, job, overwrite=overwrite)
    begun = parts.make(count, part, progress)
    return parts.finish(), begun


def _job(store: Store, **settings: Any) -> dict[str, Any]:
    return {"fingerprint": store.fingerprint, "version": store.version, "items": len(store), **settings}


def _counted(progress: Progress | None, what: str) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, total: progress(what, done, total)


def _plain(ids: NDArray[Any]) -> NDArray[Any]:
    """Ids as a file without pickles holds them."""
    return ids.astype(np.str_) if ids.dtype == object else ids
