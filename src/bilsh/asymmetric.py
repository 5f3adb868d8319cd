r"""Asymmetric queries: the query keeps its real phases, stored items their bits.

A score is bias + sum of the weights of the set bits, the larger the nearer. Angle codes: the projection u itself,
score = sum_r u_r (2 h_r - 1). Kernel codes: the log-likelihood ratio of two distances, from

    P[h = 1 | u] = alpha/pi + (2/pi) sum_n sin(n alpha)/n kappa(n) cos(n u),  alpha = arccos(-t),

with kappa(n) the kernel at n times the distance.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bilsh.calibration import AngleCalibration, KernelCalibration, calibration_of
from bilsh.coder import Coder, KernelCoder

Weights = tuple[NDArray[np.float32], NDArray[np.float32]]

NEAR, FAR = 1.0, 1.6
"""Distances, in bandwidths, between which the likelihood ratio decides: a neighbour's, and a little beyond."""

_BINS = 4096
_ORDERS: NDArray[np.float64] = np.arange(1.0, 40.0)


def score_weights(encoder: Coder, phases: NDArray[np.float32]) -> Weights:
    """Weights (q, n_bits) and bias (q,) by which stored items are ranked."""
    calibration = calibration_of(encoder)
    if isinstance(calibration, AngleCalibration):
        return _signed(phases)
    if calibration.thresholds == "zero":
        # All bits share one curve: look it up.
        u = np.linspace(0, 2 * np.pi, _BINS, endpoint=False)
        ones, zeros = _log_ratios(calibration, u, np.full(_BINS, np.pi / 2))
        at = np.rint(phases * np.float32(_BINS / (2 * np.pi))).astype(np.int64) & (_BINS - 1)
        set_, clear = ones.astype(np.float32)[at], zeros.astype(np.float32)[at]
    else:
        alpha = np.arccos(-_thresholds(encoder))
        rows = [_log_ratios(calibration, row.astype(np.float64), alpha) for row in phases]
        set_ = np.array([one for one, _ in rows], dtype=np.float32).reshape(phases.shape)
        clear = np.array([zero for _, zero in rows], dtype=np.float32).reshape(phases.shape)
    return set_ - clear, clear.sum(axis=1, dtype=np.float64).astype(np.float32)


def mean_weights(encoder: Coder, phases: NDArray[np.float32]) -> Weights:
    """Weights and bias whose score is the mean that :func:`bilsh.estimates.estimate_means` takes."""
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


def _log_ratios(
    calibration: KernelCalibration, u: NDArray[np.float64], alpha: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ln P_near / P_far of a bit that is 1, and of one that is 0."""
    near, far = (_probability(calibration, u, alpha, scale) for scale in (NEAR, FAR))
    return np.log(near / far), np.log((1 - near) / (1 - far))


def _probability(
    calibration: KernelCalibration, u: NDArray[np.float64], alpha: NDArray[np.float64], scale: float
) -> NDArray[np.float64]:
    """P[h = 1 | u] at a distance of `scale` bandwidths."""
    kernel = (
        calibration.projection_kernel(scale * _ORDERS) if isinstance(calibration, KernelCalibration) else []
    )
    total = alpha / np.pi
    for order, value in zip(_ORDERS, kernel, strict=True):
        if value > 1e-6:
            total = total + (2 / np.pi) * np.sin(order * alpha) / order * value * np.cos(order * u)
    return np.clip(total, 1e-4, 1 - 1e-4)
