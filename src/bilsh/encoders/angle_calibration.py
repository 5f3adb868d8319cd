"""Sign codes: the fraction of differing bits tells the angle (eq. 2)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bilsh.encoders.calibration import Calibration, Weights, signed
from bilsh.theory.scores import ScoreLaw, sign_law
from bilsh.theory.spread import SignSpread
from bilsh.types import Floats, Values

if TYPE_CHECKING:
    from bilsh.encoders.coder import Coder

SHORTEST = 0.1
"""Lengths of projection vectors below are taken for this one; they are rare."""


_FRACTIONS = np.concatenate([np.geomspace(1e-4, 0.02, 16)[:-1], np.linspace(0.02, 0.8, 60)])


class AngleCalibration(Calibration):
    r"""Two codes differ in a fraction theta / pi of their bits (eq. 2).

    Exact for dense projections, approximate for structured ones. Orthogonal vectors in d dimensions repel: the part
    of a bit's mismatch that is quadratic in w has variance sin(theta)^2 / pi^2 and a correlation of
    -d / ((d - 1)(d + 2)) between two of them. Other bits are counted as independent.

    Parameters
    ----------
    coder : AngleCoder
    """

    quantities: ClassVar[tuple[str, ...]] = ("angle", "cosine")
    similarity: ClassVar[str] = "cosine"

    def __init__(self, coder: Coder) -> None:
        super().__init__(coder)
        self._spread: SignSpread | None = getattr(coder, "spread", None)
        own_law = self._spread is not None and not self._spread.angular
        self._law: SignSpread | None = self._spread if own_law else None
        self._pairs = None if self._law is None else coder.projection.pairs_of(coder.outputs)
        self._one_grid = coder.projection.one_grid
        count, d = coder.projection.orthogonal_pairs(coder.outputs)
        self._repulsion = count * d / max((d - 1) * (d + 2), 1)
        lengths = coder.projection.lengths(coder.outputs)
        self._lengths = None if lengths is None else np.maximum(lengths, SHORTEST)

    def primary(self, fraction: Floats) -> Floats:
        """Angle in radians at which the expected fraction is `fraction`."""
        return np.pi * fraction if self._law is None else self._law.angle_at(fraction)

    def fraction_at(self, primary: Floats) -> Floats:
        """Expected fraction of differing bits at an angle."""
        return primary / np.pi if self._law is None else self._law.fraction_at(primary)

    def convert(self, primary: Floats, quantity: str) -> Floats:
        """Angle to the quantity asked for."""
        return np.asarray(np.cos(primary)) if quantity == "cosine" else primary

    def effective_bits(self, fraction: Floats) -> Floats:
        """Independent bits the code is worth where the expected fraction is `fraction`."""
        if self._law is not None and self._pairs is not None:
            return self._law.effective_bits(fraction, self._pairs)
        single = self.n_bits * fraction * (1 - fraction)
        total = single - self._repulsion * np.square(np.sin(np.pi * fraction) / np.pi)
        bits = np.full(fraction.shape, float(self.n_bits))
        return np.asarray(np.divide(self.n_bits * single, total, out=bits, where=total > 0))

    def spread(self, fraction: Floats) -> Floats | None:
        """How far expected fractions of pairs lie from the law."""
        return np.zeros(np.shape(fraction)) if self._spread is None else self._spread.spread_at(fraction)

    @property
    def one_grid(self) -> bool:
        """Whether bits share vectors all over the code, so that longer codes share more."""
        return self._one_grid and self._law is not None

    def score_weights(self, values: Values) -> Weights:
        """Score sum u_r (2 h_r - 1), u over the length of its vector, which the query knows."""
        return signed(values if self._lengths is None else (values / self._lengths).astype(np.float32))

    @cached_property
    def score_law(self) -> ScoreLaw:
        """Law of a query that weighs bits by its projections on unit vectors."""
        return sign_law(_FRACTIONS, self.effective_bits(_FRACTIONS))

    def unrelated_bits(self) -> Floats:
        """Signs of unrelated items are even."""
        return np.full(self.n_bits, 0.5)
