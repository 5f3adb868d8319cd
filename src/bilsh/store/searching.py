"""A version of a store as a search sees it: its segments, and ids between what callers and segments call items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.encoders.coder import Coder
from bilsh.errors import InvalidInputError
from bilsh.estimates.evidence import Samples
from bilsh.search.estimated_promise import EstimatedTrial
from bilsh.search.request import Request
from bilsh.search.scan import Ids, Memory
from bilsh.search.searchable import View
from bilsh.search.trial import Trial
from bilsh.store.ids import as_names
from bilsh.store.items import pick
from bilsh.store.segment import unmapped
from bilsh.store.snapshot import Snapshot
from bilsh.store.trials import read_trial


@dataclass(frozen=True)
class StoreView(View):
    """One version of a store.

    Attributes
    ----------
    snapshot : Snapshot
        The version; all of a search looks at this one.
    measured : Samples or None
        What was measured on the store itself for intervals of hits; None: what was taken at fit holds.
    """

    snapshot: Snapshot | None = None
    measured: Samples | None = None

    @classmethod
    def of(
        cls, snapshot: Snapshot, coder: Coder, memory: Memory, use_map: bool, measured: Samples | None = None
    ) -> StoreView:
        """Mapped segments are read where they lie; where mapping is unwelcome, memory holds one window at a time."""
        segments: list[Any] = list(snapshot.segments)
        if not use_map:
            segments = [window for segment in snapshot.segments for window in unmapped(segment)]
        return cls(segments, coder, memory, snapshot, measured)

    @property
    def samples(self) -> Samples:
        """What intervals of hits rest on."""
        return self.measured or super().samples

    @property
    def _now(self) -> Snapshot:
        if self.snapshot is None:
            raise InvalidInputError("there is no version to look at.")
        return self.snapshot

    def numbers(self, ids: Any) -> tuple[Ids, NDArray[np.bool_]]:
        """Ids as segments have them, and which of them are there."""
        snapshot = self._now
        names = as_names(ids, snapshot.manifest.id_kind, unique=False)
        where, rows = snapshot.find(names)
        numbers = np.full(len(names), -1, dtype=np.int64)
        for place, segment in enumerate(snapshot.segments):
            mine = where == place
            numbers[mine] = segment.ids[rows[mine]]
        return numbers, where >= 0

    @property
    def trial(self) -> Trial | None:
        """What a promised recall rests on, where there are cells."""
        found = self._tried()
        return found if isinstance(found, Trial) else None

    @property
    def estimated_trial(self) -> EstimatedTrial | None:
        """The same for learned codes."""
        found = self._tried()
        return found if isinstance(found, EstimatedTrial) else None

    def _tried(self) -> Trial | EstimatedTrial | None:
        now = self._now
        if now.calibration is None:
            return None
        if now.calibration not in self.memory.trials:
            self.memory.trials[now.calibration] = read_trial(now.calibration, now.files_segments)
        return self.memory.trials[now.calibration]

    @property
    def names_are_numbers(self) -> bool:
        """Whether callers and segments call items the same."""
        return self._now.manifest.id_kind != "str"

    def names(self, numbers: Ids) -> NDArray[Any]:
        """Ids as the caller knows them: the same integers, or the strings behind them."""
        return self._now.external_ids(numbers)

    @property
    def notes(self) -> Callable[[NDArray[Any]], list[Any]] | None:
        """Give the metadata of ids of this version."""
        now = self._now
        return lambda ids: pick(now, as_names(ids, now.manifest.id_kind, unique=False)).metadata

    def check(self, request: Request) -> None:
        """Refuse what a store cannot do."""
        if self._now.manifest.id_kind == "str" and not isinstance(request.rerank, bool | np.bool_):
            raise InvalidInputError(
                "an array to re-rank by is looked up by integer ids; this store has string ids. "
                "Keep the vectors in the store and pass rerank=True."
            )
