"""(HD)^3: three rounds of random signs and a fast Hadamard transform instead of a random matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bilsh import _native
from bilsh.projections.base import (
    SIGNS,
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


@dataclass(frozen=True, slots=True)
class HadamardMap(LinearMap):
    """Signs of each block and the outputs in use.

    Attributes
    ----------
    signs : array (blocks, 3, D)
        Diagonals of D_1, D_2, D_3; D is a power of two.
    selected : array (n_outputs,)
        Output r is entry ``selected[r] % D`` of block ``selected[r] // D``.
    d : int
        Length of a descriptor; zeros are appended up to D.
    """

    kind: ClassVar[str] = "hadamard"

    signs: Values
    selected: Integers
    d: int

    @property
    def n_outputs(self) -> int:
        """Number of outputs in use."""
        return len(self.selected)

    def plan(self, outputs: Integers, scale: float, offsets: Values, tau: Values | None) -> Plan:
        """Compile the bits; see :class:`bilsh.projections.base.LinearMap`.

        The compiled transform is not normalised; 1 / D makes its rows as long as Gaussian ones, sqrt(D).
        """
        D = self.signs.shape[2]
        return _native.HadamardPlan(self.signs, self.selected[outputs], self.d, scale / D, offsets, tau)

    def take(self, n_outputs: int) -> Self:
        """Keep the first outputs, and the blocks they lie in."""
        blocks, selected = first_in_blocks(self.selected, self.signs.shape[2], n_outputs)
        return replace(self, signs=self.signs[blocks], selected=selected)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return signs (one byte each) and outputs in use."""
        return {"signs": self.signs.astype(np.int8), "selected": self.selected}

    def settings(self) -> dict[str, Any]:
        """Return the descriptor length."""
        return {"d": self.d}

    @classmethod
    def restore(cls, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Rebuild the map from what was saved."""
        signs = arrays["signs"]
        if signs.ndim != 3 or signs.shape[1] != 3 or not np.isin(signs, (-1, 1)).all():
            raise ValueError("signs must be an array (blocks, 3, D) of -1 and 1")
        selected = check_outputs(arrays["selected"], signs.shape[0] * signs.shape[2])
        return cls(signs.astype(np.float32), selected, int(settings["d"]))

    def orthogonal_pairs(self, outputs: Integers) -> tuple[int, int]:
        """Rows of a block are orthogonal in D dimensions."""
        D = self.signs.shape[2]
        return pairs_in_blocks(self.selected[outputs], D), D

    def quadratic_correlation(self, outputs: Integers) -> float:
        """Orthogonal rows of equal length repel: if one sees much of a difference, the others see less."""
        count, D = self.orthogonal_pairs(outputs)
        return -count / (D + 2)


class Hadamard(Projection):
    """Structured projection H D_3 H D_2 H D_1 x, padded to a power of two, in as many blocks as the bits need.

    D log D additions per block of D outputs and 3 D random signs to store: the cheapest projection for long
    codes. Its rows are orthogonal and behave like Gaussian ones of fixed length.

    Examples
    --------
    >>> import bilsh, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 20))
    >>> enc = bilsh.AngleEncoder(n_bits=100, projection=bilsh.Hadamard(), random_state=0).fit(X)
    >>> enc.projection_.signs.shape
    (4, 3, 32)
    """

    def draw(
        self,
        shape: tuple[int, ...],
        n_outputs: int,
        rng: np.random.Generator,
        kernel: Kernel,
    ) -> HadamardMap:
        """Draw signs for descriptors of ``shape`` and put the outputs in random order."""
        self.require_gaussian(kernel)
        d = int(np.prod(shape))
        D = 1 << (d - 1).bit_length()
        blocks = -(-n_outputs // D)
        signs = rng.choice(SIGNS, (blocks, 3, D))
        return HadamardMap(signs, rng.permutation(blocks * D)[:n_outputs].astype(np.int32), d)
