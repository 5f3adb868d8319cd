"""What a fitted encoder is: a projection that was drawn, and how each bit is made of it. It never changes.

Encoding needs nothing else, above all not scikit-learn, whose import takes longer than answering a query.
:mod:`bilsh.encoders.estimators` fits coders and holds them; a store that is only searched uses them as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bilsh import _native
from bilsh.codes import BitOrder
from bilsh.encoders import file
from bilsh.encoders.neighbourhood import angles, distances
from bilsh.errors import InvalidInputError
from bilsh.projections import LinearMap, Plan
from bilsh.projections.base import Bytes, Integers
from bilsh.projections.kernels import Kernel, kernel_named
from bilsh.theory.hit_sample import HitSample
from bilsh.theory.spread import SignSpread, SpectrumSpread
from bilsh.types import Values
from bilsh.validation import (
    as_descriptors,
    check_choice,
    check_integer,
    check_positive,
    check_shape,
    float32_blocks,
    is_plain,
    nonfinite_error,
    rows_per_block,
    thread_count,
)

if TYPE_CHECKING:
    from bilsh.encoders.calibration import Calibration

TURN = 2 * np.pi
THRESHOLDS = ("zero", "random")
NOT_HAMMING = "codes of EuclideanEncoder are not compared by Hamming distance: their bits differ in weight. "


@dataclass(frozen=True, eq=False)
class Coder:
    """Turns descriptors into codes.

    Attributes
    ----------
    projection : LinearMap
        The drawn projection.
    outputs : int32 array (n_bits,)
        Which output of the projection each bit uses; numbered in the order of their first use.
    offsets : float32 array (n_bits,)
        Added to the projection: -w . mean of angle codes; b in turns of kernel codes.
    tau : float32 array (n_bits,) or None
        Kernel codes: a bit is 1 where the value is within tau turns of a whole number. None: where it is >= 0.
    input_shape : tuple of int
        Shape of a descriptor, (d,) or (d_w, d_v).
    norm_ratio : float
        Mean norm of the centred data over the mean distance to the 10th neighbour, on a sample.
    params : mapping
        Settings of the estimator, plain JSON values; they travel in encoder files.
    feature_names : tuple of str or None
        Names of columns, where the data at fit had some.
    hits, score_hits : HitSample or None
        What a sample of the data told about hits ranked by distances, and by scores; None where none was taken.
    """

    kind: ClassVar[str]
    by_hamming: ClassVar[bool] = True
    """Whether codes are compared by Hamming distance; else by what they stand for."""

    projection: LinearMap
    outputs: Integers
    offsets: Values
    tau: Values | None
    input_shape: tuple[int, ...]
    norm_ratio: float = np.nan
    params: Mapping[str, Any] = field(default_factory=dict)
    feature_names: tuple[str, ...] | None = None
    hits: HitSample | None = None
    score_hits: HitSample | None = None

    # -- what it is --------------------------------------------------------------------------------------

    @cached_property
    def n_bits(self) -> int:
        """Length of a code."""
        return len(self.outputs)

    @cached_property
    def n_bytes(self) -> int:
        """Bytes of a code."""
        return -(-self.n_bits // 8)

    @cached_property
    def n_features(self) -> int:
        """Numbers in a descriptor, d."""
        return prod(self.input_shape)

    @property
    def scale(self) -> float:
        """Factor between the projection's outputs and the values that are quantised."""
        return 1.0

    @property
    def tells(self) -> bool:
        """Whether distances between its codes mean something beyond themselves."""
        return True

    @cached_property
    def order(self) -> BitOrder | None:
        """Permutation under which codes that were made elsewhere are kept; None for its own."""
        return None

    @property
    def parameter_bytes(self) -> int:
        """Bytes of all numbers that encoding needs."""
        return sum(array.nbytes for array in file.code_arrays(self).values())

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all that determines the codes, in hexadecimal."""
        return file.fingerprint(self)

    @cached_property
    def plan(self) -> Plan:
        """The compiled recipe."""
        return self.projection.plan(self.outputs, self.scale, self.offsets, self.tau)

    @cached_property
    def calibration(self) -> Calibration:
        """What distances of its codes mean."""
        raise TypeError(f"{type(self).__name__} does not say what its codes mean.")

    def exact(self, A: NDArray[Any], B: NDArray[Any]) -> NDArray[np.float64]:
        """True primary quantity (distance or angle) between descriptors, all against all."""
        raise TypeError(f"{type(self).__name__} does not say what its codes mean.")

    # -- what it does ------------------------------------------------------------------------------------

    def encode(self, X: Any, *, n_jobs: int | None = None) -> Bytes:
        """Encode descriptors (n, d) or (n, d_w, d_v); packed codes (n, n_bytes).

        Parameters
        ----------
        X : array
            Descriptors of the shape seen at fit; n may be 0.
        n_jobs : int, optional
            Threads, as in scikit-learn. The codes do not depend on it.
        """
        if self.fits(X):
            return self.encode_fitting(X, n_jobs)
        X = self.enter(X)
        rows = rows_per_block(self.n_features, self.projection.block_bytes)
        codes: Bytes = self._run(self.plan.encode, X, rows, self.n_bytes, np.uint8, n_jobs)
        return codes

    def encode_fitting(self, X: NDArray[np.float32], n_jobs: int | None) -> Bytes:
        """Encode what :meth:`fits`, without another look at it."""
        rows = X if X.ndim == 2 else X.reshape(len(X), self.n_features)
        try:
            return self.plan.encode(rows, thread_count(n_jobs))
        except _native.NonFiniteError:
            raise nonfinite_error(X, 0, rows) from None

    def values(self, X: Any, *, n_jobs: int | None = None) -> Values:
        """Real values (n, n_bits) that the bits are made from; in turns for kernel codes."""
        X = self.enter(X)
        rows = rows_per_block(max(self.n_features, self.n_bits))
        values: Values = self._run(self.plan.project, X, rows, self.n_bits, np.float32, n_jobs)
        return values

    def quantize(self, values: Values) -> Bytes:
        """Codes of ready :meth:`values`, the same that :meth:`encode` makes of the descriptors."""
        return _native.quantize(values, self.tau)

    def phases(self, X: Any, *, n_jobs: int | None = None) -> Values:
        """Real values (n, n_bits) that the bits are made from; in radians for kernel codes."""
        values = self.values(X, n_jobs=n_jobs)
        return values if self.tau is None else values * np.float32(TURN)

    def truncated(self, n_bits: int) -> Self:
        """Return the coder of the first ``n_bits`` bits; its codes are the prefixes of this one's codes."""
        n_bits = check_integer("n_bits", n_bits, minimum=1)
        if n_bits > self.n_bits:
            raise InvalidInputError(
                f"n_bits must be at most {self.n_bits}, the bits of this encoder; got {n_bits}."
            )
        # Outputs are numbered in the order of their first use, so a prefix of the bits uses a prefix of them.
        outputs = self.outputs[:n_bits]
        return replace(
            self,
            projection=self.projection.take(int(outputs.max()) + 1),
            outputs=outputs,
            offsets=self.offsets[:n_bits],
            tau=None if self.tau is None else self.tau[:n_bits],
            params={**self.params, "n_bits": n_bits},
            hits=None,
            score_hits=None,
        )

    # -- the door ----------------------------------------------------------------------------------------

    def fits(self, X: Any) -> bool:
        """Tell at once that X needs no check: a single item should not wait for its formalities."""
        return is_plain(X) and X.shape[1:] == self.input_shape

    def enter(self, X: Any) -> Any:
        """Check X against what was fitted; return an array (n, ...) or a CSR matrix."""
        sparse = self.projection.accepts_sparse
        return X if self.fits(X) else check_shape(as_descriptors(X, accept_sparse=sparse), self.input_shape)

    def _run(
        self,
        method: Callable[[Values, int], Any],
        X: Any,
        rows: int,
        width: int,
        dtype: type[Any],
        n_jobs: int | None,
    ) -> NDArray[Any]:
        """Pass descriptors through a method of the plan: as they lie, or converted in blocks of ``rows``."""
        threads = thread_count(n_jobs)
        start, block = 0, X
        try:
            if is_plain(X):
                block = X.reshape(len(X), self.n_features)
                return np.asarray(method(block, threads))
            result = np.empty((X.shape[0], width), dtype=dtype)
            for start, block in float32_blocks(X, rows):
                result[start : start + len(block)] = method(block, threads)
            return result
        except _native.NonFiniteError:
            raise nonfinite_error(X, start, block) from None

    # -- files -------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return the content of an encoder file; see :mod:`bilsh.encoders.file`."""
        return file.to_bytes(self)

    @classmethod
    def from_bytes(cls, data: bytes, source: str = "the encoder data") -> Coder:
        """Rebuild a coder from the content of an encoder file; CorruptEncoderError says what is wrong with it."""
        return file.from_bytes(data, source, CODERS)

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What fitting learned beside the bits, for files: plain values, and arrays."""
        return {}, {}

    @classmethod
    def restore(
        cls, common: dict[str, Any], fitted: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Coder:
        """Inverse of :meth:`learned`; ValueError and its like say what does not fit together."""
        return cls(**common)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


@dataclass(frozen=True, eq=False)
class AngleCoder(Coder):
    """Sign codes, see :class:`bilsh.AngleEncoder`.

    Attributes
    ----------
    mean : float32 array of the input shape
        Mean of the data at fit; subtracted through the offsets.
    spread : SignSpread or None
        Bilinear projections: the law of the data's matrices, or how far pairs stray from angle / pi, if at all.
    """

    kind: ClassVar[str] = "angle"

    mean: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    spread: SignSpread | None = None

    @cached_property
    def calibration(self) -> Calibration:
        """What distances of its codes mean."""
        from bilsh.encoders.angle_calibration import AngleCalibration

        return AngleCalibration(self)

    def exact(self, A: NDArray[Any], B: NDArray[Any]) -> NDArray[np.float64]:
        """Angles between centred descriptors."""
        return angles(A - self.mean, B - self.mean)

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the mean."""
        spread = {} if self.spread is None else {"spread_": self.spread.to_array()}
        return {}, {"mean_": self.mean, **spread}

    @classmethod
    def restore(
        cls, common: dict[str, Any], fitted: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> AngleCoder:
        """Inverse of :meth:`learned`."""
        spread = SignSpread.from_array(arrays["spread_"]) if "spread_" in arrays else None
        return cls(**common, mean=arrays["mean_"], spread=spread)


@dataclass(frozen=True, eq=False)
class KernelCoder(Coder):
    """Kernel codes, see :class:`bilsh.KernelEncoder`.

    Attributes
    ----------
    kernel : Kernel
        The kernel that the code is named after.
    thresholds : {"zero", "random"}
    bandwidth : float
    quadrature : bool
        Whether outputs give two bits, a quarter turn apart.
    spectrum : float64 array or None
        Bilinear projections: mean normalised spectrum of sampled differences.
    spread : SpectrumSpread or None
        How spectra of differences vary about it; None where they hardly do (large scrambled matrices).
    """

    kind: ClassVar[str] = "kernel"

    kernel: Kernel = field(kw_only=True)
    thresholds: str = field(kw_only=True)
    bandwidth: float = field(kw_only=True)
    quadrature: bool = False
    spectrum: NDArray[np.float64] | None = None
    spread: SpectrumSpread | None = None

    @property
    def scale(self) -> float:
        """Turns per unit of the projection."""
        return 1.0 / (TURN * self.bandwidth)

    @cached_property
    def calibration(self) -> Calibration:
        """What distances of its codes mean."""
        from bilsh.encoders.kernel_calibration import KernelCalibration

        return KernelCalibration(self)

    def exact(self, A: NDArray[Any], B: NDArray[Any]) -> NDArray[np.float64]:
        """Distances that the kernel depends on."""
        return distances(A, B, self.kernel.metric)

    @property
    def t(self) -> NDArray[np.float64]:
        """Threshold t of every bit, in [-1, 1]."""
        tau = np.asarray(self.tau)
        return np.where(tau == np.float32(0.25), 0.0, -np.cos(TURN * tau.astype(np.float64)))

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return bandwidth, quadrature and spectrum."""
        arrays = {} if self.spectrum is None else {"difference_spectrum_": self.spectrum}
        if self.spread is not None:
            arrays["spread_"] = self.spread.to_array()
        return {"bandwidth_": self.bandwidth, "quadrature_": self.quadrature}, arrays

    @classmethod
    def restore(
        cls, common: dict[str, Any], fitted: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> KernelCoder:
        """Inverse of :meth:`learned`."""
        params = common["params"]
        if common["tau"] is None:
            raise ValueError("kernel codes need thresholds, which are not there")
        return cls(
            **common,
            kernel=kernel_named(params["kernel"], params["nu"], prod(common["input_shape"])),
            thresholds=check_choice("thresholds", params["thresholds"], THRESHOLDS),
            bandwidth=check_positive("bandwidth", fitted["bandwidth_"]),
            quadrature=bool(fitted["quadrature_"]),
            spectrum=arrays.get("difference_spectrum_"),
            spread=SpectrumSpread.from_array(arrays["spread_"]) if "spread_" in arrays else None,
        )

    def __getstate__(self) -> dict[str, Any]:
        # A kernel is functions; its name and settings bring it back.
        return {name: value for name, value in super().__getstate__().items() if name != "kernel"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        kernel = kernel_named(self.params["kernel"], self.params["nu"], self.n_features)
        object.__setattr__(self, "kernel", kernel)


CODERS: dict[str, type[Coder]] = {"angle": AngleCoder, "kernel": KernelCoder}
"""Coders by the kind that encoder files name."""
