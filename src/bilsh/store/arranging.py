"""Cells of a store: making them, and measuring what recall they promise."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.encoders.euclidean_coder import EuclideanCoder
from bilsh.errors import InvalidInputError
from bilsh.search.cells import number_of_cells
from bilsh.search.request import Request
from bilsh.search.searchable import Searchable
from bilsh.store.change import Change
from bilsh.store.view import View
from bilsh.types import Progress
from bilsh.validation import thread_count

FEWEST = 100
"""Queries below which a recall would not be told."""


@dataclass(frozen=True, slots=True)
class Recall:
    """What promised recalls rest on.

    Attributes
    ----------
    n_queries : int
    source : {"items", "given"}
        Where the queries come from.
    time : int
        When they were searched, in seconds since 1970.
    """

    n_queries: int
    source: str
    time: int


class Arranging(View, Searchable):
    """What puts the items of a store into cells."""

    _change: Callable[[], AbstractContextManager[Change]]

    @property
    def n_cells(self) -> int:
        """Number of cells that items are in; 0 where there are none."""
        return sum(
            segment.file.sections["centres"].rows for segment in self._now.opened if segment.has("cells")
        )

    def build_cells(
        self,
        n_cells: int | str = "auto",
        *,
        n_jobs: int | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Put all items into cells, so that ``search(recall=...)`` reads only those near a query.

        Everything is rewritten as one segment, in one change: durable when it returns, and without a trace where it is
        interrupted. Items that come later are searched as before, and merged into the cells when they are a quarter as
        many; centres are learned anew when the store has doubled. See docs/cells.md.

        Parameters
        ----------
        n_cells : int or "auto"
            "auto" takes 4 sqrt(n), and makes none for fewer than 10,000 items, which are read as a whole as quickly.
        n_jobs : int or None
            Threads, as in scikit-learn.
        progress : function of (what is done, how much of it, how much there is), optional
            Called now and then.

        Returns
        -------
        int
            Number of cells; 0 where there are too few items, and nothing was changed.
        """
        if isinstance(n_cells, bool) or n_cells is None:
            raise InvalidInputError(f"n_cells must be a number or 'auto'; got {n_cells!r}.")
        if not number_of_cells(n_cells, len(self)) or len(self) < 2:
            return 0
        with self._change() as change:
            return change.build_cells(n_cells, n_jobs=thread_count(n_jobs), progress=progress)

    def _calibrate_recall(self, queries: Any) -> Recall:
        if not self.n_cells:
            raise InvalidInputError(
                "there are no cells whose recall could be measured. Make them with build_cells()."
            )
        asked: NDArray[Any] | None = None
        if queries is not None:
            query = self._view().query(queries, None, None, None, Request(mode="progressive"))
            asked = query.codes
            if isinstance(self.coder, EuclideanCoder):
                asked = np.asarray(query.vectors).reshape(-1, self.coder.n_features)
            if len(asked) < FEWEST:
                raise InvalidInputError(
                    f"queries must be at least {FEWEST}, to tell a recall by them; got {len(asked)}."
                )
        with self._change() as change:
            change.calibrate(asked)
        view = self._view()
        trial = view.estimated_trial if view.trial is None else view.trial
        if trial is None:
            raise InvalidInputError("the cells were merged meanwhile. Calibrate again.")
        return Recall(len(trial), trial.source, trial.time)
