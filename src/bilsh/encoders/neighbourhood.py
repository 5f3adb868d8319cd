"""What fitting learns about the data: how far neighbours are, and how differences of descriptors look.

Everything here works on a random sample of bounded size and is a pure function of the data and the generator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bilsh.validation import finite_blocks

Metric = Literal["euclidean", "cityblock"]

N_QUERIES = 300
BANDWIDTH_NEIGHBOUR = 50
ADVICE_NEIGHBOUR = 10
MAX_REFERENCES = 16_384
MIN_REFERENCES = 64
MAX_MULTIPLY_ADDS = 2**35
"""Bound on the work of one fit: queries x references x dimension."""
MAX_SAMPLE_BYTES = 2**28
"""Bound on the memory of the sample."""


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Distances in a sample of the data.

    Attributes
    ----------
    bandwidth_distance : float
        Mean distance to the 50th neighbour: the paper's threshold (sec. 4). 1 if the data have no spread.
    norm_ratio : float
        Mean norm of the centred data over the mean distance to the 10th neighbour; NaN if that is 0.
    """

    bandwidth_distance: float
    norm_ratio: float


def choose_rows(n: int, n_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Choose up to ``n_rows`` of n rows, in random order."""
    return rng.permutation(n) if n <= n_rows else rng.choice(n, n_rows, replace=False)


def take_rows(X: Any, chosen: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return those rows of X (n, ...) as finite float32 (rows, d)."""
    order = np.sort(chosen)  # ascending access suits mapped files
    rows = np.concatenate([block for _, block in finite_blocks(X[order])])
    return rows[np.searchsorted(order, chosen)]


def sample_rows(X: Any, n_rows: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return up to ``n_rows`` random rows of X (n, ...) as finite float32 (rows, d), in random order."""
    return take_rows(X, choose_rows(X.shape[0], n_rows, rng))


def measure(X: Any, rng: np.random.Generator, metric: Metric = "euclidean") -> Neighbourhood:
    """Measure the neighbourhood of a sample.

    Where only R of n descriptors are looked at, the 50th neighbour among all corresponds to about the (50 R / n)-th
    among them.

    Parameters
    ----------
    X : array (n, d) or (n, d_w, d_v)
        Descriptors that passed :func:`bilsh.validation.as_descriptors`.
    rng : Generator
        Chooses the sample.
    metric : {"euclidean", "cityblock"}
        The distance that the kernel depends on.
    """
    n, d = X.shape[0], int(np.prod(X.shape[1:]))
    affordable = min(MAX_MULTIPLY_ADDS // (N_QUERIES * d), MAX_SAMPLE_BYTES // (8 * d))
    if metric == "cityblock":
        affordable //= 16  # its kernel is that much slower than a matrix product
    n_references = min(n, MAX_REFERENCES, max(affordable, MIN_REFERENCES))
    references = sample_rows(X, n_references, rng).astype(np.float64)
    if len(references) < 2:
        return Neighbourhood(1.0, np.nan)
    centred = references - references.mean(axis=0)
    bandwidth_rank = _rank(BANDWIDTH_NEIGHBOUR, len(centred), n)
    to_bandwidth = _mean_distance(centred, bandwidth_rank, metric)
    to_advice = _mean_distance(centred, _rank(ADVICE_NEIGHBOUR, len(centred), n), "euclidean")
    norm = float(np.linalg.norm(centred, axis=1).mean())
    return Neighbourhood(
        to_bandwidth if to_bandwidth > 0 else 1.0, norm / to_advice if to_advice > 0 else np.nan
    )


def _rank(neighbour: int, n_references: int, n: int) -> int:
    """Rank among the references that the wanted neighbour among all n has on average."""
    return min(max(1, round(neighbour * (n_references - 1) / (n - 1))), n_references - 1)


def _mean_distance(rows: NDArray[np.float64], rank: int, metric: str) -> float:
    """Mean distance of up to 300 rows to their ``rank``-th neighbour; a row is not its own.

    The neighbour is found by a matrix product, its distance is then computed from the difference itself, so that
    duplicates and tight clusters do not drown in rounding.
    """
    squares = np.square(rows).sum(axis=1)
    distances = []
    for start in range(0, min(len(rows), N_QUERIES), 50):
        queries = rows[start : min(start + 50, N_QUERIES)]
        if metric == "euclidean":
            block = squares[start : start + len(queries), None] - 2.0 * (queries @ rows.T) + squares
        else:
            from scipy.spatial.distance import cdist  # only Laplacian kernels pay for the import

            block = cdist(queries, rows, "cityblock")
        block[np.arange(len(queries)), start + np.arange(len(queries))] = -np.inf
        neighbour = np.argpartition(block, rank, axis=1)[:, rank]
        order = 2 if metric == "euclidean" else 1
        distances.append(np.linalg.norm(queries - rows[neighbour], ord=order, axis=1))
    return float(np.concatenate(distances).mean())


@dataclass(frozen=True, slots=True)
class Pairs:
    """Sampled pairs of descriptors as the two factors of a bilinear projection see them.

    Half of them are near (each descriptor and its nearest in the sample), half are random: both kinds are asked about.

    Attributes
    ----------
    left, right : array (n, d_w, d_v)
    """

    left: NDArray[np.float64]
    right: NDArray[np.float64]

    def spectra(self) -> NDArray[np.float64]:
        """Eigenvalues (n, min(d_w, d_v)) of (X - Y)(X - Y)^T over their sum, descending; 0 for equal descriptors."""
        D = self.left - self.right
        if D.shape[1] > D.shape[2]:
            D = np.swapaxes(D, 1, 2)
        eigenvalues = np.array([np.maximum(np.linalg.eigvalsh(one @ one.T)[::-1], 0) for one in D])
        total = eigenvalues.sum(axis=1, keepdims=True)
        return np.asarray(eigenvalues / np.where(total > 0, total, 1.0))

    def distances(self) -> NDArray[np.float64]:
        """Distances (n,)."""
        return np.asarray(np.linalg.norm((self.left - self.right).reshape(len(self.left), -1), axis=1))


def sample_pairs(
    X: Any, matrices: Callable[[NDArray[np.float64]], NDArray[np.float64] | None], rng: np.random.Generator
) -> Pairs | None:
    """Sample pairs of descriptors; None for projections without two factors."""
    d = int(np.prod(X.shape[1:]))
    shape = matrices(np.zeros((1, d)))
    if shape is None:
        return None
    rows = sample_rows(X, int(np.clip(MAX_SAMPLE_BYTES // (8 * d), 16, 512)), rng).astype(np.float64)
    n_pairs = int(np.clip(2**28 // min(shape.shape[1:]) ** 3, 8, 128))
    squares = np.square(rows).sum(axis=1)
    distances = squares[:, None] - 2.0 * (rows @ rows.T) + squares
    np.fill_diagonal(distances, np.inf)
    nearest = distances.argmin(axis=1)[:n_pairs]
    first = rows[: len(nearest)]
    others = np.concatenate([rows[nearest], rows[::-1][: len(nearest)]])
    return Pairs(np.asarray(matrices(np.concatenate([first, first]))), np.asarray(matrices(others)))


def mean_spectrum(pairs: Pairs) -> NDArray[np.float64]:
    """Mean normalised spectrum of differences; flat if no two descriptors differ. Descending, sums to 1."""
    total = pairs.spectra().sum(axis=0)
    return np.asarray(total / total.sum() if total.sum() > 0 else np.full(len(total), 1 / len(total)))


def angles(A: NDArray[Any], B: NDArray[Any]) -> NDArray[np.float64]:
    """Angles (n, m) between descriptors, all against all."""
    a, b = (part.astype(np.float64).reshape(len(part), -1) for part in (A, B))
    norms = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1)
    return np.arccos(np.clip(a @ b.T / np.where(norms > 0, norms, 1.0), -1.0, 1.0))


def distances(A: NDArray[Any], B: NDArray[Any], metric: Metric) -> NDArray[np.float64]:
    """Distances (n, m) between descriptors, all against all."""
    a, b = (part.astype(np.float64).reshape(len(part), -1) for part in (A, B))
    if metric == "cityblock":
        return np.array([np.abs(b - row).sum(axis=1) for row in a])
    centre = b.mean(axis=0)
    a, b = a - centre, b - centre
    squares = np.square(a).sum(axis=1)[:, None] - 2 * (a @ b.T) + np.square(b).sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))
