"""Two small random matrices (eq. 6 and 8, Algorithm 1): bit (i, j) sees w_i^T X v_j."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, sqrt
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bilsh import _native
from bilsh.errors import InvalidInputError
from bilsh.projections import designs
from bilsh.projections.base import SIGNS, Integers, LinearMap, Plan, Projection
from bilsh.projections.kernels import Kernel, bilinear_kernel
from bilsh.theory.orthogonality import OrthogonalPairs
from bilsh.theory.sharing import BitSharing
from bilsh.types import Values
from bilsh.validation import check_boolean, check_choice, check_integer

TRANSPOSITION = 16
"""What transposing an item costs, in multiply-adds per entry: the left side first reads items as they lie."""

MAX_SIDE = 2**24
"""Most vectors on either side of an oversampled grid; more would be a slip of the pen."""


@dataclass(frozen=True, slots=True)
class BilinearMap(LinearMap):
    """Drawn factors and the selected pairs.

    Attributes
    ----------
    left : array (a, d_w)
        W^T: one left vector per row.
    right : array (c, d_v)
        V^T: one right vector per row.
    pairs : array (n_outputs, 2)
        The subset I of Algorithm 1, in random order: output r is ``left[i]^T M right[j]``.
    permutation, signs : array (d_w * d_v,) or None
        The scramble: ``M.flat[e] = signs[e] * x[permutation[e]]``.
    d : int
        Length of a descriptor; zeros are appended up to d_w * d_v.
    left_first : bool
        Which side is multiplied first; part of the map because it fixes the rounding.
    grid_shapes : tuple of (int, int)
        Rows and columns of the grid the pairs were drawn from; several when grids are stacked.
    """

    kind: ClassVar[str] = "bilinear"

    left: Values
    right: Values
    pairs: Integers
    permutation: Integers | None
    signs: Values | None
    d: int
    left_first: bool
    grid_shapes: tuple[tuple[int, int], ...]

    @property
    def n_outputs(self) -> int:
        """Number of selected pairs."""
        return len(self.pairs)

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """(d_w, d_v) of the matrices that are multiplied, zero-padding included."""
        return self.left.shape[1], self.right.shape[1]

    def matrices(self, X: NDArray[Any]) -> NDArray[Any]:
        """Turn descriptors (n, d) into the matrices (n, d_w, d_v) that the factors see: padded and scrambled."""
        d_w, d_v = self.matrix_shape
        padded = np.zeros((len(X), d_w * d_v), dtype=X.dtype)
        padded[:, : self.d] = X
        if self.permutation is not None and self.signs is not None:
            padded = padded[:, self.permutation] * self.signs.astype(X.dtype)
        return padded.reshape(-1, d_w, d_v)

    def plan(self, outputs: Integers, scale: float, offsets: Values, tau: Values | None) -> Plan:
        """Compile the bits; see :class:`bilsh.projections.base.LinearMap`."""
        right = self.right if scale == 1.0 else self.right * np.float32(scale)
        return _native.BilinearPlan(
            self.left,
            right,
            self.pairs[outputs],
            offsets,
            tau,
            self.d,
            self.permutation,
            self.signs,
            self.left_first,
        )

    def take(self, n_outputs: int) -> Self:
        """Keep the first pairs, and of the factors the vectors they use."""
        rows, i = np.unique(self.pairs[:n_outputs, 0], return_inverse=True)
        columns, j = np.unique(self.pairs[:n_outputs, 1], return_inverse=True)
        pairs = np.stack([i, j], axis=1).astype(np.int32)
        return replace(self, left=self.left[rows], right=self.right[columns], pairs=pairs)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return factors, pairs and scramble."""
        arrays: dict[str, NDArray[Any]] = {"left": self.left, "right": self.right, "pairs": self.pairs}
        if self.permutation is not None and self.signs is not None:
            arrays |= {"permutation": self.permutation, "signs": self.signs}
        return arrays

    def settings(self) -> dict[str, Any]:
        """Return descriptor length, order of multiplication and grid."""
        return {
            "d": self.d,
            "left_first": self.left_first,
            "grid_shapes": [list(shape) for shape in self.grid_shapes],
        }

    @classmethod
    def restore(cls, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Rebuild the map from what was saved."""
        shapes = tuple((int(rows), int(columns)) for rows, columns in settings["grid_shapes"])
        return cls(
            arrays["left"],
            arrays["right"],
            arrays["pairs"],
            arrays.get("permutation"),
            arrays.get("signs"),
            int(settings["d"]),
            bool(settings["left_first"]),
            shapes,
        )

    @property
    def multiply_adds(self) -> int:
        """One side for all of an item, then the pairs."""
        d_w, d_v = self.matrix_shape
        first, second = (len(self.left), d_v) if self.left_first else (len(self.right), d_w)
        return first * d_w * d_v + self.n_outputs * second

    @property
    def scrambled(self) -> bool:
        """Whether entries are scrambled."""
        return self.permutation is not None

    @property
    def one_grid(self) -> bool:
        """A vector is shared by as many bits as its row or column of the grid has; stacked grids do not grow."""
        return len(self.grid_shapes) == 1

    def projected_kernel(self, kernel: Kernel, spectrum: NDArray[np.float64] | None) -> Kernel:
        """kappa_b of the spectrum of a difference, which a Gaussian kernel has no need of."""
        return kernel if spectrum is None else bilinear_kernel(spectrum, min(self.matrix_shape))

    def sharing(self, outputs: Integers) -> BitSharing:
        """Count ordered pairs of bits by the vectors that they share."""
        return BitSharing.from_pairs(self.pairs[outputs], quadrature=True)

    def pairs_of(self, outputs: Integers) -> Integers:
        """Left and right vector of each bit."""
        return self.pairs[outputs]

    def orthogonality(self, outputs: Integers) -> OrthogonalPairs:
        """Count ordered pairs of bits with orthogonal factors."""
        return OrthogonalPairs.of(self.left, self.right, self.pairs[outputs])

    def orthogonal_pairs(self, outputs: Integers) -> tuple[int, int]:
        """w_i v_j^T of orthogonal factors are orthogonal matrices; scrambled, they lie in no special direction."""
        pairs = self.orthogonality(outputs)
        d_w, d_v = self.matrix_shape
        return (pairs.both and pairs.both + pairs.shared_left + pairs.shared_right), d_w * d_v

    def lengths(self, outputs: Integers) -> NDArray[np.float64]:
        """|w_i| |v_j| of each bit over its root mean square, sqrt(d_w d_v)."""
        left, right = (np.linalg.norm(f.astype(np.float64), axis=1) for f in (self.left, self.right))
        i, j = self.pairs[outputs].T
        return np.asarray(left[i] * right[j] / np.sqrt(np.prod(self.matrix_shape)))


class Bilinear(Projection):
    r"""Bilinear projection w_i^T X v_j over pairs (i, j) of a grid.

    Costs a d + k d_v multiply-adds per item for a left vectors (or the mirror image, whichever is less) and stores
    a d_w + c d_v numbers: a small fraction of the dense projection's d k.

    Parameters
    ----------
    oversampling : int, default=1
        m of Algorithm 1: k pairs are taken of a grid of m sqrt(k) x m sqrt(k). Only these are computed.
    design : {"grid", "random", "balanced"}, default="grid"
        Which pairs. With m = 1 "grid" and "random" are the complete grid. With m > 1 both are Algorithm 1's
        uniformly random subset; "balanced" uses every vector equally often, which has the smallest variance.
    orthogonal : bool, default=True
        Draw the factors in orthogonal blocks with chi-distributed norms. Each vector is still Gaussian, so the
        kernel kappa_b is unchanged, but the code varies less. The paper's factors have ``orthogonal=False``.
    scramble : bool, default=True
        Multiply the d entries by fixed random signs and permute them before they are shaped into a matrix: an
        isometry that makes differences of descriptors full-rank. The paper's method has ``scramble=False``.
    matrix_shape : (int, int), optional
        Shape (d_w, d_v) that descriptors are given; zeros are appended if d_w d_v > d. Default: the shape of the
        data, or for vectors the most square factorisation of d or of the next number that has a nearly square one.

    Notes
    -----
    With orthogonal factors a grid is at most d_w x d_v; beyond that, independent grids are stacked.

    Examples
    --------
    >>> import bilsh, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 28, 28))
    >>> enc = bilsh.AngleEncoder(n_bits=900, projection=bilsh.Bilinear(oversampling=5), random_state=0).fit(X)
    >>> enc.projection_.grid_shapes, enc.pairs_.shape
    (((150, 150),), (900, 2))
    """

    def __init__(
        self,
        oversampling: int = 1,
        design: str = "grid",
        orthogonal: bool = True,
        scramble: bool = True,
        matrix_shape: tuple[int, int] | None = None,
    ) -> None:
        self.oversampling = oversampling
        self.design = design
        self.orthogonal = orthogonal
        self.scramble = scramble
        self.matrix_shape = matrix_shape

    def draw(
        self,
        shape: tuple[int, ...],
        n_outputs: int,
        rng: np.random.Generator,
        kernel: Kernel,
    ) -> BilinearMap:
        """Draw factors, pairs and scramble for descriptors of ``shape``."""
        self.require_gaussian(kernel)
        d_w, d_v = self._matrix_shape(shape)
        factors_rng, pairs_rng, scramble_rng = rng.spawn(3)
        shapes, pairs = self._draw_pairs(n_outputs, d_w, d_v, pairs_rng)
        factor = orthogonal_factor if check_boolean("orthogonal", self.orthogonal) else gaussian_factor
        left = _stack(factor, [rows for rows, _ in shapes], d_w, factors_rng)
        right = _stack(factor, [columns for _, columns in shapes], d_v, factors_rng)
        permutation = signs = None
        if check_boolean("scramble", self.scramble):
            permutation = scramble_rng.permutation(d_w * d_v).astype(np.int32)
            signs = scramble_rng.choice(SIGNS, d_w * d_v)
        left_cost = len(left) * d_w * d_v + n_outputs * d_v
        right_cost = len(right) * d_w * d_v + n_outputs * d_w
        if not self.scramble:
            right_cost += TRANSPOSITION * d_w * d_v
        d = int(np.prod(shape))
        return BilinearMap(left, right, pairs, permutation, signs, d, left_cost <= right_cost, tuple(shapes))

    def _matrix_shape(self, shape: tuple[int, ...]) -> tuple[int, int]:
        d = int(np.prod(shape))
        if self.matrix_shape is None:
            return (shape[0], shape[1]) if len(shape) == 2 else designs.near_square_factors(d)
        try:
            d_w, d_v = self.matrix_shape
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"matrix_shape must be two whole numbers (d_w, d_v); got {self.matrix_shape!r}."
            ) from None
        d_w = check_integer("matrix_shape[0]", d_w, minimum=1)
        d_v = check_integer("matrix_shape[1]", d_v, minimum=1)
        if d_w * d_v < d:
            raise InvalidInputError(
                f"matrix_shape ({d_w}, {d_v}) holds {d_w * d_v} numbers, a descriptor has {d}; "
                f"use e.g. {designs.near_square_factors(d)}."
            )
        return d_w, d_v

    def _draw_pairs(
        self, n_pairs: int, d_w: int, d_v: int, rng: np.random.Generator
    ) -> tuple[list[tuple[int, int]], Integers]:
        m = check_integer("oversampling", self.oversampling, minimum=1)
        design = check_choice("design", self.design, designs.DESIGNS)
        if m == 1:
            stacked = designs.stacked_grids(n_pairs, d_w, d_v)
            shapes = stacked if self.orthogonal else [designs.grid_shape(n_pairs)]
            return shapes, designs.stacked_pairs(shapes, n_pairs, rng)
        side = ceil(m * sqrt(n_pairs))
        if side > MAX_SIDE:
            raise InvalidInputError(
                f"oversampling={m} with {n_pairs} pairs asks for {side} vectors on either side; at most {MAX_SIDE} fit."
            )
        select = designs.balanced_pairs if design == "balanced" else designs.random_pairs
        return [(side, side)], select(side, n_pairs, rng)


def gaussian_factor(n_vectors: int, dim: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Independent N(0, I) vectors, one per row (Algorithm 1, step 1)."""
    return rng.standard_normal((n_vectors, dim))


def orthogonal_factor(n_vectors: int, dim: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """N(0, I) vectors in blocks of up to ``dim`` mutually orthogonal ones, one per row.

    The directions of a block are uniformly distributed orthonormal vectors, the norms are independent and
    chi-distributed, so each single vector is exactly Gaussian.
    """
    blocks = []
    for start in range(0, n_vectors, dim):
        rows = min(dim, n_vectors - start)
        q, r = np.linalg.qr(rng.standard_normal((dim, rows)))
        directions = (q * np.sign(np.diag(r))).T
        blocks.append(directions * np.sqrt(rng.chisquare(dim, size=(rows, 1))))
    return np.concatenate(blocks)


def _stack(
    factor: Callable[[int, int, np.random.Generator], NDArray[np.float64]],
    counts: list[int],
    dim: int,
    rng: np.random.Generator,
) -> Values:
    """Independent factors for stacked grids, one below the other."""
    rows = np.concatenate([factor(count, dim, rng) for count in counts])
    return np.ascontiguousarray(rows, dtype=np.float32)
