"""What a store says of the version it sees: its facts, its items by id, all its items in turn.

Every call takes the version once and answers from it alone, so any number of threads may read one object
while another refreshes or changes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh.codes import BitOrder
from bilsh.encoders.coder import Coder
from bilsh.encoders.file import kind_of
from bilsh.encoders.foreign import ForeignCoder
from bilsh.errors import CorruptEncoderError, InvalidInputError
from bilsh.forks import cached_property
from bilsh.store.files import Directory
from bilsh.store.ids import as_names
from bilsh.store.items import Items, pick, walk
from bilsh.store.manifest import VectorKind
from bilsh.store.segment import Segment
from bilsh.store.snapshot import Snapshot


class View(ABC):
    """An open version of a store, for reading."""

    def __init__(self, directory: Directory, snapshot: Snapshot, recheck: bool) -> None:
        self._path = directory.path
        self._directory: Directory | None = directory
        self._snapshot: Snapshot | None = snapshot
        self._recheck = recheck

    def __len__(self) -> int:
        return self._now.n_alive

    def __repr__(self) -> str:
        now = self._snapshot
        if now is None:
            return f"<bilsh.Store {str(self._path)!r}, closed>"
        return f"<bilsh.Store {str(self._path)!r}, {now.n_alive} items, version {now.version}>"

    def _repr_html_(self) -> str:
        from bilsh.search.notebook import facts_html

        now = self._snapshot
        if now is None:
            return facts_html(f"bilsh.Store {self._path.name}", [("closed", "open it again with Store.open")])
        manifest = now.manifest
        return facts_html(
            f"bilsh.Store {self._path.name}",
            [
                ("items", f"{now.n_alive:,}"),
                (
                    "codes",
                    f"{self.coder.kind}, {manifest.n_bits:,} bits, {-(-manifest.n_bits // 8):,} bytes each",
                ),
                ("data", f"shape {self.coder.input_shape}"),
                ("ids", {"int": "integers", "str": "names"}.get(str(manifest.id_kind), "none yet")),
                ("vectors", manifest.keep_vectors or "not kept"),
                ("version", now.version),
                ("encoder", manifest.fingerprint[:16]),
            ],
        )

    @property
    def _now(self) -> Snapshot:
        """The version seen now; a call that needs it twice keeps it."""
        now = self._snapshot
        if now is None:
            raise self._closed()
        if self._recheck:
            now.distrust()
        return now

    @property
    def _place(self) -> Directory:
        place = self._directory
        if place is None:
            raise self._closed()
        return place

    def _closed(self) -> InvalidInputError:
        return InvalidInputError(f"the store at {self._path} is closed. Open it again with Store.open.")

    @property
    def path(self) -> Path:
        """Directory of the store, as it was called when the store was opened."""
        return self._path

    @property
    def version(self) -> int:
        """Number of the version this object sees."""
        return self._now.version

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the encoder."""
        return self._now.manifest.fingerprint

    @property
    def n_bits(self) -> int:
        """Length of a code."""
        return self._now.manifest.n_bits

    @property
    def id_kind(self) -> Literal["int", "str"] | None:
        """Kind of the ids, fixed by the first add."""
        return self._now.manifest.id_kind

    @property
    def keep_vectors(self) -> VectorKind | None:
        """How vectors are kept, None when they are not."""
        return self._now.manifest.keep_vectors

    @property
    def next_id(self) -> int:
        """Integer that the next item gets when ids are left out."""
        return self._now.next_id

    @property
    def encoder_data(self) -> bytes:
        """Content of the encoder's file, as :meth:`bilsh.KernelEncoder.save` would write it."""
        return self._now.encoder.array("encoder").tobytes()

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Segments of the version this object sees; for search, see :class:`bilsh.store.segment.Segment`."""
        return self._now.segments

    @property
    def loose_segments(self) -> list[tuple[Segment, NDArray[np.int64]]]:
        """Every segment with the ids that the log deletes of it, which nobody has looked up: damage is no hindrance."""
        now, none = self._now, np.empty(0, dtype=np.int64)
        deleted = none if now.followed or not now.tail else now.tail.deleted
        last = now.tail.segment if now.tail else None
        return [(segment, deleted) for segment in now.opened] + ([] if last is None else [(last, none)])

    def get(self, ids: ArrayLike) -> Items:
        """Items by their ids, in the order asked for."""
        now = self._now
        return self._as_given(pick(now, as_names(ids, now.manifest.id_kind, unique=False)))

    def __contains__(self, item: object) -> bool:
        """Whether an id is in the store: ``17 in store``, ``"a.jpg" in store``."""
        now = self._now
        kind = now.manifest.id_kind
        if (
            isinstance(item, bool)
            or not isinstance(item, str if kind == "str" else int | np.integer)
            or kind is None
        ):
            return False
        if isinstance(item, str) and not item:
            return False
        return bool(now.find(as_names([item], kind))[0][0] >= 0)

    @property
    def ids(self) -> NDArray[Any]:
        """Ids of all items, in the order of :meth:`batches`; read anew at every call."""
        found = [items.ids for items in self.batches(65_536)]
        kind = object if self.id_kind == "str" else np.int64
        return np.concatenate(found) if found else np.empty(0, dtype=kind)

    def batches(self, size: int = 4096) -> Iterator[Items]:
        """Walk through all items of the version seen now, at most `size` at a time, in bounded memory."""
        if not isinstance(size, int) or size < 1:
            raise InvalidInputError(f"size must be a positive integer; got {size!r}.")
        return (self._as_given(items) for segment in self.segments for items in walk(segment, size))

    @cached_property
    def _order(self) -> BitOrder | None:
        """Order in which codes that were made elsewhere are kept; to know that there is none, no encoder is made."""
        file = self._now.encoder
        try:
            kind = kind_of(file.array("encoder").tobytes(), file.name)
        except CorruptEncoderError:
            kind = ForeignCoder.kind  # which says what is wrong
        return self.coder.order if kind == ForeignCoder.kind else None

    def _as_given(self, items: Items) -> Items:
        """Items with their codes as they were given."""
        order = self._order
        return items if order is None else replace(items, codes=order.undo(items.codes))

    @property
    @abstractmethod
    def coder(self) -> Coder:
        """What encodes."""

    def external_ids(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """Ids as the caller knows them, for ids of segments: the same integers, or strings behind them."""
        return self._now.external_ids(ids)
