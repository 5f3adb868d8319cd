"""What a search saw of each hit, kept so that any quantity and confidence can be asked for later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bilsh.encoders.calibration import Calibration
from bilsh.encoders.coder import Coder
from bilsh.estimates.intervals import Estimate, estimate_fractions, pair_ends
from bilsh.forks import cached_property
from bilsh.theory.hit_sample import HitSample
from bilsh.theory.hits import EffectiveBits, posterior
from bilsh.theory.sampling import calibrate
from bilsh.types import Floats

FILTERED_SPREAD = 2.0
"""Of the logarithm of the local dimension among the items that a filter leaves: their own distances decide it."""


def taken(array: NDArray[Any], order: NDArray[np.int64]) -> NDArray[Any]:
    """Entries (q, k, ...) of each row of (q, n, ...) that `order` (q, k) names: a fifth of the time of NumPy's own."""
    return array[np.arange(len(order))[:, None], order]


@dataclass(frozen=True, slots=True)
class Samples:
    """What intervals of hits rest on.

    Attributes
    ----------
    by_distance, by_score : HitSample or None
        For hits ranked by distances, and by scores; None where nothing was sampled.
    notes : tuple of str
        What there is to say about them.
    """

    by_distance: HitSample | None
    by_score: HitSample | None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, coder: Coder) -> Self:
        """Return those that were taken at fit."""
        return cls(coder.hits, coder.score_hits)

    def filtered(self, share: float = 1.0) -> Samples:
        """Return them for a search among some items only, which may lie around a query as they like.

        Parameters
        ----------
        share : float
            Bound of the share of the noise that differs between those items: the more alike they are, the less chooses.
        """
        return replace(
            self, by_distance=_among(self.by_distance, share), by_score=_among(self.by_score, share)
        )


def _among(sample: HitSample | None, share: float) -> HitSample | None:
    """What is usual among all items says little of the dimension among a few: one class may be all far away."""
    if sample is None:
        return None
    return replace(sample, spread=max(sample.spread, FILTERED_SPREAD), share=min(sample.share, share))


@dataclass(frozen=True)
class Fractions:
    """Fractions of differing bits, or those that scores stand for; worked out when first looked at.

    Attributes
    ----------
    made : function
        Gives those of the best candidates (q, c), ascending, and the means over all items (q,).
    """

    made: Callable[[], tuple[Floats, Floats]]

    @classmethod
    def of(cls, near: Floats, means: Floats) -> Self:
        """Those that are known already."""
        return cls(lambda: (near, means))

    @cached_property
    def known(self) -> tuple[Floats, Floats]:
        """Of the candidates, and of all items."""
        return self.made()

    def part(self, rows: slice, skip: int = 0) -> Fractions:
        """Those of some queries, without the first candidates."""
        return Fractions(lambda: (self.known[0][rows, skip:], self.known[1][rows]))

    def __reduce__(self) -> Any:
        """Hits travel between processes with what is known, not with how to work it out."""
        return Fractions.of, self.known


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that bears on the hits of q queries; they were chosen for looking near, so more than their distances does.

    Attributes
    ----------
    coder : Coder
    seen : Fractions
        Of the best candidates and of all items.
    n_items : int
        How many were searched.
    scored : bool
        Whether fractions come from scores.
    picked : integer array (q, k)
        Which candidates are the hits, in their order.
    complete : int or None
        How many of the best candidates are certainly, or nearly so, the best of all items; None: all of them.
    sample : HitSample or None
        What a sample told of hits that are ranked this way; None: the model is believed.
    """

    coder: Coder
    seen: Fractions
    n_items: int
    scored: bool
    picked: NDArray[np.int64]
    complete: int | None = None
    sample: HitSample | None = None

    @property
    def fractions(self) -> Floats:
        """Fractions of differing bits (q, c) of the best candidates, or those that their scores stand for."""
        return self.seen.known[0]

    @property
    def calibration(self) -> Calibration:
        """What the codes mean."""
        return self.coder.calibration

    @property
    def quantity(self) -> str:
        """What is told first: the quantity that grows with nearness."""
        return self.calibration.similarity

    @property
    def sampled(self) -> bool:
        """Whether a sample told how hits of this kind err; else the model is believed."""
        return self.sample is not None

    @property
    def _seen(self) -> tuple[Floats, Floats, int, int, EffectiveBits]:
        """What the model looks at besides the fractions of the hits."""
        calibration = self.calibration
        worth = calibration.score_law.effective_bits if self.scored else calibration.effective_bits
        near, mean = self.seen.known
        window = near[:, : self.complete]
        return window, mean, self.n_items, calibration.n_bits, worth

    def learn(self, exact: Floats, base: HitSample | None) -> HitSample:
        """Learn from hits (q, k) whose exact distances or angles are known, on top of what is known already."""
        own = taken(self.fractions, self.picked)
        return calibrate(own, self.calibration.fraction_at(exact), *self._seen, base, by_rank=True)

    @property
    def per_pair(self) -> bool:
        """Whether intervals are those of pairs: nothing was sampled, and the model alone does not hold."""
        return not self.sampled and self.calibration.similarity != "cosine"

    def estimate(self, of: str | None, confidence: float, *, identify: bool = True) -> Estimate:
        """Turn the evidence into a quantity with its interval, and with identification intervals where wanted."""
        if self.per_pair:
            own = taken(np.clip(self.fractions, 0.0, 1.0), self.picked)
            ends = pair_ends(own, self.coder, confidence)
            return estimate_fractions(own, ends, self.coder, of=of, identify=identify)
        # A hit's estimate depends on those before it, not on those behind.
        last = 1 + int(self.picked.max(initial=-1))
        middle, ends = posterior(self.fractions[:, :last], *self._seen, self.sample).answer(confidence)
        middle, ends = taken(middle, self.picked), taken(ends, self.picked)
        return estimate_fractions(middle, ends, self.coder, of=of, identify=identify)

    def take(self, order: NDArray[np.int64]) -> Self:
        """Return the evidence of those hits of each query that `order` names."""
        return replace(self, picked=taken(self.picked, order))

    def without_first(self) -> Self:
        """Return the evidence without the best candidate, which is the query itself."""
        return replace(self, seen=self.seen.part(slice(None), 1), picked=np.maximum(self.picked - 1, 0))
