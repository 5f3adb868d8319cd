"""Names of types that many rooms share, so that a word means the same in all of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Statistics and estimates."""

Values = NDArray[np.float32]
"""Descriptors and their projections, as the compiled core takes and gives them."""

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


def silent(what: str, done: int, total: int) -> None:
    """Tell nobody: the progress of callers who did not ask for it."""
