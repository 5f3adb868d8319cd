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
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from bilsh import _native
from bilsh.store.files import Directory, NewFile, OpenFile, sync
from bilsh.store.manifest import MAX_VERSION, IdKind, VectorKind
from bilsh.store.records import CRC_BYTES, Pile, Record, Records, corrupt_log
from bilsh.store.rows import Layout
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
_ID_KINDS: tuple[IdKind, ...] = ("int", "str")
_VECTOR_KINDS: tuple[VectorKind | None, ...] = (None, "float32", "float16")


@dataclass(frozen=True, slots=True)
class Log:
    """The records that a log holds now, and where the next one would begin."""

    ref: FileRef
    records: Records
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
        self.base, self._layout = base, layout
        self._records: list[bytes] = []
        self.end = _HEADER_BYTES

    @property
    def count(self) -> int:
        """Number of records."""
        return len(self._records)

    def has_room(self, record: Record) -> bool:
        """Whether a record fits."""
        packed = _FRAME - (-8 * (len(record.plain) + CRC_BYTES) // 7)
        return self.count < MAX_RECORDS and packed <= CAPACITY - self.end

    def append(self, record: Record) -> None:
        """Put a record behind the others; durable when this returns."""
        packed = _native.pack_record(record.plain, self.end, self._seed)
        self._file.write_at(self.end, packed)
        sync(self._file)
        self._records.append(record.plain)
        self.end += len(packed)

    def pile(self, count: int) -> Pile:
        """What the first `count` records say."""
        records = self._records[:count]
        plain = np.frombuffer(b"".join(records), np.uint8)
        starts = np.cumsum([0, *map(len, records)])
        return Records(self.ref.file, self._layout, self.base, plain, starts).pile(count)

    def close(self) -> None:
        """Give the descriptor back."""
        self._file.close()


def read_log(file: OpenFile, ref: FileRef, layout: Layout, base: int) -> Log:
    """Read all whole records of a log; CorruptStoreError when any byte of them is not as written."""
    if file.size != ref.size or ref.size > CAPACITY_LIMIT:
        raise corrupt_log(ref.file, f"has {file.size} bytes, the manifest says {ref.size}")
    data = file.read_at(0, ref.size)
    header = data[:_HEADER_BYTES]
    if len(data) != ref.size or sha256(header).hexdigest() != ref.header:
        raise corrupt_log(
            ref.file, "header does not match the manifest (damaged, or another file put in its place)"
        )
    if header != _header(ref.file, ref.size, base, layout):
        raise corrupt_log(ref.file, "is a file of another kind, name, version or encoder")
    try:
        found = _native.unpack_records(data, _HEADER_BYTES, base, zlib.crc32(header), MAX_RECORD)
    except ValueError as error:
        raise corrupt_log(ref.file, f"is damaged: {error}") from None
    plain, starts, end = found
    return Log(ref, Records(ref.file, layout, base, plain, starts), end)


def read_loose_log(file: OpenFile, name: str, n_bits: int, n_features: int) -> tuple[Log, Layout, int]:
    """Read a log that no manifest names: its records, the layout of its rows, the version it begins after."""
    header = file.read_at(0, _HEADER_BYTES)
    try:
        _, _, _, size, base, _, fingerprint, kind, vectors = _HEADER.unpack_from(header)
        layout = Layout(fingerprint.hex(), n_bits, n_features, _ID_KINDS[kind], _VECTOR_KINDS[vectors])
    except (struct.error, IndexError):
        raise corrupt_log(name, "header is damaged") from None
    if base > MAX_VERSION:
        raise corrupt_log(name, f"is a log of version {base}, which there is not")
    return read_log(file, FileRef(name, size, sha256(header).hexdigest()), layout, base), layout, base


def _header(name: str, size: int, base: int, layout: Layout) -> bytes:
    fixed = _HEADER.pack(
        MAGIC, _LOG_FORMAT, b"LOGF", size, base, name[2:18].encode("ascii"),
        bytes.fromhex(layout.fingerprint), _ID_KINDS.index(layout.id_kind), _VECTOR_KINDS.index(layout.keep_vectors),
    )  # fmt: skip
    header = fixed.ljust(_HEADER_BYTES - 4, b"\0")
    return header + struct.pack("<I", zlib.crc32(header))
