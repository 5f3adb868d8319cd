"""How many bits: recall against the length of codes, measured on a sample of the data.

Both encoders are drawn with the length in question: a prefix of a longer code is a code too, but finds fewer
neighbours than a code of its own length (up to .1 of recall@10 fewer at 512 of 4,096 bits).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from math import prod
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from bilsh.encoders.base import Encoder
from bilsh.search.index import Index
from bilsh.types import Progress, silent
from bilsh.validation import as_descriptors, check_choice, check_integer
from bilsh.workflows.recall import (
    KINDS,
    RANKINGS,
    Bench,
    Kind,
    Ranking,
    Recalls,
    Sample,
    mean_recalls,
    recalled,
    remember,
)

BITS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
"""Lengths of a curve, where the data are large enough for them."""

_CURVE_BITS = 4096
"""Length that the size of a curve's sample is made for."""


@dataclass(frozen=True, slots=True)
class Times:
    """What things cost on the machine that measured, in units of one exact search of the same rows.

    The unit is a plain float32 matrix product with the sample, per query. Ratios travel a little better between
    machines than seconds do; they are still those of one machine, one thread, one sample.

    Attributes
    ----------
    encode : float
        Encoding one item.
    hamming, asymmetric, reranked : float
        One query, k = 10, in a batch.
    """

    encode: float
    hamming: float
    asymmetric: float
    reranked: float


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A code, and what it finds.

    Attributes
    ----------
    encoder : "angle" or "kernel"
    n_bits, n_bytes : int
        Length of a code.
    at_10, at_100 : Recalls
        Of the 10 and the 100 nearest, in the sample.
    expected : Recalls
        Of the 10 nearest, in all of the data: recall falls as rows come closer together. Where the data are
        larger than the sample, it continues the fall from a quarter of the sample to all of it.
    times : Times or None
        On this machine; None where they were not asked for. Left out of comparisons.
    """

    encoder: Kind
    n_bits: int
    n_bytes: int
    at_10: Recalls
    at_100: Recalls
    expected: Recalls
    times: Times | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class BitsCurve:
    """Recall against bits, for both encoders.

    Attributes
    ----------
    points : tuple of CurvePoint
        By length, angle before kernel.
    rows, queries : int
        Size of the sample, and how many of its rows served as queries.
    of : int
        Rows of the data.
    item_bytes : int
        Bytes of one item as it came; no code of the curve is longer.
    bandwidth : float
        Of the kernel codes: mean distance to the 50th neighbour in the sample.
    seed : int
    exact_seconds : float
        One exact search of the sample on the machine that measured: the unit of the times.
    """

    points: tuple[CurvePoint, ...]
    rows: int
    queries: int
    of: int
    item_bytes: int
    bandwidth: float
    seed: int
    exact_seconds: float = field(default=0.0, compare=False)

    def shortest(self, recall: float = 0.9, by: Ranking = "reranked") -> CurvePoint | None:
        """Return the shortest code with at least this recall@10 in all of the data; None if there is none.

        Parameters
        ----------
        recall : float
        by : {"reranked", "asymmetric", "hamming"}
            How a search would rank.
        """
        check_choice("by", by, RANKINGS)
        good = [point for point in self.points if getattr(point.expected, by) >= recall]
        return min(good, key=lambda p: (p.n_bits, -getattr(p.expected, by)), default=None)

    def best(self, by: Ranking = "reranked") -> CurvePoint:
        """Return the code with the highest recall@10, the shorter one of two that are level."""
        check_choice("by", by, RANKINGS)
        return max(self.points, key=lambda p: (getattr(p.expected, by), -p.n_bits))

    def table(self) -> str:
        """Return the curve as a Markdown table; times are of this machine."""
        head = (
            "| encoder | bits | bytes | Hamming @10 | asymmetric @10 | re-ranked @10 | Hamming @100 | "
            "asymmetric @100 | re-ranked @100 |"
        )
        lines = [head, "|" + "---|" * 9]
        for p in self.points:
            values = [getattr(at, by) for at in (p.at_10, p.at_100) for by in RANKINGS]
            told = " | ".join(f"{value:.3f}" for value in values)
            lines.append(f"| {p.encoder} | {p.n_bits:,} | {p.n_bytes:,} | {told} |")
        return "\n".join(lines)


def bits_curve(
    X: Any,
    bits: Sequence[int] | None = None,
    *,
    until: float | None = None,
    by: Ranking = "reranked",
    times: bool = True,
    seed: int = 0,
    of: int | None = None,
    item_bytes: int | None = None,
    cache: Path | None = None,
    progress: Progress = silent,
) -> BitsCurve:
    """Measure ``recall@10`` and ``@100`` of angle and kernel codes against their length, on a sample of the data.

    Parameters
    ----------
    X : array (n, d) or (n, d_w, d_v)
        Descriptors; may be memory-mapped. At least 3.
    bits : sequence of int, optional
        Lengths; by default 64, 128, ... 8,192. Codes that would be larger than the items are left out.
    until : float, optional
        Stop one length after this ``recall@10`` is reached, and look at the length half-way before it.
    by : {"reranked", "asymmetric", "hamming"}
        Which recall `until` is about.
    times : bool
        Measure times as well; without them the curve depends on data and seed only.
    seed : int
        Of the sample and the encoders.
    of : int, optional
        Rows of the data, where X is a sample itself.
    item_bytes : int, optional
        Bytes of an item; by default those of a row of X as it is.
    cache : path, optional
        Folder where the curve is remembered under a checksum of the sample. Safe to delete at any time.
    progress : callable (what, done, total), optional

    Returns
    -------
    BitsCurve

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(600, 16)).astype(np.float32)
    >>> curve = bits_curve(X, times=False)
    >>> [point.n_bits for point in curve.points if point.encoder == "angle"]  # an item has 64 bytes
    [64, 128, 256, 512]
    >>> curve.shortest(0.9).n_bits
    64
    """
    check_choice("by", by, RANKINGS)
    given = as_descriptors(X)
    size = item_bytes or int(np.dtype(given.dtype).itemsize * prod(given.shape[1:]))
    lengths = [check_integer("bits", length, minimum=1) for length in (BITS if bits is None else bits)]
    # Items of a few bytes leave no room for any length of the list: then the longest that is allowed.
    lengths = sorted({length for length in lengths if length <= 8 * size} or {8 * size})
    sample = Sample.draw(given, _CURVE_BITS, seed, of)
    key = sample.key("curve", lengths, until, by, times, size)
    found = recalled(cache, key)
    if found is not None:
        with suppress(KeyError, TypeError):
            return _curve(found)
    total = 1 + 2 * len(lengths)
    progress("measuring codes", 0, total)
    bench = Bench(sample, 100)
    exact = _exact_seconds(bench) if times else 0.0
    points: list[CurvePoint] = []

    def measure(length: int) -> bool:
        for kind in KINDS:
            progress("measuring codes", min(1 + len(points), total - 1), total)
            points.append(_point(bench, kind, length, exact))
        return until is not None and any(getattr(p.expected, by) >= until for p in points)

    for number, length in enumerate(lengths):
        if measure(length):
            half = (lengths[number - 1] + length) // 16 * 8 if number and bits is None else 0
            if number and lengths[number - 1] < half < length:
                measure(half)
            if number + 1 < len(lengths):
                measure(lengths[number + 1])
            break
    progress("measuring codes", total, total)
    points.sort(key=lambda p: (p.n_bits, p.encoder))
    curve = BitsCurve(
        tuple(points),
        len(sample.rows),
        sample.n_queries,
        sample.of,
        size,
        bench.bandwidth,
        seed,
        exact,
    )
    remember(cache, key, asdict(curve))
    return curve


def _point(bench: Bench, kind: Kind, n_bits: int, exact_seconds: float) -> CurvePoint:
    """Measure one code."""
    encoder = bench.encoder(kind, n_bits)
    costs = bench.costs(encoder)
    at_10 = mean_recalls(bench.found(costs, 10))
    return CurvePoint(
        encoder=kind,
        n_bits=n_bits,
        n_bytes=-(-n_bits // 8),
        at_10=at_10,
        at_100=mean_recalls(bench.found(costs, 100)),
        expected=bench.expected(at_10, costs),
        times=_times(bench, encoder, exact_seconds) if exact_seconds else None,
    )


def _exact_seconds(bench: Bench) -> float:
    """Time one exact search of the sample, per query: the unit of all times."""
    rows = bench.sample.rows
    queries, squares = rows[: min(32, bench.sample.n_queries)], np.square(rows).sum(axis=1)
    best = min(10, len(rows) - 1)
    seconds = _quickest(lambda: np.argpartition(squares - 2 * (queries @ rows.T), best, axis=1))
    return seconds / len(queries)


def _times(bench: Bench, encoder: Encoder, unit: float) -> Times:
    """Time encoding and searches of a few."""
    few, items = bench.X[: min(16, bench.sample.n_queries)], bench.X[:256]
    index = Index(encoder.transform(bench.X), encoder, vectors=bench.X)
    per_query = {
        "hamming": _quickest(lambda: index.search(few, 10, mode="hamming")),
        "asymmetric": _quickest(lambda: index.search(few, 10, mode="asymmetric")),
        "reranked": _quickest(lambda: index.search(few, 10, mode="asymmetric", rerank=True)),
    }
    encode = _quickest(lambda: encoder.transform(items)) / len(items)
    return Times(encode=encode / unit, **{by: s / len(few) / unit for by, s in per_query.items()})


def _quickest(work: Callable[[], Any]) -> float:
    best = np.inf
    for _ in range(2):
        start = perf_counter()
        work()
        best = min(best, perf_counter() - start)
    return float(best)


def _curve(found: dict[str, Any]) -> BitsCurve:
    """Read a curve from its JSON form."""
    points = []
    for point in found["points"]:
        for name in ("at_10", "at_100", "expected"):
            point[name] = Recalls(**point[name])
        point["times"] = None if point["times"] is None else Times(**point["times"])
        points.append(CurvePoint(**point))
    rest = {f.name: found[f.name] for f in fields(BitsCurve) if f.name != "points"}
    return BitsCurve(points=tuple(points), **rest)
