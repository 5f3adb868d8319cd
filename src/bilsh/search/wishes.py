"""A recall that was asked for: what it rests on, where that was worked out before, and for whom it does not hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import Codes
from bilsh.search.cells import EVERYTHING
from bilsh.search.promise import Promise
from bilsh.search.trial import Trial

MOST_ROWS = 0.5
"""Share of the rows beyond which reading all in their order is as quick."""

FILTER_PAIRS = 20_000_000
"""Pairs of queries and rows under one filter from which on a promise for this filter is worked out; about 0.1 s."""

MOST_FILTERS = 64

SIGMAS = 5.0
UNLIKE = 0.65
"""Mean rank among trial queries beyond which a batch of queries is of another kind."""

With = TypeVar("With")


@dataclass(slots=True)
class Wish:
    """A recall that was asked for, what there is to keep it by, and what became of it.

    Attributes
    ----------
    recall : float
        Below 1.
    tried : function
        Gives the trial that is kept with the segment that has cells, or None.
    filtered : bool
        Whether rows are left out by a filter.
    promise : Promise or None
        What the answer rests on, once it was found by cells.
    visits : tuple of (number of cells, cells read by each query)
        What was read of each segment that has cells.
    told : tuple of str
        What else there is to say.
    """

    recall: float
    tried: Callable[[], Trial | None]
    filtered: bool
    promise: Promise | None = None
    visits: tuple[tuple[int, NDArray[np.int32]], ...] = ()
    told: tuple[str, ...] = ()

    @property
    def trial(self) -> Trial | None:
        """What a promise can rest on; looked for where none was worked out before."""
        return self.tried()

    def tell(self, note: str) -> None:
        """Say something once."""
        if note not in self.told:
            self.told += (note,)

    def reads_all(self, known: Promise) -> bool:
        """Whether a promise is kept by reading all rows; told where it is."""
        if known.slack < EVERYTHING and known.rows <= MOST_ROWS:
            return False
        why = f"would read {known.rows:.0%} of the rows" if known.slack < EVERYTHING else "asks for all cells"
        self.tell(f"recall {self.recall:g} {why}: all rows are read")
        return True

    def strange(self, bounds: NDArray[Any], largest: float, rank: float, n_trial: int) -> NDArray[np.int64]:
        """Queries that are not like those of the trial; told where there are any.

        A query that is beyond all trial queries comes from where they come from with probability 1 / (n + 1) at most. A
        batch may be farther as a whole, though no query is.

        Parameters
        ----------
        bounds : array (q,)
            How far each is from everything.
        largest : float
            The farthest query of the trial.
        rank : float
            Mean of the queries' ranks among those of the trial, by how far they are from everything.
        n_trial : int
        """
        spread = (1 / (12 * len(bounds)) + 1 / (12 * max(1, n_trial))) ** 0.5
        unlike = rank > UNLIKE and rank - 0.5 > SIGMAS * spread
        chosen = np.flatnonzero((bounds > largest) | unlike)
        if len(chosen):
            self.tell(
                f"{len(chosen)} of {len(bounds)} queries are farther from everything than those of the calibration: "
                "all rows were read for them. Calibrate with queries of their kind, see calibrate()."
            )
        return chosen


@dataclass(slots=True)
class Kept(Generic[With]):
    """Promises that were worked out for a segment, and what a search needs with them.

    Attributes
    ----------
    promises : by k, target and filter
    pairs : by filter
        Pairs of queries and rows that were scanned under it.
    """

    promises: dict[tuple[int, float, int], tuple[Promise, With]] = field(default_factory=dict)
    pairs: dict[int, int] = field(default_factory=dict)

    def find(
        self,
        wish: Wish,
        alive: Codes | None,
        k: int,
        n_pairs: int,
        make: Callable[[int, bool], tuple[Promise, With]] | None,
    ) -> tuple[Promise, With] | None:
        """What a recall of k neighbours rests on; None, and the reason told, if nothing.

        Parameters
        ----------
        wish : Wish
        alive : bitmap or None
            Rows that count.
        k : int
        n_pairs : int
            Pairs of queries and rows of this search.
        make : callable or None
            From the number of a filter, and whether the neighbours of trial queries are to be looked for anew, to a
            promise; None where there is no trial.
        """
        key = 0
        if wish.filtered and alive is not None:
            key = hash(alive.tobytes()) or 1
        kept = self.promises.get((k, wish.recall, key))
        if kept is not None:
            return kept
        if make is None:
            wish.tell(
                "there is no calibration for these cells: all rows are read. Make one with calibrate()."
            )
            return None
        if key:
            if len(self.pairs) > MOST_FILTERS:
                self.pairs.clear()
            self.pairs[key] = self.pairs.get(key, 0) + n_pairs
            if self.pairs[key] < FILTER_PAIRS:
                wish.tell("few queries do not pay for a calibration of their filter: all rows are read")
                return None
        made = make(key, False)
        if made[0].slack == EVERYTHING and not wish.filtered and alive is not None:
            # Many of the known neighbours may be deleted.
            made = make(key, True)
        if len(self.promises) > MOST_FILTERS:
            self.promises.clear()
        self.promises[k, wish.recall, key] = made
        return made
