"""A promised recall: how far a query must go for it, measured on queries whose neighbours are known.

Conformal risk control (Angelopoulos et al., 2022). Of n trial queries, let L_i(s) be the share of the k nearest codes
that query i misses with slack s; it can only fall as s grows. The smallest s with

    n / (n + 1) * mean(L(s)) + 1 / (n + 1) <= 1 - target

keeps the expected recall of a new query at or above the target, whatever the data, as long as it comes from where the
trial queries come from. Trial queries are items, each without itself, or queries that the user gave.

A trial keeps the rows of the nearest codes of each query, not what they meant for one k and one target. So any k and
target can be asked of it, and deleted or filtered rows are simply left out: the next nearest take their places, and
where too few are known a miss is assumed, which reads more and never less.

Prefixes of codes may lose neighbours too: those whose first bits differ more than the limit that stands beside the
k-th distance. A search knows of a k-th distance that is no nearer, so it loses no others, however far it goes; such
neighbours count as missed with every slack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import floor

import numpy as np
from numpy.typing import NDArray

from bilsh import _native
from bilsh.codes import Codes
from bilsh.search.cells import EVERYTHING, FIRST, SEEDS, Cells, head, octaves, whole
from bilsh.search.pruning import prefix_limits
from bilsh.search.trial import TOGETHER, Trial, rows_before, that_count

BY_PREFIXES = 0.4
"""Part of the misses that a target allows which prefixes may cause at most; how many they cause is measured, and is
much less."""

BY_REGIONS = 0.1
"""The same of centres that a query does not look at, about: more would save little."""

ENOUGH = 100
"""Trial queries by which it is told how far a query looks."""

PIECE = 1 << 25
"""Bytes of codes that are compared at a time."""

PAIRS = 1 << 20
"""Pairs of queries and cells that are looked at together, at most."""

Limits = NDArray[np.int32]
_UNKNOWN = EVERYTHING
_SURE = np.iinfo(np.int32).min // 2


@dataclass(frozen=True, slots=True)
class Promise:
    """What a recall rests on.

    Attributes
    ----------
    target : float
        Recall that was asked for.
    k : int
        Of so many nearest codes.
    slack : int
        How far a query goes, see :mod:`bilsh.search.cells`, in steps of the logarithm.
    rows : float
        Share of the rows that trial queries read.
    n_queries : int
        Size of the trial.
    time : int
        When it was made, in seconds since 1970.
    source : {"items", "given"}
        Where its queries come from.
    recall : float
        Recall of one half of the trial with the slack that the other half asks for.
    interval : (float, float)
        Its 95 % confidence interval.
    ranks : float64 array (largest bound + 2,)
        Of a bound on the k-th distance, as the nearest cells tell it, among those of trial queries: the share that is
        smaller and half of those that are equal. The last is for all larger ones: the promise is for queries like those
        of the trial.
    width : int
        Where cells are in regions: it looks at those whose middles are so many bits farther than the nearest, at most.
    """

    target: float
    k: int
    slack: int
    rows: float
    n_queries: int
    time: int
    source: str
    recall: float
    interval: tuple[float, float]
    ranks: NDArray[np.float64] = field(repr=False, compare=False)
    width: int = EVERYTHING

    def __str__(self) -> str:
        day = datetime.fromtimestamp(self.time, UTC).strftime("%Y-%m-%d")
        low, high = self.interval
        kind = "items, each without itself" if self.source == "items" else "queries that were given"
        return (
            f"promised recall {self.target:g} of the {self.k} nearest codes, for queries like {self.n_queries:,} "
            f"{kind}; measured on {day}: held-out recall {self.recall:.3f} ({low:.3f} .. {high:.3f})"
        )


def promise(
    trial: Trial,
    cells: Cells,
    slabs: Sequence[Codes],
    alive: Codes | None,
    *,
    n_bits: int,
    k: int,
    target: float,
    n_jobs: int = 1,
) -> tuple[Promise, Limits]:
    """Find the smallest slack that keeps a recall of k neighbours among the rows that count.

    Returns
    -------
    Promise
    int32 array
        Limits of prefixes with which it holds, see :func:`prefix_limits`.
    """
    rows = cells.of(slabs, alive)
    limits = prefix_limits(n_bits, rows.prefixes, (1 - target) * BY_PREFIXES)
    # The width is chosen by some queries of the trial, and what is found with it told by the others.
    apart = len(trial) // 4 if cells.n_regions > 1 else 0
    width = _width(trial.part(0, apart), cells, alive, k, target) if apart >= ENOUGH else EVERYTHING
    trial = trial.part(apart if apart >= ENOUGH else 0, len(trial))
    needs, bounds, some = _needs(trial, cells, slabs, alive, rows, limits, width, n_bits, k, n_jobs)
    slack = smallest_slack(needs, target)
    recall, ends = half_by_half(needs, target)
    read = 1.0
    if slack < EVERYTHING and rows.living:
        read = float((some <= slack).astype(np.float32).dot(cells.living(alive)).mean() / rows.living)
    ranks = ranks_among(bounds)
    made = Promise(target, k, slack, read, len(trial), trial.time, trial.source, recall, ends, ranks, width)
    return made, limits


def smallest_slack(needs: NDArray[np.int64], target: float) -> int:
    """Smallest slack by which trial queries promise a recall.

    Parameters
    ----------
    needs : integer array (n, k)
        The slack from which on each neighbour of each query is found.
    target : float

    Examples
    --------
    >>> smallest_slack(np.arange(100).reshape(100, 1), 0.9)
    90
    """
    n = len(needs)
    # n / (n + 1) mean(L) + 1 / (n + 1) <= 1 - target
    missed = floor(((1 - target) * (n + 1) - 1) * (needs.size / n) + 1e-9) if n else -1
    if missed < 0:
        return EVERYTHING
    return int(np.partition(needs.ravel(), needs.size - 1 - missed)[needs.size - 1 - missed])


def half_by_half(needs: NDArray[np.int64], target: float) -> tuple[float, tuple[float, float]]:
    """Recall of each half of trial queries with the slack that the other half asks for, and its 95 % interval."""
    half = len(needs) // 2
    kept = np.concatenate(
        [
            (needs[half:] <= smallest_slack(needs[:half], target)).mean(axis=1),
            (needs[:half] <= smallest_slack(needs[half:], target)).mean(axis=1),
        ]
    )
    if not len(kept):
        return 1.0, (0.0, 1.0)
    recall, error = float(kept.mean()), 1.96 * float(kept.std()) / len(kept) ** 0.5
    return recall, (max(0.0, recall - error), min(1.0, recall + error))


def ranks_among(bounds: NDArray[np.int32]) -> NDArray[np.float64]:
    """Ranks of all bounds among some, see :class:`Promise`.

    Examples
    --------
    >>> ranks_among(np.array([1, 3, 3])).round(2)
    array([0.  , 0.17, 0.33, 0.67, 1.  ])
    """
    equal = np.bincount(bounds, minlength=1)
    upto = np.cumsum(equal)
    return np.append((upto - equal / 2) / max(1, len(bounds)), 1.0)


def _width(trial: Trial, cells: Cells, alive: Codes | None, k: int, target: float) -> int:
    """How much farther regions of neighbours are than the nearest region, of nearly all."""
    order, known, _ = that_count(trial.near, trial.own, alive)
    near, known = np.take_along_axis(trial.near, order[:, :k], axis=1), known[:, :k]
    if not known.any():
        return EVERYTHING
    far = _native.hamming_matrix(head(trial.codes, cells.centres.shape[1]), cells.regions.middles(), 1)
    region = cells.regions.of()[cells.of_rows(np.maximum(near, 0))]
    farther = np.take_along_axis(far, region, axis=1) - far.min(axis=1)[:, None]
    return int(np.quantile(farther[known], 1 - (1 - target) * BY_REGIONS, method="higher"))


def _needs(
    trial: Trial,
    cells: Cells,
    slabs: Sequence[Codes],
    alive: Codes | None,
    rows: _native.CellSet,
    limits: Limits,
    width: int,
    n_bits: int,
    k: int,
    n_jobs: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Slack (n, k) from which on each neighbour is found; bounds T (n,); for some queries, slack of all cells."""
    order, known, mine = that_count(trial.near, trial.own, alive)
    near, known = np.take_along_axis(trial.near, order[:, :k], axis=1), known[:, :k]
    bounds, front = np.zeros((2, len(trial)), dtype=np.int32)
    for itself in (False, True):
        these = np.flatnonzero(mine == itself)
        if len(these):
            # An item as a query meets itself: one neighbour and one row more.
            seen = _visits(trial.codes[these], rows, width, k, int(itself), n_jobs)
            bounds[these], front[these] = seen[0], seen[1]
    living, first = cells.living(alive), max(1, min(FIRST * k, rows.living))
    reach = np.floor(cells.share(n_bits) * bounds).astype(np.int64)
    at, own = cells.of_rows(np.maximum(near, 0)), cells.of_rows(np.maximum(trial.own, 0))
    needs: NDArray[np.int64] = np.empty(near.shape, dtype=np.int64)
    some: NDArray[np.int64] = np.empty((0, len(cells)), dtype=np.int64)
    step = max(1, min(TOGETHER, PAIRS // len(cells)))
    for start in range(0, len(trial), step):
        part = slice(start, start + step)
        far = rows.far(trial.codes[part], width, n_jobs)
        before = rows_before(far.astype(np.uint16), living, own[part], mine[part])
        for everywhere in (True, False)[start > 0 :]:
            # Of all cells for the first queries only: they tell how much is read.
            d = far if everywhere else np.take_along_axis(far, at[part], axis=1)
            past = before if everywhere else np.take_along_axis(before, at[part], axis=1)
            slack = np.where(
                d < front[part, None], _SURE, cells.slope * d + octaves(past + first) - reach[part, None]
            )
            if everywhere:
                some = slack
            else:
                needs[part] = slack
    needs = np.where(known & ~_lost(trial.codes, near, slabs, rows.prefixes, limits), needs, _UNKNOWN)
    if near.shape[1] < k:
        needs = np.pad(needs, ((0, 0), (0, k - near.shape[1])), constant_values=_UNKNOWN)
    return needs, bounds, some


def _lost(
    codes: Codes,
    near: NDArray[np.int64],
    slabs: Sequence[Codes],
    prefixes: tuple[int, ...],
    limits: Limits,
) -> NDArray[np.bool_]:
    """Whether prefixes lose each of the neighbours (n, k) of queries, the farthest of which is the last."""
    lost = np.zeros(near.shape, dtype=np.bool_)
    step = max(1, PIECE // max(1, near.shape[1] * codes.shape[1]))
    for start in range(0, len(codes) if prefixes and near.shape[1] else 0, step):
        part = slice(start, start + step)
        others = whole(slabs, np.maximum(near[part], 0).ravel()).reshape(*near[part].shape, -1)
        differ = np.bitwise_count(others ^ codes[part, None])
        farthest = differ.sum(axis=2, dtype=np.int32).max(axis=1)
        for bits, limit in zip(prefixes, limits, strict=True):
            most = limit[np.minimum(farthest, len(limit) - 1)]
            lost[part] |= differ[:, :, : bits // 8].sum(axis=2, dtype=np.int32) > most[:, None]
    return lost


def _visits(
    codes: Codes, rows: _native.CellSet, width: int, k: int, more: int, n_jobs: int
) -> NDArray[np.int32]:
    """Bound on the k-th distance, how far the farthest of the first cells is, and their number: (3, q).

    For queries that meet so many rows more than new ones would.
    """
    limits = np.zeros((len(rows.prefixes), 1), dtype=np.int32)
    return rows.top_k(
        codes, k + more, FIRST * k + more, SEEDS * k + more, 0, 0.0, int(_SURE), width, limits, n_jobs
    )[2]
