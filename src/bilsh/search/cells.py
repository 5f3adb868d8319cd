"""Cells: rows in groups around centres, so that a query reads the groups near it and not all rows.

Centres are found by k-majority, which is k-means under the Hamming distance: every code goes to its nearest centre,
every centre becomes the majority of its codes, bit by bit. A prefix of a code is a code, so centres have 1,024 bits
at most, however long the codes are.

A query first reads the nearest cells, until they hold :data:`FIRST` times as many rows as it wants neighbours. Of
these, those nearest by their first bits are compared in full, :data:`SEEDS` per wanted neighbour. The k-th distance T
among them tells how far its neighbours are. It goes on to a cell whose centre is d away, and before which lie so many
rows, while

    log2(rows + FIRST k) + (d - T) / HALF <= slack

so the farther a cell is, the fewer rows may lie before it: half as many with every :data:`HALF` of the bits. How much
slack a wanted recall takes is measured, see :mod:`bilsh.search.promise`. All are integers, :func:`octaves`, so that the
same is read everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from bilsh import _native
from bilsh.codes import Codes
from bilsh.errors import InvalidInputError
from bilsh.forks import cached_property
from bilsh.types import Progress
from bilsh.validation import check_integer

CENTRE_BYTES = 128
"""Longest centre: the cells of 1,024 bits are as good as those of 4,096, and a quarter of the work."""

FIRST = 10
"""Rows that are read first, per wanted neighbour."""

SEEDS = 2
"""Of these, per wanted neighbour, so many are compared in full: those nearest by the first bits."""

HALF = 1 / 48
"""Of the bits of a centre, see the module; chosen by the fewest rows read at recalls from .90 to .995."""

OCTAVE = 64
"""Steps of the logarithm from a number to twice the number."""

CACHED = 24 << 20
"""Bytes that a cache holds, about: where the first 1,024 bits of all codes take no more, all of these are read at once
of visited rows; else the first 512, and the rest where these are near."""

MIN_ITEMS = 10_000
"""Fewer items are read as a whole as quickly."""

MIN_CELLS = 256
"""Of fewer cells a query looks at all centres."""

HELD_OUT = 5
"""One of so many items is not learned from."""

SAMPLE_PER_CELL = 50
ROUNDS = 12
EVERYTHING = np.iinfo(np.int32).max
"""The slack with which all cells are visited."""

Rows = Iterator[tuple[NDArray[np.int64], Codes]]


class Runs:
    """Cells as runs of rows, whatever their centres are: cell i is rows ``offsets[i]:offsets[i + 1]``."""

    __slots__ = ()
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def of_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Cell of each row."""
        return np.searchsorted(self.offsets, rows, side="right") - 1

    def living(self, alive: Codes | None) -> NDArray[np.int64]:
        """Rows of each cell that count."""
        if alive is None:
            return np.diff(self.offsets)
        bits = np.unpackbits(alive, count=int(self.offsets[-1]), bitorder="little")
        upto = np.concatenate([[0], np.cumsum(bits, dtype=np.int64)])
        return np.diff(upto[self.offsets])


@dataclass(frozen=True, eq=False)
class Cells(Runs):
    """Where the cells of a segment lie.

    Attributes
    ----------
    centres : uint8 array (c, width)
        First bytes of each cell's centre.
    offsets : int64 array (c + 1,)
        Cell i is rows ``offsets[i]:offsets[i + 1]``.
    """

    centres: Codes
    offsets: NDArray[np.int64]

    def far(self, codes: Codes, n_jobs: int = 1) -> NDArray[np.int32]:
        """Distances (q, c) of codes to all centres."""
        return _native.hamming_matrix(head(codes, self.centres.shape[1]), self.centres, n_jobs)

    def of(
        self, slabs: Sequence[Codes], alive: Codes | None, ids: NDArray[np.int64] | None = None
    ) -> _native.CellSet:
        """Rows in these cells, as the compiled core has them."""
        numbers = None if ids is None else np.ascontiguousarray(ids, dtype=np.int64)
        return _native.CellSet(list(slabs), self.offsets, self.regions, numbers, alive, CACHED)

    @cached_property
    def regions(self) -> _native.Regions:
        """Cells that are near each other."""
        return _native.Regions(self.centres, number_of_regions(len(self.centres)))

    @property
    def n_regions(self) -> int:
        """Number of regions; one where there are few cells."""
        return max(1, len(self.regions.middles()))

    @property
    def slope(self) -> int:
        """Steps of the logarithm that a bit of distance is worth."""
        return max(1, round(OCTAVE / (HALF * 8 * int(self.centres.shape[1]))))

    def share(self, n_bits: int) -> float:
        """Steps of the logarithm that a bit of the k-th distance between codes of n_bits is worth."""
        return float(self.slope * min(1.0, 8 * self.centres.shape[1] / n_bits))


