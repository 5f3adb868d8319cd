"""What a search gives back: the hits, and what they tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import InvalidInputError, optional
from bilsh.estimates.euclidean import DistanceEstimate, DistanceEvidence
from bilsh.estimates.evidence import Evidence
from bilsh.estimates.intervals import Estimate
from bilsh.forks import cached_property
from bilsh.search.account import NOTHING, Account, Explanation
from bilsh.types import Floats

Notes = Callable[[NDArray[Any]], list[Any]]
"""Gives the metadata of ids."""

COLUMNS = ("query", "rank", "id", "distance", "similarity", "low", "high", "exact")


class Hit(NamedTuple):
    """One hit of one query; what is not known is None."""

    id: Any
    distance: int | float
    similarity: float | None
    interval: tuple[float, float] | None
    exact: float | None


class _Found:
    """What both kinds of answers can do."""

    ids: Any
    distances: Any
    exact: Any
    account: Account
    notes: Notes | None

    @property
    def evidence(self) -> Any:
        """What the search saw of each hit, or None; the ground of `similarity` and `interval`."""
        return self.account.known[0]

    @property
    def explanation(self) -> Explanation | None:
        """See :meth:`explain`."""
        return self.account.known[1]

    @property
    def quantity(self) -> str | None:
        """What `interval` is of: a similarity ("cosine", "kernel"), or "distance"; None without an encoder."""
        raise TypeError(f"{type(self).__name__} does not say what its similarity is.")

    @property
    def similarity(self) -> Any:
        """Estimated similarities."""
        return None

    @property
    def interval(self) -> Any:
        """Intervals of the similarities."""
        return None

    @property
    def per_pair(self) -> bool:
        """Whether intervals are only those of pairs, for want of a sample: too narrow for hits."""
        seen = self.evidence if isinstance(self.evidence, list) else [self.evidence]
        return any(isinstance(one, Evidence) and one.per_pair for one in seen)

    def explain(self) -> Explanation | None:
        """How the search went: mode and why, survivors, bytes and time of each stage. None for plain scans."""
        return self.explanation

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[list[Hit]]:
        return (self.hits(query) for query in range(len(self)))

    @cached_property
    def metadata(self) -> list[list[Any]] | None:
        """Metadata of each query's hits, read from the store when first asked for; None where there is no store."""
        return None if self.notes is None else [self.notes(ids) for ids in self.ids]

    def __getstate__(self) -> dict[str, Any]:
        """Hits travel between processes with their metadata, not with the store that has it."""
        return {**self.__dict__, "notes": None, "metadata": self.metadata}

    def columns(self) -> dict[str, list[Any]]:
        """One entry per hit: query, rank, id, distance, similarity, low, high, exact (None where not known)."""
        table: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        for query, hits in enumerate(self):
            for rank, hit in enumerate(hits, 1):
                ends = hit.interval or (None, None)
                row = (query, rank, hit.id, hit.distance, hit.similarity, *ends, hit.exact)
                for name, value in zip(COLUMNS, row, strict=True):
                    table[name].append(value)
        return table

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame, one row per hit; see :meth:`columns`."""
        return optional("pandas", "A table of hits").DataFrame(self.columns())

    def to_arrow(self) -> Any:
        """Return a pyarrow Table, one row per hit; see :meth:`columns`."""
        return optional("pyarrow", "A table of hits").table(self.columns())

    def show(self, images: Any) -> Any:
        """Show the hits with pictures beside them, in a notebook.

        Parameters
        ----------
        images : array (n, height, width[, 3]), mapping, function, or folder
            Gives the picture of an id: an image, numbers that are drawn as a heat map, or a path. In an array it is
            ``images[id]``, in a folder the file that is called like the id.
        """
        from bilsh.search.notebook import Pictures, Shown

        return Shown(self, Pictures(images))

    def _repr_html_(self) -> str:
        from bilsh.search.notebook import hits_html

        return hits_html(cast("Neighbors | Matches", self), repr(self).partition("\n")[0].strip("<>"))

    def hits(self, query: int) -> list[Hit]:
        """Hits of one query, as a list."""
        n = len(self.ids[query])

        def column(values: Any) -> list[Any]:
            return [None] * n if values is None else values[query].tolist()

        ends = [end and (end[0], end[1]) for end in column(self.interval)]
        columns = (
            self.ids[query].tolist(),
            self.distances[query].tolist(),
            column(self.similarity),
            ends,
            column(self.exact),
        )
        return [Hit(*row) for row in zip(*columns, strict=True)]


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Neighbors(_Found):
    """The k nearest of each query, best first, ties by id.

    Attributes
    ----------
    ids : array (q, k)
        Row numbers, or the ids a store gave to its items: int64, or objects of type str.
    distances : int32 array (q, k)
        Hamming distances: numbers of differing bits. Of EuclideanEncoder's codes: estimated distances, float64.
    exact : float64 array (q, k) or None
        After re-ranking: exact Euclidean distances, by which the hits are ordered then.
    account : Account
        What the search saw of each hit, the ground of `similarity`, `interval` and :meth:`estimate`; and how it went,
        see :meth:`explain`.
    confidence : float
        Of the intervals.
    notes : function of ids, or None
        Gives their metadata; see `metadata`.
    """

    ids: NDArray[Any]
    distances: NDArray[Any]
    exact: Floats | None = None
    account: Account = NOTHING
    confidence: float = 0.95
    notes: Notes | None = None

    def __init__(
        self,
        ids: NDArray[Any],
        distances: NDArray[Any],
        exact: Floats | None = None,
        account: Account = NOTHING,
        confidence: float = 0.95,
        notes: Notes | None = None,
    ) -> None:
        # What a frozen dataclass writes for itself takes three times as long, which a single query notices.
        own = self.__dict__
        own["ids"], own["distances"], own["exact"] = ids, distances, exact
        own["account"], own["confidence"], own["notes"] = account, confidence, notes

    @property
    def evidence(self) -> Evidence | DistanceEvidence | None:
        """What the search saw of each hit, or None; the ground of `similarity`, `interval` and :meth:`estimate`."""
        evidence: Evidence | DistanceEvidence | None = self.account.known[0]
        return evidence

    @property
    def quantity(self) -> str | None:
        """What `interval` is of: the similarity ("cosine" of angle codes, "kernel" of kernel codes), or the "distance".

        Codes of EuclideanEncoder tell distances; of data of length 1 they tell cosines. None where nothing is told.
        """
        return None if self.evidence is None else self.evidence.quantity

    @cached_property
    def _told(self) -> Estimate | DistanceEstimate | None:
        if self.evidence is None:
            return None
        if isinstance(self.evidence, DistanceEvidence):
            return self.evidence.estimate(self.quantity, self.confidence)
        return self.evidence.estimate(self.quantity, self.confidence, identify=False)

    @property
    def similarity(self) -> Floats | None:
        """Estimated similarity (q, k), 1 for identical items, or None where codes tell distances."""
        return None if self._told is None or self.quantity == "distance" else self._told.value

    @property
    def interval(self) -> Floats | None:
        """Lower and upper end (q, k, 2) of each similarity, or of each distance where `quantity` is that."""
        return None if self._told is None else self._told.interval

    def estimate(self, of: str | None = None, confidence: float | None = None) -> Estimate | DistanceEstimate:
        """Say the same in other words.

        Parameters
        ----------
        of : {"angle", "cosine"} for angle codes, {"distance", "kernel"} for kernel codes
            The quantity; by default the similarity. Codes of EuclideanEncoder tell the "distance", with a hard bound;
            of data of length 1 also the "cosine" and the "inner product".
        confidence : float, optional
            Of the intervals; by default that of the search.
        """
        if self.evidence is None:
            raise InvalidInputError(
                "these hits are bare distances: only a search with the encoder that made "
                "the codes can say what they mean."
            )
        return self.evidence.estimate(of or self.quantity, confidence or self.confidence)

    def renamed(self, names: Callable[[NDArray[np.int64]], NDArray[Any]]) -> Neighbors:
        """Return the same hits under the names that their ids have."""
        return replace(self, ids=names(self.ids))

    def without(self, own: NDArray[np.int64], k: int) -> Neighbors:
        """Return the first k hits of each query that are not the item itself."""
        # The item itself goes last, the order of the others stays.
        order = np.argsort(self.ids == own[:, None], axis=1, kind="stable")[
            :, : max(0, min(k, self.ids.shape[1] - 1))
        ]
        evidence = None if self.evidence is None else self.evidence.take(order).without_first()
        return replace(
            self,
            ids=np.take_along_axis(self.ids, order, axis=1),
            distances=np.take_along_axis(self.distances, order, axis=1),
            exact=None if self.exact is None else np.take_along_axis(self.exact, order, axis=1),
            account=Account.of(evidence, self.explanation),
        )

    def __repr__(self) -> str:
        from bilsh.search.notebook import hits_text

        return hits_text(f"Neighbors of {len(self)} queries, {self.ids.shape[1]} each", self)


@dataclass(frozen=True, eq=False, repr=False)
class Matches(_Found):
    """All items within a radius of each query: as :class:`Neighbors`, with a list of q arrays for every array."""

    ids: list[NDArray[Any]]
    distances: list[NDArray[np.int32]]
    exact: list[Floats] | None = None
    account: Account = NOTHING
    confidence: float = 0.95
    notes: Notes | None = None

    @property
    def evidence(self) -> list[Evidence] | None:
        """What the search saw of each query's matches, or None."""
        evidence: list[Evidence] | None = self.account.known[0]
        return evidence

    @property
    def quantity(self) -> str | None:
        """What `similarity` is, see :class:`Neighbors`."""
        return self.evidence[0].quantity if self.evidence else None

    @cached_property
    def _told(self) -> list[Estimate] | None:
        if self.evidence is None:
            return None
        return [
            evidence.estimate(self.quantity, self.confidence, identify=False) for evidence in self.evidence
        ]

    @property
    def similarity(self) -> list[Floats] | None:
        """Estimated similarities of each query's matches."""
        return None if self._told is None else [told.value[0] for told in self._told]

    @property
    def interval(self) -> list[Floats] | None:
        """Lower and upper ends (n, 2) of each query's matches."""
        return None if self._told is None else [told.interval[0] for told in self._told]

    def renamed(self, names: Callable[[NDArray[np.int64]], NDArray[Any]]) -> Matches:
        """Return the same matches under the names that their ids have."""
        return replace(self, ids=[names(ids) for ids in self.ids])

    def without(self, own: NDArray[np.int64], k: int) -> Matches:
        """Return the matches of each query that are not the item itself."""
        others = [np.flatnonzero(ids != item) for ids, item in zip(self.ids, own, strict=True)]

        def taken(arrays: list[Any]) -> list[Any]:
            return [array[keep] for array, keep in zip(arrays, others, strict=True)]

        evidence = self.evidence
        if evidence is not None:
            both = zip(evidence, others, strict=True)
            evidence = [seen.take(keep[None]).without_first() for seen, keep in both]

        return replace(
            self,
            ids=taken(self.ids),
            distances=taken(self.distances),
            exact=None if self.exact is None else taken(self.exact),
            account=Account.of(evidence, self.explanation),
        )

    def __repr__(self) -> str:
        from bilsh.search.notebook import hits_text

        return hits_text(f"Matches of {len(self)} queries, {sum(map(len, self.ids))} in all", self)
