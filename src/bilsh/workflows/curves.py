"""Which encoder, and how many bits: measured on a sample of the data, against its exact neighbours.

Rows of the sample serve as queries and never count as their own neighbours. Both encoders are drawn with the length
in question: a prefix of a longer code is a code too, but finds fewer neighbours than a code of its own length.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from math import log, prod
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import hamming
from bilsh.datasets.files import replace_file
from bilsh.encoders import neighbourhood
from bilsh.encoders.estimators import AngleEncoder, Encoder, KernelEncoder
from bilsh.errors import EncoderAdvice, InvalidInputError
from bilsh.evaluation import exact_neighbors
from bilsh.search.asymmetric import score_weights
from bilsh.search.index import Index
from bilsh.validation import as_descriptors, check_choice, check_integer

Kind = Literal["angle", "kernel"]
Ranking = Literal["hamming", "asymmetric", "reranked"]
_Costs = dict[Literal["hamming", "asymmetric"], NDArray[np.float32]]
Progress = Callable[[int, int], None]
"""Called with how much is done, and how much there is."""

KINDS: tuple[Kind, ...] = get_args(Kind)
RANKINGS: tuple[Ranking, ...] = get_args(Ranking)

BITS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
"""Lengths of a curve, where the data are large enough for them."""

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
_CURVE_BITS = 4096
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


@dataclass(frozen=True, slots=True)
class EncoderChoice:
    """Which encoder finds more neighbours with codes of a given length, and what was measured.

    Attributes
    ----------
    encoder : "angle" or "kernel"
        The better one.
    n_bits : int
    mode : "asymmetric" or "hamming"
        What decided.
    angle, kernel : Recalls
        Recall@10 of the exact Euclidean neighbours.
    error : float
        Standard error of the difference of the two recalls that decided.
    rows, queries, of : int
        Size of the sample, its rows that served as queries, and rows of the data.
    seed : int
    """

    encoder: Kind
    n_bits: int
    mode: Literal["asymmetric", "hamming"]
    angle: Recalls
    kernel: Recalls
    error: float
    rows: int
    queries: int
    of: int
    seed: int

    @property
    def gap(self) -> float:
        """How much more recall@10 the chosen encoder has."""
        return abs(float(getattr(self.angle, self.mode)) - float(getattr(self.kernel, self.mode)))

    def __str__(self) -> str:
        other: Kind = "kernel" if self.encoder == "angle" else "angle"
        better, worse = getattr(self, self.encoder), getattr(self, other)
        among = f"{self.rows:,} rows" if self.rows == self.of else f"{self.rows:,} of {self.of:,} rows"
        return (
            f"{self.encoder} codes: at {self.n_bits:,} bits recall@10 is {getattr(better, self.mode):.3f} "
            f"({other} codes {getattr(worse, self.mode):.3f}) with {self.mode} queries, measured with "
            f"{self.queries} queries among {among}"
        )

    def make(self, **settings: Any) -> AngleEncoder | KernelEncoder:
        """Return the chosen encoder, not fitted; settings as of its class, `random_state` is the seed if not given."""
        kind = AngleEncoder if self.encoder == "angle" else KernelEncoder
        made: AngleEncoder | KernelEncoder = kind(self.n_bits, **{"random_state": self.seed, **settings})
        return made


def choose_encoder(
    X: Any,
    n_bits: int = 1024,
    *,
    mode: Literal["asymmetric", "hamming"] = "asymmetric",
    seed: int = 0,
    of: int | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> EncoderChoice:
    """Encode a sample both ways, with the default settings and the length asked for, and compare recall@10.

    Takes seconds. What decides depends on the length: short codes favour angles, longer ones kernels, and where the
    two change places differs from data to data.

    Parameters
    ----------
    X : array (n, d) or (n, d_w, d_v)
        Descriptors; may be memory-mapped. At least 3.
    n_bits : int
        Length of the codes.
    mode : {"asymmetric", "hamming"}
        Which search decides.
    seed : int
        Of the sample and the encoders; the answer depends on nothing else.
    of : int, optional
        Rows of the data, where X is a sample itself.
    cache : path, optional
        Folder where the answer is remembered under a checksum of the sample. Safe to delete at any time.
    progress : callable (done, total), optional

    Returns
    -------
    EncoderChoice

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(600, 16)).astype(np.float32)
    >>> choice = choose_encoder(X, 512)
    >>> choice.encoder, choice.make()
    ('kernel', KernelEncoder(n_bits=512, random_state=0))
    """
    n_bits = check_integer("n_bits", n_bits, minimum=1)
    check_choice("mode", mode, ("asymmetric", "hamming"))
    sample = _Sample.draw(X, n_bits, seed, of)
    key = sample.key("choice", n_bits, mode)
    found = _recall(cache, key)
    if found is not None:
        with suppress(KeyError, TypeError):
            angle, kernel = Recalls(**found.pop("angle")), Recalls(**found.pop("kernel"))
            return EncoderChoice(angle=angle, kernel=kernel, **found)
    say = progress or (lambda done, total: None)
    say(0, 3)
    bench = _Bench(sample, 10)
    hits: dict[Kind, dict[Ranking, NDArray[np.float64]]] = {}
    for number, kind in enumerate(KINDS, 1):
        say(number, 3)
        hits[kind] = bench.found(bench.costs(bench.encoder(kind, n_bits)), 10)
    say(3, 3)
    difference = hits["angle"][mode] - hits["kernel"][mode]
    other: Ranking = "hamming" if mode == "asymmetric" else "asymmetric"
    # Level in what decides: the other ranking breaks the tie.
    gap = difference.mean() or (hits["angle"][other] - hits["kernel"][other]).mean()
    choice = EncoderChoice(
        encoder="kernel" if gap < 0 else "angle",
        n_bits=n_bits,
        mode=mode,
        angle=_recalls(hits["angle"]),
        kernel=_recalls(hits["kernel"]),
        error=float(difference.std() / np.sqrt(len(difference))),
        rows=len(sample.rows),
        queries=sample.n_queries,
        of=sample.of,
        seed=seed,
    )
    _remember(cache, key, asdict(choice))
    return choice


def check_encoder(encoder: Encoder, X: Any, *, seed: int = 0) -> EncoderChoice:
    """Measure both encoders at the length of this one; warn with EncoderAdvice if the other kind is clearly better.

    Clearly: by more than .02 of recall@10, and by more than three standard errors.

    Parameters
    ----------
    encoder : AngleEncoder or KernelEncoder
    X : array (n, d) or (n, d_w, d_v)
    seed : int
    """
    choice = choose_encoder(X, encoder.n_bits, seed=seed)
    if choice.encoder != encoder.kind and choice.gap > max(0.02, 3 * choice.error):
        warnings.warn(f"Another encoder suits these data better: {choice}.", EncoderAdvice, stacklevel=2)
    return choice


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
    progress: Progress | None = None,
) -> BitsCurve:
    """Measure recall@10 and @100 of angle and kernel codes against their length, on a sample of the data.

    Parameters
    ----------
    X : array (n, d) or (n, d_w, d_v)
        Descriptors; may be memory-mapped. At least 3.
    bits : sequence of int, optional
        Lengths; by default 64, 128, ... 8,192. Codes that would be larger than the items are left out.
    until : float, optional
        Stop one length after this recall@10 is reached, and look at the length half-way before it.
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
    progress : callable (done, total), optional

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
    128
    """
    check_choice("by", by, RANKINGS)
    given = as_descriptors(X)
    size = item_bytes or int(np.dtype(given.dtype).itemsize * prod(given.shape[1:]))
    lengths = [check_integer("bits", length, minimum=1) for length in (BITS if bits is None else bits)]
    # Items of a few bytes leave no room for any length of the list: then the longest that is allowed.
    lengths = sorted({length for length in lengths if length <= 8 * size} or {8 * size})
    sample = _Sample.draw(given, _CURVE_BITS, seed, of)
    key = sample.key("curve", lengths, until, by, times, size)
    found = _recall(cache, key)
    if found is not None:
        with suppress(KeyError, TypeError):
            return _curve(found)
    say = progress or (lambda done, total: None)
    total = 1 + 2 * len(lengths)
    say(0, total)
    bench = _Bench(sample, 100)
    exact = bench.exact_seconds() if times else 0.0
    points: list[CurvePoint] = []

    def measure(length: int) -> bool:
        for kind in KINDS:
            say(min(1 + len(points), total - 1), total)
            points.append(bench.point(kind, length, exact))
        return until is not None and any(getattr(p.expected, by) >= until for p in points)

    for number, length in enumerate(lengths):
        if measure(length):
            half = (lengths[number - 1] + length) // 16 * 8 if number and bits is None else 0
            if number and lengths[number - 1] < half < length:
                measure(half)
            if number + 1 < len(lengths):
                measure(lengths[number + 1])
            break
    say(total, total)
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
    _remember(cache, key, asdict(curve))
    return curve


@dataclass(frozen=True, slots=True)
class _Sample:
    """Random rows (r, d) in random order, the first of which are queries; and what is needed to know them again."""

    rows: NDArray[np.float32]
    item_shape: tuple[int, ...]
    n_queries: int
    of: int
    seed: int

    @classmethod
    def draw(cls, X: Any, n_bits: int, seed: int, of: int | None) -> _Sample:
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


class _Bench:
    """A sample with the exact neighbours of its queries, and what fitting both encoders learns from it."""

    def __init__(self, sample: _Sample, neighbours: int) -> None:
        self.sample = sample
        self.X = sample.rows.reshape(-1, *sample.item_shape)
        self.k = min(neighbours, len(self.X) - 1)
        self.mean = sample.rows.mean(axis=0, dtype=np.float64).astype(np.float32)
        rng = np.random.default_rng(sample.seed)
        self.bandwidth = neighbourhood.measure(self.X, rng).bandwidth_distance
        queries = sample.rows[: sample.n_queries]
        ids, _ = exact_neighbors(queries, sample.rows, self.k + 1)
        self.truth = _without_own(ids)

    def encoder(self, kind: Kind, n_bits: int) -> Encoder:
        """Draw an encoder as its fit on the sample would, without measuring the sample once more for each."""
        one = self.mean.reshape(1, *self.sample.item_shape)
        if kind == "angle":
            return AngleEncoder(n_bits, random_state=self.sample.seed).fit(one)
        return KernelEncoder(n_bits, bandwidth=self.bandwidth, random_state=self.sample.seed).fit(one)

    def costs(self, encoder: Encoder) -> _Costs:
        """Distances and negated scores of all rows (q, r); a query is infinitely far from itself."""
        codes, q = encoder.transform(self.X), self.sample.n_queries
        weights, _ = score_weights(encoder, encoder.phases(self.X[:q]))
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

    def found(self, costs: _Costs, k: int, part: int | None = None) -> dict[Ranking, NDArray[np.float64]]:
        """Share of the k nearest that each query finds, by ranking; `part`: in one quarter of the rows only."""
        truth = self.truth if part is not None else self.truth[:, :k]
        counted = np.ones(truth.shape, dtype=np.bool_)
        if part is not None:
            counted = truth % 4 == part
            counted &= counted.cumsum(axis=1) <= k
        shares: dict[Ranking, NDArray[np.float64]] = {}
        rules: tuple[tuple[Ranking, Any, int], ...] = (
            ("hamming", costs["hamming"], k),
            ("asymmetric", costs["asymmetric"], k),
            ("reranked", costs["asymmetric"], CANDIDATES * k),
        )
        for name, cost, first in rules:
            near = np.take_along_axis(cost, truth, axis=1)
            shares[name] = _share(near, counted, cost if part is None else cost[:, part::4], first)
        return shares

    def point(self, kind: Kind, n_bits: int, exact_seconds: float) -> CurvePoint:
        """Measure one code."""
        encoder = self.encoder(kind, n_bits)
        costs = self.costs(encoder)
        at_10 = _recalls(self.found(costs, 10))
        return CurvePoint(
            encoder=kind,
            n_bits=n_bits,
            n_bytes=-(-n_bits // 8),
            at_10=at_10,
            at_100=_recalls(self.found(costs, 100)),
            expected=self.expected(at_10, costs),
            times=self.times(encoder, exact_seconds) if exact_seconds else None,
        )

    def expected(self, at_10: Recalls, costs: _Costs) -> Recalls:
        """Recall@10 in all of the data: the fall from a quarter of the sample to the sample, continued."""
        steps = log(self.sample.of / len(self.X), 4)
        if steps <= 0 or self.truth.shape[1] < 100:
            return at_10
        quarters = [_recalls(self.found(costs, 10, part)) for part in range(4)]
        told = {}
        for by in RANKINGS:
            measured = float(getattr(at_10, by))
            before = float(np.mean([getattr(quarter, by) for quarter in quarters]))
            told[by] = max(0.0, measured - steps * max(0.0, before - measured))
        return Recalls(**told)

    def exact_seconds(self) -> float:
        """Time one exact search of the sample, per query: the unit of all times."""
        queries = self.sample.rows[: min(32, self.sample.n_queries)]
        squares = np.square(self.sample.rows).sum(axis=1)
        best = min(10, len(squares) - 1)
        seconds = _quickest(
            lambda: np.argpartition(squares - 2 * (queries @ self.sample.rows.T), best, axis=1)
        )
        return seconds / len(queries)

    def times(self, encoder: Encoder, unit: float) -> Times:
        """Time encoding and searches of a few."""
        few = self.X[: min(16, self.sample.n_queries)]
        index = Index(encoder.transform(self.X), encoder, vectors=self.X)
        per_query = {
            "hamming": _quickest(lambda: index.search(few, 10, mode="hamming")),
            "asymmetric": _quickest(lambda: index.search(few, 10, mode="asymmetric")),
            "reranked": _quickest(lambda: index.search(few, 10, mode="asymmetric", rerank=True)),
        }
        items = self.X[:256]
        encode = _quickest(lambda: encoder.transform(items)) / len(items)
        return Times(encode=encode / unit, **{by: s / len(few) / unit for by, s in per_query.items()})


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


def _recalls(hits: dict[Ranking, NDArray[np.float64]]) -> Recalls:
    return Recalls(**{by: float(share.mean()) for by, share in hits.items()})


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


def _recall(cache: Path | None, key: str) -> dict[str, Any] | None:
    """What was remembered; None where nothing was, or nothing that can be read."""
    if cache is None:
        return None
    with suppress(OSError, ValueError):
        found = json.loads((cache / f"{key}.json").read_bytes())
        return found if isinstance(found, dict) else None
    return None


def _remember(cache: Path | None, key: str, found: dict[str, Any]) -> None:
    """Keep a result; a cache that cannot be written is no reason to fail."""
    if cache is None:
        return
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        with replace_file(cache / f"{key}.json") as file:
            file.write(json.dumps(found).encode())
