"""Scans over segments of codes: each segment by the compiled core, the answers merged, ties by id.

A segment is anything with slabs (parts of the codes, each a matrix), ids, an alive bitmap and perhaps vectors: a
store's segment, or codes in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from time import perf_counter
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bilsh import _native
from bilsh.codes import Codes
from bilsh.search.cells import Cells
from bilsh.search.estimated_promise import EstimatedTrial
from bilsh.search.estimated_visiting import KnownPlaces
from bilsh.search.frequencies import frequencies_among, frequencies_of_all
from bilsh.search.places import PlaceCells
from bilsh.search.pruning import prefix_limits
from bilsh.search.trial import Trial
from bilsh.search.visiting import Known, by_cells
from bilsh.search.wishes import Wish
from bilsh.theory.sampling import differing_share

Ids = NDArray[np.int64]
Found = tuple[Ids, NDArray[Any]]
SEEDS = 3
"""Items per wanted neighbour whose full distances are computed first, for a first bound."""

MIN_ROWS = 2048
"""Smaller segments are scanned as a whole."""

AS_A_WHOLE = "short codes and few rows are scanned as a whole"
SAMPLE_QUERIES = 4
WORTHWHILE = 0.6
"""Share of a full scan's bytes up to which a progressive search pays: it reads them less evenly."""


class Segment(Protocol):
    """What a scan needs of a segment."""

    @property
    def slabs(self) -> Sequence[Codes]:
        """Codes (n, width) of all rows, slab by slab."""

    @property
    def ids(self) -> Ids:
        """Id of each row."""

    @property
    def alive(self) -> Codes | None:
        """Packed bitmap of living rows, None when all are."""

    @property
    def vectors(self) -> NDArray[Any] | None:
        """Vectors (n, d) of all rows, None when they are not kept."""

    @property
    def cells(self) -> Cells | None:
        """Where cells lie when rows are in their order, None when they are not."""

    @property
    def places(self) -> PlaceCells | None:
        """The same for learned codes."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What searches found out about segments, kept by the index or store that they searched.

    Attributes
    ----------
    pays : by segment, then by k and delta
        Whether prefixes paid: what single queries cannot sample for themselves.
    frequencies : by segment
        How often each bit is 1, in a sample of its rows.
    orders : by segment
        Rows in the order of their ids; None where they are already.
    known : by segment
        What cells have been found to promise.
    places : by segment
        What cells of learned codes have been found to promise.
    trials : by file
        What promises rest on, as kept in files.
    """

    pays: WeakKeyDictionary[Any, dict[tuple[int, float], bool]] = field(default_factory=WeakKeyDictionary)
    frequencies: WeakKeyDictionary[Any, NDArray[np.float64]] = field(default_factory=WeakKeyDictionary)
    orders: WeakKeyDictionary[Any, Ids | None] = field(default_factory=WeakKeyDictionary)
    known: WeakKeyDictionary[Any, Known] = field(default_factory=WeakKeyDictionary)
    places: WeakKeyDictionary[Any, KnownPlaces] = field(default_factory=WeakKeyDictionary)
    trials: WeakKeyDictionary[Any, Trial | EstimatedTrial | None] = field(default_factory=WeakKeyDictionary)

    def rows_of(self, segment: Segment, ids: Ids) -> tuple[Ids, NDArray[np.bool_]]:
        """Row of each id in a segment, and whether it is there (row 0 where it is not)."""
        known = segment.ids
        if len(known) == 0:
            return np.zeros(ids.shape, dtype=np.int64), np.zeros(ids.shape, dtype=np.bool_)
        if segment not in self.orders:
            ascending = bool((known[1:] > known[:-1]).all())
            self.orders[segment] = None if ascending else np.argsort(known, kind="stable")
        order = self.orders[segment]
        if order is None and int(known[-1]) - int(known[0]) == len(known) - 1:  # ids without a gap
            rows = ids - known[0]
            here = (rows >= 0) & (rows < len(known))
            return np.where(here, rows, 0), here
        at = np.minimum(np.searchsorted(known, ids, sorter=order), len(known) - 1)
        rows = at if order is None else order[at]
        here = known[rows] == ids
        return np.where(here, rows, 0), here


