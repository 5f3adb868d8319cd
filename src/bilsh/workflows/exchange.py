"""What an export consists of, and the digest by which an import knows that it is what was written.

Beside the main file lie its companions: the encoder (`<name>.encoder`); ids that the format has no place for
(`<name>.ids.npy`, or `<name>.ids.txt` with one JSON string per line); for stores of images the recipe and the
codebook that describe a query (`<name>.recipe.json`, `<name>.codebook.npy`); and the record (`<name>.export.json`;
Parquet has it inside, under the key `bilsh`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import CorruptExportError

FORMATS = ("faiss", "npy", "parquet", "fvecs")
SUFFIX = {"faiss": ".faiss", "npy": ".npy", "parquet": ".parquet", "fvecs": ".fvecs"}
RECORD_FORMAT = 1
PARQUET_KEY = b"bilsh"


@dataclass(frozen=True, slots=True)
class Exchanged:
    """What went in or out.

    Attributes
    ----------
    items, bits : int
    files : tuple of str
        What was written: the main file and its companions, or the store.
    checked : bool
        Whether the digests that an export carries were there and right.
    skipped : int
        Items left out because their blocks are damaged.
    notes : tuple of str
        What the caller should know.
    """

    items: int
    bits: int
    files: tuple[str, ...]
    checked: bool = True
    skipped: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Companions:
    """The files beside a main file."""

    encoder: Path
    numbers: Path
    names: Path
    recipe: Path
    codebook: Path
    record: Path

    @classmethod
    def of(cls, path: Path) -> Companions:
        """Name them."""
        return cls(
            path.with_suffix(".encoder"), path.with_suffix(".ids.npy"), path.with_suffix(".ids.txt"),
            path.with_suffix(".recipe.json"), path.with_suffix(".codebook.npy"),
            path.with_suffix(".export.json"),
        )  # fmt: skip

    def all(self) -> tuple[Path, ...]:
        """Return all of them, there or not."""
        return self.encoder, self.numbers, self.names, self.recipe, self.codebook, self.record


@dataclass(slots=True)
class Digest:
    """SHA-256 of each part of an export, however it is cut into batches.

    Integers count as int64, little endian; names as their length in bytes (uint32) and their UTF-8; codes as they are;
    vectors as float32; metadata as names, of their JSON with sorted keys.
    """

    _parts: dict[str, Any] = field(default_factory=dict)

    def update(
        self,
        ids: Any = None,
        codes: NDArray[np.uint8] | None = None,
        vectors: NDArray[Any] | None = None,
        metadata: Iterable[Any] | None = None,
    ) -> None:
        """Take in some items."""
        if ids is not None and len(ids):
            texts = isinstance(ids[0], str)
            self._add("ids", _texts(map(str, ids)) if texts else np.ascontiguousarray(ids, "<i8").tobytes())
        if codes is not None:
            self._add("codes", np.ascontiguousarray(codes).tobytes())
        if vectors is not None:
            self._add("vectors", np.ascontiguousarray(vectors, "<f4").tobytes())
        if metadata is not None:
            self._add("metadata", _texts(json.dumps(value, sort_keys=True) for value in metadata))

    def _add(self, part: str, data: bytes) -> None:
        self._parts.setdefault(part, hashlib.sha256()).update(data)

    def parts(self) -> dict[str, str]:
        """Return the digest of each part."""
        return {name: found.hexdigest() for name, found in self._parts.items()}


def _texts(texts: Iterable[str]) -> bytes:
    coded = [text.encode("utf-8") for text in texts]
    return b"".join(len(text).to_bytes(4, "little") + text for text in coded)


def make_record(items: int, bits: int, fingerprint: str | None, digest: Digest) -> dict[str, Any]:
    """Return what an export says about itself."""
    return {
        "format": RECORD_FORMAT,
        "items": items,
        "bits": bits,
        "fingerprint": fingerprint,
        "sha256": digest.parts(),
    }


def read_record(data: bytes, path: Path) -> dict[str, Any]:
    """Read a record; CorruptExportError where it is none."""
    try:
        record = json.loads(data)
        if record["format"] != RECORD_FORMAT:
            raise ValueError(f"it has format {record['format']}, this bilsh reads {RECORD_FORMAT}")
        if not isinstance(record["items"], int) or not isinstance(record["sha256"], dict):
            raise ValueError("it lacks items or digests")
        return dict(record)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptExportError(
            f"the record of {path} is damaged ({error}). Export the store again."
        ) from None


def compare(record: dict[str, Any], items: int, digest: Digest, path: Path, *, renamed: bool) -> None:
    """Refuse what is not what was written, all parts of it; ids may be missing where the caller gives others."""
    wrong = [f"{items} items instead of {record['items']}"] if items != record["items"] else []
    written, found = record["sha256"], digest.parts()
    if renamed and "ids" not in found:
        written = {name: value for name, value in written.items() if name != "ids"}
    wrong += [f"other {name}" for name in {**written, **found} if written.get(name) != found.get(name)]
    if wrong:
        raise CorruptExportError(
            f"{path} is damaged: it holds {' and '.join(wrong)} than were written. Nothing was imported; export the "
            "store again, or restore the file from a copy."
        )
