"""Searching a segment of learned codes by its cells, as far as a promised recall asks; or saying why all is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import Codes
from bilsh.encoders.euclidean_coder import EuclideanCoder
from bilsh.search.estimated_promise import EstimatedTrial, Needs, needs_of, promise, trial_of
from bilsh.search.places import PlaceCells
from bilsh.search.promise import Promise
from bilsh.search.trial import NEIGHBOURS
from bilsh.search.wishes import MOST_FILTERS, Kept, Wish
from bilsh.types import Floats, Values

if TYPE_CHECKING:
    from bilsh.search.scan import Found, Scan

BY_CODES = (
    "no vectors are kept: the recall was measured by what codes of items stand for, with a margin. Give queries to "
    "calibrate() for more"
)


@dataclass(slots=True)
class KnownPlaces:
    """What was worked out about a segment, kept while it is searched.

    Attributes
    ----------
    kept : Kept
        Promises, with the sorted k-th squared distances of trial queries.
    needs : by filter
        With the trial that they come from.
    latest : (bitmap, int64 array) or None
        Rows that counted in the latest search, and how many of them each cell has.
    """

    kept: Kept[Floats] = field(default_factory=Kept)
    needs: dict[int, tuple[EstimatedTrial, Needs]] = field(default_factory=dict)
    latest: tuple[Codes | None, NDArray[np.int64]] | None = None

    def living(self, cells: PlaceCells, alive: Codes | None) -> NDArray[np.int64]:
        """Rows of each cell that count."""
        latest = self.latest
        if latest is None or latest[0] is not alive:
            latest = self.latest = alive, cells.living(alive)
        return latest[1]


@dataclass(frozen=True, slots=True)
class Visitor:
    """A search of one segment for a recall.

    Attributes
    ----------
    scan : Scan
    part : int
        Which of its segments.
    coder : EuclideanCoder
    wish : Wish or None
        A recall below 1; what became of it is told here.
    trial : EstimatedTrial or None
        What the recall rests on.
    """

    scan: Scan
    part: int
    coder: EuclideanCoder
    wish: Wish | None
    trial: EstimatedTrial | None

    def by_cells(self, queries: Values, k: int) -> Found | None:
        """Smallest k estimates by cells; None, and the reason told, where all rows are to be read."""
        scan, wish, part = self.scan, self.wish, self.part
        segment, alive = scan.segments[part], scan.alive[part]
        cells = segment.places if wish is not None else None
        if wish is None or cells is None or not len(queries):
            return None
        memory = scan.memory.places.get(segment)
        if memory is None:
            memory = scan.memory.places.setdefault(segment, KnownPlaces())
        living = memory.living(cells, alive)
        k = min(k, int(living.sum()))
        kept = self._promise(wish, cells, memory, len(queries), k) if k else None
        if kept is None or wish.reads_all(kept[0]):
            return None
        known, usual = kept
        start = perf_counter()
        closeness = cells.places.closeness(queries, scan.n_jobs)
        middle = perf_counter()
        ids = np.ascontiguousarray(segment.ids, dtype=np.int64)
        near, squares, visited, rows = self.coder.compiled.visit(
            queries,
            list(segment.slabs),
            k,
            closeness,
            cells.offsets,
            living,
            known.slack,
            ids,
            alive,
            scan.n_jobs,
        )
        pairs = len(queries) * len(cells)
        scan.tally.add("cells: centres", pairs, pairs * 4 * cells.places.centres.shape[1], middle - start)
        scan.tally.add("cells: rows", rows, rows * self.coder.n_bytes, perf_counter() - middle)
        wish.promise = known
        wish.visits += ((len(cells), visited),)
        if self.trial is not None and not self.trial.described:
            wish.tell(BY_CODES)
        return self._mended(wish, queries, k, (near, squares), usual, known.n_queries)

    def full(self, queries: Values, k: int) -> Found:
        """Smallest k estimates of all rows that count."""
        segment, start = self.scan.segments[self.part], perf_counter()
        ids = np.ascontiguousarray(segment.ids, dtype=np.int64)
        found = self.coder.compiled.top_k(
            queries, list(segment.slabs), k, ids, self.scan.alive[self.part], self.scan.n_jobs
        )
        pairs = len(queries) * len(ids)
        self.scan.tally.add("estimates", pairs, pairs * self.coder.n_bytes, perf_counter() - start)
        return found

    def _mended(
        self, wish: Wish, queries: Values, k: int, found: Found, usual: Floats, n_trial: int
    ) -> Found:
        """Read all rows for queries that are farther from everything than those of the trial, or are so as a batch."""
        last = found[1][:, -1]
        largest = usual[-1] if len(usual) else np.inf
        if len(last) == 1 and last[0] <= largest:
            return found
        ranks = (
            0.5
            * (np.searchsorted(usual, last, "left") + np.searchsorted(usual, last, "right"))
            / max(1, len(usual))
        )
        strange = wish.strange(last, largest, float(ranks.mean()), n_trial)
        if len(strange):
            ids, squares = self.full(np.ascontiguousarray(queries[strange]), k)
            found[0][strange], found[1][strange] = ids, squares
        return found

    def _promise(
        self, wish: Wish, cells: PlaceCells, known: KnownPlaces, n_queries: int, k: int
    ) -> tuple[Promise, Floats] | None:
        """What a recall of k neighbours rests on; None, and the reason told, if nothing."""

        def make(key: int, fresh: bool) -> tuple[Promise, Floats]:
            return promise(*self._needs(cells, known, key, k, fresh), k, wish.recall)

        n_pairs = n_queries * int(cells.offsets[-1])
        alive = self.scan.alive[self.part]
        return known.kept.find(wish, alive, k, n_pairs, None if self.trial is None else make)

    def _needs(
        self, cells: PlaceCells, known: KnownPlaces, key: int, k: int, fresh: bool
    ) -> tuple[EstimatedTrial, Needs]:
        """What trial queries need; those of the trial that is kept, or of one with more neighbours."""
        if key not in known.needs and self.trial is not None:
            if len(known.needs) > MOST_FILTERS:
                known.needs.clear()
            known.needs[key] = (
                self.trial,
                needs_of(self.trial, cells, self.scan.alive[self.part], self.scan.n_jobs),
            )
        trial, needs = known.needs[key]
        if fresh or k > trial.near.shape[1] >= NEIGHBOURS:
            segment, n_jobs = self.scan.segments[self.part], self.scan.n_jobs
            trial = trial_of(
                self.coder, trial.vectors, trial.own, trial.described, segment.slabs, segment.alive,
                n_neighbours=max(2 * k, NEIGHBOURS), n_jobs=n_jobs,
            )  # fmt: skip
            needs = needs_of(trial, cells, self.scan.alive[self.part], n_jobs)
            known.needs[key] = trial, needs
        return trial, needs
