"""Which items a search may find: some ids, or those whose metadata has certain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import InvalidInputError, InvalidTypeError
from bilsh.store.ids import as_names, as_strings
from bilsh.store.manifest import IdKind


@dataclass(frozen=True, slots=True, eq=False)
class Filter:
    """One of both.

    Attributes
    ----------
    ids : array of distinct ids, or None
    values : dict, or None
        Keys of the metadata with the string, number or boolean that each must have.
    """

    ids: NDArray[Any] | None = None
    values: dict[str, Any] | None = None


def as_filter(where: Any, kind: IdKind | None, by_values: bool, engine: str) -> Filter | None:
    """Check what a caller gave as ``where=``."""
    if where is None:
        return None
    if isinstance(where, str | bytes):
        raise InvalidTypeError(
            "where must be ids, or a dict of values of the metadata; expressions in the engine's own language are not "
            "taken, since they could say anything."
        )
    if isinstance(where, Mapping):
        if not by_values:
            raise InvalidInputError(f"{engine} filters by ids only. Find the ids first and pass where=ids.")
        for key, value in where.items():
            if not isinstance(key, str) or not isinstance(value, str | int | float | bool):
                raise InvalidTypeError(
                    f"where must map names to strings, numbers or booleans; got {key!r}: {value!r}."
                )
        return Filter(values=dict(where))
    if np.asarray(where).dtype == np.bool_:
        raise InvalidTypeError("an engine has no rows to tick off: pass where as ids, not as booleans.")
    names = as_names(where, kind, unique=False)
    return Filter(ids=np.unique(names.ints if names.ints is not None else as_strings(names.keys or [])))
