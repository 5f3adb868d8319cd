"""What callers hand to a store, checked and cut into batches that fit in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.encoders.coder import Coder
from bilsh.errors import IncompatibleCodesError, InvalidInputError, InvalidTypeError
from bilsh.store.manifest import Manifest, VectorKind
from bilsh.store.rows import MAX_METADATA_BYTES
from bilsh.validation import as_array, refuse_masked

CHUNK_BYTES = 32 << 20
UNCHECKED = "unchecked"
"""Fingerprint of codes that the caller vouches for."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Some items for a store; an iterator of batches is a stream of any length.

    Attributes
    ----------
    X : array (n, d) or (n, d_w, d_v); for :meth:`Store.add_codes` codes, uint8 (n, ceil(n_bits / 8))
    ids : (n,) integers or strings, or None
        None gives the next integers.
    metadata : sequence of n JSON values, or None
    vectors : array (n, d) or (n, d_w, d_v), or None
        Beside codes only: the items themselves, for a store that keeps them.

    Examples
    --------
    >>> len(Batch([[1.0, 2.0], [3.0, 4.0]], ids=["a", "b"]))
    2
    """

    X: Any
    ids: Any = None
    metadata: Any = None
    vectors: Any = None

    def __len__(self) -> int:
        return len(self.X) if not hasattr(self.X, "shape") else int(self.X.shape[0] if self.X.shape else 0)


@dataclass(frozen=True, slots=True)
class Rows:
    """Some checked rows to store; ids as they were given."""

    codes: NDArray[np.uint8]
    ids: Any
    vectors: NDArray[Any] | None
    metadata: list[bytes] | None


def encoded(
    manifest: Manifest, coder: Callable[[], Coder], given: Batch | Iterator[Batch], n_jobs: int | None
) -> Iterator[Rows]:
    """Encode items batch by batch, and keep their vectors where the store does."""
    kept = manifest.keep_vectors
    for batch in in_batches(given, "X", 4 * manifest.n_features):
        if batch.vectors is not None:
            raise InvalidInputError("vectors go beside ready codes only. Leave them out: X holds the items.")
        codes = as_codes(coder().encode(batch.X, n_jobs=n_jobs), manifest.n_bits)
        vectors = as_vectors(batch.X, kept, manifest.n_features) if kept else None
        yield Rows(codes, batch.ids, vectors, as_metadata(batch.metadata))


def ready(
    manifest: Manifest, coder: Coder, given: Batch | Iterator[Batch], fingerprint: str | None
) -> Iterator[Rows]:
    """Check ready codes batch by batch; those that were made elsewhere are put into the order they are kept in."""
    kept = manifest.keep_vectors
    if fingerprint not in (None, UNCHECKED, manifest.fingerprint):
        raise IncompatibleCodesError(
            f"these codes were made by encoder {str(fingerprint)[:8]}..., the store holds codes of encoder "
            f"{manifest.fingerprint[:8]}.... Encode the items with store.encoder."
        )
    # A stream may hand out one buffer again and again, and rows wait until there are enough to write.
    streamed = not isinstance(given, Batch)
    for batch in in_batches(given, "codes", -(-manifest.n_bits // 8)):
        if (batch.vectors is None) != (kept is None):
            raise InvalidInputError(
                f"this store keeps vectors as {kept}; give vectors= with the codes."
                if kept
                else "this store keeps no vectors; leave vectors= out, or create one with keep_vectors=."
            )
        codes = as_codes(batch.X, manifest.n_bits)
        vectors = as_vectors(batch.vectors, kept, manifest.n_features) if kept else None
        if fingerprint is None and coder.kind != "foreign":
            raise IncompatibleCodesError(
                "codes of another encoder would be found by nobody: say who made these, "
                f"fingerprint=encoder.fingerprint, or give your word with fingerprint={UNCHECKED!r}."
            )
        if coder.order is not None:
            codes = coder.order.apply(codes)
        elif streamed:
            codes = codes.copy()
        yield Rows(codes, batch.ids, vectors, as_metadata(batch.metadata))


def given_as(name: str, items: Any, **beside: Any) -> Batch | Iterator[Batch]:
    """One batch, or an iterator of them, whichever a caller gave; else an error that says how to give it."""
    if isinstance(items, Batch):
        items = iter((items,))
    elif isinstance(items, list | tuple) and items and isinstance(items[0], Batch):
        items = iter(items)
    if not isinstance(items, Iterator):
        return Batch(items, **beside)
    extra = [other for other, values in beside.items() if values is not None]
    if extra:
        raise InvalidTypeError(
            f"{name} is an iterator, so {' and '.join(extra)} must be part of what it gives: "
            f"iterate over bilsh.Batch({name}, ids, metadata)."
        )
    return items


def in_batches(given: Batch | Iterator[Batch], name: str, row_bytes: int) -> Iterator[Batch]:
    """Check the lengths of batches; cut a single one, which may be a mapped file, into slices by rows."""
    if isinstance(given, Batch):
        whole = _checked(given, name)
        rows, step = len(whole), max(1, CHUNK_BYTES // max(row_bytes, 1))
        for start in range(0, rows, step):
            yield whole if rows <= step else _sliced(whole, start, start + step)
        return
    for batch in given:
        if not isinstance(batch, Batch):
            raise InvalidTypeError(
                f"an iterator of {name} must give bilsh.Batch objects; got {type(batch).__name__}. "
                f"Write Batch({name}, ids, metadata), or Batch({name}) for the next ids."
            )
        yield _checked(batch, name)


def _checked(batch: Batch, name: str) -> Batch:
    """Bring a batch into arrays, with as many ids, vectors and notes as rows."""
    items = _array(name, batch.X)
    if len(items.shape) < 2:
        raise InvalidInputError(
            f"{name} must have one row per item and at least two axes; got shape {items.shape}."
        )
    as_given = items is batch.X
    beside = {"ids": batch.ids, "metadata": batch.metadata, "vectors": batch.vectors}
    for other, values in beside.items():
        if values is None:
            continue
        if hasattr(values, "__array__"):
            beside[other] = values = np.asarray(_array(other, values))
            as_given = False
        if _length(other, values) != items.shape[0]:
            raise InvalidInputError(
                f"{name} has {items.shape[0]} rows, {other} has {len(values)} entries. Give one for each row."
            )
    return batch if as_given else Batch(items, **beside)


def _array(name: str, values: Any) -> Any:
    refuse_masked(name, values)
    return values if hasattr(values, "shape") else as_array(name, values)


def _sliced(batch: Batch, start: int, stop: int) -> Batch:
    parts = (batch.X, batch.ids, batch.metadata, batch.vectors)
    return Batch(*(None if part is None else part[start:stop] for part in parts))


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
    array = as_array("vectors", vectors.toarray() if hasattr(vectors, "toarray") else vectors)
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


def _length(name: str, values: Any) -> int:
    if not isinstance(values, (list, np.ndarray)) and (
        isinstance(values, str | bytes) or not isinstance(values, Sequence)
    ):
        raise InvalidTypeError(f"{name} must be a sequence or an array; got {type(values).__name__}.")
    return len(values)
