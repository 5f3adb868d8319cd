"""One search, step by step: read the query, find by a mode, order by exact distances, say what the hits mean.

Index and store alike are segments (:mod:`bilsh.search.scan`); this is all that happens
between a request and its answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import Codes
from bilsh.encoders.calibration import Weights
from bilsh.encoders.coder import Coder
from bilsh.encoders.sampling import score_fractions
from bilsh.errors import InvalidInputError
from bilsh.estimates.evidence import Evidence, Fractions, Samples, taken
from bilsh.search.account import Account, Explanation
from bilsh.search.promise import Promise
from bilsh.search.request import Request
from bilsh.search.results import Matches, Neighbors, Notes
from bilsh.search.scan import Found, Scan
from bilsh.theory.hit_sample import HitSample
from bilsh.theory.hits import WINDOW
from bilsh.types import Floats
from bilsh.validation import as_array

COMPLETE = 3
"""Of candidates by distance, the third with the best scores holds nearly all items with such scores."""

UNSAMPLED = (
    "intervals rest on a model alone: no sample was taken at fit (few data, a prefix, foreign codes, 0.1)"
)
PER_PAIR = "intervals are those of pairs, too narrow for hits: no sample was taken at fit (few data, a prefix, or 0.1)"


@dataclass(slots=True)
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
        start = Q if isinstance(Q, np.ndarray) or hasattr(Q, "toarray") else as_array("X", Q)
        if request.radius is None and request.mode in ("auto", "asymmetric"):
            values = coder.values(start, n_jobs=request.n_jobs)
            return cls(coder.quantize(values), values, start)
        return cls(coder.encode(start, n_jobs=request.n_jobs), None, start)


@dataclass(slots=True)
class Hits:
    """What a mode found: ids and Hamming distances in order, why that way, and what there is to estimate from."""

    found: Found
    mode: str
    reason: str
    scores: Floats | None = None
    weights: Weights | None = None
    complete: int | None = None


def answer(
    scan: Scan,
    query: Query,
    request: Request,
    coder: Coder,
    samples: Samples | None = None,
    notes: Notes | None = None,
) -> Neighbors | Matches:
    """Answer a request from a scan: of all items, or of the candidates that an engine found.

    Parameters
    ----------
    scan : Scan
    query : Query
    request : Request
    coder : Coder
        Says what distances mean, if anything.
    samples : Samples, optional
        What intervals of hits rest on; by default what was taken at fit.
    notes : function of ids, optional
        Gives their metadata.
    """
    if samples is None and coder.tells:
        samples = Samples.of(coder)
    if request.radius is not None:
        return _within(scan, query, request, coder, samples, notes)
    if query.values is not None:
        hits = (_asymmetric if request.mode == "asymmetric" else _auto)(scan, query, request, coder)
    elif request.mode == "asymmetric":
        raise InvalidInputError(
            "an asymmetric search needs the query's real values, hence descriptors and the encoder; these queries are "
            "codes. Use mode='auto'."
        )
    elif request.mode == "hamming":
        # As many again as intervals want to know; a full scan finds them on its way.
        found = scan.top_k(query.codes, max(_count(scan, request), min(WINDOW, max(1, scan.n_items))))
        hits = Hits(found, "hamming", "asked for: the exact answer by a full scan")
    else:
        hits = _progressive(scan, query, request)
    ids, distances = hits.found
    order = exact = None
    if request.reranks:
        order, exact = reranked(scan, request, query, ids[:, : _count(scan, request)])
    account = _account(scan, coder, query, hits, order, request.k, samples)
    if order is not None:
        ids, distances = (taken(array, order) for array in hits.found)
    elif ids.shape[1] > request.k:
        ids, distances = ids[:, : request.k], distances[:, : request.k]
    return Neighbors(ids, distances, exact, account, request.confidence, notes)


def _count(scan: Scan, request: Request) -> int:
    """How many to find. More than all is all; where there is nothing, the scans still need a number they accept."""
    wanted = request.wanted if request.reranks else request.k
    there = scan.n_items or 1
    return wanted if wanted < there else there


def _progressive(scan: Scan, query: Query, request: Request) -> Hits:
    found, reason = scan.progressive(query.codes, _count(scan, request), request.misses)
    return Hits(found, "progressive", reason)


def _auto(scan: Scan, query: Query, request: Request, coder: Coder) -> Hits:
    """The nearest by prefixes, then the best of them by the query's real values; re-ranking needs no scores.

    Short codes, which are read as a whole anyway, are all scored: their nearest hundred would miss too many.
    """
    if request.reranks:
        return _progressive(scan, query, request)
    by_cells = scan.wish is not None and any(segment.cells is not None for segment in scan.segments)
    if request.candidates is None and not by_cells and all(len(s.slabs) == 1 for s in scan.segments):
        return _scored(
            scan, query, request, coder, "auto", "short codes are all ordered by the query's real values"
        )
    wanted = min(request.wanted, max(1, scan.n_items))
    found, why = scan.progressive(query.codes, wanted, request.misses)
    reason = f"the nearest {wanted} codes, ordered by the query's real values; {why}"
    return _by_score(scan, query, coder, found, "auto", reason)


def _asymmetric(scan: Scan, query: Query, request: Request, coder: Coder) -> Hits:
    """All items by the query's real values, or as many candidates as were asked for."""
    if request.candidates is not None:
        wanted = min(request.wanted, max(1, scan.n_items))
        found, _ = scan.progressive(query.codes, wanted, request.misses)
        reason = f"asked for: the nearest {wanted} by prefixes scored"
        return _by_score(scan, query, coder, found, "asymmetric", reason)
    return _scored(scan, query, request, coder, "asymmetric", "asked for: all items scored")


