"""A transform learned for each of some centres, and how many bits each of its coordinates gets.

The paper's bilinear projection made to fit the data: for descriptors that are matrices the frame of a centre is a pair
of rotations, R = W (X - C) V^T, the eigenvectors of the covariances of rows and columns (2D-PCA); for vectors it is a
plain rotation. The layout of the codes stands in ``native/transform.h``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bilsh import _native
from bilsh.projections.base import Integers, LinearMap
from bilsh.types import Values

HEADER_BYTES = 4
"""Of a code before its bits: centre, scale, what is added to estimates, error."""
LEVELS = 256
"""Values of each of these bytes."""
MOST_CENTRES = 256
MOST_DEPTH = 12
"""Bits of a coordinate."""


@dataclass(frozen=True, slots=True)
class TransformMap(LinearMap):
    """Centres with their frames and quantisers.

    Attributes
    ----------
    centres : float32 array (c, d)
    left, right : float32 arrays (c, a, d_w) and (c, b, d_v), or None
        Rows of W and V of each centre; None for plain rotations.
    pairs : int32 array (m, 2) or None
        Rows of W and of V that make each coordinate, centre by centre.
    basis : float32 array (m, d) or None
        Directions of all coordinates of plain rotations, centre by centre.
    counts : int32 array (c,)
        Coordinates of each centre.
    coordinates : int32 array (c, bits)
        Which of its centre's coordinates a bit tells of, the highest bit of a coordinate first; -1 where there is none.
    steps, depths : float32 and int32 arrays (m,)
        Width of a cell of each coordinate of differences of length 1, and its number of bits.
    scales : float32 array (256,)
        What the values of the scale byte stand for, ascending from 0.
    errors : float32 array (255,)
        What the values of the error byte stand for, ascending; one more stands for all that is larger.
    stretches : float32 array (n,)
        Lengths that are tried for an item beside its own are its own divided by these; none in encoders of before.
    add_least, add_step, share : float
        Beginning and width of the steps of the added number |r|^2 + share |x - x_hat|^2 / scale^2.
    n_bytes : int
        Bytes of a code that are kept; fewer than all for prefixes.
    absolute : bool
        Whether the added number is scale^2 times that: of the item as it is, not of an item of scale 1.
    origin : float32 array (d,) or None
        What is taken off items, queries and centres before anything else: numbers that many items have, which leaves
        zeros, and what a single item has as zeros costs nothing.
    """

    kind: ClassVar[str] = "transform"

    centres: Values
    left: Values | None
    right: Values | None
    pairs: Integers | None
    basis: Values | None
    counts: Integers
    coordinates: Integers
    steps: Values
    depths: Integers
    scales: Values
    errors: Values
    stretches: Values
    add_least: float
    add_step: float
    share: float
    n_bytes: int
    absolute: bool = False
    origin: Values | None = None

    @property
    def n_outputs(self) -> int:
        """Bits of a code, its header included."""
        return 8 * self.n_bytes

    @property
    def n_centres(self) -> int:
        """Number of centres."""
        return len(self.centres)

    @property
    def separable(self) -> bool:
        """Whether frames are pairs of rotations."""
        return self.pairs is not None

    @property
    def whole_bytes(self) -> int:
        """Bytes of a whole code."""
        return HEADER_BYTES + int(self.coordinates.shape[1]) // 8

    @property
    def multiply_adds(self) -> int:
        """About how many multiply-adds an item costs."""
        d = int(self.centres.shape[1])
        m = int(self.counts.max(initial=1))
        frame = m * d if self.left is None or self.right is None else d * min(m, self.left.shape[1]) + m * 64
        return (d if self.n_centres == 1 else d * self.n_centres) + frame

    def spans(self) -> list[slice]:
        """Coordinates of each centre among all."""
        ends = np.cumsum(self.counts)
        return [slice(int(end - count), int(end)) for end, count in zip(ends, self.counts, strict=True)]

    def frames(self) -> tuple[_native.Plan, ...]:
        """Return, for each centre, what makes the coordinates of x - centre."""
        plans = []
        for c, span in enumerate(self.spans()):
            zero = np.zeros(span.stop - span.start, dtype=np.float32)
            # The same chains project centre and item, so that the centre itself lands exactly on 0.
            offset = -self._frame(c, span, zero).project(self._seen[c : c + 1])[0]
            plans.append(self._frame(c, span, offset))
        return tuple(plans)

    @property
    def _seen(self) -> Values:
        """Centres (c, d) from the origin."""
        return self.centres if self.origin is None else self.centres - self.origin

    def directions(self, c: int, axes: Values) -> Values:
        """Coordinates (p, m) of axes (p, d) themselves in the frame of a centre."""
        span = self.spans()[c]
        return self._frame(c, span, np.zeros(span.stop - span.start, dtype=np.float32)).project(axes)

    def _frame(self, c: int, span: slice, offsets: Values) -> _native.Plan:
        if self.left is None or self.right is None or self.pairs is None:
            basis = np.ascontiguousarray(np.asarray(self.basis)[span])
            return _native.DensePlan(basis, np.arange(len(basis), dtype=np.int32), offsets, None)
        pairs = np.ascontiguousarray(self.pairs[span])
        rows, columns = (len(np.unique(pairs[:, side])) for side in (0, 1))
        d = self.centres.shape[1]
        by_rows = rows * d + len(pairs) * self.right.shape[2]
        by_columns = columns * d + len(pairs) * self.left.shape[2]
        return _native.BilinearPlan(
            self.left[c], self.right[c], pairs, offsets, None, d, None, None, by_rows <= by_columns
        )

    def plan(  # type: ignore[override]
        self, outputs: Integers, scale: float, offsets: Values, tau: Values | None
    ) -> _native.TransformPlan:
        """Compile centres, frames and quantisers; there are no outputs to choose from."""
        centres = self._seen
        half = -0.5 * np.square(centres, dtype=np.float64).sum(axis=1)
        every = np.arange(len(centres), dtype=np.int32)
        return _native.TransformPlan(
            _native.DensePlan(centres, every, half.astype(np.float32), None),
            self.frames(),
            centres,
            self.coordinates,
            self.steps,
            self.depths,
            self.scales,
            self.errors,
            self.stretches,
            self.add_least,
            self.add_step,
            self.share,
            self.n_bytes,
            self.absolute,
            self.origin,
        )

    def take(self, n_outputs: int) -> Self:
        """Keep the first bytes of codes; header and bits stay those of whole codes."""
        return replace(self, n_bytes=n_outputs // 8)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that was learned."""
        names = (
            "centres",
            "left",
            "right",
            "pairs",
            "basis",
            "counts",
            "coordinates",
            "steps",
            "depths",
            "scales",
            "errors",
            "stretches",
            "origin",
        )
        found = {name: getattr(self, name) for name in names}
        return {name: array for name, array in found.items() if array is not None}

    def settings(self) -> dict[str, Any]:
        """Return the steps of the added number, and the bytes of a code."""
        found: dict[str, Any] = {
            "add_least": self.add_least,
            "add_step": self.add_step,
            "share": self.share,
            "n_bytes": self.n_bytes,
        }
        # Files and fingerprints of before have no such setting.
        return {**found, "absolute": True} if self.absolute else found

    @classmethod
    def restore(cls, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Rebuild the map; the compiled core checks that its parts fit together."""
        given: dict[str, Any] = {
            name: arrays.get(name) for name in ("left", "right", "pairs", "basis", "origin")
        }
        needed: dict[str, Any] = {
            name: arrays[name]
            for name in ("centres", "counts", "coordinates", "steps", "depths", "scales", "errors")
        }
        made = cls(
            **given,
            **needed,
            stretches=arrays.get("stretches", np.empty(0, dtype=np.float32)),
            add_least=float(settings["add_least"]),
            add_step=float(settings["add_step"]),
            share=float(settings["share"]),
            n_bytes=int(settings["n_bytes"]),
            absolute=bool(settings.get("absolute", False)),
        )
        if made.counts.ndim != 1 or len(made.counts) != len(made.centres) or made.counts.min(initial=1) < 1:
            raise ValueError("every centre needs its number of coordinates")
        if (made.basis is None) == (made.pairs is None) or (made.pairs is None) != (made.left is None):
            raise ValueError("frames must be either pairs of rotations or plain ones")
        return made
