"""What a version has beyond its manifest: the records of its log, as one more segment in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bilsh.forks import cached_property
from bilsh.store.files import Bytes, Directory, NewFile, OpenFile
from bilsh.store.ids import Names
from bilsh.store.log import Log
from bilsh.store.merge import write_segment
from bilsh.store.records import Pile, Record
from bilsh.store.rows import Layout, RowSet, joined
from bilsh.store.sections import ALIGN, FileRef, SectionFile
from bilsh.store.segment import Segment


class Tail:
    """The first `count` records of a log; the log may grow, this part of it does not change."""

    def __init__(
        self,
        ref: FileRef,
        layout: Layout,
        base: int,
        count: int,
        end: int,
        pile: Callable[[int], Pile],
    ) -> None:
        self.ref, self.layout, self.base, self.count, self.end = ref, layout, base, count, end
        self._make_pile = pile

    @classmethod
    def of(cls, log: Log, layout: Layout, base: int, count: int) -> Tail:
        """The first records of a log that was read."""
        return cls(log.ref, layout, base, count, log.end, log.records.pile)

    @cached_property
    def _pile(self) -> Pile:
        return self._make_pile(self.count)

    @cached_property
    def _alive(self) -> NDArray[np.bool_]:
        return self._pile.alive()

    @property
    def n_alive(self) -> int:
        """Number of living rows."""
        return int(np.count_nonzero(self._alive))

    @cached_property
    def rows(self) -> RowSet | None:
        """The living rows, None when there are none."""
        rows = self._pile.rows
        return joined([rows], self._alive) if rows is not None and self.n_alive else None

    @cached_property
    def segment(self) -> Segment | None:
        """The living rows as a segment in memory, None when there are none."""
        if self.rows is None:
            return None
        place = _Memory()
        ref = write_segment(place, self.ref.file, self.layout, [self.rows])
        file = SectionFile(place.open(ref.file), ref, b"SEGM", self.layout.fingerprint, use_map=True)
        return Segment(file, ref, self.layout, None)

    @property
    def deleted(self) -> NDArray[np.int64]:
        """Ids of all rows that these records delete."""
        return self._pile.deleted


class TailIndex:
    """Which ids live in a growing log: what its writer asks before every change."""

    def __init__(self) -> None:
        self._numbers: set[int] = set()
        self._by_key: dict[bytes, int] = {}
        self._keys: dict[int, bytes] = {}

    def apply(self, record: Record) -> None:
        """Follow one change."""
        for number in record.deleted.tolist():
            self._numbers.discard(number)
            self._by_key.pop(self._keys.pop(number, b""), None)
        if record.rows is not None:
            self.put(record.rows)

    def put(self, rows: RowSet) -> None:
        """Take up living rows."""
        numbers = rows.arrays["ids"][:, 0].tolist()
        self._numbers.update(numbers)
        if rows.has("keys"):
            for number, key in zip(numbers, rows.items_at("keys", np.arange(rows.rows)), strict=True):
                self._by_key[key], self._keys[number] = number, key

    def __contains__(self, number: int) -> bool:
        return number in self._numbers

    def find(self, names: Names) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Whether each id lives in the log, and its number there."""
        if not self._numbers:
            return np.zeros(len(names), dtype=np.bool_), np.zeros(len(names), dtype=np.int64)
        if names.ints is not None:
            there = np.array([number in self._numbers for number in names.ints.tolist()], dtype=np.bool_)
            return there, names.ints
        found = [self._by_key.get(key) for key in names.keys or ()]
        there = np.array([number is not None for number in found], dtype=np.bool_)
        return there, np.array([number or 0 for number in found], dtype=np.int64)


def follow(segments: tuple[Segment, ...], deleted: NDArray[np.int64]) -> tuple[Segment, ...]:
    """Segments in which the rows of these ids are deleted too."""
    if not len(deleted):
        return segments
    return tuple(_without(segment, deleted) for segment in segments)


def _without(segment: Segment, numbers: NDArray[np.int64]) -> Segment:
    rows = segment.find_numbers(numbers)
    rows = np.unique(rows[rows >= 0])
    return segment.deleting(rows[segment.is_alive(rows)])


class _Memory(Directory):
    """A place in memory for one file of sections."""

    def __init__(self) -> None:
        self.path = Path()
        self._fd = -1

    def create(self, name: str) -> NewFile:
        self._file = _Written()
        return self._file

    def open(self, name: str) -> OpenFile:
        return _Kept(bytes(self._file.data))


class _Written(NewFile):
    def __init__(self) -> None:
        self.data = bytearray()
        self._fd, self.path = -1, Path()

    def write(self, data: Bytes) -> None:
        self.data += data

    def write_at(self, offset: int, data: bytes) -> None:
        self.data[offset : offset + len(data)] = data

    def sync(self) -> None:
        pass


class _Kept(OpenFile):
    def __init__(self, data: bytes) -> None:
        room = np.empty(len(data) + ALIGN, dtype=np.uint8)
        start = -room.ctypes.data % ALIGN
        room[start : start + len(data)] = np.frombuffer(data, np.uint8)
        room.flags.writeable = False
        self._view = room[start : start + len(data)].data
        super().__init__(-1, len(data))

    def read_at(self, offset: int, length: int) -> bytes:
        return bytes(self._view[offset : offset + length])

    def map(self, offset: int, length: int) -> memoryview:
        return self._view[offset : offset + length]
