r"""Asymmetric queries: the query keeps its real phases, stored items their bits.

A score is bias + sum of the weights of the set bits, the larger the nearer. Angle codes: the projection u itself,
score = sum_r u_r (2 h_r - 1). Kernel codes: the log-likelihood ratio of two distances, from

    P[h = 1 | u] = alpha/pi + (2/pi) sum_n sin(n alpha)/n kappa(n) cos(n u),  alpha = arccos(-t),

with kappa(n) the kernel at n times the distance. Bilinear projection vectors differ much in length: |w_i| |v_j| times a
direction. The query knows the lengths, so its score divides by them (angle codes), or takes the kernel of a direction
drawn at random with that length, exp(-(n length)^2 / 2) (kernel codes of scrambled entries). That is worth up to .008
of recall.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bilsh.encoders.coder import Coder, KernelCoder
from bilsh.estimates.calibration import AngleCalibration, KernelCalibration, calibration_of
from bilsh.projections.bilinear import BilinearMap

Weights = tuple[NDArray[np.float32], NDArray[np.float32]]

NEAR, FAR = 1.0, 1.6
"""Distances, in bandwidths, between which the likelihood ratio decides: a neighbour's, and a little beyond."""

SHORTEST = 0.1
"""Lengths below are taken for this one: the series of shorter ones would need more orders, and they are rare."""

_BINS = 4096
_LEVELS = 16
_ORDERS: NDArray[np.float64] = np.arange(1.0, 40.0)


def score_weights(encoder: Coder, phases: NDArray[np.float32]) -> Weights:
    """Weights (q, n_bits) and bias (q,) by which stored items are ranked."""
    calibration = calibration_of(encoder)
    if isinstance(calibration, AngleCalibration):
        lengths = _lengths(encoder)
        return _signed(phases if lengths is None else (phases / lengths).astype(np.float32))
    if calibration.thresholds == "zero":
        level, tables = _curves(encoder, calibration)
        at = np.rint(phases * np.float32(_BINS / (2 * np.pi))).astype(np.int64) & (_BINS - 1)
        set_, clear = tables[level, 0, at], tables[level, 1, at]
    else:
        alpha, lengths = np.arccos(-_thresholds(encoder)), _lengths_of_phases(encoder)
        rows = [_log_ratios(calibration, row.astype(np.float64), alpha, lengths) for row in phases]
        set_ = np.array([one for one, _ in rows], dtype=np.float32).reshape(phases.shape)
        clear = np.array([zero for _, zero in rows], dtype=np.float32).reshape(phases.shape)
    return set_ - clear, clear.sum(axis=1, dtype=np.float64).astype(np.float32)


def mean_weights(encoder: Coder, phases: NDArray[np.float32]) -> Weights:
    """Weights and bias whose score is the mean that :func:`bilsh.estimates.intervals.estimate_means` takes."""
    values = phases
    if isinstance(calibration_of(encoder), KernelCalibration):
        values = np.cos(phases)
    else:
        size = np.abs(phases).mean(axis=1, keepdims=True, dtype=np.float64)
        values = (phases / np.where(size > 0, size, 1.0)).astype(np.float32)
    return _signed(values / np.float32(phases.shape[1]))


def _signed(values: NDArray[np.float32]) -> Weights:
    """sum_r values_r (2 h_r - 1) as weights and bias."""
    return 2 * values, -values.sum(axis=1, dtype=np.float64).astype(np.float32)


def _thresholds(encoder: Coder) -> NDArray[np.float64]:
    return encoder.thresholds_ if isinstance(encoder, KernelCoder) else np.zeros(0)


def _lengths(encoder: Coder) -> NDArray[np.float64] | None:
    """Lengths of the bits' projection vectors, about 1; None where they are not bilinear and differ little."""
    projection = encoder.projection_
    if not isinstance(projection, BilinearMap):
        return None
    left, right = (
        np.linalg.norm(factor.astype(np.float64), axis=1) for factor in (projection.left, projection.right)
    )
    lengths = (left[projection.pairs[:, 0]] * right[projection.pairs[:, 1]])[encoder.outputs_]
    relative: NDArray[np.float64] = lengths / np.sqrt(np.prod(projection.matrix_shape))
    return np.maximum(relative, SHORTEST)


def _lengths_of_phases(encoder: Coder) -> NDArray[np.float64] | None:
    """Lengths where a phase depends on them alone: on scrambled entries, which have no direction of their own."""
    projection = encoder.projection_
    scrambled = isinstance(projection, BilinearMap) and projection.permutation is not None
    return _lengths(encoder) if scrambled else None


_known: WeakKeyDictionary[KernelCalibration, tuple[NDArray[np.int64], NDArray[np.float32]]] = (
    WeakKeyDictionary()
)


def _curves(encoder: Coder, calibration: KernelCalibration) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Log-ratios by phase, for bits in groups of like length: the group of each bit, and a table per group."""
    if calibration not in _known:
        lengths = _lengths_of_phases(encoder)
        level, means = _levels(lengths, len(encoder.outputs_))
        u = np.linspace(0, 2 * np.pi, _BINS, endpoint=False)
        tables = np.array([_log_ratios(calibration, u, np.pi / 2, length) for length in means], np.float32)
        _known[calibration] = level, tables
    return _known[calibration]


def _levels(lengths: NDArray[np.float64] | None, n_bits: int) -> tuple[NDArray[np.int64], list[float | None]]:
    """Bits in groups by the order of their lengths: the group of each, and the mean length of each group."""
    if lengths is None:
        return np.zeros(n_bits, dtype=np.int64), [None]
    groups = np.array_split(np.argsort(lengths, kind="stable"), min(_LEVELS, n_bits))
    level = np.empty(n_bits, dtype=np.int64)
    for number, bits in enumerate(groups):
        level[bits] = number
    return level, [float(lengths[bits].mean()) for bits in groups]


def _log_ratios(
    calibration: KernelCalibration,
    u: NDArray[np.float64],
    alpha: NDArray[np.float64] | float,
    length: NDArray[np.float64] | float | None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ln P_near / P_far of a bit that is 1, and of one that is 0."""
    near, far = (_probability(calibration, u, alpha, length, scale) for scale in (NEAR, FAR))
    return np.log(near / far), np.log((1 - near) / (1 - far))


def _probability(
    calibration: KernelCalibration,
    u: NDArray[np.float64],
    alpha: NDArray[np.float64] | float,
    length: NDArray[np.float64] | float | None,
    scale: float,
) -> NDArray[np.float64]:
    """P[h = 1 | u] at a distance of `scale` bandwidths, for projection vectors of a known length if it is given."""
    if length is None:
        kernels = list(calibration.projection_kernel(scale * _ORDERS))
    else:
        kernels = [np.exp(-0.5 * np.square(scale * order * length)) for order in _ORDERS]
    total = alpha / np.pi
    for order, kernel in zip(_ORDERS, kernels, strict=True):
        if np.max(kernel) > 1e-6:
            total = total + (2 / np.pi) * np.sin(order * alpha) / order * kernel * np.cos(order * u)
    return np.clip(total, 1e-4, 1 - 1e-4)
