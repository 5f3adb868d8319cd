"""What must hold on any processor: each row a ratio of one run, its goal and its spread, for scripts to read.

A row that this processor cannot run is left out: AVX-512 needs AVX-512, a comparison with FAISS needs FAISS.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bilsh
from bilsh import _native
from bilsh.benchmark import contestants_encode as enc
from bilsh.benchmark import contestants_hamming as ham
from bilsh.benchmark import limits, machine
from bilsh.benchmark.measure import Contestant, Timing, race
from bilsh.benchmark.sizes import LARGE, SMALL
from bilsh.codes import Codes
from bilsh.datasets import digits, mnist
from bilsh.errors import BilshError

ROUNDS = 400
"""Short calls are timed so often: on a busy machine few of them pass undisturbed."""

FAISS_BLOCKS = (None, 1_024)
"""Codes that FAISS compares with all queries before the next: as it comes, which counts, and so few that they stay in
a cache, which is told beside."""

Run = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured: code counts are divided by `small`, and each race lasts about so many seconds."""

    small: int = 1
    seconds: float = 3.0


@dataclass(frozen=True, slots=True)
class Row:
    """One ratio and its goal.

    Attributes
    ----------
    name : str
    goal : float
    sense : {">=", "<="}
        Whether the value must reach the goal or must not exceed it.
    value : float
    spread : float
        (median - smallest) / smallest time of the more restless of the two that are compared.
    tolerance : float
        Share of the goal that the clock's own restlessness may take.
    note : str
        What else a reader may want to know.
    """

    name: str
    goal: float
    sense: str
    value: float
    spread: float
    tolerance: float = 0.0
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether the goal is reached."""
        return (
            self.value >= self.goal * (1 - self.tolerance) if self.sense == ">=" else self.value <= self.goal
        )


def timed(
    ways: dict[str, Run], scale: Scale, *, threads: int = 1, clock: str = "cpu", before: Run | None = None
) -> dict[str, Timing]:
    """Time ways to do a job in turns; one thread by the processor's clock, which does not see other programs."""
    field = [Contestant(name, run, threads) for name, run in ways.items()]
    return {t.contestant: t for t in race("goals", "", 1, field, scale.seconds, clock, ROUNDS, before)}


def row(
    name: str, goal: float, over: Timing, under: Timing, sense: str = ">=", tolerance: float = 0.0
) -> Row:
    """Seconds of one over seconds of the other."""
    value = (over.seconds or np.nan) / (under.seconds or np.nan)
    return Row(name, goal, sense, round(value, 3), round(max(over.spread, under.spread), 3), tolerance)


def at_level(level: str, run: Run) -> Run:
    """Run with the kernels of an instruction set."""

    def forced() -> Any:
        _native.force_level(level)
        try:
            return run()
        finally:
            _native.force_level("auto")

    return forced


def last_level_cache() -> int:
    """Bytes of the largest cache, 32 MB where the system does not tell."""
    return max(machine.caches().values(), default=32 << 20)


