"""Segments whose rows are in the order of cells.

Rows are looked at in windows and written in windows, so that memory is needed for the cell and place of each row only,
about 30 bytes, whatever codes and vectors take. The result is a segment like any other, with three sections more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import Codes
from bilsh.encoders.coder import Coder
from bilsh.encoders.euclidean_coder import EuclideanCoder
from bilsh.search import estimated_promise
from bilsh.search.cells import (
    CENTRE_BYTES,
    arranged,
    learn_centres,
    nearest,
    number_of_cells,
    sample_rows,
)
from bilsh.search.estimated_promise import EstimatedTrial
from bilsh.search.places import learn_places
from bilsh.search.trial import Trial, try_items, try_queries
from bilsh.store.files import Directory
from bilsh.store.manifest import SegmentRef
from bilsh.store.merge import alive_rows, fixed, hashes_of, n_alive
from bilsh.store.placed import PlaceArrangement
from bilsh.store.rows import Layout, RowSet
from bilsh.store.sections import FileRef, SectionFile, SectionWriter
from bilsh.store.segment import Segment, windows
from bilsh.store.snapshot import open_file
from bilsh.store.trials import write_trial
from bilsh.store.writer import Writer
from bilsh.types import Progress

Sources = Sequence[RowSet | Segment]
OUTPUT_BYTES = 32 << 20
"""What is written at a time: rows are gathered from all over the sources for it."""

AT_A_TIME = 65_536
GROWN = 2
"""Centres are learned anew when there are this many times the rows they were learned for."""

MERGE_SHARE = 0.25
MERGE_LEAST = 1000
"""Rows outside of cells that are merged into them: this share of those inside, and at least so many."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """How rows become cells.

    Attributes
    ----------
    centres : uint8 array (c, width)
    learned : int
        Rows there were when they were learned.
    asked : int
        Number of cells that was asked for; 0 for auto.
    """

    centres: Codes
    learned: int
    asked: int

    @classmethod
    def of(cls, segment: Segment) -> Arrangement:
        """Arrangement of a segment."""
        learned, asked = segment.file.rows_of("learned", 0, 2)[:, 0].tolist()
        centres = segment.file.sections["centres"]
        return cls(segment.file.rows_of("centres", 0, centres.rows), learned, asked)

    @property
    def width(self) -> int:
        """How many bytes of a code say in which cell it is."""
        return int(self.centres.shape[1])

    def __len__(self) -> int:
        return len(self.centres)

    def cell_of(self, heads: Codes, n_jobs: int) -> NDArray[np.int32]:
        """Cell of each of some codes."""
        return nearest(heads, self.centres, n_jobs)

    def write(self, writer: SectionWriter) -> None:
        """Write what there is to know of the cells but where they begin."""
        writer.section("centres", "<u1", self.width, [self.centres])


Arrangements = Arrangement | PlaceArrangement


def merge_into_cells(segments: Sequence[Segment]) -> bool:
    """Whether rows outside of cells, or dead ones inside, are so many that cells should be made anew."""
    inside = [segment for segment in segments if segment.has("cells")]
    if not inside:
        return False
    rows, living = sum(len(segment) for segment in inside), sum(segment.n_alive for segment in inside)
    outside = sum(segment.n_alive for segment in segments) - living
    dead = rows - living
    return outside >= max(MERGE_LEAST, MERGE_SHARE * living) or dead > MERGE_SHARE * rows


def arrange(
    layout: Layout,
    sources: Sources,
    n_cells: int | str,
    before: Arrangements | None,
    coder: Coder,
    *,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> Arrangements | None:
    """Centres for the living rows of sources: those before while they serve, else new ones; None for too few rows."""
    n = sum(n_alive(source) for source in sources)
    if n < 2:
        return None
    if before is not None and n < GROWN * before.learned:
        return before
    count = number_of_cells(n_cells, n)
    if count < 1:
        return None
    ids = np.concatenate([piece[:, 0] for piece in fixed(sources, "ids", 8)])
    picked = np.sort(sample_rows(ids, count))
    width = layout.n_bytes if isinstance(coder, EuclideanCoder) else min(layout.n_bytes, CENTRE_BYTES)
    sample = np.empty((len(picked), width), dtype=np.uint8)
    at = 0
    for heads in _heads(layout, sources, sample.shape[1]):
        low, high = np.searchsorted(picked, [at, at + len(heads)])
        sample[low:high] = heads[picked[low:high] - at]
        at += len(heads)
    # In random order: the first are where centres begin.
    sample = sample[np.random.default_rng(1).permutation(len(sample))]
    asked = 0 if isinstance(n_cells, str) else n_cells
    if isinstance(coder, EuclideanCoder):
        places = learn_places(coder, sample, count, n_jobs=n_jobs, progress=progress)
        return PlaceArrangement(places, coder, n, asked)
    return Arrangement(learn_centres(sample, count, n_jobs=n_jobs, progress=progress), n, asked)


def write_celled(
    directory: Directory,
    name: str,
    layout: Layout,
    sources: Sources,
    made: Arrangements,
    *,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> SegmentRef:
    """Write the living rows of sources as one synced segment, in the order of their cells."""
    n = sum(n_alive(source) for source in sources)
    cell_of, at = np.empty(n, dtype=np.int32), 0
    for heads in _heads(layout, sources, made.width):
        if progress is not None:
            progress("assigning rows", at, n)
        cell_of[at : at + len(heads)] = made.cell_of(heads, n_jobs)
        at += len(heads)
    order, offsets = arranged(cell_of, len(made))
    rows = _Gatherer(sources, order)
    writer = SectionWriter(directory, name, b"SEGM", n, layout.fingerprint)
    try:
        for section, (dtype, columns) in layout.fixed_columns().items():
            if progress is not None:
                progress("writing cells", 0, n)
            writer.section(section, dtype, columns, rows.fixed(section, np.dtype(dtype).itemsize * columns))
        ids = np.concatenate([piece[:, 0] for piece in rows.fixed("ids", 8)])
        if not bool(np.all(ids[1:] > ids[:-1])):
            writer.section("order", "<i8", 1, [np.argsort(ids, kind="stable").astype(np.int64)])
        if layout.id_kind == "str":
            hashes = np.concatenate([hashes_of(source) for source in sources])[order]
            by_hash = np.argsort(hashes, kind="stable").astype(np.int64)
            writer.section("hashes", "<u8", 1, [hashes[by_hash]])
            writer.section("hash_rows", "<i8", 1, [by_hash])
            rows.write_ragged(writer, "keys")
        if any(source.has("meta") for source in sources):
            rows.write_ragged(writer, "meta")
        made.write(writer)
        writer.section("cells", "<i8", 1, [offsets])
        writer.section("learned", "<i8", 1, [np.array([made.learned, made.asked])])
        ref = writer.finish()
    finally:
        writer.abandon()
    return SegmentRef(ref.file, ref.size, ref.header, rows=n, dead=0, bitmap=None)


def _heads(layout: Layout, sources: Sources, width: int) -> Iterator[Codes]:
    """First bytes of the codes of living rows, window by window."""
    for source in sources:
        for start, stop in windows(source.rows, layout.n_bytes):
            parts, left = [], width
            for number, slab in enumerate(layout.widths):
                if left > 0:
                    parts.append(source.rows_of(f"code{number}", start, stop)[:, :left])
                    left -= slab
            heads, alive = np.hstack(parts), alive_rows(source, start, stop)
            yield np.ascontiguousarray(heads if alive is None else heads[alive])


class _Gatherer:
    """Living rows of sources in a given order."""

    def __init__(self, sources: Sources, order: NDArray[np.int64]) -> None:
        self._sources = sources
        rows = []
        for source in sources:
            alive = alive_rows(source, 0, source.rows)
            rows.append(np.arange(source.rows) if alive is None else np.flatnonzero(alive))
        ends = np.cumsum([len(part) for part in rows])
        self._source = np.searchsorted(ends, order, side="right").astype(np.int32)
        self._row = np.concatenate(rows)[order]

    def _windows(
        self, step: int
    ) -> Iterator[list[tuple[RowSet | Segment, NDArray[np.int64], NDArray[np.int64]]]]:
        """For each window: which source, its rows, and their places in the window."""
        for start in range(0, len(self._row), step):
            source, row = self._source[start : start + step], self._row[start : start + step]
            places = [(number, np.flatnonzero(source == number)) for number in range(len(self._sources))]
            yield [(self._sources[number], row[at], at) for number, at in places if len(at)]

    def fixed(self, name: str, row_bytes: int) -> Iterator[NDArray[Any]]:
        """Rows of a section, a window at a time."""
        for parts in self._windows(max(1, OUTPUT_BYTES // row_bytes)):
            taken = [(source.take(name, rows), at) for source, rows, at in parts]
            piece = np.empty(
                (sum(len(at) for _, at in taken), *taken[0][0].shape[1:]), dtype=taken[0][0].dtype
            )
            for values, at in taken:
                piece[at] = values
            yield piece

    def _items(self, name: str) -> Iterator[list[bytes]]:
        for parts in self._windows(AT_A_TIME):
            items: list[bytes] = [b""] * sum(len(at) for _, _, at in parts)
            for source, rows, at in parts:
                for place, item in zip(at.tolist(), source.items_at(name, rows), strict=True):
                    items[place] = item
            yield items

    def write_ragged(self, writer: SectionWriter, name: str) -> None:
        """Write keys or metadata: where each ends, then their bytes."""

        def ends() -> Iterator[NDArray[np.int64]]:
            total = 0
            for items in self._items(name):
                kept = total + np.cumsum(np.fromiter(map(len, items), np.int64, len(items)))
                yield kept
                total = int(kept[-1])

        writer.section(f"{name}_ends", "<i8", 1, ends())
        data = (np.frombuffer(b"".join(items), np.uint8) for items in self._items(name))
        writer.section(name, "<u1", 1, data)


@dataclass(frozen=True, slots=True)
class Workshop:
    """Makes the files of cells for a change that is going on.

    Attributes
    ----------
    writer : Writer
    layout : Layout
    coder : Coder
        What made the codes.
    use_map : bool
        Whether files are mapped.
    n_jobs : int
    progress : function of (what, done, all) or None
    """

    writer: Writer
    layout: Layout
    coder: Coder
    use_map: bool
    n_jobs: int = 1
    progress: Progress | None = None

    def before(self, celled: Segment) -> Arrangements:
        """Cells of a segment, for rows that come to it."""
        if isinstance(self.coder, EuclideanCoder):
            return PlaceArrangement.of(celled, self.coder)
        return Arrangement.of(celled)

    def cells(self, sources: Sources, n_cells: int | str, before: Arrangements | None) -> Segment | None:
        """Write the living rows of sources in the order of cells; None where they are too few."""
        options: dict[str, Any] = {"n_jobs": self.n_jobs, "progress": self.progress}
        made = arrange(self.layout, sources, n_cells, before, self.coder, **options)
        if made is None:
            return None
        name = self.writer.new_name("s", "seg")
        ref = write_celled(self.writer.directory, name, self.layout, sources, made, **options)
        return Segment(self._open(ref, b"SEGM", self.use_map), ref, self.layout, None)

    def calibration(self, celled: Segment, queries: NDArray[Any] | None) -> SectionFile:
        """Measure what promised recalls rest on, by queries (codes; descriptors of learned codes) or by items."""
        # Mapped for this even where that is unwelcome: so the codes need not all be in memory.
        file = self._open(celled.ref, b"SEGM", True)
        options: dict[str, Any] = {"n_jobs": self.n_jobs, "progress": self.progress}
        try:
            mapped = Segment(file, celled.ref, self.layout, celled.alive)
            trial = self._trial(mapped, queries, options)
        finally:
            file.close()
        name = self.writer.new_name("c", "cal")
        ref = write_trial(self.writer.directory, name, self.layout, trial, celled.file.name)
        return self._open(ref, b"CALI", self.use_map)

    def _trial(
        self, celled: Segment, queries: NDArray[Any] | None, options: dict[str, Any]
    ) -> Trial | EstimatedTrial:
        slabs, alive = celled.slabs, celled.alive
        if isinstance(self.coder, EuclideanCoder):
            if queries is None:
                return estimated_promise.try_items(
                    self.coder, slabs, alive, celled.ids, celled.vectors, **options
                )
            return estimated_promise.try_queries(self.coder, queries, slabs, alive, **options)
        if queries is None:
            return try_items(slabs, alive, celled.ids, **options)
        return try_queries(queries, slabs, alive, **options)

    @staticmethod
    def queries_of(calibration: SectionFile | None) -> NDArray[Any] | None:
        """Queries that the user gave for a calibration; None where it was made with items."""
        if calibration is None or not calibration.rows or calibration.rows_of("own", 0, 1)[0, 0] >= 0:
            return None
        return calibration.rows_of("queries", 0, calibration.rows)

    def _open(self, ref: FileRef, kind: bytes, use_map: bool) -> SectionFile:
        return open_file(self.writer.directory, ref, kind, self.layout.fingerprint, use_map)
