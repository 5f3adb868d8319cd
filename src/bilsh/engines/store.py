"""The embedded store behind the protocol of engines: searches of :class:`bilsh.Store`, with ties by string ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bilsh.codes import Codes
from bilsh.engines import ties
from bilsh.engines.addresses import Address
from bilsh.engines.base import Collection, Found, Ids, Mode
from bilsh.engines.filters import Filter, as_filter
from bilsh.engines.notes import read_note, write_note
from bilsh.engines.spec import Capabilities, CodeSpec
from bilsh.errors import DataNotFoundError, InvalidInputError
from bilsh.search.account import Account
from bilsh.search.results import Matches, Neighbors
from bilsh.store import Store
from bilsh.store.ids import as_names
from bilsh.store.inputs import Rows
from bilsh.store.items import Items
from bilsh.store.manifest import IdKind, VectorKind

NOTES = "engine.json"


class StoreCollection(Collection):
    """A store; `store` is the store itself."""

    def __init__(self, store: Store, mode: Mode, kind: IdKind | None = None) -> None:
        from bilsh import __version__

        self.store, self._mode = store, mode
        self.address, self.spec = str(store.path), CodeSpec(store.coder)
        self._asked_kind = kind
        self._sorted: tuple[int, Ids] | None = None
        self.capabilities = Capabilities("store", __version__)

    @property
    def id_kind(self) -> IdKind | None:
        """Kind of the ids, fixed by the first item where it was not when the store was made."""
        return self.store.id_kind or self._asked_kind

    @property
    def _kind(self) -> IdKind | None:  # type: ignore[override]
        return self.id_kind

    @property
    def keep_vectors(self) -> VectorKind | None:
        """How the store keeps items."""
        return self.store.keep_vectors

    @property
    def version(self) -> int:
        """Number of the version that is seen."""
        return self.store.version

    def _write(self, ids: Ids, codes: Codes, notes: Sequence[bytes] | None) -> None:
        if self.keep_vectors:
            raise InvalidInputError(
                f"{self.address} keeps vectors, which codes alone do not have. Use Store.add, or a store without."
            )
        rows = Rows(self.spec.kept(codes), ids, None, None if notes is None else list(notes))
        self.store._insert(iter([rows]), overwrite=True)

    def _remove(self, ids: Ids) -> int:
        return self.store.delete(ids)

    def _fetch(self, ids: Ids) -> Items:
        where, _ = self.store._now.find(as_names(ids, self._kind))
        return self.store.get(ids[where >= 0]) if (where >= 0).any() else self._nothing()

    def _ordered(self) -> Ids:
        """Ids of the version seen now, ascending."""
        if self._sorted is None or self._sorted[0] != self.store.version:
            self._sorted = self.store.version, np.sort(self.store.ids)
        return self._sorted[1]

    def _page(self, after: Any, size: int) -> Items:
        ids = self._ordered()
        start = 0 if after is None else int(np.searchsorted(ids, after, side="right"))
        page = ids[start : start + size]
        return self.store.get(page) if len(page) else self._nothing()

    def _count(self, where: Filter | None) -> int:
        if where is None or where.ids is None:
            return len(self.store)
        return len(self._fetch(where.ids))

    def _sample(self, rows: int) -> Codes:
        ids = self._ordered()
        chosen = ids[np.linspace(0, len(ids) - 1, min(rows, len(ids))).astype(np.int64)]
        return self.store.get(chosen).codes if len(chosen) else self._nothing().codes

    def _nearest(self, codes: Codes, k: int, where: Filter | None, most: int, exact: bool) -> list[Found]:
        ids = None if where is None else where.ids
        found = self.search(codes=codes, k=k, mode="progressive", delta=0.0, where=ids)
        return list(zip(found.ids, found.distances, strict=True))

    def _within(self, codes: Codes, radius: int, where: Filter | None, most: int) -> list[Found]:
        ids = None if where is None else where.ids
        found = self.search(codes=codes, radius=radius, where=ids)
        return list(zip(found.ids, found.distances, strict=True))

    def search(
        self, Q: Any = None, k: int = 10, *, exact: bool = True, **settings: Any
    ) -> Neighbors | Matches:
        """Find the neighbours of each query, see :meth:`bilsh.Store.search`."""
        if not exact:
            return super().search(Q, k, exact=exact, **settings)
        if isinstance(settings.get("where"), str | bytes | Mapping):
            as_filter(settings["where"], self.id_kind, self.capabilities.filter, "a store")  # refuses it
        found: Neighbors | Matches = self.store.search(Q, k, **settings)
        if self.id_kind != "str" or settings.get("rerank", False) is not False:
            return found
        told = found.explain()
        if isinstance(found, Matches):
            return _sorted_matches(found)
        if told is None or told.mode not in ("hamming", "progressive"):
            return found
        # Strings are ordered by insertion inside: fetch past k until every list's distance grows.
        asked = k
        while found.ids.shape[1] == asked and asked < len(self.store) and _tied(found.distances, k):
            asked *= 2
            found = self.store.search(Q, asked, **settings)
            if isinstance(found, Matches):
                raise InvalidInputError("a search by k gave lists.")
        return _first(found, k)

    def remembered(self, name: str) -> Any:
        """Return what was remembered."""
        return read_note(self.store.path / NOTES, name)

    def remember(self, name: str, value: Any) -> None:
        """Keep a small value in a file beside the segments."""
        write_note(self.store.path / NOTES, name, value)

    def flush(self) -> None:
        """Do nothing: what a store's call returned from is durable."""

    def close(self) -> None:
        """Close the store."""
        self.store.close()


def _tied(distances: Any, k: int) -> bool:
    return bool((distances[:, -1] == distances[:, k - 1]).any())


def _first(found: Neighbors, k: int) -> Neighbors:
    """The first k by (distance, id)."""
    order = np.empty(found.ids.shape, dtype=np.int64)
    for row, (ids, far) in enumerate(zip(found.ids, found.distances, strict=True)):
        by_id = np.argsort(ids, kind="stable")
        order[row] = by_id[np.argsort(far[by_id], kind="stable")]
    order = order[:, :k]
    evidence = None if found.evidence is None else found.evidence.take(order)
    return replace(
        found,
        ids=np.take_along_axis(found.ids, order, axis=1),
        distances=np.take_along_axis(found.distances, order, axis=1),
        account=Account.of(evidence, found.explanation),
    )


def _sorted_matches(found: Matches) -> Matches:
    both = [ties.sorted_hits(ids, far) for ids, far in zip(found.ids, found.distances, strict=True)]
    # Evidence goes by distance, which equal ones share.
    return replace(found, ids=[ids for ids, _ in both], distances=[far for _, far in both])


def create_collection(
    address: Address, spec: CodeSpec, kind: IdKind, keep_vectors: Any = None
) -> StoreCollection:
    """Make an empty store."""
    Path(address.rest).parent.mkdir(parents=True, exist_ok=True)
    return StoreCollection(Store.create(address.rest, spec.coder, keep_vectors=keep_vectors), "a", kind)


def open_collection(address: Address, mode: Mode) -> StoreCollection:
    """Open a store."""
    path = Path(address.rest)
    if not path.exists():
        raise DataNotFoundError(f"there is no store at {path}. Make one with `bilsh encode`.")
    if path.is_dir() and not Store.exists(path):
        raise DataNotFoundError(f"{path} holds no bilsh store. Make one with `bilsh encode`.")
    if not path.is_dir():
        raise InvalidInputError(
            f"{path} is a file; a store is a directory, and a FAISS collection is called faiss:{path}."
        )
    return StoreCollection(Store.open(path, mode), mode)
