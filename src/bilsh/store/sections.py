"""Files of named sections under checksums: the one binary format of the store.

Segments, deletion bitmaps and the encoder are all such files: a header of 4 KiB, sections aligned to 64
bytes, and a CRC-32 for every MiB between them. docs/store-format.md describes each byte. A file is bound to
the manifest that names it by its size and the SHA-256 of its header; the header holds the CRC-32 of the
table of CRC-32s; so no byte of a file is outside the chain.
"""

from __future__ import annotations

import hashlib
import math
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import CorruptStoreError
from bilsh.store.files import Bytes, Directory, NewFile, OpenFile, sync

MAGIC = b"\x89bilsh\r\n"
FORMAT = 1
HEADER = 4096
BLOCK = 1 << 20
ALIGN = 64
WINDOW = 4 * BLOCK

_FIXED = struct.Struct("<8sI4sQQ16s32sQIIII")
_SECTION = struct.Struct("<16sQQ4s4xQ")
_SECTIONS_AT = 128
_MAX_SECTIONS = (HEADER - 4 - _SECTIONS_AT) // _SECTION.size
_DTYPES = {
    code.ljust(4, b"\0"): np.dtype(f"<{code.decode()}") for code in (b"u1", b"u8", b"i8", b"f2", b"f4")
}


@dataclass(frozen=True, slots=True)
class FileRef:
    """How the manifest names a file: what it is called and what its first bytes must be."""

    file: str
    size: int
    header: str


@dataclass(frozen=True, slots=True)
class Section:
    """Where one matrix lies in its file."""

    offset: int
    length: int
    dtype: np.dtype[Any]
    columns: int

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.dtype.itemsize * self.columns

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.length // self.row_bytes


class SectionWriter:
    """Writes one file front to back, in any number of pieces, and syncs it.

    The file means nothing until a manifest names it, so the header may come last.
    """

    def __init__(self, directory: Directory, name: str, kind: bytes, rows: int, fingerprint: str) -> None:
        self._kind, self._rows, self._fingerprint, self._name = kind, rows, fingerprint, name
        self._file: NewFile = directory.create(name)
        self._file.write(bytes(HEADER))
        self._at = HEADER
        self._crc = 0
        self._crcs: list[int] = []
        self._table: list[bytes] = []

    def section(self, name: str, dtype: str, columns: int, pieces: Iterable[NDArray[Any]]) -> None:
        """Append a section: `pieces` follow each other as the rows of one matrix (n, columns)."""
        start = self._at
        for piece in pieces:
            block = np.ascontiguousarray(piece, dtype=np.dtype(dtype).newbyteorder("<"))
            self._write(block.reshape(-1).view(np.uint8).data)
        end = self._at
        self._write(bytes(-end % ALIGN))
        self._table.append(
            _SECTION.pack(
                name.encode("ascii"), start, end - start, np.dtype(dtype).str[1:].encode("ascii"), columns
            )
        )

    def _write(self, data: Bytes) -> None:
        view = memoryview(data)
        self._file.write(view)
        while len(view):
            room = BLOCK - (self._at - HEADER) % BLOCK
            head, view = view[:room], view[room:]
            self._crc = zlib.crc32(head, self._crc)
            self._at += len(head)
            if len(head) == room:
                self._crcs.append(self._crc)
                self._crc = 0

    def finish(self) -> FileRef:
        """Write checksums and header, sync, close; say how a manifest must name the file."""
        if (self._at - HEADER) % BLOCK:
            self._crcs.append(self._crc)
        table = np.array(self._crcs, dtype="<u4").tobytes()
        self._file.write(table)
        size = self._at + len(table)
        token = self._name[2:18].encode("ascii")
        header = bytearray(HEADER)
        _FIXED.pack_into(
            header, 0, MAGIC, FORMAT, self._kind, size, self._rows, token, bytes.fromhex(self._fingerprint),
            self._at, len(self._crcs), zlib.crc32(table), BLOCK, len(self._table),
        )  # fmt: skip
        header[_SECTIONS_AT : _SECTIONS_AT + len(self._table) * _SECTION.size] = b"".join(self._table)
        header[-4:] = struct.pack("<I", zlib.crc32(header[:-4]))
        self._file.write_at(0, bytes(header))
        sync(self._file)
        self._file.close()
        return FileRef(self._name, size, hashlib.sha256(header).hexdigest())

    def abandon(self) -> None:
        """Close without finishing."""
        self._file.close()


