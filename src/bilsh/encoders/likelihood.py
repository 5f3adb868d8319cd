r"""What a stored bit says about the distance, once the query's phase is known.

With u the query's phase and alpha = arccos(-t),

    P[h = 1 | u] = alpha/pi + (2/pi) sum_n sin(n alpha)/n kappa(n) cos(n u),

kappa(n) the kernel at n times the distance. The weight of a bit is the logarithm of the ratio of these probabilities at
two distances. Bilinear projection vectors differ much in length: |w_i| |v_j| times a direction. The query knows the
lengths, so on scrambled entries it takes the kernel of a direction drawn at random with that length,
exp(-(n length)^2 / 2), which is worth up to .008 of recall.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bilsh import _native
from bilsh.encoders.calibration import Weights
from bilsh.projections.kernels import Kernel
from bilsh.theory.scores import ORDERS, PHASES, ScoreLaw, cosine_law
from bilsh.types import Floats, Values

NEAR, FAR = 1.0, 1.6
"""Distances, in bandwidths, between which the likelihood ratio decides: a neighbour's, and a little beyond."""

SHORTEST = 0.1
"""Lengths below are taken for this one: the series of shorter ones would need more orders, and they are rare."""

_BINS = 4096
_THRESHOLDS = (np.arange(16) + 0.5) / 8 - 1
"""Random thresholds that stand for all of them."""
_LEVELS = 16
_ORDERS: Floats = np.arange(1.0, 40.0)
_NOTHING = 1e-6
"""Kernel values that no weight shows; those of higher orders are smaller still."""


class BitLikelihood:
    """Log-likelihood ratios of bits, given the query's values.

    Parameters
    ----------
    kernel : Kernel
        The kernel that the projections have.
    alpha : array (n_bits,)
        arccos(-t) of every bit.
    lengths : array (n_bits,) or None
        Lengths of the projection vectors, where a phase depends on them alone.
    """

    def __init__(self, kernel: Kernel, alpha: Floats, lengths: Floats | None) -> None:
        self._kernel, self._alpha = kernel, alpha
        self._zero = bool((alpha == np.pi / 2).all())
        self._lengths = None if lengths is None else np.maximum(lengths, SHORTEST)

    def weights(self, values: Values) -> Weights:
        """Weights (q, n_bits) and bias (q,) of queries with these values, in turns."""
        if self._zero:
            return _native.weights_of_turns(np.ascontiguousarray(values), *self._curves)
        set_, clear = (
            side.astype(np.float32)
            for side in self._log_ratios(2 * np.pi * values.astype(np.float64), self._alpha, self._lengths)
        )
        return set_ - clear, clear.sum(axis=1, dtype=np.float64).astype(np.float32)

    @cached_property
    def unrelated(self) -> Floats:
        """Probability (n_bits,) that a bit of an unrelated item is 1."""
        return self._alpha / np.pi

    def score_law(self, scale: Floats, fraction: Floats, hamming_bits: Floats) -> ScoreLaw:
        """Law of scores at distances `scale`, where the expected fractions are `fraction`."""
        alphas = np.full(1, np.pi / 2) if self._zero else np.arccos(-_THRESHOLDS)
        _, groups = self._levels()
        ratios = [[self._log_ratios(PHASES, alpha, length) for alpha in alphas] for length in groups]
        weights = np.array([[set_ - clear for set_, clear in row] for row in ratios])
        if self._lengths is None:
            kernels = self._kernel.value(np.multiply.outer(scale, ORDERS).ravel()).reshape(len(scale), 1, -1)
        else:
            reach = np.multiply.outer(scale, np.multiply.outer(np.array(groups, dtype=np.float64), ORDERS))
            kernels = np.exp(-0.5 * np.square(reach))
        return cosine_law(fraction, hamming_bits, kernels, alphas, weights)

    @cached_property
    def _curves(self) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
        """Tables by phase for bits of like length: their weights, and what they say if clear; the table of each bit."""
        level, means = self._levels()
        u = np.linspace(0, 2 * np.pi, _BINS, endpoint=False)
        tables = np.array([self._log_ratios(u, np.pi / 2, length) for length in means], dtype=np.float32)
        return np.stack([tables[:, 0] - tables[:, 1], tables[:, 1]], axis=-1), level.astype(np.uint8)

    def _levels(self) -> tuple[NDArray[np.int64], list[float | None]]:
        """Bits in groups by the order of their lengths: the group of each, and the mean length of each group."""
        n_bits = len(self._alpha)
        level = np.zeros(n_bits, dtype=np.int64)
        if self._lengths is None:
            return level, [None]
        groups = np.array_split(np.argsort(self._lengths, kind="stable"), min(_LEVELS, n_bits))
        for number, bits in enumerate(groups):
            level[bits] = number
        return level, [float(self._lengths[bits].mean()) for bits in groups]

    def _log_ratios(
        self, u: Floats, alpha: Floats | float, length: Floats | float | None
    ) -> tuple[Floats, Floats]:
        """Return ln P_near / P_far of a bit that is 1, and of one that is 0."""
        near, far = (self._probability(u, alpha, length, scale) for scale in (NEAR, FAR))
        return np.log(near / far), np.log((1 - near) / (1 - far))

    def _probability(
        self, u: Floats, alpha: Floats | float, length: Floats | float | None, scale: float
    ) -> Floats:
        """P[h = 1 | u] at a distance of `scale` bandwidths, for vectors of a known length if it is given."""
        cosine = np.cos(u)
        total, before, now = np.asarray(alpha / np.pi), np.ones_like(cosine), cosine
        for order in _ORDERS:
            if length is None:
                kernel = self._kernel.value(np.array([scale * order]))[0]
            else:
                kernel = np.exp(-0.5 * np.square(scale * order * length))
            if np.max(kernel) <= _NOTHING:
                break
            total = total + (2 / np.pi) * np.sin(order * alpha) / order * kernel * now
            before, now = now, 2 * cosine * now - before  # cos((n + 1) u)
        return np.asarray(np.clip(total, 1e-4, 1 - 1e-4))
