"""What a search saw of each hit, kept so that any quantity and confidence can be asked for later."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bilsh.encoders.calibration import Calibration
from bilsh.encoders.coder import Coder
from bilsh.estimates.intervals import Estimate, estimate_fractions, pair_ends
from bilsh.theory.hits import HitPosterior, posterior
from bilsh.types import Floats


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that bears on the hits of q queries; they were chosen for looking near, so more than their distances does.

    Attributes
    ----------
    coder : Coder
    fractions : array (q, c)
        Fractions of differing bits of the best candidates, or those that their scores stand for; ascending.
    background : array (q,)
        Mean fraction over all items.
    n_items : int
        How many were searched.
    scored : bool
        Whether fractions come from scores.
    picked : integer array (q, k)
        Which candidates are the hits, in their order.
    complete : int or None
        How many of the best candidates are certainly, or nearly so, the best of all items; None: all of them.
    """

    coder: Coder
    fractions: Floats
    background: Floats
    n_items: int
    scored: bool
    picked: NDArray[np.int64]
    complete: int | None = None

    @property
    def calibration(self) -> Calibration:
        """What the codes mean."""
        return self.coder.calibration

    @property
    def sampled(self) -> bool:
        """Whether a sample at fit told how hits of this kind err; else the model is believed."""
        return (self.coder.score_hits if self.scored else self.coder.hits) is not None

    def posterior(self) -> HitPosterior:
        """Where the expected fractions of all candidates lie."""
        calibration = self.calibration
        worth = calibration.score_law.effective_bits if self.scored else calibration.effective_bits
        sample = self.coder.score_hits if self.scored else self.coder.hits
        f = self.fractions
        return posterior(
            f, f[:, : self.complete], self.background, self.n_items, calibration.n_bits, worth, sample
        )

    @property
    def per_pair(self) -> bool:
        """Whether intervals are those of pairs: nothing was sampled, and the model alone does not hold."""
        return not self.sampled and self.calibration.similarity != "cosine"

    def similarity(self, confidence: float) -> tuple[Floats, Floats]:
        """Return the similarity of each hit and its interval, and nothing that costs more."""
        calibration = self.calibration
        middle, ends = self._fractions(confidence)
        low, high = calibration.primary(ends[..., 0]), calibration.primary(ends[..., 1])
        kind = calibration.similarity
        return calibration.convert(calibration.primary(middle), kind), calibration.pair(low, high, kind)

    def estimate(self, of: str | None, confidence: float) -> Estimate:
        """Turn the evidence into a quantity with its interval."""
        return estimate_fractions(*self._fractions(confidence), self.coder, of=of)

    def _fractions(self, confidence: float) -> tuple[Floats, Floats]:
        """Expected fraction (q, k) of differing bits of each hit, and the ends (q, k, 2) of its interval."""
        if self.per_pair:
            own = np.take_along_axis(np.clip(self.fractions, 0.0, 1.0), self.picked, axis=1)
            return own, pair_ends(own, self.coder, confidence)
        middle, ends = self.posterior().answer(confidence)
        return (
            np.take_along_axis(middle, self.picked, axis=1),
            np.take_along_axis(ends, self.picked[..., None], axis=1),
        )

    def take(self, order: NDArray[np.int64]) -> Self:
        """Return the evidence of those hits of each query that `order` names."""
        return replace(self, picked=np.take_along_axis(self.picked, order, axis=1))

    def without_first(self) -> Self:
        """Return the evidence without the best candidate, which is the query itself."""
        return replace(self, fractions=self.fractions[:, 1:], picked=np.maximum(self.picked - 1, 0))
