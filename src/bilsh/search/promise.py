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
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bilsh import _native
from bilsh.codes import Codes
from bilsh.files import seconds
from bilsh.search.cells import EVERYTHING, FIRST, SEEDS, Cells, whole
from bilsh.search.pruning import prefix_limits
from bilsh.types import Progress

QUERIES = 2000
NEIGHBOURS = 200
BY_PREFIXES = 0.8
"""Part of the misses that a target allows which prefixes may cause at most; how many they cause is measured: a quarter
of it, or less."""

SIGMAS = 5.0
UNLIKE = 0.65
"""Mean rank among trial queries beyond which a batch of queries is of another kind."""

PIECE = 1 << 25
"""Bytes of codes that are compared at a time."""

Limits = NDArray[np.int32]
_UNKNOWN = EVERYTHING
_SURE = np.iinfo(np.int32).min // 2


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
        How much farther than its bound a query goes, in bits of the centres.
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

    def __str__(self) -> str:
        day = datetime.fromtimestamp(self.time, UTC).strftime("%Y-%m-%d")
        low, high = self.interval
        kind = "items, each without itself" if self.source == "items" else "queries that were given"
        return (
            f"promised recall {self.target:g} of the {self.k} nearest codes, for queries like {self.n_queries:,} "
            f"{kind}; measured on {day}: held-out recall {self.recall:.3f} ({low:.3f} .. {high:.3f})"
        )


def try_items(
    slabs: Sequence[Codes],
    alive: Codes | None,
    *,
    n_neighbours: int = NEIGHBOURS,
    n_jobs: int = 1,
    seed: int = 1,
    progress: Progress | None = None,
) -> Trial:
    """Make a trial of living rows as queries, each without itself: an exact scan for each."""
    n = len(slabs[0])
    rows = np.arange(n)
    if alive is not None:
        rows = np.flatnonzero(np.unpackbits(alive, count=n, bitorder="little"))
    # A single row has no neighbours: nothing is asked.
    count = min(QUERIES, len(rows)) if len(rows) > 1 else 0
    own = np.sort(np.random.default_rng(seed).choice(rows, count, replace=False))
    # The order of trial queries is random: halves of them are compared.
    own = np.random.default_rng(seed + 1).permutation(own)
    codes = whole(slabs, own)
    near = _nearest_rows(codes, slabs, alive, max(1, min(n_neighbours, len(rows) - 1)) + 1, n_jobs, progress)
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
    step, found = 250, [np.empty((0, k), dtype=np.int64)] if not len(codes) else []
    for start in range(0, len(codes), step):
        if progress is not None:
            progress("calibrating", start, len(codes))
        found.append(_native.hamming_top_k(codes[start : start + step], slabs, k, None, alive, n_jobs)[0])
    return np.concatenate(found)


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
    needs, bounds, far = _needs(trial, cells, slabs, alive, rows, limits, n_bits, k, n_jobs)
    slack = smallest_slack(needs, target)
    recall, ends = half_by_half(needs, target)
    read = 1.0
    if slack < EVERYTHING:
        sizes = np.diff(cells.offsets)
        reach = _reach(bounds, cells, n_bits) + slack
        read = float((far <= reach[:, None]).astype(np.float32).dot(sizes).mean() / max(1, sizes.sum()))
    made = Promise(
        target, k, slack, read, len(trial), trial.time, trial.source, recall, ends, ranks_among(bounds)
    )
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


def _needs(
    trial: Trial,
    cells: Cells,
    slabs: Sequence[Codes],
    alive: Codes | None,
    rows: _native.CellSet,
    limits: Limits,
    n_bits: int,
    k: int,
    n_jobs: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Slack (n, k) from which on each neighbour is found; bounds T (n,); distances of centres (n, c)."""
    far = cells.far(trial.codes, n_jobs)
    near = trial.near
    known = near >= 0
    own_counts = trial.own >= 0
    if alive is not None:
        known &= is_set(alive, np.maximum(near, 0))
        own_counts &= is_set(alive, np.maximum(trial.own, 0))
        # The nearest that count, in their order.
        order = np.argsort(~known, axis=1, kind="stable")[:, :k]
        near, known = np.take_along_axis(near, order, axis=1), np.take_along_axis(known, order, axis=1)
    near, known = near[:, :k], known[:, :k]
    bounds, front = np.zeros((2, len(trial)), dtype=np.int32)
    for itself in (False, True):
        mine = np.flatnonzero(own_counts == itself)
        if len(mine):
            # An item as a query meets itself: one neighbour and one row more.
            seen = _visits(trial.codes[mine], rows, k, int(itself), n_jobs)
            bounds[mine], front[mine] = seen[:, 0], seen[:, 1]
    at = np.take_along_axis(far, cells.of_rows(np.maximum(near, 0)), axis=1).astype(np.int64)
    needs = np.where(at < front[:, None], _SURE, at - _reach(bounds, cells, n_bits)[:, None])
    needs = np.where(known & ~_lost(trial.codes, near, slabs, rows.prefixes, limits), needs, _UNKNOWN)
    if needs.shape[1] < k:
        needs = np.pad(needs, ((0, 0), (0, k - needs.shape[1])), constant_values=_UNKNOWN)
    return needs, bounds, far


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


def _reach(bounds: NDArray[np.int32], cells: Cells, n_bits: int) -> NDArray[np.int64]:
    """How far queries go without any slack."""
    reach: NDArray[np.int64] = np.floor(cells.share(n_bits) * bounds).astype(np.int64)
    return reach


def _visits(codes: Codes, rows: _native.CellSet, k: int, more: int, n_jobs: int) -> NDArray[np.int32]:
    """Bound on the k-th distance, how far the farthest of the first cells is, and their number: (q, 3).

    For queries that meet so many rows more than new ones would.
    """
    limits = np.zeros((len(rows.prefixes), 1), dtype=np.int32)
    return rows.top_k(codes, k + more, FIRST * k + more, SEEDS * k + more, 0.0, int(_SURE), limits, n_jobs)[2]


def is_set(bitmap: Codes, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Bits of some rows."""
    return (bitmap[rows // 8] >> (rows % 8).astype(np.uint8) & 1).astype(np.bool_)
