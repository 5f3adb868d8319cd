"""Codes on their way to PostgreSQL and back: the binary COPY format, and bits in its order."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import Codes

REVERSED = np.packbits(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1), axis=1, bitorder="little"
)[:, 0]
"""Each byte with its bits the other way round."""

HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
END = struct.pack(">h", -1)
PIECE = 4 << 20


def packed(ids: NDArray[Any], codes: Codes, notes: Sequence[bytes] | None, n_bits: int) -> Iterator[bytes]:
    """Rows (id, code, metadata) in the binary COPY format, without its header."""
    bits = REVERSED[codes]
    step = max(1, PIECE // max(1, codes.shape[1]))
    for start in range(0, len(ids), step):
        part = slice(start, start + step)
        if ids.dtype == object or (notes is not None and any(notes[part])):
            yield _one_by_one(ids[part], bits[part], None if notes is None else notes[part], n_bits)
        else:
            yield _all_at_once(ids[part], bits[part], n_bits)
    yield END


def _all_at_once(ids: NDArray[Any], bits: Codes, n_bits: int) -> bytes:
    width = bits.shape[1]
    row = np.dtype([
        ("fields", ">i2"), ("id_length", ">i4"), ("id", ">i8"), ("length", ">i4"), ("n_bits", ">i4"),
        ("code", "u1", (width,)), ("metadata", ">i4"),
    ])  # fmt: skip
    rows = np.empty(len(ids), dtype=row)
    rows["fields"], rows["id_length"], rows["id"] = 3, 8, ids
    rows["length"], rows["n_bits"], rows["code"], rows["metadata"] = 4 + width, n_bits, bits, -1
    return rows.tobytes()


def _one_by_one(ids: NDArray[Any], bits: Codes, notes: Sequence[bytes] | None, n_bits: int) -> bytes:
    parts, code_head = [], struct.pack(">ii", 4 + bits.shape[1], n_bits)
    for row, item in enumerate(ids.tolist()):
        name = item.encode() if isinstance(item, str) else struct.pack(">q", item)
        note = notes[row] if notes is not None else b""
        # jsonb begins with the version of its format.
        tail = struct.pack(">i", 1 + len(note)) + b"\x01" + note if note else struct.pack(">i", -1)
        parts += [struct.pack(">hi", 3, len(name)), name, code_head, bits[row].tobytes(), tail]
    return b"".join(parts)


def from_bits(values: Sequence[bytes], n_bytes: int) -> Codes:
    """Codes from binary ``bit(n)`` values: four bytes of length, then the bits."""
    data = b"".join(bytes(value)[4:] for value in values)
    return REVERSED[np.frombuffer(data, np.uint8).reshape(len(values), n_bytes)]


def as_text(codes: Codes, n_bits: int) -> Iterator[str]:
    """Codes as strings of 0 and 1, bit 0 first."""
    for code in codes:
        bits = np.unpackbits(code, count=n_bits, bitorder="little")
        yield (bits + ord("0")).tobytes().decode("ascii")
