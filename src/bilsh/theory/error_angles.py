r"""The angle between the error of a code and the way from what it stands for to a query.

With :math:`\hat x` what a code stands for, e = |x - x_hat| and d_hat = |q - x_hat|, always

.. math:: |q - x|^2 = \hat d^2 + e^2 - 2 \hat d e \cos\varphi,

hence :math:`| |q - x| - \hat d | \le e`. Of items chosen at random cos phi is about 0; of hits it is not, since near
items have errors like the query's. A sample of hits whose distances are known tells how cos phi is distributed, by
d_hat / e.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bilsh.types import Floats

LEVELS = np.concatenate([[0.001, 0.0025, 0.005, 0.01, 0.0175, 0.025, 0.0375], np.arange(0.05, 0.9501, 0.05)])
LEVELS = np.unique(np.round(np.concatenate([LEVELS, 1 - LEVELS]), 6))
"""Probabilities whose quantiles are kept."""

BINS = 8
FEWEST = 400
"""Hits that a table needs."""
FEWEST_OF_RANK = 40
"""Hits that tell the ends of 95 % intervals of their ranks; what fewer cannot tell is that of all hits."""
RANKS = (1, 3, 6)
"""Last ranks of groups of hits that are told apart; those behind them are one more group."""
WIDENING = 0.25
"""Power of the number of items over that of the sample by which the probability outside of intervals falls.

Among more items hits are nearer than those that were sampled, and the table is continued. Measured: without this, the
share outside of 95 % intervals was 1.2 to 1.4 times as large among four times as many items (power law, text), and 1.7
times among sixteen times as many (text). A fourth root makes 1.4 and 2 of these.
"""
WIDENING_OF_BOTH = 0.125
"""The same of a table that holds what items tell that were learned from and others, and is wide already.

