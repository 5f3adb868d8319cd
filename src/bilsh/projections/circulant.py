"""circ(r) D x: a circulant matrix times random signs, by FFT (Yu et al. 2014; the paper's footnote)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bilsh import _native
from bilsh.projections.base import (
    SIGNS,
    Bytes,
    Integers,
    LinearMap,
    Plan,
    Projection,
    check_outputs,
    first_in_blocks,
    pairs_in_blocks,
)
from bilsh.projections.kernels import Kernel
from bilsh.types import Values

MAX_TURNS = 2.0**20
"""Beyond it a float32 tells the phase to no better than an eighth of a turn; as in the compiled plans."""

BLOCK_ROWS = 64
"""Descriptors transformed at a time."""


@dataclass(frozen=True, slots=True)
class CirculantMap(LinearMap):
    """First columns and signs of each block, and the outputs in use.

    Attributes
    ----------
    columns : array (blocks, d)
        r of each block, N(0, I).
    signs : array (blocks, d)
        Diagonal of D of each block.
    selected : array (n_outputs,)
        Output r is entry ``selected[r] % d`` of block ``selected[r] // d``.
    """

    kind: ClassVar[str] = "circulant"

    columns: Values
    signs: Values
    selected: Integers

    @property
    def n_outputs(self) -> int:
        """Number of outputs in use."""
        return len(self.selected)

    def plan(self, outputs: Integers, scale: float, offsets: Values, tau: Values | None) -> Plan:
        """Compile the bits; see :class:`bilsh.projections.base.LinearMap`."""
        import scipy.fft

        spectrum = scipy.fft.rfft(self.columns.astype(np.float64) * scale)
        return CirculantPlan(spectrum, self.signs, self.selected[outputs], offsets, tau)

    def take(self, n_outputs: int) -> Self:
        """Keep the first outputs, and the blocks they lie in."""
        blocks, selected = first_in_blocks(self.selected, self.columns.shape[1], n_outputs)
        return replace(self, columns=self.columns[blocks], signs=self.signs[blocks], selected=selected)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return columns, signs (one byte each) and outputs in use."""
        return {"columns": self.columns, "signs": self.signs.astype(np.int8), "selected": self.selected}

    def settings(self) -> dict[str, Any]:
        """Return nothing: the arrays tell all."""
        return {}

    @classmethod
    def restore(cls, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Rebuild the map from what was saved."""
        columns, signs = arrays["columns"], arrays["signs"]
        if columns.ndim != 2 or columns.dtype != np.float32 or signs.shape != columns.shape:
            raise ValueError("columns and signs must be float32 and int8 arrays (blocks, d)")
        return cls(columns, signs.astype(np.float32), check_outputs(arrays["selected"], columns.size))

    def quadratic_correlation(self, outputs: Integers) -> float:
        """Shifted by random signs, two rows of a block have a squared correlation of 1 / d on average."""
        d = self.columns.shape[1]
        return float(pairs_in_blocks(self.selected[outputs], d) / d)


@dataclass(frozen=True, slots=True)
class CirculantPlan:
    """FFT in double precision, rounded once to float32, then the quantiser that all projections share.

    The double precision makes the rounding of the FFT, which may depend on how many rows are transformed
    together, too small to reach a float32 bit.
    """

    spectrum: NDArray[np.complex128]
    signs: Values
    outputs: Integers
    offsets: Values
    tau: Values | None

    def project(self, X: Values, n_jobs: int = 1) -> Values:
        """Return the real numbers (n, k) that the bits are made from."""
        values = np.empty((len(X), len(self.outputs)), dtype=np.float32)
        for start in range(0, len(X), BLOCK_ROWS):
            values[start : start + BLOCK_ROWS] = self._project_block(X[start : start + BLOCK_ROWS], n_jobs)
        return values

    def encode(self, X: Values, n_jobs: int = 1) -> Bytes:
        """Return packed codes (n, ceil(k/8))."""
        codes = np.empty((len(X), -(-len(self.outputs) // 8)), dtype=np.uint8)
        for start in range(0, len(X), BLOCK_ROWS):
            values = self._project_block(X[start : start + BLOCK_ROWS], n_jobs)
            codes[start : start + BLOCK_ROWS] = _native.quantize(values, self.tau)
        return codes

    def _project_block(self, X: Values, n_jobs: int) -> Values:
        import scipy.fft

        n, d = X.shape
        outputs = np.empty((n, len(self.signs), d), dtype=np.float32)
        for block, (spectrum, signs) in enumerate(zip(self.spectrum, self.signs, strict=True)):
            with np.errstate(invalid="ignore", over="ignore"):
                transformed = scipy.fft.rfft(X.astype(np.float64) * signs, workers=n_jobs) * spectrum
                outputs[:, block] = scipy.fft.irfft(transformed, n=d, workers=n_jobs)
        values = np.take(outputs.reshape(n, -1), self.outputs, axis=1) + self.offsets
        limit = np.finfo(np.float32).max if self.tau is None else MAX_TURNS
        if not (np.abs(values[:, 0]) <= limit).all():  # NaN and infinity spread to every output
            raise _native.NonFiniteError
        return values


class Circulant(Projection):
    """Circulant projection circ(r) D x with r ~ N(0, I) and random signs D, in blocks of d outputs.

    d log d operations per block and 2 d numbers to store.

    Examples
    --------
    >>> import bilsh, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 20))
    >>> enc = bilsh.AngleEncoder(n_bits=50, projection=bilsh.Circulant(), random_state=0).fit(X)
    >>> enc.projection_.columns.shape
    (3, 20)
    """

    def draw(
        self,
        shape: tuple[int, ...],
        n_outputs: int,
        rng: np.random.Generator,
        kernel: Kernel,
    ) -> CirculantMap:
        """Draw columns and signs for descriptors of ``shape`` and put the outputs in random order."""
        self.require_gaussian(kernel)
        d = int(np.prod(shape))
        blocks = -(-n_outputs // d)
        columns = rng.standard_normal((blocks, d)).astype(np.float32)
        signs = rng.choice(SIGNS, (blocks, d))
        return CirculantMap(columns, signs, rng.permutation(blocks * d)[:n_outputs].astype(np.int32))