class SectionFile:
    """A finished file. The header is checked when it is opened, each block when it is first read.

    Parameters
    ----------
    file : OpenFile
    ref : FileRef
        What the manifest says about it.
    kind : bytes
        Four letters: SEGM, DEAD, ENCO or CALI.
    fingerprint : str
        Of the encoder this file must belong to.
    use_map : bool
        Map the file for :meth:`array` and :meth:`take`; else read it.
    """

    def __init__(self, file: OpenFile, ref: FileRef, kind: bytes, fingerprint: str, use_map: bool) -> None:
        self.name, self.ref = ref.file, ref
        self._file, self._use_map = file, use_map
        self._maps: dict[str, tuple[int, memoryview]] = {}
        self._kept: dict[str, NDArray[Any]] = {}
        self._recent: dict[str, tuple[int, bytes]] = {}
        if file.size != ref.size:
            raise self.corrupt(f"has {file.size} bytes, the manifest says {ref.size}")
        header = file.read_at(0, HEADER)
        if len(header) != HEADER or hashlib.sha256(header).hexdigest() != ref.header:
            raise self.corrupt(
                "header does not match the manifest (damaged, or another file put in its place)"
            )
        self.kind, self.fingerprint = kind, fingerprint
        self._parse(header, kind, fingerprint)
        self._crcs: NDArray[np.uint32] | None = None
        self._seen = np.zeros(self._n_blocks, dtype=np.bool_)

    def _parse(self, header: bytes, kind: bytes, fingerprint: str) -> None:
        (magic, version, its_kind, size, self.rows, token, print_, self._end, self._n_blocks, self._table_crc,
         block, n_sections) = _FIXED.unpack_from(header)  # fmt: skip
        if magic != MAGIC or zlib.crc32(header[:-4]) != struct.unpack("<I", header[-4:])[0]:
            raise self.corrupt("header is damaged")
        if version != FORMAT:
            raise self.corrupt(f"has format {version}; this bilsh reads format {FORMAT}, use a newer one")
        if (
            its_kind != kind
            or token != self.name[2:18].encode("ascii")
            or print_ != bytes.fromhex(fingerprint)
        ):
            raise self.corrupt("is a file of another kind, name or encoder")
        if (
            size != self._file.size
            or block != BLOCK
            or not HEADER <= self._end <= size
            or self._n_blocks != math.ceil((self._end - HEADER) / BLOCK)
            or size != self._end + 4 * self._n_blocks
            or n_sections > _MAX_SECTIONS
        ):
            raise self.corrupt("header contradicts itself")
        self.sections: dict[str, Section] = {}
        for i in range(n_sections):
            name, offset, length, code, columns = _SECTION.unpack_from(
                header, _SECTIONS_AT + i * _SECTION.size
            )
            dtype = _DTYPES.get(code)
            fits = HEADER <= offset <= offset + length <= self._end and offset % ALIGN == 0
            if dtype is None or not fits or not 0 < columns <= 1 << 40:
                raise self.corrupt(f"section {i} reaches outside the file")
            section = Section(offset, length, dtype, columns)
            if length % section.row_bytes:
                raise self.corrupt(f"section {i} has a broken last row")
            self.sections[name.rstrip(b"\0").decode("ascii", "replace")] = section

    def corrupt(self, what: str) -> CorruptStoreError:
        """Make the error that names this file."""
        return CorruptStoreError(
            f"{self.name} {what}. See Store.versions and Store.repair for earlier versions."
        )

    def close(self) -> None:
        """Give the descriptor back; arrays handed out stay valid."""
        self._file.close()

    def rows_of(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Rows [start, stop) of a section as a fresh, checked array; memory is bounded by what is asked."""
        section = self.sections[name]
        first = section.offset + start * section.row_bytes
        last = section.offset + stop * section.row_bytes
        result = np.empty((stop - start, section.columns), dtype=section.dtype)
        target = result.reshape(-1).view(np.uint8)
        # Readers go front to back in windows that end within blocks: the last block is kept for the next window.
        kept, data = self._recent.pop(name, (-1, b""))
        for block in range(*_blocks(first, last)):
            if block != kept:
                kept, data = block, self._read_block(block)
            base = HEADER + block * BLOCK
            low, high = max(first, base), min(last, base + len(data))
            target[low - first : high - first] = np.frombuffer(data, np.uint8, high - low, low - base)
        if stop < section.rows:
            self._recent[name] = kept, data
        return result

    def array(self, name: str) -> NDArray[Any]:
        """Return a whole section (n, columns): a view of the mapped file, every block of it checked once."""
        kept = self._kept.get(name)
        if kept is None:
            section = self.sections[name]
            if self._use_map and section.length:
                self._check_mapped(name, range(*_blocks(section.offset, section.offset + section.length)))
                kept = self._view(name)
            else:
                kept = self.rows_of(name, 0, section.rows)
                kept.flags.writeable = False
            self._kept[name] = kept
        return kept

    def take(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return copies of some rows; only the blocks they lie in are read and checked."""
        section = self.sections[name]
        if not self._use_map or not len(rows):
            return self._take_unmapped(section, name, rows)
        starts = section.offset + rows * section.row_bytes
        self._check_spans(name, starts, starts + section.row_bytes)
        picked: NDArray[Any] = self._view(name)[rows]
        return picked

    def pieces(self, name: str, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> list[bytes]:
        """Return the byte ranges [start, end) of a section of bytes; only the blocks they lie in are read."""
        section = self.sections[name]
        if self._use_map and section.length:
            self._check_spans(name, starts + section.offset, ends + section.offset)
            data = self._view(name).data.cast("B")
            return [bytes(data[a:b]) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
        return [
            self.rows_of(name, a, b).tobytes() for a, b in zip(starts.tolist(), ends.tolist(), strict=True)
        ]

    def _check_spans(self, name: str, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        full = ends > starts
        first, last = (starts[full] - HEADER) // BLOCK, (ends[full] - 1 - HEADER) // BLOCK
        if len(first) and self._seen[first.min() : last.max() + 1].all():
            return
        blocks: set[int] = set()
        for a, b in set(zip(first.tolist(), last.tolist(), strict=True)):
            blocks.update(range(a, b + 1))
        self._check_mapped(name, blocks)

    def _take_unmapped(self, section: Section, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        result = np.empty((len(rows), section.columns), dtype=section.dtype)
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        step = max(1, WINDOW // section.row_bytes)
        at = 0
        while at < len(order):
            start = int(ascending[at])
            end = int(np.searchsorted(ascending, start + step))
            window = self.rows_of(name, start, int(ascending[end - 1]) + 1)
            result[order[at:end]] = window[ascending[at:end] - start]
            at = end
        return result

    def distrust(self) -> None:
        """Forget which blocks were checked, and what was read of them."""
        self._seen, self._kept, self._recent = np.zeros_like(self._seen), {}, {}

    def pieces_of_file(self) -> Iterator[bytes]:
        """Yield the bytes of the whole file, for a copy."""
        for start in range(0, self.ref.size, WINDOW):
            yield self._file.read_at(start, min(WINDOW, self.ref.size - start))

    def check_all(self) -> int:
        """Read and check every block again, from the file and not from memory; return their number."""
        return sum(1 for _ in self.check_blocks())

    def check_blocks(self) -> Iterator[int]:
        """Check one block after the other; yield the length of each."""
        self._crcs = None
        for block in range(self._n_blocks):
            yield len(self._read_block(block))

    def damaged(self, name: str) -> Iterator[tuple[int, int]]:
        """Rows [start, stop) of a section that lie, wholly or in part, in blocks whose checksums are wrong."""
        section = self.sections[name]
        end = section.offset + section.rows * section.row_bytes
        for block in range(*_blocks(section.offset, end)):
            try:
                self._read_block(block)
            except CorruptStoreError:
                base = HEADER + block * BLOCK - section.offset
                yield (
                    max(0, base // section.row_bytes),
                    min(section.rows, -(-(base + BLOCK) // section.row_bytes)),
                )

    def _view(self, name: str) -> NDArray[Any]:
        section, (base, mapped) = self.sections[name], self._mapped(name)
        count = section.rows * section.columns
        flat: NDArray[Any] = np.frombuffer(mapped, section.dtype, count, section.offset - base)
        return flat.reshape(section.rows, section.columns)

    def _mapped(self, name: str) -> tuple[int, memoryview]:
        """Map one section, in whole blocks: where the map begins, and its bytes."""
        if name not in self._maps:
            section = self.sections[name]
            first, last = _blocks(section.offset, section.offset + section.length)
            base, end = HEADER + first * BLOCK, min(HEADER + last * BLOCK, self._end)
            self._maps[name] = base, self._file.map(base, end - base)
        return self._maps[name]

    def _expected(self) -> NDArray[np.uint32]:
        crcs = self._crcs  # a thread that checks all anew may take them away at any moment
        if crcs is None:
            table = self._file.read_at(self._end, 4 * self._n_blocks)
            if len(table) != 4 * self._n_blocks or zlib.crc32(table) != self._table_crc:
                raise self.corrupt("table of checksums is damaged")
            crcs = self._crcs = np.frombuffer(table, dtype="<u4")
        return crcs

    def _block_length(self, block: int) -> int:
        return int(min(BLOCK, self._end - HEADER - block * BLOCK))

    def _read_block(self, block: int) -> bytes:
        length = self._block_length(block)
        data = self._file.read_at(HEADER + block * BLOCK, length)
        if len(data) != length or zlib.crc32(data) != self._expected()[block]:
            raise self.corrupt(f"block {block} is damaged")
        return data

    def _check_mapped(self, name: str, blocks: Iterable[int]) -> None:
        expected, (base, mapped) = self._expected(), self._mapped(name)
        for block in blocks:
            if not self._seen[block]:
                start = HEADER + block * BLOCK - base
                if zlib.crc32(mapped[start : start + self._block_length(block)]) != expected[block]:
                    raise self.corrupt(f"block {block} is damaged")
                self._seen[block] = True


def _blocks(first: int, last: int) -> tuple[int, int]:
    """Range of blocks that hold the bytes [first, last) of a file."""
    if first >= last:
        return 0, 0
    return (first - HEADER) // BLOCK, (last - 1 - HEADER) // BLOCK + 1
