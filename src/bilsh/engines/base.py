"""What every engine is asked and can do: the protocol that one conformance suite holds all of them to.

Codes go in and come out as the caller has them, ids are integers or strings, distances are numbers of differing bits,
ties fall in the order of ids (strings: of their UTF-8 bytes), short lists stay short.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import Codes
from bilsh.encoders.coder import Coder
from bilsh.engines import ties
from bilsh.engines.answers import Candidates, CollectionView
from bilsh.engines.filters import Filter
from bilsh.engines.spec import Capabilities, CodeSpec
from bilsh.errors import InvalidInputError
from bilsh.search.background import Background, background
from bilsh.search.frequencies import frequencies_in
from bilsh.search.results import Matches, Neighbors
from bilsh.search.searchable import Asked
from bilsh.store.ids import Names, as_names, as_strings
from bilsh.store.inputs import as_codes, as_metadata
from bilsh.store.items import Items
from bilsh.store.manifest import IdKind, VectorKind

Found = tuple[NDArray[Any], NDArray[np.int32]]
"""Ids and distances of one query, best first."""

Ids = NDArray[Any]
Mode = Literal["r", "a"]
SAMPLE_ROWS = 1000
"""Rows from which the frequencies of bits are taken."""


class Collection(ABC):
    """Codes with their ids in an engine; open one with :func:`bilsh.open`, make one with :func:`bilsh.engines.create`.

    Attributes
    ----------
    address : str
        As it was opened, without passwords.
    spec : CodeSpec
    capabilities : Capabilities
    """

    address: str
    spec: CodeSpec
    capabilities: Capabilities
    _kind: IdKind | None
    _mode: Mode = "a"
    _often: NDArray[np.float64] | None = None

    # -- what engines implement --------------------------------------------------------------------------

    @abstractmethod
    def _write(self, ids: Ids, codes: Codes, notes: Sequence[bytes] | None) -> None:
        """Insert rows, replacing those of the same ids."""

    @abstractmethod
    def _remove(self, ids: Ids) -> int:
        """Delete rows of distinct ids; how many there were."""

    @abstractmethod
    def _fetch(self, ids: Ids) -> Items:
        """Rows of distinct ids, in any order; those that are not there are left out."""

    @abstractmethod
    def _page(self, after: Any, size: int) -> Items:
        """The first `size` rows beyond id `after`, ordered by id."""

    @abstractmethod
    def _nearest(self, codes: Codes, k: int, where: Filter | None, most: int, exact: bool) -> list[Found]:
        """The nearest k of each query, among `most` rows that pass the filter."""

    @abstractmethod
    def _within(self, codes: Codes, radius: int, where: Filter | None, most: int) -> list[Found]:
        """All rows within a radius of each query, among `most` that pass the filter."""

    @abstractmethod
    def _count(self, where: Filter | None) -> int:
        """How many rows there are, or pass a filter."""

    @abstractmethod
    def _sample(self, rows: int) -> Codes:
        """About so many codes, spread over the collection; all where there are fewer."""

    @abstractmethod
    def remembered(self, name: str) -> Any:
        """Return what was remembered under a name, a JSON value; None for nothing. See :meth:`remember`."""

    @abstractmethod
    def remember(self, name: str, value: Any) -> None:
        """Keep a small JSON value beside the codes, durably; None forgets it. Copies keep their place so."""

    @abstractmethod
    def flush(self) -> None:
        """Return when all that was written is durable and visible to others."""

    @abstractmethod
    def close(self) -> None:
        """Give connections and memory back; what was not flushed may be lost."""

    def build_index(self, **params: Any) -> None:
        """Build the engine's approximate index, for ``search(exact=False)``. Nothing does so unasked."""
        raise InvalidInputError(
            f"{self.capabilities.engine} has no approximate index for codes here; its searches are exact."
        )

    def stored_bytes(self) -> int | None:
        """Bytes of storage that a server says it has for the collection; None where it does not say."""
        return None

    # -- what all of them have ---------------------------------------------------------------------------

    @property
    def id_kind(self) -> IdKind | None:
        """Kind of the ids; None for an embedded store before its first item."""
        return self._kind

    @property
    def keep_vectors(self) -> VectorKind | None:
        """How items are kept beside their codes; None where they are not, as in every engine but the store."""
        return None

    @property
    def coder(self) -> Coder:
        """What made the codes, or stands in for it."""
        return self.spec.coder

    @property
    def n_bits(self) -> int:
        """Length of a code."""
        return self.spec.n_bits

    @property
    def path(self) -> str:
        """The address, for messages."""
        return self.address

    @property
    def version(self) -> int | None:
        """Number of the version that is seen; None where the engine has none that would tell."""
        return None

    def upsert(
        self,
        ids: Any,
        codes: Any,
        *,
        metadata: Any = None,
        token: str | None = None,
        fingerprint: str | None = None,
    ) -> int:
        """Insert codes, replacing those of the same ids. Doing it twice is doing it once.

        Parameters
        ----------
        ids : (n,) integers or strings, each once
        codes : uint8 (n, ceil(n_bits / 8))
        metadata : sequence of n JSON values, optional
        token : str, optional
            Name of the batch: one that was written already is passed over.
        fingerprint : str, optional
            Of the encoder that made the codes, or "unchecked"; collections of codes that were made elsewhere need none.

        Returns
        -------
        int
            Rows written.
        """
        self._refuse_reading()
        names = as_names(ids, self._kind)
        rows = as_codes(codes, self.spec.n_bits)
        notes = as_metadata(metadata)
        for what, length in (("codes", len(rows)), ("metadata", len(names) if notes is None else len(notes))):
            if length != len(names):
                raise InvalidInputError(f"there are {len(names)} ids and {length} {what}. Give one for each.")
        self.spec.refuse(fingerprint)
        if not len(names) or (token is not None and self.remembered(f"token {token}")):
            return 0
        self._often = None
        given = external(names)
        step = len(names)
        if self.capabilities.max_batch_bytes is not None:
            step = max(1, self.capabilities.max_batch_bytes // self.spec.n_bytes)
        for start in range(0, len(names), step):
            part = slice(start, start + step)
            self._write(given[part], rows[part], None if notes is None else notes[part])
        if token is not None:
            self.flush()
            self.remember(f"token {token}", True)
        return len(names)

    def delete(self, ids: Any) -> int:
        """Delete items; ids that are not there are passed over. Return how many were deleted."""
        self._refuse_reading()
        names = external(as_names(ids, self._kind, unique=False))
        self._often = None
        return self._remove(np.unique(names)) if len(names) else 0

    def get(self, ids: Any) -> Items:
        """Items by their ids, in the order asked for."""
        wanted = external(as_names(ids, self._kind, unique=False))
        found = self._fetch(np.unique(wanted)) if len(wanted) else self._nothing()
        place = {item: row for row, item in enumerate(found.ids.tolist())}
        missing = [item for item in wanted.tolist() if item not in place]
        if missing:
            count = (
                f" ({len(missing)} of the {len(wanted)} ids asked for are missing)" if len(wanted) > 1 else ""
            )
            raise InvalidInputError(f"id {missing[0]!r} is not in {self.address}{count}.")
        rows = np.array([place[item] for item in wanted.tolist()], dtype=np.int64)
        vectors = None if found.vectors is None else found.vectors[rows]
        return Items(wanted, found.codes[rows], vectors, [found.metadata[row] for row in rows])

    def batches(self, size: int = 4096, *, after: Any = None) -> Iterator[Items]:
        """Walk through all items in the order of their ids, at most `size` at a time.

        Parameters
        ----------
        size : int
        after : id, optional
            Begin behind this id.
        """
        if not isinstance(size, int) or size < 1:
            raise InvalidInputError(f"size must be a positive integer; got {size!r}.")
        while len(items := self._page(after, size)):
            yield items
            after = items.ids[-1] if isinstance(items.ids[-1], str) else int(items.ids[-1])

    def search(
        self, Q: Any = None, k: int = 10, *, exact: bool = True, **settings: Any
    ) -> Neighbors | Matches:
        """Find the neighbours of each query.

        Parameters
        ----------
        Q, k
            As in :meth:`bilsh.Store.search`.
        exact : bool, default=True
            False asks the engine's approximate index, see :meth:`build_index`.
        **settings
            ``codes``, ``ids``, ``query_values``, ``mode``, ``radius``, ``candidates``, ``rerank``, ``confidence`` and
            ``n_jobs`` as in :meth:`bilsh.Store.search`. ``where``: ids; or, where the engine filters, a dict of values
            that the metadata must have. Mode "asymmetric" needs ``candidates``: an engine gives its nearest, not all.
        """
        if not exact and not self.capabilities.approximate:
            raise InvalidInputError(
                f"{self.capabilities.engine} has no approximate index for these codes. Leave exact=False out."
            )
        found: Neighbors | Matches = Asked(CollectionView.of(self, exact)).search(Q, k, **settings)
        return found

    def background(self, *, pairs: int = 10_000, share: float = 0.9, seed: int = 0) -> Background:
        """Measure how alike random pairs of items are; see :meth:`bilsh.Store.background`."""
        codes = self.spec.kept(self._sample(SAMPLE_ROWS))
        some: list[Any] = [Candidates([codes], np.arange(len(codes)), None)]
        return background(some, self.coder, pairs=pairs, share=share, seed=seed)

    def frequencies(self) -> NDArray[np.float64]:
        """How often each bit is 1, in a sample of the items; taken once."""
        if self._often is None:
            self._often = frequencies_in(self.spec.kept(self._sample(SAMPLE_ROWS)), self.spec.n_bits)
        return self._often

    def __len__(self) -> int:
        return self._count(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._mode == "a":
                self.flush()
        finally:
            self.close()

    def __repr__(self) -> str:
        return f"<bilsh.engines.Collection {self.address!r}, {self.spec.n_bits} bits>"

    def _refuse_reading(self) -> None:
        if self._mode == "r":
            raise InvalidInputError(
                f"{self.address} is open for reading. Open it with bilsh.open(address, mode='a') to change it."
            )

    def _nothing(self) -> Items:
        kind = np.int64 if self._kind != "str" else object
        return Items(np.empty(0, dtype=kind), np.empty((0, self.spec.n_bytes), np.uint8), None, [])


class Unordered(Collection):
    """An engine that gives its nearest with ties in any order, and nothing by a radius."""

    @abstractmethod
    def _lists(self, where: Filter | None) -> ties.Fetch:
        """What gives the nearest so many of each query."""

    def _nearest(self, codes: Codes, k: int, where: Filter | None, most: int, exact: bool) -> list[Found]:
        return ties.nearest(self._lists(where), codes, k, most)

    def _within(self, codes: Codes, radius: int, where: Filter | None, most: int) -> list[Found]:
        return ties.within(self._lists(where), codes, radius, most)


def external(names: Names) -> Ids:
    """Checked ids as callers have them: int64, or objects of type str."""
    return names.ints if names.ints is not None else as_strings(names.keys or [])


def as_ids(values: Sequence[Any], kind: IdKind | None) -> Ids:
    """Ids that an engine gave back, as an array of the right kind."""
    if kind != "str":
        return np.asarray(values, dtype=np.int64)
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result


def parsed(note: str | bytes | None) -> Any:
    """Metadata from its JSON text; None for nothing."""
    return json.loads(note) if note else None
