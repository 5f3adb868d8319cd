"""Copies of items as a test of codes, where neighbours tell nothing: all items are nearly as far from each other.

VLAD of unrelated photographs is such data. The ten nearest of a query are hardly nearer than any others there, and what
people look for are copies: the same photograph, rescaled or cut. A learned code of few bytes holds a few hundredths of
such an item, in directions that many items have in common; signs of random projections see all of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bilsh.encoders.coder import AngleCoder
from bilsh.encoders.euclidean_coder import EuclideanCoder
from bilsh.encoders.fitting import Sample
from bilsh.encoders.learning import lengths_of
from bilsh.types import Values

HARDLY_NEARER = 0.9
"""Median distance of the nearest item over that of any item, above which neighbours tell nothing. VLAD: .98."""
ALIKE_IN_LENGTH = 0.05
"""Deviation of lengths over their mean, below which signs, which do not know of lengths, lose nothing by it."""
KEPT = 0.35
"""Cosine of a copy and its original, from the mean of the data: that of photographs at half size, by VLAD."""
COPIES = 500
FEWEST = 20
"""Rows apart that are needed to make copies, and items to look among."""


@dataclass(frozen=True, slots=True)
class Found:
    """Share of planted copies whose original came first.

    Attributes
    ----------
    learned, sign : float
    """

    learned: float
    sign: float

    @property
    def by_signs(self) -> bool:
        """Whether sign codes are the better choice; learned ones where there is no difference."""
        return self.sign > self.learned


def are_all_far(sample: Sample) -> bool:
    """Whether items are nearly equidistant, and as long as each other."""
    items, queries = sample.train, sample.queries
    if min(len(items), len(queries)) < FEWEST:
        return False
    lengths = lengths_of(items - items.mean(axis=0))
    if lengths.std() > ALIKE_IN_LENGTH * lengths.mean():
        return False
    squares = (np.square(each, dtype=np.float64).sum(axis=1) for each in (queries, items))
    asked, stored = squares
    far = np.sqrt(np.maximum(asked[:, None] + stored - 2.0 * (queries @ items.T), 0.0))
    return bool(np.median(far.min(axis=1)) > HARDLY_NEARER * np.median(far))


def planted(sample: Sample, rng: np.random.Generator) -> tuple[Values, Values, NDArray[np.int64]]:
    """Items (n, d), copies (m, d) of some of them, and of which (m,).

    Originals are rows that were not learned from: a code that was fitted to few rows knows these by heart. What is not
    kept of an original is that of other such rows: noise that is like the data is harder to look through than noise of
    all directions, and it is what a rescaled photograph has.
    """
    half = len(sample.queries) // 2
    some, others = sample.queries[:half], sample.queries[half:]
    items = np.concatenate([some, sample.train])
    originals = np.resize(rng.permutation(half), COPIES)
    mean = sample.train.mean(axis=0)
    noise = others[rng.integers(len(others), size=COPIES)] - mean
    copies = mean + KEPT * (some[originals] - mean) + np.sqrt(1 - KEPT**2) * noise
    return items, np.ascontiguousarray(copies, dtype=np.float32), originals


def measured(learned: EuclideanCoder, sign: AngleCoder, sample: Sample, rng: np.random.Generator) -> Found:
    """Look for planted copies by both codes."""
    items, copies, originals = planted(sample, rng)
    first = learned.compiled.top_k(copies, [learned.encode(items)], 1)[0][:, 0]
    bits = np.unpackbits(sign.encode(items), axis=1, bitorder="little")[:, : sign.n_bits]
    scores = sign.values(copies) @ (2.0 * bits.astype(np.float32) - 1.0).T
    return Found(float((first == originals).mean()), float((scores.argmax(axis=1) == originals).mean()))
