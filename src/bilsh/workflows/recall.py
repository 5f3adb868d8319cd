"""Recall of codes on a sample of the data: the exact neighbours of some rows, and how codes rank the others.

Rows of the sample serve as queries and never count as their own neighbours.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass
from math import log, prod
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import hamming
from bilsh.encoders import neighbourhood
from bilsh.encoders.base import Encoder
from bilsh.encoders.estimators import AngleEncoder, KernelEncoder
from bilsh.errors import InvalidInputError
from bilsh.evaluation import exact_neighbors
from bilsh.files import replace_file
from bilsh.validation import as_descriptors, check_integer

Kind = Literal["angle", "kernel"]
Ranking = Literal["hamming", "asymmetric", "reranked"]
"""Called with how much is done, and how much there is."""

Shares = dict[Ranking, NDArray[np.float64]]
"""What each query found of its neighbours, by ranking."""

Costs = dict[Literal["hamming", "asymmetric"], NDArray[np.float32]]

KINDS: tuple[Kind, ...] = get_args(Kind)
RANKINGS: tuple[Ranking, ...] = get_args(Ranking)

CANDIDATES = 10
"""Re-ranking looks at this many candidates for each neighbour asked for, as a search does by default."""

MOST_ROWS = 65_536
MOST_QUERIES = 500
SAMPLE_BYTES = 256 << 20
_FEWEST_ROWS, _FEWEST_QUERIES = 1024, 100
_SCORED_BITS = 2**34
"""Bound on queries x rows x bits of one measurement: seconds on one core."""
_MULTIPLY_ADDS = 2**33
"""Bound on queries x rows x dimension of the exact neighbours."""
_REVISION = 1
"""Raised when the same data would be measured differently, so that remembered figures are not taken for new ones."""


@dataclass(frozen=True, slots=True)
class Recalls:
    """Share of the exact nearest neighbours that a search finds, by how it ranks.

    Attributes
    ----------
    hamming : float
        By Hamming distance.
    asymmetric : float
        By the query's real values against the stored bits.
    reranked : float
        The best 10 k by asymmetric scores, in the order of their exact distances (vectors must be kept).
    """

    hamming: float
    asymmetric: float
    reranked: float


@dataclass(frozen=True, slots=True)
class Sample:
    """Random rows (r, d) in random order, the first of which are queries; and what is needed to know them again."""

    rows: NDArray[np.float32]
    item_shape: tuple[int, ...]
    n_queries: int
    of: int
    seed: int

    @classmethod
    def draw(cls, X: Any, n_bits: int, seed: int, of: int | None) -> Sample:
        """Draw as many rows and queries as can be compared in seconds, with codes of `n_bits` bits."""
        X = as_descriptors(X)
        n, d = X.shape[0], int(prod(X.shape[1:]))
        if n < 3:
            raise InvalidInputError(f"X has {n} rows; measuring recall needs at least 3.")
        pairs = min(_SCORED_BITS // n_bits, _MULTIPLY_ADDS // d)
        affordable = min(pairs // _FEWEST_QUERIES, SAMPLE_BYTES // (4 * d), MOST_ROWS)
        rng = np.random.default_rng(check_integer("seed", seed, minimum=0))
        rows = neighbourhood.sample_rows(X, max(affordable, _FEWEST_ROWS), rng)
        n_queries = min(len(rows), MOST_QUERIES, max(pairs // len(rows), _FEWEST_QUERIES))
        return cls(rows, tuple(X.shape[1:]), n_queries, max(n, of or 0), seed)

    def key(self, *settings: object) -> str:
        """Checksum of the sample, the settings and the way of measuring."""
        digest = hashlib.sha256(np.ascontiguousarray(self.rows).data)
        told = [_REVISION, self.item_shape, self.of, self.seed, settings]
        digest.update(json.dumps(told, default=str).encode())
        return digest.hexdigest()[:32]


class Bench:
    """A sample with the exact neighbours of its queries, and what fitting both encoders learns from it."""

    def __init__(self, sample: Sample, neighbours: int) -> None:
        self.sample = sample
        self.X = sample.rows.reshape(-1, *sample.item_shape)
        self.k = min(neighbours, len(self.X) - 1)
        self.mean = sample.rows.mean(axis=0, dtype=np.float64).astype(np.float32)
        rng = np.random.default_rng(sample.seed)
        self.bandwidth = neighbourhood.measure(self.X, rng).bandwidth_distance
        queries = sample.rows[: sample.n_queries]
        ids, _ = exact_neighbors(queries, sample.rows, self.k + 1)
        self.truth = _without_own(ids)

    def encoder(self, kind: Kind, n_bits: int, draw: int = 0) -> Encoder:
        """Draw an encoder as its fit on the sample would, without measuring the sample once more for each."""
        one, seed = self.mean.reshape(1, *self.sample.item_shape), self.sample.seed + draw
        if kind == "angle":
            return AngleEncoder(n_bits, random_state=seed).fit(one)
        return KernelEncoder(n_bits, bandwidth=self.bandwidth, random_state=seed).fit(one)

    def costs(self, encoder: Encoder) -> Costs:
        """Distances and negated scores of all rows (q, r); a query is infinitely far from itself."""
        codes, q = encoder.transform(self.X), self.sample.n_queries
        coder = encoder.coder_
        weights, _ = coder.calibration.score_weights(coder.values(self.X[:q]))
        n_bits = weights.shape[1]
        scores = np.empty((q, len(codes)), dtype=np.float32)
        step = max(1, (16 << 20) // n_bits)
        for start in range(0, len(codes), step):
            bits = np.unpackbits(codes[start : start + step], axis=1, count=n_bits, bitorder="little")
            scores[:, start : start + step] = -weights @ bits.T.astype(np.float32)
        distances = hamming(codes[:q], codes).astype(np.float32)
        for costs in (scores, distances):
            costs[np.arange(q), np.arange(q)] = np.inf
        return {"hamming": distances, "asymmetric": scores}

    def found(self, costs: Costs, k: int, part: int | None = None) -> Shares:
        """Share of the k nearest that each query finds, by ranking; `part`: in one quarter of the rows only."""
        truth = self.truth if part is not None else self.truth[:, :k]
        counted = np.ones(truth.shape, dtype=np.bool_)
        if part is not None:
            counted = truth % 4 == part
            counted &= counted.cumsum(axis=1) <= k
        shares: Shares = {}
        rules: tuple[tuple[Ranking, Any, int], ...] = (
            ("hamming", costs["hamming"], k),
            ("asymmetric", costs["asymmetric"], k),
            ("reranked", costs["asymmetric"], CANDIDATES * k),
        )
        for name, cost, first in rules:
            near = np.take_along_axis(cost, truth, axis=1)
            shares[name] = _share(near, counted, cost if part is None else cost[:, part::4], first)
        return shares

    def expected(self, at_10: Recalls, costs: Costs) -> Recalls:
        """Recall@10 in all of the data: the fall from a quarter of the sample to the sample, continued."""
        steps = log(self.sample.of / len(self.X), 4)
        if steps <= 0 or self.truth.shape[1] < 100:
            return at_10
        quarters = [mean_recalls(self.found(costs, 10, part)) for part in range(4)]
        told = {}
        for by in RANKINGS:
            measured = float(getattr(at_10, by))
            before = float(np.mean([getattr(quarter, by) for quarter in quarters]))
            told[by] = max(0.0, measured - steps * max(0.0, before - measured))
        return Recalls(**told)


def _without_own(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Drop the query itself from each list; where duplicates have pushed it out, the last."""
    own = ids == np.arange(len(ids))[:, None]
    own[~own.any(axis=1), -1] = True
    return np.asarray(ids[~own].reshape(len(ids), -1), dtype=np.int64)


