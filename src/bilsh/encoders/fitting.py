"""From a sample of descriptors to a transform code: which transform, how many centres, and what its errors are like."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.encoders.learning import (
    STEPS,
    Allocation,
    Covariance,
    Frame,
    allocate,
    best_quantized,
    centres_of,
    common_values,
    coordinates_of,
    counts_of,
    deviations_of,
    lengths_of,
    nearest_centre,
    shapes_of,
    stretches_of,
)
from bilsh.projections.designs import near_square_factors
from bilsh.projections.transform import HEADER_BYTES, LEVELS, TransformMap
from bilsh.types import Floats, Values

MOST_ROTATED = 4096
"""Dimensions up to which a plain rotation is learned: d^3 operations, and m d numbers to keep."""
MUCH_BETTER = 0.9
"""A plain rotation of matrices must leave less than this share of a separable one's distortion: it costs more."""
MUCH_FINER = 0.5
"""Steps of the added number of items must have less than this share of the error of those at scale 1."""
PARAMETER_BYTES = 2**25
"""Bound on what centres and frames may take together."""
ROTATION_WORK = 2**37
"""Bound on centres times d^3, what their plain rotations cost to learn: 16 of them up to d = 2,048, else one."""
DIFFERENCES, DIFFERENCE_NUMBERS = 1_000, 2**24
"""Bounds on how many differences between neighbours are looked at (mean squares, to a twentieth), and their numbers."""
ROWS_PER_CENTRE = 100
WORTH_IT = 0.005
"""Recall@10 by which another choice must be better: a sample's noise is about this."""
CENTRES = ((16, -2 * WORTH_IT), (64, WORTH_IT / 2))
"""Numbers of centres to try after one, and how much recall@10 each must bring on rows apart, over the one before.

A few centres gain more on the rows that they were learned from, which most sets that are no larger than a sample
consist of, than on others; learned from more rows, they gain on both. So do many, which cost time and memory, too.
"""
SHARES = (0.5, 1.0, 0.0, -0.5, -1.0)
"""How much of a squared error is added to estimates; the first, unless another one is worth it."""
ERROR_RANGE = 16.0
"""Errors from a sixteenth of the median to sixteen times it are told apart."""
SCALE_RANGE = 1e3
"""Scales of items are told apart down to a thousandth of the largest."""
SMALLEST = 1e-32
"""Width of a step where the data have no spread: far above the smallest float32."""
K = 10


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows as vectors: to learn from, and to judge by.

    Attributes
    ----------
    train, items, queries : float32 arrays (n, d)
        Items are searched for the queries' neighbours; rows that were learned from only where there are no others.
    shape : (int, int) or None
        Shape of descriptors that are matrices.
    """

    train: Values
    items: Values
    queries: Values
    shape: tuple[int, int] | None

    @property
    def d(self) -> int:
        """Numbers of a descriptor."""
        return int(self.train.shape[1])

    def apart(self) -> Sample:
        """Return a sample whose items were not learned from, at the cost of rows to learn from."""
        some = len(self.train) // 5
        if self.items is not self.train or some < K:
            return self
        return replace(self, train=self.train[some:], items=self.train[:some])


def chosen_shape(sample: Sample, transform: str, n_bits: int) -> tuple[int, int] | None:
    """Shape of the matrices that a separable transform sees; None where a plain rotation is better.

    Decided by the distortion that is left with so many bits around one centre. Long vectors are taken for matrices,
    since nothing else is affordable.
    """
    shape = sample.shape
    if transform == "pca" or (transform == "auto" and shape is None and sample.d <= MOST_ROTATED):
        return None
    if shape is None:
        found = near_square_factors(sample.d)
        return found if found[0] * found[1] == sample.d else (1, sample.d)
    if transform == "klt" or sample.d > MOST_ROTATED or min(shape) == 1:
        return shape if min(shape) > 1 else (None if sample.d <= MOST_ROTATED else shape)
    D = shapes_of(sample.train - sample.train.mean(axis=0))
    left = [allocate(Covariance.of(D, each).frame(D).deviations, n_bits).distortion for each in (shape, None)]
    return None if left[1] < MUCH_BETTER * left[0] else shape


@dataclass(frozen=True, slots=True)
class Cell:
    """A centre with its frame and bits."""

    centre: Values
    frame: Frame
    bits: Allocation

    @property
    def steps(self) -> Values:
        """Width of the cells of each coordinate."""
        widths = STEPS[self.bits.depths] * self.frame.deviations[self.bits.used]
        return np.asarray(np.maximum(widths, SMALLEST), dtype=np.float32)

    def values(self, X: Values) -> Values:
        """Coordinates (n, m) that have bits."""
        return np.ascontiguousarray(coordinates_of(self.frame, X - self.centre)[:, self.bits.used])

    @property
    def parameters(self) -> int:
        """Numbers that centre and frame take."""
        parts = (self.centre, self.frame.left, self.frame.right, self.frame.basis)
        return sum(part.size for part in parts if part is not None)


def learned_cells(
    sample: Sample,
    near: NDArray[np.bool_],
    shape: tuple[int, int] | None,
    n_centres: int,
    n_bits: int,
    rng: np.random.Generator,
) -> list[Cell]:
    """Centres, frames and bits; frames of few rows lean on what all centres have in common.

    Bits go where errors are large and true neighbours, which `near` (q, n) marks, differ.
    """
    centres = centres_of(sample.train, n_centres, rng)
    nearest = nearest_centre(sample.train, centres)
    D = shapes_of(sample.train - centres[nearest])
    prior = Covariance.of(D, shape)
    between = differences(sample, near)
    cells = []
    for c, centre in enumerate(centres):
        mine = D[nearest == c]
        covariance = prior if len(centres) == 1 else Covariance.of(mine, shape).towards(prior)
        frame = covariance.frame(mine if len(mine) >= ROWS_PER_CENTRE // 2 else D)
        worth = frame.deviations * counts_of(deviations_of(frame, between))
        cells.append(_cell(centre, frame, allocate(worth, n_bits)))
    return cells


def differences(sample: Sample, near: NDArray[np.bool_]) -> Values:
    """Differences (p, d) between queries and their true neighbours, no more than are needed."""
    pairs = np.argwhere(near)
    most = min(DIFFERENCES, max(1, DIFFERENCE_NUMBERS // sample.d))
    q, i = pairs[:: -(-len(pairs) // most)].T
    return np.asarray(sample.queries[q] - sample.items[i])


def _cell(centre: Values, frame: Frame, bits: Allocation) -> Cell:
    """Return a cell that keeps of a plain rotation what has bits: d^2 numbers for each centre would be many."""
    if frame.basis is None:
        return Cell(centre, frame, bits)
    kept = Frame(None, None, frame.basis[bits.used], frame.deviations[bits.used])
    return Cell(centre, kept, replace(bits, used=np.arange(len(bits.used))))


@dataclass(frozen=True, slots=True)
class Errors:
    """What codes of items leave out.

    Attributes
    ----------
    scales, squares : float64 arrays (n,)
        Scale of each item, and |r|^2.
    errors : float64 array (n,)
        |x - x_hat|^2.
    estimates : float32 array (q, n)
        Of squared distances, without |x_hat - centre|^2 and a share of the errors.
    """

    scales: Floats
    squares: Floats
    errors: Floats
    estimates: Values

    @classmethod
    def of(cls, cells: list[Cell], items: Values, queries: Values) -> Errors:
        """Quantise the items, and compare all queries with them."""
        centres = np.stack([cell.centre for cell in cells])
        nearest = nearest_centre(items, centres)
        scales, squares, errors = np.zeros((3, len(items)))
        stretches = stretches_of(np.concatenate([cell.bits.depths for cell in cells]))
        estimates = np.zeros((len(queries), len(items)), dtype=np.float32)
        for c, cell in enumerate(cells):
            mine = np.flatnonzero(nearest == c)
            if not len(mine):
                continue
            lengths = lengths_of(items[mine] - cell.centre)
            values = cell.values(items[mine]).astype(np.float64)
            shapes = (values / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
            r = best_quantized(shapes, cell.steps, cell.bits.depths, stretches)
            squares[mine] = np.square(r).sum(axis=1)
            scale = np.maximum((values * r).sum(axis=1) / squares[mine], 0.0)
            scales[mine] = scale
            stands = scale[:, None] * r
            outside = np.square(lengths[:, 0]) - np.square(values).sum(axis=1)
            errors[mine] = np.maximum(outside, 0.0) + np.square(values - stands).sum(axis=1)
            asked = np.square(queries - cell.centre, dtype=np.float64).sum(axis=1)
            estimates[:, mine] = asked[:, None] - 2 * cell.values(queries) @ stands.astype(np.float32).T
        return cls(scales, squares, errors, estimates)

    def added(self, share: float) -> Floats:
        """What is added (n,) to estimates of items of scale 1."""
        squares = np.square(np.where(self.scales > 0, self.scales, 1.0))
        return self.squares + np.where(self.scales > 0, share * self.errors / squares, 0.0)

    def added_to_items(self, share: float) -> Floats:
        """What is added (n,) to the estimates of the items themselves."""
        return np.square(self.scales) * self.squares + share * self.errors

    def recall(self, share: float, near: NDArray[np.bool_]) -> float:
        """Recall of the true neighbours, which `near` (q, n) marks."""
        k = int(near[0].sum())
        found = self.estimates + np.float32(self.added_to_items(share))
        best = np.argpartition(found, k - 1, axis=1)[:, :k]
        return float(np.take_along_axis(near, best, axis=1).mean())


def true_neighbours(sample: Sample) -> NDArray[np.bool_]:
    """Which items (q, n) are among the nearest of each query."""
    items, queries = sample.items, sample.queries
    far = np.square(items, dtype=np.float64).sum(axis=1) - 2.0 * (queries @ items.T)
    k = min(K, len(items))
    near = np.zeros(far.shape, dtype=np.bool_)
    np.put_along_axis(near, np.argpartition(far, k - 1, axis=1)[:, :k], True, axis=1)
    return near


@dataclass(frozen=True, slots=True)
class Trial:
    """A number of centres, tried on a sample."""

    cells: list[Cell]
    seen: Errors
    share: float
    recall: float

    @classmethod
    def of(
        cls,
        sample: Sample,
        shape: tuple[int, int] | None,
        n_centres: int,
        n_bits: int,
        rng: np.random.Generator,
    ) -> Trial:
        """Learn so many centres, and take the share of errors that finds the most neighbours."""
        near = true_neighbours(sample)
        cells = learned_cells(sample, near, shape, n_centres, n_bits, rng)
        seen = Errors.of(cells, sample.items, sample.queries)
        found = [seen.recall(share, near) for share in SHARES]
        best = int(np.argmax(found))
        chosen = best if found[best] >= found[0] + WORTH_IT else 0
        return cls(cells, seen, SHARES[chosen], found[chosen])

    def map(self, shape: tuple[int, int] | None, n_bytes: int, origin: Values | None) -> TransformMap:
        """Return what encodes so."""
        return assembled(self.cells, self.seen, shape, self.share, n_bytes, origin)

    def allows(self, n_centres: int, sample: Sample, shape: tuple[int, int] | None) -> bool:
        """Whether rows, memory and time allow so many centres, if each takes as much as those of this trial."""
        each = sum(cell.parameters for cell in self.cells) / len(self.cells)
        work = n_centres * sample.d**3 if shape is None else 0
        enough = n_centres * ROWS_PER_CENTRE <= len(sample.train)
        return enough and 4 * n_centres * each <= PARAMETER_BYTES and work <= ROTATION_WORK


def fitted_transform(
    sample: Sample, transform: str, centres: int | str, n_bytes: int, rng: np.random.Generator
) -> tuple[TransformMap, TransformMap]:
    """Learn the code of so many bytes; what is "auto" is decided by recall on items apart from those learned from.

    Many centres describe the very rows that they were learned from better than any others. So there is a second map,
    like the first, that was learned from nothing but the rows of ``sample.apart()``; the same where it would be.
    """
    n_bits = 8 * (n_bytes - HEADER_BYTES)
    origin = common_values(sample.train)
    shape = chosen_shape(sample, transform, n_bits)
    judge = sample.apart()
    if not isinstance(centres, str):
        best = Trial.of(sample, shape, centres, n_bits, rng)
        apart = best if judge is sample or centres == 1 else Trial.of(judge, shape, centres, n_bits, rng)
        return best.map(shape, n_bytes, origin), apart.map(shape, n_bytes, origin)
    best = Trial.of(judge, shape, 1, n_bits, rng)
    # More of them are not even tried where the last step was not worth it.
    for number, gain in CENTRES:
        if not best.allows(number, judge, shape):
            break
        trial = Trial.of(judge, shape, number, n_bits, rng)
        brought = trial.recall - best.recall
        if brought < gain:
            break
        best = trial
        if brought < WORTH_IT:
            break
    apart = best
    if judge is not sample:
        best = Trial.of(sample, shape, len(best.cells), n_bits, rng)
    return best.map(shape, n_bytes, origin), apart.map(shape, n_bytes, origin)


def assembled(
    cells: list[Cell],
    seen: Errors,
    shape: tuple[int, int] | None,
    share: float,
    n_bytes: int,
    origin: Values | None,
) -> TransformMap:
    """Put everything into the arrays that encode."""
    steps = [cell.steps for cell in cells]
    depths = [cell.bits.depths for cell in cells]
    typical = float(np.sqrt(np.median(seen.errors))) if len(seen.errors) else 0.0
    largest = float(np.sqrt((np.square(seen.scales) * seen.squares + seen.errors).max(initial=0.0)))
    typical = max(typical, 1e-6 * largest, 1e-30)
    # Of scales half the smallest to twice the largest; of the rest a tenth more than was seen, to either side.
    high = max(2 * float(seen.scales.max(initial=0.0)), SMALLEST)
    low = max(float(np.min(seen.scales, where=seen.scales > 0, initial=high)) / 2, high / SCALE_RANGE)
    least, step, absolute = steps_of_added(seen, share)
    used = [cell.bits.used for cell in cells]
    frames: dict[str, Any] = dict.fromkeys(("left", "right", "pairs", "basis"))
    if shape is None:
        parts = [np.asarray(cell.frame.basis)[each] for cell, each in zip(cells, used, strict=True)]
        frames["basis"] = np.ascontiguousarray(np.concatenate(parts), dtype=np.float32)
    else:
        left, right = ([getattr(cell.frame, side) for cell in cells] for side in ("left", "right"))
        frames["left"] = np.ascontiguousarray(left, dtype=np.float32)
        frames["right"] = np.ascontiguousarray(right, dtype=np.float32)
        flat = np.concatenate(used)
        frames["pairs"] = np.stack([flat // shape[1], flat % shape[1]], axis=1).astype(np.int32)
    return TransformMap(
        centres=np.stack([cell.centre for cell in cells]),
        **frames,
        counts=np.array([len(each) for each in used], dtype=np.int32),
        coordinates=np.stack([cell.bits.order for cell in cells]),
        steps=np.concatenate(steps),
        depths=np.concatenate(depths),
        scales=np.append(0.0, np.geomspace(low, high, LEVELS - 1)).astype(np.float32),
        errors=np.geomspace(typical / ERROR_RANGE, typical * ERROR_RANGE, LEVELS - 1).astype(np.float32),
        stretches=stretches_of(np.concatenate(depths)),
        add_least=least,
        add_step=step,
        share=share,
        n_bytes=n_bytes,
        absolute=absolute,
        origin=origin,
    )


def steps_of_added(seen: Errors, share: float) -> tuple[float, float, bool]:
    """Beginning and width of the steps of the added number, and whether it is absolute.

    Items of many lengths and one shape have the same number at scale 1. Where codes hold little of items, though, one
    item whose scale is small makes its number large, and the steps wider than what tells neighbours apart; the number
    of the item itself stays near the square of its length.
    """
    found = []
    own = seen.added_to_items(share)
    largest = float(np.abs(own).max(initial=0.0))
    # Numbers of items lie so close together that new ones may well fall beside them; there is room to spare.
    for added, weights, size, more in (
        (seen.added(share), np.square(seen.scales), 1.0, 0.1),
        (own, np.ones_like(own), largest, 1.0),
    ):
        ends = np.array([added.min(), added.max()]) if len(added) else np.zeros(2)
        width = max(ends[1] - ends[0], 1e-3 * size, SMALLEST)
        least, most = ends + np.array([-more, more]) * width
        step = float(np.float32((most - least) / (LEVELS - 1)))
        off = step * float(np.sqrt(np.square(weights).mean())) if len(added) else 0.0
        found.append((float(np.float32(least)), step, off))
    absolute = found[1][2] < MUCH_FINER * found[0][2]
    return (*found[absolute][:2], absolute)
