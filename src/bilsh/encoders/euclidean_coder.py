"""What a fitted EuclideanEncoder is: a learned transform, and what a sample told about its errors. It never changes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bilsh import _native
from bilsh.codes import Codes
from bilsh.encoders.coder import CODERS, NOT_HAMMING, Coder
from bilsh.encoders.neighbourhood import distances
from bilsh.errors import InvalidInputError, InvalidTypeError
from bilsh.projections.transform import HEADER_BYTES, TransformMap
from bilsh.theory.error_angles import WIDENING, AngleTable
from bilsh.types import Floats, Values
from bilsh.validation import check_integer

BLOCK = 8192
"""Codes that are unpacked at a time."""

if TYPE_CHECKING:
    from bilsh.encoders.calibration import Calibration


@dataclass(frozen=True, eq=False)
class EuclideanCoder(Coder):
    """Transform codes, see :class:`bilsh.EuclideanEncoder`.

    Attributes
    ----------
    angles : AngleTable or None
        What a sample told about the angle between an error and the way to the query; None where none was taken.
    unit_norm : bool
        Whether the data at fit had length 1, so that distances tell cosines.
    """

    kind: ClassVar[str] = "euclidean"
    by_hamming: ClassVar[bool] = False

    angles: AngleTable | None = None
    unit_norm: bool = field(default=False, kw_only=True)

    @classmethod
    def of(cls, transform: TransformMap, input_shape: tuple[int, ...], **more: Any) -> EuclideanCoder:
        """Return the coder of a learned transform."""
        n_bits = transform.n_outputs
        every, none = np.arange(n_bits, dtype=np.int32), np.zeros(n_bits, dtype=np.float32)
        return cls(transform, every, none, None, input_shape, **more)

    @property
    def transform(self) -> TransformMap:
        """Centres, frames and quantisers."""
        if not isinstance(self.projection, TransformMap):
            raise InvalidTypeError(f"transform codes need a transform; got {self.projection.kind!r}.")
        return self.projection

    @property
    def tells(self) -> bool:
        """Whether Hamming distances between its codes mean something."""
        return False

    @cached_property
    def compiled(self) -> _native.TransformPlan:
        """The compiled recipe."""
        return self.transform.plan(self.outputs, 1.0, self.offsets, None)

    @cached_property
    def plan(self) -> Any:
        """The compiled recipe."""
        return self.compiled

    @cached_property
    def calibration(self) -> Calibration:
        """There is none."""
        raise InvalidTypeError(
            NOT_HAMMING + "Search with an Index or a Store, and ask its hits for estimates."
        )

    def values(self, X: Any, *, n_jobs: int | None = None) -> Values:
        """There are none: coordinates depend on the centre."""
        raise InvalidInputError("codes of EuclideanEncoder have no real value behind each bit.")

    def exact(self, A: NDArray[Any], B: NDArray[Any]) -> Floats:
        """Euclidean distances."""
        return distances(A, B, "euclidean")

    def truncated(self, n_bits: int) -> Self:
        """Return the coder of a prefix, in whole bytes; its codes are the prefixes of this one's codes."""
        n_bits = check_integer("n_bits", n_bits, minimum=8 * (HEADER_BYTES + 1))
        if n_bits > self.n_bits or n_bits % 8:
            raise InvalidInputError(
                f"a prefix has whole bytes, from {HEADER_BYTES + 1} to {self.n_bytes} of them; got {n_bits} bits."
            )
        return replace(
            self,
            projection=self.transform.take(n_bits),
            outputs=self.outputs[:n_bits],
            offsets=self.offsets[:n_bits],
            params={**self.params, "n_bytes": n_bits // 8},
            angles=None,
        )

    # -- codes back to descriptors -----------------------------------------------------------------------

    @cached_property
    def _worths(self) -> Floats:
        """How much a bit (c, bits) of a coordinate moves it from the middle, either way, at scale 1."""
        return np.stack([worth for worth, _ in map(self._bits_of, range(self.transform.n_centres))])

    def _bits_of(self, centre: int) -> tuple[Floats, NDArray[np.int32]]:
        transform = self.transform
        span = transform.spans()[centre]
        of = transform.coordinates[centre]
        steps, left = transform.steps[span].astype(np.float64), transform.depths[span].copy()
        worth = np.zeros(len(of))
        for bit, i in enumerate(of.tolist()):
            if i >= 0:
                left[i] -= 1
                worth[bit] = steps[i] * 2.0 ** (left[i] - 1)
        return worth, of

    def _decoded(self, codes: Codes, centre: int) -> Floats:
        """Coordinates (n, m) that codes of one centre stand for, at scale 1."""
        span = self.transform.spans()[centre]
        of, worth = self.transform.coordinates[centre], self._worths[centre]
        bits = np.unpackbits(codes[:, HEADER_BYTES:], axis=1, bitorder="little").astype(np.float64)
        n = bits.shape[1]
        told = of[:n] >= 0
        place = np.zeros((n, span.stop - span.start))
        place[np.flatnonzero(told), of[:n][told]] = worth[:n][told]
        return (2.0 * bits - 1.0) @ place

    def errors(self, codes: Codes) -> Floats:
        """Bound (n,) of the distance between each item and what its code stands for; infinite where it is not known."""
        levels = np.append(self.transform.errors.astype(np.float64), np.inf)
        cut = self._cut[np.minimum(codes[:, 0], self.transform.n_centres - 1)]
        return levels[codes[:, 3]] + self._scales(codes) * cut

    def _scales(self, codes: Codes) -> Floats:
        return self.transform.scales.astype(np.float64)[codes[:, 1]]

    @cached_property
    def _cut(self) -> Floats:
        """The most (c,) that the bits beyond a prefix could have told, at scale 1."""
        kept = 8 * (self.n_bytes - HEADER_BYTES)
        lost = []
        for centre in range(self.transform.n_centres):
            of, worth = self.transform.coordinates[centre][kept:], self._worths[centre][kept:]
            each = np.bincount(of[of >= 0], worth[of >= 0])
            lost.append(float(np.sqrt(np.square(each).sum())))
        return np.array(lost)

    def decode(self, codes: Codes) -> Floats:
        """Descriptors (n, ...) that codes stand for."""
        transform, out = self.transform, np.empty((len(codes), self.n_features))
        centre = np.minimum(codes[:, 0], transform.n_centres - 1)
        for c in np.unique(centre).tolist():
            mine, span = np.flatnonzero(centre == c), transform.spans()[c]
            r = self._decoded(codes[mine], c) * self._scales(codes[mine])[:, None]
            if transform.left is None or transform.right is None or transform.pairs is None:
                moved = r @ np.asarray(transform.basis)[span].astype(np.float64)
            else:
                left, right = transform.left[c].astype(np.float64), transform.right[c].astype(np.float64)
                grid = np.zeros((len(mine), len(left), len(right)))
                i, j = transform.pairs[span].T
                grid[:, i, j] = r
                moved = (left.T @ grid @ right).reshape(len(mine), -1)[:, : self.n_features]
            out[mine] = transform.centres[c] + moved
        return out.reshape(len(codes), *self.input_shape)

    def along(self, codes: Codes, axes: Values, n_jobs: int = 1) -> Values:
        """Coordinates (n, p) along axes (p, d) of what codes stand for, without making the descriptors."""
        transform, out = self.transform, np.empty((len(codes), len(axes)), dtype=np.float32)
        centre = np.minimum(codes[:, 0], transform.n_centres - 1)
        every, none = np.arange(len(axes), dtype=np.int32), np.zeros(len(axes), dtype=np.float32)
        middles = transform.centres.astype(np.float64) @ axes.T.astype(np.float64)
        for c in np.unique(centre).tolist():
            of, worth = transform.coordinates[c], self._worths[c]
            seen = transform.directions(c, axes)  # of each of its coordinates, by the axes
            weights = np.where(of >= 0, worth * seen[:, np.maximum(of, 0)], 0.0).astype(np.float32)
            kept = np.ascontiguousarray(weights[:, : 8 * (self.n_bytes - HEADER_BYTES)])
            plan = _native.DensePlan(kept, every, none, None)
            mine = np.flatnonzero(centre == c)
            for start in range(0, len(mine), BLOCK):
                rows = mine[start : start + BLOCK]
                bits = np.unpackbits(codes[rows, HEADER_BYTES:], axis=1, bitorder="little")
                told = plan.project(2.0 * bits.astype(np.float32) - 1.0, n_jobs)
                out[rows] = middles[c] + self._scales(codes[rows])[:, None] * told
        return out

    # -- files -------------------------------------------------------------------------------------------

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what a sample told."""
        if self.angles is None:
            return {"unit_norm_": self.unit_norm}, {}
        told: dict[str, Any] = {"unit_norm_": self.unit_norm, "angle_items_": self.angles.n_items}
        if self.angles.widening != WIDENING:  # files of before have no such number
            told["angle_widening_"] = self.angles.widening
        ranks = {} if self.angles.ranks is None else {"angle_ranks_": self.angles.ranks}
        return told, {"angles_": self.angles.to_array(), **ranks}

    @classmethod
    def restore(
        cls, common: dict[str, Any], fitted: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> EuclideanCoder:
        """Inverse of :meth:`learned`."""
        angles = None
        if "angles_" in arrays:
            angles = AngleTable.from_array(
                arrays["angles_"],
                int(fitted.get("angle_items_", 0)),
                arrays.get("angle_ranks_"),
                float(fitted.get("angle_widening_", WIDENING)),
            )
        return cls(**common, angles=angles, unit_norm=bool(fitted["unit_norm_"]))


def require_hamming(coder: Coder, what: str) -> None:
    """Refuse what counts differing bits, for codes whose bits differ in weight."""
    if not coder.by_hamming:
        raise InvalidInputError(NOT_HAMMING + what)


CODERS[EuclideanCoder.kind] = EuclideanCoder
