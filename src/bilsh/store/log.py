"""The log: small changes appended to one file, in front of the segments.

A segment and a manifest for one row would be a hundred times its bytes. So a writer that makes small changes one
after the other keeps a file beside the segments, named by the manifest and filled with zeros from the start, and
puts each change there as one record: written, synced, done. Version v of a store is then the manifest of version
b and the first v - b records of its log.

What a crash leaves unwritten is zero, and no byte of a record is zero: bytes carry seven bits each, and always
two bits that are set. So a record that was cut off by a crash, or is just being written, has zeros in it and is
none yet; a record that was damaged has not, even where a single bit was flipped, and is an error. Only the
writer that made a log appends to it; the next one begins another.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import CorruptStoreError
from bilsh.store.files import Directory, NewFile, OpenFile, sync
from bilsh.store.ids import MAX_KEY_BYTES, hash_keys
from bilsh.store.manifest import IdKind, VectorKind
from bilsh.store.rows import MAX_METADATA_BYTES, Layout, RowSet, ragged
from bilsh.store.sections import MAGIC, FileRef

CAPACITY = 64 << 10
"""Bytes of a log file."""
MAX_RECORDS = 500
"""Records of a log, lest opening a store takes long."""
CAPACITY_LIMIT = 16 << 20
"""Bytes of the largest log that is read."""
MAX_RECORD = 16 << 10
"""Bytes of the largest change that goes into the log, as they are before seven bits make a byte."""

_LOG_FORMAT = 2
_HEADER = struct.Struct("<8sI4sQQ16s32sBB")
_HEADER_BYTES = 128
_FRAME = 8
_RECORD = struct.Struct("<QQIIB")
_HAS_METADATA = 1
_BYTE = [0x7F, *range(0x81, 0x100)]
"""The byte that stands for each seven bits: the top bit is set, and one more; seven zeros are 0x7f."""
_VALUE = [_BYTE.index(byte) if byte in _BYTE else 0xFF for byte in range(256)]
_BYTES, _VALUES = np.array(_BYTE, dtype=np.uint8), np.array(_VALUE, dtype=np.uint64)
_SHIFTS = np.arange(0, 56, 7, dtype=np.uint64)
_ID_KINDS: tuple[IdKind, ...] = ("int", "str")
_VECTOR_KINDS: tuple[VectorKind | None, ...] = (None, "float32", "float16")


@dataclass(frozen=True, slots=True)
class Record:
    """One change: the ids (as segments have them) that are deleted, then the rows that are added."""

    version: int
    next_id: int
    deleted: NDArray[np.int64]
    rows: RowSet | None


@dataclass(frozen=True, slots=True)
class Log:
    """The records that a log holds now, and where the next one would begin."""

    ref: FileRef
    records: list[Record]
    end: int


class LogWriter:
    """A log that this process made and appends to."""

    def __init__(self, directory: Directory, name: str, layout: Layout, base: int) -> None:
        self._file: NewFile = directory.create(name)
        header = _header(name, CAPACITY, base, layout)
        self._seed = zlib.crc32(header)
        self._file.write(header + bytes(CAPACITY - len(header)))
        sync(self._file)
        self.ref = FileRef(name, CAPACITY, sha256(header).hexdigest())
        self.base = base
        self.records: list[Record] = []
        self.end = _HEADER_BYTES

    def has_room(self, record: Record) -> bool:
        """Whether a record fits."""
        room = CAPACITY - self.end - _FRAME
        return len(self.records) < MAX_RECORDS and _stuffed_size(size_of(record)) <= room

    def append(self, record: Record) -> None:
        """Put a record behind the others; durable when this returns."""
        data = _payload(record, self._seed)
        frame = _frame(len(data), self.end, self._seed) + _stuffed(data)
        self._file.write_at(self.end, frame)
        sync(self._file)
        self.records.append(record)
        self.end += len(frame)

    def close(self) -> None:
        """Give the descriptor back."""
        self._file.close()


def read_log(file: OpenFile, ref: FileRef, layout: Layout, base: int) -> Log:
    """Read all whole records of a log; CorruptStoreError when any byte of them is not as written."""
    if file.size != ref.size or ref.size > CAPACITY_LIMIT:
        raise _corrupt(ref.file, f"has {file.size} bytes, the manifest says {ref.size}")
    data = file.read_at(0, ref.size)
    header = data[:_HEADER_BYTES]
    if len(data) != ref.size or sha256(header).hexdigest() != ref.header:
        raise _corrupt(
            ref.file, "header does not match the manifest (damaged, or another file put in its place)"
        )
    if header != _header(ref.file, ref.size, base, layout):
        raise _corrupt(ref.file, "is a file of another kind, name, version or encoder")
    try:
        return _parse(data, ref, layout, base, zlib.crc32(header))
    except (ValueError, struct.error) as error:
        raise _corrupt(ref.file, f"is damaged: {error}") from None


def _parse(data: bytes, ref: FileRef, layout: Layout, base: int, seed: int) -> Log:
    records: list[Record] = []
    at = _HEADER_BYTES
    while at + _FRAME <= len(data):
        frame = data[at : at + _FRAME]
        if b"\0" in frame:
            _nothing_behind(data, at + _FRAME + _stuffed_size(MAX_RECORD), base + len(records) + 1)
            break
        n_bytes = _length(frame, at, seed, base + len(records) + 1)
        end = at + _FRAME + _stuffed_size(n_bytes)
        body = data[at + _FRAME : end]
        if b"\0" in body:
            _nothing_behind(data, end, base + len(records) + 1)
            break
        record = _record(_plain(body, n_bytes), layout, seed, base + len(records) + 1)
        records.append(record)
        at = end
    return Log(ref, records, at)


def _nothing_behind(data: bytes, at: int, version: int) -> None:
    """Only the last record may be unfinished."""
    if data[at:].strip(b"\0"):
        raise ValueError(f"version {version} is cut off, but others follow")


def read_loose_log(file: OpenFile, name: str, n_bits: int, n_features: int) -> tuple[Log, Layout, int]:
    """Read a log that no manifest names: its records, the layout of its rows, the version it begins after."""
    header = file.read_at(0, _HEADER_BYTES)
    try:
        _, _, _, size, base, _, fingerprint, kind, vectors = _HEADER.unpack_from(header)
        layout = Layout(fingerprint.hex(), n_bits, n_features, _ID_KINDS[kind], _VECTOR_KINDS[vectors])
    except (struct.error, IndexError):
        raise _corrupt(name, "header is damaged") from None
    return read_log(file, FileRef(name, size, sha256(header).hexdigest()), layout, base), layout, base


def _header(name: str, size: int, base: int, layout: Layout) -> bytes:
    fixed = _HEADER.pack(
        MAGIC, _LOG_FORMAT, b"LOGF", size, base, name[2:18].encode("ascii"),
        bytes.fromhex(layout.fingerprint), _ID_KINDS.index(layout.id_kind), _VECTOR_KINDS.index(layout.keep_vectors),
    )  # fmt: skip
    header = fixed.ljust(_HEADER_BYTES - 4, b"\0")
    return header + struct.pack("<I", zlib.crc32(header))


def _frame(n_bytes: int, at: int, seed: int) -> bytes:
    """Length of a record and a check of it, 28 bits each: four bytes of seven."""
    word = n_bytes | (zlib.crc32(struct.pack("<QI", at, n_bytes), seed) >> 4) << 28
    return bytes([_BYTE[word >> shift & 0x7F] for shift in range(0, 56, 7)])


def _length(frame: bytes, at: int, seed: int, version: int) -> int:
    n_bytes = sum(_VALUE[byte] % 128 << 7 * place for place, byte in enumerate(frame[:4]))
    if frame != _frame(n_bytes, at, seed):
        raise ValueError(f"version {version} begins with a wrong length")
    return n_bytes


def _stuffed_size(n_bytes: int) -> int:
    return -(-8 * n_bytes // 7)


def _stuffed(data: bytes) -> bytes:
    """Seven bits to a byte, see _BYTE: seven bytes become eight."""
    padded = np.frombuffer(data + bytes(-len(data) % 7), np.uint8)
    words = np.zeros((len(padded) // 7, 8), dtype=np.uint8)
    words[:, :7] = padded.reshape(-1, 7)
    values = words.view("<u8") >> _SHIFTS & 0x7F
    stuffed: bytes = _BYTES[values].tobytes()
    return stuffed[: _stuffed_size(len(data))]


def _plain(stuffed: bytes, n_bytes: int) -> bytes:
    size = _stuffed_size(n_bytes)
    values = np.zeros(-(-size // 8) * 8, dtype=np.uint64)
    values[:size] = _VALUES[np.frombuffer(stuffed, np.uint8)]
    if len(stuffed) != size or int(values.max(initial=0)) > 0x7F:
        raise ValueError("there are bytes that no record has")
    words = np.bitwise_or.reduce(values.reshape(-1, 8) << _SHIFTS, axis=1)
    data = np.ascontiguousarray(words.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :7]).tobytes()
    if any(data[n_bytes:]):
        raise ValueError("there are bits behind a record")
    return data[:n_bytes]


def size_of(record: Record) -> int:
    """Bytes of a record before they are stuffed."""
    rows = 0 if record.rows is None else record.rows.nbytes
    return _RECORD.size + record.deleted.nbytes + rows + 4


def _payload(record: Record, seed: int) -> bytes:
    rows = record.rows
    flags = _HAS_METADATA if rows is not None and rows.has("meta") else 0
    count = 0 if rows is None else rows.rows
    parts = [
        _RECORD.pack(record.version, record.next_id, len(record.deleted), count, flags),
        record.deleted.astype("<i8").tobytes(),
    ]
    if rows is not None:
        parts += [rows.arrays["ids"].astype("<i8").tobytes(), np.ascontiguousarray(rows.codes).tobytes()]
        if rows.layout.keep_vectors:
            parts.append(rows.arrays["vectors"].astype(rows.layout.vector_dtype).tobytes())
        for name in ("keys", "meta"):
            if rows.has(name):
                parts += [rows.arrays[f"{name}_ends"].astype("<i8").tobytes(), rows.arrays[name].tobytes()]
    data = b"".join(parts)
    return data + struct.pack("<I", zlib.crc32(data, seed))


def _record(data: bytes, layout: Layout, seed: int, version: int) -> Record:
    """Turn a record's bytes into arrays, believing nothing."""
    body = data[:-4]
    if len(data) < _RECORD.size + 4 or zlib.crc32(body, seed) != struct.unpack("<I", data[-4:])[0]:
        raise ValueError(f"the checksum of version {version} does not match")
    number, next_id, n_deleted, count, flags = _RECORD.unpack_from(body)
    if number != version or next_id > 1 << 63 or flags > _HAS_METADATA:
        raise ValueError(f"version {version} contradicts itself")
    pieces = _Pieces(body, _RECORD.size)
    deleted = pieces.array("<i8", n_deleted, 1)[:, 0]
    rows = None
    if count:
        arrays = {"ids": pieces.array("<i8", count, 1)}
        codes = pieces.array("<u1", count, layout.n_bytes)
        if layout.keep_vectors:
            arrays["vectors"] = pieces.array(layout.vector_dtype, count, layout.n_features)
        if layout.id_kind == "str":
            keys = list(pieces.strings(count, MAX_KEY_BYTES))
            arrays |= ragged("keys", keys)
            arrays["hashes"] = hash_keys(keys)
        if flags & _HAS_METADATA:
            arrays |= ragged("meta", list(pieces.strings(count, MAX_METADATA_BYTES)))
        if layout.n_bits % 8 and bool(np.any(codes[:, -1] >> np.uint8(layout.n_bits % 8))):
            raise ValueError(f"version {version} has padding bits that are not zero")
        rows = RowSet(layout, codes, arrays)
    if pieces.left():
        raise ValueError(f"version {version} is longer than its rows")
    return Record(version, next_id, deleted, rows)


class _Pieces:
    """Takes arrays off the front of some bytes; ValueError when there are too few."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at

    def array(self, dtype: str, rows: int, columns: int) -> NDArray[Any]:
        size = rows * columns * np.dtype(dtype).itemsize
        if size > self.left():
            raise ValueError("a record is shorter than its rows")
        flat = np.frombuffer(self._data, dtype, rows * columns, self._at)
        self._at += size
        return flat.reshape(rows, columns)

    def strings(self, count: int, longest: int) -> Iterator[bytes]:
        ends = self.array("<i8", count, 1)[:, 0].tolist()
        start = self._at
        before = 0
        for end in ends:
            if not before <= end <= before + longest or end > len(self._data) - start:
                raise ValueError("a record has strings that lie outside it")
            yield self._data[start + before : start + end]
            before = end
        self._at = start + before

    def left(self) -> int:
        return len(self._data) - self._at


def _corrupt(name: str, what: str) -> CorruptStoreError:
    return CorruptStoreError(f"{name} {what}. See Store.versions and Store.repair for earlier versions.")
