"""Runs the real program in a process of its own."""

import json
import os
import subprocess
import sys

from bilsh.cli import schema

COMMAND = [sys.executable, "-m", "bilsh.cli"]


def bilsh(*arguments, cwd=None, code=0, **more):
    """Run it to the end, check the exit code, and that neither stream holds a traceback or control characters."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env=plain(),
        **more,
    )
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    for text in (done.stdout, done.stderr):
        assert "Traceback" not in text
        assert "\x1b" not in text
    return done


def answer(*arguments, **more):
    """Run it with --json and parse its answer, whose keys must be those of the schema."""
    return checked(bilsh(*arguments, "--json", **more).stdout)


def checked(text):
    """Parse an answer and hold it against the schema."""
    found = json.loads(text)
    assert found.pop("schema") == 1
    command = found.pop("command")
    if command in schema.ANSWERS:
        assert list(found) == list(schema.ANSWERS[command])
    for result in found.get("results", ()):
        for neighbor in result["neighbors"]:
            assert list(neighbor) == list(schema.NEIGHBOR)
    return found


def complaint(*arguments, code=1, **more):
    """Run it where it must fail; return its one sentence."""
    done = bilsh(*arguments, code=code, **more)
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def plain(**changes):
    """Return an environment without anything that asks for colours."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("FORCE_COLOR", "NO_COLOR", "COLUMNS")
    }
    return kept | changes
