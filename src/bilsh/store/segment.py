"""Segments: immutable files of rows, each row an id, a code, and what else is kept of an item.

Codes lie in slabs: the first 512 bits of all codes, then the next 1,536, and so on, each slab one
contiguous matrix. A progressive search reads the first slab of every code and the others only of the
promising ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.search.cells import Cells
from bilsh.search.places import PlaceCells, Places
from bilsh.store.cell_sections import OF_PLACES, cells_fit
from bilsh.store.ids import Names, as_strings
from bilsh.store.manifest import SegmentRef
from bilsh.store.rows import MAX_METADATA_BYTES, Layout
from bilsh.store.sections import WINDOW, SectionFile

SEARCH_BYTES = 32 << 20
"""Codes and vectors that a search of an unmapped store holds in memory at a time."""


class Segment:
    """A written segment, as search, iteration and compaction see it.

    Attributes
    ----------
    slabs : list of uint8 (n, width)
        The codes of all rows, dead ones too; checked when first touched.
    ids : int64 (n,)
        Ids of an integer store; running numbers of insertion in a string store (see :meth:`keys`).
    alive : uint8 (ceil(n / 8),) or None
        Bit r (little order) is set when row r is not deleted; None when all are alive.
    vectors : float32 or float16 (n, d), or None
        Kept vectors.
    """

    def __init__(
        self, file: SectionFile, ref: SegmentRef, layout: Layout, alive: NDArray[np.uint8] | None
    ) -> None:
        self.file, self.ref, self.layout, self.alive = file, ref, layout, alive
        self._inside: dict[str, NDArray[np.int64]] = {}
        self._known_cells: tuple[list[NDArray[Any]], Cells | PlaceCells] | None = None
        if file.rows != ref.rows:
            raise file.corrupt(f"has {file.rows} rows, the manifest says {ref.rows}")
        expected = dict(_columns(layout, "order" in file.sections))
        ragged = [name for name in ("keys", "meta") if name in file.sections]
        expected |= {f"{name}_ends": (np.dtype("<i8"), 1) for name in ragged}
        own = set(file.sections) - set(ragged) - set(OF_PLACES)
        found = {
            name: (section.dtype, section.columns) for name, section in file.sections.items() if name in own
        }
        counts = {file.sections[name].rows for name in own}
        flat = all(file.sections[name].row_bytes == 1 for name in ragged)
        if (
            found != expected
            or counts != {ref.rows}
            or not flat
            or not cells_fit(file, layout)
            or ("keys" in ragged) != (layout.id_kind == "str")
        ):
            raise file.corrupt("does not have the sections of this store's items")

    def __len__(self) -> int:
        return self.ref.rows

    @property
    def n_alive(self) -> int:
        """Number of rows that are not deleted."""
        return self.ref.rows - self.ref.dead

    @property
    def slabs(self) -> list[NDArray[np.uint8]]:
        """Codes in slabs, see the class."""
        return [self.file.array(f"code{i}") for i in range(len(self.layout.widths))]

    @property
    def ids(self) -> NDArray[np.int64]:
        """Int64 ids, see the class."""
        ids: NDArray[np.int64] = self.file.array("ids")[:, 0]
        return ids

    @property
    def cells(self) -> Cells | None:
        """Where cells lie when rows are in their order, None when they are not."""
        found = self._grouped() if self.has("cells") else None
        return found if isinstance(found, Cells) else None

    @property
    def places(self) -> PlaceCells | None:
        """The same for learned codes."""
        found = self._grouped() if self.has("axes") else None
        return found if isinstance(found, PlaceCells) else None

    def _grouped(self) -> Cells | PlaceCells:
        """Cells, looked through once, and again when the file has been read anew."""
        parts = [self.file.array(name) for name in OF_PLACES if name != "learned" and self.has(name)]
        known = self._known_cells
        if known is None or any(old is not new for old, new in zip(known[0], parts, strict=True)):
            # Whatever a file claims, or comes to claim later, the compiled core must not read outside it.
            centres, offsets = parts[0], parts[1][:, 0].copy()
            if offsets[0] != 0 or offsets[-1] != len(self) or np.any(np.diff(offsets) < 0):
                raise self.file.corrupt("section cells does not cut the rows into cells")
            cells: Cells | PlaceCells = Cells(centres, offsets)
            if len(parts) > 2:
                axes, owners = parts[2].copy(), parts[3][:, 0].copy()
                cells = PlaceCells(Places(axes, centres.copy(), owners), offsets)
            known = self._known_cells = parts, cells
        return known[1]

    @property
    def vectors(self) -> NDArray[Any] | None:
        """Kept vectors, see the class."""
        return self.file.array("vectors") if self.layout.keep_vectors else None

    def part(self, start: int, stop: int) -> Part:
        """Rows [start, stop) read into memory of their own: for stores larger than the address space."""
        alive = self.alive_bits(start, stop)
        return Part(
            slabs=[self.file.rows_of(f"code{i}", start, stop) for i in range(len(self.layout.widths))],
            ids=self.file.rows_of("ids", start, stop)[:, 0],
            alive=None if alive is None else np.packbits(alive, bitorder="little"),
            vectors=self.file.rows_of("vectors", start, stop) if self.layout.keep_vectors else None,
        )

    def alive_bits(self, start: int, stop: int) -> NDArray[np.bool_] | None:
        """Booleans of rows [start, stop), None when all are alive."""
        if self.alive is None:
            return None
        bits = np.unpackbits(self.alive[start // 8 : -(-stop // 8)], bitorder="little").view(np.bool_)
        return bits[start % 8 : start % 8 + stop - start]

    def is_alive(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Booleans of some rows."""
        if self.alive is None:
            return np.ones(len(rows), dtype=np.bool_)
        return (self.alive[rows // 8] >> (rows % 8).astype(np.uint8) & 1).astype(np.bool_)

    def deleting(self, rows: NDArray[np.int64]) -> Segment:
        """The same segment with living rows deleted, each named once; this one stays as it is."""
        if not len(rows):
            return self
        alive = _all_alive(len(self)) if self.alive is None else self.alive.copy()
        if len(rows) == 1:
            row = int(rows[0])
            alive[row >> 3] &= 255 ^ 1 << (row & 7)
        else:
            np.bitwise_and.at(alive, rows >> 3, ~(np.uint8(1) << (rows & 7).astype(np.uint8)))
        # A copy knows the order of ids and the cells already, which every change would look through again.
        fewer, old = object.__new__(Segment), self.ref
        fewer.__dict__.update(self.__dict__)
        fewer.ref = SegmentRef(
            old.file, old.size, old.header, old.rows, old.dead + len(rows), old.bitmap or 0
        )
        fewer.alive = alive
        return fewer

    def codes_at(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Whole codes of some rows."""
        return np.hstack([self.file.take(f"code{i}", rows) for i in range(len(self.layout.widths))])

    def keys_at(self, rows: NDArray[np.int64]) -> list[bytes]:
        """UTF-8 keys of some rows of a string store."""
        return self._items_at("keys", rows)

    def metadata_at(self, rows: NDArray[np.int64]) -> list[Any]:
        """Metadata of some rows, None where there is none."""
        if not self.has("meta"):
            return [None] * len(rows)
        return self.parse(self._items_at("meta", rows))

    def read_items(self, name: str, start: int, stop: int) -> list[bytes]:
        """Keys or metadata of rows [start, stop), read into memory of their own."""
        ends = np.concatenate([[0], self.file.rows_of(f"{name}_ends", max(start - 1, 0), stop)[:, 0]])
        ends = ends[-(stop - start) - 1 :]
        self.check_spans(name, ends[:-1], ends[1:])
        data = self.file.rows_of(name, int(ends[0]), int(ends[-1])).tobytes()
        cuts = (ends - ends[0]).tolist()
        return [data[a:b] for a, b in pairwise(cuts)]

    def find(self, names: Names) -> NDArray[np.int64]:
        """Rows that carry these ids and are alive; -1 for the others."""
        if names.ints is not None:
            rows = self.find_numbers(names.ints)
        else:
            rows = self._find_keys(
                names.keys or [], names.hashes if names.hashes is not None else np.empty(0, np.uint64)
            )
        if self.alive is not None:
            hit = np.flatnonzero(rows >= 0)
            rows[hit[~self.is_alive(rows[hit])]] = -1
        return rows

    def find_one(self, number: int) -> int:
        """Living row of one id, -1 for none: what changes of one row ask, without arrays."""
        ids, order = self.ids, self._order
        at = min(int(ids.searchsorted(number, sorter=order)), len(ids) - 1)
        row = at if order is None else int(order[at])
        alive = self.alive is None or int(self.alive[row >> 3]) >> (row & 7) & 1
        return row if alive and ids[row] == number else -1

    def find_numbers(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows whose entry in `ids` is one of `numbers`, dead or alive; -1 for the others."""
        ids, order = self.ids, self._order
        at = np.minimum(np.searchsorted(ids, numbers, sorter=order), len(ids) - 1)
        rows = at if order is None else order[at]
        return np.where(ids[rows] == numbers, rows, -1)

    def _find_keys(self, keys: list[bytes], hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        known, hash_rows = self.file.array("hashes")[:, 0], self._row_numbers("hash_rows")
        first, last = np.searchsorted(known, hashes, "left"), np.searchsorted(known, hashes, "right")
        result = np.full(len(keys), -1, dtype=np.int64)
        for i in np.flatnonzero(last > first):
            rows = hash_rows[first[i] : last[i]]
            same = [key == keys[i] for key in self.keys_at(rows)]
            if any(same):
                result[i] = rows[same.index(True)]
        return result

    @property
    def _order(self) -> NDArray[np.int64] | None:
        return self._row_numbers("order") if self.has("order") else None

    def _row_numbers(self, name: str) -> NDArray[np.int64]:
        """Section of row numbers, looked through once, and again when the file has been read anew."""
        rows: NDArray[np.int64] = self.file.array(name)
        if self._inside.get(name) is not rows:
            if rows.min() < 0 or rows.max() >= len(self):
                raise self.file.corrupt(f"section {name} points outside the segment")
            self._inside[name] = rows
        return rows[:, 0]

    def _items_at(self, name: str, rows: NDArray[np.int64]) -> list[bytes]:
        ends = self.file.take(f"{name}_ends", rows)[:, 0]
        starts = self.file.take(f"{name}_ends", np.maximum(rows - 1, 0))[:, 0]
        starts = np.where(rows == 0, 0, starts)
        self.check_spans(name, starts, ends)
        return self.file.pieces(name, starts, ends)

    def check_spans(self, name: str, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        """Refuse byte ranges that no writer would make."""
        total = self.file.sections[name].rows
        # Bounds first: the lengths of ranges that lie within a file cannot overflow.
        inside = bool(np.all((starts >= 0) & (starts <= ends) & (ends <= total)))
        if not inside or int((ends - starts).max(initial=0)) > MAX_METADATA_BYTES:
            raise self.file.corrupt(f"section {name}_ends points outside section {name}")

    def strings(self, keys: list[bytes]) -> NDArray[np.object_]:
        """Keys as the caller knows them."""
        try:
            return as_strings(keys)
        except UnicodeDecodeError:
            raise self.file.corrupt("holds keys that are not UTF-8") from None

    def parse(self, items: list[bytes]) -> list[Any]:
        """Metadata from its stored text, None where that is empty."""
        try:
            return [json.loads(item) if item else None for item in items]
        except (ValueError, RecursionError):
            raise self.file.corrupt("holds metadata that is not JSON") from None

    @property
    def rows(self) -> int:
        """Number of rows, dead ones too."""
        return self.ref.rows

    def has(self, name: str) -> bool:
        """Whether a section is there."""
        return name in self.file.sections

    def rows_of(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Rows [start, stop) of a section, read into memory of their own."""
        return self.file.rows_of(name, start, stop)

    def take(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return copies of some rows of a section."""
        return self.file.take(name, rows)

    def items_at(self, name: str, rows: NDArray[np.int64]) -> list[bytes]:
        """Keys or metadata of some rows, in the order asked for; empty where there are none."""
        return self._items_at(name, rows) if self.has(name) else [b""] * len(rows)

    def hashes_by_row(self) -> NDArray[np.uint64]:
        """Key hash of every row, in row order."""
        result = np.zeros(len(self), dtype=np.uint64)
        result[self._row_numbers("hash_rows")] = self.file.array("hashes")[:, 0]
        return result


def _all_alive(n: int) -> NDArray[np.uint8]:
    """Bitmap of n rows, none of them deleted."""
    bits = np.full(-(-n // 8), 255, dtype=np.uint8)
    if n % 8:
        bits[-1] = (1 << n % 8) - 1
    return bits


@lru_cache(maxsize=32)
def _columns(layout: Layout, ordered: bool) -> dict[str, tuple[np.dtype[Any], int]]:
    """Sections with one row per item, as their headers must state them."""
    numbers = (np.dtype("<i8"), 1)
    columns = {name: (np.dtype(dtype), n) for name, (dtype, n) in layout.fixed_columns().items()}
    if ordered:
        columns["order"] = numbers
    if layout.id_kind == "str":
        columns |= {"hashes": (np.dtype("<u8"), 1), "hash_rows": numbers}
    return columns


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a segment in memory; same names as :class:`Segment`."""

    slabs: list[NDArray[np.uint8]]
    ids: NDArray[np.int64]
    alive: NDArray[np.uint8] | None
    vectors: NDArray[Any] | None

    def __len__(self) -> int:
        return len(self.ids)


def windows(rows: int, row_bytes: int) -> Iterator[tuple[int, int]]:
    """Cut rows into ranges of a few MiB."""
    step = max(1, WINDOW // max(row_bytes, 1))
    for start in range(0, rows, step):
        yield start, min(start + step, rows)


class Window:
    """Rows [start, stop) of a segment, read whenever they are asked for and never kept.

    Looks like a segment to a search, which so needs memory for one window only, however large the store is.
    """

    def __init__(self, segment: Segment, start: int, stop: int) -> None:
        self._segment, self._start, self._stop = segment, start, stop

    @property
    def slabs(self) -> list[NDArray[np.uint8]]:
        """Codes in slabs."""
        widths = self._segment.layout.widths
        return [self._segment.file.rows_of(f"code{i}", self._start, self._stop) for i in range(len(widths))]

    @property
    def ids(self) -> NDArray[np.int64]:
        """Int64 ids."""
        return np.ascontiguousarray(self._segment.file.rows_of("ids", self._start, self._stop)[:, 0])

    @property
    def alive(self) -> NDArray[np.uint8] | None:
        """Packed bitmap of living rows, None when all are."""
        bits = self._segment.alive_bits(self._start, self._stop)
        return None if bits is None else np.packbits(bits, bitorder="little")

    @property
    def vectors(self) -> NDArray[Any] | None:
        """Kept vectors, None when there are none."""
        if not self._segment.layout.keep_vectors:
            return None
        return self._segment.file.rows_of("vectors", self._start, self._stop)

    @property
    def cells(self) -> None:
        """Windows are read one after the other, all of them."""
        return None

    @property
    def places(self) -> None:
        """Nor are there any of learned codes."""
        return None


def unmapped(segment: Segment) -> list[Window]:
    """Cut a segment into windows of about SEARCH_BYTES of codes and kept vectors."""
    row_bytes = sum(segment.file.sections[name].row_bytes for name in segment.layout.fixed_columns())
    step = max(1, SEARCH_BYTES // row_bytes)
    return [Window(segment, i, min(i + step, len(segment))) for i in range(0, len(segment), step)]
