"""How much of the processors others had while something was measured: times are worth what the machine was quiet."""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter

TOO_MUCH = 0.1
"""Share of the processors' time from which a measurement is called disturbed."""

STAT = Path("/proc/stat")


class Watch:
    """Counts the time of processors from its making on."""

    def __init__(self) -> None:
        self._start, self._busy, self._own = perf_counter(), _busy(), _own()

    def others(self) -> float | None:
        """Share of all processors' time that was neither idle nor ours; None where none can tell.

        Ours is that of this process and of its children that have ended.
        """
        busy = _busy()
        if busy is None or self._busy is None:
            return None
        all_of_it = (perf_counter() - self._start) * (os.cpu_count() or 1)
        return max(0.0, busy - self._busy - (_own() - self._own)) / all_of_it


def _busy() -> float | None:
    """Seconds that processors were not idle; what a virtual machine was not given counts as taken by others."""
    try:
        words = STAT.read_text().split("\n", 1)[0].split()
    except OSError:
        return None
    user, nice, system, _, _, irq, softirq, steal = map(int, words[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own() -> float:
    return sum(os.times()[:4])
