"""True similarities to all items that are kept in memory: what codes are judged by."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.encoders.coder import AngleCoder, Coder, KernelCoder
from bilsh.types import Floats


class Exact:
    """Items prepared for comparing one query after the other with all of them.

    Parameters
    ----------
    coder : Coder
        Says which quantity its codes tell: the angle between centred items, or a distance.
    vectors : array (n, d)
        The items.
    """

    def __init__(self, coder: Coder, vectors: NDArray[Any]) -> None:
        self._coder = coder
        rows = np.asarray(vectors, dtype=np.float32)
        self._by_angle = isinstance(coder, AngleCoder)
        self._by_distance = isinstance(coder, KernelCoder) and coder.kernel.metric == "euclidean"
        if isinstance(coder, AngleCoder):
            rows = rows - coder.mean.reshape(-1)
            norms = np.linalg.norm(rows, axis=1, keepdims=True)
            rows /= np.where(norms > 0, norms, 1)
        self._rows = rows
        self._squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64) if self._by_distance else None

    def __len__(self) -> int:
        return len(self._rows)

    def primary(self, query: NDArray[Any]) -> Floats:
        """Angles or distances (n,) from one query (d,) to all items."""
        one = np.asarray(query, dtype=np.float32).reshape(-1)
        if isinstance(self._coder, AngleCoder):
            one = one - self._coder.mean.reshape(-1)
            one = one / (np.linalg.norm(one) or 1.0)
            cosines = np.clip((self._rows @ one).astype(np.float64), -1.0, 1.0)
            return np.asarray(np.arccos(cosines))
        if self._squares is not None:
            # Rounding leaves about 1e-7 of the squared norms: enough for ranks and three digits.
            squares = self._squares - 2 * (self._rows @ one).astype(np.float64) + float(one @ one)
            return np.asarray(np.sqrt(np.maximum(squares, 0.0)))
        shape = self._coder.input_shape
        return np.asarray(self._coder.exact(one.reshape(1, *shape), self._rows.reshape(-1, *shape))[0])

    def similarity(self, primary: Floats) -> Floats:
        """Cosines or kernel values of angles or distances."""
        calibration = self._coder.calibration
        return calibration.convert(primary, calibration.similarity)
