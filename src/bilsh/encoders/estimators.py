"""Descriptors -> binary codes: which similarity the Hamming distance tells.

AngleEncoder keeps angles (eq. 1, 5), KernelEncoder keeps shift-invariant kernels (eq. 4, 8). Both take any of the
four projections. What they share (the door, drawing, packing, files) is in :class:`Encoder`.
"""

from __future__ import annotations

import warnings
from abc import ABCMeta, abstractmethod
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bilsh import _native
from bilsh.encoders import file as encoder_file
from bilsh.encoders import neighbourhood
from bilsh.encoders.coder import TURN, AngleCoder, Coder, KernelCoder
from bilsh.errors import EncoderAdvice, InvalidInputError
from bilsh.projections import BilinearMap, Projection, as_projection
from bilsh.projections.base import Bytes, Integers
from bilsh.projections.kernels import GAUSSIAN, SpectralDistribution, spectral_distribution
from bilsh.validation import (
    as_descriptors,
    check_choice,
    check_integer,
    check_positive,
    finite_blocks,
)

MAX_BITS = 2**28
"""Longest code; distances are counted in 32 bits."""

NORM_RATIO_BOUNDARY = 1.7
"""Below this ratio of centred norm to neighbour distance sign codes serve better, above it kernel codes."""


def seed_sequence(random_state: Any) -> np.random.SeedSequence:
    """Turn scikit-learn's random_state (None, int, RandomState or Generator) into one seed sequence."""
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(int(random_state.integers(2**63)))
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(int(random_state.randint(2**31)))
    if random_state is None:
        return np.random.SeedSequence()
    return np.random.SeedSequence(check_integer("random_state", random_state, minimum=0))


class Encoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, Coder, metaclass=ABCMeta):  # type: ignore[misc]
    """What both encoders share. A fitted encoder is a projection that was drawn, and one offset per bit.

    The attributes below ``fit`` that end in an underscore are explained in the classes that users see.
    """

    n_bits: int
    projection: Any
    random_state: Any
    n_jobs: int | None

    # -- fitting ---------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the projection for descriptors like X, and learn from X what the encoder needs of the data.

        Parameters
        ----------
        X : array (n, d) or (n, d_w, d_v)
            Descriptors: vectors or matrices. At least one.
        y : ignored
            For scikit-learn's pipelines.

        Returns
        -------
        self
        """
        n_bits = check_integer("n_bits", self.n_bits, minimum=1)
        if n_bits > MAX_BITS:
            raise InvalidInputError(f"n_bits must be at most {MAX_BITS}; got {n_bits}.")
        projection = as_projection(self.projection)
        X = self._enter(X, reset=True)
        if X.shape[0] == 0:
            raise InvalidInputError(
                f"X has 0 sample(s) (shape={X.shape}) while a minimum of 1 is required to fit."
            )
        draws = [np.random.default_rng(s) for s in seed_sequence(self.random_state).spawn(4)]
        try:
            self._fit(X, n_bits, projection, *draws)
        except _native.NonFiniteError:
            raise InvalidInputError(
                "The projection of the mean of X overflows float32. Scale the data first, e.g. X / np.abs(X).max()."
            ) from None
        self._plan = self._compile()
        return self

    @abstractmethod
    def _fit(
        self,
        X: Any,
        n_bits: int,
        projection: Projection,
        projection_rng: np.random.Generator,
        offsets_rng: np.random.Generator,
        order_rng: np.random.Generator,
        sample_rng: np.random.Generator,
    ) -> None:
        """Set projection_, outputs_, _offsets, _tau and what the subclass learns."""

    def _advise(self, other: str, better: bool) -> None:
        if better:
            warnings.warn(
                f"The centred data have {self.norm_ratio_:.2f} times the norm of the distance to the 10th neighbour; "
                f"on such data (boundary about {NORM_RATIO_BOUNDARY}) {other} usually finds neighbours better.",
                EncoderAdvice,
                stacklevel=4,
            )

    # -- the door --------------------------------------------------------------------------------

    def _enter(self, X: Any, *, reset: bool) -> Any:
        """Check X against what was fitted, or remember its shape; return an array (n, ...) or a CSR matrix."""
        original = X
        X = as_descriptors(X, accept_sparse=as_projection(self.projection).accepts_sparse)
        if reset:
            self.input_shape_ = tuple(int(size) for size in X.shape[1:])
        elif X.ndim == 3 and X.shape[1:] != self.input_shape_:
            raise InvalidInputError(self._wrong_shape(X))
        if X.ndim == 2:
            # scikit-learn compares names and number of columns; flat rows of fitted matrices have no names.
            validate_data(self, original, reset=reset, skip_check_array=True)
        elif reset:
            self.n_features_in_ = int(np.prod(self.input_shape_))
            self.__dict__.pop("feature_names_in_", None)
        return X

    # -- encoding --------------------------------------------------------------------------------

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
        # Defined here too, since scikit-learn's set_output wraps only what the estimator itself defines.
        return super().transform(X)

    def _enter_fitted(self, X: Any) -> Any:
        if hasattr(self, "_plan") and self._fits(X) and not hasattr(self, "feature_names_in_"):
            return X
        check_is_fitted(self)
        return self._enter(X, reset=False)

    # -- what a fitted encoder tells ----------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return self.n_bytes_

    # -- files -----------------------------------------------------------------------------------

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all that determines the codes, in hexadecimal."""
        check_is_fitted(self)
        return super().fingerprint

    def to_bytes(self) -> bytes:
        """Return the encoder as the content of an encoder file; see :func:`bilsh.encoder_from_bytes`."""
        check_is_fitted(self)
        return encoder_file.to_bytes(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the encoder to a file: its parameters themselves, checksummed, without pickle.

        The file appears under its name only when it is complete and on the disk.
        """
        check_is_fitted(self)
        encoder_file.save(self, path)

    def truncated(self, n_bits: int) -> Self:
        """Return the encoder of the first ``n_bits`` bits; its codes are the prefixes of this one's codes.

        Parameters
        ----------
        n_bits : int
            From 1 to this encoder's number of bits.
        """
        check_is_fitted(self)
        n_bits = check_integer("n_bits", n_bits, minimum=1)
        if n_bits > len(self.outputs_):
            raise InvalidInputError(
                f"n_bits must be at most {len(self.outputs_)}, the bits of this encoder; got {n_bits}."
            )
        short = type(self)(**{**self.get_params(deep=False), "n_bits": n_bits})
        short.__dict__.update({k: v for k, v in vars(self).items() if k.endswith("_") or k.startswith("_")})
        # Outputs are numbered in the order of their first use, so a prefix of the bits uses a prefix of them.
        short.outputs_ = self.outputs_[:n_bits]
        short.projection_ = self.projection_.take(int(short.outputs_.max()) + 1)
        short._offsets = self._offsets[:n_bits]
        short._tau = None if self._tau is None else self._tau[:n_bits]
        short._plan = short._compile()
        return short

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_plan", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "projection_" in state:
            self._plan = self._compile()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_plan")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.sparse = as_projection(self.projection).accepts_sparse
        tags.transformer_tags.preserves_dtype = []
        return tags


class AngleEncoder(AngleCoder, Encoder):
    r"""Codes whose Hamming distance tells the angle between centred descriptors (eq. 1; bilinear: eq. 5).

    Bit r is :math:`[w_r^\top (x - \mu) \ge 0]`. With dense projections two codes differ in a fraction
    :math:`\theta / \pi` of their bits on average; with structured ones approximately so.

    Parameters
    ----------
    n_bits : int, default=1024
        Length of a code.
    projection : {"bilinear", "dense", "circulant", "hadamard"} or object, default="bilinear"
        How the real numbers behind the bits are made; an object carries settings of its own.
    random_state : int, RandomState, Generator or None, default=None
        Seed of everything that is drawn.
    n_jobs : int or None, default=None
        Threads, as in scikit-learn: None is 1, -1 is all cores. The codes do not depend on it.

    Attributes
    ----------
    mean_ : array of the descriptors' shape
        Mean of the data at fit, which is subtracted.
    projection_ : object
        The drawn projection with its arrays.
    outputs_ : array (n_bits,)
        Which output of the projection each bit uses.
    offsets_ : array (n_bits,)
        -w_r . mean: what is added to the projection before the sign is taken.
    norm_ratio_ : float
        Norm of the centred data over the distance to the 10th neighbour, on a sample: what decides between angle
        and kernel codes. Above about 1.7 an :class:`EncoderAdvice` warning recommends the other one.
    matrix_shape_ : (int, int) or None
        Matrix that a bilinear projection sees.

    References
    ----------
    Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002. Gong et al., "Learning binary
    codes for high-dimensional data using bilinear projections", CVPR 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from bilsh import AngleEncoder
    >>> X = np.random.default_rng(0).normal(size=(200, 8, 8))
    >>> AngleEncoder(n_bits=100, random_state=0).fit(X).transform(X).shape
    (200, 13)
    """

    def __init__(
        self,
        n_bits: int = 1024,
        projection: Any = "bilinear",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.projection = projection
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit(
        self,
        X: Any,
        n_bits: int,
        projection: Projection,
        projection_rng: np.random.Generator,
        offsets_rng: np.random.Generator,
        order_rng: np.random.Generator,
        sample_rng: np.random.Generator,
    ) -> None:
        total = np.zeros(self.n_features_in_)
        for _, block in finite_blocks(X):
            total += block.sum(axis=0, dtype=np.float64)
        mean = (total / X.shape[0]).astype(np.float32)
        self.mean_ = mean.reshape(self.input_shape_)
        self.norm_ratio_ = neighbourhood.measure(X, sample_rng).norm_ratio
        self.projection_ = projection.draw(self.input_shape_, n_bits, projection_rng, GAUSSIAN)
        self.outputs_ = np.arange(n_bits, dtype=np.int32)
        self._tau = None
        # The same chain of operations projects the mean and the data, so the mean itself lands exactly on 0.
        self._offsets = np.zeros(n_bits, dtype=np.float32)
        self._offsets = -self._compile().project(mean[None])[0]
        self._advise("KernelEncoder", self.norm_ratio_ > NORM_RATIO_BOUNDARY)


class KernelEncoder(KernelCoder, Encoder):
    r"""Codes whose Hamming distance tells a shift-invariant kernel (LSH-SIK, eq. 4; bilinear: eq. 8).

    Bit r is :math:`[\cos(w_r^\top x / \sigma + b_r) + t_r \ge 0]`. The defaults go past the paper: a scrambled,
    orthogonal bilinear grid with zero thresholds matches the dense method at a fraction of its cost. The paper's
    own methods are :func:`bilsh.lsh_sik` and :func:`bilsh.blsh_sik`.

    Parameters
    ----------
    n_bits : int, default=1024
        Length of a code.
    kernel : {"gaussian", "laplacian", "cauchy", "matern"}, default="gaussian"
        The kernel; all but the Gaussian need ``projection="dense"``.
    bandwidth : float or "auto", default="auto"
        :math:`\sigma`. "auto" is the paper's rule on a sample: the mean distance to the 50th neighbour becomes 1.
    thresholds : {"zero", "random"}, default="zero"
        t = 0 for every bit, or t ~ U[-1, 1] as in the paper. Zero carries 1.8 times the information per bit.
    quadrature : bool or "auto", default="auto"
        A second bit per projection, at b - pi/2 (zero thresholds only). "auto": when n_bits exceeds the dimension.
    nu : float, optional
        Smoothness of the Matern kernel; 1.5 if not given.
    projection : {"bilinear", "dense", "circulant", "hadamard"} or object, default="bilinear"
        How the real numbers behind the bits are made; an object carries settings of its own.
    random_state : int, RandomState, Generator or None, default=None
        Seed of everything that is drawn.
    n_jobs : int or None, default=None
        Threads, as in scikit-learn: None is 1, -1 is all cores. The codes do not depend on it.

    Attributes
    ----------
    bandwidth_ : float
        The bandwidth in use.
    quadrature_ : bool
        Whether projections give two bits.
    offsets_, thresholds_ : array (n_bits,)
        b in [0, 2 pi) and t of every bit.
    projection_, outputs_, matrix_shape_, norm_ratio_
        As in :class:`AngleEncoder`; here the advice is given below a ratio of about 1.7.
    difference_spectrum_ : array (min(d_w, d_v),) or None
        Bilinear projections: mean normalised spectrum of sampled data differences, used by estimates.

    References
    ----------
    Raginsky and Lazebnik, "Locality-sensitive binary codes from shift-invariant kernels", NIPS 2009. Kim and Choi,
    "Bilinear random projections for locality-sensitive binary codes", CVPR 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from bilsh import KernelEncoder
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(10, 64)).repeat(20, axis=0) + 0.1 * rng.normal(size=(200, 64))  # ten clusters
    >>> KernelEncoder(n_bits=100, bandwidth=3.0, random_state=0).fit(X).transform(X).shape
    (200, 13)
    """

    def __init__(
        self,
        n_bits: int = 1024,
        kernel: str = "gaussian",
        bandwidth: float | str = "auto",
        thresholds: str = "zero",
        quadrature: bool | str = "auto",
        nu: float | None = None,
        projection: Any = "bilinear",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.thresholds = thresholds
        self.quadrature = quadrature
        self.nu = nu
        self.projection = projection
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit(
        self,
        X: Any,
        n_bits: int,
        projection: Projection,
        projection_rng: np.random.Generator,
        offsets_rng: np.random.Generator,
        order_rng: np.random.Generator,
        sample_rng: np.random.Generator,
    ) -> None:
        spectral = spectral_distribution(self.kernel, self.nu)
        thresholds = check_choice("thresholds", self.thresholds, ("zero", "random"))
        self.quadrature_ = self._use_quadrature(n_bits, thresholds)
        self._fit_bandwidth(X, spectral, sample_rng)

        n_outputs = -(-n_bits // 2) if self.quadrature_ else n_bits
        self.projection_ = projection.draw(self.input_shape_, n_outputs, projection_rng, spectral)
        turns = offsets_rng.random(n_outputs)
        t = offsets_rng.uniform(-1, 1, n_outputs) if thresholds == "random" else np.zeros(n_outputs)
        self.outputs_ = np.arange(n_outputs, dtype=np.int32)
        if self.quadrature_:
            self.outputs_, second = _paired_order(n_outputs, n_bits, order_rng)
            turns = (turns[self.outputs_] - 0.25 * second) % 1.0
            t = t[self.outputs_]
        self._offsets = turns.astype(np.float32)
        self._tau = (np.arccos(-t) / TURN).astype(np.float32)

        self.difference_spectrum_ = None
        if isinstance(self.projection_, BilinearMap):
            matrices = self.projection_.matrices
            self.difference_spectrum_ = neighbourhood.difference_spectrum(X, matrices, sample_rng)
        self._advise("AngleEncoder with asymmetric queries", self.norm_ratio_ < NORM_RATIO_BOUNDARY)

    def _use_quadrature(self, n_bits: int, thresholds: str) -> bool:
        if isinstance(self.quadrature, bool | np.bool_):
            if self.quadrature and thresholds != "zero":
                raise InvalidInputError("quadrature=True needs thresholds='zero'; got thresholds='random'.")
            return bool(self.quadrature)
        if self.quadrature != "auto":
            raise InvalidInputError(f"quadrature must be True, False or 'auto'; got {self.quadrature!r}.")
        return thresholds == "zero" and n_bits > self.n_features_in_

    def _fit_bandwidth(self, X: Any, spectral: SpectralDistribution, rng: np.random.Generator) -> None:
        if isinstance(self.bandwidth, str) and self.bandwidth != "auto":
            raise InvalidInputError(f"bandwidth must be a number > 0 or 'auto'; got {self.bandwidth!r}.")
        measured = neighbourhood.measure(X, rng, "cityblock" if spectral.name == "laplacian" else "euclidean")
        self.norm_ratio_ = measured.norm_ratio
        if isinstance(self.bandwidth, str):
            self.bandwidth_ = measured.bandwidth_distance
        else:
            self.bandwidth_ = check_positive("bandwidth", self.bandwidth)


def _paired_order(
    n_outputs: int, n_bits: int, rng: np.random.Generator
) -> tuple[Integers, NDArray[np.int64]]:
    """Put both bits of every output in one random order; number the outputs in the order of their first use.

    Returns
    -------
    outputs, second : arrays (n_bits,)
        Output of each bit, and 1 where the bit is the one at b - pi/2.
    """
    output, second = np.divmod(rng.permutation(2 * n_outputs)[:n_bits], 2)
    used, first = np.unique(output, return_index=True)
    number = np.empty(n_outputs, dtype=np.int32)
    number[used[np.argsort(first)]] = np.arange(len(used), dtype=np.int32)
    return number[output], second
