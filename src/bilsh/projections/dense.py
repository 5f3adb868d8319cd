"""One large random matrix (eq. 1 and 4): the paper's "single projection"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bilsh import _native
from bilsh.projections.base import Integers, LinearMap, Plan, Projection
from bilsh.projections.kernels import Kernel
from bilsh.types import Values
from bilsh.validation import BLOCK_BYTES, check_integer

GENERATOR = "philox4x32-10, box-muller, 1"
"""Name and version of the generator of regenerated weights; a change of its numbers changes the name."""

STREAMED_ITEM_BYTES = 128 << 20
"""Descriptors that are encoded at a time when weights are regenerated."""

STREAM_BLOCK_BYTES = 8 << 20
"""Weights held at a time, per thread, when they are regenerated while encoding."""


@dataclass(frozen=True, slots=True)
class DenseMap(LinearMap):
    """Weights of a dense projection: as a matrix, or as the seed that regenerates it block by block.

    Attributes
    ----------
    weights : array (n_outputs, d) or None
        The rows w of eq. 1 and 4; None when they are regenerated while encoding.
    row_scale : array (n_outputs,)
        Length factor of each row; all ones but for the Matern kernel.
    seed, variate, d : int, str, int
        What :func:`bilsh._native.dense_weights` needs to make any block of rows.
    """

    kind: ClassVar[str] = "dense"
    accepts_sparse: ClassVar[bool] = True

    weights: Values | None
    row_scale: Values
    seed: int
    variate: str
    d: int

    @property
    def n_outputs(self) -> int:
        """Number of rows."""
        return len(self.row_scale)

    @property
    def multiply_adds(self) -> int:
        """Every output has a weight vector of its own."""
        return self.n_outputs * self.d

    @property
    def block_bytes(self) -> int:
        """Regenerated weights are made anew for every block: larger blocks make them less often."""
        return BLOCK_BYTES if self.weights is not None else STREAMED_ITEM_BYTES

    def rows(self, start: int, stop: int) -> Values:
        """Rows ``start`` to ``stop`` of the weights, wherever they are kept."""
        if self.weights is not None:
            return self.weights[start:stop]
        return _native.dense_weights(self.seed, self.variate, self.row_scale, self.d, start, stop)

    def plan(self, outputs: Integers, scale: float, offsets: Values, tau: Values | None) -> Plan:
        """Compile the bits; see :class:`bilsh.projections.base.LinearMap`."""
        if self.weights is not None:
            scaled = self.weights if scale == 1.0 else self.weights * np.float32(scale)
            return _native.DensePlan(scaled, outputs, offsets, tau)
        return _native.StreamedDensePlan(
            self.seed,
            self.variate,
            self.row_scale * np.float32(scale),
            self.d,
            outputs,
            offsets,
            tau,
            STREAM_BLOCK_BYTES,
        )

    def take(self, n_outputs: int) -> Self:
        """Keep the first rows."""
        weights = None if self.weights is None else self.weights[:n_outputs]
        return type(self)(weights, self.row_scale[:n_outputs], self.seed, self.variate, self.d)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the weights themselves where they are kept, else only the row factors."""
        kept = {} if self.weights is None else {"weights": self.weights}
        return {"row_scale": self.row_scale, **kept}

    def settings(self) -> dict[str, Any]:
        """Return seed and generator of regenerated weights; stored weights need only their width."""
        if self.weights is not None:
            return {"d": self.d, "variate": self.variate, "generator": None, "seed": 0}
        return {
            "d": self.d,
            "variate": self.variate,
            "generator": GENERATOR,
            "seed": self.seed,
        }

    @classmethod
    def restore(cls, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Rebuild the map from what was saved."""
        weights, row_scale, d = arrays.get("weights"), arrays["row_scale"], int(settings["d"])
        if row_scale.ndim != 1 or row_scale.dtype != np.float32:
            raise ValueError("row_scale must be a list of float32")
        if weights is None and settings["generator"] != GENERATOR:
            raise ValueError(
                f"weights come from generator {settings['generator']!r}, this version has {GENERATOR!r}"
            )
        if weights is not None and (weights.shape != (len(row_scale), d) or weights.dtype != np.float32):
            raise ValueError(f"weights have shape {weights.shape}; expected {(len(row_scale), d)}")
        return cls(weights, row_scale, int(settings["seed"]), str(settings["variate"]), d)


class Dense(Projection):
    r"""One large matrix: every output has a weight vector of its own.

    d k multiply-adds per item. The reference for accuracy, and the only projection for the Laplacian, Cauchy and
    Matern kernels.

    Parameters
    ----------
    memory_budget : int, default=2**30
        Weights (4 d k bytes) are kept in memory up to this many bytes. Beyond it they are regenerated block by
        block while encoding, from a counter-based generator (Philox4x32-10) that gives the same numbers on every
        machine. The codes do not depend on the budget.

    Examples
    --------
    >>> import bilsh, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 20))
    >>> bilsh.AngleEncoder(n_bits=64, projection=bilsh.Dense(), random_state=0).fit(X).transform(X).shape
    (100, 8)
    """

    accepts_sparse: ClassVar[bool] = True

    def __init__(self, memory_budget: int = 2**30) -> None:
        self.memory_budget = memory_budget

    def draw(
        self,
        shape: tuple[int, ...],
        n_outputs: int,
        rng: np.random.Generator,
        kernel: Kernel,
    ) -> DenseMap:
        """Draw weights for descriptors of ``shape``; the rows are independent, so any order is random."""
        budget = check_integer("memory_budget", self.memory_budget, minimum=0)
        d = int(np.prod(shape))
        seed = int(rng.integers(2**63))
        row_scale = kernel.row_scale(n_outputs, rng)
        weights = None
        if 4 * d * n_outputs <= budget:
            weights = _native.dense_weights(seed, kernel.variate, row_scale, d, 0, n_outputs)
        return DenseMap(weights, row_scale, seed, kernel.variate, d)
