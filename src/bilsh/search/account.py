"""How a search went and what it saw, told when asked: most hits are read for their ids alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bilsh.forks import cached_property
from bilsh.search.promise import Promise


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a search, summed over queries and segments.

    Attributes
    ----------
    name : str
        What was done.
    items : int
        (query, item) pairs that were looked at.
    bytes : int
        Bytes compared.
    seconds : float
        Time taken.
    """

    name: str
    items: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a search did; ``print`` it.

    Attributes
    ----------
    mode : str
        The way that was taken: "hamming", "progressive" or "asymmetric".
    reason : str
        Why this one.
    n_queries, n_items : int
        Size of the search.
    work : mapping
        Items, bytes and seconds of each stage by its name; see `stages`.
    notes : tuple of str
        What else there is to know about the answer.
    promise : Promise or None
        What a promised recall rests on, where cells were read.
    visits : sequence of (number of cells, cells read by each query)
        Of each segment that has cells.
    """

    mode: str
    reason: str
    n_queries: int
    n_items: int
    work: Mapping[str, Sequence[float]]
    notes: tuple[str, ...] = ()
    promise: Promise | None = None
    visits: Sequence[tuple[int, NDArray[np.int32]]] = ()

    @property
    def stages(self) -> tuple[Stage, ...]:
        """What was done, in order; for a progressive search ``items`` are the survivors."""
        return tuple(Stage(name, int(i), int(b), s) for name, (i, b, s) in self.work.items())

    @property
    def bytes_read(self) -> int:
        """Bytes compared in all stages."""
        return sum(stage.bytes for stage in self.stages)

    @property
    def seconds(self) -> float:
        """Time of all stages."""
        return sum(stage.seconds for stage in self.stages)

    def _repr_html_(self) -> str:
        from bilsh.search.notebook import explanation_html

        return explanation_html(self)

    def __str__(self) -> str:
        lines = [f"{self.mode}: {self.reason}", f"{self.n_queries} queries, {self.n_items} items"]
        lines += [
            f"  {s.name:<24}{s.items:>14,} items{s.bytes:>18,} bytes{1e3 * s.seconds:>11.3f} ms"
            for s in self.stages
        ]
        lines += [
            f"{read.mean():.1f} of {n_cells:,} cells read per query, on average"
            for n_cells, read in self.visits
        ]
        lines += [str(self.promise)] if self.promise else []
        lines += self.notes
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Account:
    """What a search tells besides its hits; worked out when first looked at.

    Attributes
    ----------
    made : function
        Gives the evidence and the explanation, each of which may be None. Nothing that the caller can change, or that
        later searches change, may be among what it knows.
    """

    made: Callable[[], tuple[Any, Explanation | None]]

    @classmethod
    def of(cls, evidence: Any = None, explanation: Explanation | None = None) -> Self:
        """What is known already."""
        return cls(lambda: (evidence, explanation))

    @cached_property
    def known(self) -> tuple[Any, Explanation | None]:
        """Evidence and explanation."""
        return self.made()

    def __reduce__(self) -> Any:
        """Hits travel between processes with what is known, not with how to work it out."""
        return Account.of, self.known


NOTHING = Account.of()
"""Of plain scans, which tell their hits and nothing else."""
