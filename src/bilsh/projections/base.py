"""What every projection has in common: a setting that can be drawn, and the linear map that was drawn.

A *projection* (Dense, Bilinear, Circulant, Hadamard) is a small scikit-learn style bag of settings. Drawing it for
descriptors of a given shape gives a *map*: fixed arrays that turn a descriptor into n_outputs real numbers whose
order is random, so that the first of them are a fair sample of all.
"""

from __future__ import annotations

from abc import abstractmethod
from inspect import signature
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import InvalidInputError
from bilsh.projections.kernels import Kernel
from bilsh.theory.orthogonality import OrthogonalPairs
from bilsh.theory.sharing import BitSharing
from bilsh.types import Values
from bilsh.validation import BLOCK_BYTES

Integers = NDArray[np.int32]
Bytes = NDArray[np.uint8]

SIGNS: Values = np.array([-1, 1], dtype=np.float32)


class Plan(Protocol):
    """A compiled recipe: projection, offsets and quantiser in one pass over the descriptors."""

    def encode(self, X: Values, n_jobs: int = 1) -> Bytes:
        """Return packed codes (n, ceil(k/8))."""

    def project(self, X: Values, n_jobs: int = 1) -> Values:
        """Return the k real numbers (n, k) that the bits are made from."""


class LinearMap:
    """A drawn projection: fixed arrays that make `n_outputs` real numbers of a descriptor.

    A map of one's own says how it encodes (`plan`) and what it is made of (`take`, `arrays`, `settings`, `restore`);
    the statistics below, which estimates use, are those of independent Gaussian vectors until it says otherwise.

    Attributes
    ----------
    kind : str
        Name in encoder files.
    accepts_sparse : bool
        Whether descriptors may be sparse.
    block_bytes : int
        Descriptors that are encoded at a time, where they must be converted.
    scrambled : bool
        Whether entries are permuted and signed first, so that a difference has no direction of its own.
    one_grid : bool
        Whether bits share vectors all over the code, so that longer codes share more.
    """

    kind: ClassVar[str]
    accepts_sparse: ClassVar[bool] = False

    @property
    def block_bytes(self) -> int:
        """Bytes of descriptors to convert at a time."""
        return BLOCK_BYTES

    @property
    def scrambled(self) -> bool:
        """Whether entries are scrambled."""
        return False

    @property
    def one_grid(self) -> bool:
        """Whether longer codes of this design share more."""
        return False

    @property
    def multiply_adds(self) -> int:
        """About how many multiply-adds an item costs."""
        return 64 * self.n_outputs

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """How many real numbers the map makes of a descriptor."""

    @abstractmethod
    def plan(self, outputs: Integers, scale: float, offsets: Values, tau: Values | None) -> Plan:
        """Compile the bits: bit r quantises ``scale * output[outputs[r]] + offsets[r]``."""

    @abstractmethod
    def take(self, n_outputs: int) -> Self:
        """Return the map of the first ``n_outputs`` outputs only, with the same numbers to the last bit."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything that was drawn, by name."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return what else the map needs to work: plain JSON values."""

    @classmethod
    @abstractmethod
    def restore(cls, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Inverse of :meth:`settings` and :meth:`arrays`; raises ValueError if they do not fit together."""

    # -- statistics ----------------------------------------------------------------------------------

    def matrices(self, X: NDArray[Any]) -> NDArray[Any] | None:
        """Descriptors (n, d) as the matrices that two factors see; None where there are no two factors."""
        return None

    def projected_kernel(self, kernel: Kernel, spectrum: NDArray[np.float64] | None) -> Kernel:
        """Return the kernel that the projections have; `spectrum` is the mean one of differences of the data."""
        return kernel

    def sharing(self, outputs: Integers) -> BitSharing:
        """Count ordered pairs of bits by what they share."""
        used = np.bincount(outputs)
        return BitSharing(len(outputs), quadrature=float((used * (used - 1)).sum()))

    def pairs_of(self, outputs: Integers) -> Integers | None:
        """Left and right vector (n_bits, 2) of each bit; None without factors."""
        return None

    def orthogonality(self, outputs: Integers) -> OrthogonalPairs | None:
        """Count ordered pairs of bits with orthogonal factors; None without factors."""
        return None

    def orthogonal_pairs(self, outputs: Integers) -> tuple[int, int]:
        """Ordered pairs of bits whose projection vectors are orthogonal in d dimensions, and d."""
        return 0, 2

    def quadratic_correlation(self, outputs: Integers) -> float:
        """Sum over ordered pairs of bits of the correlation of the squares of their projections."""
        return 0.0

    def lengths(self, outputs: Integers) -> NDArray[np.float64] | None:
        """Lengths of the bits' projection vectors, about 1; None where they differ little."""
        return None


class Projection:
    """Base of the four projections: settings only; nothing random lives here.

    They follow scikit-learn's protocol of parameters (get_params, set_params, clone) without importing it.
    """

    accepts_sparse: ClassVar[bool] = False

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name; `deep` changes nothing, as no setting is an estimator."""
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Change settings by name."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise InvalidInputError(
                    f"{type(self).__name__} has no setting {name!r}; it has {', '.join(known) or 'none'}."
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = signature(type(self)).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value != defaults[name].default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def draw(
        self,
        shape: tuple[int, ...],
        n_outputs: int,
        rng: np.random.Generator,
        kernel: Kernel,
    ) -> LinearMap:
        """Draw the map for descriptors of ``shape`` (d,) or (d_w, d_v)."""
        raise TypeError(f"{type(self).__name__} does not say how to draw its map.")

    def require_gaussian(self, kernel: Kernel) -> None:
        """Refuse kernels other than the Gaussian, whose weights only a dense projection can follow."""
        if kernel.name != "gaussian":
            raise InvalidInputError(
                f"{type(self).__name__} projections follow the Gaussian kernel only; "
                f"use projection='dense' for kernel={kernel.name!r}."
            )


def check_outputs(outputs: NDArray[Any], limit: int) -> Integers:
    """Return ``outputs`` as int32 if all of them are in [0, limit); else raise ValueError."""
    if outputs.ndim != 1 or outputs.dtype != np.int32 or (outputs.size and not outputs.min() >= 0):
        raise ValueError("outputs must be a list of non-negative int32")
    if outputs.size and outputs.max() >= limit:
        raise ValueError(f"output {outputs.max()} does not exist; the map has {limit}")
    return outputs


def first_in_blocks(selected: Integers, size: int, n_outputs: int) -> tuple[Integers, Integers]:
    """Blocks of so many entries in which the first outputs lie, and the outputs counted in these blocks alone."""
    blocks, block = np.unique(selected[:n_outputs] // size, return_inverse=True)
    return blocks, (block * size + selected[:n_outputs] % size).astype(np.int32)


def pairs_in_blocks(selected: Integers, d: int) -> int:
    """Ordered pairs of bits in the same block of d outputs, made from different outputs."""
    blocks, outputs = np.bincount(selected // d), np.bincount(selected)
    return int(np.square(blocks).sum() - np.square(outputs).sum())
