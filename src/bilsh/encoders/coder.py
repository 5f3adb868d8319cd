"""What a fitted encoder is: a projection that was drawn, and one offset (and threshold) per bit.

Encoding needs nothing else, above all not scikit-learn, whose import takes longer than answering a query.
:mod:`bilsh.encoders` makes estimators of these; a store that is only searched uses them as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bilsh import _native
from bilsh.encoders import file as encoder_file
from bilsh.errors import InvalidInputError
from bilsh.projections import BilinearMap, DenseMap, Plan
from bilsh.projections.base import Bytes, Floats, Integers, LinearMap
from bilsh.validation import (
    BLOCK_BYTES,
    as_descriptors,
    float32_blocks,
    is_plain,
    nonfinite_error,
    rows_per_block,
    thread_count,
)

TURN = 2 * np.pi

STREAMED_BLOCK_BYTES = 128 << 20
"""Descriptors that are encoded at a time where dense weights are regenerated for every block of them."""


class Coder:
    """Encodes. The attributes are explained in the encoders that users see."""

    kind: ClassVar[str]
    FITTED: ClassVar[tuple[str, ...]] = ("input_shape_", "norm_ratio_")
    """Plain fitted attributes that travel in an encoder file beside the arrays."""

    n_bits: int
    n_jobs: int | None = None

    projection_: LinearMap
    outputs_: Integers
    input_shape_: tuple[int, ...]
    n_features_in_: int
    norm_ratio_: float
    _offsets: Floats
    _tau: Floats | None
    _plan: Plan

    @property
    def _scale(self) -> float:
        """Factor between the projection's outputs and the values that are quantised."""
        raise TypeError(f"{type(self).__name__} does not say how its projections are scaled.")

    def _compile(self) -> Plan:
        return self.projection_.plan(self.outputs_, self._scale, self._offsets, self._tau)

    def _enter_fitted(self, X: Any) -> Any:
        """Check X against what was fitted; return an array (n, ...)."""
        if self._fits(X):
            return X
        X = as_descriptors(X, accept_sparse=isinstance(self.projection_, DenseMap))
        if X.ndim == 3 and X.shape[1:] != self.input_shape_:
            raise InvalidInputError(self._wrong_shape(X))
        if X.ndim == 2 and X.shape[1] != self.n_features_in_:
            raise InvalidInputError(
                f"X has {X.shape[1]} features, but the encoder is expecting {self.n_features_in_} features as input."
            )
        return X

    def _fits(self, X: Any) -> bool:
        """Tell at once that X needs no check: a single item should not wait for its formalities."""
        return is_plain(X) and X.ndim > 1 and X.shape[1:] == self.input_shape_

    def _wrong_shape(self, X: Any) -> str:
        fitted = "vectors" if len(self.input_shape_) == 1 else "matrices"
        return f"X has matrix shape {X.shape[1:]}; this encoder was fitted on {fitted} of shape {self.input_shape_}."

    def transform(self, X: Any) -> Bytes:
        """Encode descriptors.

        Parameters
        ----------
        X : array (n, d) or (n, d_w, d_v)
            Descriptors of the shape seen at fit; n may be 0.

        Returns
        -------
        uint8 array (n, ceil(n_bits / 8))
            Packed codes: bit r is ``codes[:, r // 8] >> (r % 8) & 1``; padding bits are zero.
        """
        X = self._enter_fitted(X)
        # Regenerated weights are made anew for every block: larger blocks make them less often.
        streamed = isinstance(self.projection_, DenseMap) and self.projection_.weights is None
        rows = rows_per_block(self.n_features_in_, STREAMED_BLOCK_BYTES if streamed else BLOCK_BYTES)
        codes: Bytes = self._run(self._plan.encode, X, rows, self.n_bytes_, np.uint8)
        return codes

    def phases(self, X: Any) -> Floats:
        """Return the real values that the bits are made from, for asymmetric search.

        Parameters
        ----------
        X : array (n, d) or (n, d_w, d_v)
            Descriptors of the shape seen at fit.

        Returns
        -------
        float32 array (n, n_bits)
            Angle codes: w . (x - mean), a bit is [value >= 0]. Kernel codes: w . x / bandwidth + b in radians,
            a bit is [cos(value) + t >= 0].
        """
        X = self._enter_fitted(X)
        rows = rows_per_block(max(self.n_features_in_, len(self.outputs_)))
        values: Floats = self._run(self._plan.project, X, rows, len(self.outputs_), np.float32)
        return values if self._tau is None else values * np.float32(TURN)

    def _run(
        self, method: Callable[[Floats, int], Any], X: Any, rows: int, width: int, dtype: type[Any]
    ) -> NDArray[Any]:
        """Pass descriptors through a method of the plan: as they lie, or converted in blocks of ``rows``."""
        n_jobs = thread_count(self.n_jobs)
        start, block = 0, X
        try:
            if is_plain(X):
                block = X.reshape(len(X), self.n_features_in_)
                return np.asarray(method(block, n_jobs))
            result = np.empty((X.shape[0], width), dtype=dtype)
            for start, block in float32_blocks(X, rows):
                result[start : start + len(block)] = method(block, n_jobs)
            return result
        except _native.NonFiniteError:
            raise nonfinite_error(X, start, block) from None

    @property
    def n_bytes_(self) -> int:
        """Bytes of a code."""
        return -(-len(self.outputs_) // 8)

    @property
    def matrix_shape_(self) -> tuple[int, int] | None:
        """(d_w, d_v) that a bilinear projection sees, zero-padding included; None for other projections."""
        return self.projection_.matrix_shape if isinstance(self.projection_, BilinearMap) else None

    @property
    def grid_shapes_(self) -> tuple[tuple[int, int], ...] | None:
        """Rows and columns of the grid that the pairs are taken from, or of several stacked ones; else None."""
        return self.projection_.grid_shapes if isinstance(self.projection_, BilinearMap) else None

    @property
    def pairs_(self) -> Integers:
        """I of Algorithm 1: bit r uses left vector ``pairs_[r, 0]`` and right vector ``pairs_[r, 1]``."""
        return self._bilinear_map("pairs_").pairs[self.outputs_]

    @property
    def left_weights_(self) -> Floats:
        """W (d_w, a): left projection vectors as columns."""
        return self._bilinear_map("left_weights_").left.T

    @property
    def right_weights_(self) -> Floats:
        """V (d_v, c): right projection vectors as columns."""
        return self._bilinear_map("right_weights_").right.T

    @property
    def weights_(self) -> Floats:
        """Weights (d, n_bits) of a dense projection, a column per bit. Made anew when they are not kept."""
        if not isinstance(self.projection_, DenseMap):
            raise AttributeError("weights_ exists for dense projections only; see projection_.")
        return self.projection_.rows(0, self.projection_.n_outputs)[self.outputs_].T

    def _bilinear_map(self, name: str) -> BilinearMap:
        if not isinstance(self.projection_, BilinearMap):
            raise AttributeError(f"{name} exists for bilinear projections only; see projection_.")
        return self.projection_

    @property
    def parameter_bytes_(self) -> int:
        """Bytes of all numbers that encoding needs."""
        arrays = [*self.projection_.arrays().values(), self._offsets]
        return sum(array.nbytes for array in arrays) + (0 if self._tau is None else self._tau.nbytes)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all that determines the codes, in hexadecimal."""
        return encoder_file.fingerprint(self)


class AngleCoder(Coder):
    """Sign codes, see :class:`bilsh.AngleEncoder`."""

    kind: ClassVar[str] = "angle"

    mean_: NDArray[np.float32]

    @property
    def _scale(self) -> float:
        return 1.0

    @property
    def offsets_(self) -> Floats:
        """-w_r . mean of every bit."""
        return self._offsets


class KernelCoder(Coder):
    """Kernel codes, see :class:`bilsh.KernelEncoder`."""

    kind: ClassVar[str] = "kernel"
    FITTED: ClassVar[tuple[str, ...]] = (*Coder.FITTED, "bandwidth_", "quadrature_")

    kernel: str
    nu: float | None
    thresholds: str
    bandwidth_: float
    quadrature_: bool
    difference_spectrum_: NDArray[np.float64] | None

    @property
    def _scale(self) -> float:
        return 1.0 / (TURN * self.bandwidth_)

    @property
    def offsets_(self) -> NDArray[np.float64]:
        """Phase b of every bit, in [0, 2 pi)."""
        return TURN * self._offsets.astype(np.float64)

    @property
    def thresholds_(self) -> NDArray[np.float64]:
        """Threshold t of every bit, in [-1, 1]."""
        if self._tau is None:
            raise AttributeError("thresholds_ exists for kernel codes only.")
        return np.where(self._tau == np.float32(0.25), 0.0, -np.cos(TURN * self._tau.astype(np.float64)))