def _scored(scan: Scan, query: Query, request: Request, coder: Coder, mode: str, reason: str) -> Hits:
    """All items in the order of their scores."""
    weights = _weights(scan, query, coder)
    ids, scores = scan.best_scores(*weights, max(_count(scan, request), min(WINDOW, max(1, scan.n_items))))
    found = ids, scan.distances_of(query.codes, ids)
    return Hits(found, mode, reason, scores.astype(np.float64), weights)


def _weights(scan: Scan, query: Query, coder: Coder) -> Weights:
    start = perf_counter()
    weights, bias = coder.calibration.score_weights(np.asarray(query.values))
    scan.tally.add("weights of queries", weights.size, weights.nbytes, perf_counter() - start)
    return weights, bias


def _by_score(scan: Scan, query: Query, coder: Coder, found: Found, mode: str, reason: str) -> Hits:
    """Candidates in the order of their scores, ties by id."""
    ids, distances = found
    weights = _weights(scan, query, coder)
    scores = scan.scores_of(*weights, ids).astype(np.float64)
    order = np.lexsort((ids, -scores), axis=1)
    ids, distances, scores = (taken(array, order) for array in (ids, distances, scores))
    return Hits((ids, distances), mode, reason, scores, weights, ids.shape[1] // COMPLETE)


def _within(
    scan: Scan, query: Query, request: Request, coder: Coder, samples: Samples | None, notes: Notes | None
) -> Matches:
    radius = min(int(request.radius or 0), 8 * query.codes.shape[1])
    ids, distances = scan.within(query.codes, radius)
    exact: list[Floats] | None = None
    evidence: list[Evidence] | None = None
    if samples is not None:
        n, means = scan.n_counted, _mean_fractions(query.codes, scan.frequencies())
        evidence = []
        for number, far in enumerate(distances):
            seen = Fractions.of(far[None] / scan.n_bits, means[number : number + 1])
            ranks = np.arange(len(far))[None]
            evidence.append(Evidence(coder, seen, n, False, ranks, sample=samples.by_distance))
    if request.reranks:
        exact = []
        for number, row in enumerate(ids):
            one = Query(query.codes[number : number + 1], None, _one(query, number))
            order, true = reranked(scan, replace(request, k=max(1, len(row))), one, row[None])
            ids[number], distances[number] = row[order[0]], distances[number][order[0]]
            exact.append(true[0])
            if evidence is not None:
                evidence[number] = evidence[number].take(order)
    first = evidence[0] if evidence else None
    doubts = samples.notes if samples is not None and first is not None else ()
    told = _explanation(first, *_work(scan, "hamming", "a radius is searched by a full scan", query, doubts))
    return Matches(ids, distances, exact, Account.of(evidence, told), request.confidence, notes)


def _one(query: Query, number: int) -> NDArray[Any] | None:
    return None if query.vectors is None else query.vectors[number : number + 1]


def reranked(
    scan: Scan, request: Request, query: Query, ids: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Floats]:
    """The k nearest candidates by exact distance, ties by id: which they are, and their distances."""
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
    queries = query.vectors.astype(np.float64).reshape(len(ids), prod(query.vectors.shape[1:]))
    exact = np.empty(ids.shape)
    for number, (vector, row) in enumerate(zip(queries, ids, strict=True)):
        if not len(row):
            continue
        vectors = scan.vectors_of(row) if given is None else given[row]
        difference = vectors.reshape(len(row), vector.size) - vector
        exact[number] = np.sqrt(np.einsum("ij,ij->i", difference, difference))
    scan.tally.add("exact distances", ids.size, ids.size * queries.shape[1] * 4, perf_counter() - start)
    order = np.lexsort((ids, exact), axis=1)[:, : request.k]
    return order, taken(exact, order)


def _account(
    scan: Scan,
    coder: Coder,
    query: Query,
    hits: Hits,
    order: NDArray[np.int64] | None,
    k: int,
    samples: Samples | None,
) -> Account:
    """What the search saw and how it went, from what is kept of it: neither the scan nor what the caller may change."""
    seen: tuple[Any, ...] | None = None
    if samples is not None:
        often, shape = scan.frequencies(), hits.found[0].shape
        if hits.scores is None or hits.weights is None or query.values is None:
            made = partial(_fractions, hits.found[1].copy(), query.codes.copy(), scan.n_bits, often)
            seen = coder, made, scan.n_counted, False, shape, k, order, None, samples.by_distance
        else:
            made = partial(_score_fractions, coder, query.values, hits.weights, hits.scores, often)
            seen = coder, made, scan.n_counted, True, shape, k, order, hits.complete, samples.by_score
    notes = () if samples is None else samples.notes
    return Account(partial(_told, seen, _work(scan, hits.mode, hits.reason, query, notes)))


def _told(seen: tuple[Any, ...] | None, done: tuple[Any, ...]) -> tuple[Evidence | None, Explanation]:
    """Evidence and explanation, from what these functions take."""
    evidence = None if seen is None else _evidence(*seen)
    return evidence, _explanation(evidence, *done)


def _evidence(
    coder: Coder,
    made: Callable[[], tuple[Floats, Floats]],
    n_items: int,
    scored: bool,
    shape: tuple[int, int],
    k: int,
    order: NDArray[np.int64] | None,
    complete: int | None,
    sample: HitSample | None,
) -> Evidence:
    """What there is to estimate from; without an order, the hits are the first of those that were found (q, c)."""
    q, c = shape
    picked = np.arange(min(k, c))[None].repeat(q, axis=0) if order is None else order
    return Evidence(coder, Fractions(made), n_items, scored, picked, complete, sample)


def _fractions(near: NDArray[np.int32], codes: Codes, n_bits: int, often: Floats) -> tuple[Floats, Floats]:
    """Fractions of differing bits, of candidates and of the mean of all items."""
    return near / n_bits, _mean_fractions(codes, often)


def _score_fractions(
    coder: Coder, values: NDArray[np.float32], law: Weights, scores: Floats, often: Floats
) -> tuple[Floats, Floats]:
    """Fractions that scores stand for, of candidates and of the mean score of all items."""
    weights, bias = law
    # Not BLAS's: to wake its threads takes longer than the sums of a few queries.
    mean = (bias + np.einsum("ij,j->i", weights, often))[:, None]
    fractions = score_fractions(coder, values, law, np.hstack([scores, mean]))
    return fractions[:, :-1], fractions[:, -1]


def _mean_fractions(codes: Codes, often: Floats) -> Floats:
    """Mean fraction of differing bits over all items, from how often each bit is 1."""
    bits = np.unpackbits(codes, axis=1, count=len(often), bitorder="little")
    return np.asarray((often.sum() + np.einsum("ij,j->i", bits, 1 - 2 * often)) / len(often))


def _work(scan: Scan, mode: str, reason: str, query: Query, notes: tuple[str, ...]) -> tuple[Any, ...]:
    """How a search went, as :class:`Explanation` takes it."""
    wish = scan.wish
    promise: Promise | None = None
    visits: tuple[Any, ...] = ()
    if wish is not None:
        promise, visits = wish.promise, wish.visits
        notes += wish.told
        if promise is None and all(segment.cells is None for segment in scan.segments):
            notes = (
                *notes,
                f"there are no cells: recall {wish.recall:g} is kept by reading something of all items",
            )
    return mode, reason, len(query.codes), scan.n_items, scan.tally.work, notes, promise, visits


def _explanation(evidence: Evidence | None, *done: Any) -> Explanation:
    """How a search went, and whether intervals rest on no sample."""
    told = Explanation(*done)
    if evidence is None or evidence.sampled:
        return told
    return replace(told, notes=(*told.notes, PER_PAIR if evidence.per_pair else UNSAMPLED))