def head(codes: Codes, width: int) -> Codes:
    """First bytes of codes, as one block."""
    return codes if codes.shape[1] == width else np.ascontiguousarray(codes[:, :width])


def octaves(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Logarithms of numbers from 1 on to base 2, in steps of 1 / 64, straight between powers of two.

    Examples
    --------
    >>> octaves(np.array([1, 2, 3, 1024]))
    array([  0,  64,  96, 640])
    """
    power = np.frexp(numbers)[1].astype(np.int64) - 1
    return OCTAVE * power + (numbers * OCTAVE >> power) - OCTAVE


def number_of_cells(n_cells: int | str | None, n_items: int) -> int:
    """How many cells to make of so many items; 0 for none.

    Parameters
    ----------
    n_cells : int, "auto" or None
        "auto" takes 4 sqrt(n), so that a query's way to the centres and to the rows cost about the same; and none
        for fewer than 10,000 items, which are read as a whole as quickly.
    n_items : int
    """
    if n_cells is None:
        return 0
    if isinstance(n_cells, str):
        if n_cells != "auto":
            raise InvalidInputError(f"cells must be a number, 'auto' or None; got {n_cells!r}.")
        return 4 * isqrt(n_items) if n_items >= MIN_ITEMS else 0
    return min(check_integer("cells", n_cells, minimum=1), n_items)


def number_of_regions(n_cells: int) -> int:
    """How many regions so many cells are put into: 1.5 sqrt(n), of which a query sees a third or so; one of few cells.

    Examples
    --------
    >>> number_of_regions(100), number_of_regions(1_000)
    (1, 47)
    """
    return isqrt(9 * n_cells // 4) if n_cells >= MIN_CELLS else 1


def sample_size(n_cells: int, n_items: int) -> int:
    """How many codes the centres are learned from."""
    return min(n_items, max(SAMPLE_PER_CELL * n_cells, 1000))


def held_out(ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which items cells are not learned from, one in :data:`HELD_OUT`: they are those whose ids say so, at any time.

    Items draw centres nearer to themselves than new queries are. Trial queries must not have done so.
    """
    mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    chosen: NDArray[np.bool_] = (mixed >> np.uint64(33)) % np.uint64(HELD_OUT) == 0
    return chosen


def sample_rows(ids: NDArray[np.int64], n_cells: int, seed: int = 0) -> NDArray[np.int64]:
    """Rows that cells are learned from, in random order; all where too few would be left."""
    rows = np.flatnonzero(~held_out(ids))
    if not len(rows):
        rows = np.arange(len(ids))
    return np.random.default_rng(seed).choice(
        rows, sample_size(n_cells, len(rows)), replace=False, shuffle=True
    )


def learn_centres(sample: Codes, n_cells: int, *, n_jobs: int = 1, progress: Progress | None = None) -> Codes:
    """Centres of so many cells by k-majority.

    Parameters
    ----------
    sample : uint8 array (n, n_bytes)
        Codes, or their first bytes, at least as many as cells; in random order, since the first are where centres
        begin.
    n_cells : int
    n_jobs : int
    progress : function of (what, done, all), optional

    Returns
    -------
    uint8 array (n_cells, min(n_bytes, 128))
    """
    codes = head(sample, min(sample.shape[1], CENTRE_BYTES))
    centres = np.ascontiguousarray(codes[:n_cells])
    for done in range(ROUNDS):
        if progress is not None:
            progress("learning centres", done, ROUNDS)
        centres = _native.majority(codes, nearest(codes, centres, n_jobs), centres, n_jobs)
    return centres


def nearest(codes: Codes, centres: Codes, n_jobs: int = 1) -> NDArray[np.int32]:
    """Cell of each code: the nearest centre, of equals the first."""
    return _native.nearest_centres(head(codes, centres.shape[1]), centres, n_jobs)


def arranged(cell_of: NDArray[np.int32], n_cells: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows in the order of their cells, and where each cell begins."""
    offsets = np.zeros(n_cells + 1, dtype=np.int64)
    np.cumsum(np.bincount(cell_of, minlength=n_cells), out=offsets[1:])
    return np.argsort(cell_of, kind="stable"), offsets


def in_cells(
    codes: Codes, ids: NDArray[np.int64], n_cells: int, *, n_jobs: int = 1, seed: int = 0
) -> tuple[NDArray[np.int64], Cells]:
    """Cells of codes in memory, and the order in which rows belong into them."""
    sample = sample_rows(ids, n_cells, seed)
    width = min(codes.shape[1], CENTRE_BYTES)
    centres = learn_centres(np.ascontiguousarray(codes[sample, :width]), n_cells, n_jobs=n_jobs)
    order, offsets = arranged(nearest(codes, centres, n_jobs), len(centres))
    return order, Cells(centres, offsets)


def whole(slabs: Sequence[Codes], rows: NDArray[np.int64]) -> Codes:
    """Codes of some rows, their slabs side by side."""
    return np.hstack([slab[rows] for slab in slabs])
