"""Codes that were made elsewhere: a model's bits, hashes, anything packed. There is nothing to fit and nothing drawn.

Where bit r is the sign of the r-th of a model's values, those values can be queries, and be encoded; where the values
are besides those of a rotation (embeddings compared by their cosine), distances tell angles.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import BitOrder, slab_widths
from bilsh.encoders.coder import CODERS, Coder
from bilsh.encoders.neighbourhood import angles
from bilsh.errors import InvalidInputError, InvalidTypeError
from bilsh.projections import MAPS, LinearMap, Plan
from bilsh.projections.base import Bytes, Integers
from bilsh.types import Values
from bilsh.validation import check_choice, check_integer

if TYPE_CHECKING:
    from bilsh.encoders.calibration import Calibration

SIGN, ROTATION = "sign", "sign of a rotation"
MEANINGS = (None, SIGN, ROTATION)
BitPacking = Literal["little", "big"]


@dataclass(frozen=True, slots=True)
class GivenPlan:
    """Signs of values as they come, in the order in which their bits are kept."""

    order: Integers

    def project(self, X: Values, n_jobs: int = 1) -> Values:
        """Return the values themselves."""
        return np.ascontiguousarray(X[:, self.order])

    def encode(self, X: Values, n_jobs: int = 1) -> Bytes:
        """Return their signs, packed."""
        return np.packbits(self.project(X) >= 0, axis=1, bitorder="little")


@dataclass(frozen=True, slots=True)
class GivenMap(LinearMap):
    """No projection: output r is value ``permutation[r]``."""

    kind: ClassVar[str] = "given"

    permutation: Integers

    @property
    def n_outputs(self) -> int:
        """Number of values."""
        return len(self.permutation)

    def plan(self, outputs: Integers, scale: float, offsets: Values, tau: Values | None) -> Plan:
        """Compile the bits; see :class:`bilsh.projections.base.LinearMap`."""
        return GivenPlan(self.permutation[outputs])

    def take(self, n_outputs: int) -> Self:
        """Keep the first outputs."""
        return type(self)(self.permutation[:n_outputs])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the permutation."""
        return {"permutation": self.permutation}

    def settings(self) -> dict[str, Any]:
        """Return nothing: the permutation tells all."""
        return {}

    @classmethod
    def restore(cls, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Rebuild the map from what was saved."""
        order = arrays["permutation"]
        if order.dtype != np.int32 or not np.array_equal(np.sort(order), np.arange(len(order))):
            raise ValueError("permutation must hold every number from 0 once, as int32")
        return cls(order)

    def orthogonal_pairs(self, outputs: Integers) -> tuple[int, int]:
        """Axes of a rotated space are orthogonal."""
        return len(outputs) * (len(outputs) - 1), len(outputs)


@dataclass(frozen=True, eq=False)
class ForeignCoder(Coder):
    """Codes of unknown origin, kept under a fixed permutation of their bits so that prefixes are random subsets.

    Attributes
    ----------
    bits : None, "sign" or "sign of a rotation"
        What the caller says a bit is.
    bitorder : "little" or "big"
        How the caller packs them, as in numpy.packbits: the first of eight bits is the lowest of its byte, or the
        highest. Codes are taken and given back so.
    """

    kind: ClassVar[str] = "foreign"

    bits: str | None = field(default=None, kw_only=True)
    bitorder: BitPacking = field(default="little", kw_only=True)

    @classmethod
    def of(cls, n_bits: int, bits: str | None = None, bitorder: BitPacking = "little") -> ForeignCoder:
        """Return the coder of codes of this length.

        Parameters
        ----------
        n_bits : int
        bits : None, "sign" or "sign of a rotation"
            None: the bits are known by their distances only. "sign": bit r is [value r >= 0], so values can be queries
            and items. "sign of a rotation": besides, the fraction of differing bits is the angle over pi.
        bitorder : "little" or "big"

        Examples
        --------
        >>> ForeignCoder.of(1024).n_bytes
        128
        """
        n_bits = check_integer("n_bits", n_bits, minimum=1)
        if bits not in MEANINGS:
            raise InvalidInputError(f"bits must be None, '{SIGN}' or '{ROTATION}'; got {bits!r}.")
        check_choice("bitorder", bitorder, get_args(BitPacking))
        if bitorder == "big" and n_bits % 8:
            raise InvalidInputError(
                f"codes packed highest bit first must fill whole bytes, n_bits a multiple of 8; got {n_bits}."
            )
        # Codes of one slab are scanned as a whole, in any order.
        slabs = len(slab_widths(-(-n_bits // 8)))
        order = BitOrder.fixed(n_bits).permutation if slabs > 1 else np.arange(n_bits)
        return cls(
            GivenMap(order.astype(np.int32)),
            np.arange(n_bits, dtype=np.int32),
            np.zeros(n_bits, dtype=np.float32),
            None,
            (n_bits,),
            params={"n_bits": n_bits, "bits": bits}
            | ({} if bitorder == "little" else {"bitorder": bitorder}),
            bits=bits,
            bitorder=bitorder,
        )

    @cached_property
    def order(self) -> BitOrder | None:
        """Permutation from codes as they are given to codes as they are kept; None where it changes nothing."""
        permutation = self.projection.arrays()["permutation"].astype(np.int64)
        if self.bitorder == "big":
            permutation ^= 7  # value r is bit 7 - r % 8 of its byte
        return None if (permutation == np.arange(self.n_bits)).all() else BitOrder(permutation)

    @property
    def tells(self) -> bool:
        """Whether distances mean something beyond themselves."""
        return self.bits == ROTATION

    @cached_property
    def calibration(self) -> Calibration:
        """What distances mean, if the values are a rotation's."""
        from bilsh.encoders.angle_calibration import AngleCalibration

        return AngleCalibration(self)

    def enter(self, X: Any) -> Any:
        """Let values pass only where bits are their signs."""
        if self.bits is None:
            raise InvalidTypeError(
                "these codes were made elsewhere, so there is nothing to encode descriptors with. Pass codes, or say "
                f"that bits are signs of values: bits='{SIGN}'."
            )
        return super().enter(X)

    def exact(self, A: NDArray[Any], B: NDArray[Any]) -> NDArray[np.float64]:
        """Angles between values."""
        return angles(A, B)

    @classmethod
    def restore(
        cls, common: dict[str, Any], fitted: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> ForeignCoder:
        """Rebuild the coder from what was saved."""
        bits = common["params"]["bits"]
        if bits not in MEANINGS:
            raise ValueError(f"bits that are {bits!r}")
        bitorder = common["params"].get("bitorder", "little")
        if bitorder not in get_args(BitPacking):
            raise ValueError(f"bits packed {bitorder!r}")
        return cls(**common, bits=bits, bitorder=bitorder)


CODERS[ForeignCoder.kind] = ForeignCoder
MAPS[GivenMap.kind] = GivenMap
