"""Exact neighbours in the original space, and the paper's rule for who counts as a true neighbour."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh.errors import InvalidInputError, InvalidTypeError
from bilsh.types import Floats
from bilsh.validation import check_integer

Ints = NDArray[np.int64]

_BLOCK_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class Neighborhoods:
    """True neighbours of each query, as rows of the database, in one flat array.

    Attributes
    ----------
    offsets : int64 (q + 1,)
        Query i owns ``ids[offsets[i]:offsets[i + 1]]``.
    ids : int64
        Rows of the database, ascending within a query.
    """

    offsets: Ints
    ids: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, query: int) -> Ints:
        if not 0 <= query < len(self):
            raise IndexError(f"query {query} of {len(self)}")
        return self.ids[self.offsets[query] : self.offsets[query + 1]]

    @property
    def counts(self) -> Ints:
        """Number of true neighbours of each query, int64 (q,)."""
        return np.diff(self.offsets)

    @classmethod
    def from_ids(cls, ids: NDArray[Any] | Sequence[ArrayLike]) -> "Neighborhoods":
        """Build from an (q, k) matrix of ids or a list of id arrays.

        Examples
        --------
        >>> Neighborhoods.from_ids([[4, 2], [7, 1]])[1]
        array([1, 7])
        """
        rows = [np.unique(np.asarray(row, dtype=np.int64)) for row in ids]
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        return cls(offsets, np.concatenate([np.empty(0, np.int64), *rows]))


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """Outcome of the paper's ground-truth protocol.

    Attributes
    ----------
    queries : int64 (q,)
        Rows of the data that serve as queries, after the two rules for dropping.
    database : int64 (n - n_queries,)
        Rows of the data that are searched: all that were not drawn as queries, ascending.
    threshold : float
        Mean over all drawn queries of the distance to the 50th neighbour.
    neighbors : Neighborhoods
        For each query the positions within ``database`` that are closer than the threshold.
    dropped_crowded, dropped_empty : int
        Queries dropped for more than ``max_neighbors`` true neighbours, and for none.
    """

    queries: Ints
    database: Ints
    threshold: float
    neighbors: Neighborhoods
    dropped_crowded: int
    dropped_empty: int

    @property
    def scale(self) -> float:
        """Factor that brings the threshold to 1; the same codes follow from ``bandwidth=threshold``."""
        return 1.0 / self.threshold


def _as_rows(X: ArrayLike, name: str) -> NDArray[Any]:
    """View (n, d) or (n, d_w, d_v) numbers as (n, d) without copying a memory map."""
    rows = X if isinstance(X, np.ndarray) else np.asarray(X)
    if rows.ndim not in (2, 3) or rows.dtype.kind not in "fiub" or 0 in rows.shape[1:]:
        raise InvalidInputError(
            f"{name} must be numbers of shape (n, d) or (n, d_w, d_v); got {rows.dtype} {rows.shape}."
        )
    return rows.reshape(len(rows), -1)


def _squared_distances(
    queries: Floats, data: NDArray[Any], rows: Ints | None = None
) -> Iterator[tuple[int, Floats, Floats, Floats]]:
    """Yield (first position, squared distances (q, block), their error bounds, the block) block by block.

    One matrix product per block, in double precision, around a common centre, so that an offset of the data
    costs no digits. The centre is whole: integers up to 2^24, such as pixels, come out exact.
    """
    centre = np.rint(queries.mean(axis=0)) if len(queries) else 0.0
    Q = queries - centre
    q_norms = np.einsum("ij,ij->i", Q, Q)[:, None]
    n = len(data) if rows is None else len(rows)
    step = max(1, _BLOCK_BYTES // (8 * max(data.shape[1], len(Q), 1)))
    for start in range(0, n, step):
        chosen = slice(start, start + step) if rows is None else rows[start : start + step]
        block = np.asarray(data[chosen], dtype=np.float64)
        X = block - centre
        norms = np.einsum("ij,ij->i", X, X)
        if not np.isfinite(norms).all():
            bad = start + int(np.flatnonzero(~np.isfinite(norms))[0])
            raise InvalidInputError(
                f"Database row {bad if rows is None else rows[bad]} has NaN, inf or overflowing values. "
                "Remove or impute such rows first, e.g. X = X[np.isfinite(X).all(axis=1)]."
            )
        squared = Q @ X.T
        squared *= -2.0
        squared += q_norms
        squared += norms
        # The three dot products err by at most d * eps * (|x|^2 + |y|^2) together; twice that covers the
        # centring and the differences they are compared with, the last term what underflows.
        numbers = np.finfo(np.float64)
        slack = 2.0 * numbers.eps * (Q.shape[1] + 4) * (q_norms + norms) + 4.0 * Q.shape[1] * numbers.tiny
        yield start, np.maximum(squared, 0.0, out=squared), slack, block


def _distances(block: Floats, query: Floats) -> Floats:
    """Distances (n,) by differences, not norms and products: a duplicate has distance 0 exactly."""
    differences = block - query
    squared = np.square(differences).sum(axis=1)
    distances = np.sqrt(squared)
    tiny = squared < 1e-280
    # Squares of the smallest numbers vanish; a power of two lifts them without rounding.
    lifted = np.sqrt(np.square(np.ldexp(differences[tiny], 600)).sum(axis=1))
    distances[tiny] = np.ldexp(lifted, -600)
    return np.asarray(distances)


def _checked_pair(queries: ArrayLike, database: ArrayLike) -> tuple[Floats, NDArray[Any]]:
    Q, X = _as_rows(queries, "queries"), _as_rows(database, "database")
    if Q.shape[1] != X.shape[1]:
        raise InvalidInputError(f"queries have {Q.shape[1]} features, the database has {X.shape[1]}.")
    Q = np.asarray(Q, dtype=np.float64)
    with np.errstate(over="ignore"):
        bad = np.flatnonzero(~np.isfinite(np.square(Q).sum(axis=1)))
    if len(bad):
        raise InvalidInputError(
            f"queries hold NaN, inf or overflowing values, first in row {bad[0]}. "
            "Remove, impute or scale those rows first."
        )
    return Q, X


def _as_subset(rows: ArrayLike | None, n: int) -> Ints | None:
    """Check row numbers of a database of n items."""
    if rows is None:
        return None
    array = np.asarray(rows)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        hint = " Of a mask, give np.flatnonzero(mask)." if array.dtype == np.bool_ else ""
        raise InvalidTypeError(
            f"rows must be row numbers of the database, integers (m,); got {array.dtype} {array.shape}.{hint}"
        )
    if array.size and not 0 <= int(array.min()) <= int(array.max()) < n:
        raise InvalidInputError(
            f"rows must lie between 0 and {n - 1}, the rows of the database; got {array.min()} to {array.max()}."
        )
    return array.astype(np.int64)


def exact_neighbors(
    queries: ArrayLike, database: ArrayLike, k: int, *, rows: ArrayLike | None = None
) -> tuple[Ints, Floats]:
    """Find the k nearest database items of each query by Euclidean distance, without approximation.

    Works in blocks of the database (which may be memory-mapped); memory grows with the number of queries, not
    with the number of items. What the fast product of a block cannot decide is settled by differences, so
    neither an offset nor a tiny scale of the data changes the answer.

    Parameters
    ----------
    queries : array (q, d) or (q, d_w, d_v)
    database : array (n, d) or (n, d_w, d_v)
    k : int
        Between 1 and the number of items.
    rows : int array, optional
        Search only these rows of the database; ids are then positions in ``rows``.

    Returns
    -------
    ids : int64 (q, k)
        Sorted by distance, ties by id.
    distances : float64 (q, k)

    Examples
    --------
    >>> ids, distances = exact_neighbors([[0.0, 0.0]], [[3.0, 4.0], [1.0, 0.0], [9.0, 9.0]], k=2)
    >>> ids, distances
    (array([[1, 0]]), array([[1., 5.]]))
    """
    Q, X = _checked_pair(queries, database)
    subset = _as_subset(rows, len(X))
    n = len(X) if subset is None else len(subset)
    k = check_integer("k", k, minimum=1)
    if k > n:
        raise InvalidInputError(f"k must lie between 1 and the {n} items of the database; got {k}.")
    ids = np.full((len(Q), k), -1, dtype=np.int64)
    best = np.full((len(Q), k), np.inf)
    for start, squared, slack, block in _squared_distances(Q, X, subset):
        # Whatever the error bounds cannot exclude from the nearest k is settled by differences.
        farthest = np.hstack([np.square(best) * (1 + 1e-15), squared + slack])
        limit = np.partition(farthest, k - 1, axis=1)[:, k - 1 : k]
        for i, possible in enumerate(squared - slack <= limit):
            columns = np.flatnonzero(possible)
            merged = np.concatenate([best[i], _distances(block[columns], Q[i])])
            merged_ids = np.concatenate([ids[i], start + columns])
            order = np.lexsort((merged_ids, merged))[:k]
            ids[i], best[i] = merged_ids[order], merged[order]
    return ids, best


def exact_within(
    queries: ArrayLike, database: ArrayLike, radius: float, *, rows: ArrayLike | None = None
) -> Neighborhoods:
    """Find all database items closer to each query than ``radius`` (strictly), without approximation.

    Pairs whose distance the block product cannot tell from the radius are recomputed from their differences.

    Parameters
    ----------
    queries, database, rows
        As in :func:`exact_neighbors`.
    radius : float

    Returns
    -------
    Neighborhoods
    """
    Q, X = _checked_pair(queries, database)
    subset = _as_subset(rows, len(X))
    if not radius >= 0:
        raise InvalidInputError(f"radius must be >= 0; got {radius}.")
    found: list[list[Ints]] = [[] for _ in Q]
    for start, squared, slack, block in _squared_distances(Q, X, subset):
        inside = squared < radius * radius
        unsure = np.abs(squared - radius * radius) <= slack
        for i, row in enumerate(inside):
            close = np.flatnonzero(unsure[i])
            row[close] = _distances(block[close], Q[i]) < radius
            found[i].append(start + np.flatnonzero(row))
    return Neighborhoods.from_ids([np.concatenate([np.empty(0, np.int64), *parts]) for parts in found])


def ground_truth(
    X: ArrayLike,
    *,
    n_queries: int = 300,
    neighbor: int = 50,
    max_neighbors: int | None = 5000,
    rng: int | np.random.Generator | None = None,
) -> GroundTruth:
    """Draw queries and find their true neighbours by the paper's protocol (Experiments, after Raginsky 2009).

    1. Draw ``n_queries`` rows at random. They leave the database: a query never finds itself.
    2. The threshold is the mean, over all drawn queries, of the distance to the 50th neighbour there.
    3. The true neighbours of a query are the items strictly closer than the threshold.
    4. Queries with more than ``max_neighbors`` true neighbours are dropped, as in the paper. Those with none
       are dropped too (the paper is silent; no measure is defined for them). Both are counted.

    Multiply the data by the result's ``scale`` to bring the threshold to 1, where the paper uses a Gaussian
    kernel of bandwidth 1; or leave the data and give the encoder ``bandwidth=truth.threshold``.

    Parameters
    ----------
    X : array (n, d) or (n, d_w, d_v)
        May be memory-mapped and of any real dtype; it is read in blocks, twice.
    n_queries, neighbor, max_neighbors : int
        300, 50 and 5,000 in the paper; ``max_neighbors=None`` keeps crowded queries.
    rng : int or numpy.random.Generator, optional

    Returns
    -------
    GroundTruth

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(500, 8))
    >>> truth = ground_truth(X, n_queries=20, neighbor=10, rng=0)
    >>> len(truth.database), bool(truth.neighbors.counts.min() >= 1)
    (480, True)
    """
    data = _as_rows(X, "X")
    n = len(data)
    if n_queries < 1 or neighbor < 1 or n_queries + neighbor > n:
        raise InvalidInputError(
            f"{n_queries} queries and their neighbour number {neighbor} need {n_queries + neighbor} rows or "
            f"more; X has {n}. Give a smaller n_queries or neighbor."
        )
    queries = np.sort(np.random.default_rng(rng).choice(n, size=n_queries, replace=False)).astype(np.int64)
    database = np.setdiff1d(np.arange(n, dtype=np.int64), queries, assume_unique=True)
    Q = np.asarray(data[queries], dtype=np.float64)
    threshold = float(exact_neighbors(Q, data, neighbor, rows=database)[1][:, -1].mean())
    if threshold == 0.0:
        raise InvalidInputError(
            f"Every query has {neighbor} exact duplicates, so the threshold is 0. "
            "Remove duplicates or raise neighbor."
        )
    near = exact_within(Q, data, threshold, rows=database)
    crowded = near.counts > (n if max_neighbors is None else max_neighbors)
    empty = near.counts == 0
    kept = np.flatnonzero(~(crowded | empty))
    if not len(kept):
        raise InvalidInputError(
            f"No query is left: {crowded.sum()} have more than {max_neighbors} true neighbours, "
            f"{empty.sum()} have none. Raise max_neighbors or draw more queries."
        )
    return GroundTruth(
        queries=queries[kept],
        database=database,
        threshold=threshold,
        neighbors=Neighborhoods.from_ids([near[int(i)] for i in kept]),
        dropped_crowded=int(crowded.sum()),
        dropped_empty=int(empty.sum()),
    )