With a fourth root intervals of 95 % held for .97 of hits among four times as many items (GloVe, power law).
"""


@dataclass(frozen=True, slots=True)
class AngleTable:
    """Quantiles of cos phi of hits.

    Attributes
    ----------
    ratios : array (bins,)
        Median d_hat / e of each bin, ascending.
    quantiles : array (bins, levels)
        Quantiles of cos phi at :data:`LEVELS`.
    n_items : int
        Items among which the hits were found; 0 where that was not kept.
    ranks : array (groups, levels) or None
        Which level of all hits is each of :data:`LEVELS` of hits of a group of ranks: the first hit is the luckiest.
    widening : float
        :data:`WIDENING`, or what was chosen instead.
    """

    ratios: Floats
    quantiles: Floats
    n_items: int = 0
    ranks: Floats | None = None
    widening: float = WIDENING

    @classmethod
    def of(cls, ratios: Floats, cosines: Floats, n_items: int) -> Self | None:
        """Learn from hits (q, k) among so many items, the best first; None where they are too few."""
        by_rank = [(ratios[:, group], cosines[:, group]) for group in _groups(ratios.shape[1])]
        good = np.isfinite(ratios) & np.isfinite(cosines)
        ratios, cosines = ratios[good], cosines[good]
        if len(ratios) < FEWEST:
            return None
        bins = int(min(BINS, len(ratios) // (FEWEST // 2)))
        parts = np.array_split(np.argsort(ratios, kind="stable"), bins)
        table = cls(
            np.array([np.median(ratios[part]) for part in parts]),
            np.stack([np.quantile(cosines[part], LEVELS) for part in parts]),
            n_items,
        )
        ranks = [table._levels_of(*hits) for hits in by_rank]
        return replace(table, ranks=np.stack(ranks + ranks[-1:] * (len(RANKS) + 1 - len(ranks))))

    def _levels_of(self, ratios: Floats, cosines: Floats) -> Floats:
        """Levels of all hits that are :data:`LEVELS` of these."""
        good = np.isfinite(ratios) & np.isfinite(cosines)
        if (n := int(good.sum())) < FEWEST_OF_RANK:
            return LEVELS
        at = np.stack([self.cosine(ratios[good], level) for level in LEVELS], axis=1)
        found = [np.interp(x, row, LEVELS) for x, row in zip(cosines[good], at, strict=True)]
        # A new hit is below the k-th smallest of n with probability k / (n + 1).
        told = np.quantile(found, LEVELS, method="weibull")
        too_low, too_high = LEVELS * (n + 1) < 1, (1 - LEVELS) * (n + 1) < 1
        told = np.where(too_low, np.minimum(told, LEVELS), told)
        return np.asarray(np.where(too_high, np.maximum(told, LEVELS), told))

    def holding(self, other: AngleTable) -> Self:
        """Return a table whose intervals hold those of both, whatever number of items the other one is of."""
        below, above = LEVELS < 0.5, LEVELS > 0.5
        at = np.unique(np.concatenate([self.ratios, other.ratios]))
        own, theirs = (np.stack([table.cosine(at, p) for p in LEVELS], axis=1) for table in (self, other))

        def wider(one: Floats, another: Floats) -> Floats:
            outer = np.where(below, np.minimum(one, another), np.maximum(one, another))
            return np.where(below | above, outer, one)

        ranks = self.ranks
        if ranks is not None and other.ranks is not None:
            ranks = wider(ranks, other.ranks)
        return replace(self, ratios=at, quantiles=wider(own, theirs), ranks=ranks, widening=WIDENING_OF_BOTH)

    def tail(self, probability: float, n_items: int) -> float:
        """Which tail of the sampled hits stands for one of hits among so many items."""
        more = n_items / self.n_items if self.n_items else 1.0
        return float(probability * max(1.0, more) ** -self.widening)

    def cosine(self, ratios: Floats, probability: float) -> Floats:
        """Quantile of cos phi of hits with these d_hat / e."""
        at = np.stack([np.interp(probability, LEVELS, row) for row in self.quantiles])
        # Beyond the bins as where errors and queries do not know of each other: there cos phi is e / d_hat. Among more
        # items than were sampled hits are nearer.
        ends = np.clip(ratios, self.ratios[0], self.ratios[-1])
        with np.errstate(divide="ignore", invalid="ignore"):
            beyond = np.where((ratios > 0) & (ends > 0), 1 / ratios - 1 / ends, 0.0)
        return np.asarray(np.clip(np.interp(ends, self.ratios, at) + beyond, -1.0, 1.0))

    def cosine_by_rank(self, ratios: Floats, probability: float) -> Floats:
        """Quantile of cos phi of hits (q, k) in the order of their ranks."""
        if self.ranks is None:
            return self.cosine(ratios, probability)
        parts = [
            self.cosine(ratios[:, group], float(np.interp(probability, LEVELS, row)))
            for group, row in zip(_groups(ratios.shape[1]), self.ranks, strict=False)
        ]
        return np.concatenate(parts, axis=1)

    def to_array(self) -> Floats:
        """Return the bins as one array; ranks are another one."""
        return np.column_stack([self.ratios, self.quantiles])

    @classmethod
    def from_array(
        cls, array: Floats, n_items: int = 0, ranks: Floats | None = None, widening: float = WIDENING
    ) -> Self:
        """Inverse of :meth:`to_array`; ValueError where it cannot be one."""
        wide = array.ndim == 2 and array.shape[1] == len(LEVELS) + 1
        groups = ranks is None or ranks.shape == (len(RANKS) + 1, len(LEVELS))
        finite = all(np.isfinite(a).all() for a in (array, ranks) if a is not None)
        if not wide or not groups or not finite or not 0 <= widening <= 1:
            raise ValueError("the table of angles has another shape, or holds what is no number")
        kept = None if ranks is None else ranks.astype(np.float64)
        return cls(array[:, 0].astype(np.float64), array[:, 1:].astype(np.float64), n_items, kept, widening)


def _groups(k: int) -> list[slice]:
    """Columns of hits (q, k) whose ranks are one group."""
    ends = [end for end in RANKS if end < k]
    return [slice(*pair) for pair in zip([0, *ends], [*ends, k], strict=True)]


def distance_at(distance: Floats, error: Floats, cosine: Floats | float) -> Floats:
    """|q - x| for a distance to what the code stands for, an error, and the cosine of the angle between them."""
    return np.sqrt(np.maximum(distance**2 + error**2 - 2 * distance * error * cosine, 0.0))


def cosine_at(distance: Floats, error: Floats, true: Floats) -> Floats:
    """Inverse of :func:`distance_at`; NaN where there is no error or no distance."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (distance**2 + error**2 - true**2) / (2 * distance * error)
    return np.clip(found, -1.0, 1.0)
