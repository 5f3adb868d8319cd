"""Searching a segment by its cells, as far as a promised recall asks; or saying why all of it is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from bilsh import _native
from bilsh.codes import Codes
from bilsh.search.cells import FIRST, SEEDS, Cells
from bilsh.search.promise import Limits, Promise, promise
from bilsh.search.trial import NEIGHBOURS, Trial, try_items, try_queries
from bilsh.search.wishes import UNLIKE, Kept, Wish

if TYPE_CHECKING:
    from bilsh.search.scan import Found, Scan, Segment


Latest = tuple[Codes | None, Cells, _native.CellSet, int, float]


@dataclass(slots=True)
class Known:
    """What was worked out about a segment, kept while it is searched.

    Attributes
    ----------
    kept : Kept
        Promises, with the limits of prefixes.
    trials : by number of neighbours
        Trials that are larger than the one kept with the segment.
    latest : (bitmap, Cells, CellSet, slope, share) or None
        Rows that counted in the latest search, its cells, these as the compiled core has them, and what bits of a
        centre's and of the k-th distance are worth.
    """

    kept: Kept[Limits] = field(default_factory=Kept)
    trials: dict[int, Trial] = field(default_factory=dict)
    latest: Latest | None = None

    def laid_out(self, segment: Segment, cells: Cells, alive: Codes | None, n_bits: int) -> Latest:
        """Make the cells of the next searches ready."""
        rows = cells.of(segment.slabs, alive, segment.ids)
        latest = self.latest = alive, cells, rows, cells.slope, cells.share(n_bits)
        return latest


def by_cells(scan: Scan, wish: Wish, part: int, queries: Codes, k: int) -> Found | None:
    """Nearest k of a segment by cells; None, and the reason told, where all of it is to be read."""
    segment = scan.segments[part]
    cells = segment.cells
    if cells is None or not len(queries):
        return None
    memory = scan.memory.known.get(segment)
    if memory is None:
        memory = scan.memory.known.setdefault(segment, Known())
    latest, alive = memory.latest, scan.alive[part]
    if latest is None or latest[0] is not alive or latest[1] is not cells:
        latest = memory.laid_out(segment, cells, alive, scan.n_bits)
    rows, slope, share = latest[2:]
    living = rows.living
    k = k if k < living else living
    kept = memory.kept.promises.get((k, wish.recall, 0)) if not wish.filtered else None
    if kept is None and k:
        kept = _promise(scan, wish, part, cells, memory, len(queries), k)
    if kept is None or wish.reads_all(kept[0]):
        return None
    known, limits = kept
    # A single query cannot be of another kind than those of the trial, only farther than all of them.
    largest, ranks = len(known.ranks) - 2, known.ranks if len(queries) > 1 else None
    start = perf_counter()
    near, distances, seen, n_centres, n_rows, n_bytes, ranking, farthest, rank = rows.top_k(
        queries, k, FIRST * k, SEEDS * k, slope, share, known.slack, known.width, limits, scan.n_jobs, ranks
    )
    n_cells, width = cells.centres.shape
    scan.tally.add("cells: centres", n_centres, n_centres * width, ranking)
    scan.tally.add("cells: rows", n_rows, n_bytes, perf_counter() - start - ranking)
    wish.promise = known
    wish.visits += ((n_cells, seen[2]),)
    if farthest > largest or rank > UNLIKE:
        strange = wish.strange(seen[0], largest, rank, known.n_queries)
        if len(strange):
            # All rows are read for queries that are not like those of the trial.
            near[strange], distances[strange] = scan.full(np.ascontiguousarray(queries[strange]), k, part)
    return near, distances


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
    segment, alive, kept = scan.segments[part], scan.alive[part], wish.trial

    def make(_: int, fresh: bool) -> tuple[Promise, Limits]:
        trial = kept
        if trial is None or fresh or k > trial.near.shape[1] == NEIGHBOURS:
            trial = _larger_trial(scan, wish, part, known, k)
        return promise(
            trial,
            cells,
            segment.slabs,
            alive,
            n_bits=scan.n_bits,
            k=k,
            target=wish.recall,
            n_jobs=scan.n_jobs,
        )

    n_pairs = n_queries * int(cells.offsets[-1])
    return known.kept.find(wish, alive, k, n_pairs, None if kept is None else make)


def _larger_trial(scan: Scan, wish: Wish, part: int, known: Known, k: int) -> Trial:
    """The queries of the trial that is kept, or new items, with more neighbours."""
    trial = wish.trial
    if k not in known.trials and trial is not None:
        segment = scan.segments[part]
        n_neighbours = max(2 * k, NEIGHBOURS)
        known.trials.clear()
        if trial.source == "items":
            made = try_items(
                segment.slabs, segment.alive, segment.ids, n_neighbours=n_neighbours, n_jobs=scan.n_jobs
            )
        else:
            made = try_queries(
                trial.codes, segment.slabs, segment.alive, n_neighbours=n_neighbours, n_jobs=scan.n_jobs
            )
        known.trials[k] = made
    return known.trials[k]
