"""Measures of a ranking: precision-recall, average precision and recall, exact in expectation over ties."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma

from bilsh.codes import hamming
from bilsh.errors import InvalidInputError
from bilsh.evaluation.truth import Ints, Neighborhoods
from bilsh.types import Floats

_BLOCK_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class Ranking:
    """Counts that remain of a ranked database: per query, how many items and true ones stand in each tie.

    Attributes
    ----------
    offsets : int64 (q + 1,)
        Query i owns groups ``offsets[i]:offsets[i + 1]``, best first.
    keys : float64
        What the items of a group have in common: their distance, or minus their score. Ascending in a query.
    items, relevant : int64
        Size of each group and the number of true neighbours in it.
    """

    offsets: Ints
    keys: Floats
    items: Ints
    relevant: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def groups(self, query: int) -> tuple[Ints, Ints]:
        """Return (items, relevant) per group of one query."""
        part = slice(self.offsets[query], self.offsets[query + 1])
        return self.items[part], self.relevant[part]

    def pooled(self) -> tuple[Ints, Ints]:
        """Return (items, relevant) per key, summed over all queries."""
        keys, group = np.unique(self.keys, return_inverse=True)
        items, relevant = np.zeros((2, len(keys)), dtype=np.int64)
        np.add.at(items, group, self.items)
        np.add.at(relevant, group, self.relevant)
        return items, relevant


def _ranking(groups: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]) -> Ranking:
    keys, items, relevant = (np.concatenate(part) for part in zip(*groups, strict=True))
    offsets = np.cumsum([0, *(len(group[0]) for group in groups)], dtype=np.int64)
    return Ranking(offsets, keys.astype(np.float64), items.astype(np.int64), relevant.astype(np.int64))


def _check_neighbors(neighbors: Neighborhoods, n_queries: int, n_items: int) -> None:
    if n_queries == 0 or len(neighbors) != n_queries:
        raise InvalidInputError(
            f"{n_queries} queries came with true neighbours of {len(neighbors)}; need one each."
        )
    if (empty := np.flatnonzero(neighbors.counts == 0)).size:
        raise InvalidInputError(
            f"Query {empty[0]} has no true neighbour ({empty.size} such queries); no measure is defined. "
            "Leave such queries out, as ground_truth does."
        )
    if neighbors.ids.min() < 0 or neighbors.ids.max() >= n_items:
        raise InvalidInputError(
            f"True neighbours must be positions in the database of {n_items} items; "
            f"got {neighbors.ids.min()} to {neighbors.ids.max()}."
        )


def rank_codes(
    query_codes: ArrayLike, database_codes: ArrayLike, neighbors: Neighborhoods, *, n_jobs: int | None = None
) -> Ranking:
    """Rank the database by Hamming distance to each query.

    Parameters
    ----------
    query_codes, database_codes : uint8 (q, bytes) and (n, bytes)
        Packed codes, e.g. ``codes[truth.queries]`` and ``codes[truth.database]``.
    neighbors : Neighborhoods
        True neighbours as positions in ``database_codes``, e.g. ``truth.neighbors``.
    n_jobs : int, optional
        Threads, as in scikit-learn: None is 1, -1 all cores.

    Returns
    -------
    Ranking
        One group per distance that occurs.

    Examples
    --------
    >>> codes = np.array([[0b0000], [0b0001], [0b0011], [0b0010]], dtype=np.uint8)
    >>> rank_codes(codes[:1], codes[1:], Neighborhoods.from_ids([[0, 1]])).groups(0)
    (array([2, 1]), array([1, 1]))
    """
    Q, X = np.ascontiguousarray(query_codes), np.ascontiguousarray(database_codes)
    if Q.dtype != np.uint8 or X.dtype != np.uint8 or Q.ndim != 2 or X.ndim != 2 or Q.shape[1] != X.shape[1]:
        raise InvalidInputError(
            "Codes must be uint8 matrices with the same number of bytes per row; "
            f"got {Q.dtype} {Q.shape} and {X.dtype} {X.shape}."
        )
    _check_neighbors(neighbors, len(Q), len(X))
    groups = []
    step = max(1, _BLOCK_BYTES // (4 * max(1, len(X))))
    for start in range(0, len(Q), step):
        for i, distances in enumerate(hamming(Q[start : start + step], X, n_jobs=n_jobs), start):
            items = np.bincount(distances)
            relevant = np.bincount(distances[neighbors[i]], minlength=len(items))
            occupied = np.flatnonzero(items)
            groups.append((occupied, items[occupied], relevant[occupied]))
    return _ranking(groups)


def rank_scores(scores: ArrayLike, neighbors: Neighborhoods) -> Ranking:
    """Rank the database by real-valued scores (asymmetric search), largest first.

    Parameters
    ----------
    scores : array (q, n)
        Similarities; pass negated distances for distances. Equal values tie.
    neighbors : Neighborhoods

    Returns
    -------
    Ranking
    """
    S = scores if isinstance(scores, np.ndarray) else np.asarray(scores)
    if S.ndim != 2 or S.dtype.kind not in "fiub":
        raise InvalidInputError(f"scores must be numbers of shape (queries, items); got {S.dtype} {S.shape}.")
    _check_neighbors(neighbors, *S.shape)
    groups = []
    for i, row in enumerate(S):
        if np.isnan(row).any():
            raise InvalidInputError(f"scores of query {i} contain NaN.")
        values, items = np.unique(row, return_counts=True)
        relevant = np.bincount(np.searchsorted(values, row[neighbors[i]]), minlength=len(values))
        groups.append((-values[::-1].astype(np.float64), items[::-1], relevant[::-1]))
    return _ranking(groups)


def average_precision(ranking: Ranking) -> Floats:
    r"""Average precision of each query, ties at their expected rank.

    Take a group of n tied items, t of them true, after N items with T true ones. In a random order the item
    at position j of the group is true with probability t / n, and then (j - 1)(t - 1) / (n - 1) of the
    earlier ones are true on average. The group's expected share of the sum of precisions is therefore

    .. math:: \frac{t}{n} \sum_{j=1}^{n} \frac{T + 1 + (j - 1) c}{N + j}
              = \frac{t}{n} \left[ (T + 1) D + c\,(n - (N + 1) D) \right],
              \quad c = \frac{t - 1}{n - 1}, \quad D = H_{N + n} - H_N

    with the harmonic numbers H. This is the exact mean over all orders, not the precision at a mean rank.

    Parameters
    ----------
    ranking : Ranking

    Returns
    -------
    float64 (q,)

    Examples
    --------
    >>> tied = rank_scores([[1.0, 1.0]], Neighborhoods.from_ids([[0]]))
    >>> average_precision(tied)  # ranks 1 and 2 are equally likely: (1 + 1/2) / 2
    array([0.75])
    """
    result = np.empty(len(ranking))
    for i in range(len(ranking)):
        items, relevant = ranking.groups(i)
        n, t = items.astype(np.float64), relevant.astype(np.float64)
        N, T = np.cumsum(n) - n, np.cumsum(t) - t
        D = digamma(N + n + 1.0) - digamma(N + 1.0)
        c = (t - 1.0) / np.maximum(n - 1.0, 1.0)
        shares = t / n * ((T + 1.0) * D + c * (n - (N + 1.0) * D))
        result[i] = shares.sum() / t.sum()
    return result


def mean_average_precision(ranking: Ranking) -> float:
    """Mean over the queries of :func:`average_precision`."""
    return float(average_precision(ranking).mean())


def recall_at_k(ranking: Ranking, k: int) -> Floats:
    """Share of each query's true neighbours among the first k items, in expectation over ties.

    Parameters
    ----------
    ranking : Ranking
    k : int

    Returns
    -------
    float64 (q,)

    See Also
    --------
    recall_of_ids : for the answer lists of any search engine.
    """
    if k < 1:
        raise InvalidInputError(f"k must be at least 1; got {k}.")
    result = np.empty(len(ranking))
    for i in range(len(ranking)):
        items, relevant = ranking.groups(i)
        before = np.cumsum(items) - items
        taken = np.clip((k - before) / items, 0.0, 1.0)
        result[i] = (taken * relevant).sum() / relevant.sum()
    return result


def recall_of_ids(found: ArrayLike, exact: ArrayLike) -> float:
    """Mean share of the exact neighbours that the answer lists hold: recall@10 for two (q, 10) lists.

    Parameters
    ----------
    found, exact : int arrays (q, k_found) and (q, k)

    Examples
    --------
    >>> recall_of_ids([[5, 3, 9], [1, 2, 0]], [[3, 4, 5], [0, 1, 2]])
    0.8333333333333333
    """
    F, E = np.asarray(found), np.asarray(exact)
    if F.ndim != 2 or E.ndim != 2 or len(F) != len(E) or E.size == 0:
        raise InvalidInputError(
            f"found and exact must be (q, k) id matrices with equal q; got {F.shape}, {E.shape}."
        )
    return float(np.mean([np.isin(e, f).mean() for f, e in zip(F, E, strict=True)]))


@dataclass(frozen=True, slots=True)
class PrecisionRecall:
    """A precision-recall curve over repetitions.

    Attributes
    ----------
    recall : float64 (g,)
    precision, std : float64 (g,)
        Mean and one standard deviation over repetitions (divisor r - 1; zero for a single one).
    curves : float64 (r, g)
        Precision of each repetition.
    """

    recall: Floats
    precision: Floats
    std: Floats
    curves: Floats


def _precision_at(items: Ints, relevant: Ints, recall: Floats) -> Floats:
    """Precision where recall reaches each level; inside a tie both counts grow in proportion."""
    true, retrieved = np.cumsum(relevant), np.cumsum(items)
    wanted = recall * true[-1]
    # The tolerance keeps a level such as 0.3 * 10 from falling into the next group by rounding.
    group = np.searchsorted(true, wanted - 1e-9 * true[-1])
    share = (wanted - (true[group] - relevant[group])) / relevant[group]
    precision: Floats = wanted / (retrieved[group] - items[group] + share * items[group])
    return precision


def precision_recall(
    rankings: Ranking | Sequence[Ranking],
    *,
    recall: ArrayLike | None = None,
    average: Literal["queries", "pooled"] = "queries",
) -> PrecisionRecall:
    """Precision-recall curve over the Hamming radius, on a common grid of recalls.

    Each radius gives one point; between two radii items are taken from the tie in random order, so the
    numbers of retrieved and of true items grow in proportion (precision itself is not linear in between).

    Parameters
    ----------
    rankings : Ranking or sequence of Ranking
        One per repetition.
    recall : array, optional
        Grid in (0, 1]; 0.01, 0.02, ..., 1 by default.
    average : {"queries", "pooled"}
        "queries": the mean of the curves of single queries, the companion of mean average precision.
        "pooled": one radius for all queries, pairs counted together; the few queries with thousands of true
        neighbours then rule the curve. Scores are pooled by their value.

    Returns
    -------
    PrecisionRecall
    """
    runs = [rankings] if isinstance(rankings, Ranking) else list(rankings)
    grid = np.linspace(0.01, 1.0, 100) if recall is None else np.asarray(recall, dtype=np.float64)
    if not runs:
        raise InvalidInputError("precision_recall needs at least one ranking.")
    if grid.ndim != 1 or not ((grid > 0) & (grid <= 1)).all():
        raise InvalidInputError("recall must be a list of levels in (0, 1].")
    if average not in ("pooled", "queries"):
        raise InvalidInputError(f"average must be 'queries' or 'pooled'; got {average!r}.")
    curves = []
    for run in runs:
        if average == "queries":
            curves.append(np.mean([_precision_at(*run.groups(i), grid) for i in range(len(run))], axis=0))
        else:
            curves.append(_precision_at(*run.pooled(), grid))
    stacked = np.stack(curves)
    std = stacked.std(axis=0, ddof=1) if len(stacked) > 1 else np.zeros_like(grid)
    return PrecisionRecall(grid, stacked.mean(axis=0), std, stacked)
