"""A promised recall of learned codes: how many rows a query must read for it.

Conformal risk control as in :mod:`bilsh.search.promise`. The loss is the share of the k smallest estimates of all rows
that a query misses. It reads cells in the order of their nearness, all those before which no more living rows lie than
its budget; a neighbour is found from the budget on that lies before its cell. So the loss can only fall as the budget
grows, and the smallest that keeps it within what the target allows, on trial queries, keeps it in expectation for new
queries from where these come from.

Trial queries are descriptors: those that were given, or the vectors of items where they are kept, each item without
itself. Items that cells were learned from are none of them: they lie nearer to centres than new queries do. Where no
vectors are kept, what the codes of items stand for takes their place. Such queries lie a little deeper among their
neighbours than the items did, so that less was found than was asked for: of the misses that a target allows,
:data:`BY_CODES` are used then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import Codes
from bilsh.encoders.euclidean_coder import EuclideanCoder
from bilsh.files import seconds
from bilsh.search.cells import EVERYTHING, whole
from bilsh.search.places import PlaceCells
from bilsh.search.promise import Promise, half_by_half, smallest_slack
from bilsh.search.trial import NEIGHBOURS, QUERIES, TOGETHER, held_out_rows, rows_before, that_count
from bilsh.types import Floats, Progress, Values

BY_CODES = 0.7
"""Part of the allowed misses that is used where trial queries are what codes stand for."""

QUERY_BYTES = 32 << 20
FEWEST = 100
"""Trial queries are as many as these bytes hold, at least so many and at most 2,000."""


@dataclass(frozen=True, eq=False, slots=True)
class EstimatedTrial:
    """Queries whose rows with the smallest estimates are known.

    Attributes
    ----------
    vectors : float32 array (n, d)
        The queries.
    near : int64 array (n, m)
        Rows with the smallest estimates, without the query itself.
    far : float32 array (n, m)
        Their squared distances, as a query that is no code would find them.
    own : int64 array (n,)
        Row of each query that is an item; -1 for others.
    described : bool
        Whether queries are descriptors; else they are what codes stand for.
    time : int
        When it was made, in seconds since 1970.
    """

    vectors: Values
    near: NDArray[np.int64]
    far: Values
    own: NDArray[np.int64]
    described: bool
    time: int

    @property
    def source(self) -> Literal["items", "given"]:
        """Where the queries come from."""
        return "given" if len(self.own) and self.own[0] < 0 else "items"

    def __len__(self) -> int:
        return len(self.vectors)


def n_queries(d: int) -> int:
    """How many trial queries of so many numbers there are at most."""
    return min(QUERIES, max(FEWEST, QUERY_BYTES // (4 * d)))


def try_items(
    coder: EuclideanCoder,
    slabs: Sequence[Codes],
    alive: Codes | None,
    ids: NDArray[np.int64],
    vectors: Any = None,
    *,
    n_neighbours: int = NEIGHBOURS,
    n_jobs: int = 1,
    seed: int = 1,
    progress: Progress | None = None,
) -> EstimatedTrial:
    """Make a trial of living rows that cells were not learned from, each without itself.

    Queries are their vectors, or else what their codes stand for.
    """
    own = held_out_rows(ids, alive, n_queries(coder.n_features), seed)
    count = len(own)
    asked = coder.decode(whole(slabs, own)) if vectors is None else np.asarray(vectors[own])
    flat = asked.reshape(count, coder.n_features).astype(np.float32)
    # The order of trial queries is random: halves of them are compared.
    order = np.random.default_rng(seed + 1).permutation(count)
    return trial_of(
        coder, flat[order], own[order], vectors is not None, slabs, alive,
        n_neighbours=n_neighbours, n_jobs=n_jobs, progress=progress,
    )  # fmt: skip


def try_queries(
    coder: EuclideanCoder,
    queries: Values,
    slabs: Sequence[Codes],
    alive: Codes | None,
    *,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> EstimatedTrial:
    """Make a trial of queries (n, d) that were given, as many as are kept, in random order."""
    chosen = np.random.default_rng(0).permutation(len(queries))[: n_queries(coder.n_features)]
    flat = np.ascontiguousarray(queries[chosen], dtype=np.float32)
    none = np.full(len(flat), -1, dtype=np.int64)
    return trial_of(coder, flat, none, True, slabs, alive, n_jobs=n_jobs, progress=progress)


def trial_of(
    coder: EuclideanCoder,
    vectors: Values,
    own: NDArray[np.int64],
    described: bool,
    slabs: Sequence[Codes],
    alive: Codes | None,
    *,
    n_neighbours: int = NEIGHBOURS,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> EstimatedTrial:
    """Make a trial of queries by scans of all living rows."""
    mine = bool(len(own) and own[0] >= 0)
    near, far = [], []
    for start in range(0, max(1, len(vectors)), TOGETHER):
        if progress is not None:
            progress("calibrating", start, len(vectors))
        part = slice(start, start + TOGETHER)
        ids, squares = coder.compiled.top_k(
            vectors[part], list(slabs), n_neighbours + mine, None, alive, n_jobs
        )
        if mine:
            others = np.argsort(ids == own[part, None], axis=1, kind="stable")[:, :-1]
            ids, squares = (
                np.take_along_axis(ids, others, axis=1),
                np.take_along_axis(squares, others, axis=1),
            )
        near.append(ids)
        far.append(squares)
    squares = np.concatenate(far)
    if mine and not described:
        # The item itself lies its error away from what its code stands for, mostly across.
        errors = coder.errors(whole(slabs, own))
        finite = errors[np.isfinite(errors)]
        squares += np.square(np.where(np.isfinite(errors), errors, finite.max(initial=0.0)))[:, None]
    return EstimatedTrial(
        vectors, np.concatenate(near), squares.astype(np.float32), own, described, seconds()
    )


@dataclass(frozen=True, eq=False, slots=True)
class Needs:
    """What a trial found among the rows that count.

    Attributes
    ----------
    rows : int64 array (n, m)
        Living rows before the cell of each known neighbour, the nearest first; EVERYTHING where none is known.
    far : float64 array (n, m)
        Squared distances of the neighbours; infinite where none is known.
    n_living, cell : float
        Rows that count, and how many lie in the cell of such a row in the mean.
    """

    rows: NDArray[np.int64]
    far: Floats
    n_living: float
    cell: float


def needs_of(trial: EstimatedTrial, cells: PlaceCells, alive: Codes | None, n_jobs: int = 1) -> Needs:
    """Look how many living rows lie before the cells of the neighbours of trial queries."""
    living = cells.living(alive)
    order, known, mine = that_count(trial.near, trial.own, alive)
    near, far = (np.take_along_axis(array, order, axis=1) for array in (trial.near, trial.far))
    at, own = cells.of_rows(np.maximum(near, 0)), cells.of_rows(np.maximum(trial.own, 0))
    rows = np.empty(near.shape, dtype=np.int64)
    for start in range(0, len(trial), TOGETHER):
        part = slice(start, start + TOGETHER)
        closeness = cells.places.closeness(trial.vectors[part], n_jobs)
        before = rows_before(-closeness, living, own[part], mine[part])
        rows[part] = np.take_along_axis(before, at[part], axis=1)
    n = int(living.sum())
    return Needs(
        np.where(known, rows, EVERYTHING),
        np.where(known, far.astype(np.float64), np.inf),
        float(n),
        float(np.square(living.astype(np.float64)).sum() / max(1, n)),
    )


def promise(trial: EstimatedTrial, needs: Needs, k: int, target: float) -> tuple[Promise, Floats]:
    """Find the smallest budget that keeps a recall of k neighbours.

    Returns
    -------
    Promise
    float64 array
        Squared distances of the k-th neighbours of trial queries, ascending.
    """
    allowed = target if trial.described else 1 - BY_CODES * (1 - target)
    rows = needs.rows[:, :k]
    if rows.shape[1] < k:
        rows = np.pad(rows, ((0, 0), (0, k - rows.shape[1])), constant_values=EVERYTHING)
    # So many are read in any case.
    rows = np.maximum(rows, k - 1)
    budget = smallest_slack(rows, allowed)
    recall, interval = half_by_half(rows, allowed)
    read = 1.0
    if budget < EVERYTHING:
        read = min(1.0, (budget + needs.cell) / max(1.0, needs.n_living))
    last = needs.far[:, min(k, needs.far.shape[1]) - 1] if needs.far.shape[1] else np.empty(0)
    made = Promise(
        target, k, budget, read, len(trial), trial.time, trial.source, recall, interval, np.empty(0)
    )
    return made, np.sort(last[np.isfinite(last)])
