"""Advice before encoding: which encoder suits the data, how many bits, what it costs, what the paper promises."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bilsh.errors import EncoderAdvice, InvalidInputError
from bilsh.workflows.sources import ArraySource

SAMPLE_BYTES = 64 << 20
_TIMED_ROWS = 256


@dataclass(frozen=True, slots=True)
class Advice:
    """What :func:`advise` found.

    Attributes
    ----------
    rows, item_shape
        Size of the data.
    norm_ratio : float
        Norm of the centred data over the distance to the 10th neighbour.
    encoder : "angle" or "kernel"
    bandwidth : float
        Distance to the 50th neighbour: the kernel's bandwidth by the paper's rule.
    bits : int
        For the wanted error, confidence and number of pairs.
    error, confidence, pairs
        As asked for.
    code_bytes_per_million, vector_bytes_per_million : int
        Memory of a million codes, and of the float32 items themselves.
    seconds_per_million : float
        Time to encode a million items with one thread, from a timing of a few.
    assumptions : dict
        Shares of sampled pairs for which the paper's assumptions and statements hold, see
        :class:`bilsh.theory.AssumptionReport`.
    """

    rows: int
    item_shape: tuple[int, ...]
    norm_ratio: float
    encoder: str
    bandwidth: float
    bits: int
    error: float
    confidence: float
    pairs: float
    code_bytes_per_million: int
    vector_bytes_per_million: int
    seconds_per_million: float
    assumptions: dict[str, float]


def advise(
    path: Path,
    *,
    key: str | None = None,
    error: float = 0.02,
    confidence: float = 0.99,
    pairs: float = 1e6,
    seed: int = 0,
) -> Advice:
    """Look at a sample of the data and advise.

    The rule: below a norm ratio of about 1.7 sign codes with asymmetric queries find neighbours better, above it
    kernel codes do (measured on MNIST 1.45, unit-norm VLAD 1.0, Fashion-MNIST 1.88).

    Parameters
    ----------
    path : path
        Array file.
    key : str, optional
        Which array of an .npz, HDF5 or Parquet file.
    error, confidence, pairs
        All of `pairs` fractions of differing bits shall be within `error` of their means with this confidence, see
        :func:`bilsh.bits_needed`.
    seed : int
        Of the sample.
    """
    import bilsh
    from bilsh.encoders import neighbourhood
    from bilsh.encoders.neighbourhood import NORM_RATIO_BOUNDARY

    source = ArraySource(path, key)
    if source.rows < 3:
        raise InvalidInputError(f"{path} has {source.rows} rows; advice needs at least 3.")
    row_bytes = 4 * int(np.prod(source.item_shape))
    X = np.asarray(source.sample(max(64, SAMPLE_BYTES // row_bytes)))
    try:
        found = neighbourhood.measure(X, np.random.default_rng(seed))
    except InvalidInputError:
        source.check()
        raise
    kind = "angle" if found.norm_ratio < NORM_RATIO_BOUNDARY else "kernel"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EncoderAdvice)
        probe = _encoder(kind, 1024, seed).fit(X)
        bits = bilsh.bits_needed(error, confidence, pairs, probe)
        seconds = _seconds_per_row(kind, bits, seed, X)
    return Advice(
        rows=source.rows,
        item_shape=source.item_shape,
        norm_ratio=found.norm_ratio,
        encoder=kind,
        bandwidth=found.bandwidth_distance,
        bits=bits,
        error=error,
        confidence=confidence,
        pairs=pairs,
        code_bytes_per_million=10**6 * -(-bits // 8),
        vector_bytes_per_million=10**6 * row_bytes,
        seconds_per_million=1e6 * seconds,
        assumptions=_assumptions(X, found.bandwidth_distance, seed),
    )


def _encoder(kind: str, bits: int, seed: int) -> Any:
    import bilsh

    return (bilsh.AngleEncoder if kind == "angle" else bilsh.KernelEncoder)(bits, random_state=seed)


def _seconds_per_row(kind: str, bits: int, seed: int, X: Any) -> float:
    few = X[:_TIMED_ROWS]
    encoder = _encoder(kind, bits, seed).fit(few)
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        encoder.transform(few)
        best = min(best, time.perf_counter() - start)
    return float(best / len(few))


def _assumptions(X: Any, bandwidth: float, seed: int) -> dict[str, float]:
    """Check the paper's assumptions on sampled pairs, vectors as matrices as square as the dimension allows."""
    from bilsh import theory

    n, shape = len(X), X.shape[1:]
    if len(shape) == 1:
        d = shape[0]
        d_w = next(i for i in range(int(np.sqrt(d)), 0, -1) if d % i == 0)
        shape = (d_w, d // d_w)
    few = np.asarray(X[: min(n, 400)], dtype=np.float64).reshape(-1, *shape)
    report = theory.check_assumptions(few, n_pairs=100, bandwidth=bandwidth, rng=seed)
    names = ("norms", "ratio", "assumptions", "lemma_1", "theorem_2", "theorem_3", "median_effective_rank")
    return {name: float(getattr(report, name)) for name in names}
