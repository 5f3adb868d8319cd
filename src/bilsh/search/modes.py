"""One search, step by step: read the query, find by a mode, order by exact distances, say what the hits mean.

Index and store alike are segments (:mod:`bilsh.search.scan`); this is all that happens
between a request and its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import Codes, check_widths
from bilsh.encoders.coder import Coder
from bilsh.errors import InvalidInputError
from bilsh.estimates.evidence import DistanceEvidence, Evidence, MeanEvidence
from bilsh.search.request import Request
from bilsh.search.results import Explanation, Matches, Neighbors
from bilsh.search.scan import Found, Memory, Scan, Segment, Tally

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Query:
    """Queries in all the forms that a search may need, each made once.

    Attributes
    ----------
    codes : uint8 array (q, n_bytes)
    values : float32 array (q, n_bits) or None
        Real values behind the bits, where the ranking uses them.
    vectors : array (q, ...) or None
        The descriptors, where there are any.
    """

    codes: Codes
    values: NDArray[np.float32] | None = None
    vectors: NDArray[Any] | None = None

    @classmethod
    def of_descriptors(cls, Q: Any, coder: Coder, request: Request) -> Query:
        """Project once; the bits follow from the real values where these are needed."""
        start = Q if isinstance(Q, np.ndarray) else np.asarray(Q) if not hasattr(Q, "toarray") else Q
        if request.radius is None and request.mode in ("auto", "asymmetric"):
            values = coder.values(start, n_jobs=request.n_jobs)
            return cls(coder.quantize(values), values, start)
        return cls(coder.encode(start, n_jobs=request.n_jobs), None, start)


@dataclass(frozen=True, slots=True)
class Hits:
    """What a mode found: ids and Hamming distances in order, why that way, and what there is to estimate from."""

    found: Found
    mode: str
    reason: str
    scored: bool = False


def search(
    segments: Sequence[Segment],
    alive: Sequence[Codes | None],
    query: Query,
    request: Request,
    *,
    n_bits: int,
    coder: Coder | None,
    memory: Memory,
) -> Neighbors | Matches:
    """Answer a request.

    Parameters
    ----------
    segments : sequence of Segment
    alive : sequence of packed bitmaps, or None where all rows count
    query : Query
    request : Request
    n_bits : int
        Length of the codes.
    coder : Coder or None
        Says what distances mean; None for codes of unknown origin.
    memory : Memory
        Whether prefixes paid before.
    """
    if segments:
        width = sum(slab.shape[1] for slab in segments[0].slabs)
        check_widths(query.codes, np.empty((0, width), dtype=np.uint8), "queries", "codes")
    scan = Scan(segments, alive, n_bits, request.threads, memory, Tally())
    if request.radius is not None:
        return _within(scan, query, request, coder)
    if query.values is not None and coder is not None:
        hits = (_asymmetric if request.mode == "asymmetric" else _auto)(scan, query, request, coder)
    elif request.mode == "asymmetric":
        raise InvalidInputError(
            "an asymmetric search needs the query's real values, hence descriptors and the encoder; these queries are "
            "codes. Use mode='auto'."
        )
    elif request.mode == "hamming":
        found = scan.top_k(query.codes, _count(scan, request))
        hits = Hits(found, "hamming", "asked for: the exact answer by a full scan")
    else:
        hits = _progressive(scan, query, request)
    (ids, distances), exact = hits.found, None
    if request.reranks:
        (ids, distances), exact = _rerank(scan, request, query, hits.found)
    ids, distances = ids[:, : request.k], distances[:, : request.k]
    return Neighbors(
        ids,
        distances,
        exact,
        _evidence(scan, coder, query, ids, distances, hits.scored),
        request.confidence,
        _explanation(scan, hits.mode, hits.reason, query),
    )


def _count(scan: Scan, request: Request) -> int:
    """How many to find. More than all is all; where there is nothing, the scans still need a number they accept."""
    wanted = request.wanted if request.reranks else request.k
    return min(wanted, max(1, scan.n_items))


def _progressive(scan: Scan, query: Query, request: Request) -> Hits:
    found, reason = scan.progressive(query.codes, _count(scan, request), request.delta)
    return Hits(found, "progressive", reason)


def _auto(scan: Scan, query: Query, request: Request, coder: Coder) -> Hits:
    """The nearest by prefixes, then the best of them by the query's real values; re-ranking needs no scores."""
    if request.reranks:
        return _progressive(scan, query, request)
    wanted = min(request.wanted, max(1, scan.n_items))
    found, reason = scan.progressive(query.codes, wanted, request.delta)
    return Hits(
        _by_score(scan, query, coder, found),
        "auto",
        f"the nearest {wanted} codes, ordered by the query's real values; {reason}",
        scored=True,
    )


