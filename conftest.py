"""README and docs are tests: their Python and their commands run, and what they print is compared.

A page is one story: its blocks run in order, in one folder of its own. A ``python`` block runs; a ``text`` block right
after it is what it prints. A ``console`` block holds commands (``$ bilsh ...``) and what they print. ``...`` stands for
anything, and numbers may differ by .01 or two of their last decimals: a better
calibration moves an estimate a little. A block after ``<!-- not run: reason -->`` is left alone.
"""

import doctest
import io
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from sybil import Document, Example, Region, Sybil

BLOCK = re.compile(
    r"(?P<note><!-- not run: [^>]+ -->\n+)?^```(?P<kind>python|console)\n(?P<body>.*?)^```\n"
    r"(?:\s*^```text\n(?P<printed>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
DECIMAL = re.compile(r"\d+\.\d+")
LENIENT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(document: Document) -> Iterator[Region]:
    """Find what a page runs."""
    for found in BLOCK.finditer(document.text):
        if found["note"] is None:
            run = run_python if found["kind"] == "python" else run_commands
            yield Region(found.start(), found.end(), (found["body"], found["printed"]), run)


def run_python(example: Example) -> str | None:
    """Run a block in the names of its page."""
    body, printed = example.parsed
    code = compile("\n" * example.line + body, example.path, "exec")
    with redirect_stdout(io.StringIO()) as out:
        exec(code, example.namespace)
    return None if printed is None else difference(printed, out.getvalue())


def run_commands(example: Example) -> str | None:
    """Run each command of a block."""
    for step in re.split(r"^\$ ", example.parsed[0], flags=re.MULTILINE)[1:]:
        command, _, printed = step.partition("\n")
        program, *arguments = shlex.split(command, comments=True)
        if program != "bilsh":
            return f"only bilsh is run here, not {program}: use a block of kind sh"
        done = subprocess.run(
            [sys.executable, "-m", "bilsh.cli", *arguments], capture_output=True, text=True, check=False
        )
        if done.returncode:
            return f"$ {command}\n{done.stdout}{done.stderr}"
        told = difference(printed, done.stdout)
        if told:
            return f"$ {command}\n{told}"
    return None


def difference(expected: str, got: str) -> str | None:
    """Say how two texts differ, if they do by more than a rounding."""
    checker, text = doctest.OutputChecker(), expected.strip("\n") + "\n"
    told = close_numbers(text, got.strip("\n") + "\n")
    if checker.check_output(text, told, LENIENT):
        return None
    return checker.output_difference(doctest.Example("", text), got, LENIENT | doctest.REPORT_NDIFF)


def close_numbers(expected: str, got: str) -> str:
    """Write the numbers of `got` as `expected` has them where they are close."""
    wanted = DECIMAL.findall(expected)
    if len(wanted) != len(DECIMAL.findall(got)):
        return got
    numbers = iter(wanted)

    def settled(found: re.Match[str]) -> str:
        want = next(numbers)
        error = max(0.01, 2.5 * 10.0 ** -len(want.partition(".")[2]))
        return want if abs(float(want) - float(found[0])) < error else found[0]

    return DECIMAL.sub(settled, got)


def enter(namespace: dict[str, Any]) -> None:
    """Give a page a folder and a cache of its own."""
    folder = tempfile.TemporaryDirectory()
    patch = pytest.MonkeyPatch()
    patch.setenv("BILSH_CACHE", str(Path(folder.name) / "cache"))
    patch.setenv("NO_COLOR", "1")
    work = Path(folder.name) / "work"
    work.mkdir()
    patch.chdir(work)
    namespace["__page__"] = folder, patch


def leave(namespace: dict[str, Any]) -> None:
    """Go back."""
    folder, patch = namespace["__page__"]
    patch.undo()
    folder.cleanup()


pytest_collect_file = Sybil(
    parsers=[blocks], patterns=["README.md", "docs/**/*.md", "docs/*.md"], setup=enter, teardown=leave
).pytest()
