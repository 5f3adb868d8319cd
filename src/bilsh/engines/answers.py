"""From an engine's nearest codes to an answer: the same re-scoring, re-ranking and intervals as everywhere.

The engine finds candidates by Hamming distance; their codes come back, and :func:`bilsh.search.modes.answer` does with
them what it does with those of a store. What only all items together tell comes along: how many there are, and how
often each bit is 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import Codes
from bilsh.engines.filters import as_filter
from bilsh.errors import InvalidInputError
from bilsh.search.account import Account
from bilsh.search.frequencies import FILTERED_ROWS, frequencies_in
from bilsh.search.modes import Query, answer
from bilsh.search.request import Request
from bilsh.search.results import Matches, Neighbors
from bilsh.search.scan import Ids, Memory, Scan, Tally
from bilsh.search.searchable import View
from bilsh.store.ids import as_names, as_strings
from bilsh.theory.hits import WINDOW

if TYPE_CHECKING:
    from bilsh.engines.base import Collection


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Candidates:
    """Codes that an engine gave back, as a segment to scan."""

    slabs: list[Codes]
    ids: Ids
    vectors: NDArray[Any] | None
    alive: None = None
    cells: None = None
    places: None = None


@dataclass(slots=True)
class CandidateScan(Scan):
    """A scan of candidates that knows of all items how many they are and how often each bit is 1."""

    population: int
    often: NDArray[np.float64]

    @property
    def n_counted(self) -> int:
        """Rows that were searched, by the engine."""
        return self.population

    def frequencies_of_all(self) -> NDArray[np.float64]:
        """How often each bit is 1 among all items."""
        return self.often


@dataclass(frozen=True)
class CollectionView(View):
    """A collection as one search sees it."""

    collection: Collection | None = None
    exact: bool = True
    table: list[Any] = field(default_factory=list)
    """Ids that numbers stand for, where ids are strings."""

    @classmethod
    def of(cls, collection: Collection, exact: bool) -> CollectionView:
        """Look at a collection."""
        return cls((), collection.spec.coder, Memory(), collection, exact)

    @property
    def _there(self) -> Collection:
        if self.collection is None:
            raise InvalidInputError("there is no collection to look at.")
        return self.collection

    def numbers(self, ids: Any) -> tuple[Ids, NDArray[np.bool_]]:
        """Numbers that stand for ids, and which of these are there."""
        names = as_names(ids, self._there.id_kind, unique=False)
        wanted = names.ints if names.ints is not None else as_strings(names.keys or [])
        found = set(self._there._fetch(np.unique(wanted)).ids.tolist()) if len(wanted) else set()
        return self._numbered(wanted), np.array([item in found for item in wanted.tolist()], dtype=np.bool_)

    def _numbered(self, ids: NDArray[Any]) -> Ids:
        if self.names_are_numbers:
            return ids.astype(np.int64)
        known = {item: number for number, item in enumerate(self.table)}
        for item in ids.tolist():
            if item not in known:
                known[item] = len(self.table)
                self.table.append(item)
        return np.array([known[item] for item in ids.tolist()], dtype=np.int64)

    def names(self, numbers: Ids) -> NDArray[Any]:
        """Ids that numbers stand for."""
        result = np.empty(numbers.size, dtype=object)
        result[:] = [self.table[number] for number in numbers.flat]
        return result.reshape(numbers.shape)

    @property
    def names_are_numbers(self) -> bool:
        """Whether ids are integers."""
        return self._there.id_kind != "str"

    @property
    def notes(self) -> Callable[[NDArray[Any]], list[Any]] | None:
        """Give the metadata of ids."""
        return lambda ids: self._there.get(ids).metadata if len(ids) else []

    def check(self, request: Request) -> None:
        """Refuse what an engine cannot do."""
        engine = self._there.capabilities.engine
        if request.recall is not None and not self.exact:
            raise InvalidInputError(
                f"the approximate index of {engine} promises no recall: leave recall out, or search exactly."
            )
        if request.mode == "asymmetric" and request.candidates is None:
            raise InvalidInputError(
                f"mode='asymmetric' scores every item, and {engine} gives only its nearest. Say how many to score, "
                "candidates=1000, or leave mode at 'auto'."
            )
        if isinstance(request.rerank, np.ndarray) and not self.names_are_numbers:
            raise InvalidInputError(
                "an array to re-rank by is looked up by integer ids; this collection has string ids."
            )

    def _items(self, numbers: Ids, request: Request) -> Query:
        items = self._there.get(numbers if self.names_are_numbers else self.names(numbers))
        codes = self._there.spec.kept(items.codes)
        if items.vectors is None:
            return Query(codes)
        vectors = items.vectors.astype(np.float32).reshape(-1, *self.coder.input_shape)
        return Query.of_descriptors(vectors, self.coder, request)

    def answer(
        self, query: Query, request: Request, where: Any
    ) -> tuple[Neighbors | Matches, tuple[str, ...]]:
        """Let the engine find candidates, and make an answer of them."""
        there = self._there
        able = there.capabilities
        chosen = as_filter(where, there.id_kind, able.filter, able.engine)
        codes = there.spec.given(query.codes)
        most = there._count(chosen)
        if request.radius is not None:
            found = there._within(codes, min(request.radius, there.spec.n_bits), chosen, most)
        else:
            found = there._nearest(codes, wanted(query, request), chosen, most, self.exact)
        listed = [ids for ids, _ in found if len(ids)]
        items = there._fetch(np.unique(np.concatenate(listed))) if listed else there._nothing()
        # Numbers in the order of the ids, strings too, so that ties fall in that order.
        order = np.argsort(items.ids, kind="stable")
        by_number = items.ids[order]
        numbers = by_number.astype(np.int64) if self.names_are_numbers else np.arange(len(order))
        vectors = None if items.vectors is None else items.vectors[order]
        segment = Candidates([there.spec.kept(items.codes[order])], numbers, vectors)
        scan = CandidateScan(
            [segment], [None], there.spec.n_bits, request.threads, Memory(), Tally(), None,
            most, there.frequencies(),
        )  # fmt: skip
        # Of a filter by values nothing is known but how many items pass.
        if chosen is not None and chosen.ids is not None and self.coder.tells:
            some = chosen.ids[:: max(1, len(chosen.ids) // FILTERED_ROWS)]
            sampled = there.spec.kept(there._fetch(some).codes) if len(some) else there._nothing().codes
            scan.filtered, scan.counted = True, frequencies_in(sampled, there.spec.n_bits)
        asked = replace(request, candidates=request.wanted, delta=0.0)
        made = answer(scan, query, asked, self.coder, self.samples_for(where, scan), self.notes)
        if not self.names_are_numbers:
            own = self._numbered(by_number)
            made = made.renamed(lambda rows: own[rows])
        return _explained(made, self, request, scan), ()


def wanted(query: Query, request: Request) -> int:
    """How many candidates the engine is asked for."""
    closer = request.reranks or query.values is not None
    count = request.wanted if closer else request.k
    # Intervals rest on a window of the nearest, which a full scan finds on its way.
    return max(count, WINDOW) if request.mode == "hamming" else count


def _explained(
    made: Neighbors | Matches, view: CollectionView, request: Request, scan: CandidateScan
) -> Neighbors | Matches:
    told = made.explanation
    if told is None:
        return made
    able = view._there.capabilities
    how = "exactly" if view.exact else "by its approximate index, which may miss some"
    reason = f"{able.engine} {able.version} found {scan.n_items} candidates {how}"
    if told.mode in ("auto", "asymmetric"):
        reason += "; they are ordered by the query's real values"
    if request.reranks:
        reason += "; they are ordered by exact distances"
    told = replace(told, reason=reason, n_items=scan.population)
    return replace(made, account=Account.of(made.evidence, told))
