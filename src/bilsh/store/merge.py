"""Writing segments: from batches in memory, from older segments, or from both; and when to merge which.

Each section is written front to back in windows of a few MiB, so a merge needs memory for the ids (and key
hashes) of the new segment only, 16 to 40 bytes per row, whatever the codes and vectors take on disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.store.files import Directory
from bilsh.store.manifest import SegmentRef
from bilsh.store.rows import Layout, RowSet
from bilsh.store.sections import FileRef, SectionWriter
from bilsh.store.segment import Segment, windows

MAX_SEGMENTS = 16
MAX_DEAD = 0.25


def write_segment(
    directory: Directory, name: str, layout: Layout, sources: Sequence[RowSet | Segment]
) -> SegmentRef:
    """Write the live rows of `sources`, one after the other, as one synced segment file."""
    rows = sum(n_alive(source) for source in sources)
    writer = SectionWriter(directory, name, b"SEGM", rows, layout.fingerprint)
    try:
        for name, (dtype, columns) in layout.fixed_columns().items():
            writer.section(name, dtype, columns, fixed(sources, name, np.dtype(dtype).itemsize * columns))
        ids = np.concatenate([piece[:, 0] for piece in fixed(sources, "ids", 8)])
        if not bool(np.all(ids[1:] > ids[:-1])):
            writer.section("order", "<i8", 1, [np.argsort(ids, kind="stable").astype(np.int64)])
        del ids
        if layout.id_kind == "str":
            hashes = np.concatenate([hashes_of(source) for source in sources])
            order = np.argsort(hashes, kind="stable").astype(np.int64)
            writer.section("hashes", "<u8", 1, [hashes[order]])
            writer.section("hash_rows", "<i8", 1, [order])
            _write_ragged(writer, "keys", sources)
        if any(source.has("meta") for source in sources):
            _write_ragged(writer, "meta", sources)
        ref = writer.finish()
    finally:
        writer.abandon()
    return SegmentRef(ref.file, ref.size, ref.header, rows=rows, dead=0, bitmap=None)


def to_merge(segments: Sequence[SegmentRef]) -> list[int]:
    """Which segments the thresholds say to rewrite as one; none when the store is in good order.

    More than 16 segments: the smallest, and each next one that is at most twice as large as all before it
    together, so a row is rewritten O(log n) times in a store's life. More than 25 % dead rows: all segments
    with that share.
    """
    chosen: set[int] = set()
    rows = sum([segment.rows for segment in segments])
    if sum([segment.dead for segment in segments]) > MAX_DEAD * rows:
        chosen |= {i for i, segment in enumerate(segments) if segment.dead > MAX_DEAD * segment.rows}
    if len(segments) - len(chosen) + bool(chosen) > MAX_SEGMENTS:
        total = 0
        for i in sorted(range(len(segments)), key=lambda i: segments[i].rows - segments[i].dead):
            alive = segments[i].rows - segments[i].dead
            if len(chosen) >= 2 and alive > 2 * total and i not in chosen:
                break
            chosen.add(i)
            total += alive
    return sorted(chosen)


def n_alive(source: RowSet | Segment) -> int:
    """Count living rows."""
    return source.rows if isinstance(source, RowSet) else source.n_alive


def alive_rows(source: RowSet | Segment, start: int, stop: int) -> NDArray[np.bool_] | None:
    """Booleans of rows [start, stop), None when all are alive."""
    return None if isinstance(source, RowSet) else source.alive_bits(start, stop)


def fixed(sources: Sequence[RowSet | Segment], name: str, row_bytes: int) -> Iterator[NDArray[Any]]:
    """Living rows of a section, a window at a time."""
    for source in sources:
        for start, stop in windows(source.rows, row_bytes):
            piece, alive = source.rows_of(name, start, stop), alive_rows(source, start, stop)
            yield piece if alive is None else piece[alive]


def hashes_of(source: RowSet | Segment) -> NDArray[np.uint64]:
    """Key hashes of living rows, in row order."""
    if isinstance(source, RowSet):
        return source.arrays["hashes"]
    hashes, alive = source.hashes_by_row(), source.alive_bits(0, source.rows)
    return hashes if alive is None else hashes[alive]


def _write_ragged(writer: SectionWriter, name: str, sources: Sequence[RowSet | Segment]) -> None:
    def spans(
        source: RowSet | Segment,
    ) -> Iterator[tuple[int, int, NDArray[np.int64], NDArray[np.bool_] | None]]:
        """First and last byte of a window of rows, the length of each row, and which are alive."""
        before = 0
        for start, stop in windows(source.rows, 512):
            ends = (
                source.rows_of(f"{name}_ends", start, stop)[:, 0]
                if source.has(name)
                else np.full(stop - start, before)
            )
            lengths = np.diff(ends, prepend=before)
            if isinstance(source, Segment) and source.has(name):
                source.check_spans(name, ends - lengths, ends)
            yield before, int(ends[-1]), lengths, alive_rows(source, start, stop)
            before = int(ends[-1])

    def ends() -> Iterator[NDArray[np.int64]]:
        total = 0
        for source in sources:
            for _, _, lengths, alive in spans(source):
                kept = total + np.cumsum(lengths if alive is None else lengths[alive])
                yield kept
                total = int(kept[-1]) if len(kept) else total

    def data() -> Iterator[NDArray[np.uint8]]:
        for source in sources:
            if source.has(name):
                for first, last, lengths, alive in spans(source):
                    piece = source.rows_of(name, first, last)[:, 0]
                    yield piece if alive is None else piece[np.repeat(alive, lengths)]

    writer.section(f"{name}_ends", "<i8", 1, ends())
    writer.section(name, "<u1", 1, data())


def write_bitmaps(
    directory: Directory, name: str, fingerprint: str, segments: Sequence[Segment]
) -> tuple[tuple[SegmentRef, ...], FileRef]:
    """Write which rows of segments live into one file; what a manifest says of the segments, and of it."""
    pieces, refs, at = [], [], 0
    for segment in segments:
        ref = segment.ref
        if segment.alive is not None:
            ref = replace(ref, bitmap=at)
            pieces += [segment.alive, np.zeros(-len(segment.alive) % 8, dtype=np.uint8)]
            at += len(segment.alive) + len(pieces[-1])
        refs.append(ref)
    writer = SectionWriter(directory, name, b"DEAD", len(pieces) // 2, fingerprint)
    try:
        writer.section("alive", "<u1", 1, pieces)
        return tuple(refs), writer.finish()
    finally:
        writer.abandon()
