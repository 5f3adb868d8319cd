"""The paper's methods by name, to the letter.

They are ordinary encoders with the paper's settings: independent Gaussian vectors, the matrix structure as it
comes, random thresholds. Our own defaults differ; see :class:`bilsh.KernelEncoder`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bilsh.encoders.base import Encoder
from bilsh.encoders.estimators import AngleEncoder, KernelEncoder
from bilsh.encoders.euclidean import EuclideanEncoder
from bilsh.errors import InvalidInputError
from bilsh.projections import Bilinear, Circulant, Dense


def lsh_angle(n_bits: int, *, random_state: Any = None, n_jobs: int | None = None) -> AngleEncoder:
    """LSH-angle (eq. 1, Charikar 2002): sign of dense Gaussian projections of centred data.

    Examples
    --------
    >>> lsh_angle(64, random_state=0)
    AngleEncoder(n_bits=64, projection=Dense(), random_state=0)
    """
    return AngleEncoder(n_bits, projection=Dense(), random_state=random_state, n_jobs=n_jobs)


def lsh_sik(
    n_bits: int,
    *,
    kernel: str = "gaussian",
    nu: float | None = None,
    bandwidth: float | str = "auto",
    random_state: Any = None,
    n_jobs: int | None = None,
) -> KernelEncoder:
    """LSH for shift-invariant kernels (eq. 4, Raginsky and Lazebnik 2009), a dense projection."""
    return KernelEncoder(
        n_bits,
        kernel=kernel,
        nu=nu,
        bandwidth=bandwidth,
        thresholds="random",
        quadrature=False,
        projection=Dense(),
        random_state=random_state,
        n_jobs=n_jobs,
    )


def bilinear_angle(
    n_bits: int,
    *,
    matrix_shape: tuple[int, int] | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> AngleEncoder:
    """Bilinear angle codes (eq. 6, Gong et al. 2013) with independent Gaussian factors."""
    projection = Bilinear(orthogonal=False, scramble=False, matrix_shape=matrix_shape)
    return AngleEncoder(n_bits, projection=projection, random_state=random_state, n_jobs=n_jobs)


def blsh_sik(
    n_bits: int,
    *,
    oversampling: int = 1,
    bandwidth: float | str = "auto",
    matrix_shape: tuple[int, int] | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> KernelEncoder:
    """BLSH-SIK (eq. 8, Algorithm 1): k of the m^2 k bits of a bilinear grid, uniformly at random.

    The result is Algorithm 1's; the cost is not: only the k selected pairs are computed.

    Parameters
    ----------
    n_bits : int
        k.
    oversampling : int, default=1
        m; the paper recommends 5.
    bandwidth : float or "auto", default="auto"
        Data are divided by it; "auto" is the paper's rule.
    matrix_shape : (int, int), optional
        Shape that descriptors are given, e.g. (250, 256) for VLAD of 500 x 128.
    random_state, n_jobs
        As in :class:`bilsh.KernelEncoder`.
    """
    return KernelEncoder(
        n_bits,
        bandwidth=bandwidth,
        thresholds="random",
        quadrature=False,
        projection=Bilinear(
            oversampling, design="random", orthogonal=False, scramble=False, matrix_shape=matrix_shape
        ),
        random_state=random_state,
        n_jobs=n_jobs,
    )


def circulant_angle(n_bits: int, *, random_state: Any = None, n_jobs: int | None = None) -> AngleEncoder:
    """Sign codes of a circulant projection (Yu et al. 2014)."""
    return AngleEncoder(n_bits, projection=Circulant(), random_state=random_state, n_jobs=n_jobs)


def circulant_sik(
    n_bits: int,
    *,
    bandwidth: float | str = "auto",
    random_state: Any = None,
    n_jobs: int | None = None,
) -> KernelEncoder:
    """Kernel codes (eq. 4) with a circulant instead of a dense projection."""
    return KernelEncoder(
        n_bits,
        bandwidth=bandwidth,
        thresholds="random",
        quadrature=False,
        projection=Circulant(),
        random_state=random_state,
        n_jobs=n_jobs,
    )


def _ours(kind: Callable[..., Encoder], projection: str) -> Callable[..., Encoder]:
    """Our own codes; the bilinear ones take the oversampling m of Algorithm 1 as a setting."""

    def make(n_bits: int, *, oversampling: int = 1, **settings: Any) -> Encoder:
        drawn = Bilinear(oversampling) if projection == "bilinear" else projection
        return kind(n_bits, projection=drawn, **settings)

    return make


def _learned(n_bits: int, **settings: Any) -> Encoder:
    """Learned codes; they are whole bytes."""
    n_bytes, rest = divmod(n_bits, 8)
    if rest:
        raise InvalidInputError(f"learned codes are whole bytes: bits must be a multiple of 8; got {n_bits}.")
    return EuclideanEncoder(n_bytes, **settings)


@dataclass(frozen=True, slots=True)
class Method:
    """A way to make codes, by the name that commands and figures use.

    Attributes
    ----------
    description : str
    make : function of n_bits and settings
        Returns the unfitted encoder; settings are the encoder's own: random_state, n_jobs, bandwidth of kernel codes.
    oversampled : bool
        Whether the oversampling m of Algorithm 1 is one of its settings too.
    """

    description: str
    make: Callable[..., Encoder]
    oversampled: bool = False


METHODS: dict[str, Method] = {
    "kernel": Method(
        "kernel codes, scrambled orthogonal bilinear projection", _ours(KernelEncoder, "bilinear"), True
    ),
    "angle": Method(
        "sign codes, scrambled orthogonal bilinear projection", _ours(AngleEncoder, "bilinear"), True
    ),
    "blsh-sik": Method(
        "the paper: bilinear projections for shift-invariant kernels (Algorithm 1)", blsh_sik, True
    ),
    "lsh-sik": Method("dense projections for shift-invariant kernels", lsh_sik),
    "lsh-angle": Method("dense projections, sign", lsh_angle),
    "bilinear-angle": Method("bilinear projections, sign", bilinear_angle),
    "circulant-sik": Method("circulant projections for shift-invariant kernels", circulant_sik),
    "circulant-angle": Method("circulant projections, sign", circulant_angle),
    "hadamard-kernel": Method("Hadamard projections, kernel codes", _ours(KernelEncoder, "hadamard")),
    "hadamard-angle": Method("Hadamard projections, sign", _ours(AngleEncoder, "hadamard")),
    "learned": Method("rotations learned from the data, compared by estimated distance", _learned),
}
"""Methods by name, for the command line, ingest and experiments."""
