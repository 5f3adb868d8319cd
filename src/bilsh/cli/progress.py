"""How far a long command is: bars with rate and time left on a terminal, finished steps elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

from bilsh.cli import show


class Progress:
    """Takes counts (call it) and messages (:meth:`say`) of a long command, and shows them on stderr.

    Messages that end in "..." tell what is going on; they appear on terminals only, and pass.
    """

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty() and not show.switches.quiet
        self._bars: Any = None
        self._tasks: dict[str, tuple[Any, float, int]] = {}
        self._step: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show that `done` of `total` steps of something are done."""
        if not self._shown:
            return
        bars = self._started()
        now = time.perf_counter()
        if what not in self._tasks:
            self._tasks[what] = bars.add_task(show.clean(what), total=total, rate=""), now, done
        task, since, first = self._tasks[what]
        quick = now - since <= 0.1 or done <= first
        rate = "" if quick else f"{(done - first) / (now - since):,.0f}/s"
        bars.update(task, completed=done, total=total, rate=rate)

    def say(self, message: str) -> None:
        """Tell something in words."""
        if message.endswith("..."):
            if self._shown:
                bars = self._started()
                if self._step is not None:
                    bars.remove_task(self._step)
                self._step = bars.add_task(show.clean(message), total=None, rate="")
        elif self._bars is None:
            show.note(message)
        else:
            self._bars.console.print(show.clean(message), markup=False, highlight=False)

    def _started(self) -> Any:
        if self._bars is None:
            from rich import progress
            from rich.console import Console

            columns = (
                progress.TextColumn("{task.description}"),
                progress.BarColumn(bar_width=None),
                progress.MofNCompleteColumn(),
                progress.TextColumn("{task.fields[rate]}"),
                progress.TimeRemainingColumn(),
            )
            console = Console(stderr=True)
            self._bars = progress.Progress(*columns, console=console, transient=True, expand=True)
            self._bars.start()
        return self._bars
