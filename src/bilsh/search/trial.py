"""Trial queries: items, each without itself, or queries that were given, and the rows that are nearest to them.

Items draw centres nearer to themselves than new queries are, so trial queries are items that cells were not learned
from: of 67,000 MNIST codes of 1,024 bits, asked for .95, these made .958 be found, and those that cells were learned
from .954 (means of eight draws, the difference +-.001).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bilsh import _native
from bilsh.codes import Codes
from bilsh.files import seconds
from bilsh.search.cells import held_out, whole
from bilsh.types import Progress

QUERIES = 2000
NEIGHBOURS = 200
TOGETHER = 250
"""Queries that are looked at together."""


@dataclass(frozen=True, eq=False, slots=True)
class Trial:
    """Queries whose nearest rows are known.

    Attributes
    ----------
    codes : uint8 array (n, n_bytes)
    near : int64 array (n, m)
        Rows of the nearest codes, without the query itself.
    own : int64 array (n,)
        Row of each query that is an item; -1 for others.
    time : int
        When it was made, in seconds since 1970.
    """

    codes: Codes
    near: NDArray[np.int64]
    own: NDArray[np.int64]
    time: int

    @property
    def source(self) -> Literal["items", "given"]:
        """Where the queries come from."""
        return "given" if len(self.own) and self.own[0] < 0 else "items"

    def __len__(self) -> int:
        return len(self.codes)

    def part(self, begin: int, end: int) -> Trial:
        """Some of the queries, which are in random order."""
        some = slice(begin, end)
        return Trial(self.codes[some], self.near[some], self.own[some], self.time)


def held_out_rows(ids: NDArray[np.int64], alive: Codes | None, most: int, seed: int) -> NDArray[np.int64]:
    """Some living rows that cells were not learned from, ascending."""
    chosen, n_living = held_out(ids), len(ids)
    if alive is not None:
        living = np.unpackbits(alive, count=len(ids), bitorder="little").astype(np.bool_)
        chosen, n_living = chosen & living, int(living.sum())
    rows = np.flatnonzero(chosen)
    # A single row has no neighbours: nothing is asked.
    count = min(most, len(rows)) if n_living > 1 else 0
    return np.sort(np.random.default_rng(seed).choice(rows, count, replace=False))


def try_items(
    slabs: Sequence[Codes],
    alive: Codes | None,
    ids: NDArray[np.int64],
    *,
    n_neighbours: int = NEIGHBOURS,
    n_jobs: int = 1,
    seed: int = 1,
    progress: Progress | None = None,
) -> Trial:
    """Make a trial of living rows that cells were not learned from, each without itself: an exact scan for each."""
    own = held_out_rows(ids, alive, QUERIES, seed)
    n_living = len(ids) if alive is None else int(np.bitwise_count(alive).sum())
    # The order of trial queries is random: halves of them are compared.
    own = np.random.default_rng(seed + 1).permutation(own)
    codes = whole(slabs, own)
    near = _nearest_rows(codes, slabs, alive, max(1, min(n_neighbours, n_living - 1)) + 1, n_jobs, progress)
    others = np.argsort(near == own[:, None], axis=1, kind="stable")[:, :-1]
    return Trial(codes, np.take_along_axis(near, others, axis=1), own, seconds())


def try_queries(
    codes: Codes,
    slabs: Sequence[Codes],
    alive: Codes | None,
    *,
    n_neighbours: int = NEIGHBOURS,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> Trial:
    """Make a trial of queries that were given, at most 2,000 of them in random order."""
    chosen = np.random.default_rng(0).permutation(len(codes))[:QUERIES]
    asked = np.ascontiguousarray(codes[chosen])
    near = _nearest_rows(asked, slabs, alive, n_neighbours, n_jobs, progress)
    return Trial(asked, near, np.full(len(asked), -1, dtype=np.int64), seconds())


def _nearest_rows(
    codes: Codes, slabs: Sequence[Codes], alive: Codes | None, k: int, n_jobs: int, progress: Progress | None
) -> NDArray[np.int64]:
    found = [np.empty((0, k), dtype=np.int64)] if not len(codes) else []
    for start in range(0, len(codes), TOGETHER):
        if progress is not None:
            progress("calibrating", start, len(codes))
        found.append(_native.hamming_top_k(codes[start : start + TOGETHER], slabs, k, None, alive, n_jobs)[0])
    return np.concatenate(found)


def that_count(
    near: NDArray[np.int64], own: NDArray[np.int64], alive: Codes | None
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Which of the known neighbours and of the items that are queries are among the rows that count.

    Returns
    -------
    int64 array (n, m)
        Places of the neighbours: those that count in their order, then the others.
    bool array (n, m)
        Which of them, in this order, count.
    bool array (n,)
        Which queries are rows that count.
    """
    known, mine = near >= 0, own >= 0
    if alive is not None:
        known &= is_set(alive, np.maximum(near, 0))
        mine &= is_set(alive, np.maximum(own, 0))
    order = np.argsort(~known, axis=1, kind="stable")
    return order, np.take_along_axis(known, order, axis=1), mine


def rows_before(
    far: NDArray[Any], living: NDArray[np.int64], own: NDArray[np.int64], mine: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Living rows (n, c) before each cell, in the order of nearness.

    Parameters
    ----------
    far : array (n, c)
        How far each cell is; of those as far the first comes first.
    living : int64 array (c,)
    own : int64 array (n,)
        Cell of each query.
    mine : bool array (n,)
        Whether the query is a row there: one more than a new query would meet.
    """
    order = np.argsort(far, axis=1, kind="stable")
    counts = living[order]
    before = np.empty(far.shape, dtype=np.int64)
    np.put_along_axis(before, order, np.cumsum(counts, axis=1) - counts, axis=1)
    before -= mine[:, None] & (np.take_along_axis(before, own[:, None], axis=1) < before)
    return before


def is_set(bitmap: Codes, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Bits of some rows."""
    return (bitmap[rows // 8] >> (rows % 8).astype(np.uint8) & 1).astype(np.bool_)
