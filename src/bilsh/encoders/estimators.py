"""Descriptors -> binary codes: which similarity the Hamming distance tells.

AngleEncoder keeps angles (eq. 1, 6), KernelEncoder keeps shift-invariant kernels (eq. 4, 8). Both take any projection.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.encoders import neighbourhood
from bilsh.encoders.base import Draws, Encoder, ProjectedEncoder
from bilsh.encoders.coder import THRESHOLDS, TURN, AngleCoder, KernelCoder
from bilsh.errors import InvalidInputError
from bilsh.projections import LinearMap, Projection
from bilsh.projections.base import Integers
from bilsh.projections.kernels import GAUSSIAN, kernel_named
from bilsh.theory.sign_covariance import sign_moments
from bilsh.theory.spread import BINS, SignSpread, SpectrumSpread
from bilsh.types import Values
from bilsh.validation import check_choice, check_positive, finite_blocks

SIGN_DRAWS = 256
"""Random vectors over which moments of bilinear sign codes are averaged."""

SMALL = 16
"""Shorter sides of scrambled matrices up to which pairs stray from the law as far as codes of 10,000 bits do."""


class AngleEncoder(ProjectedEncoder):
    r"""Codes whose Hamming distance tells the angle between centred descriptors (eq. 1; bilinear: eq. 6).

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
    coder_ : Coder
        What encodes, without scikit-learn around it.
    mean_ : array of the descriptors' shape
        Mean of the data at fit, which is subtracted.
    projection_ : object
        The drawn projection with its arrays.
    outputs_ : array (n_bits,)
        Which output of the projection each bit uses.
    offsets_ : array (n_bits,)
        -w_r . mean: what is added to the projection before the sign is taken.
    norm_ratio_ : float
        Norm of the centred data over the distance to the 10th neighbour, on a sample.
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

    coder_: AngleCoder

    def _fit(self, X: Any, n_bits: int, projection: Projection, draws: Draws) -> AngleCoder:
        shape = tuple(int(size) for size in X.shape[1:])
        total = np.zeros(self.n_features_in_)
        for _, block in finite_blocks(X):
            total += block.sum(axis=0, dtype=np.float64)
        mean = (total / X.shape[0]).astype(np.float32)
        drawn = projection.draw(shape, n_bits, draws.projection, GAUSSIAN)
        norm_ratio = neighbourhood.measure(X, draws.sample).norm_ratio
        outputs, zero = np.arange(n_bits, dtype=np.int32), np.zeros(n_bits, dtype=np.float32)
        return AngleCoder(
            drawn,
            outputs,
            # The same chain of operations projects the mean and the data, so the mean itself lands exactly on 0.
            offsets=-drawn.plan(outputs, 1.0, zero, None).project(mean[None])[0],
            tau=None,
            input_shape=shape,
            norm_ratio=norm_ratio,
            params=self._settings(),
            feature_names=_names(self),
            mean=mean.reshape(shape),
            spread=_sign_spread(X, mean, drawn, outputs, draws),
        )

    @property
    def mean_(self) -> NDArray[np.float32]:
        """Mean of the data at fit."""
        return self.coder_.mean

    @property
    def offsets_(self) -> Values:
        """-w_r . mean of every bit."""
        return self.coder_.offsets


