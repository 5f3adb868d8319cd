"""How a quantity that was measured at some sizes goes on beyond them: by known terms with fitted weights.

What grows how is known from what is done: a scan reads every item, cells compare all items with 4 sqrt(n) centres, a
store writes rows again when it merges segments. How much each of these costs is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log, sqrt

import numpy as np
from scipy.optimize import nnls

from bilsh.store.manifest import SegmentRef
from bilsh.store.merge import MAX_SEGMENTS, to_merge

MOST_BATCHES = 1 << 14


@lru_cache
def rows_written(batches: int) -> int:
    """How many batches a store writes when so many are added one by one: each once, and those that are merged again."""
    if batches > MOST_BATCHES:
        # Each row is merged O(log n) times, see to_merge.
        again = rows_written(MOST_BATCHES) / MOST_BATCHES - 1
        return round(batches * (1 + again * log(batches) / log(MOST_BATCHES)))
    segments: list[int] = []
    written = 0
    for _ in range(batches):
        segments.append(1)
        written += 1
        if len(segments) > MAX_SEGMENTS:
            merged = to_merge([SegmentRef("", 0, "", rows, 0, None) for rows in segments])
            total = sum(segments[i] for i in merged)
            segments = [rows for i, rows in enumerate(segments) if i not in merged] + [total]
            written += total
    return written


def _written(items: float, batch: int) -> float:
    """Rows that a store writes; between whole batches it is taken to be straight."""
    whole, rest = divmod(items / batch, 1)
    return batch * ((1 - rest) * rows_written(int(whole)) + rest * rows_written(int(whole) + 1))


TERMS: dict[str, Callable[[float, int], float]] = {
    "once": lambda items, batch: 1.0,
    "centres": lambda items, batch: sqrt(items),
    "items": lambda items, batch: float(items),
    "items x centres": lambda items, batch: items * sqrt(items),
    "rows written": _written,
}
"""What a quantity can be a sum of, as functions of the number of items and of those in a batch."""


@dataclass(frozen=True, slots=True)
class Growth:
    """A quantity that grows with the number of items, as it was measured at some sizes.

    A sum of terms is fitted to the measurements, no weight below nothing, all with the same relative error. The curve
    goes through the measurements: what they are above or below the sum goes over from one to the next, and stays as it
    is at the largest from there on. So a cache that small samples fit into does not tell how large ones grow.

    Attributes
    ----------
    sizes : tuple of int, ascending
    values : tuple of float
    terms : tuple of str
        Names in :data:`TERMS`.
    batch : int
        Items that are added at once, for terms that depend on it.
    """

    sizes: tuple[int, ...]
    values: tuple[float, ...]
    terms: tuple[str, ...]
    batch: int = 1

    @classmethod
    def through(
        cls, sizes: Sequence[int], values: Sequence[float], terms: Sequence[str], batch: int = 1
    ) -> Growth:
        """Measurements as they are; one that was less than that of fewer items was so by chance."""
        return cls(tuple(sizes), tuple(np.maximum.accumulate(values).tolist()), tuple(terms), batch)

    def _terms(self, items: float) -> list[float]:
        return [TERMS[name](items, self.batch) for name in self.terms]

    def weights(self) -> list[float]:
        """Weights of the terms."""
        table = np.array([self._terms(size) for size in self.sizes]) / np.array(self.values)[:, None]
        scale = table.max(axis=0)
        found: list[float] = (nnls(table / scale, np.ones(len(self.sizes)))[0] / scale).tolist()
        return found

    def at(self, items: float) -> float:
        """Value for so many items."""
        weights = self.weights()

        def fitted(size: float) -> float:
            return float(np.dot(weights, self._terms(size)))

        ratios = [log(value / fitted(size)) for size, value in zip(self.sizes, self.values, strict=True)]
        ratio = np.interp(log(items), np.log(self.sizes), ratios)
        return fitted(items) * float(np.exp(ratio))
