"""Advice before encoding: which code, how long, what it finds and costs, all measured on a sample of the data."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.datasets.named import cache_folder
from bilsh.descriptors.choice import DescriptorChoice, choose_descriptor
from bilsh.errors import AssumptionWarning, InvalidInputError
from bilsh.types import Progress, silent
from bilsh.workflows.choice import EncoderChoice, choose_encoder
from bilsh.workflows.curves import BitsCurve, CurvePoint, bits_curve
from bilsh.workflows.recall import RANKINGS, Ranking
from bilsh.workflows.sources import ArraySource, ImageSource

SAMPLE_BYTES = 256 << 20
SAMPLE_IMAGES = 1024
WANTED_RECALL = 0.9


@dataclass(frozen=True, slots=True)
class Advice:
    """What :func:`advise` found.

    Attributes
    ----------
    rows, item_shape, item_bytes
        Size of the data: items, shape of one, bytes of one as it came (images: of its float32 description).
    recall : float
        The recall@10 that was wanted.
    by : "reranked", "asymmetric" or "hamming"
        How searches shall rank.
    pick : CurvePoint
        The shortest code that reaches the wanted recall; where none does, the one with the highest.
    reached : bool
        Whether it reaches it.
    curve : BitsCurve
        All that was measured.
    descriptor : DescriptorChoice or None
        How images were described, and what else there is.
    uniform_bits : int
        Bits for the promise that holds for all pairs at once, see :func:`bilsh.bits_needed`; usually far more than
        search needs.
    error, confidence, pairs
        What that promise says.
    assumptions : dict
        Shares of sampled pairs for which the paper's assumptions and statements hold, see
        :class:`bilsh.theory.AssumptionReport`.
    """

    rows: int
    item_shape: tuple[int, ...]
    item_bytes: int
    recall: float
    by: Ranking
    pick: CurvePoint
    reached: bool
    curve: BitsCurve
    descriptor: DescriptorChoice | None
    uniform_bits: int
    error: float
    confidence: float
    pairs: float
    assumptions: dict[str, float]

    @property
    def encode_seconds_per_million(self) -> float:
        """Time to encode a million items with one thread on the machine that measured."""
        return 0.0 if self.pick.times is None else 1e6 * self.pick.times.encode * self.curve.exact_seconds

    def to_json(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        chosen = self.descriptor
        return {
            **plain,
            "item_shape": list(self.item_shape),
            "pick": asdict(self.pick),
            "curve": asdict(self.curve),
            "descriptor": None
            if chosen is None
            else {
                "name": chosen.name,
                "centers": chosen.centers,
                "side": chosen.side,
                "reason": chosen.reason,
                "precision": chosen.precision,
            },
        }

    def lines(self, source: str | Path, options: str = "") -> list[str]:
        """Say the advice in words, for a terminal.

        Parameters
        ----------
        source : path
            What the advice is about, as the next command shall name it.
        options : str
            What else that command needs to read the source.
        """
        curve, pick, times = self.curve, self.pick, self.pick.times
        among = (
            f"all {curve.rows:,} rows"
            if curve.rows == curve.of
            else f"{curve.rows:,} of {curve.of:,} rows; pick for all of them"
        )
        lines = [f"{self.rows:,} items of shape {self.item_shape}, {self.item_bytes:,} bytes each"]
        if self.descriptor is not None:
            lines += self.descriptor.lines()
        lines += [
            f"measured     recall@10 of exact neighbours, {curve.queries} queries among {among}",
            "               bits  bytes   angle: Hamming asymmetric re-ranked   kernel: Hamming asymmetric re-ranked",
            *(_row(curve, length) for length in sorted({point.n_bits for point in curve.points})),
        ]
        told = f"recall@10 {getattr(pick.expected, self.by):.2f} {_NAMES[self.by]}"
        if self.reached:
            lines.append(
                f"advice       {pick.encoder} codes of {pick.n_bits:,} bits ({pick.n_bytes:,} bytes): {told}, the "
                f"shortest that reaches {self.recall:g}"
            )
        else:
            lines.append(
                f"advice       {pick.encoder} codes of {pick.n_bits:,} bits ({pick.n_bytes:,} bytes): {told}; no code "
                f"that was tried reaches {self.recall:g} (none is larger than the items)"
            )
        lines += self._with_vectors()
        lines.append(
            f"memory       {_size(10**6 * pick.n_bytes)} per million codes (the items: "
            f"{_size(10**6 * self.item_bytes)})"
        )
        if times is not None:
            seconds = self.encode_seconds_per_million
            lines.append(
                "time         on this machine, one thread, an exact search of the sample as 1: Hamming "
                f"{_ratio(times.hamming)}, asymmetric {_ratio(times.asymmetric)}, re-ranked {_ratio(times.reranked)}; "
                f"encoding a million items {seconds:,.{0 if seconds >= 10 else 1}f} s"
            )
        hold = self.assumptions
        keep = " --keep-vectors" if self.by == "reranked" else ""
        describe = "" if self.descriptor is None else f" {self.descriptor.options}"
        return [
            *lines,
            f"uniform      {self.uniform_bits:,} bits would keep all of {self.pairs:,.0f} pairs within {self.error:g} "
            f"of their expected fraction with confidence {self.confidence:g}; search does not need that",
            f"the paper    its assumptions hold for {hold['assumptions']:.0%} of sampled pairs; Lemma 1 is true for "
            f"{hold['lemma_1']:.0%}, Theorem 2 for {hold['theorem_2']:.0%}, Theorem 3 for {hold['theorem_3']:.0%}; "
            "bilsh's estimates are exact and need none of them",
            f"next         bilsh encode {shlex.quote(str(source))} -o store/ --bits {pick.n_bits} "
            f"--method {pick.encoder}{keep}{describe}{options}",
        ]

    def _with_vectors(self) -> list[str]:
        """What keeping the vectors would change, where it changes something."""
        other = self.curve.shortest(self.recall, "reranked")
        if self.by == "reranked" or other is None or other.n_bits >= self.pick.n_bits:
            return []
        return [
            f"             with --keep-vectors and --rerank {other.n_bits:,} bits of {other.encoder} codes do: "
            f"recall@10 {other.expected.reranked:.2f}"
        ]


_NAMES = {"hamming": "by Hamming distance", "asymmetric": "with asymmetric queries", "reranked": "re-ranked"}


def _row(curve: BitsCurve, length: int) -> str:
    row = f"             {length:>6,} {-(-length // 8):>6,}"
    for kind, gap in (("angle", 10), ("kernel", 11)):
        point = next((p for p in curve.points if p.n_bits == length and p.encoder == kind), None)
        if point is not None:
            at = point.at_10
            row += f"{'':{gap}}{at.hamming:>7.3f} {at.asymmetric:>10.3f} {at.reranked:>9.3f}"
    return row


def _ratio(value: float) -> str:
    return f"{value:.2g}" if value < 100 else f"{value:,.0f}"


def _size(n_bytes: float) -> str:
    power = 0 if n_bytes < 1 else min(int(np.log10(n_bytes)) // 3, 4)
    return f"{n_bytes / 1000**power:.3g} {('bytes', 'kB', 'MB', 'GB', 'TB')[power]}"


def advice_cache() -> Path:
    """Return the folder where measurements are remembered: `advise`, and then `encode`, on the same data."""
    return cache_folder() / "advice"


def measured_choice(
    X: Any, n_bits: int, *, of: int | None = None, seed: int = 0, progress: Progress = silent
) -> EncoderChoice:
    """Choose the encoder for `bilsh encode` without a method: measured, and remembered in the user's cache.

    Parameters
    ----------
    X : array (n, d) or (n, d_w, d_v)
        The data, or the sample that the encoder will be fitted on.
    n_bits : int
    of : int, optional
        Rows of the data, where X is a sample.
    seed : int
    progress : callable (what, done, total), optional
    """
    return choose_encoder(X, n_bits, seed=seed, of=of, cache=advice_cache(), progress=progress)


def advise(
    path: Path,
    *,
    key: str | None = None,
    id_column: str | None = None,
    recall: float = WANTED_RECALL,
    keep_vectors: bool = False,
    by: Ranking | None = None,
    describe: str | None = None,
    error: float = 0.02,
    confidence: float = 0.99,
    pairs: float = 1e6,
    seed: int = 0,
    jobs: int = 1,
    progress: Progress = silent,
) -> Advice:
    """Measure what codes find on a sample of the data, and recommend the shortest that finds enough.

    Parameters
    ----------
    path : path
        Array file, or folder of images.
    key : str, optional
        Which array of an .npz, HDF5 or Parquet file.
    id_column : str, optional
        Column or array of the file that holds ids, and is no data.
    recall : float
        Wanted share of the 10 exact nearest neighbours.
    keep_vectors : bool
        Whether the store will keep the vectors, so that searches can re-rank; else asymmetric queries must do.
    by : {"reranked", "asymmetric", "hamming"}, optional
        How searches will rank, where it is neither of the two.
    describe : str, optional
        Descriptor of images by name, or "module:function"; by default it is chosen, see
        :func:`bilsh.descriptors.choose_descriptor`.
    error, confidence, pairs
        Of the promise behind `uniform_bits`: all of `pairs` fractions of differing bits are within `error` of their
        means with this confidence.
    seed : int
        Of samples and encoders.
    jobs : int
        Threads that describe images.
    progress : callable (what, done, total), optional
    """
    if not 0 < recall <= 1:
        raise InvalidInputError(f"recall must be > 0 and <= 1; got {recall}.")
    ranking: Ranking = by or ("reranked" if keep_vectors else "asymmetric")
    if ranking not in RANKINGS:
        raise InvalidInputError(f"by must be one of {', '.join(RANKINGS)}; got {by!r}.")
    with sampled(path, key, describe, id_column=id_column, seed=seed, jobs=jobs, progress=progress) as data:
        return _advise(data, ranking, recall, error, confidence, pairs, seed, progress)


@dataclass(frozen=True, slots=True)
class Sampled:
    """Descriptors to measure codes on: some rows, how many there are, their shape, how images are described."""

    X: NDArray[Any]
    rows: int
    shape: tuple[int, ...]
    descriptor: DescriptorChoice | None = None


@contextmanager
def sampled(
    path: Path,
    key: str | None = None,
    describe: str | None = None,
    *,
    id_column: str | None = None,
    seed: int = 0,
    jobs: int = 1,
    progress: Progress = silent,
) -> Iterator[Sampled]:
    """Take a sample of an array file or of a folder of images; parameters as in :func:`advise`.

    An error about values that are not finite, raised where the sample is used, names their row and column.
    """
    if path.is_dir():
        if (key, id_column) != (None, None):
            raise InvalidInputError(
                f"{path} is a folder of images; --key and --id-column are for array files."
            )
        chosen = choose_descriptor(path, describe, seed=seed, progress=progress)
        images = ImageSource(path, chosen.descriptor, jobs=jobs)
        X = images.sample(SAMPLE_IMAGES, progress)
        yield Sampled(X, images.rows, tuple(images.item_shape), chosen)
        return
    source = ArraySource(path, key, id_column=id_column)
    if source.rows < 3:
        raise InvalidInputError(f"{path} has {source.rows} rows; advice needs at least 3.")
    X = np.asarray(source.sample(max(64, SAMPLE_BYTES // (4 * prod(source.item_shape)))))
    try:
        yield Sampled(X, source.rows, source.item_shape)
    except InvalidInputError:
        source.check()
        raise


def _advise(
    data: Sampled,
    by: Ranking,
    recall: float,
    error: float,
    confidence: float,
    pairs: float,
    seed: int,
    progress: Progress,
) -> Advice:
    import bilsh

    X = data.X
    curve = bits_curve(
        X, until=recall, by=by, seed=seed, of=data.rows, cache=advice_cache(), progress=progress
    )
    shortest = curve.shortest(recall, by)
    pick = shortest or curve.best(by)
    kind = bilsh.AngleEncoder if pick.encoder == "angle" else bilsh.KernelEncoder
    # A few hundred items tell what the promise for all pairs depends on.
    probe = kind(1024, random_state=seed).fit(X[:512])
    return Advice(
        rows=data.rows,
        item_shape=data.shape,
        item_bytes=curve.item_bytes,
        recall=recall,
        by=by,
        pick=pick,
        reached=shortest is not None,
        curve=curve,
        descriptor=data.descriptor,
        uniform_bits=bilsh.bits_needed(error, confidence, pairs, probe),
        error=error,
        confidence=confidence,
        pairs=pairs,
        assumptions=_assumptions(X, curve.bandwidth, seed),
    )


def _assumptions(X: Any, bandwidth: float, seed: int) -> dict[str, float]:
    """Check the paper's assumptions on sampled pairs, vectors as matrices as square as the dimension allows."""
    from bilsh import theory

    n, shape = len(X), X.shape[1:]
    if len(shape) == 1:
        d = shape[0]
        d_w = next(i for i in range(int(np.sqrt(d)), 0, -1) if d % i == 0)
        shape = (d_w, d // d_w)
    few = np.asarray(X[: min(n, 400)], dtype=np.float64).reshape(-1, *shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        report = theory.check_assumptions(few, n_pairs=100, bandwidth=bandwidth, rng=seed)
    names = ("norms", "ratio", "assumptions", "lemma_1", "theorem_2", "theorem_3", "median_effective_rank")
    return {name: float(getattr(report, name)) for name in names}


__all__ = ["Advice", "advice_cache", "advise", "measured_choice"]
