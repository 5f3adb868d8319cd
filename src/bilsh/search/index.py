"""Search codes: by Hamming distance, by prefixes, by the query's real phases; re-rank; answer with similarities.

The same code searches a store and codes in memory (:class:`Index`): both are segments, see :mod:`bilsh.search.scan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh.codes import Codes, Neighbors, as_codes, check_widths, slab_widths
from bilsh.encoders.coder import Coder
from bilsh.errors import InvalidInputError, InvalidTypeError
from bilsh.estimates.calibration import AngleCalibration, calibration_of
from bilsh.estimates.intervals import Estimate, estimate_distances, estimate_means
from bilsh.search.asymmetric import mean_weights, score_weights
from bilsh.search.results import Explanation
from bilsh.search.scan import Found, Ids, Scan, Segment, Tally
from bilsh.validation import check_integer, thread_count

__all__ = ["Index", "search_segments"]

Mode = Literal["hamming", "progressive", "asymmetric"]
MODES = ("hamming", "progressive", "asymmetric")
SIMILARITIES = {"kernel": "kernel", "euclidean": "distance", "angle": "angle", "cosine": "cosine"}


class Index:
    """Codes in memory, laid out for search.

    Parameters
    ----------
    codes : uint8 array (n, n_bytes)
        Copied into slabs: a progressive search reads the first of them of every code.
    encoder : fitted encoder, optional
        The encoder that made the codes. Queries are then descriptors, and answers carry similarities. Without it
        queries are codes.
    ids : int64 array (n,), optional
        Distinct ids of the items; row numbers by default.
    vectors : array (n, d) or (n, d_w, d_v), optional
        The descriptors themselves, for re-ranking; not copied.

    Examples
    --------
    >>> import numpy as np
    >>> from bilsh import AngleEncoder, Index
    >>> X = np.random.default_rng(0).normal(size=(500, 8, 8))
    >>> enc = AngleEncoder(n_bits=256, random_state=0).fit(X)
    >>> hits = Index(enc.transform(X), enc).search(X[:2], k=3)
    >>> hits.ids[:, 0].tolist(), hits.similarity[:, 0].tolist()
    ([0, 1], [0.0, 0.0])
    >>> print(hits.explain().reason)
    short codes and few rows are scanned as a whole
    """

    def __init__(
        self,
        codes: ArrayLike,
        encoder: Coder | None = None,
        *,
        ids: ArrayLike | None = None,
        vectors: ArrayLike | None = None,
    ) -> None:
        stored = as_codes(codes, "codes")
        self.encoder = encoder
        self.n_bits = 8 * stored.shape[1]
        if encoder is not None:
            self.n_bits = calibration_of(encoder).n_bits
            if stored.shape[1] != encoder.n_bytes_:
                raise InvalidInputError(
                    f"codes of this encoder have {encoder.n_bytes_} bytes; got {stored.shape[1]}. "
                    "Were they made by another encoder?"
                )
        edges = np.cumsum(slab_widths(stored.shape[1]))[:-1]
        self.slabs = [np.ascontiguousarray(slab) for slab in np.split(stored, edges, axis=1)]
        self.ids = np.arange(len(stored)) if ids is None else _as_ids(ids, len(stored))
        self.alive = None
        self.vectors: NDArray[Any] | None = None
        if vectors is not None:
            kept = np.asarray(vectors)
            if len(kept) != len(stored):
                raise InvalidInputError(f"vectors must be one per code, {len(stored)}; got {len(kept)}.")
            self.vectors = kept.reshape(len(kept), -1)

    def __len__(self) -> int:
        return len(self.ids)

    def search(self, Q: Any, k: int = 10, **settings: Any) -> Neighbors:
        """Search for the neighbours of each query.

        Parameters
        ----------
        Q : array (q, d) or (q, d_w, d_v); codes (q, n_bytes) where the index has no encoder
        k : int
            Neighbours per query; fewer if there are fewer items.
        **settings
            As in :func:`search_segments`: mode, delta, radius, where, candidates, rerank, similarity, confidence,
            n_jobs.

        Returns
        -------
        Neighbors
        """
        return search_segments([self], self.encoder, Q, k, n_bits=self.n_bits, **settings)


def search_segments(
    segments: Sequence[Segment],
    encoder: Coder | None,
    Q: Any,
    k: int = 10,
    *,
    n_bits: int | None = None,
    mode: Mode = "progressive",
    delta: float = 0.01,
    radius: int | None = None,
    where: ArrayLike | Sequence[NDArray[np.bool_]] | None = None,
    candidates: int | None = None,
    rerank: bool | ArrayLike = False,
    similarity: str | None = "auto",
    confidence: float = 0.95,
    n_jobs: int | None = None,
) -> Neighbors:
    r"""Search some segments as one set of items.

    Parameters
    ----------
    segments : sequence of Segment
    encoder : fitted encoder or None
        Without one, queries are codes, and there are no similarities and no asymmetric search.
    Q : array (q, d), (q, d_w, d_v), or codes (q, n_bytes)
        Queries.
    k : int, default=10
        Neighbours per query.
    n_bits : int, optional
        Length of the codes where there is no encoder; all bits of their bytes by default.
    mode : {"progressive", "hamming", "asymmetric"}
        "hamming": full scan, exact. "progressive": a short prefix of every code, longer ones of the survivors; the
        same answer but for misses, see `delta`. It assumes that the bits stand in random order, as those of all
        encoders here do. "asymmetric": ranked by the query's real phases against the stored bits, which finds more
        true neighbours with the same codes.
    delta : float, default=0.01
        Progressive: largest probability to miss any one of the k nearest codes; 0 prunes exactly.
    radius : int, optional
        Find all codes within this Hamming distance instead of k; a full scan.
    where : optional
        Which items to search: an array of ids, or a boolean array over the living items in their order.
    candidates : int, optional
        How many of the nearest by Hamming distance are re-scored (asymmetric mode; by default all items are scored)
        or re-ranked (by default the larger of 100 and 10 k).
    rerank : bool or array, default=False
        Order the candidates by exact Euclidean distance to the query: True with the vectors that are kept beside the
        codes; or an array (n, ...) of vectors, in which ``rerank[id]`` is the vector of an id.
    similarity : {"auto", "kernel", "euclidean", "angle", "cosine"} or None
        What to estimate of each neighbour, with its interval. "auto": the kernel of kernel codes, the angle of
        angle codes, None without an encoder.
    confidence : float, default=0.95
        Of the intervals.
    n_jobs : int, optional
        Threads, as in scikit-learn: None is 1, -1 all cores.

    Returns
    -------
    Neighbors
        `distances` are Hamming distances, after re-ranking exact ones. In asymmetric mode items are in the order of
        their scores, and similarities come from these.
    """
    k = check_integer("k", k, minimum=1)
    if mode not in MODES:
        raise InvalidInputError(f"mode must be one of {', '.join(MODES)}; got {mode!r}.")
    if not 0 <= delta < 1:
        raise InvalidInputError(f"delta must be in [0, 1); got {delta!r}.")
    if mode == "asymmetric" and (encoder is None or radius is not None):
        raise InvalidInputError(
            "an asymmetric search needs the query's phases, hence an encoder, and finds the k best, without radius."
        )
    quantity = _quantity(similarity, encoder)
    queries = as_codes(Q, "queries") if encoder is None else encoder.transform(Q)
    if segments:
        width = sum(slab.shape[1] for slab in segments[0].slabs)
        check_widths(queries, np.empty((0, width), dtype=np.uint8), "queries", "codes")
    bits = calibration_of(encoder).n_bits if encoder is not None else n_bits or 8 * queries.shape[1]
    tally = Tally()
    scan = Scan(segments, _alive(segments, where), bits, thread_count(n_jobs), tally)

    if radius is not None:
        limit = min(check_integer("radius", radius, minimum=0), 8 * queries.shape[1])
        lists = scan.within(queries, limit)
        estimates = [_estimate(far, encoder, confidence, quantity) for far in lists[1]]
        return Neighbors(
            *lists,
            None if quantity is None else [e.value for e in estimates if e],
            None if quantity is None else [e.sampling_interval for e in estimates if e],
            _explanation("hamming", "a radius is searched by a full scan", queries, segments, tally),
        )

    wanted = k if candidates is None else max(k, check_integer("candidates", candidates, minimum=1))
    if candidates is None and rerank is not False:
        wanted = max(100, 10 * k)
    # More than all is all; where there is nothing, the scans still need a number they accept.
    wanted = min(wanted, max(1, sum(len(segment.ids) for segment in segments)))
    phases = encoder.phases(Q) if mode == "asymmetric" and encoder is not None else None
    if phases is not None and encoder is not None:
        found, reason = _asymmetric(scan, encoder, phases, queries, wanted, candidates, delta)
    elif mode == "progressive":
        found, reason = scan.progressive(queries, wanted, delta)
    else:
        found, reason = scan.top_k(queries, wanted), "asked for: the exact answer by a full scan"
    exact = None
    if rerank is not False:
        found, exact = _rerank(scan, rerank, Q, found, k)
    ids, distances = found[0][:, :k], found[1][:, :k]
    told = None
    if quantity is not None and phases is not None and encoder is not None:
        means = scan.scores_of(*mean_weights(encoder, phases), ids)
        told = estimate_means(means, encoder, confidence, of=quantity)
    elif quantity is not None:
        told = _estimate(distances, encoder, confidence, quantity)
    return Neighbors(
        ids,
        distances if exact is None else exact[:, :k],
        None if told is None else told.value,
        None if told is None else told.sampling_interval,
        _explanation(mode, reason, queries, segments, tally),
    )


def _asymmetric(
    scan: Scan,
    encoder: Coder,
    phases: NDArray[np.float32],
    queries: Codes,
    wanted: int,
    candidates: int | None,
    delta: float,
) -> tuple[Found, str]:
    """Best `wanted` by score, and their Hamming distances."""
    start = perf_counter()
    weights, bias = score_weights(encoder, phases)
    scan.tally.add("weights of queries", weights.size, weights.nbytes, perf_counter() - start)
    if candidates is None:
        ids, _ = scan.best_scores(weights, bias, wanted)
        return (ids, scan.distances_of(queries, ids)), "asked for: all items scored"
    (ids, distances), _ = scan.progressive(queries, wanted, delta)
    order = np.lexsort((ids, -scan.scores_of(weights, bias, ids)), axis=1)
    found = np.take_along_axis(ids, order, axis=1), np.take_along_axis(distances, order, axis=1)
    return found, f"asked for: the nearest {wanted} by prefixes scored"


def _rerank(
    scan: Scan, rerank: bool | ArrayLike, Q: Any, found: Found, k: int
) -> tuple[Found, NDArray[np.float64]]:
    """Candidates in the order of their exact distance to the query, ties by id; and these distances."""
    ids, distances = found
    given = None if rerank is True else np.asarray(rerank)
    if given is None and any(segment.vectors is None for segment in scan.segments):
        raise InvalidInputError(
            "rerank=True needs the vectors, which are not kept here. Keep them, or pass rerank=vectors."
        )
    if given is not None and ids.size and (ids.min() < 0 or ids.max() >= len(given)):
        raise InvalidInputError(
            f"rerank must hold the vector of every id, rerank[id]; ids reach {ids.max()}, it has {len(given)} rows."
        )
    start = perf_counter()
    queries = np.asarray(Q, dtype=np.float64).reshape(len(ids), -1)
    exact = np.empty(ids.shape)
    for number, (query, row) in enumerate(zip(queries, ids, strict=True)):
        vectors = scan.vectors_of(row) if given is None else given[row]
        difference = vectors.reshape(len(row), query.size if len(row) else -1) - query
        exact[number] = np.sqrt(np.einsum("ij,ij->i", difference, difference))
    scan.tally.add("exact distances", ids.size, ids.size * queries.shape[1] * 4, perf_counter() - start)
    order = np.lexsort((ids, exact), axis=1)[:, :k]
    return (
        (np.take_along_axis(ids, order, axis=1), np.take_along_axis(distances, order, axis=1)),
        np.take_along_axis(exact, order, axis=1),
    )


def _estimate(
    distances: NDArray[Any], encoder: Coder | None, confidence: float, quantity: str | None
) -> Estimate | None:
    if encoder is None or quantity is None:
        return None
    return estimate_distances(distances, encoder, confidence, of=quantity)


def _quantity(similarity: str | None, encoder: Coder | None) -> str | None:
    """What estimates call the similarity asked for."""
    if similarity is None or (encoder is None and similarity == "auto"):
        return None
    if encoder is None:
        raise InvalidInputError(f"similarity={similarity!r} needs the encoder that made the codes.")
    if similarity == "auto":
        return "angle" if isinstance(calibration_of(encoder), AngleCalibration) else "kernel"
    if similarity not in SIMILARITIES:
        raise InvalidInputError(
            f"similarity must be 'auto', None, or one of {', '.join(SIMILARITIES)}; got {similarity!r}."
        )
    return SIMILARITIES[similarity]


def _alive(
    segments: Sequence[Segment], where: ArrayLike | Sequence[NDArray[np.bool_]] | None
) -> list[Codes | None]:
    """Bitmaps of the rows that live and pass the filter."""
    if where is None:
        return [segment.alive for segment in segments]
    chosen = np.asarray(where)
    if chosen.ndim != 1 or (chosen.dtype.kind not in "iub" and chosen.size):
        raise InvalidTypeError(
            f"where must be ids or one boolean per item; got {chosen.dtype} of shape {chosen.shape}."
        )
    bitmaps: list[Codes | None] = []
    at = 0
    for segment in segments:
        ids = segment.ids
        if segment.alive is None:
            lives = np.ones(len(ids), dtype=np.bool_)
        else:
            lives = np.unpackbits(segment.alive, count=len(ids), bitorder="little").astype(np.bool_)
        if chosen.dtype == np.bool_:
            passes = np.zeros(len(ids), dtype=np.bool_)
            n_living = int(lives.sum())
            part = chosen[at : at + n_living]
            passes[np.flatnonzero(lives)[: len(part)]] = part
            at += n_living
        else:
            passes = lives & np.isin(ids, chosen)
        bitmaps.append(np.packbits(passes, bitorder="little"))
    if chosen.dtype == np.bool_ and len(chosen) != at:
        raise InvalidInputError(f"where has {len(chosen)} booleans, there are {at} items.")
    return bitmaps


def _as_ids(ids: ArrayLike, n: int) -> Ids:
    array = np.asarray(ids)
    if array.dtype.kind not in "iu" or array.shape != (n,):
        raise InvalidInputError(f"ids must be {n} integers; got {array.dtype} of shape {array.shape}.")
    array = array.astype(np.int64)
    if len(np.unique(array)) != n:
        raise InvalidInputError("ids must be distinct; some occur twice.")
    return array


def _explanation(
    mode: str, reason: str, queries: Codes, segments: Sequence[Segment], tally: Tally
) -> Explanation:
    return Explanation(
        mode, reason, len(queries), sum(len(segment.ids) for segment in segments), tally.stages()
    )
