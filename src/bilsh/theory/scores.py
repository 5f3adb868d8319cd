r"""What an asymmetric score means: the expected score at every expected fraction of differing bits, and its noise.

A score is bias + sum of the weights of the set bits; the query knows its weights. Against the score of the query's own
code (everything agrees) and the one expected of an unrelated item it becomes a ratio,

    R = (T - T_unrelated) / (T_own - T_unrelated),

1 for a copy and 0 on average far away, whatever the phases of the query happen to be. For weights cos(u) its
expectation is the kernel, for weights u the cosine; for log-likelihood weights it is found here by quadrature. R orders
the items of a query exactly as the score does, so what is shown and how it is ordered agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import InvalidInputError
from bilsh.types import Floats

__all__ = ["ORDERS", "PHASES", "ScoreLaw", "cosine_law", "score_ratios", "sign_law"]


ORDERS: NDArray[np.float64] = np.arange(1.0, 512.0)
"""Orders of the cosine series: enough for distances from a hundredth of the bandwidth on."""

PHASES: NDArray[np.float64] = np.linspace(0.0, 2 * np.pi, 257)[1::2].copy()
"""Phases that stand for all of them."""

RESOLVED = 1 / 64
"""Fraction of differing bits between neighbouring phases: nearer items differ in less than the quadrature sees."""

_NEARER: NDArray[np.float64] = 2.0 ** (np.arange(-20, 0) / 2)
"""Nearer fractions over the smallest that is resolved: copies lie there, and a straight line to 0 misplaces them."""


@dataclass(frozen=True, slots=True)
class ScoreLaw:
    """Expected ratio and its effective bits, over expected fractions of differing bits.

    Attributes
    ----------
    fraction : array (g,)
        Ascending, the first is 0.
    ratio : array (g,)
        Expected ratios there: descending from 1.
    bits : array (g,)
        p(1 - p) over the variance of the fraction that a ratio stands for: comparable with the effective bits of a
        Hamming distance.
    """

    fraction: Floats
    ratio: Floats
    bits: Floats

    def fractions(self, ratios: Floats) -> Floats:
        """Fractions of differing bits at which the expected ratio is the observed one.

        Beyond the law's far end its last piece goes on, so that different scores stay different.
        """
        rising, p = self.ratio[::-1], self.fraction[::-1]
        inside = np.interp(ratios, rising, p)
        below = np.minimum(np.asarray(ratios) - rising[0], 0.0)
        return np.asarray(np.minimum(inside + below * (p[1] - p[0]) / (rising[1] - rising[0]), 1.0))

    def effective_bits(self, fraction: Floats) -> Floats:
        """Independent bits that the score is worth where the expected fraction is `fraction`."""
        return np.interp(fraction, self.fraction, self.bits)

    @classmethod
    def from_bits(
        cls,
        fraction: Floats,
        weights: Floats,
        unrelated: Floats | float,
        own: Floats,
        probability: Callable[[int], Floats],
        hamming_bits: Floats,
        resolved: float = 0.0,
    ) -> ScoreLaw:
        r"""Integrate over the phases of a bit.

        .. math:: \rho = \frac{E[w (P - h_0)]}{E[w (h - h_0)]}, \qquad
                  k \mathrm{Var}[R] \approx \frac{E[(w (H - h_0) - \rho w (h - h_0))^2]}{E[w (h - h_0)]^2}

        with h the query's own bit, H the item's (1 with probability P) and h_0 the mean bit.

        Parameters
        ----------
        fraction : array (g,)
            Expected fractions of differing bits, ascending from above 0.
        weights : array (...)
            Weights of bits at phases (and thresholds, lengths) that stand for all of them, equally likely.
        unrelated : array (...) or float
            P[H = 1] of an unrelated item there: 1/2 for zero thresholds and signs, alpha/pi in general.
        own : array (...)
            The query's own bit there, 0 or 1.
        probability : callable
            P[H = 1] given the phase, array (...), at the fraction of a number 0 ... g - 1.
        hamming_bits : array (g,)
            Effective bits of the Hamming distance at `fraction`: what bits share, scores share too.
        resolved : float
            Smallest fraction that the phases can tell from 0. Nearer ones follow the power law that begins there, with
            as many bits.
        """
        if len(fraction) < 3 or fraction[0] <= 0 or np.any(np.diff(fraction) <= 0):
            raise InvalidInputError("fraction must ascend from above 0, with at least 3 values.")
        near = int(np.searchsorted(fraction, resolved))
        nearer = _NEARER[: len(_NEARER) if 0 < near < len(fraction) - 1 else 0]
        start = near if len(nearer) else 0
        signal = weights * (own - unrelated)
        scale = float(signal.mean())
        ratio, spread = np.empty(len(fraction) - start), np.empty(len(fraction) - start)
        for number in range(len(ratio)):
            p = probability(start + number)
            ratio[number] = rho = float((weights * (p - unrelated)).mean()) / scale
            set_, clear = weights * (1 - unrelated) - rho * signal, -weights * unrelated - rho * signal
            spread[number] = float((p * np.square(set_) + (1 - p) * np.square(clear)).mean()) / scale**2
        if len(nearer):
            gap = np.maximum(1 - ratio, 1e-12)
            power = np.log(gap[1] / gap[0]) / np.log(fraction[near + 1] / fraction[near])
            ratio = np.concatenate([1 - gap[0] * nearer ** np.clip(power, 0.5, 3.0), ratio])
            fraction = np.concatenate([fraction[near] * nearer, fraction[near:]])
            spread, hamming_bits = (
                np.concatenate([np.full(len(nearer), one[0]), one]) for one in (spread, hamming_bits[near:])
            )
        ratio = np.minimum.accumulate(ratio)
        keep = np.concatenate([[True], np.diff(ratio) < -1e-9]) & (ratio < 1)
        fraction, ratio, spread, hamming_bits = (
            array[keep] for array in (fraction, ratio, spread, hamming_bits)
        )
        slope = np.gradient(fraction, ratio)
        # spread holds k times the variance of the ratio; k itself comes with the Hamming bits.
        bits = hamming_bits * fraction * (1 - fraction) / np.maximum(spread * np.square(slope), 1e-12)
        near = min(int(np.searchsorted(fraction, resolved)), len(bits) - 1)
        bits[:near] = bits[near]
        return cls(
            np.concatenate([[0.0], fraction]),
            np.concatenate([[1.0], ratio]),
            np.concatenate([bits[:1], bits]),
        )


def score_ratios(scores: Floats, own: Floats, unrelated: Floats) -> Floats:
    """Scores (q, k) against those of the query's own code and of an unrelated item (q,): 1 for a copy, 0 far away."""
    reach = np.asarray(own, dtype=np.float64) - unrelated
    reach = np.where(reach > 0, reach, 1.0)
    return np.asarray((scores - np.asarray(unrelated)[:, None]) / reach[:, None])


