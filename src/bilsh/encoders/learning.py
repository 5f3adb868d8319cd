"""Learning transform codes: centres, frames, and bits where the variance is.

Reverse water-filling (Cover and Thomas, Elements of Information Theory, section 10.3.3) says which coordinates of a
Gaussian deserve how many bits; with whole bits it is greedy: the next bit goes where it takes the most distortion away.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.projections.transform import MOST_DEPTH
from bilsh.types import Floats, Values

STEPS = np.array(
    [np.nan, 1.5958, 0.9957, 0.5860, 0.3352, 0.1881, 0.1041, 0.0569, 0.0308, 0.0166, 0.0089, 0.0047, 0.0025]
)
"""Width of the cells of the best uniform quantiser of a standard Gaussian, by its bits (Max, 1960)."""

DISTORTIONS = np.array(
    [
        1.0,
        0.3634,
        0.1188,
        0.03744,
        0.01154,
        0.003490,
        0.001040,
        3.035e-4,
        8.714e-5,
        2.47e-5,
        6.9e-6,
        1.9e-6,
        5.3e-7,
    ]
)
"""Its mean squared error."""

PRIOR_ROWS = 100
"""Least weight, in rows, of what all centres have in common in the frame of one of them."""

KMEANS_ROUNDS = 12

FEWEST_ORIGIN_ROWS, ORIGIN_ROWS, ORIGIN_NUMBERS = 20, 1_000, 2**22
"""Bounds on the rows, and their numbers, that tell which values most items have."""
WORTH_AN_ORIGIN = 0.25
"""Share of an item's numbers that an origin must turn into zeros."""

ITSELF = 0.5
"""What an error counts for wherever it lies, beside how much neighbours differ there, in means of the latter."""

STRETCHES = np.geomspace(0.8, 1.25, 10, dtype=np.float32)
"""Tried for every item: a few coordinates that are too large for their bits cost more than slightly wider steps."""
DEEP = 2.5
"""Mean bits of a coordinate above which that pays: one bit does not feel it, and encoding takes twice as long."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Directions around one centre, and the standard deviations of the data along them.

    Attributes
    ----------
    left, right : float64 arrays (d_w, d_w) and (d_v, d_v), or None
        Rows are eigenvectors; coordinate i * d_v + j belongs to rows i and j.
    basis : float64 array (d, d) or None
        Rows are eigenvectors.
    deviations : float64 array (d,)
    """

    left: Floats | None
    right: Floats | None
    basis: Floats | None
    deviations: Floats


@dataclass(frozen=True, slots=True)
class Allocation:
    """Bits of one centre.

    Attributes
    ----------
    used : int64 array (m,)
        Coordinates that have bits.
    depths : int32 array (m,)
    order : int32 array (n_bits,)
        Place in `used` of the coordinate of each bit, the most worthy bit first; -1 where nothing is left to tell.
    distortion : float
        Expected squared error, each coordinate's as much as it counts.
    """

    used: NDArray[np.int64]
    depths: NDArray[np.int32]
    order: NDArray[np.int32]
    distortion: float


