"""Ties of engines that do not order them: fetch past k until the distance grows, sort by (distance, id), then cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import Codes

Found = tuple[NDArray[Any], NDArray[np.int32]]
Fetch = Callable[[Codes, int], list[Found]]
"""The nearest so many of each query, best first, ties in any order; fewer only where there are no more."""

Enough = Callable[[NDArray[np.int32]], bool]


def nearest(fetch: Fetch, codes: Codes, k: int, most: int) -> list[Found]:
    """Return the nearest k of each query by (distance, id), of `most` that there are."""

    def enough(far: NDArray[np.int32]) -> bool:
        return bool(far[-1] > far[k - 1])

    found = _grown(fetch, codes, min(most, k + 1), most, 2, enough)
    return [(ids[:k], far[:k]) for ids, far in found]


def within(fetch: Fetch, codes: Codes, radius: int, most: int) -> list[Found]:
    """Return all within a radius of each query: lists that grow until they reach beyond it."""

    def enough(far: NDArray[np.int32]) -> bool:
        return bool(far[-1] > radius)

    found = _grown(fetch, codes, min(most, 64), most, 4, enough)
    return [(ids[far <= radius], far[far <= radius]) for ids, far in found]


def _grown(fetch: Fetch, codes: Codes, asked: int, most: int, factor: int, enough: Enough) -> list[Found]:
    """Ask again for longer lists, for those queries only whose lists are not long enough."""
    empty = np.empty(0, np.int64), np.empty(0, np.int32)
    found: list[Found] = [empty] * len(codes)
    open_ = np.arange(len(codes)) if asked else np.empty(0, np.int64)
    while len(open_):
        lists = fetch(codes[open_], asked)
        still = []
        for query, (ids, far) in zip(open_.tolist(), lists, strict=True):
            found[query] = sorted_hits(ids, far)
            if len(ids) == asked < most and not enough(found[query][1]):
                still.append(query)
        open_ = np.array(still, dtype=np.int64)
        asked = min(most, factor * asked)
    return found


def sorted_hits(ids: NDArray[Any], distances: NDArray[np.int32]) -> Found:
    """Order hits by distance, then by id."""
    by_id = np.argsort(ids, kind="stable")
    order = by_id[np.argsort(distances[by_id], kind="stable")]
    return ids[order], distances[order].astype(np.int32)