def _share(
    near: NDArray[np.float32], counted: NDArray[np.bool_], costs: NDArray[np.float32], first: int
) -> NDArray[np.float64]:
    """Share of the counted neighbours, whose costs are `near`, among the `first` smallest costs of each query.

    Exact in expectation over a random order within ties, which Hamming distances have many of.
    """
    first = min(first, costs.shape[1] - 1)
    limit = np.partition(costs, first - 1, axis=1)[:, first - 1 : first]
    room = first - (costs < limit).sum(axis=1, keepdims=True)
    chance = room / (costs == limit).sum(axis=1, keepdims=True)
    hits = np.where(near < limit, 1.0, np.where(near == limit, chance, 0.0))
    total = np.maximum(counted.sum(axis=1), 1)
    return np.asarray((hits * counted).sum(axis=1) / total, dtype=np.float64)


def mean_recalls(hits: Shares) -> Recalls:
    """Average over the queries."""
    return Recalls(**{by: float(share.mean()) for by, share in hits.items()})


def recalled(cache: Path | None, key: str) -> dict[str, Any] | None:
    """What was remembered; None where nothing was, or nothing that can be read."""
    if cache is None:
        return None
    with suppress(OSError, ValueError):
        found = json.loads((cache / f"{key}.json").read_bytes())
        return found if isinstance(found, dict) else None
    return None


def remember(cache: Path | None, key: str, found: dict[str, Any]) -> None:
    """Keep a result; a cache that cannot be written is no reason to fail."""
    if cache is None:
        return
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        with replace_file(cache / f"{key}.json") as file:
            file.write(json.dumps(found).encode())
