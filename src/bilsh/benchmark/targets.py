"""The targets, as data, and the checks of a run's timings against them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import inf, isnan

from bilsh.benchmark import contestants_encode as enc
from bilsh.benchmark import contestants_hamming as ham
from bilsh.benchmark import machine
from bilsh.benchmark.limits import BANDWIDTH, PEAK
from bilsh.benchmark.measure import Timing

SPEEDUP = "two threads"
FULL_SCAN = "full scan"
MEMORY = "RSS growth, MB"

RECALL = "recall of the full scan"
ADD, OPEN, TOUCH = "ms beyond a plain write", "ms to open, worst of 10", "GB/s on first touch"
ROW, ROW_LEAST = "of a plain write and fsync, median", "of a plain write and fsync, minimum"

ANSWER, UPLOAD = "ms of an answer, p95", "ms of an uploaded query, p95"
SHOWN, SLIDER = "ms that the browser adds, p95", "ms of the slider, p95"

SET_ON = "intel-xeon-processor-family-6-amx"
"""The one processor on which most goals were set, as `machine.folder_name` calls it."""

AT_MOST = (MEMORY, ADD, OPEN, ROW, ROW_LEAST, ANSWER, UPLOAD, SHOWN, SLIDER)
"""Goals that must not be exceeded; all others must be reached."""

ENCODE, WAYS, HAMMING, MEMORY_SECTION = "encode", "ways", "hamming", "memory"
PROGRESSIVE, STORE, CELLS, PAGE = "progressive", "store", "cells", "page"
CELLS_RECALL = "measured recall beyond the promised one"
TOTAL = "build and 10,000 queries"


@dataclass(frozen=True, slots=True)
class Race:
    """What a target may ask about a race: all that is known before it is run."""

    section: str
    case: str
    items: int
    d: int = 0
    k: int = 0
    m: int = 0
    bits: int = 0
    n: int = 0


@dataclass(frozen=True, slots=True)
class Target:
    """One line of the list of targets.

    Attributes
    ----------
    what : str
        The target in words.
    against : str
        Contestant or limit that ours is compared with, or SPEEDUP or MEMORY.
    goal : float
        The ratio must be at least this; what is in `AT_MOST`, at most.
    where : callable
        Whether the target speaks of a race.
    everywhere : bool
        Whether it must hold on any processor, or for anybody who waits. The others bind where they were set only.
    """

    what: str
    against: str
    goal: float
    where: Callable[[Race], bool]
    everywhere: bool = False

    @property
    def binds(self) -> bool:
        """Whether it is a goal on this processor."""
        return self.everywhere or machine.folder_name() == SET_ON


def _encode(k: int, m: int, *, items: int = 64, d: int = 64_000) -> Callable[[Race], bool]:
    return lambda r: r.section == ENCODE and (r.d, r.k, r.m) == (d, k, m) and r.items >= items


def _long_codes(*, one_query: bool) -> Callable[[Race], bool]:
    return lambda r: r.section == HAMMING and r.bits >= 4_096 and (r.items == 1) == one_query


def _progressive(name: str, *, one_query: bool) -> Callable[[Race], bool]:
    return lambda r: r.section == PROGRESSIVE and name in r.case and (r.items == 1) == one_query


def _cells_of_mnist(items: int) -> Callable[[Race], bool]:
    ends = ("recall 0.95", "recall 0.99")
    return lambda r: (
        r.section == CELLS and r.items == items and r.case.startswith("MNIST") and r.case.endswith(ends)
    )


TARGETS = (
    Target(
        "long codes, m >= 5: fraction of sgemm peak",
        PEAK,
        0.85,
        lambda r: r.section == ENCODE and r.k == 62_500 and r.m >= 5 and r.items >= 64,
    ),
    Target(
        "28x28, k = 900 to 2,500, m = 5: fraction of sgemm peak",
        PEAK,
        0.75,
        lambda r: r.section == ENCODE and r.d == 784 and r.m == 5 and r.items >= 64,
    ),
    Target("against literal NumPy, k = 62,500, m = 5", enc.LITERAL, 9, _encode(62_500, 5)),
    Target("against literal NumPy, k = 62,500, m = 10", enc.LITERAL, 20, _encode(62_500, 10)),
    Target("against literal NumPy, 28x28, k = 900, m = 5", enc.LITERAL, 40, _encode(900, 5, d=784)),
    Target(
        "never slower than literal NumPy, single items included",
        enc.LITERAL,
        1,
        lambda r: r.section == ENCODE and r.d in (784, 64_000),
        everywhere=True,
    ),
    Target("against dense LSH-SIK, k = 62,500, m = 1", enc.DENSE, 150, _encode(62_500, 1)),
    Target("against dense LSH-SIK, k = 62,500, m = 5", enc.DENSE, 55, _encode(62_500, 5)),
    Target(
        "Hadamard against bilinear m = 1, k = d = 64,000",
        enc.HADAMARD,
        2,
        lambda r: r.section == WAYS and r.k == 64_000,
    ),
    Target("many queries, >= 4,096 bits, against FAISS", ham.FAISS, 8, _long_codes(one_query=False)),
    Target("many queries, >= 4,096 bits, against usearch", ham.USEARCH, 2, _long_codes(one_query=False)),
    Target("one query, long codes: fraction of bandwidth", BANDWIDTH, 0.85, _long_codes(one_query=True)),
    Target(
        "two threads against one, encoding",
        SPEEDUP,
        1.8,
        lambda r: r.section == ENCODE and r.items >= 64,
    ),
    Target("two threads against one, scanning", SPEEDUP, 1.8, lambda r: r.section == HAMMING),
    Target(
        "RSS growth while encoding d = 64,000, k = 62,500, m = 5",
        MEMORY,
        32,
        lambda r: r.section == MEMORY_SECTION and (r.d, r.k, r.m) == (64_000, 62_500, 5),
        everywhere=True,
    ),
    Target(
        "progressive search: recall of the full scan",
        RECALL,
        0.99,
        lambda r: r.section == PROGRESSIVE,
        everywhere=True,
    ),
    Target("one query, MNIST, against our full scan", FULL_SCAN, 20, _progressive("MNIST", one_query=True)),
    Target("100 queries, MNIST, against our full scan", FULL_SCAN, 6, _progressive("MNIST", one_query=False)),
    Target("one query, MNIST, against FAISS", ham.FAISS, 40, _progressive("MNIST", one_query=True)),
    Target("100 queries, MNIST, against FAISS", ham.FAISS, 60, _progressive("MNIST", one_query=False)),
    Target(
        "one query, clustered codes, against our full scan",
        FULL_SCAN,
        10,
        _progressive("clustered", one_query=True),
    ),
    Target(
        "random codes: falls back to the full scan",
        FULL_SCAN,
        0.9,
        lambda r: r.section == PROGRESSIVE and "random" in r.case,
    ),
    Target("cells: recall that was promised, less .01", CELLS_RECALL, -0.01, lambda r: r.section == CELLS),
    Target(
        "cells, one query, against FAISS BinaryIVF of the same recall",
        "FAISS BinaryIVF",
        0.5,
        _cells_of_mnist(1),
    ),
    Target(
        "cells, one query of 10^6 and more items, against FAISS BinaryIVF of the same recall",
        "FAISS BinaryIVF",
        1,
        lambda r: r.section == CELLS and r.items == 1 and r.n >= 1_000_000,
    ),
    Target(
        "cells, 100 queries, against FAISS BinaryIVF of the same recall",
        "FAISS BinaryIVF",
        3,
        _cells_of_mnist(100),
    ),
    Target(
        "cells, build and 10,000 queries, against usearch HNSW of the same recall",
        f"{TOTAL}, usearch HNSW",
        1,
        lambda r: r.section == CELLS and r.items == 100 and r.n >= 10_000,
    ),
    Target("durable add of 10,000 x 4,096 bits", ADD, 50, lambda r: r.section == STORE),
    Target("one durable row", ROW, 2, lambda r: r.section == STORE),
    Target("one durable row at best", ROW_LEAST, 2, lambda r: r.section == STORE),
    Target("opening 1 GB", OPEN, 100, lambda r: r.section == STORE),
    Target("checking on first touch", TOUCH, 2, lambda r: r.section == STORE),
    Target("the page: an answer of the server", ANSWER, 50, lambda r: r.section == PAGE, everywhere=True),
    Target("the page: an uploaded query", UPLOAD, 150, lambda r: r.section == PAGE, everywhere=True),
    Target("the page: moving the slider", SLIDER, 50, lambda r: r.section == PAGE, everywhere=True),
)


@dataclass(frozen=True, slots=True)
class Check:
    """A measured ratio, and the goal that applies to it (None where there is none)."""

    section: str
    case: str
    items: int
    threads: int
    against: str
    value: float
    spread: float
    goal: float | None
    what: str
    note: str

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal."""
        if self.goal is None or isnan(self.value):
            return None
        return self.value <= self.goal if self.against in AT_MOST else self.value >= self.goal


