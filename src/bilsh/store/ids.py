"""What an item may be called: 64-bit integers or strings, one kind per store."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh.errors import InvalidInputError, InvalidTypeError
from bilsh.store.manifest import IdKind
from bilsh.validation import refuse_masked

MAX_KEY_BYTES = 1024
_MAX_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Names:
    """Checked ids of some items: integers, or strings as UTF-8 with their hashes."""

    kind: IdKind
    ints: NDArray[np.int64] | None = None
    keys: list[bytes] | None = None
    hashes: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return len(self.ints if self.ints is not None else self.keys or ())


def as_names(ids: ArrayLike | Sequence[str], kind: IdKind | None, *, unique: bool = True) -> Names:
    """Check ids and bring them into one form.

    Parameters
    ----------
    ids : array (n,) of integers, or of strings
    kind : "int", "str" or None
        The kind the store has; None where it has none yet.
    unique : bool
        Refuse ids that occur twice.
    """
    array = _as_array(ids)
    if array.ndim != 1:
        raise InvalidInputError(f"ids must be one-dimensional, one per item; got shape {array.shape}.")
    if array.dtype.kind in "OUT":
        names = _string_names(array)
    elif array.dtype.kind in "iu" or not array.size:
        if array.size and array.dtype.kind == "u" and int(array.max()) > np.iinfo(np.int64).max:
            raise InvalidInputError(
                f"ids must fit int64; the largest is {array.max()}. Use strings for longer ids."
            )
        names = Names("int" if array.size else kind or "int", ints=array.astype(np.int64))
        if names.kind == "str":
            names = Names("str", keys=[], hashes=np.empty(0, np.uint64))
    else:
        raise InvalidTypeError(
            f"ids must be integers or strings; got {array.dtype}. Convert them, e.g. ids.astype(int)."
        )
    if kind is not None and names.kind != kind:
        words = {"int": "integer", "str": "string"}
        raise InvalidTypeError(
            f"this store has {words[kind]} ids (fixed by its first add); got {words[names.kind]} ids. "
            "Convert them first."
        )
    if unique:
        _refuse_duplicates(names)
    return names


def next_names(kind: IdKind | None, first: int, count: int) -> Names:
    """Ids of items that came without: integers from `first` on."""
    if kind == "str":
        raise InvalidTypeError(
            "this store has string ids, so ids cannot be left out. Give one for each item."
        )
    if first + count - 1 > _MAX_ID:
        raise InvalidInputError(
            f"there are no {count} integers left after id {first - 1}. Give ids yourself."
        )
    return Names("int", ints=np.arange(first, first + count, dtype=np.int64))


def as_strings(keys: Sequence[bytes]) -> NDArray[np.object_]:
    """Give UTF-8 keys back as an object array of str."""
    result = np.empty(len(keys), dtype=object)
    result[:] = [key.decode("utf-8") for key in keys]
    return result


def show(names: Names, index: int) -> str:
    """Spell one id for an error message."""
    return (
        str(names.ints[index]) if names.ints is not None else repr((names.keys or [])[index].decode("utf-8"))
    )


def refuse_taken(names: Names, taken: NDArray[np.bool_]) -> None:
    """Refuse new items whose ids other items have."""
    if taken.any():
        raise InvalidInputError(
            f"id {show(names, int(taken.argmax()))} is in the store already (in all "
            f"{np.count_nonzero(taken)} of {len(names)}). Use upsert to replace items."
        )


def once(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each of some numbers once, in ascending order; one alone is not looked at."""
    return np.unique(numbers) if len(numbers) > 1 else numbers


def hash_keys(keys: Sequence[bytes]) -> NDArray[np.uint64]:
    """64-bit BLAKE2b of each key, the order in which segments look keys up."""
    digests = b"".join(hashlib.blake2b(key, digest_size=8).digest() for key in keys)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def _as_array(ids: Any) -> NDArray[Any]:
    if isinstance(ids, str | bytes):
        raise InvalidTypeError(
            f"ids must be a sequence of ids; got one {type(ids).__name__}. Write [{ids!r}]."
        )
    if isinstance(ids, np.ndarray):
        refuse_masked("ids", ids)
        return ids
    items: Any = ids if isinstance(ids, list) or np.isscalar(ids) else list(ids)
    kinds = set(map(type, items)) if isinstance(items, list) else set()
    if kinds != {int}:
        # NumPy would make 1 of True, and '3' of 3 beside a string: another item's id.
        if kinds & {bool, np.bool_}:
            index = next(i for i, item in enumerate(items) if isinstance(item, bool | np.bool_))
            raise InvalidTypeError(
                f"ids must be integers or strings; got bool: ids[{index}] is {items[index]}."
            )
        if any(issubclass(kind, str) for kind in kinds):
            return np.array(items, dtype=object)
    try:
        return np.asarray(items)
    except (ValueError, OverflowError) as error:
        raise InvalidTypeError(f"ids must be integers that fit int64, or strings; {error}.") from None


def _string_names(array: NDArray[Any]) -> Names:
    keys = []
    for index, item in enumerate(array.tolist()):
        if not isinstance(item, str):
            raise InvalidTypeError(
                f"ids must be all integers or all strings; ids[{index}] is {type(item).__name__}."
            )
        try:
            key = item.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidInputError(
                f"ids[{index}] = {item!r} is not valid Unicode. Repair the string first."
            ) from None
        if not 0 < len(key) <= MAX_KEY_BYTES:
            raise InvalidInputError(
                f"string ids must have 1 to {MAX_KEY_BYTES} bytes in UTF-8; ids[{index}] has {len(key)}."
            )
        keys.append(key)
    return Names("str", keys=keys, hashes=hash_keys(keys))


def _refuse_duplicates(names: Names) -> None:
    if names.ints is not None:
        ints = names.ints
        if len(ints) < 2 or bool(np.all(ints[1:] > ints[:-1])):
            return
        order = np.argsort(ints, kind="stable")
        duplicates = order[1:][ints[order][1:] == ints[order][:-1]].tolist()
    else:
        seen: set[bytes] = set()
        duplicates = []
        for i, key in enumerate(names.keys or ()):
            if key in seen:
                duplicates.append(i)
            seen.add(key)
    if duplicates:
        raise InvalidInputError(
            f"ids must be unique; {show(names, duplicates[0])} occurs more than once ({len(duplicates)} repeated). "
            "Keep one row of each."
        )
