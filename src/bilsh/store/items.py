"""Items as a store gives them back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import InvalidInputError
from bilsh.store.ids import Names, as_strings, show
from bilsh.store.sections import WINDOW
from bilsh.store.segment import Segment
from bilsh.store.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Items:
    """Some items of a store.

    Attributes
    ----------
    ids : int64 (n,), or object (n,) of str
    codes : uint8 (n, ceil(n_bits / 8))
    vectors : float32 or float16 (n, d), or None when the store keeps none
    metadata : list of n JSON values, None for items without
    """

    ids: NDArray[Any]
    codes: NDArray[np.uint8]
    vectors: NDArray[Any] | None
    metadata: list[Any]

    def __len__(self) -> int:
        return len(self.codes)


def pick(snapshot: Snapshot, names: Names) -> Items:
    """Items of one version by their ids; an error names the first that is missing."""
    where, rows = snapshot.find(names)
    missing = np.flatnonzero(where < 0)
    if len(missing):
        count = f" ({len(missing)} of the {len(names)} ids asked for are missing)" if len(names) > 1 else ""
        raise InvalidInputError(f"id {show(names, int(missing[0]))} is not in the store{count}.")
    manifest = snapshot.manifest
    codes = np.empty((len(names), -(-manifest.n_bits // 8)), dtype=np.uint8)
    kept = manifest.keep_vectors
    vectors = np.empty((len(names), manifest.n_features), dtype=kept) if kept else None
    metadata: list[Any] = [None] * len(names)
    for number in np.unique(where).tolist():
        segment, mine = snapshot.segments[number], np.flatnonzero(where == number)
        codes[mine] = segment.codes_at(rows[mine])
        if vectors is not None:
            vectors[mine] = segment.file.take("vectors", rows[mine])
        if segment.has("meta"):
            for place, value in zip(mine.tolist(), segment.metadata_at(rows[mine]), strict=True):
                metadata[place] = value
    ids = names.ints if names.ints is not None else as_strings(names.keys or [])
    return Items(ids, codes, vectors, metadata)


def walk(segment: Segment, size: int) -> Iterator[Items]:
    """Items of one segment; read some MiB at a time, lest small batches read blocks over and over."""
    layout = segment.layout
    row_bytes = layout.n_bytes + 8 + (layout.n_features * 4 if layout.keep_vectors else 0)
    step = size * max(1, WINDOW // (row_bytes * size))
    for start in range(0, len(segment), step):
        stop = min(start + step, len(segment))
        part = segment.part(start, stop)
        alive = segment.alive_bits(start, stop)
        live = np.arange(stop - start) if alive is None else np.flatnonzero(alive)
        keys = segment.read_items("keys", start, stop) if segment.has("keys") else None
        notes = segment.read_items("meta", start, stop) if segment.has("meta") else None
        for at in range(0, len(live), size):
            rows = live[at : at + size]
            yield Items(
                part.ids[rows] if keys is None else segment.strings([keys[row] for row in rows]),
                np.hstack([slab[rows] for slab in part.slabs]),
                None if part.vectors is None else part.vectors[rows],
                [None] * len(rows) if notes is None else segment.parse([notes[row] for row in rows]),
            )
