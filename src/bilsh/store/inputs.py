"""What callers hand to a store, checked and cut into batches that fit in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.encoders.coder import Coder
from bilsh.errors import IncompatibleCodesError, InvalidInputError, InvalidTypeError
from bilsh.store.manifest import Manifest, VectorKind
from bilsh.store.segment import MAX_METADATA_BYTES

CHUNK_BYTES = 32 << 20


Rows = tuple[NDArray[np.uint8], Any, NDArray[Any] | None, list[bytes] | None]
"""Some rows to store: codes, ids as given, vectors, metadata."""


def encoded(
    manifest: Manifest, encoder: Callable[[], Coder], X: Any, ids: Any, metadata: Any
) -> Iterator[Rows]:
    """Encode items batch by batch, and keep their vectors where the store does."""
    kept = manifest.keep_vectors
    beside = (("ids", ids), ("metadata", metadata))
    for batch, some_ids, notes in in_batches(X, "X", 4 * manifest.n_features, *beside):
        codes = as_codes(encoder().encode(batch), manifest.n_bits)
        vectors = as_vectors(batch, kept, manifest.n_features) if kept else None
        yield codes, some_ids, vectors, as_metadata(notes)


def ready(
    manifest: Manifest, codes: Any, ids: Any, vectors: Any, metadata: Any, fingerprint: str | None
) -> Iterator[Rows]:
    """Check ready codes batch by batch."""
    kept = manifest.keep_vectors
    if fingerprint is not None and fingerprint != manifest.fingerprint:
        raise IncompatibleCodesError(
            f"these codes were made by encoder {fingerprint[:8]}..., the store holds codes of encoder "
            f"{manifest.fingerprint[:8]}.... Encode the items with store.encoder."
        )
    if (vectors is None) != (kept is None):
        raise InvalidInputError(
            f"this store keeps vectors as {kept}; give vectors= with the codes."
            if kept
            else "this store keeps no vectors; leave vectors= out, or create one with keep_vectors=."
        )
    # A stream may hand out one buffer again and again, and rows wait until there are enough to write.
    streamed = isinstance(codes, Iterator)
    beside = (("ids", ids), ("vectors", vectors), ("metadata", metadata))
    for batch, some_ids, some, notes in in_batches(codes, "codes", -(-manifest.n_bits // 8), *beside):
        checked = as_codes(batch, manifest.n_bits)
        if streamed:
            checked = checked.copy()
        yield (
            checked,
            some_ids,
            as_vectors(some, kept, manifest.n_features) if kept else None,
            as_metadata(notes),
        )


def in_batches(items: Any, name: str, row_bytes: int, *beside: tuple[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Cut `items` and what lies beside it (ids, metadata, vectors) into matching batches.

    `items` is an array (memory-mapped ones too), sliced by rows; or an iterator of arrays, taken one by
    one. What lies beside is None, a sequence with one entry per row, or an iterator that gives the entries
    of each batch.
    """
    beside = tuple((other, np.asarray(v) if hasattr(v, "__array__") else v) for other, v in beside)
    if not isinstance(items, Iterator):
        items = items if hasattr(items, "shape") else np.asarray(items)
        if len(items.shape) < 2:
            raise InvalidInputError(
                f"{name} must have one row per item and at least two axes; got shape {items.shape}."
            )
        for other, values in beside:
            if (
                values is not None
                and not isinstance(values, Iterator)
                and _length(other, values) != items.shape[0]
            ):
                raise InvalidInputError(
                    f"{name} has {items.shape[0]} rows, {other} has {len(values)} entries. "
                    "Give one for each row."
                )
        items = _slices(items, max(1, CHUNK_BYTES // max(row_bytes, 1)))
    done = 0
    for batch in items:
        batch = batch if hasattr(batch, "shape") else np.asarray(batch)
        rows = batch.shape[0] if batch.shape else 0
        row: list[Any] = [batch]
        for other, values in beside:
            part = values
            if isinstance(values, Iterator):
                part = next(values, None)
            elif values is not None:
                part = values[done : done + rows]
            if values is not None and (part is None or _length(other, part) != rows):
                raise InvalidInputError(
                    f"a batch of {name} has {rows} rows, {other} has {0 if part is None else len(part)} "
                    "entries for it. Give one for each row."
                )
            row.append(part)
        done += rows
        yield tuple(row)
    for other, values in beside:
        spare = (
            next(values, None) is not None
            if isinstance(values, Iterator)
            else values is not None and len(values) > done
        )
        if spare:
            raise InvalidInputError(f"{other} has more entries than the {done} rows of {name}.")


def as_codes(codes: Any, n_bits: int) -> NDArray[np.uint8]:
    """Check packed codes: uint8, right width, zero padding."""
    array = np.asarray(codes)
    n_bytes = -(-n_bits // 8)
    if array.dtype != np.uint8:
        raise InvalidTypeError(
            f"codes must be uint8, 8 bits to a byte; got {array.dtype}. Pack 0/1 matrices with bilsh.pack."
        )
    if array.ndim != 2 or array.shape[1] != n_bytes:
        raise InvalidInputError(f"codes of {n_bits} bits have shape (n, {n_bytes}); got {array.shape}.")
    if n_bits % 8 and bool(np.any(array[:, -1] >> np.uint8(n_bits % 8))):
        raise InvalidInputError(
            f"the last {8 - n_bits % 8} bits of a code of {n_bits} bits are padding and must be 0."
        )
    return array


def as_vectors(vectors: Any, kind: VectorKind, n_features: int) -> NDArray[Any]:
    """Check vectors to keep, flatten matrices, and round them to the kept precision."""
    array = np.asarray(vectors.toarray() if hasattr(vectors, "toarray") else vectors)
    if array.dtype.kind not in "fiub":
        raise InvalidTypeError(f"vectors must be real numbers; got {array.dtype}.")
    flat = array.reshape(len(array), -1) if array.size else np.empty((len(array), n_features))
    if flat.shape[1] != n_features:
        raise InvalidInputError(f"vectors must have {n_features} values each; got shape {array.shape}.")
    with np.errstate(over="ignore"):
        kept = flat.astype(kind)
    bad = np.flatnonzero(~np.isfinite(kept).all(axis=1))
    if len(bad):
        raise InvalidInputError(
            f"vectors[{bad[0]}] has NaN, inf or values beyond {kind} ({len(bad)} rows of {len(flat)}). "
            "Remove or scale them first."
        )
    return kept


def as_metadata(metadata: Any) -> list[bytes] | None:
    """Check JSON metadata, one entry per item, and give its UTF-8 text; empty for None."""
    return None if metadata is None else [_as_json(index, item) for index, item in enumerate(metadata)]


def _as_json(index: int, item: Any) -> bytes:
    if item is None:
        return b""
    try:
        text = json.dumps(item, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidTypeError(
            f"metadata[{index}] is not JSON: {error}. Use dicts, lists, strings, numbers, booleans."
        ) from None
    if len(text) > MAX_METADATA_BYTES:
        raise InvalidInputError(
            f"metadata[{index}] has {len(text)} bytes of JSON; at most {MAX_METADATA_BYTES} are kept."
        )
    if json.loads(text) != item:
        raise InvalidTypeError(
            f"metadata[{index}] does not survive JSON (tuples, or keys that are no strings). "
            "Convert it to plain JSON first."
        )
    return text


def _slices(items: Any, step: int) -> Iterator[Any]:
    for start in range(0, items.shape[0], step):
        yield items[start : start + step]


def _length(name: str, values: Any) -> int:
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray):
        raise InvalidTypeError(f"{name} must be a sequence or an array; got {type(values).__name__}.")
    return len(values)
