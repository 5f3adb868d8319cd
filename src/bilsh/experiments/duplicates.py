"""Near-duplicate retrieval: a rescaled or cropped copy of a photograph should find its original first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

import bilsh
from bilsh.encoders.base import Encoder
from bilsh.evaluation import Neighborhoods, exact_neighbors, rank_codes, rank_scores, recall_at_k
from bilsh.experiments.base import Rows
from bilsh.experiments.inputs import COPIES, Inputs
from bilsh.experiments.retrieval import FIT_ROWS, asymmetric_scores, fitted


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to search: its name, its encoder for (bits, seed), and whether the query keeps its real values."""

    name: str
    make: Callable[[int, int], Encoder]
    asymmetric: bool = False


def exact_rows(data: str, n_copies: int, inputs: Inputs) -> Rows:
    """Recall at rank 1 by exact Euclidean distance: what a perfect code could reach."""
    X = inputs.data(data).X
    rows: Rows = []
    for kind in COPIES:
        originals, copies = inputs.copies(data, kind, n_copies)
        found = exact_neighbors(np.asarray(copies), X, 1)[0][:, 0]
        recall = float((found == originals).mean())
        rows.append({"copy": kind, "method": "exact distance", "bits": None, "recall_at_1": recall})
    return rows


def duplicate_rows(
    data: str, n_copies: int, candidates: Sequence[Candidate], bits: Sequence[int], seed: int, inputs: Inputs
) -> Rows:
    """Recall at rank 1, ties at their expected rank, for every kind of copy, candidate and code length."""
    X = inputs.data(data).X
    copies = {kind: inputs.copies(data, kind, n_copies) for kind in COPIES}
    rows: Rows = []
    # Two ways to search the same codes need them once.
    makers = dict.fromkeys(candidate.make for candidate in candidates)
    for make, n_bits in product(makers, bits):
        encoder = make(n_bits, seed)
        # Sign codes subtract the mean of the data, so they need a larger sample than kernel codes.
        fitted(encoder, X, 16 * FIT_ROWS if isinstance(encoder, bilsh.AngleEncoder) else FIT_ROWS)
        codes = encoder.transform(X)
        for candidate in (candidate for candidate in candidates if candidate.make is make):
            for kind, (originals, queries) in copies.items():
                truth = Neighborhoods.from_ids(originals[:, None])
                if candidate.asymmetric:
                    ranking = rank_scores(asymmetric_scores(encoder, queries, codes, inputs.jobs), truth)
                else:
                    ranking = rank_codes(encoder.transform(queries), codes, truth, n_jobs=inputs.jobs)
                recall = float(recall_at_k(ranking, 1).mean())
                rows.append({"copy": kind, "method": candidate.name, "bits": n_bits, "recall_at_1": recall})
    return sorted(rows, key=lambda row: [candidate.name for candidate in candidates].index(row["method"]))
