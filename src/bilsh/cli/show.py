"""What the command line prints: results on stdout, everything else on stderr, nothing fancy in files."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TextIO


@dataclass(slots=True)
class Switches:
    """Which command runs, and the switches that every command has; see :mod:`bilsh.cli.options`."""

    command: str = ""
    json: bool = False
    quiet: bool = False
    debug: bool = False


switches = Switches()


SCHEMA = 1
"""Version of the JSON answers, see :mod:`bilsh.cli.schema`."""


def result(data: dict[str, Any], lines: Sequence[str] = ()) -> None:
    """Print the answer of a command: JSON, or lines for people."""
    if switches.json:
        whole = {"schema": SCHEMA, "command": switches.command, **data}
        print(json.dumps(whole, ensure_ascii=True, allow_nan=False, default=str))
    elif not switches.quiet:
        for line in lines:
            print(line)


def line(text: str) -> None:
    """Print a line of a long answer as soon as it is known; beside JSON it belongs on stderr."""
    if not switches.quiet:
        print(text, file=sys.stderr if switches.json else sys.stdout, flush=True)


def note(text: str) -> None:
    """Tell something on stderr that is no result."""
    if not switches.quiet:
        print(clean(text), file=sys.stderr)


def complain(text: str) -> None:
    """Tell an error in one sentence on stderr."""
    print(f"{paint('error:', '31', sys.stderr)} {clean(text)}", file=sys.stderr)


def program() -> str:
    """Return how this program can be called again: by its name, or by the path it was called by."""
    called = sys.argv[0]
    found = shutil.which("bilsh")
    if os.path.basename(called) != "bilsh" or (found is not None and os.path.samefile(found, called)):
        return "bilsh"
    return shlex.quote(called)


def clean(text: object) -> str:
    """Return text without control characters: names of files may hold any."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))


def shell(path: object) -> str:
    """Return a path as one would type it in a shell.

    >>> shell("my photos/a.jpg")
    "'my photos/a.jpg'"
    """
    return shlex.quote(clean(path))


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


def seconds(value: float) -> str:
    """Tell a duration in a unit that suits it.

    >>> seconds(0.0042), seconds(75), seconds(8000), seconds(400000)
    ('4.2 ms', '75 s', '2.2 h', '4.6 days')
    """
    for unit, name in ((86_400, "days"), (3600, "h"), (1, "s"), (1e-3, "ms")):
        if value >= (2 if unit > 1 else 1) * unit:
            number = value / unit
            return f"{number:.0f} {name}" if number >= 10 else f"{number:.1f} {name}"
    return f"{1e6 * value:.0f} µs"
