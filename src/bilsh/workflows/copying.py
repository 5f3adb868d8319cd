"""From one engine to another: all codes with their ids, metadata and meaning; a copy that was cut off goes on.

Items go over in the order of their ids, and the destination remembers how far a copy has come. Writing is idempotent,
so what a kill left between the last write and the last note is simply written again. At the end both sides are read
once more and compared.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from time import monotonic
from typing import Any

from bilsh.engines import Address, Collection, create, open_collection
from bilsh.errors import BilshError, DataNotFoundError, IncompatibleCodesError, InvalidInputError
from bilsh.types import Progress
from bilsh.workflows.exchange import Digest

NOTE = "copy"
BATCH = 4096
BATCH_BYTES = 8 << 20
NOTED_EVERY = 2.0
"""Seconds between two notes of the place, which cost an engine more than a batch."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy did.

    Attributes
    ----------
    source, destination : str
    items : int
        Items in both.
    written : int
        Items that this run wrote.
    resumed : bool
        Whether an earlier run had been cut off.
    bits : int
    fingerprint : str
    sha256 : str
        Over ids, codes and metadata of both, in the order of ids.
    notes : tuple of str
    """

    source: str
    destination: str
    items: int
    written: int
    resumed: bool
    bits: int
    fingerprint: str
    sha256: str
    notes: tuple[str, ...]


def copy(
    source: str, destination: str, *, batch: int | None = None, progress: Progress | None = None
) -> Copied:
    """Copy a collection into a new one, or go on with a copy that was cut off.

    Parameters
    ----------
    source, destination : str
        Addresses, see :func:`bilsh.open`.
    batch : int, optional
        Items per write; by default 4,096, fewer where codes are long.
    progress : callable (what, done, total), optional

    Returns
    -------
    Copied
    """
    say = progress or (lambda what, done, total: None)
    if Address.of(source) == Address.of(destination):
        raise InvalidInputError(f"{source} cannot be copied to itself.")
    with open_collection(source) as old:
        notes = []
        if old.keep_vectors:
            notes.append(
                "vectors are not copied: engines keep codes, ids and metadata (`bilsh backup` copies a store)"
            )
        new, begun = _destination(destination, old)
        # Closed by hand: what a failing run has not flushed must not be flushed on its way out.
        try:
            written = _fill(old, new, begun, batch or _rows(old), say)
            found = compare(old, new, say)
            new.remember(NOTE, {**_identity(old), "done": True})
            new.flush()
        finally:
            new.close()
        resumed = begun.get("after") is not None or bool(begun.get("done"))
        return Copied(
            old.address, new.address, found.items, written, resumed, old.spec.n_bits, old.spec.fingerprint,
            found.sha256, tuple(notes),
        )  # fmt: skip


def _rows(old: Collection) -> int:
    return max(1, min(BATCH, BATCH_BYTES // old.spec.n_bytes))


def _identity(old: Collection) -> dict[str, Any]:
    return {"source": old.address, "fingerprint": old.spec.fingerprint}


def _destination(address: str, old: Collection) -> tuple[Collection, dict[str, Any]]:
    """Open the destination, or make it; and what it remembers of this copy."""
    try:
        new = open_collection(address, "a")
    except DataNotFoundError:
        new = create(address, old.spec.coder, ids=old.id_kind or "int")
        new.remember(NOTE, _identity(old))
        return new, {}
    try:
        if new.spec.fingerprint != old.spec.fingerprint:
            raise IncompatibleCodesError(
                f"{new.address} holds codes of encoder {new.spec.fingerprint[:8]}..., {old.address} those of "
                f"{old.spec.fingerprint[:8]}.... Copy to another place."
            )
        begun = new.remembered(NOTE)
        if begun is None and len(new):
            raise InvalidInputError(
                f"{new.address} holds {len(new):,} items and was not begun by a copy. Copy to a new place."
            )
        if begun is not None and begun["source"] != old.address:
            raise InvalidInputError(
                f"{new.address} was begun as a copy of {begun['source']}, not of {old.address}. Copy to a new place."
            )
        if begun is None:
            new.remember(NOTE, _identity(old))
        return new, begun or {}
    except BaseException:
        new.close()
        raise


def _fill(old: Collection, new: Collection, begun: dict[str, Any], batch: int, say: Progress) -> int:
    if begun.get("done"):
        return 0
    total, written, after = len(old), 0, begun.get("after")
    # What was written behind the noted place is written again; nothing before it is read.
    done = len(new) if after is not None else 0
    say("copying", min(done, total), total)
    noted = monotonic()
    for items in old.batches(batch, after=after):
        noting = any(value is not None for value in items.metadata)
        new.upsert(
            items.ids,
            items.codes,
            metadata=items.metadata if noting else None,
            fingerprint=old.spec.fingerprint,
        )
        written += len(items)
        if monotonic() - noted > NOTED_EVERY:
            new.flush()
            last = items.ids[-1]
            new.remember(NOTE, {**_identity(old), "after": last if isinstance(last, str) else int(last)})
            noted = monotonic()
        say("copying", min(done + written, total), total)
    new.flush()
    return written


@dataclass(frozen=True, slots=True)
class Checked:
    """What was read: how many items, and the digest of all."""

    items: int
    sha256: str


def digest(there: Collection, say: Progress, what: str) -> Checked:
    """Read every item, in the order of ids, and check that there are as many as the engine says."""
    parts, count, last = Digest(), 0, None
    total = len(there)
    for items in there.batches(_rows(there)):
        for item in (items.ids[0], items.ids[-1]):
            if last is not None and item < last:
                raise BilshError(f"{there.address} gives items out of order at id {item!r}.")
            last = item
        parts.update(items.ids, items.codes, metadata=items.metadata)
        count += len(items)
        say(what, count, total)
    if count != total:
        raise BilshError(f"{there.address} says it holds {total:,} items, and gives {count:,}.")
    return Checked(count, hashlib.sha256(repr(sorted(parts.parts().items())).encode()).hexdigest())


def compare(old: Collection, new: Collection, say: Progress) -> Checked:
    """Read both sides and refuse differences."""
    first, second = digest(old, say, "reading the source"), digest(new, say, "reading the copy")
    if first != second:
        what = (
            f"{second.items:,} items instead of {first.items:,}"
            if first.items != second.items
            else "other ids, codes or metadata"
        )
        raise BilshError(
            f"{new.address} is not {old.address}: it holds {what}. One of them changed since the copy was begun; "
            "delete the copy and make it anew."
        )
    return second