def _asymmetric(scan: Scan, query: Query, request: Request, coder: Coder) -> Hits:
    """All items by the query's real values, or as many candidates as were asked for."""
    if request.candidates is not None:
        wanted = min(request.wanted, max(1, scan.n_items))
        found, _ = scan.progressive(query.codes, wanted, request.delta)
        reason = f"asked for: the nearest {wanted} by prefixes scored"
        return Hits(_by_score(scan, query, coder, found), "asymmetric", reason, scored=True)
    ids, _ = scan.best_scores(*_weights(scan, query, coder), _count(scan, request))
    found = ids, scan.distances_of(query.codes, ids)
    return Hits(found, "asymmetric", "asked for: all items scored", scored=True)


def _weights(scan: Scan, query: Query, coder: Coder) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    start = perf_counter()
    weights, bias = coder.calibration.score_weights(np.asarray(query.values))
    scan.tally.add("weights of queries", weights.size, weights.nbytes, perf_counter() - start)
    return weights, bias


def _by_score(scan: Scan, query: Query, coder: Coder, found: Found) -> Found:
    """Candidates in the order of their scores, ties by id."""
    ids, distances = found
    order = np.lexsort((ids, -scan.scores_of(*_weights(scan, query, coder), ids)), axis=1)
    return np.take_along_axis(ids, order, axis=1), np.take_along_axis(distances, order, axis=1)


def _within(scan: Scan, query: Query, request: Request, coder: Coder | None) -> Matches:
    radius = min(int(request.radius or 0), 8 * query.codes.shape[1])
    ids, distances = scan.within(query.codes, radius)
    exact: list[Floats] | None = None
    if request.reranks:
        exact = []
        for number, row in enumerate(ids):
            one = Query(query.codes[number : number + 1], None, _one(query, number))
            (near, far), true = _rerank(scan, request, one, (row[None], distances[number][None]), len(row))
            ids[number], distances[number] = near[0], far[0]
            exact.append(true[0])
    evidence: list[Evidence] | None = None
    if coder is not None:
        evidence = [DistanceEvidence(coder, far) for far in distances]
    explanation = _explanation(scan, "hamming", "a radius is searched by a full scan", query)
    return Matches(ids, distances, exact, evidence, request.confidence, explanation)


def _one(query: Query, number: int) -> NDArray[Any] | None:
    return None if query.vectors is None else query.vectors[number : number + 1]


def _rerank(
    scan: Scan, request: Request, query: Query, found: Found, k: int | None = None
) -> tuple[Found, Floats]:
    """Candidates in the order of their exact distance to the query, ties by id; and these distances."""
    ids, distances = found
    given = request.rerank if isinstance(request.rerank, np.ndarray) else None
    if query.vectors is None:
        raise InvalidInputError(
            "re-ranking compares vectors, and these queries are codes. Pass the queries' descriptors."
        )
    if given is None and any(segment.vectors is None for segment in scan.segments):
        raise InvalidInputError(
            "rerank=True needs the vectors, which are not kept here. Keep them, or pass rerank=vectors."
        )
    if given is not None and ids.size and (ids.min() < 0 or ids.max() >= len(given)):
        raise InvalidInputError(
            f"rerank must hold the vector of every id, rerank[id]; ids reach {ids.max()}, it has {len(given)} rows."
        )
    start = perf_counter()
    queries = query.vectors.astype(np.float64).reshape(len(ids), -1)
    exact = np.empty(ids.shape)
    for number, (vector, row) in enumerate(zip(queries, ids, strict=True)):
        if not len(row):
            continue
        vectors = scan.vectors_of(row) if given is None else given[row]
        difference = vectors.reshape(len(row), vector.size) - vector
        exact[number] = np.sqrt(np.einsum("ij,ij->i", difference, difference))
    scan.tally.add("exact distances", ids.size, ids.size * queries.shape[1] * 4, perf_counter() - start)
    order = np.lexsort((ids, exact), axis=1)[:, : request.k if k is None else k]
    near = np.take_along_axis(ids, order, axis=1), np.take_along_axis(distances, order, axis=1)
    return near, np.take_along_axis(exact, order, axis=1)


def _evidence(
    scan: Scan,
    coder: Coder | None,
    query: Query,
    ids: NDArray[np.int64],
    distances: NDArray[np.int32],
    scored: bool,
) -> Evidence | None:
    """What there is to estimate from: the scores where they gave the order, else the distances."""
    if coder is None:
        return None
    if scored and query.values is not None:
        weights = coder.calibration.mean_weights(query.values)
        return MeanEvidence(coder, scan.scores_of(*weights, ids).astype(np.float64))
    return DistanceEvidence(coder, distances)


def _explanation(scan: Scan, mode: str, reason: str, query: Query) -> Explanation:
    return Explanation(mode, reason, len(query.codes), scan.n_items, scan.tally.stages())
