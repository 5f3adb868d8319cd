"""Searching a segment by its cells, as far as a promised recall asks; or saying why all of it is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bilsh import _native
from bilsh.codes import Codes
from bilsh.search.cells import EVERYTHING, FIRST, SEEDS, Cells
from bilsh.search.promise import (
    NEIGHBOURS,
    SIGMAS,
    UNLIKE,
    Limits,
    Promise,
    Trial,
    promise,
    try_items,
    try_queries,
)

if TYPE_CHECKING:
    from bilsh.search.scan import Found, Scan, Segment

MOST_ROWS = 0.5
"""Share of the rows beyond which reading all in their order is as quick."""

FILTER_PAIRS = 20_000_000
"""Pairs of queries and rows under one filter from which on a promise for this filter is worked out; about 0.1 s."""

MOST_FILTERS = 64


@dataclass(slots=True)
class Known:
    """What was worked out about a segment, kept while it is searched.

    Attributes
    ----------
    trials : by number of neighbours
        Trials that are larger than the one kept with the segment.
    promises : by k, target and filter
        With the limits of prefixes.
    pairs : by filter
        Pairs of queries and rows that were scanned under it.
    latest : (bitmap, Cells, CellSet) or None
        Rows that counted in the latest search, its cells, and these as the compiled core has them.
    """

    trials: dict[int, Trial] = field(default_factory=dict)
    promises: dict[tuple[int, float, int], tuple[Promise, Limits]] = field(default_factory=dict)
    pairs: dict[int, int] = field(default_factory=dict)
    latest: tuple[Codes | None, Cells, _native.CellSet] | None = None

    def cell_set(self, segment: Segment, cells: Cells, alive: Codes | None) -> _native.CellSet:
        """Cells as the compiled core has them."""
        latest = self.latest
        if latest is None or latest[0] is not alive or latest[1] is not cells:
            latest = self.latest = alive, cells, cells.of(segment.slabs, alive, segment.ids)
        return latest[2]


@dataclass(slots=True)
class Wish:
    """A recall that was asked for, what there is to keep it by, and what became of it.

    Attributes
    ----------
    recall : float
        Below 1.
    trial : Trial or None
        Kept with the segment that has cells.
    filtered : bool
        Whether rows are left out by a filter.
    promise : Promise or None
        What the answer rests on, once it was found by cells.
    visits : list of (number of cells, cells read by each query)
        What was read of each segment that has cells.
    told : list of str
        What else there is to say.
    """

    recall: float
    trial: Trial | None
    filtered: bool
    promise: Promise | None = None
    visits: list[tuple[int, NDArray[np.int32]]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def tell(self, note: str) -> None:
        """Say something once."""
        if note not in self.told:
            self.told.append(note)


def by_cells(scan: Scan, wish: Wish, part: int, queries: Codes, k: int) -> Found | None:
    """Nearest k of a segment by cells; None, and the reason told, where all of it is to be read."""
    segment = scan.segments[part]
    cells = segment.cells
    if cells is None or not len(queries):
        return None
    memory = scan.memory.known.get(segment)
    if memory is None:
        memory = scan.memory.known.setdefault(segment, Known())
    rows = memory.cell_set(segment, cells, scan.alive[part])
    k = min(k, rows.living)
    kept = _promise(scan, wish, part, cells, memory, len(queries), k) if k else None
    if kept is None:
        return None
    known, limits = kept
    if known.slack == EVERYTHING or known.rows > MOST_ROWS:
        why = f"would read {known.rows:.0%} of the rows" if known.slack < EVERYTHING else "asks for all cells"
        wish.tell(f"recall {wish.recall:g} {why}: all rows are read")
        return None
    share, start = cells.share(scan.n_bits), perf_counter()
    near, distances, seen, n_rows, n_bytes, ranking = rows.top_k(
        queries, k, FIRST * k, SEEDS * k, share, known.slack, limits, scan.n_jobs
    )
    pairs = len(queries) * len(cells)
    scan.tally.add("cells: centres", pairs, pairs * cells.centres.shape[1], ranking)
    scan.tally.add("cells: rows", n_rows, n_bytes, perf_counter() - start - ranking)
    wish.promise = known
    wish.visits.append((len(cells), seen[:, 2]))
    return _mended(scan, wish, part, queries, k, (near, distances), seen[:, 0], known)


def _mended(
    scan: Scan,
    wish: Wish,
    part: int,
    queries: Codes,
    k: int,
    found: Found,
    bounds: NDArray[np.int32],
    known: Promise,
) -> Found:
    """Read all rows for queries that are not like those of the trial.

    A query whose bound exceeds that of all trial queries comes from there with probability 1 / (n + 1) at most. A batch
    may be farther as a whole, though no query is.
    """
    largest = len(known.ranks) - 2
    if len(bounds) == 1 and bounds[0] <= largest:
        return found
    mean = float(known.ranks.take(bounds, mode="clip").sum()) / len(bounds)
    spread = (1 / (12 * len(bounds)) + 1 / (12 * known.n_queries)) ** 0.5
    unlike = mean > UNLIKE and mean - 0.5 > SIGMAS * spread
    if unlike or int(bounds.max()) > largest:
        strange = np.flatnonzero(bounds > (-1 if unlike else largest))
        wish.tell(
            f"{len(strange)} of {len(bounds)} queries are farther from everything than those of the calibration: all "
            "rows were read for them. Calibrate with queries of their kind, see calibrate()."
        )
        ids, distances = scan.full(np.ascontiguousarray(queries[strange]), k, part)
        found[0][strange], found[1][strange] = ids, distances
    return found


def _promise(
    scan: Scan,
    wish: Wish,
    part: int,
    cells: Cells,
    known: Known,
    n_queries: int,
    k: int,
) -> tuple[Promise, Limits] | None:
    """What a recall of k neighbours rests on, and the limits of prefixes; None, and the reason told, if nothing."""
    segment, alive = scan.segments[part], scan.alive[part]
    key = 0
    if wish.filtered and alive is not None:
        key = hash(alive.tobytes()) or 1
    kept = known.promises.get((k, wish.recall, key))
    if kept is not None:
        return kept
    if wish.trial is None:
        wish.tell("there is no calibration for these cells: all rows are read. Make one with calibrate().")
        return None
    if key:
        if len(known.pairs) > MOST_FILTERS:
            known.pairs.clear()
        pairs = known.pairs[key] = known.pairs.get(key, 0) + n_queries * int(cells.offsets[-1])
        if pairs < FILTER_PAIRS:
            wish.tell("few queries do not pay for a calibration of their filter: all rows are read")
            return None
    trial = wish.trial
    for fresh in (False, True):
        # Where more neighbours are asked for, or many of the known ones are deleted, new ones are looked for.
        if fresh or k > trial.near.shape[1] == NEIGHBOURS:
            trial = _larger_trial(scan, wish, part, known, k)
        made, limits = promise(
            trial,
            cells,
            segment.slabs,
            alive,
            n_bits=scan.n_bits,
            k=k,
            target=wish.recall,
            n_jobs=scan.n_jobs,
        )
        if made.slack < EVERYTHING or wish.filtered or alive is None:
            break
    if len(known.promises) > MOST_FILTERS:
        known.promises.clear()
    known.promises[k, wish.recall, key] = made, limits
    return made, limits


def _larger_trial(scan: Scan, wish: Wish, part: int, known: Known, k: int) -> Trial:
    """The queries of the trial that is kept, or new items, with more neighbours."""
    if k not in known.trials and wish.trial is not None:
        segment = scan.segments[part]
        n_neighbours = max(2 * k, NEIGHBOURS)
        known.trials.clear()
        if wish.trial.source == "items":
            made = try_items(segment.slabs, segment.alive, n_neighbours=n_neighbours, n_jobs=scan.n_jobs)
        else:
            made = try_queries(
                wish.trial.codes, segment.slabs, segment.alive, n_neighbours=n_neighbours, n_jobs=scan.n_jobs
            )
        known.trials[k] = made
    return known.trials[k]
