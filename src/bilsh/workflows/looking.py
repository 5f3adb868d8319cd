"""What the page shows about one item: its neighbours at every length of code, and another item beside it."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import hamming
from bilsh.errors import InvalidInputError
from bilsh.estimates.intervals import estimate_distances
from bilsh.search.index import Index
from bilsh.search.request import Mode
from bilsh.search.results import Neighbors
from bilsh.types import Floats
from bilsh.validation import check_choice, check_fraction, check_integer
from bilsh.workflows.collection import Collection
from bilsh.workflows.telling import plain, told_background, told_hits

Way = Literal["hamming", "asymmetric", "reranked"]
WAYS: tuple[Way, ...] = get_args(Way)

MOST = 200
"""Neighbours that are shown at most."""

COUNTED = 20_000
"""Items whose distances a histogram counts, at most."""

BINS = 40


@dataclass(frozen=True, slots=True)
class Asking:
    """An item of the collection by its row, or a descriptor that came from elsewhere."""

    row: int | None = None
    vector: NDArray[np.float32] | None = None
    name: str = ""


def neighbours(
    items: Collection, asking: Asking, *, k: int = 24, mode: Way = "hamming", confidence: float = 0.95
) -> dict[str, Any]:
    """Find the neighbours of one item with codes of every length; plain values.

    Parameters
    ----------
    items : Collection
    asking : Asking
    k : int
        Neighbours.
    mode : {"hamming", "asymmetric", "reranked"}
        By differing bits; by the query's real values; the best of these by the vectors that are kept.
    confidence : float
        Of the intervals.
    """
    k = check_integer("k", k, minimum=1)
    check_choice("mode", mode, WAYS)
    check_fraction("confidence", confidence)
    if k > MOST:
        raise InvalidInputError(f"k must be at most {MOST}; got {k}.")
    vector = _vector(items, asking)
    if mode != "hamming" and vector is None:
        raise InvalidInputError(
            f"mode {mode} needs the query's real values, and this store keeps only codes. Use mode=hamming, or drop "
            "an image or .npy file as the query."
        )
    if mode == "reranked" and items.vectors is None:
        raise InvalidInputError("mode reranked compares vectors. " + (items.no_truth or ""))
    ranks = None if vector is None else true_ranks(items, asking.row, vector)
    start = perf_counter()
    steps = [_step(items, bits, asking, vector, k, mode, confidence, ranks) for bits in items.ladder]
    seen = {hit["row"] for step in steps for hit in (*step["neighbors"], *step["missed"])}
    seen |= {asking.row} if asking.row is not None else set()
    return {
        "query": {"row": asking.row, "id": items.name(asking.row) if asking.row is not None else asking.name},
        "k": k,
        "mode": mode,
        "quantity": items.quantity,
        "confidence": confidence,
        "items": len(items),
        "background": told_background(items.background),
        "truth": ranks is not None,
        "ladder": steps,
        "captions": {row: text for row in sorted(seen) if (text := items.caption(row)) is not None},
        "seconds": perf_counter() - start,
    }


def _vector(items: Collection, asking: Asking) -> NDArray[np.float32] | None:
    if asking.vector is not None:
        return asking.vector
    items.check_row(-1 if asking.row is None else asking.row)
    return None if items.vectors is None else items.items([asking.row])[0]


@dataclass(frozen=True, slots=True)
class Truth:
    """True similarities to all items, and the place of each in their order from 1; 0 for the query itself."""

    similarity: Floats
    rank: NDArray[np.int64]

    def first(self, k: int) -> NDArray[np.int64]:
        """Rows of the k nearest, nearest first."""
        order = np.argsort(self.rank, kind="stable")
        return order[self.rank[order] > 0][:k]


def true_ranks(items: Collection, row: int | None, vector: NDArray[np.float32]) -> Truth | None:
    """Compare a descriptor with all items; None where their vectors are not kept."""
    exact = items.exact
    if exact is None:
        return None
    primary = exact.primary(vector)
    similarity = exact.similarity(primary)
    ordered = primary.copy()
    if row is not None:
        ordered[row] = -1.0
    rank = np.empty(len(items), dtype=np.int64)
    rank[np.argsort(ordered, kind="stable")] = np.arange(len(items)) + (row is None)
    return Truth(similarity, rank)


def _step(
    items: Collection,
    bits: int,
    asking: Asking,
    vector: NDArray[np.float32] | None,
    k: int,
    mode: Way,
    confidence: float,
    truth: Truth | None,
) -> dict[str, Any]:
    """Neighbours by codes of one length."""
    index = items.index(bits)
    start = perf_counter()
    hits = _search(index, asking, vector, k, mode, confidence)
    seconds = perf_counter() - start
    band = items.background
    marks = None if band is None or hits.quantity is None else band.stands_out(hits)[0]
    told = told_hits(hits.hits(0), marks)
    found = hits.ids[0]
    for hit, row in zip(told, found.tolist(), strict=True):
        hit["row"], hit["id"] = row, items.name(row)
        hit["true_rank"] = None if truth is None else int(truth.rank[row])
        hit["true_similarity"] = None if truth is None else float(truth.similarity[row])
    missed = []
    if truth is not None:
        missed = [
            {
                "row": int(row),
                "id": items.name(int(row)),
                "true_rank": int(truth.rank[row]),
                "true_similarity": float(truth.similarity[row]),
            }
            for row in truth.first(k)
            if row not in found
        ]
    explanation = hits.explain()
    return {
        "bits": bits,
        "bytes": -(-bits // 8),
        "neighbors": told,
        "missed": missed,
        "histogram": _histogram(items, index, asking, vector),
        "notes": list(explanation.notes) if explanation else [],
        "seconds": seconds,
    }


def _search(
    index: Index, asking: Asking, vector: NDArray[np.float32] | None, k: int, mode: Way, confidence: float
) -> Neighbors:
    by: Mode = "hamming" if mode == "hamming" else "asymmetric"
    exactly = mode == "reranked"
    if asking.vector is None:
        return index.search(k=k, ids=[asking.row], mode=by, rerank=exactly, confidence=confidence)
    return index.search(asking.vector[None], k, mode=by, rerank=exactly, confidence=confidence)


def _histogram(
    items: Collection, index: Index, asking: Asking, vector: NDArray[np.float32] | None
) -> dict[str, Any]:
    """How many items are how far, by differing bits; of many items a part is counted."""
    if asking.row is not None:
        one = np.hstack([slab[asking.row] for slab in index.slabs])[None]
    else:
        one = index.coder.encode(np.asarray(vector)[None])
    step = -(-len(items) // COUNTED)
    codes = [slab[::step] for slab in index.slabs]
    widths = np.cumsum([slab.shape[1] for slab in codes])[:-1]
    distances = sum(
        hamming(part, np.ascontiguousarray(slab))[0]
        for part, slab in zip(np.split(one, widths, axis=1), codes, strict=True)
    )
    counts, edges = np.histogram(distances, bins=BINS, range=(0, 0.8 * index.n_bits))
    return {"step": float(edges[1] - edges[0]), "counts": counts.tolist(), "counted": len(codes[0])}


def pair(items: Collection, a: int, b: int, *, confidence: float = 0.95) -> dict[str, Any]:
    """Tell how alike two items are, as more and more of their bits are read; plain values.

    Parameters
    ----------
    items : Collection
    a, b : int
        Rows.
    confidence : float
        Of the intervals, which are those of a pair that was chosen beforehand.
    """
    items.check_row(a, "a")
    items.check_row(b, "b")
    check_fraction("confidence", confidence)
    steps = []
    for bits in items.ladder:
        index = items.index(bits)
        left, right = (np.hstack([slab[row] for slab in index.slabs]) for row in (a, b))
        distance = int(np.bitwise_count(left ^ right).sum())
        step: dict[str, Any] = {"bits": bits, "distance": distance, "similarity": None, "interval": None}
        step["identification"] = None
        if items.quantity is not None:
            told = estimate_distances(np.array([distance]), index.coder, confidence, of=items.quantity)
            step["similarity"] = plain(told.value[0])
            step["interval"] = [plain(end) for end in told.interval[0]]
            if told.identification_interval is not None:
                step["identification"] = [plain(end) for end in told.identification_interval[0]]
        steps.append(step)
    exact = None
    if items.exact is not None:
        primary = items.exact.primary(items.items([a])[0])
        exact = float(items.exact.similarity(primary)[b])
    return {
        "a": _item(items, a),
        "b": _item(items, b),
        "quantity": items.quantity,
        "confidence": confidence,
        "background": told_background(items.background),
        "exact": exact,
        "no_truth": items.no_truth,
        "ladder": steps,
    }


def _item(items: Collection, row: int) -> dict[str, Any]:
    return {"row": row, "id": items.name(row), "caption": items.caption(row)}
