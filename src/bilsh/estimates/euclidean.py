"""What hits of learned codes tell: distances with a hard bound, and with an interval that holds for hits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import Codes
from bilsh.encoders.euclidean_coder import EuclideanCoder
from bilsh.errors import InvalidInputError
from bilsh.theory.error_angles import distance_at
from bilsh.types import Floats
from bilsh.validation import check_fraction

COPY = 0.975
"""Least share of a code's bound that the error of an item has: steps of bounds are 2.2 % wide."""
NUMBERS_AT_ONCE = 2**24
"""Of decoded descriptors that are compared at a time."""


@dataclass(frozen=True, slots=True)
class DistanceEstimate:
    """Distances, or what follows from them. Every array has the shape of the hits.

    Attributes
    ----------
    quantity : str
        "distance"; for data of length 1 also "cosine" and "inner product".
    value : array (...)
        The quantity.
    interval : array (..., 2)
        Where it lies with the asked confidence, for hits. Where nothing was sampled at fit it is the bound.
    bound : array (..., 2)
        Where it lies for certain.
    code_distance : array (...)
        Distance from the query to what the code stands for.
    error : array (...)
        Largest distance between that and the item; where queries are codes themselves, their own errors are added.
    """

    quantity: str
    value: Floats
    interval: Floats
    bound: Floats
    code_distance: Floats
    error: Floats

    @property
    def distance(self) -> Floats | None:
        """The value, where it is a distance."""
        return self.value if self.quantity == "distance" else None


@dataclass(frozen=True, slots=True)
class DistanceEvidence:
    """Queries and the codes of their hits.

    Attributes
    ----------
    coder : EuclideanCoder
    queries : float32 array (q, d)
    codes : uint8 array (q, k, n_bytes)
    own_errors : array (q,) or None
        Largest distance between each query and the item that it stands for, where queries are codes themselves.
    ranked : bool
        Whether the hits stand in the order of their estimates; they do not after re-ranking.
    n_items : int
        Items among which the hits were found.
    """

    coder: EuclideanCoder
    queries: NDArray[np.float32]
    codes: Codes
    own_errors: Floats | None = None
    ranked: bool = True
    n_items: int = 0

    @property
    def quantity(self) -> str:
        """What is told first: the cosine where the data have length 1, else the distance."""
        return "cosine" if self.coder.unit_norm else "distance"

    @property
    def quantities(self) -> tuple[str, ...]:
        """What these hits tell."""
        return ("distance", "cosine", "inner product") if self.coder.unit_norm else ("distance",)

    def _code_distances(self) -> Floats:
        """Distances (q, k) to what the codes stand for."""
        q, k, width = self.codes.shape
        found = np.empty((q, k))
        step = max(1, NUMBERS_AT_ONCE // max(1, k * self.queries.shape[1]))
        for start in range(0, q, step):
            some = self.codes[start : start + step]
            stand = self.coder.decode(some.reshape(-1, width)).reshape(len(some), k, self.queries.shape[1])
            asked = self.queries[start : start + step, None].astype(np.float64)
            found[start : start + step] = np.sqrt(np.square(asked - stand).sum(axis=2))
        return found

    def estimate(self, of: str | None, confidence: float) -> DistanceEstimate:
        """Turn the evidence into a quantity with its interval."""
        quantity = of or "distance"
        if quantity not in self.quantities:
            hint = "" if self.coder.unit_norm else " Only data of length 1 have cosines and inner products."
            raise InvalidInputError(f"these codes tell {' or '.join(self.quantities)}; got {of!r}.{hint}")
        tail = (1 - check_fraction("confidence", confidence)) / 2
        distance = self._code_distances()
        error = self.coder.errors(self.codes.reshape(-1, self.codes.shape[2])).reshape(distance.shape)
        known = np.isfinite(error)
        value, table = distance, self.coder.angles
        if self.own_errors is not None:
            # Both ends are off, by errors that hardly know of each other; angles were sampled for true queries only.
            own = self.own_errors[:, None]
            both = np.sqrt(distance**2 + error**2 + own**2)
            value, error, table = np.where(np.isfinite(both), both, distance), error + own, None
        bound = np.stack([np.maximum(distance - error, 0.0), distance + error], axis=-1)
        interval = bound
        if table is not None:
            e, tail = np.where(known, error, 0.0), table.tail(tail, self.n_items)
            with np.errstate(divide="ignore"):
                ratios = np.where(e > 0, distance / np.where(e > 0, e, 1.0), np.inf)
            cosine = table.cosine_by_rank if self.ranked else table.cosine
            middle, far, near = (
                distance_at(distance, e, cosine(ratios, level)) for level in (0.5, tail, 1 - tail)
            )
            value = np.where(known, middle, distance)
            # The query itself lies as far from what its code stands for as the error says: that is never ruled out.
            near = np.where((ratios > COPY) & (ratios <= 1), 0.0, near)
            interval = np.where(known[..., None], np.stack([near, far], axis=-1), bound)
        if self.ranked:
            value = never_falling(value)
            interval = np.stack(
                [np.minimum(interval[..., 0], value), np.maximum(interval[..., 1], value)], axis=-1
            )
        if quantity == "distance":
            return DistanceEstimate(quantity, value, interval, bound, distance, error)
        norms = np.ones(len(self.queries))  # of the items that codes stand for
        if self.own_errors is None:
            norms = np.sqrt(np.square(self.queries, dtype=np.float64).sum(axis=1))
        scale = norms if quantity == "cosine" else np.ones_like(norms)

        def turned(far: Floats) -> Floats:
            columns = (slice(None), *[None] * (far.ndim - 1))
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.asarray((norms[columns] ** 2 + 1 - far**2) / (2 * scale[columns]))

        ends = [np.clip(turned(pair)[..., ::-1], -scale_limit(scale, norms), scale_limit(scale, norms))
                for pair in (interval, bound)]  # fmt: skip
        return DistanceEstimate(quantity, turned(value), ends[0], ends[1], distance, error)

    def take(self, order: NDArray[np.int64]) -> Self:
        """Return the evidence of those hits of each query that `order` names."""
        return replace(self, codes=np.take_along_axis(self.codes, order[..., None], axis=1))

    def without_first(self) -> Self:
        """Return the evidence of hits that are not the query itself: nothing else is left."""
        return self


def never_falling(values: Floats) -> Floats:
    """Rows (q, k) of which none falls: half way between the maxima so far and the minima to come.

    What is shown and how it is ordered agree then, though hits are ordered by one number and told from two.
    """
    so_far = np.maximum.accumulate(values, axis=1)
    to_come = np.minimum.accumulate(values[:, ::-1], axis=1)[:, ::-1]
    return np.asarray((so_far + to_come) / 2)


def scale_limit(scale: Floats, norms: Floats) -> Any:
    """The largest inner product, or cosine, that there is (q, 1, 1)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(scale > 0, norms / scale, np.inf)[:, None, None]
