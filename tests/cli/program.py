"""Runs the program: in this process, as most tests do, or in one of its own (`COMMAND`)."""

import contextlib
import json
import os
import sys

from typer.testing import CliRunner

from bilsh.cli import schema
from bilsh.cli.commands import app

COMMAND = [sys.executable, "-m", "bilsh.cli"]


def bilsh(*arguments, cwd=None, code=0):
    """Run a command in this process, check its exit code, and that neither stream holds what does not belong there."""
    with contextlib.chdir(cwd or "."):
        done = CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="bilsh")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, (arguments, done.exit_code, done.stdout, done.stderr)
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
