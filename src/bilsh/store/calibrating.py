"""What a store knows of itself by measurement, kept beside its codes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bilsh.errors import CorruptStoreError, InvalidInputError
from bilsh.estimates.evidence import Samples
from bilsh.forks import Lock
from bilsh.store.arranging import FEWEST, Arranging, Recall
from bilsh.store.calibration import Intervals, read_intervals, write_intervals
from bilsh.store.care import Care

if TYPE_CHECKING:
    from bilsh.store.searching import StoreView
    from bilsh.store.snapshot import Snapshot
    from bilsh.store.writer import Writer


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What :meth:`bilsh.Store.calibrate` measured; None where it does not apply.

    Attributes
    ----------
    intervals : Intervals or None
        Of hits, where the store keeps its vectors.
    recall : Recall or None
        Of searches by cells, where there are any.
    """

    intervals: Intervals | None
    recall: Recall | None


@dataclass(slots=True)
class Measured:
    """What the file held when it was first asked for, and what is wrong with it; None before.

    A refresh begins another: who still fills this one spoils nothing.
    """

    found: tuple[Intervals | None, str | None] | None = None


class Calibrating(Care, Arranging):
    """What a store knows of itself by measurement."""

    _measured: Measured
    _calibrating: Lock

    @abstractmethod
    def _writing(self) -> Writer:
        """Refuse what is open for reading."""

    @abstractmethod
    def _view(self) -> StoreView:
        """Return what a search sees now."""

    def calibrate(self, queries: Any = None) -> Calibrated:
        """Measure on this store how far its answers can be believed; durable when it returns.

        *Intervals*, where vectors are kept: queries are searched, and the exact distances of their hits compared with
        what the codes told (conformal prediction). From then on intervals of hits cover as they say at every rank, for
        queries like these and whatever the data, as long as the store does not change much. *Recall*, where there are
        cells: how far a search must go for a recall that is promised. :meth:`Neighbors.explain` says what an answer
        rests on. Readers see it when they open the store or refresh.

        Parameters
        ----------
        queries : array (q, d) or (q, d_w, d_v), optional
            Queries like those to come, a few hundred at least, none of them among the items; 1,000 of them are used for
            intervals, 2,000 for recall. Codes where the codes were made elsewhere. By default items of the store, each
            without itself: right where queries are like items.

        Returns
        -------
        Calibrated
        """
        self._writing()
        now, coder = self._now, self.coder
        telling = now.manifest.keep_vectors is not None and coder.tells
        if not telling and not self.n_cells:
            raise InvalidInputError(
                "there is nothing to calibrate. Intervals need vectors (Store.create(path, encoder, "
                "keep_vectors='float32')), a promised recall needs cells (build_cells())."
            )
        intervals = self._calibrate_intervals(now, queries) if telling else None
        return Calibrated(intervals, self._calibrate_recall(queries) if self.n_cells else None)

    def _calibrate_intervals(self, now: Snapshot, queries: Any) -> Intervals:
        from bilsh.store.measuring import QUERIES, measure

        coder = self.coder
        asked = None if queries is None else coder.enter(queries)
        counts = [now.n_alive, *([] if asked is None else [asked.shape[0]])]
        if min(counts) < FEWEST:
            raise InvalidInputError(
                f"intervals are calibrated by at least {FEWEST} items, and as many queries where these are given; "
                f"got {' and '.join(map(str, counts))}."
            )
        rng = np.random.default_rng([now.n_alive, now.manifest.n_bits])
        if asked is not None:
            chosen = asked[np.sort(rng.permutation(asked.shape[0])[:QUERIES])]
            asked = (chosen.toarray() if hasattr(chosen, "toarray") else chosen).reshape(
                -1, *coder.input_shape
            )
        made = measure(self._view(), now, asked, rng)
        with self._calibrating:
            write_intervals(self._place, now.manifest.fingerprint, made)
            self._measured = Measured((made, None))
        return made

    def _samples(self, now: Snapshot, measured: Measured) -> Samples | None:
        """What intervals of hits in a version rest on where that was measured here."""
        found = measured.found
        if found is None:
            try:
                found = read_intervals(self._place, now.manifest.fingerprint), None
            except CorruptStoreError as error:
                found = None, f"intervals are as told at fit: {error}"
            measured.found = found
        intervals, problem = found
        if intervals is not None:
            return intervals.samples(now.n_alive)
        if problem is not None:
            fitted = Samples.of(self.coder)
            return Samples(fitted.by_distance, fitted.by_score, (problem,))
        return None
