"""Records of a log: one small change, and many of them as arrays.

Whoever has a log, its writer too, has the bytes of all records and makes arrays of them at once, when they are first
asked for: opening a store must not cost something for each record, and what a caller handed over may change later.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import CorruptStoreError
from bilsh.store.ids import MAX_KEY_BYTES, hash_keys
from bilsh.store.rows import MAX_METADATA_BYTES, Layout, RowSet

_RECORD = struct.Struct("<QQIIB")
_FIELDS = np.dtype(
    [("version", "<u8"), ("next_id", "<u8"), ("deleted", "<u4"), ("rows", "<u4"), ("flags", "u1")]
)
_HAS_METADATA = 1
CRC_BYTES = 4
FIXED_BYTES = _RECORD.size + CRC_BYTES
"""Bytes of a record beside its ids and rows."""


@dataclass(frozen=True, slots=True)
class Record:
    """One change: the ids (as segments have them) that are deleted, then the rows that are added; and its bytes."""

    version: int
    next_id: int
    deleted: NDArray[np.int64]
    rows: RowSet | None
    plain: bytes


@dataclass(frozen=True, slots=True)
class Pile:
    """What some records say, one after the other.

    Attributes
    ----------
    deleted, deleted_in : int64 (n,)
        Ids that are deleted, and the number of the record that does it.
    rows : RowSet or None
        Rows that are added, those that a later record deletes too.
    rows_in : int64 (n,)
        Number of the record that adds each row.
    """

    deleted: NDArray[np.int64]
    deleted_in: NDArray[np.int64]
    rows: RowSet | None
    rows_in: NDArray[np.int64]

    def alive(self) -> NDArray[np.bool_]:
        """Which rows live: those whose id no later record deletes; within a record, deletions come first."""
        if self.rows is None or not len(self.deleted):
            return np.ones(len(self.rows_in), dtype=np.bool_)
        order = np.lexsort((self.deleted_in, self.deleted))
        gone, last = self.deleted[order], self.deleted_in[order]
        ids = self.rows.arrays["ids"][:, 0]
        at = np.searchsorted(gone, ids, "right") - 1
        alive: NDArray[np.bool_] = (at < 0) | (gone[at] != ids) | (last[at] <= self.rows_in)
        return alive


def make_record(version: int, next_id: int, deleted: NDArray[np.int64], rows: RowSet | None) -> Record:
    """Write down a change."""
    if rows is None:
        plain = _RECORD.pack(version, next_id, len(deleted), 0, 0) + _numbers(deleted)
        return Record(version, next_id, deleted, None, plain)
    flags = _HAS_METADATA if "meta" in rows.arrays else 0
    parts = [
        _RECORD.pack(version, next_id, len(deleted), len(rows.codes), flags),
        _numbers(deleted), _numbers(rows.arrays["ids"]), rows.codes.tobytes(),
    ]  # fmt: skip
    if rows.layout.keep_vectors:
        parts.append(rows.arrays["vectors"].astype(rows.layout.vector_dtype, copy=False).tobytes())
    for name in ("keys", "meta"):
        if name in rows.arrays:
            parts += [_numbers(rows.arrays[f"{name}_ends"]), rows.arrays[name].tobytes()]
    return Record(version, next_id, deleted, rows, b"".join(parts))


def _numbers(values: NDArray[np.int64]) -> bytes:
    return values.astype("<i8", copy=False).tobytes()


class Records:
    """Records that were read; nothing in them is believed but their checksums.

    Parameters
    ----------
    name : str
        File they are of.
    layout : Layout
        What their rows must look like.
    base : int
        Version before the first.
    plain : uint8 (n,)
        Bytes of all records.
    starts : int64 (records + 1,)
        Where each begins, and the last one ends.
    """

    def __init__(
        self,
        name: str,
        layout: Layout,
        base: int,
        plain: NDArray[np.uint8],
        starts: NDArray[np.int64],
    ) -> None:
        self._name, self._layout, self._base = name, layout, base
        self._plain, self._starts = plain, starts

    def __len__(self) -> int:
        return len(self._starts) - 1

    def next_id(self, count: int) -> int:
        """Next id after the first `count` records."""
        first, last = self._starts[count - 1 : count + 1].tolist()
        if last - first < _RECORD.size:
            raise self._corrupt("a record is shorter than its head")
        version, number, *_ = _RECORD.unpack_from(self._plain.data, first)
        if version != self._base + count or number > 1 << 63:
            raise self._corrupt("a record contradicts itself")
        return int(number)

    def _heads(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """How many ids each record deletes, how many rows it adds, and how many of those have metadata."""
        lengths = np.diff(self._starts[: count + 1])
        if int(lengths.min(initial=_RECORD.size)) < _RECORD.size:
            raise self._corrupt("a record is shorter than its head")
        heads = self._pick(self._starts[:count], _RECORD.size).view(_FIELDS)[:, 0]
        versions = np.arange(self._base + 1, self._base + 1 + count, dtype=np.uint64)
        if not np.array_equal(heads["version"], versions) or bool(np.any(heads["flags"] > _HAS_METADATA)):
            raise self._corrupt("a record contradicts itself")
        deleted, rows = heads["deleted"].astype(np.int64), heads["rows"].astype(np.int64)
        noted = np.where(heads["flags"] == _HAS_METADATA, rows, 0)
        # The bytes of a row, but for strings; bounded first, so that no product overflows.
        fixed = 8 * (2 if self._layout.id_kind == "str" else 1) + self._layout.n_bytes + self._vector_bytes
        least = _RECORD.size + 8 * deleted + min(fixed, len(self._plain) + 1) * rows + 8 * noted
        if bool(np.any(least > lengths)):
            raise self._corrupt("a record is shorter than its rows")
        return deleted, rows, noted

    def pile(self, count: int) -> Pile:
        """Make arrays of the first `count` records."""
        layout = self._layout
        dying, counts, noted = self._heads(count)
        at = self._starts[:count] + _RECORD.size
        _, deleted_in, within = _spread(dying)
        deleted = self._ints(at[deleted_in] + 8 * within)
        at = at + 8 * dying
        total, rows_in, within = _spread(counts)
        if not total:
            self._end_at(at)
            return Pile(deleted, deleted_in, None, rows_in)

        def column(width: int) -> NDArray[np.uint8]:
            nonlocal at
            picked = self._pick(at[rows_in] + width * within, width)
            at = at + width * counts
            return picked

        ids = column(8).view("<i8")
        rows = RowSet(layout, column(layout.n_bytes), {"ids": ids})
        if layout.keep_vectors:
            rows.arrays["vectors"] = column(self._vector_bytes).view(layout.vector_dtype)
        if layout.id_kind == "str":
            at = self._add_strings(rows, "keys", at, counts, rows_in, MAX_KEY_BYTES)
            rows.arrays["hashes"] = hash_keys(rows.items_at("keys", np.arange(total)))
        if noted.any():
            at = self._add_strings(rows, "meta", at, noted, rows_in, MAX_METADATA_BYTES)
        self._end_at(at)
        if layout.n_bits % 8 and bool(np.any(rows.codes[:, -1] >> np.uint8(layout.n_bits % 8))):
            raise self._corrupt("there are padding bits that are not zero")
        return Pile(deleted, deleted_in, rows, rows_in)

    def _end_at(self, ends: NDArray[np.int64]) -> None:
        if not np.array_equal(ends, self._starts[1 : len(ends) + 1]):
            raise self._corrupt("a record is longer than its rows")

    def _add_strings(
        self,
        rows: RowSet,
        name: str,
        at: NDArray[np.int64],
        counts: NDArray[np.int64],
        rows_in: NDArray[np.int64],
        longest: int,
    ) -> NDArray[np.int64]:
        """Add strings that begin at `at` of their records, `counts` in each; return where they end."""
        _, which, within = _spread(counts)
        ends = self._ints(at[which] + 8 * within)
        lengths = np.where(within == 0, ends, ends - np.roll(ends, 1))
        # Bounds of the ends first: then no difference overflows.
        inside = bool(np.all((ends >= 0) & (ends <= len(self._plain))))
        if not inside or bool(np.any((lengths < 0) | (lengths > longest))):
            raise self._corrupt("a record has strings that lie outside it")
        sizes = np.zeros(len(at), dtype=np.int64)
        np.add.at(sizes, which, lengths)
        first = at + 8 * counts
        last = first + sizes
        if bool(np.any(last > self._starts[1 : len(at) + 1])):
            raise self._corrupt("a record has strings that lie outside it")
        parts = [self._plain[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True)]
        all_lengths = np.zeros(rows.rows, dtype=np.int64)
        all_lengths[counts[rows_in] > 0] = lengths
        rows.arrays[name] = np.concatenate(parts)[:, None]
        rows.arrays[f"{name}_ends"] = np.cumsum(all_lengths)[:, None]
        return last

    @property
    def _vector_bytes(self) -> int:
        layout = self._layout
        return np.dtype(layout.vector_dtype).itemsize * layout.n_features if layout.keep_vectors else 0

    def _ints(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._pick(offsets, 8).view("<i8")[:, 0]

    def _pick(self, offsets: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
        """Bytes [offset, offset + width) of each offset."""
        if not len(offsets):
            return np.empty((0, width), dtype=np.uint8)
        windows = np.ndarray(
            (len(self._plain) - width + 1, width), np.uint8, self._plain.data, strides=(1, 1)
        )
        return windows[offsets]

    def _corrupt(self, what: str) -> CorruptStoreError:
        return corrupt_log(self._name, f"is damaged: {what}")


def corrupt_log(name: str, what: str) -> CorruptStoreError:
    """Make the error that names a log."""
    return CorruptStoreError(f"{name} {what}. See Store.versions and Store.repair for earlier versions.")


def _spread(counts: Sequence[int] | NDArray[np.int64]) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
    """Number all things that lie in some records: how many there are, the record of each, its place in it."""
    each = np.asarray(counts, dtype=np.int64)
    which = np.repeat(np.arange(len(each)), each)
    return len(which), which, np.arange(len(which)) - (np.cumsum(each) - each)[which]