def one_query(scale: Scale) -> Iterator[Row]:
    """A scan with one query, against FAISS and against reading memory.

    Codes that exceed the last-level cache are read from memory: before every turn other data are read. Else a part of
    them would stay in the cache, the more the oftener they were read, by whomever: of several plain readers of the same
    codes the last was up to a third faster than the first, for nothing it did.
    """
    sizes = ((10_000, 256), (1_000_000, 256), (10_000, 512), (1_000_000, 512), (100_000, 1_024), (10_000, 4_096),
             (1_000_000, 4_096), (10_000, 62_528))  # fmt: skip
    for n, bits in sizes:
        stored = ham.stored_codes(ham.HammingCase(n // scale.small, bits))
        query = ham.query_codes(stored, 1)
        ways = {name: ham.PEERS[name][0](stored)(query, 1) for name in (ham.OURS, ham.FAISS) if _there(name)}
        reads = {f"read {c.note}": c.run for c in limits.bandwidth(stored, (1,)) if c.run is not None}
        exceeds = stored.nbytes > 1.5 * last_level_cache()
        found = timed(
            {**ways, **reads}, scale, before=limits.other_data(last_level_cache()) if exceeds else None
        )
        if ham.FAISS in found:
            yield row(f"one query, {n:,} x {bits:,} bits, over FAISS", 1.0, found[ham.FAISS], found[ham.OURS])
        if exceeds:
            best = min((found[name] for name in reads), key=lambda t: t.seconds or np.inf)
            name = f"one query, {n:,} x {bits:,} bits, fraction of a plain sum's bandwidth"
            yield row(name, 0.85, best, found[ham.OURS])


def many_queries(scale: Scale) -> Iterator[Row]:
    """Scans with many queries, by AVX-512 and by AVX2, against FAISS."""
    if not _there(ham.FAISS):
        return
    goals = {"avx512": (5.0, 2.5), "avx512bw": (5.0, 2.5), "avx2": (2.0, 1.0)}
    levels = [level for level in goals if level in _native.levels()]
    for n, bits in ((100_000, 4_096), (10_000, 62_528), (1_000_000, 512)):
        stored = ham.stored_codes(ham.HammingCase(n // scale.small, bits))
        flats = {f"{ham.FAISS} {block}": ham.faiss_flat(stored, block) for block in FAISS_BLOCKS}
        for q in (60, 300):
            queries = ham.query_codes(stored, q)
            ways = {name: flat(queries, 1) for name, flat in flats.items()}
            ways |= {level: at_level(level, ham.ours(stored)(queries, 1)) for level in levels}
            found = timed(ways, scale)
            usual, small = (found[name] for name in flats)
            for level in levels:
                name = f"{q} queries, {n:,} x {bits:,} bits, {level}, over FAISS"
                set_by_hand = row(name, 0.0, small, found[level]).value
                note = f"{set_by_hand} over FAISS in blocks of {FAISS_BLOCKS[1]:,} codes"
                yield replace(row(name, goals[level][bits < 4_096], usual, found[level]), note=note)


def asymmetric(scale: Scale) -> Iterator[Row]:
    """Scores of all codes, as a fraction of the rate of the Hamming scan."""
    for n, bits in ((1_000_000, 512), (200_000, 4_096), (40_000, 16_384)):
        codes = ham.stored_codes(ham.HammingCase(n // scale.small, bits))
        X = enc.descriptors(SMALL, 32)
        encoder = bilsh.KernelEncoder(bits, random_state=0).fit(X)
        weights, bias = encoder.coder_.calibration.score_weights(encoder.phases(X))
        for q, goal in ((1, 0.5), (32, 0.25)):
            queries = codes[:q].copy()
            ways: dict[str, Run] = {
                "hamming": partial(_native.hamming_top_k, queries, [codes], ham.NEAREST),
                "scores": partial(_native.score_top_k, weights[:q], bias[:q], [codes], ham.NEAREST),
            }
            found = timed(ways, scale)
            name = f"asymmetric scan, {q} queries, {n:,} x {bits:,} bits, fraction of the Hamming scan's rate"
            yield row(name.replace("1 queries", "one query"), goal, found["hamming"], found["scores"])


def images() -> NDArray[np.float32]:
    """Return MNIST where it is, else digits over and over with noise; 70,000 in both."""
    try:
        return np.asarray(mnist().X, dtype=np.float32)
    except BilshError:
        X = digits().X
        noise = np.random.default_rng(0).standard_normal((70_000, *X.shape[1:]), dtype=np.float32)
        return noise + np.resize(X, noise.shape).astype(np.float32)


def candidates(scale: Scale) -> Iterator[Row]:
    """One asymmetric query among candidates against a progressive one, both with their similarities."""
    X = images()[:: scale.small]
    encoder = bilsh.KernelEncoder(16_384, random_state=0).fit(X)
    index = bilsh.Index(encoder.transform(X), encoder)
    query = X[:1]

    ways: dict[str, Run] = {
        "scored": lambda: index.search(query, 10, mode="asymmetric", candidates=100).similarity,
        "plain": lambda: index.search(query, 10, mode="progressive").similarity,
    }
    found = timed(ways, scale)
    name = "asymmetric query, 100 candidates of 70,000 kernel codes, over a progressive one, similarities included"
    yield row(name, 2.0, found["scored"], found["plain"], "<=")


def small_calls(scale: Scale) -> Iterator[Row]:
    """One query over a thousand short codes, against FAISS's call."""
    if not _there(ham.FAISS):
        return
    stored: Codes = ham.stored_codes(ham.HammingCase(1_000, 256))
    query, index = ham.query_codes(stored, 1), bilsh.Index(stored)
    ways: dict[str, Run] = {
        ham.FAISS: ham.faiss_flat(stored)(query, 1),
        "top_k": partial(bilsh.top_k, query, stored, ham.NEAREST),
        "Index.search": partial(index.search, query, ham.NEAREST),
    }
    found = timed(ways, scale)
    for name in ("top_k", "Index.search"):
        yield row(
            f"{name}, one query, 1,000 x 256 bits, over FAISS's call",
            2.0,
            found[name],
            found[ham.FAISS],
            "<=",
        )


def encoding(scale: Scale) -> Iterator[Row]:
    """Encoding against literal NumPy, against the peak of sgemm, and two threads against one."""
    cases = ((SMALL, 900, 1, 1), (SMALL, 900, 1, 64), (SMALL, 900, 5, 1), (SMALL, 2_500, 1, 1), (LARGE, 4_900, 1, 1),
             (LARGE, 4_900, 1, 64), (LARGE, 62_500, 1, 1), (LARGE, 62_500, 1, 64))  # fmt: skip
    for shape, k, m, n in cases:
        case, X = enc.EncodeCase(shape, k // scale.small, m), enc.descriptors(shape, n)
        literal = enc.literal_field(case, X, 1, 1e9)[0].run
        ours = enc.our_field(case, X, 1).run
        if literal and ours:
            found = timed({"literal": literal, "ours": ours}, scale)
            yield row(f"encode {case}, {n} items, over literal NumPy", 1.0, found["literal"], found["ours"])
    for m in (5, 10):
        case, X = enc.EncodeCase(LARGE, 62_500 // scale.small, m), enc.descriptors(LARGE, 64)
        peak = [Contestant(f"peak {c.note}", c.run, 1, c.work) for c in limits.sgemm(1, (2048, 768))]
        timings = race("goals", "", 64, [enc.our_field(case, X, 1), *peak], 2 * scale.seconds, "cpu", ROUNDS)
        best = max(timings[1:], key=lambda t: t.rate)
        spread = max(timings[0].spread, best.spread)
        name = f"encode {case}, 64 items, fraction of sgemm peak"
        yield Row(name, 0.85, ">=", round(timings[0].rate / best.rate, 3), round(spread, 3))


def two_threads(scale: Scale) -> Iterator[Row]:
    """Two threads are never slower than one; by the clock on the wall, so only on a machine that is not busy."""
    if (os.cpu_count() or 1) < 2:
        return
    for shape, k, m, n in ((SMALL, 900, 1, 1), (SMALL, 900, 1, 64), (SMALL, 900, 5, 64), (LARGE, 4_900, 1, 1),
                           (LARGE, 62_500, 5, 64), (LARGE, 62_500, 10, 64)):  # fmt: skip
        case, X = enc.EncodeCase(shape, k // scale.small, m), enc.descriptors(shape, n)
        ways = {str(threads): enc.our_field(case, X, threads).run for threads in (1, 2)}
        yield _threads(f"encode {case}, {n} items", ways, scale)
    for n, bits, q in ((1_000, 256, 1), (1_000_000, 512, 1), (100_000, 4_096, 60)):
        stored = ham.stored_codes(ham.HammingCase(n // scale.small, bits))
        queries = ham.query_codes(stored, q)
        ways = {str(threads): ham.ours(stored)(queries, threads) for threads in (1, 2)}
        yield _threads(f"{q} queries, {n:,} x {bits:,} bits".replace("1 queries", "one query"), ways, scale)


def _threads(name: str, ways: dict[str, Run | None], scale: Scale) -> Row:
    found = timed({n: run for n, run in ways.items() if run}, scale, threads=2, clock="wall")
    return row(f"{name}, one thread over two", 1.0, found["1"], found["2"], tolerance=0.03)


def _there(name: str) -> bool:
    return find_spec(ham.PEERS[name][1]) is not None


GROUPS: dict[str, Callable[[Scale], Iterator[Row]]] = {
    "one-query": one_query,
    "many-queries": many_queries,
    "asymmetric": asymmetric,
    "candidates": candidates,
    "calls": small_calls,
    "encoding": encoding,
    "threads": two_threads,
}


def hold(
    output: Path,
    *,
    only: tuple[str, ...] = (),
    scale: Scale | None = None,
    say: Callable[[str], None] = print,
) -> Path:
    """Measure the rows, tell each as a line of JSON, write all to ``goals.json`` in the processor's folder.

    Parameters
    ----------
    output : path
        Folder of all processors' results.
    only : tuple of str
        Which of `GROUPS`; all by default. Of the others, what the file has stays: a row
        names the commit it was measured at.
    scale : Scale, optional
        How much is measured.
    say : callable
        Takes every line as soon as it is known.
    """
    folder = output / machine.folder_name()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "goals.json"
    rows: dict[str, dict[str, Any]] = {}
    about = machine.describe()
    if only and path.exists():
        kept = json.loads(path.read_text())
        rows = {row["name"]: {"commit": kept["machine"]["commit"], **row} for row in kept["rows"]}
    for name in only or tuple(GROUPS):
        for measured in GROUPS[name](scale or Scale()):
            rows[measured.name] = {"commit": about["commit"], **asdict(measured), "met": measured.met}
            say(json.dumps(rows[measured.name]))
    whole = {"machine": about, "rows": list(rows.values())}
    path.write_text(json.dumps(whole, indent=1) + "\n")
    return path