def goal_of(race: Race, against: str) -> Target | None:
    """Return the most demanding target that speaks of this ratio."""
    matching = [t for t in TARGETS if t.binds and t.against == against and t.where(race)]
    return max(matching, key=lambda t: t.goal, default=None)


def check(race: Race, against: str, value: float, spread: float, threads: int = 1, note: str = "") -> Check:
    """Put a measured value beside its goal; goals are about one thread, but for the speed-up by two."""
    target = goal_of(race, against) if threads == 1 or against == SPEEDUP else None
    goal, what = (target.goal, target.what) if target else (None, "")
    return Check(race.section, race.case, race.items, threads, against, value, spread, goal, what, note)


def ratios(race: Race, timings: Iterable[Timing], reference: str = enc.OURS) -> Iterator[Check]:
    """Compare everyone in a race with `reference` at the same number of threads, and two threads with one.

    Peers: their time over ours. Limits: our rate over theirs, the best way to reach the limit counting. In the
    race of our own projections the reference is the bilinear one, and its time over theirs is reported.
    """
    timed = [t for t in timings if t.seconds is not None]
    own = {t.threads: t for t in timed if t.contestant == reference}
    for threads, mine in own.items():
        best: dict[str, Timing] = {}
        for t in timed:
            if t.threads == threads and t.contestant != reference:
                kept = best.get(t.contestant)
                if kept is None or t.rate > kept.rate:
                    best[t.contestant] = t
        for name, other in best.items():
            spread = max(mine.spread, other.spread)
            if name in (PEAK, BANDWIDTH):
                value = mine.rate / other.rate
            elif race.section == WAYS:
                value = _seconds(mine) / _seconds(other)
            else:
                value = _seconds(other) / _seconds(mine)
            yield check(race, name, value, spread, threads, other.note)
    if 1 in own and 2 in own:
        value = _seconds(own[1]) / _seconds(own[2])
        yield check(race, SPEEDUP, value, max(own[1].spread, own[2].spread), 2)


def _seconds(timing: Timing) -> float:
    return timing.seconds if timing.seconds is not None else inf
