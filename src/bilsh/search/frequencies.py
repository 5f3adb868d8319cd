"""How often each bit is 1, by a sample: it tells how far a query's items are on average, and how alike they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import Codes

if TYPE_CHECKING:
    from bilsh.search.scan import Scan, Segment

SAMPLE_ROWS = 1000
"""Rows of a segment that are looked at; what they tell is kept."""

FILTERED_ROWS = 256
"""Rows that are looked at of those that pass a filter, in every search with one."""


def frequencies_of_all(scan: Scan) -> NDArray[np.float64]:
    """How often each bit (n_bits,) is 1 in the rows of all segments."""
    kept = scan.memory.frequencies
    if len(scan.segments) == 1 and (known := kept.get(scan.segments[0])) is not None:
        return known
    total, n = np.zeros(scan.n_bits), 0
    for segment in scan.segments:
        rows = len(segment.ids)
        if rows and segment not in kept:
            sample = np.linspace(0, rows - 1, min(rows, SAMPLE_ROWS)).astype(np.int64)
            kept[segment] = _ones(segment, sample, scan.n_bits) / len(sample)
        if rows:
            total += rows * kept[segment]
            n += rows
    return total / n if n else np.full(scan.n_bits, 0.5)


def frequencies_among(scan: Scan) -> NDArray[np.float64]:
    """How often each bit (n_bits,) is 1 in the rows that pass a filter, from every so many-th of them."""
    passing = [
        _rows(alive, len(segment.ids)) for segment, alive in zip(scan.segments, scan.alive, strict=True)
    ]
    step = max(1, sum(map(len, passing)) // FILTERED_ROWS)
    ones, n, before = np.zeros(scan.n_bits), 0, 0
    for segment, rows in zip(scan.segments, passing, strict=True):
        sample = rows[-before % step :: step]
        before += len(rows)
        if len(sample):
            ones += _ones(segment, sample, scan.n_bits)
            n += len(sample)
    return ones / n if n else np.full(scan.n_bits, 0.5)


def frequencies_in(codes: Codes, n_bits: int) -> NDArray[np.float64]:
    """How often each bit (n_bits,) is 1 in codes (n, n_bytes); a half where there are none."""
    return _counted(codes, n_bits) / len(codes) if len(codes) else np.full(n_bits, 0.5)


def _rows(alive: Codes | None, n: int) -> NDArray[np.int64]:
    """Rows of a packed bitmap."""
    if alive is None:
        return np.arange(n)
    return np.flatnonzero(np.unpackbits(alive, count=n, bitorder="little").view(np.bool_))


def _ones(segment: Segment, rows: NDArray[np.int64], n_bits: int) -> NDArray[np.float64]:
    """How many of some rows have each bit."""
    parts = [slab[rows] for slab in segment.slabs]
    return _counted(parts[0] if len(parts) == 1 else np.hstack(parts), n_bits)


def _counted(codes: Codes, n_bits: int) -> NDArray[np.float64]:
    bits, ones = np.unpackbits(codes, axis=1, count=n_bits, bitorder="little"), np.zeros(n_bits)
    # In bytes, as many at a time as cannot overflow: a twelfth of the time of a mean.
    for start in range(0, len(bits), 255):
        ones += np.add.reduce(bits[start : start + 255], axis=0, dtype=np.uint8)
    return ones
