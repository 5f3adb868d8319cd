"""Items that are nearly the same, as stars: every member is close to the centre, never only to another member."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import InvalidInputError
from bilsh.estimates.intervals import estimate_distances
from bilsh.search.index import Index
from bilsh.search.pairs import blocks_of, pairs_of_block
from bilsh.types import Progress, silent
from bilsh.workflows.collection import Collection
from bilsh.workflows.telling import plain

Ints = NDArray[np.int64]

WORK = 4 * 10**10
"""Bytes compared at most, all pairs together: seconds."""

MOST_PAIRS = 1_000_000


def stars(
    items: Collection, least: float, *, confidence: float = 0.95, progress: Progress = silent
) -> dict[str, Any]:
    """Group items that are at least so alike; plain values.

    The item with the most others around it becomes a centre and takes them; then the next of those that are left.

    Parameters
    ----------
    items : Collection
    least : float
        Similarity of each member to the centre, as the codes tell it.
    confidence : float
        Of the intervals, which are those of pairs.
    progress : callable (what, done, total), optional
    """
    if items.quantity is None:
        raise InvalidInputError(
            "the codes of this store were made elsewhere and tell no similarity, so groups have no measure."
        )
    bits = _affordable_bits(items)
    index = items.index(bits)
    told = estimate_distances(np.arange(bits + 1), index.coder, confidence, of=items.quantity)
    near = np.flatnonzero(told.value >= least)
    radius = int(near.max()) if len(near) else -1
    found = [] if radius < 0 else _greedy(_pairs(index, radius, progress), len(items))
    groups = []
    for centre, members, distances in found:
        ends = told.interval[distances]
        groups.append(
            {
                "centre": {"row": centre, "id": items.name(centre), "caption": items.caption(centre)},
                "members": [
                    {
                        "row": int(row),
                        "id": items.name(int(row)),
                        "caption": items.caption(int(row)),
                        "distance": int(far),
                        "similarity": plain(told.value[far]),
                        "interval": [plain(low), plain(high)],
                    }
                    for row, far, (low, high) in zip(members, distances, ends, strict=True)
                ],
            }
        )
    grouped = sum(len(group["members"]) + 1 for group in groups)
    return {
        "least": least,
        "bits": bits,
        "radius": radius,
        "items": len(items),
        "grouped": grouped,
        "groups": groups,
    }


def _affordable_bits(items: Collection) -> int:
    """The longest code whose pairs can all be compared in seconds."""
    n = max(1, len(items))
    fit = [bits for bits in items.ladder if n * n * bits // 8 <= WORK]
    if not fit:
        raise InvalidInputError(
            f"{n:,} items have too many pairs to compare while you wait. Look at a store of some of them."
        )
    return fit[-1]


def _pairs(index: Index, radius: int, progress: Progress) -> list[tuple[Ints, Ints]]:
    """Neighbours within the radius of every item, nearest first: rows and distances."""
    segments = [index]
    found: list[tuple[Ints, Ints, Ints]] = []
    total = 0
    for block in blocks_of(segments):
        progress("comparing items", block[1], len(index))
        for a, b, far in pairs_of_block(segments, block, radius, [None]):
            wide = far.astype(np.int64)
            found += [(a, b, wide), (b, a, wide)]
            total += len(a)
        if total > MOST_PAIRS:
            raise InvalidInputError(
                f"more than {MOST_PAIRS:,} pairs are that alike; groups would hold everything. Ask for a higher "
                "similarity."
            )
    if not found:
        return []
    rows, others, distances = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.lexsort((others, distances, rows))
    edges = np.searchsorted(rows[order], np.arange(len(index) + 1))
    parts = [order[start:stop] for start, stop in pairwise(edges.tolist())]
    return [(others[part], distances[part]) for part in parts]


def _greedy(pairs: list[tuple[Ints, Ints]], n: int) -> list[tuple[int, Ints, Ints]]:
    """Stars in the order in which their centres were chosen, the largest first."""
    free = np.ones(n, dtype=np.bool_)
    counts = np.array([len(ids) for ids, _ in pairs])
    found: list[tuple[int, Ints, Ints]] = []
    while len(counts) and counts.max() > 0:
        centre = int(counts.argmax())
        ids, distances = pairs[centre]
        open_ = free[ids]
        members = ids[open_]
        if free[centre] and len(members) == counts[centre]:
            found.append((centre, members, distances[open_]))
            free[members] = False
            free[centre] = False
            counts[centre] = 0
        else:
            # Some of its neighbours went to other centres meanwhile.
            counts[centre] = len(members) if free[centre] else 0
    return found
