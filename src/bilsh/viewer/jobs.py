"""Work that takes longer than a request: one thread each, its progress, and its answer when it is there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Any

from bilsh.types import Progress

KEPT = 16
PATIENCE = 5.0
"""Seconds that work gets to end when the server does."""


class Ended(Exception):
    """The server ends, and so does the work."""


@dataclass(slots=True)
class Job:
    """One piece of work."""

    what: str = "starting"
    done: int = 0
    total: int = 0
    answer: dict[str, Any] | None = None
    error: BaseException | None = None
    thread: Thread | None = field(default=None, repr=False)
    ended: bool = False

    def say(self, what: str, done: int, total: int) -> None:
        """Note how far it is."""
        if self.ended:
            raise Ended
        self.what, self.done, self.total = what, done, total


class Jobs:
    """Work by key: begun when first asked for, done one after the other, the last answers kept."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[Hashable, Job] = OrderedDict()
        self._lock, self._turn = Lock(), Lock()

    def ask(
        self, key: Hashable, work: Callable[[Progress], dict[str, Any]], patience: float = 0.2
    ) -> dict[str, Any] | Job:
        """Return the answer, or the job while it is at work; an error is raised once, and the next call tries again."""
        with self._lock:
            job = self._jobs.get(key)
            if job is None:
                job = Job()
                job.thread = Thread(target=self._run, args=(job, work), daemon=True)
                self._jobs[key] = job
                while len(self._jobs) > KEPT:
                    self._jobs.popitem(last=False)
                job.thread.start()
        if job.thread is not None and job.answer is None and job.error is None:
            job.thread.join(patience)
        if job.error is not None:
            with self._lock:
                self._jobs.pop(key, None)
            raise job.error
        return job if job.answer is None else job.answer

    def _run(self, job: Job, work: Callable[[Progress], dict[str, Any]]) -> None:
        with self._turn:
            try:
                job.answer = work(job.say)
            except BaseException as error:  # the thread must not die without a word
                job.error = error

    def close(self) -> None:
        """Let all work end at its next step."""
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            job.ended = True
        for job in jobs:
            if job.thread is not None:
                job.thread.join(PATIENCE)
