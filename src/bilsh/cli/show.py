"""What the command line prints: results on stdout, everything else on stderr, nothing fancy in files."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO


@dataclass(slots=True)
class Switches:
    """The switches that every command has."""

    json: bool = False
    quiet: bool = False
    debug: bool = False


switches = Switches()


def result(data: dict[str, Any], lines: Sequence[str] = ()) -> None:
    """Print the answer of a command: JSON, or lines for people."""
    if switches.json:
        print(json.dumps(data, ensure_ascii=True, default=str))
    elif not switches.quiet:
        for line in lines:
            print(line)


def note(text: str) -> None:
    """Tell something on stderr that is no result."""
    if not switches.quiet:
        print(clean(text), file=sys.stderr)


def complain(text: str) -> None:
    """Tell an error in one sentence on stderr."""
    print(f"{paint('error:', '31', sys.stderr)} {clean(text)}", file=sys.stderr)


def clean(text: object) -> str:
    """Return text without control characters: names of files may hold any."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))


def paint(text: str, code: str, stream: TextIO) -> str:
    """Colour text where the stream is a terminal that wants colours (https://no-color.org)."""
    wanted = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[{code}m{text}\x1b[0m" if wanted else text


def table(header: Sequence[str], rows: Sequence[Sequence[object]], left: Sequence[str] = ()) -> list[str]:
    """Lay out rows in columns, numbers to the right; on a narrow terminal the widest column is cut.

    >>> table(("rank", "id"), [(1, "a.jpg"), (2, "bb.jpg")], left=("id",))
    ['rank  id', '   1  a.jpg', '   2  bb.jpg']
    """
    cells = [[clean(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    if sys.stdout.isatty():
        room = max(os.get_terminal_size(sys.stdout.fileno()).columns, 20)
        spare = room - sum(widths) - 2 * (len(widths) - 1)
        if spare < 0:
            widest = max(range(len(widths)), key=widths.__getitem__)
            widths[widest] = max(4, widths[widest] + spare)
    lines = []
    for row in cells:
        parts = []
        for name, cell, width in zip(header, row, widths, strict=True):
            short = cell if len(cell) <= width else cell[: width - 1] + "~"
            parts.append(short.ljust(width) if name in left else short.rjust(width))
        lines.append("  ".join(parts).rstrip())
    return lines


def facts(pairs: Sequence[tuple[str, object]]) -> list[str]:
    """Lay out names and values, one pair per line.

    >>> facts([("items", 3), ("bits", 64)])
    ['items  3', 'bits   64']
    """
    width = max(len(name) for name, _ in pairs)
    return [f"{name:<{width}}  {clean(value)}" for name, value in pairs]


def items(count: int) -> str:
    """Return a number of items for people.

    >>> items(1), items(2000)
    ('1 item', '2,000 items')
    """
    return f"{count:,} item" + ("" if count == 1 else "s")


def size(count: float) -> str:
    """Return a number of bytes for people.

    >>> size(950), size(1_500_000)
    ('950 B', '1.5 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """Show progress with rate and time left on stderr, if that is a terminal; else stay silent."""
    if switches.quiet or not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, expand=True) as bar:
        tasks: dict[str, Any] = {}
        begun: dict[str, tuple[float, int]] = {}

        def update(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total, rate="")
                begun[what] = time.perf_counter(), done
            since, first = begun[what]
            seconds = time.perf_counter() - since
            rate = f"{(done - first) / seconds:,.0f}/s" if seconds > 0.1 and done > first else ""
            bar.update(tasks[what], completed=done, total=total, rate=rate)

        yield update
