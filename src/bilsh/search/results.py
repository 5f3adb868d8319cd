"""How a search went: the way it took and why, and what each stage read."""

from __future__ import annotations

from dataclasses import dataclass


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
    stages : tuple of Stage
        In order; for a progressive search ``items`` are the survivors.
    """

    mode: str
    reason: str
    n_queries: int
    n_items: int
    stages: tuple[Stage, ...]

    @property
    def bytes_read(self) -> int:
        """Bytes compared in all stages."""
        return sum(stage.bytes for stage in self.stages)

    @property
    def seconds(self) -> float:
        """Time of all stages."""
        return sum(stage.seconds for stage in self.stages)

    def __str__(self) -> str:
        lines = [f"{self.mode}: {self.reason}", f"{self.n_queries} queries, {self.n_items} items"]
        lines += [
            f"  {s.name:<24}{s.items:>14,} items{s.bytes:>18,} bytes{1e3 * s.seconds:>11.3f} ms"
            for s in self.stages
        ]
        return "\n".join(lines)
