"""A cubic spline for tables whose ends are straight lines; SciPy's would be the larger part of a program's start."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bilsh.types import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Spline:
    """Natural cubic spline: second derivative 0 at both ends.

    Attributes
    ----------
    x, y : array (n,)
        Nodes, ascending, and values; n >= 3.
    bend : array (n,)
        Second derivatives at the nodes.
    """

    x: Floats
    y: Floats
    bend: Floats

    @classmethod
    def through(cls, x: Floats, y: Floats) -> "Spline":
        """Interpolate; the tridiagonal system is solved by elimination.

        >>> x = np.linspace(0, 3, 31)
        >>> float(Spline.through(x, np.sin(x))(1.55).round(5)), float(np.sin(1.55).round(5))
        (0.99978, 0.99978)
        """
        h = np.diff(x)
        right = 6 * np.diff(np.diff(y) / h)
        diagonal, beside, target = (2 * (h[:-1] + h[1:])).tolist(), h[1:-1].tolist(), right.tolist()
        for i in range(1, len(diagonal)):
            factor = beside[i - 1] / diagonal[i - 1]
            diagonal[i] -= factor * beside[i - 1]
            target[i] -= factor * target[i - 1]
        bend = [0.0] * len(x)
        for i in range(len(diagonal) - 1, -1, -1):
            above = beside[i] * bend[i + 2] if i < len(beside) else 0.0
            bend[i + 1] = (target[i] - above) / diagonal[i]
        return cls(x, y, np.array(bend))

    def __call__(self, at: ArrayLike) -> Floats:
        """Evaluate within the nodes."""
        t = np.asarray(at, dtype=np.float64)
        i = self.x[1:-1].searchsorted(t)
        j = i + 1
        left, right = self.x[i], self.x[j]
        h = right - left
        a, b = (right - t) / h, (t - left) / h
        cubic = ((a * a - 1) * a * self.bend[i] + (b * b - 1) * b * self.bend[j]) * (h * h / 6)
        return np.asarray(a * self.y[i] + b * self.y[j] + cubic)

    @property
    def end_slopes(self) -> tuple[float, float]:
        """First derivatives at the first and the last node."""
        h, k = self.x[1] - self.x[0], self.x[-1] - self.x[-2]
        first = (self.y[1] - self.y[0]) / h - h * self.bend[1] / 6
        last = (self.y[-1] - self.y[-2]) / k + k * self.bend[-2] / 6
        return float(first), float(last)