def sign_law(fraction: Floats, hamming_bits: Floats) -> ScoreLaw:
    """Law of sign codes whose query weighs bits by its projections on unit vectors: the ratio's mean is cos(theta).

    Parameters
    ----------
    fraction, hamming_bits
        As in :meth:`ScoreLaw.from_bits`; angles are pi times the fractions.
    """
    u = np.array([NormalDist().inv_cdf((i + 0.5) / 256) for i in range(256)])
    cosine, sine = np.cos(np.pi * fraction), np.sin(np.pi * fraction)

    def probability(number: int) -> Floats:
        x = u * cosine[number] / sine[number]
        return np.array([NormalDist().cdf(value) for value in x])

    own = (u >= 0).astype(np.float64)
    return ScoreLaw.from_bits(fraction, u, 0.5, own, probability, hamming_bits, RESOLVED / 4)


def cosine_law(
    fraction: Floats, hamming_bits: Floats, kernels: Floats, alphas: Floats, weights: Floats
) -> ScoreLaw:
    r"""Law of cosine codes, from P[h = 1 | u] = alpha/pi + (2/pi) sum_n sin(n alpha)/n kappa(n) cos(n u).

    Parameters
    ----------
    fraction, hamming_bits
        As in :meth:`ScoreLaw.from_bits`.
    kernels : array (g, l, 511)
        Kernel at `ORDERS` times the distance, for l groups of bits (one group unless lengths are told apart).
    alphas : array (a,)
        arccos(-t) of thresholds that stand for all: [pi / 2] for zero thresholds.
    weights : array (l, a, 128)
        Weights of bits at `PHASES`.
    """
    cosines = np.cos(np.multiply.outer(PHASES, ORDERS))
    waves = np.sin(np.multiply.outer(alphas, ORDERS))[:, None, :] / ORDERS * cosines
    base = np.broadcast_to((alphas / np.pi)[:, None], weights.shape)
    own = np.broadcast_to((np.cos(PHASES) >= np.cos(alphas)[:, None]).astype(np.float64), weights.shape)

    def probability(number: int) -> Floats:
        series = kernels[number] @ waves.reshape(-1, len(ORDERS)).T
        return np.asarray(np.clip(base + 2 / np.pi * series.reshape(weights.shape), 0.0, 1.0))

    return ScoreLaw.from_bits(fraction, weights, base, own, probability, hamming_bits, RESOLVED)
