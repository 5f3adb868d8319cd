"""The one `search` that codes in memory and stores on disk both have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh.codes import Codes, as_codes, check_width
from bilsh.encoders.coder import Coder
from bilsh.encoders.euclidean_coder import EuclideanCoder
from bilsh.errors import InvalidInputError, InvalidTypeError
from bilsh.estimates.evidence import Samples
from bilsh.forks import cached_property
from bilsh.search import estimated
from bilsh.search.account import Account
from bilsh.search.estimated_promise import EstimatedTrial
from bilsh.search.modes import Query, answer
from bilsh.search.request import Mode, Request, request_of
from bilsh.search.results import Matches, Neighbors, Notes
from bilsh.search.scan import Ids, Memory, Scan, Segment, Tally
from bilsh.search.trial import Trial
from bilsh.search.wishes import Wish
from bilsh.validation import as_array, gone

if TYPE_CHECKING:
    from bilsh.search.background import Background

VALUES_ELSEWHERE = "query_values are for codes that were made elsewhere; pass descriptors as Q."


@dataclass(frozen=True)
class View:
    """What one search sees, from its first look to its last: a store may change meanwhile.

    Attributes
    ----------
    segments : sequence of Segment
    coder : Coder
        What made the codes, or a stand-in where that is not known.
    memory : Memory
    """

    segments: Sequence[Segment]
    coder: Coder
    memory: Memory = field(default_factory=Memory)

    def numbers(self, ids: Any) -> tuple[Ids, NDArray[np.bool_]]:
        """Ids as segments have them, and which of them are there."""
        wanted = np.asarray(ids)
        if wanted.ndim != 1 or (wanted.dtype.kind not in "iu" and wanted.size):
            raise InvalidTypeError(f"ids must be integers (n,); got {wanted.dtype} of shape {wanted.shape}.")
        numbers, there = wanted.astype(np.int64), np.zeros(len(wanted), dtype=np.bool_)
        for segment in self.segments:
            there |= self.memory.rows_of(segment, numbers)[1]
        return numbers, there

    def names(self, numbers: Ids) -> NDArray[Any]:
        """Ids as the caller knows them."""
        return numbers

    @cached_property
    def alive(self) -> list[Codes | None]:
        """Bitmaps of the rows that live."""
        return [segment.alive for segment in self.segments]

    @cached_property
    def samples(self) -> Samples:
        """What intervals of hits rest on: a sample that was taken at fit."""
        return Samples.of(self.coder)

    def samples_for(self, where: Any, scan: Scan) -> Samples | None:
        """What intervals rest on in a search with a filter, or without; None where codes tell nothing."""
        if not self.coder.tells:
            return None
        return self.samples if where is None else self.samples.filtered(scan.differing_share())

    @property
    def names_are_numbers(self) -> bool:
        """Whether callers and segments call items the same."""
        return True

    @property
    def notes(self) -> Notes | None:
        """Give the metadata of ids, where there is any."""
        return None

    @property
    def trial(self) -> Trial | None:
        """What a promised recall rests on, where there are cells."""
        return None

    @property
    def estimated_trial(self) -> EstimatedTrial | None:
        """The same for learned codes."""
        return None

    def in_row_order(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Booleans of items in the order of rows, given in the order in which the caller knows the items."""
        return chosen

    def check(self, request: Request) -> None:
        """Refuse what cannot be done here."""

    def answer(
        self, query: Query, request: Request, where: Any
    ) -> tuple[Neighbors | Matches, tuple[str, ...]]:
        """Find the neighbours of checked queries, by the ids of segments; and what there is to say of the filter."""
        alive, notes = filtered(self, where)
        if isinstance(self.coder, EuclideanCoder):
            by_cells = request.recall is not None and request.recall < 1
            told = estimated.search(
                self.segments, alive, query, request, coder=self.coder, memory=self.memory,
                trial=self.estimated_trial if by_cells else None, filtered=where is not None, notes=self.notes,
            )  # fmt: skip
            return told, notes
        wish = None
        if request.recall is not None and request.recall < 1:
            wish = Wish(request.recall, lambda: self.trial, where is not None)
        scan = Scan(self.segments, alive, self.coder.n_bits, request.threads, self.memory, Tally(), wish)
        scan.filtered = where is not None
        return answer(scan, query, request, self.coder, self.samples_for(where, scan), self.notes), notes

    def query(
        self, Q: Any, codes: ArrayLike | None, values: ArrayLike | None, numbers: Ids | None, request: Request
    ) -> Query:
        """Read the query: descriptors, ready codes, the values whose signs are bits, or items that are here."""
        if isinstance(self.coder, EuclideanCoder) and values is None:
            items = None if numbers is None else self._stored(numbers)
            return estimated.query_of(self.coder, Q, codes, items)
        if numbers is not None:
            return self._items(numbers, request)
        if values is not None:
            return self._values(values)
        if codes is None and self.coder.kind == "foreign" and getattr(Q, "dtype", None) == np.uint8:
            codes = Q
        if codes is not None:
            asked, order = as_codes(codes, "queries"), self.coder.order
            check_width(asked, self.coder.n_bytes, "queries", "codes")
            return Query(asked if order is None else order.apply(asked))
        return Query.of_descriptors(Q, self.coder, request)

    def _values(self, values: ArrayLike) -> Query:
        """Values as a model gives them, bit r being [value r >= 0]."""
        array, n_bits = np.asarray(values), self.coder.n_bits
        if self.coder.kind != "foreign":
            raise InvalidInputError(VALUES_ELSEWHERE)
        if array.ndim != 2 or array.shape[1] != n_bits or array.dtype.kind not in "fiu":
            raise InvalidInputError(
                f"query_values must be numbers (q, {n_bits}), one per bit; got {array.dtype} of shape {array.shape}."
            )
        if not np.isfinite(array).all():
            raise InvalidInputError("query_values hold NaN or infinity. Remove them first.")
        ordered = self.coder.plan.project(array.astype(np.float32))
        return Query(np.packbits(ordered >= 0, axis=1, bitorder="little"), ordered)

    def _items(self, numbers: Ids, request: Request) -> Query:
        """Items as queries: by their vectors where these are kept, else by their codes."""
        stored = self._stored(numbers)
        if stored.vectors is None:
            return stored
        return Query.of_descriptors(stored.vectors, self.coder, request)

    def _stored(self, numbers: Ids) -> Query:
        """Codes of items, and their vectors where these are kept."""
        codes = np.empty((len(numbers), self.coder.n_bytes), dtype=np.uint8)
        vectors: NDArray[Any] | None = None
        for segment in self.segments:
            rows, here = self.memory.rows_of(segment, numbers)
            if segment.alive is not None:
                here &= (segment.alive[rows // 8] >> (rows % 8).astype(np.uint8) & 1).astype(np.bool_)
            if here.any():
                codes[here] = np.hstack([slab[rows[here]] for slab in segment.slabs])
                kept = segment.vectors
                if kept is not None:
                    chosen = np.asarray(kept[rows[here]])
                    if vectors is None:
                        vectors = np.empty((len(numbers), chosen.shape[1]), dtype=np.float32)
                    vectors[here] = chosen
        return Query(codes, None, None if vectors is None else vectors.reshape(-1, *self.coder.input_shape))


class Searchable(ABC):
    """Anything that has codes to search."""

    @abstractmethod
    def _view(self) -> View:
        """Return what a search sees now."""

    @overload
    def search(
        self, Q: Any = None, k: int = 10, *, codes: ArrayLike | None = None, ids: Any = None,
        query_values: ArrayLike | None = None, mode: Mode = "auto", delta: float = 0.01,
        recall: float | None = None, radius: None = None,
        where: Any = None, candidates: int | None = None, rerank: bool | NDArray[Any] = False,
        confidence: float = 0.95, n_jobs: int | None = None,
    ) -> Neighbors: ...  # fmt: skip
    @overload
    def search(
        self, Q: Any = None, k: int = 10, *, codes: ArrayLike | None = None, ids: Any = None,
        query_values: ArrayLike | None = None, mode: Mode = "auto", delta: float = 0.01,
        recall: float | None = None, radius: int,
        where: Any = None, candidates: int | None = None, rerank: bool | NDArray[Any] = False,
        confidence: float = 0.95, n_jobs: int | None = None,
    ) -> Matches: ...  # fmt: skip
    @gone(
        similarity="hits.similarity is the cosine or the kernel; hits.estimate(of=...) says it in other words."
    )
    def search(
        self,
        Q: Any = None,
        k: int = 10,
        *,
        codes: ArrayLike | None = None,
        ids: Any = None,
        query_values: ArrayLike | None = None,
        mode: Mode = "auto",
        delta: float = 0.01,
        recall: float | None = None,
        radius: int | None = None,
        where: Any = None,
        candidates: int | None = None,
        rerank: bool | NDArray[Any] = False,
        confidence: float = 0.95,
        n_jobs: int | None = None,
    ) -> Neighbors | Matches:
        """Find the neighbours of each query.

        Parameters
        ----------
        Q : array (q, d) or (q, d_w, d_v), optional
            Queries: descriptors; or codes (q, n_bytes) where the codes were made elsewhere.
        k : int, default=10
            Neighbours per query; fewer where there are fewer items.
        codes : uint8 array (q, n_bytes), optional
            Queries that are codes already, instead of `Q`.
        ids : array (q,), optional
            Queries that are items here, instead of `Q`; an item is not among its own neighbours.
        query_values : array (q, n_bits), optional
            Queries that are the real values behind the bits, instead of `Q`, for codes that were made elsewhere: bit r
            is [value r >= 0]. They rank better than their bits.
        mode : {"auto", "hamming", "progressive", "asymmetric"}
            "hamming": full scan, exact. "progressive": a short prefix of every code, longer ones of the survivors; the
            same answer but for misses, see `delta`. "asymmetric": ranked by the query's real values against the stored
            bits, which finds more true neighbours with the same codes. "auto": the nearest by prefixes, then the best
            of them by the query's real values where queries are descriptors. :meth:`Neighbors.explain` tells.
        delta : float, default=0.01
            Prefixes: largest probability to miss any one of the k nearest codes; 0 prunes exactly.
        recall : float, optional
            Find this share of the nearest codes, in expectation, and read no more than that takes: by cells where
            there are any, else by prefixes. 1 is the exact answer. The promise is about the nearest codes that are
            looked for: the k, or the candidates that are re-scored or re-ranked. Without it something of all items is
            read.
        radius : int, optional
            Find all codes within this Hamming distance instead of k; a full scan.
        where : array, optional
            Search only these: ids, or one boolean per living item in their order.
        candidates : int, optional
            How many of the nearest by Hamming distance are re-scored by real values, or re-ranked; by default the
            larger of 100 and 10 k (mode "asymmetric" scores all items).
        rerank : bool or array, default=False
            Order the candidates by exact Euclidean distance to the query: True with the vectors that are kept beside
            the codes; or an array (n, ...) of vectors, in which ``rerank[id]`` is the vector of an id.
        confidence : float, default=0.95
            Of the intervals.
        n_jobs : int, optional
            Threads, as in scikit-learn: None is 1, -1 all cores.

        Returns
        -------
        Neighbors, or Matches where a radius is given
        """
        if (Q is None) + (codes is None) + (ids is None) + (query_values is None) != 3:
            raise InvalidInputError(
                "give one of Q (descriptors), codes=, ids= and query_values=, and only one."
            )
        if rerank is not False and not isinstance(rerank, (bool, np.bool_, np.ndarray)):
            rerank = np.asarray(rerank)
        request = request_of(k, mode, delta, radius, candidates, rerank, confidence, n_jobs, recall)
        view = self._view()
        view.check(request)
        if not view.coder.by_hamming:
            estimated.check(request)
        numbers = None
        if ids is not None:
            numbers, there = view.numbers(ids)
            if not there.all():
                first = np.asarray(ids, dtype=object)[int(np.argmin(there))]
                raise InvalidInputError(
                    f"id {first!r} is not here ({int((~there).sum())} of {len(there)} are not)."
                )
            request = replace(request, k=k + 1)
        found, notes = view.answer(view.query(Q, codes, query_values, numbers, request), request, where)
        if numbers is not None:
            found = found.without(numbers, k)
        if notes and found.explanation is not None:
            told = replace(found.explanation, notes=(*found.explanation.notes, *notes))
            found = replace(found, account=Account.of(found.evidence, told))
        return found if view.names_are_numbers else found.renamed(view.names)

    def background(self, *, pairs: int = 10_000, share: float = 0.9, seed: int = 0) -> Background:
        """Measure how alike random pairs of items are: what a hit must exceed to mean anything.

        Parameters
        ----------
        pairs : int, default=10000
            Random pairs of different items to look at; milliseconds.
        share : float, default=0.9
            Of the pairs that the band holds; as many lie below it as above.
        seed : int
            Of the pairs.

        Returns
        -------
        Background
            Its `stands_out(hits)` tells which hits are surely more alike than random pairs.

        Notes
        -----
        The spread that the noise of the bits adds is taken out, so the band hardly depends on the length of codes.
        Standing out is no proof of kinship: of n items, n (1 - share) / 2 are above the band by chance, and with long
        codes the nearest of them are seen to be. Ask for a larger share where that is too many.

        Examples
        --------
        >>> import numpy as np
        >>> from bilsh import AngleEncoder, Index
        >>> X = np.random.default_rng(0).normal(size=(500, 64))
        >>> X[1] = X[0] + 0.1 * X[1]  # one pair of 500 items is related
        >>> enc = AngleEncoder(n_bits=1024, random_state=0).fit(X)
        >>> index = Index(enc.transform(X), enc)
        >>> index.background(share=0.999).stands_out(index.search(ids=[0], k=3))
        array([[ True, False, False]])
        """
        from bilsh.search.background import background

        view = self._view()
        return background(list(view.segments), view.coder, pairs=pairs, share=share, seed=seed)


class Asked(Searchable):
    """A view as something to search: always the same one, whatever is written meanwhile."""

    def __init__(self, view: View) -> None:
        self._seen = view

    def _view(self) -> View:
        return self._seen


def filtered(view: View, where: Any) -> tuple[Sequence[Codes | None], tuple[str, ...]]:
    """Bitmaps of the rows that live and pass the filter, and what there is to say about it."""
    if where is None:
        return view.alive, ()
    chosen = as_array("where", where)
    by_row = chosen.dtype == np.bool_
    notes: tuple[str, ...] = ()
    if by_row and chosen.ndim != 1:
        raise InvalidTypeError(f"where must be ids or one boolean per item; got shape {chosen.shape}.")
    if by_row:
        chosen = view.in_row_order(chosen)
    else:
        numbers, there = view.numbers(where)
        if not there.all():
            notes = (f"{int((~there).sum())} of the {len(there)} ids of `where` are not here",)
        chosen = numbers[there]
    bitmaps: list[Codes | None] = []
    at = 0
    for segment in view.segments:
        ids = segment.ids
        lives = np.ones(len(ids), dtype=np.bool_)
        if segment.alive is not None:
            lives = np.unpackbits(segment.alive, count=len(ids), bitorder="little").astype(np.bool_)
        if by_row:
            passes = np.zeros(len(ids), dtype=np.bool_)
            n_living = int(lives.sum())
            part = chosen[at : at + n_living]
            passes[np.flatnonzero(lives)[: len(part)]] = part
            at += n_living
        else:
            passes = lives & np.isin(ids, chosen)
        bitmaps.append(np.packbits(passes, bitorder="little"))
    if by_row and len(chosen) != at:
        raise InvalidInputError(f"where has {len(chosen)} booleans, there are {at} items.")
    return bitmaps, notes
