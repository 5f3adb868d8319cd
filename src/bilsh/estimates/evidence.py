"""What a search saw of each hit, kept so that any quantity and confidence can be asked for later."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from bilsh.encoders.calibration import Calibration, Floats
from bilsh.encoders.coder import Coder
from bilsh.estimates.intervals import Estimate, estimate_distances, estimate_means


class Evidence(Protocol):
    """Evidence about hits of one shape."""

    @property
    def calibration(self) -> Calibration:
        """What the codes mean."""

    def estimate(self, of: str | None, confidence: float) -> Estimate:
        """Turn the evidence into a quantity with its interval."""

    def take(self, order: NDArray[np.int64]) -> Self:
        """Return the evidence of those hits of each query that `order` names."""


@dataclass(frozen=True, slots=True)
class DistanceEvidence:
    """Hamming distances."""

    coder: Coder
    distances: NDArray[np.int32]

    @property
    def calibration(self) -> Calibration:
        """What the codes mean."""
        return self.coder.calibration

    def estimate(self, of: str | None, confidence: float) -> Estimate:
        """Turn distances into a quantity with its interval."""
        return estimate_distances(self.distances, self.coder, confidence, of=of)

    def take(self, order: NDArray[np.int64]) -> Self:
        """Return the evidence of those hits of each query that `order` names."""
        return replace(self, distances=np.take_along_axis(self.distances, order, axis=-1))


@dataclass(frozen=True, slots=True)
class MeanEvidence:
    """Means of the query's real values against the stored bits."""

    coder: Coder
    means: Floats

    @property
    def calibration(self) -> Calibration:
        """What the codes mean."""
        return self.coder.calibration

    def estimate(self, of: str | None, confidence: float) -> Estimate:
        """Turn means into a quantity with its interval."""
        return estimate_means(self.means, self.coder, confidence, of=of)

    def take(self, order: NDArray[np.int64]) -> Self:
        """Return the evidence of those hits of each query that `order` names."""
        return replace(self, means=np.take_along_axis(self.means, order, axis=-1))
