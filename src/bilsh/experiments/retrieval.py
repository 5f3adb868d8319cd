"""What the retrieval experiments share: the paper's encoders by name, codes in blocks, curves as rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh import _native
from bilsh.encoders.base import Encoder
from bilsh.encoders.presets import METHODS
from bilsh.evaluation import (
    GroundTruth,
    Ranking,
    mean_average_precision,
    precision_recall,
    rank_codes,
    rank_scores,
)
from bilsh.experiments.base import Row, Rows
from bilsh.experiments.inputs import Inputs

RECALL = np.linspace(0.02, 1.0, 50)
"""Levels of recall at which curves are tabled."""

FIT_ROWS = 64
"""Rows that encoders are fitted on: bandwidths are given, so a kernel encoder draws the same from any rows."""

DENSE = "dense"


@dataclass(frozen=True, slots=True)
class Protocol:
    """The paper's ground-truth protocol on one data set.

    Attributes
    ----------
    data : str
        Name, see :class:`bilsh.experiments.inputs.Inputs`.
    n_queries, neighbor, max_neighbors, repetitions : int
        300, 50, 5,000 and 5 in the paper.
    seed : int
        Repetition r uses seed + r for its queries and its encoders.
    """

    data: str
    n_queries: int = 300
    neighbor: int = 50
    max_neighbors: int = 5000
    repetitions: int = 5
    seed: int = 0

    def truth(self, inputs: Inputs, repetition: int) -> GroundTruth:
        """Ground truth of one repetition."""
        return inputs.truth(
            self.data,
            n_queries=self.n_queries,
            neighbor=self.neighbor,
            max_neighbors=self.max_neighbors,
            seed=self.seed + repetition,
        )


def bilinear_name(oversampling: int) -> str:
    """Name of the paper's bilinear method in tables.

    Examples
    --------
    >>> bilinear_name(5)
    'bilinear m=5'
    """
    return f"bilinear m={oversampling}"


def paper_encoder(method: str, n_bits: int, bandwidth: float, seed: int, jobs: int = 1) -> Encoder:
    """Encoder of the paper by its name in tables: "dense", "bilinear m=5"."""
    settings: dict[str, Any] = {"bandwidth": bandwidth, "random_state": seed, "n_jobs": jobs}
    if method == DENSE:
        return METHODS["lsh-sik"].make(n_bits, **settings)
    settings["oversampling"] = int(method.removeprefix("bilinear m="))
    return METHODS["blsh-sik"].make(n_bits, **settings)


def fitted(encoder: Encoder, X: NDArray[Any], rows: int | None = FIT_ROWS) -> Encoder:
    """Fit on the first rows, on all with None."""
    encoder.fit(X if rows is None else np.asarray(X[:rows]))
    return encoder


def asymmetric_scores(
    encoder: Encoder, queries: NDArray[Any], codes: NDArray[np.uint8], jobs: int = 1
) -> NDArray[np.float32]:
    """Scores (q, n) of stored codes when the query keeps its real values; see :mod:`bilsh.encoders.likelihood`.

    Parameters
    ----------
    encoder : fitted encoder
    queries : array (q, d_w, d_v)
    codes : uint8 (n, bytes)
    jobs : int
    """
    coder = encoder.coder_
    weights, bias = coder.calibration.score_weights(coder.values(queries, n_jobs=jobs))
    return _native.scores(np.ascontiguousarray(weights), bias, [codes], jobs)


def ranked(
    encoder: Encoder,
    X: NDArray[Any],
    codes: NDArray[np.uint8],
    truth: GroundTruth,
    *,
    asymmetric: bool = False,
    jobs: int = 1,
) -> Ranking:
    """Rank the database for every query, by Hamming distance or by asymmetric scores."""
    stored = codes[truth.database]
    if asymmetric:
        return rank_scores(asymmetric_scores(encoder, X[truth.queries], stored, jobs), truth.neighbors)
    return rank_codes(codes[truth.queries], stored, truth.neighbors, n_jobs=jobs)


def curve_rows(ranking: Ranking, **labels: Any) -> Rows:
    """Precision at every level of `RECALL` as rows, and mean average precision as the row with recall None."""
    curve = precision_recall(ranking, recall=RECALL)
    rows: list[Row] = [{**labels, "recall": None, "precision": mean_average_precision(ranking)}]
    for recall, precision in zip(RECALL.round(2).tolist(), curve.precision.tolist(), strict=True):
        rows.append({**labels, "recall": recall, "precision": precision})
    return rows


def split_curves(rows: Rows) -> tuple[Rows, Rows]:
    """Separate (curves, mean average precisions) of rows made by :func:`curve_rows` and averaged."""
    curves = [row for row in rows if row["recall"] is not None]
    maps = []
    for row in rows:
        if row["recall"] is None:
            kept = {k: v for k, v in row.items() if k not in ("recall", "precision", "precision_std")}
            maps.append(kept | {"map": row["precision"], "map_std": row["precision_std"]})
    return curves, maps


def best_seconds(encoders: Sequence[Encoder], X: NDArray[Any], repeats: int) -> list[float]:
    """Encode X by each encoder in turn, `repeats` rounds; the best time of each, in seconds per item.

    Processor time of the one thread that encodes: other programs, which take turns with it, do not count.
    """
    calls: list[Callable[[], Any]] = [lambda encoder=encoder: encoder.transform(X) for encoder in encoders]  # type: ignore[misc]
    best = [np.inf] * len(calls)
    for _ in range(repeats):
        for i, call in enumerate(calls):
            start = time.process_time()
            call()
            best[i] = min(best[i], time.process_time() - start)
    return [seconds / len(X) for seconds in best]
