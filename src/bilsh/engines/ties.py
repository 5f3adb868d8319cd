"""Ties of engines that do not order them: fetch past k until the distance grows, sort by (distance, id), then cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Found = tuple[NDArray[Any], NDArray[np.int32]]
Fetch = Callable[[int], Found]
"""The nearest so many of one query, best first, ties in any order; fewer only where there are no more."""


def nearest(fetch: Fetch, k: int, most: int) -> Found:
    """Return the nearest k by (distance, id), of `most` that there are."""
    asked = min(most, k + 1)
    while True:
        ids, distances = fetch(asked) if asked else (np.empty(0, np.int64), np.empty(0, np.int32))
        complete = len(ids) < asked or asked >= most or distances[-1] > distances[k - 1]
        if complete:
            return tuple(part[:k] for part in sorted_hits(ids, distances))  # type: ignore[return-value]
        asked = min(most, 2 * asked)


def within(fetch: Fetch, radius: int, most: int) -> Found:
    """Return all within a radius: lists that grow until they reach beyond it."""
    asked = min(most, 64)
    while True:
        ids, distances = fetch(asked) if asked else (np.empty(0, np.int64), np.empty(0, np.int32))
        if len(ids) < asked or asked >= most or distances[-1] > radius:
            near = distances <= radius
            return sorted_hits(ids[near], distances[near])
        asked = min(most, 4 * asked)


def sorted_hits(ids: NDArray[Any], distances: NDArray[np.int32]) -> Found:
    """Order hits by distance, then by id."""
    by_id = np.argsort(ids, kind="stable")
    order = by_id[np.argsort(distances[by_id], kind="stable")]
    return ids[order], distances[order].astype(np.int32)
