"""Search by estimated distance, for codes that are not compared by Hamming distance: those of EuclideanEncoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bilsh import _native
from bilsh.codes import Codes, as_codes, check_widths
from bilsh.encoders.coder import NOT_HAMMING
from bilsh.encoders.euclidean_coder import EuclideanCoder
from bilsh.errors import InvalidInputError
from bilsh.estimates.euclidean import DistanceEvidence
from bilsh.search.account import Account, Explanation
from bilsh.search.estimated_promise import EstimatedTrial
from bilsh.search.estimated_visiting import Visitor
from bilsh.search.modes import Query, reranked
from bilsh.search.request import Request
from bilsh.search.results import Neighbors, Notes
from bilsh.search.scan import Found, Ids, Memory, Scan, Segment, Tally, merged
from bilsh.search.wishes import Wish
from bilsh.types import Values
from bilsh.validation import finite_blocks, is_plain, nonfinite_error

UNSAMPLED = "intervals are hard bounds: no sample was taken at fit (few data, or a prefix)"
READS_ALL = "there are no cells: the recall is kept by reading every item"
BY_CODES = "intervals are hard bounds, for both ends are codes; keep vectors, or ask with descriptors, for narrow ones"


FIRST_BYTES = 32
"""Of each code in memory, header included: most rows are told apart by them."""


def by_centre(codes: Codes, coder: EuclideanCoder) -> Ids | None:
    """Order in which rows of a centre lie together, so that a scan looks up many at once; None for as they are."""
    if coder.transform.n_centres == 1:
        return None
    return np.argsort(codes[:, 0], kind="stable")


def estimated_widths(n_bytes: int) -> tuple[int, ...]:
    """Bytes of the slabs of codes in memory."""
    return (FIRST_BYTES, n_bytes - FIRST_BYTES) if n_bytes >= FIRST_BYTES + 16 else (n_bytes,)


def check(request: Request) -> None:
    """Refuse what only Hamming distances can answer."""
    if request.radius is not None:
        raise InvalidInputError(NOT_HAMMING + "A radius in bits has no meaning; ask for the nearest k.")
    if request.mode not in ("auto", "asymmetric"):
        raise InvalidInputError(NOT_HAMMING + f"Leave mode at 'auto'; got {request.mode!r}.")
    if request.candidates is not None and not request.reranks:
        raise InvalidInputError("candidates= says how many are re-ranked: pass rerank=True, or leave it out.")


def query_of(coder: EuclideanCoder, Q: Any, codes: Any, items: Query | None) -> Query:
    """Queries as descriptors: as they are, or what codes stand for; only these have codes."""
    if items is not None:
        codes, Q = (items.codes, None) if items.vectors is None else (None, items.vectors)
    if codes is not None:
        asked = as_codes(codes, "queries")
        check_widths(asked, np.empty((0, coder.n_bytes), dtype=np.uint8), "queries", "codes")
        return Query(asked, None, coder.decode(asked).astype(np.float32))
    X = coder.enter(Q)
    if not is_plain(X):
        blocks = [block for _, block in finite_blocks(X)]
        X = np.concatenate(blocks) if blocks else np.empty((0, coder.n_features), dtype=np.float32)
    none = np.empty((0, coder.n_bytes), dtype=np.uint8)
    return Query(none, None, X.reshape(len(X), *coder.input_shape))


def search(
    segments: Sequence[Segment],
    alive: Sequence[Codes | None],
    query: Query,
    request: Request,
    *,
    coder: EuclideanCoder,
    memory: Memory,
    trial: EstimatedTrial | None = None,
    filtered: bool = False,
    notes: Notes | None = None,
) -> Neighbors:
    """Answer a request: the k smallest estimates of all rows, exactly; or of the cells that a recall below 1 takes.

    Parameters
    ----------
    segments, alive, request, memory
        As in :func:`bilsh.search.modes.search`.
    query : Query
        With descriptors, see :func:`query_of`.
    coder : EuclideanCoder
    trial : EstimatedTrial, optional
        What a promised recall rests on, where there are cells.
    filtered : bool
        Whether rows are left out by a filter.
    notes : function of ids, optional
        Gives their metadata.
    """
    wish = (
        Wish(request.recall, lambda: None, filtered)
        if request.recall is not None and request.recall < 1
        else None
    )
    scan = Scan(segments, alive, coder.n_bits, request.threads, memory, Tally(), None)
    vectors = np.asarray(query.vectors)
    flat = np.ascontiguousarray(vectors.reshape(len(vectors), coder.n_features))
    wanted = min(request.wanted if request.reranks else request.k, max(1, scan.n_items))
    try:
        ids, squares = _smallest(scan, flat, wanted, coder, wish, trial)
    except _native.NonFiniteError:
        raise nonfinite_error(vectors, 0, flat) from None
    far = np.sqrt(np.maximum(squares, 0.0))
    exact = None
    if request.reranks:
        order, exact = reranked(scan, request, query, ids)
        ids, far = (np.take_along_axis(array, order, axis=1) for array in (ids, far))
    own = coder.errors(query.codes) if len(query.codes) else None
    hits = _codes_of(scan, ids, coder.n_bytes)
    # Copied: distances are told when asked for, and the caller may have changed the queries by then.
    evidence = DistanceEvidence(coder, flat.copy(), hits, own, not request.reranks, scan.n_items)
    doubts: tuple[str, ...] = (
        (BY_CODES,) if own is not None else () if coder.angles is not None else (UNSAMPLED,)
    )
    reason = "the smallest estimates of all items: integers first, then those that may be among them exactly"
    if wish is not None:
        doubts += wish.told
        if all(segment.places is None for segment in segments):
            doubts += (READS_ALL,)
        if wish.promise is not None:
            reason = "the smallest estimates of the cells near the query, as many as the recall takes"
    told = Explanation("asymmetric", reason, len(flat), scan.n_items, scan.tally.work, doubts)
    if wish is not None:
        told = replace(told, promise=wish.promise, visits=wish.visits)
    return Neighbors(ids, far, exact, Account.of(evidence, told), request.confidence, notes)


def _smallest(
    scan: Scan,
    queries: Values,
    k: int,
    coder: EuclideanCoder,
    wish: Wish | None,
    trial: EstimatedTrial | None,
) -> Found:
    parts = []
    for part in range(len(scan.segments)):
        visitor = Visitor(scan, part, coder, wish, trial)
        found = visitor.by_cells(queries, k)
        parts.append(visitor.full(queries, k) if found is None else found)
    ids, squares = merged(parts, k, len(queries))
    return ids, squares.astype(np.float64)


def _codes_of(scan: Scan, ids: Ids, n_bytes: int) -> Codes:
    """Codes (q, k, n_bytes) of hits."""
    codes = np.empty((*ids.shape, n_bytes), dtype=np.uint8)
    for segment, rows, here in scan.rows_of(ids):
        if here.any():
            codes[here] = np.hstack([slab[rows[here]] for slab in segment.slabs])
    return codes
