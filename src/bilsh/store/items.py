"""Items as a store gives them back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.store.sections import WINDOW
from bilsh.store.segment import Segment


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
