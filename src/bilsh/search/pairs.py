"""All pairs of codes within a radius: exact, a block of rows at a time, cells that cannot hold a partner left out.

A centre stands for the first bytes of codes, and distances over these are no larger than those over all. So by the
triangle inequality a row x has a partner within R in a cell only if

    distance(x, centre) <= R + radius of the cell,

the radius being the largest distance of the cell's rows to their centre.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bilsh import _native
from bilsh.codes import Codes
from bilsh.search.cells import Cells, head, whole
from bilsh.search.scan import Ids, Segment
from bilsh.search.trial import is_set

BLOCK = 512
"""Rows that are compared with others at a time."""

CHUNK = 16_384
"""Rows they are compared with at a time: what is found of all pairs of both takes 100 MB at most."""

Pairs = tuple[Ids, Ids, NDArray[np.int32]]


def blocks_of(segments: Sequence[Segment], size: int = BLOCK) -> list[tuple[int, int, int]]:
    """Blocks of rows: number of the segment, first row, end."""
    return [
        (number, start, min(start + size, n_rows))
        for number, n_rows in enumerate(len(segment.ids) for segment in segments)
        for start in range(0, n_rows, size)
    ]


def living_rows(segments: Sequence[Segment], block: tuple[int, int, int]) -> tuple[Ids, Codes]:
    """Ids and codes of the living rows of a block."""
    segment, rows = segments[block[0]], _living(segments, block)
    return np.asarray(segment.ids)[rows], whole(segment.slabs, rows)


def _living(segments: Sequence[Segment], block: tuple[int, int, int]) -> Ids:
    number, start, stop = block
    rows = np.arange(start, stop)
    alive = segments[number].alive
    return rows if alive is None else rows[is_set(alive, rows)]


def radii(segment: Segment) -> NDArray[np.int64] | None:
    """Radius of each cell of a segment; None where there are no cells."""
    cells = segment.cells
    if cells is None:
        return None
    result = np.zeros(len(cells), dtype=np.int64)
    for start in range(0, len(segment.ids), CHUNK):
        rows = np.arange(start, min(start + CHUNK, len(segment.ids)))
        mine = cells.of_rows(rows)
        heads = head(whole(segment.slabs, rows), cells.centres.shape[1])
        far = np.bitwise_count(heads ^ cells.centres[mine]).sum(axis=1, dtype=np.int64)
        np.maximum.at(result, mine, far)
    return result


def pairs_of_block(
    segments: Sequence[Segment],
    block: tuple[int, int, int],
    radius: int,
    reach: Sequence[NDArray[np.int64] | None],
    n_jobs: int = 1,
) -> Iterator[Pairs]:
    """Pairs within the radius of a block's living rows and all rows behind them: ids, ids, distances.

    Parameters
    ----------
    segments : sequence of Segment
    block : (int, int, int)
        One of :func:`blocks_of`; over all of them each pair comes once.
    radius : int
    reach : sequence of arrays or None
        :func:`radii` of each segment.
    n_jobs : int
    """
    number, start, _ = block
    rows = _living(segments, block)
    if not len(rows):
        return
    ids, codes = living_rows(segments, block)
    for other in range(number, len(segments)):
        segment = segments[other]
        for low, high in _ranges(segment.cells, reach[other], codes, radius, len(segment.ids)):
            for begin in range(max(low, start) if other == number else low, high, CHUNK):
                end = min(begin + CHUNK, high)
                slabs = [slab[begin:end] for slab in segment.slabs]
                ends, near, far = _native.hamming_within(codes, slabs, radius, None, None, n_jobs)
                near = near + begin
                query = np.repeat(np.arange(len(rows)), np.diff(ends))
                good = near > rows[query] if other == number else np.ones(len(near), dtype=np.bool_)
                if segment.alive is not None:
                    good &= is_set(segment.alive, near)
                if good.any():
                    yield ids[query[good]], np.asarray(segment.ids)[near[good]], far[good]


def _ranges(
    cells: Cells | None, reach: NDArray[np.int64] | None, codes: Codes, radius: int, n_rows: int
) -> list[tuple[int, int]]:
    """Ranges of rows that can hold a partner."""
    if cells is None or reach is None:
        return [(0, n_rows)]
    near = np.flatnonzero(cells.far(codes).min(axis=0) <= radius + reach)
    ranges: list[tuple[int, int]] = []
    for cell in near.tolist():
        low, high = int(cells.offsets[cell]), int(cells.offsets[cell + 1])
        if ranges and ranges[-1][1] == low:
            ranges[-1] = ranges[-1][0], high
        elif high > low:
            ranges.append((low, high))
    return ranges