def common_values(X: Values) -> Values | None:
    """Values (d,) that most rows have, 0 where there is none; None where they are few.

    Numbers that were 0, the edges of images or words that a text has not, are another number in each column once data
    are centred or scaled.
    """
    rows = X[:: -(-len(X) // max(1, min(ORIGIN_ROWS, ORIGIN_NUMBERS // X.shape[1])))]
    if len(rows) < FEWEST_ORIGIN_ROWS:
        return None
    middle = np.sort(rows, axis=0)[len(rows) // 2]  # what more than half of the rows have is the median
    share = (rows == middle).mean(axis=0)
    common = (share > 0.5) & (middle != 0)
    if share[common].sum() < WORTH_AN_ORIGIN * X.shape[1]:
        return None
    return np.where(common, middle, np.float32(0))


def centres_of(X: Values, n_centres: int, rng: np.random.Generator) -> Values:
    """Means of clusters of the rows (k-means); fewer than asked for where clusters are empty."""
    if n_centres == 1:
        return np.asarray(X.mean(axis=0, dtype=np.float64), dtype=np.float32)[None]
    from sklearn.cluster import KMeans

    seed = int(rng.integers(2**31))
    found = KMeans(min(n_centres, len(X)), n_init=1, max_iter=KMEANS_ROUNDS, random_state=seed, tol=0.0)
    labels = _quietly(found.fit_predict, X)
    kept = np.unique(labels)
    means = [X[labels == label].mean(axis=0, dtype=np.float64) for label in kept]
    return np.asarray(means, dtype=np.float32)


def _quietly(work: Any, X: Values) -> NDArray[np.int32]:
    """Few distinct rows make fewer clusters, which is fine here."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(work(X))


def nearest_centre(X: Values, centres: Values) -> NDArray[np.int64]:
    """Nearest centre of each row."""
    return np.asarray((X @ centres.T - 0.5 * np.square(centres).sum(axis=1)).argmax(axis=1))


class Covariance:
    """Second moments of differences from centres: of rows and columns of matrices, or of whole vectors."""

    def __init__(self, parts: tuple[Floats, ...], n_rows: int) -> None:
        self.parts, self.n_rows = parts, n_rows

    @classmethod
    def of(cls, D: Values, shape: tuple[int, int] | None) -> Covariance:
        """Measure differences (n, d), which are matrices of a shape or plain vectors."""
        n = max(1, len(D))
        if shape is None:
            return cls(((D.T @ D).astype(np.float64) / n,), len(D))
        M = D.reshape(len(D), *shape)
        rows = np.ascontiguousarray(M.transpose(1, 0, 2)).reshape(shape[0], -1)
        columns = M.reshape(-1, shape[1])
        return cls(
            ((rows @ rows.T).astype(np.float64) / n, (columns.T @ columns).astype(np.float64) / n), len(D)
        )

    def towards(self, prior: Covariance) -> Covariance:
        """Return the mean of both, where the other one counts as many rows as there are numbers to rotate."""
        own = self.n_rows / (self.n_rows + max(PRIOR_ROWS, *map(len, self.parts)))
        return Covariance(
            tuple(
                own * mine + (1 - own) * other for mine, other in zip(self.parts, prior.parts, strict=True)
            ),
            self.n_rows,
        )

    def frame(self, D: Values) -> Frame:
        """Eigenvectors, and the deviations of differences along them."""
        vectors = [np.linalg.eigh(part)[1][:, ::-1].T for part in self.parts]
        if len(vectors) == 1:
            made = Frame(None, None, vectors[0], np.empty(0))
        else:
            made = Frame(vectors[0], vectors[1], None, np.empty(0))
        return Frame(made.left, made.right, made.basis, deviations_of(made, D))


def coordinates_of(frame: Frame, D: Values) -> Values:
    """Coordinates (n, d) of differences."""
    if frame.left is None or frame.right is None:
        return D @ np.asarray(frame.basis, dtype=np.float32).T
    left, right = frame.left.astype(np.float32), frame.right.astype(np.float32)
    made = left @ D.reshape(len(D), left.shape[1], right.shape[1]) @ right.T
    return np.asarray(made.reshape(len(D), -1), dtype=np.float32)


def deviations_of(frame: Frame, D: Values) -> Floats:
    """Root mean squares (d,) of the coordinates of differences."""
    total, rows = 0.0, max(1, 2**24 // D.shape[1])
    squares: Any = np.zeros(D.shape[1])
    for start in range(0, len(D), rows):
        squares += np.square(coordinates_of(frame, D[start : start + rows]), dtype=np.float64).sum(axis=0)
        total += len(D[start : start + rows])
    return np.asarray(np.sqrt(squares / max(1.0, total)))


def counts_of(near: Floats) -> Floats:
    """Roots (d,) of what a squared error of each coordinate counts for, by its deviations between near neighbours.

    An error shifts the distance from a query by its product with the difference between query and item: it counts
    as much as neighbours differ there. Errors also count by themselves, hence half as much of the mean is added.
    """
    squares = np.square(near)
    mean = squares.mean()
    return np.asarray(np.sqrt(squares / mean + ITSELF)) if mean > 0 else np.ones(len(near))


def allocate(deviations: Floats, n_bits: int) -> Allocation:
    """Give each next bit to the coordinate where it takes the most distortion away.

    Parameters
    ----------
    deviations : float64 array (d,)
        Of the coordinates, times the roots of what their squared errors count for.
    n_bits : int
    """
    candidates = np.argsort(-deviations, kind="stable")[:n_bits]
    variances = np.square(deviations[candidates])
    variances = variances[variances > variances.max(initial=0.0) * 1e-12]
    if len(variances) == 0:  # data without spread: one coordinate, of any width
        return Allocation(
            candidates[:1], np.ones(1, dtype=np.int32), np.full(n_bits, -1, dtype=np.int32), 0.0
        )
    gains = DISTORTIONS[:-1] - DISTORTIONS[1:]
    heap = [(-variance * gains[0], i) for i, variance in enumerate(variances.tolist())]
    heapify(heap)
    depths, order = np.zeros(len(variances), dtype=np.int32), np.full(n_bits, -1, dtype=np.int32)
    for bit in range(n_bits):
        gain, i = heap[0]
        if gain == 0.0:
            break
        order[bit] = i
        depths[i] += 1
        following = -variances[i] * gains[depths[i]] if depths[i] < MOST_DEPTH else 0.0
        heapreplace(heap, (following, i))
    used = np.flatnonzero(depths)
    place = np.full(len(variances) + 1, -1, dtype=np.int32)
    place[used] = np.arange(len(used))
    left = np.square(deviations).sum() - (variances * (1 - DISTORTIONS[depths])).sum()
    return Allocation(candidates[used], depths[used], place[order], float(left))


def lengths_of(D: Values) -> Floats:
    """Lengths (n, 1) of differences."""
    return np.asarray(np.sqrt(np.square(D, dtype=np.float64).sum(axis=1, keepdims=True)))


def shapes_of(D: Values) -> Values:
    """Differences divided by their lengths; those without a length stay 0.

    Items differ in length far more than the coordinates of a Gaussian would let them: without their lengths,
    coordinates have the light tails for which the quantisers were made.
    """
    lengths = lengths_of(D)
    return np.divide(
        D, lengths, out=np.zeros_like(D), where=lengths > 0, dtype=np.float32, casting="same_kind"
    )


def quantized(values: Values, steps: Values, depths: NDArray[np.int32]) -> Values:
    """Coordinates (n, m) of differences of length 1, as codes give them back."""
    half = np.float32(2.0) ** (depths - 1).astype(np.float32)
    cells = np.clip(np.floor(values / steps), -half, half - 1)
    return np.asarray((cells + np.float32(0.5)) * steps, dtype=np.float32)


def stretches_of(depths: NDArray[np.int32]) -> Values:
    """Which stretches are tried for items whose coordinates have so many bits."""
    return STRETCHES if depths.mean() > DEEP else STRETCHES[:0]


def best_quantized(values: Values, steps: Values, depths: NDArray[np.int32], stretches: Values) -> Floats:
    """The same, stretched before as suits each item: the directions that err least."""
    best = quantized(values, steps, depths)
    most = _cosines(values, best)
    for stretch in stretches:
        r = quantized(values * stretch, steps, depths)
        found = _cosines(values, r)
        better = found > most
        best[better], most[better] = r[better], found[better]
    return best.astype(np.float64)


def _cosines(values: Values, r: Values) -> Floats:
    """Cosines (n,) between coordinates and what codes give back, times the lengths of the former."""
    product, squares = (np.einsum("ni,ni->n", each, r, dtype=np.float64) for each in (values, r))
    return np.asarray(product / np.sqrt(squares))