class KernelEncoder(ProjectedEncoder):
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
        t = 0 for every bit, or t ~ U[-1, 1] as in the paper. Zero tells 1.1 to 2.1 times as much
        per bit, the more the farther (:func:`bilsh.theory.fisher_information`).
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
    coder_, projection_, outputs_, matrix_shape_, norm_ratio_
        As in :class:`AngleEncoder`.
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

    coder_: KernelCoder

    def _fit(self, X: Any, n_bits: int, projection: Projection, draws: Draws) -> KernelCoder:
        shape, d = tuple(int(size) for size in X.shape[1:]), self.n_features_in_
        kernel = kernel_named(self.kernel, self.nu, d)
        thresholds = check_choice("thresholds", self.thresholds, THRESHOLDS)
        quadrature = self._use_quadrature(n_bits, thresholds)
        if isinstance(self.bandwidth, str) and self.bandwidth != "auto":
            raise InvalidInputError(f"bandwidth must be a number > 0 or 'auto'; got {self.bandwidth!r}.")
        measured = neighbourhood.measure(X, draws.sample, kernel.metric)
        bandwidth = measured.bandwidth_distance
        if not isinstance(self.bandwidth, str):
            bandwidth = check_positive("bandwidth", self.bandwidth)

        n_outputs = -(-n_bits // 2) if quadrature else n_bits
        drawn = projection.draw(shape, n_outputs, draws.projection, kernel)
        turns = draws.offsets.random(n_outputs)
        t = draws.offsets.uniform(-1, 1, n_outputs) if thresholds == "random" else np.zeros(n_outputs)
        outputs = np.arange(n_outputs, dtype=np.int32)
        if quadrature:
            outputs, second = _paired_order(n_outputs, n_bits, draws.order)
            turns = (turns[outputs] - 0.25 * second) % 1.0
            t = t[outputs]
        pairs = neighbourhood.sample_pairs(X, drawn.matrices, draws.sample)
        spectrum = None if pairs is None else neighbourhood.mean_spectrum(pairs)
        return KernelCoder(
            drawn,
            outputs,
            offsets=turns.astype(np.float32),
            tau=(np.arccos(-t) / TURN).astype(np.float32),
            input_shape=shape,
            norm_ratio=measured.norm_ratio,
            params=self._settings(),
            feature_names=_names(self),
            kernel=kernel,
            thresholds=thresholds,
            bandwidth=bandwidth,
            quadrature=quadrature,
            spectrum=spectrum,
            spread=_spectrum_spread(pairs, drawn.scrambled, spectrum, bandwidth, thresholds),
        )

    def _use_quadrature(self, n_bits: int, thresholds: str) -> bool:
        if isinstance(self.quadrature, bool | np.bool_):
            if self.quadrature and thresholds != "zero":
                raise InvalidInputError("quadrature=True needs thresholds='zero'; got thresholds='random'.")
            return bool(self.quadrature)
        if self.quadrature != "auto":
            raise InvalidInputError(f"quadrature must be True, False or 'auto'; got {self.quadrature!r}.")
        return thresholds == "zero" and n_bits > self.n_features_in_

    @property
    def bandwidth_(self) -> float:
        """The bandwidth in use."""
        return self.coder_.bandwidth

    @property
    def quadrature_(self) -> bool:
        """Whether projections give two bits."""
        return self.coder_.quadrature

    @property
    def offsets_(self) -> NDArray[np.float64]:
        """Phase b of every bit, in [0, 2 pi)."""
        return TURN * self.coder_.offsets.astype(np.float64)

    @property
    def thresholds_(self) -> NDArray[np.float64]:
        """Threshold t of every bit, in [-1, 1]."""
        return self.coder_.t

    @property
    def difference_spectrum_(self) -> NDArray[np.float64] | None:
        """Mean normalised spectrum of sampled differences, for bilinear projections."""
        return self.coder_.spectrum


def _sign_spread(
    X: Any, mean: NDArray[np.float32], drawn: LinearMap, outputs: Integers, draws: Draws
) -> SignSpread | None:
    """How bilinear sign codes of these data differ from angle / pi; None where they hardly do."""
    angular = drawn.scrambled and drawn.orthogonal_pairs(outputs)[0] > 0
    centre = drawn.matrices(mean[None].astype(np.float64))
    if centre is None or (angular and min(centre.shape[1:]) > SMALL):
        return None
    # Hits are sampled from the same generator later: what only widens intervals of pairs must not shift them.
    rng = draws.sample.spawn(1)[0] if angular else draws.sample
    pairs = neighbourhood.sample_pairs(X, drawn.matrices, rng)
    if pairs is None:
        return None
    moments = sign_moments(pairs.left - centre, pairs.right - centre, n_draws=SIGN_DRAWS, rng=rng)
    if (moments.angle > 0).sum() < 2 * BINS:
        return None
    spread = SignSpread.of(moments, SIGN_DRAWS)
    return spread.about_angle() if angular else spread


def _spectrum_spread(
    pairs: neighbourhood.Pairs | None,
    scrambled: bool,
    spectrum: NDArray[np.float64] | None,
    bandwidth: float,
    thresholds: str,
) -> SpectrumSpread | None:
    """How spectra of differences vary about their mean; None where nothing can tell, or where they hardly do."""
    if pairs is None or spectrum is None or (scrambled and len(spectrum) > SMALL):
        return None
    if (pairs.distances() > 0).sum() < 2 * BINS:
        return None
    return SpectrumSpread.of(pairs.spectra(), pairs.distances() / bandwidth, spectrum, thresholds)


def _names(encoder: Encoder) -> tuple[str, ...] | None:
    names = getattr(encoder, "feature_names_in_", None)
    return None if names is None else tuple(names)


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
