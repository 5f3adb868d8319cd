"""Cells of learned codes: items in groups by where they lie along a few axes.

A code of EuclideanEncoder stands for a point. Its place are the point's coordinates along the axes in which a sample of
the items varies most, :data:`AXES` of them at most. Items of one centre of the encoder are grouped by k-means of their
places, so that all rows of a cell are compared by the same tables, and rows in the order of cells are in the order of
centres too, as scans of all rows want them.

A query reads the cells whose centres are nearest to its own place, until those before hold as many rows as a promised
recall takes, see :mod:`bilsh.search.estimated_promise`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bilsh import _native
from bilsh.codes import Codes
from bilsh.encoders.euclidean_coder import EuclideanCoder
from bilsh.forks import cached_property
from bilsh.search.cells import ROUNDS, Runs, arranged, sample_rows
from bilsh.types import Progress, Values

AXES = 32
"""Coordinates of a place: of 100,000 MNIST codes 16 read 1.83 % of the rows for a recall of .95, 32 read 1.43 % and 64
1.31 %, at twice the way to the centres."""

AXES_ROWS = 2000
AXES_BYTES = 1 << 27
"""Items that axes are learned from, and bytes of what they stand for: bounds."""


@dataclass(frozen=True, eq=False)
class Places:
    """Where cells are.

    Attributes
    ----------
    axes : float32 array (p, d + 1)
        A place is ``axes[:, :d] @ x + axes[:, d]``.
    centres : float32 array (c, p)
    owners : uint8 array (c,)
        Centre of the encoder that all items of a cell have, ascending.
    """

    axes: Values
    centres: Values
    owners: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.centres)

    @cached_property
    def _axes(self) -> _native.DensePlan:
        return _dense(np.ascontiguousarray(self.axes[:, :-1]), np.ascontiguousarray(self.axes[:, -1]))

    @cached_property
    def _centres(self) -> _native.DensePlan:
        return _closeness(self.centres)

    def closeness(self, queries: Values, n_jobs: int = 1) -> Values:
        """How near (q, c) centres are to the places of queries (q, d): the largest is the nearest."""
        return self._centres.project(self._axes.project(queries, n_jobs), n_jobs)

    def of(self, coder: EuclideanCoder, codes: Codes, n_jobs: int = 1) -> Values:
        """Places (n, p) of codes."""
        return coder.along(codes, np.ascontiguousarray(self.axes[:, :-1]), n_jobs) + self.axes[:, -1]

    def cell_of(self, coder: EuclideanCoder, codes: Codes, n_jobs: int = 1) -> NDArray[np.int32]:
        """Cell of each code: the nearest of those of its centre."""
        cells, places = np.zeros(len(codes), dtype=np.int32), self.of(coder, codes, n_jobs)
        owner = _owners(coder, codes)
        for c in np.unique(owner).tolist():
            mine = np.flatnonzero(owner == c)
            low, high = np.searchsorted(self.owners, [c, c + 1])
            cells[mine] = low + _nearest(places[mine], self.centres[low:high], n_jobs)
        return cells


@dataclass(frozen=True, eq=False)
class PlaceCells(Runs):
    """Where the cells of a segment of learned codes lie.

    Attributes
    ----------
    places : Places
    offsets : int64 array (c + 1,)
        Cell i is rows ``offsets[i]:offsets[i + 1]``.
    """

    places: Places
    offsets: NDArray[np.int64]


def learn_places(
    coder: EuclideanCoder, sample: Codes, n_cells: int, *, n_jobs: int = 1, progress: Progress | None = None
) -> Places:
    """Axes of items, and cells by k-means.

    Parameters
    ----------
    coder : EuclideanCoder
    sample : uint8 array (n, n_bytes)
        Codes in random order, since the first are where centres begin.
    n_cells : int
        More where the encoder has more centres: each has a cell at least.
    n_jobs : int
    progress : function of (what, done, all), optional
    """
    axes = _learn_axes(coder, sample)
    start = Places(axes, np.empty((0, len(axes)), dtype=np.float32), np.empty(0, dtype=np.uint8))
    places, owner = start.of(coder, sample, n_jobs), _owners(coder, sample)
    middles = coder.transform.centres @ axes[:, :-1].T + axes[:, -1]
    counts = _shares(np.bincount(owner, minlength=len(middles)), n_cells)
    groups = []
    for c, count in enumerate(counts.tolist()):
        if progress is not None:
            progress("learning centres", c, len(counts))
        mine = places[owner == c]
        groups.append(_k_means(mine, count, n_jobs) if len(mine) else middles[c : c + 1])
    return Places(
        axes,
        np.ascontiguousarray(np.concatenate(groups), dtype=np.float32),
        np.repeat(np.arange(len(counts)), [len(group) for group in groups]).astype(np.uint8),
    )


def in_places(
    coder: EuclideanCoder,
    codes: Codes,
    ids: NDArray[np.int64],
    n_cells: int,
    *,
    n_jobs: int = 1,
    seed: int = 0,
) -> tuple[NDArray[np.int64], PlaceCells]:
    """Cells of codes in memory, and the order in which rows belong into them."""
    sample = sample_rows(ids, n_cells, seed)
    places = learn_places(coder, np.ascontiguousarray(codes[sample]), n_cells, n_jobs=n_jobs)
    order, offsets = arranged(places.cell_of(coder, codes, n_jobs), len(places))
    return order, PlaceCells(places, offsets)


def _owners(coder: EuclideanCoder, codes: Codes) -> NDArray[np.uint8]:
    """Centre of each code; a damaged one counts as one of the last centre, as in scans."""
    return np.minimum(codes[:, 0], np.uint8(coder.transform.n_centres - 1))


def _shares(counts: NDArray[np.int64], n_cells: int) -> NDArray[np.int64]:
    """Cells of each group, by its size and at least one, in all as many as there are to be where these suffice."""
    each = np.maximum(1, np.floor(n_cells * counts / max(1, counts.sum()))).astype(np.int64)
    more = max(0, n_cells - int(each.sum()))
    each[np.argsort(-counts, kind="stable")[:more]] += 1
    shares: NDArray[np.int64] = np.minimum(each, np.maximum(1, counts))
    return shares


def _learn_axes(coder: EuclideanCoder, sample: Codes) -> Values:
    """Directions in which what codes stand for varies most, about its mean."""
    d = coder.n_features
    n = max(2, min(AXES_ROWS, AXES_BYTES // (8 * d)))
    points = coder.decode(sample[:n]).reshape(-1, d)
    mean = points.mean(axis=0)
    points -= mean
    p = min(AXES, *points.shape)
    if d <= len(points):
        directions = np.linalg.eigh(points.T @ points)[1][:, : -p - 1 : -1].T
    else:
        directions = np.linalg.eigh(points @ points.T)[1][:, : -p - 1 : -1].T @ points
        lengths = np.sqrt(np.square(directions).sum(axis=1, keepdims=True))
        directions /= np.where(lengths > 0, lengths, 1.0)
    return np.hstack([directions, -(directions @ mean)[:, None]]).astype(np.float32)


def _k_means(places: Values, count: int, n_jobs: int) -> Values:
    """Centres of places in random order."""
    centres = places[:count].copy()
    for _ in range(ROUNDS):
        cell = _nearest(places, centres, n_jobs)
        sizes = np.bincount(cell, minlength=count)
        sums = np.stack([np.bincount(cell, column, minlength=count) for column in places.T], axis=1)
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres).astype(
            np.float32
        )
    return centres


def _nearest(places: Values, centres: Values, n_jobs: int) -> NDArray[np.int32]:
    found, plan = np.empty(len(places), dtype=np.int32), _closeness(centres)
    step = max(1, AXES_BYTES // (4 * len(centres)))
    for start in range(0, len(places), step):
        part = slice(start, start + step)
        found[part] = plan.project(places[part], n_jobs).argmax(axis=1)
    return found


def _closeness(centres: Values) -> _native.DensePlan:
    """<x, centre> - |centre|^2 / 2, which is largest for the nearest."""
    half = -0.5 * np.square(centres, dtype=np.float64).sum(axis=1)
    return _dense(np.ascontiguousarray(centres), half.astype(np.float32))


def _dense(weights: Values, offsets: Values) -> _native.DensePlan:
    return _native.DensePlan(weights, np.arange(len(weights), dtype=np.int32), offsets, None)
