"""The one clock of the benchmark: contestants take turns, the smallest time of each counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import Any

from threadpoolctl import ThreadpoolController

SHORTEST_SAMPLE = 0.005
"""Seconds; quicker calls are repeated within a sample, so that the clock's own cost does not show."""

CLOCK_TICK = 1e-9
"""Seconds; no time is shorter, whatever the clock says."""

COLD = 0.05
"""Seconds; calls as quick as this feel what the one before left in the caches, so an untimed one goes first."""

MOST_ROUNDS = 20

CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
"""Time that passes, or time that the process computes: the second does not see other programs take turns."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """One way to do the job of a race.

    Attributes
    ----------
    name : str
        As printed.
    run : callable or None
        Does the job and returns its result; None when the contestant cannot take part, `note` says why.
    threads : int
        Threads that BLAS, OpenMP and the contestant itself may use.
    work : float
        Size of the whole job (floating-point operations, or bytes), for fractions of a limit; 0 where unused.
    scale : float
        Whole job over what `run` does; above 1 the time is extrapolated, and `note` says from what.
    note : str
        What a reader of the number must know.
    """

    name: str
    run: Callable[[], Any] | None
    threads: int = 1
    work: float = 0.0
    scale: float = 1.0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Timing:
    """What the clock said about one contestant of one race; seconds are those of the whole job.

    ``seconds`` is None when the contestant did not take part.
    """

    section: str
    case: str
    items: int
    contestant: str
    threads: int
    seconds: float | None
    median: float | None
    rounds: int
    work: float
    scale: float
    note: str

    @property
    def spread(self) -> float:
        """(median - min) / min: how much slower a typical round was than the best one."""
        if self.seconds is None or self.median is None:
            return float("nan")
        return self.median / self.seconds - 1

    @property
    def rate(self) -> float:
        """Work per second."""
        return self.work / self.seconds if self.seconds else float("nan")


def race(
    section: str,
    case: str,
    items: int,
    contestants: Sequence[Contestant],
    budget: float,
    clock: str = "wall",
    rounds: int = MOST_ROUNDS,
    before: Callable[[], Any] | None = None,
) -> list[Timing]:
    """Time contestants in turns.

    Parameters
    ----------
    section, case, items
        Name of the race; `items` is the number of descriptors or queries.
    contestants : sequence
        In the order in which they take turns.
    budget : float
        Seconds for the race, shared equally. Each contestant has two untimed calls, the quicker of which tells how
        long one takes (the first may load modules), and at least two samples, however long they take, and then as
        many (up to `rounds`) as its share allows.
    clock : {"wall", "cpu"}
        Time that passes, or time that the process computes, for one thread on a busy machine.
    rounds : int
        Samples of a contestant, at most.
    before : callable, optional
        Called before every sample, which then is a single call: to begin with the same caches, whoever had the turn
        before.

    Returns
    -------
    list of Timing, one per contestant
    """
    pools = ThreadpoolController()
    running = [c for c in contestants if c.run is not None]
    share = budget / max(1, len(running))
    untimed = {id(c): min(_sample(c, 1, pools, CLOCKS[clock]) for _ in range(2)) for c in running}
    calls = {c: 1 if before else ceil(SHORTEST_SAMPLE / seconds) for c, seconds in untimed.items()}
    samples: dict[int, list[float]] = {id(c): [] for c in running}
    used = dict.fromkeys(samples, 0.0)
    for turn in range(rounds):
        entered = [c for c in running if turn < 2 or used[id(c)] < share]
        for contestant in entered:
            if before:
                before()
            warm = before is None and untimed[id(contestant)] < COLD
            seconds = _sample(contestant, calls[id(contestant)], pools, CLOCKS[clock], warm)
            samples[id(contestant)].append(seconds)
            used[id(contestant)] += seconds * calls[id(contestant)]
        if not entered:
            break
    return [_timing(section, case, items, c, samples.get(id(c), [])) for c in contestants]


def _sample(
    contestant: Contestant,
    calls: int,
    pools: ThreadpoolController,
    now: Callable[[], float],
    warm: bool = False,
) -> float:
    """Seconds per call; the libraries' thread pools are set outside of the timed part."""
    if contestant.run is None:
        raise ValueError(f"{contestant.name} does not take part: {contestant.note}")
    with pools.limit(limits=contestant.threads):
        if warm:
            contestant.run()
        start = now()
        for _ in range(calls):
            contestant.run()
        return max(now() - start, CLOCK_TICK) / calls


def _timing(section: str, case: str, items: int, c: Contestant, samples: list[float]) -> Timing:
    best = c.scale * min(samples) if samples else None
    middle = c.scale * median(samples) if samples else None
    return Timing(
        section, case, items, c.name, c.threads, best, middle, len(samples), c.work, c.scale, c.note
    )
