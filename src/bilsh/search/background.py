"""How alike unrelated items are: the band in which random pairs of a store lie, and which hits stand out from it.

A similarity alone does not say where to stop reading. Beside what pairs of items score that nobody asked for, it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import Codes
from bilsh.encoders.coder import Coder
from bilsh.errors import InvalidInputError
from bilsh.types import Floats
from bilsh.validation import check_fraction, check_integer

if TYPE_CHECKING:
    from bilsh.search.results import Matches, Neighbors
    from bilsh.search.scan import Segment


PAIRS = 10_000
"""Pairs drawn by default: the ends of a band of 90 % are then known to about .2 % of all pairs."""

ITEMS = 4096
"""Items that the pairs are made of, at most."""


@dataclass(frozen=True, slots=True)
class Background:
    """What random pairs of items look like to their codes.

    Attributes
    ----------
    quantity : str or None
        What `low`, `median` and `high` are: "cosine" or "kernel", as of hits; None where codes do not tell any.
    low, median, high : float or None
        `share` of random pairs have a similarity from `low` to `high`; as many lie below as above.
    fractions : tuple of float
        The same in bits: fractions of differing bits, the smallest first.
    share : float
    n_pairs : int
        How many pairs were looked at.
    n_bits : int
    """

    quantity: str | None
    low: float | None
    median: float | None
    high: float | None
    fractions: tuple[float, float]
    share: float
    n_pairs: int
    n_bits: int

    def stands_out(self, hits: Neighbors | Matches) -> Any:
        """Tell which hits are surely more alike than random pairs: their intervals lie above the band.

        Parameters
        ----------
        hits : Neighbors or Matches
            Answer of a search.

        Returns
        -------
        bool array (q, k), or a list of q arrays for Matches; None where hits have no similarity
        """
        if hits.quantity != self.quantity:
            raise InvalidInputError(
                f"these hits tell {hits.quantity}, this band is one of {self.quantity}. "
                "Take the background of the store that was searched."
            )
        ends: Any = hits.interval
        if ends is None or self.high is None:
            return None
        if isinstance(ends, list):
            return [some[:, 0] > self.high for some in ends]
        return ends[..., 0] > self.high

    def __str__(self) -> str:
        if self.low is None:
            low, high = self.fractions
            return f"{self.share:.0%} of random pairs differ in {low:.3f} .. {high:.3f} of their bits"
        return f"{self.share:.0%} of random pairs have {self.quantity} {self.low:.3f} .. {self.high:.3f}"


def background(
    segments: list[Segment], coder: Coder, *, pairs: int = PAIRS, share: float = 0.9, seed: int = 0
) -> Background:
    """Measure the band; see :meth:`bilsh.Store.background`."""
    pairs = check_integer("pairs", pairs, minimum=1)
    share, seed = check_fraction("share", share), check_integer("seed", seed, minimum=0)
    rng = np.random.default_rng(seed)
    codes = _sample(segments, rng)
    if len(codes) < 2:
        raise InvalidInputError(f"pairs need at least 2 items; there are {len(codes)}.")
    first = rng.integers(len(codes), size=pairs)
    second = (first + rng.integers(1, len(codes), size=pairs)) % len(codes)
    fractions = _differing(codes, first, second) / coder.n_bits
    levels = (1 - share) / 2, 0.5, (1 + share) / 2
    if not coder.tells:
        low, _, high = np.quantile(fractions, levels)
        return Background(None, None, None, None, (low, high), share, pairs, coder.n_bits)
    calibration = coder.calibration
    ends = np.quantile(_without_noise(fractions, calibration.effective_bits(fractions)), levels)
    told = calibration.convert(calibration.primary(ends), calibration.similarity)
    return Background(
        calibration.similarity,
        float(told[2]),
        float(told[1]),
        float(told[0]),
        (float(ends[0]), float(ends[2])),
        share,
        pairs,
        coder.n_bits,
    )


def _sample(segments: list[Segment], rng: np.random.Generator) -> Codes:
    """Codes of random living items."""
    living = [_living(segment) for segment in segments]
    sizes = np.array([n if isinstance(n, int) else len(n) for n in living], dtype=np.int64)
    total = int(sizes.sum())
    if not total:
        return np.empty((0, 0), dtype=np.uint8)
    chosen = np.sort(rng.choice(total, min(total, ITEMS), replace=False, shuffle=False))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    parts = []
    for segment, rows, start, stop in zip(segments, living, starts[:-1], starts[1:], strict=True):
        mine = chosen[(chosen >= start) & (chosen < stop)] - start
        if len(mine):
            at = mine if isinstance(rows, int) else rows[mine]
            parts.append(np.hstack([slab[at] for slab in segment.slabs]))
    return np.concatenate(parts)


def _living(segment: Segment) -> int | NDArray[np.int64]:
    """Rows that are not deleted: their number where all are, else which."""
    n = len(segment.ids)
    if segment.alive is None:
        return n
    return np.flatnonzero(np.unpackbits(segment.alive, count=n, bitorder="little"))


def _differing(codes: Codes, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Differing bits of pairs, some MiB of codes at a time."""
    step = max(1, (1 << 22) // codes.shape[1])
    parts = [
        np.bitwise_count(codes[first[at : at + step]] ^ codes[second[at : at + step]]).sum(
            axis=1, dtype=np.int64
        )
        for at in range(0, len(first), step)
    ]
    return np.concatenate(parts)


def _without_noise(fractions: Floats, effective_bits: Floats) -> Floats:
    """Draw fractions together until they vary as expected fractions do, without the noise of the bits.

    Short codes would otherwise show a wide band for items that are all equally unlike, and noise would count twice: the
    intervals of hits know of it already.
    """
    mean, variance = fractions.mean(), fractions.var()
    noise = float((fractions * (1 - fractions) / effective_bits).mean())
    if not variance:
        return fractions
    return np.asarray(mean + (fractions - mean) * np.sqrt(max(0.0, 1 - noise / variance)))
