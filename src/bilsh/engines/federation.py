"""Many stores and collections searched as one: each answers for its own items, the answers are merged.

A neighbour lies in one shard and is among that shard's nearest, so the nearest of all are among the nearest of each:
exact shards give an exact answer, and shards that keep a promised recall keep it together.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import Codes
from bilsh.engines import ties
from bilsh.engines.addresses import open_collection
from bilsh.engines.base import Collection, Found, Ids
from bilsh.engines.filters import Filter
from bilsh.engines.spec import Capabilities
from bilsh.engines.store import StoreCollection
from bilsh.errors import IncompatibleCodesError, InvalidInputError
from bilsh.search.results import Matches, Neighbors
from bilsh.store import Store
from bilsh.store.items import Items

T = TypeVar("T")


class Federation(Collection):
    """Stores and collections of one encoder, for reading.

    Parameters
    ----------
    shards : sequence of addresses, stores or collections
        Their ids must differ from each other's.
    threads : int, optional
        Shards asked at a time; by default all.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> for part in range(2):
    ...     with Store.create(f"{folder}/{part}", n_bits=16) as store:
    ...         _ = store.add_codes(np.full((2, 2), part, np.uint8), ids=[10 * part, 10 * part + 1])
    >>> with Federation([f"{folder}/0", f"{folder}/1"]) as both:
    ...     both.search(codes=np.ones((1, 2), np.uint8), k=3).ids.tolist()
    [[10, 11, 0]]
    """

    def __init__(self, shards: Sequence[Any], *, threads: int | None = None) -> None:
        if not shards:
            raise InvalidInputError("a federation needs at least one shard.")
        self._own: list[Collection] = []
        self._mode, self._recall = "r", None
        self.shards: list[Collection] = []
        try:
            for shard in shards:
                self.shards.append(self._opened(shard))
            self._check()
        except BaseException:
            self.close()
            raise
        first = self.shards[0]
        self.spec, self._threads = first.spec, threads or len(self.shards)
        self._kind = next((shard.id_kind for shard in self.shards if shard.id_kind), None)
        self.address = " + ".join(shard.address for shard in self.shards)
        able = [shard.capabilities for shard in self.shards]
        self.capabilities = Capabilities(
            "federation",
            "+".join(sorted({one.engine for one in able})),
            filter=all(one.filter for one in able),
        )

    def _opened(self, shard: Any) -> Collection:
        if isinstance(shard, Collection):
            return shard
        if isinstance(shard, Store):
            return StoreCollection(shard, "r")
        found = open_collection(shard)
        self._own.append(found)
        return found

    def _check(self) -> None:
        first = self.shards[0]
        for shard in self.shards:
            if shard.spec.fingerprint != first.spec.fingerprint:
                raise IncompatibleCodesError(
                    f"{shard.address} holds codes of encoder {shard.spec.fingerprint[:8]}..., {first.address} those of "
                    f"{first.spec.fingerprint[:8]}.... Distances between them mean nothing."
                )
        if len({shard.id_kind for shard in self.shards} - {None}) > 1:
            raise InvalidInputError("some shards have integer ids and some strings. Search them apart.")

    def _each(self, ask: Callable[[Collection], T]) -> list[T]:
        with ThreadPoolExecutor(self._threads) as pool:
            return list(pool.map(ask, self.shards))

    def search(
        self, Q: Any = None, k: int = 10, *, exact: bool = True, **settings: Any
    ) -> Neighbors | Matches:
        """Find the neighbours of each query among all shards, see :meth:`Collection.search`.

        ``recall=`` reaches the stores among them, which then read only as much as it takes.
        """
        asked = copy.copy(self)
        asked._recall = settings.get("recall")
        return super(Federation, asked).search(Q, k, exact=exact, **settings)

    def _nearest(self, codes: Codes, k: int, where: Filter | None, most: int, exact: bool) -> list[Found]:
        def ask(shard: Collection) -> list[Found]:
            if self._recall is not None and isinstance(shard, StoreCollection):
                ids = None if where is None else where.ids
                found = shard.store.search(
                    codes=codes, k=k, mode="progressive", recall=self._recall, where=ids
                )
                return list(zip(found.ids, found.distances, strict=True))
            return shard._nearest(codes, k, where, shard._count(where), exact)

        return [(ids[:k], far[:k]) for ids, far in self._merged(self._each(ask))]

    def _within(self, codes: Codes, radius: int, where: Filter | None, most: int) -> list[Found]:
        return self._merged(
            self._each(lambda shard: shard._within(codes, radius, where, shard._count(where)))
        )

    def _merged(self, lists: list[list[Found]]) -> list[Found]:
        merged = []
        for parts in zip(*lists, strict=True):
            ids = np.concatenate([part[0] for part in parts])
            self._refuse_twice(ids)
            merged.append(ties.sorted_hits(ids, np.concatenate([part[1] for part in parts])))
        return merged

    def _refuse_twice(self, ids: Ids) -> None:
        ordered = np.sort(ids)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        if len(twice):
            raise InvalidInputError(
                f"id {twice[0]!r} is in more than one shard, so it names no single item. Give shards ids of their own."
            )

    def _fetch(self, ids: Ids) -> Items:
        found = self._joined(self._each(lambda shard: shard._fetch(ids)))
        self._refuse_twice(found.ids)
        return found

    def _page(self, after: Any, size: int) -> Items:
        found = self._joined(self._each(lambda shard: shard._page(after, size)))
        order = np.argsort(found.ids, kind="stable")[:size]
        self._refuse_twice(found.ids[order])
        return Items(found.ids[order], found.codes[order], None, [found.metadata[row] for row in order])

    def _joined(self, parts: list[Items]) -> Items:
        parts = [part for part in parts if len(part)] or [self._nothing()]
        notes = [note for part in parts for note in part.metadata]
        ids = np.concatenate([part.ids for part in parts])
        return Items(ids, np.concatenate([part.codes for part in parts]), None, notes)

    def _count(self, where: Filter | None) -> int:
        return sum(self._each(lambda shard: shard._count(where)))

    def _sample(self, rows: int) -> Codes:
        total = max(1, len(self))
        return np.concatenate(
            [shard._sample(max(1, round(rows * len(shard) / total))) for shard in self.shards if len(shard)]
            or [self._nothing().codes]
        )

    def frequencies(self) -> NDArray[np.float64]:
        """How often each bit is 1, in samples of all shards."""
        sizes = np.array([len(shard) for shard in self.shards], dtype=np.float64)
        if not sizes.sum():
            return np.full(self.spec.n_bits, 0.5)
        return np.asarray(np.average([shard.frequencies() for shard in self.shards], axis=0, weights=sizes))

    def remembered(self, name: str) -> Any:
        """Return nothing: a federation keeps nothing of its own."""
        return None

    def _write(self, ids: Ids, codes: Codes, notes: Sequence[bytes] | None) -> None:
        self._refuse_reading()

    def _remove(self, ids: Ids) -> int:
        self._refuse_reading()
        return 0

    def _refuse_reading(self) -> None:
        raise InvalidInputError("a federation is read; change its shards one by one.")

    def remember(self, name: str, value: Any) -> None:
        """Refuse it: a federation keeps nothing of its own."""
        self._refuse_reading()

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Close what was opened here; stores and collections that were given stay open."""
        for shard in self._own:
            shard.close()