@dataclass(slots=True)
class Tally:
    """Work done, by name of stage, in the order of first use."""

    work: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, items: float, n_bytes: float, seconds: float) -> None:
        """Add to a stage."""
        entry = self.work.get(name)
        if entry is None:
            self.work[name] = [items, n_bytes, seconds]
        else:
            entry[0] += items
            entry[1] += n_bytes
            entry[2] += seconds


@dataclass(slots=True)
class Scan:
    """Segments with the rows that count.

    Attributes
    ----------
    segments : sequence of Segment
    alive : sequence of packed bitmaps, or None where all rows count
    n_bits : int
    n_jobs : int
    memory : Memory
        Whether prefixes paid before, kept by the index or store that is searched.
    tally : Tally
    wish : Wish or None
        A recall that was asked for: cells need not all be read.
    filtered : bool
        Whether a filter was set; else all living rows count.
    counted : array (n_bits,) or None
        What :meth:`frequencies` has found.
    n_items : int
        Rows of all segments.
    """

    segments: Sequence[Segment]
    alive: Sequence[Codes | None]
    n_bits: int
    n_jobs: int
    memory: Memory
    tally: Tally
    wish: Wish | None
    filtered: bool = field(default=False, init=False)
    counted: NDArray[np.float64] | None = field(default=None, init=False)
    n_items: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        for segment in self.segments:
            self.n_items += len(segment.ids)

    @property
    def n_counted(self) -> int:
        """Rows that count."""
        n = self.n_items
        for part, alive in enumerate(self.alive):
            if alive is not None:
                n += int(np.bitwise_count(alive).sum(dtype=np.int64)) - len(self.segments[part].ids)
        return n

    def frequencies(self) -> NDArray[np.float64]:
        """How often each bit (n_bits,) is 1 in the rows that are searched, by a sample."""
        if self.counted is None:
            self.counted = frequencies_among(self) if self.filtered else self.frequencies_of_all()
        return self.counted

    def frequencies_of_all(self) -> NDArray[np.float64]:
        """The same in all rows, whatever a filter leaves of them."""
        return frequencies_of_all(self)

    def differing_share(self) -> float:
        """Bound the share of the noise that differs between the rows that are searched; 1 without a filter."""
        return differing_share(self.frequencies(), self.frequencies_of_all()) if self.filtered else 1.0

    def top_k(self, queries: Codes, k: int) -> Found:
        """Nearest k of all rows, by a full scan."""
        return self._full(queries, k, range(len(self.segments)), None)

    def _full(self, queries: Codes, k: int, parts: Iterable[int], before: Found | None) -> Found:
        """Nearest k of some segments and of those found before; a segment is read knowing what the others had."""
        for part in parts:
            before = self.full(queries, k, part, before)
        return merged([], k, len(queries)) if before is None else before

    def full(self, queries: Codes, k: int, part: int, before: Found | None = None) -> Found:
        """Nearest k of one segment and of those found before, by a full scan."""
        segment, start = self.segments[part], perf_counter()
        found = _native.hamming_top_k(
            queries, segment.slabs, k, _ids(segment), self.alive[part], self.n_jobs, before
        )
        pairs = len(queries) * len(segment.ids)
        self.tally.add("full scan", pairs, pairs * queries.shape[1], perf_counter() - start)
        return found

    def within(self, queries: Codes, radius: int) -> tuple[list[Ids], list[NDArray[np.int32]]]:
        """All rows within a radius, one array per query."""
        ids: list[list[Ids]] = [[] for _ in queries]
        distances: list[list[NDArray[np.int32]]] = [[] for _ in queries]
        for segment, alive in zip(self.segments, self.alive, strict=True):
            start = perf_counter()
            ends, found, far = _native.hamming_within(
                queries, segment.slabs, radius, _ids(segment), alive, self.n_jobs
            )
            for query in range(len(queries)):
                ids[query].append(found[ends[query] : ends[query + 1]])
                distances[query].append(far[ends[query] : ends[query + 1]])
            pairs = len(queries) * len(segment.ids)
            self.tally.add("full scan", pairs, pairs * queries.shape[1], perf_counter() - start)
        return _joined(ids, distances)

    def progressive(self, queries: Codes, k: int, delta: float) -> tuple[Found, str]:
        """Nearest k by prefixes where that pays; and how it was decided."""
        if len(self.segments) == 1:
            return self._by_prefixes(queries, k, delta, 0)
        large = [part for part in range(len(self.segments)) if not self._small(part)]
        answers = [self._by_prefixes(queries, k, delta, part) for part in large]
        reasons = {reason for _, reason in answers}
        found = merged([found for found, _ in answers], k, len(queries)) if answers else None
        small = [part for part in range(len(self.segments)) if self._small(part)]
        if small:
            reasons.add(AS_A_WHOLE)
        return self._full(queries, k, small, found), "; ".join(sorted(reasons))

    def _small(self, part: int) -> bool:
        """Whether a segment has too little to be read by prefixes or cells."""
        segment = self.segments[part]
        if self.wish is not None and segment.cells is not None:
            return False
        return len(segment.slabs) < 2 or len(segment.ids) < MIN_ROWS

    def _by_prefixes(self, queries: Codes, k: int, delta: float, part: int) -> tuple[Found, str]:
        """Nearest k of one segment. The first queries of a batch, or earlier ones, tell whether prefixes pay."""
        segment = self.segments[part]
        if self.wish is not None:
            found = by_cells(self, self.wish, part, queries, k)
            if found is not None:
                return found, "cells near the query are read, as many as the recall takes"
        if len(segment.slabs) < 2 or len(segment.ids) < MIN_ROWS:
            return self.full(queries, k, part), AS_A_WHOLE
        memory = self.memory.pays.setdefault(segment, {})
        pays = memory.get((k, delta))
        # A few queries cannot spare a sample: they go all by prefixes, and later ones know.
        sample = SAMPLE_QUERIES if pays is None and len(queries) > 2 * SAMPLE_QUERIES else len(queries)
        if pays is False:
            return self.full(queries, k, part), "distances are too concentrated for prefixes, as seen before"
        first, share = self._prefixes(queries[:sample], k, delta, part)
        pays = memory[k, delta] = share <= WORTHWHILE
        if pays:
            reason = f"prefixes lose one of the nearest codes with probability at most {delta:g}"
        else:
            reason = f"distances are too concentrated: {sample} queries read {share:.0%} of all by prefixes"
        if sample == len(queries):
            return first, reason
        others = queries[sample:]
        rest = self._prefixes(others, k, delta, part)[0] if pays else self.full(others, k, part)
        return (np.concatenate([first[0], rest[0]]), np.concatenate([first[1], rest[1]])), reason

    def _prefixes(self, queries: Codes, k: int, delta: float, part: int) -> tuple[Found, float]:
        """Progressive top-k of one segment, and its share of a full scan's bytes."""
        segment, start = self.segments[part], perf_counter()
        slabs = segment.slabs
        ends = tuple(accumulate(8 * slab.shape[1] for slab in slabs))
        limits = prefix_limits(self.n_bits, ends[:-1], delta)
        ids, distances, effort = _native.progressive_top_k(
            queries, slabs, k, limits, SEEDS * k, _ids(segment), self.alive[part], self.n_jobs
        )
        survivors, n_bytes, seconds = (effort[name].tolist() for name in ("survivors", "bytes", "seconds"))
        seconds[0] += perf_counter() - start - sum(seconds)
        for end, *work in zip(ends, survivors, n_bytes, seconds, strict=True):
            self.tally.add(f"bits up to {min(end, self.n_bits)}", *work)
        whole = len(queries) * len(segment.ids) * queries.shape[1]
        return (ids, distances), sum(n_bytes) / whole if whole else 0.0

    def best_scores(self, weights: NDArray[np.float32], bias: NDArray[np.float32], k: int) -> Found:
        """Rows with the k largest scores of all."""
        parts = []
        for segment, alive in zip(self.segments, self.alive, strict=True):
            start = perf_counter()
            ids, scores = _native.score_top_k(
                weights, bias, segment.slabs, k, _ids(segment), alive, self.n_jobs
            )
            parts.append((ids, -scores))
            pairs = len(weights) * len(segment.ids)
            self.tally.add("asymmetric scores", pairs, pairs * -(-self.n_bits // 8), perf_counter() - start)
        ids, scores = merged(parts, k, len(weights))
        return ids, -scores

    def scores_of(
        self, weights: NDArray[np.float32], bias: NDArray[np.float32], ids: Ids
    ) -> NDArray[np.float32]:
        """Scores of given ids (q, c), each of which is in one of the segments."""
        result = np.empty(ids.shape, dtype=np.float32)
        start = perf_counter()
        for segment, rows, here in self.rows_of(ids):
            if here.all():
                result = _native.score_rows(weights, bias, segment.slabs, rows, self.n_jobs)
                break
            if here.any():
                scores = _native.score_rows(
                    weights, bias, segment.slabs, np.where(here, rows, 0), self.n_jobs
                )
                result[here] = scores[here]
        self.tally.add(
            "scores of candidates", ids.size, ids.size * -(-self.n_bits // 8), perf_counter() - start
        )
        return result

    def distances_of(self, queries: Codes, ids: Ids) -> NDArray[np.int32]:
        """Hamming distances of given ids (q, c)."""
        result = np.zeros(ids.shape, dtype=np.int32)
        for segment, rows, here in self.rows_of(ids):
            at = 0
            for slab in segment.slabs:
                part = np.repeat(queries[:, at : at + slab.shape[1]], here.sum(axis=1), axis=0)
                result[here] += np.bitwise_count(slab[rows[here]] ^ part).sum(axis=1, dtype=np.int32)
                at += slab.shape[1]
        return result

    def vectors_of(self, ids: Ids) -> NDArray[Any]:
        """Kept vectors of given ids (c,)."""
        result: NDArray[Any] | None = None
        for segment, rows, here in self.rows_of(ids):
            kept = segment.vectors
            if kept is not None and here.any():
                chosen = kept[rows[here]]
                if result is None:
                    result = np.empty((*ids.shape, chosen.shape[1]), dtype=chosen.dtype)
                result[here] = chosen
        return np.empty((*ids.shape, 0)) if result is None else result

    def rows_of(self, ids: Ids) -> Any:
        """Each segment with the rows of the ids and where they are its own."""
        for segment, alive in zip(self.segments, self.alive, strict=True):
            rows, here = self.memory.rows_of(segment, ids)
            if alive is not None and rows.size:
                here &= (alive[rows // 8] >> (rows % 8).astype(np.uint8) & 1).astype(np.bool_)
            yield segment, rows, here


def _ids(segment: Segment) -> Ids:
    ids = segment.ids
    plain = ids.dtype == np.int64 and ids.flags.c_contiguous
    return ids if plain else np.ascontiguousarray(ids, dtype=np.int64)


def merged(parts: Sequence[Found], k: int, n_queries: int) -> Found:
    """Best k of the answers of several segments, by (distance, id)."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return np.empty((n_queries, 0), dtype=np.int64), np.empty((n_queries, 0), dtype=np.int32)
    ids = np.concatenate([ids for ids, _ in parts], axis=1)
    distances = np.concatenate([distances for _, distances in parts], axis=1)
    order = np.lexsort((ids, distances), axis=1)[:, :k]
    return np.take_along_axis(ids, order, axis=1), np.take_along_axis(distances, order, axis=1)


def _joined(
    ids: list[list[Ids]], distances: list[list[NDArray[np.int32]]]
) -> tuple[list[Ids], list[NDArray[np.int32]]]:
    all_ids, all_distances = [], []
    for parts, far in zip(ids, distances, strict=True):
        joined = np.concatenate([*parts, np.empty(0, dtype=np.int64)])
        joined_far = np.concatenate([*far, np.empty(0, dtype=np.int32)])
        order = np.lexsort((joined, joined_far))
        all_ids.append(joined[order])
        all_distances.append(joined_far[order])
    return all_ids, all_distances
