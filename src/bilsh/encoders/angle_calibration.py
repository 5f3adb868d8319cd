"""Sign codes: the fraction of differing bits tells the angle (eq. 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bilsh.encoders.calibration import Calibration, Floats, Values, Weights, signed

if TYPE_CHECKING:
    from bilsh.encoders.coder import Coder

SHORTEST = 0.1
"""Lengths of projection vectors below are taken for this one; they are rare."""


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
        count, d = coder.projection.orthogonal_pairs(coder.outputs)
        self._repulsion = count * d / max((d - 1) * (d + 2), 1)
        lengths = coder.projection.lengths(coder.outputs)
        # Real projections weigh bits by the lengths of their vectors: fewer count.
        self._spread = 1.0 if lengths is None else float(np.square(lengths).mean() / lengths.mean() ** 2)
        self._lengths = None if lengths is None else np.maximum(lengths, SHORTEST)

    def primary(self, fraction: Floats) -> Floats:
        """Angle in radians at which the expected fraction is `fraction`."""
        return np.pi * fraction

    def fraction_at(self, primary: Floats) -> Floats:
        """Expected fraction of differing bits at an angle."""
        return primary / np.pi

    def convert(self, primary: Floats, quantity: str) -> Floats:
        """Angle to the quantity asked for."""
        return np.asarray(np.cos(primary)) if quantity == "cosine" else primary

    def effective_bits(self, fraction: Floats) -> Floats:
        """Independent bits the code is worth where the expected fraction is `fraction`."""
        single = self.n_bits * fraction * (1 - fraction)
        total = single - self._repulsion * np.square(np.sin(np.pi * fraction) / np.pi)
        bits = np.full(fraction.shape, float(self.n_bits))
        return np.asarray(np.divide(self.n_bits * single, total, out=bits, where=total > 0))

    def score_weights(self, values: Values) -> Weights:
        """Score sum u_r (2 h_r - 1), u over the length of its vector, which the query knows."""
        return signed(values if self._lengths is None else (values / self._lengths).astype(np.float32))

    def mean_weights(self, values: Values) -> Weights:
        """Mean sum u (2 h - 1) / sum |u|."""
        size = np.abs(values).mean(axis=1, keepdims=True, dtype=np.float64)
        relative = (values / np.where(size > 0, size, 1.0)).astype(np.float32)
        return signed(relative / np.float32(values.shape[1]))

    def from_means(self, means: Floats) -> Floats:
        """Angle from sum u (2 h - 1) / sum |u|, whose expectation is cos(theta) whatever the lengths of the w."""
        return np.arccos(np.clip(means, -1.0, 1.0))

    def mean_deviation(self, means: Floats) -> Floats:
        """Standard deviation of that ratio (delta method), with the repulsion of its quadratic part."""
        c = np.clip(means, -1.0, 1.0)
        both = 2 / np.pi * (np.arcsin(c) + c * np.sqrt(1 - c**2))  # E[u^2 sgn(u) sgn(v)] at correlation c
        single = 1 + c**2 - 2 * c * both
        turn = c + 1j * np.sqrt(1 - c**2)
        quadratic = 9 / (8 * np.pi) * np.square(np.abs(turn - turn**3 / 3 - 2 * c / 3))
        total = self.n_bits * self._spread * single - self._repulsion * quadratic
        return np.asarray(np.sqrt(np.pi / 2 * np.maximum(total, 0.0)) / self.n_bits)
