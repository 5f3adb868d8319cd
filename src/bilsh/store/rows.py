"""Rows of a store before they are a segment: how each one looks, and some of them in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import slab_widths
from bilsh.store.ids import Names
from bilsh.store.manifest import IdKind, Manifest, VectorKind

MAX_METADATA_BYTES = 1 << 14
_VECTOR_DTYPES = {"float32": "<f4", "float16": "<f2"}


@dataclass(frozen=True, slots=True)
class Layout:
    """What every row of a store looks like."""

    fingerprint: str
    n_bits: int
    n_features: int
    id_kind: IdKind
    keep_vectors: VectorKind | None

    @classmethod
    def of(cls, manifest: Manifest, id_kind: IdKind | None = None) -> Layout:
        """Layout that a manifest states; `id_kind` where it has none yet."""
        kind = manifest.id_kind or id_kind or "int"
        return cls(manifest.fingerprint, manifest.n_bits, manifest.n_features, kind, manifest.keep_vectors)

    @property
    def n_bytes(self) -> int:
        """Bytes of a code."""
        return -(-self.n_bits // 8)

    @property
    def widths(self) -> tuple[int, ...]:
        """Bytes of each slab."""
        return slab_widths(self.n_bytes)

    def fixed_columns(self) -> dict[str, tuple[str, int]]:
        """Sections with one row per item: name -> (dtype, columns)."""
        columns = {f"code{i}": ("<u1", width) for i, width in enumerate(self.widths)}
        columns["ids"] = ("<i8", 1)
        if self.keep_vectors:
            columns["vectors"] = (self.vector_dtype, self.n_features)
        return columns

    @property
    def vector_dtype(self) -> str:
        """Type of kept vectors on disk."""
        return _VECTOR_DTYPES[self.keep_vectors or "float32"]


@dataclass(frozen=True, slots=True)
class RowSet:
    """Rows in memory, ready to be written."""

    layout: Layout
    codes: NDArray[np.uint8]
    arrays: dict[str, NDArray[Any]]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.codes)

    @property
    def nbytes(self) -> int:
        """Bytes of memory they hold."""
        return self.codes.nbytes + sum([array.nbytes for array in self.arrays.values()])

    def has(self, name: str) -> bool:
        """Whether a section is there."""
        return name in self.arrays or name.startswith("code")

    def rows_of(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Rows [start, stop) of a section; slabs are columns of the codes."""
        if not name.startswith("code"):
            return self.arrays[name][start:stop]
        widths, slab = self.layout.widths, int(name[4:])
        first = sum(widths[:slab])
        return self.codes[start:stop, first : first + widths[slab]]

    def take(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return copies of some rows of a section."""
        return self.rows_of(name, 0, self.rows)[rows]

    def items_at(self, name: str, rows: NDArray[np.int64]) -> list[bytes]:
        """Keys or metadata of some rows, in the order asked for; empty where there are none."""
        if not self.has(name):
            return [b""] * len(rows)
        data, ends = self.arrays[name].tobytes(), self.arrays[f"{name}_ends"][:, 0]
        starts = np.concatenate([[0], ends[:-1]])
        return [data[a:b] for a, b in zip(starts[rows].tolist(), ends[rows].tolist(), strict=True)]


def make_rows(
    layout: Layout,
    codes: NDArray[np.uint8],
    ids: NDArray[np.int64],
    names: Names,
    vectors: NDArray[Any] | None,
    metadata: Sequence[bytes] | None,
) -> RowSet:
    """Bring checked parts of some items together."""
    arrays: dict[str, NDArray[Any]] = {"ids": ids[:, None]}
    if vectors is not None:
        arrays["vectors"] = vectors
    if names.keys is not None and names.hashes is not None:
        arrays |= ragged("keys", names.keys)
        arrays["hashes"] = names.hashes
    if metadata is not None:
        arrays |= ragged("meta", metadata)
    return RowSet(layout, codes, arrays)


def ragged(name: str, items: Sequence[bytes]) -> dict[str, NDArray[Any]]:
    """Strings of different lengths as two sections: their bytes, and where each ends."""
    ends = np.cumsum(np.fromiter(map(len, items), np.int64, len(items)))
    return {name: np.frombuffer(b"".join(items), np.uint8)[:, None], f"{name}_ends": ends[:, None]}


def joined(parts: Sequence[RowSet], alive: NDArray[np.bool_] | None = None) -> RowSet:
    """Rows of some sets, one after the other; those that are alive."""
    if alive is None:
        alive = np.ones(sum(part.rows for part in parts), dtype=np.bool_)
    codes = np.concatenate([part.codes for part in parts])[alive]
    arrays: dict[str, NDArray[Any]] = {
        name: np.concatenate([part.arrays[name] for part in parts])[alive]
        for name in ("ids", "vectors", "hashes")
        if name in parts[0].arrays
    }
    for name in ("keys", "meta"):
        if any(part.has(name) for part in parts):
            lengths = np.concatenate([_lengths(part, name) for part in parts])
            data = np.concatenate([part.arrays[name] for part in parts if part.has(name)])
            arrays[name] = data[np.repeat(alive, lengths)]
            arrays[f"{name}_ends"] = np.cumsum(lengths[alive])[:, None]
    return RowSet(parts[0].layout, codes, arrays)


def _lengths(part: RowSet, name: str) -> NDArray[np.int64]:
    if not part.has(name):
        return np.zeros(part.rows, dtype=np.int64)
    return np.diff(part.arrays[f"{name}_ends"][:, 0], prepend=0)
