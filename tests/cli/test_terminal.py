"""Terminals, pipes and files: colours and bars only where they belong."""

import os
import pty
import subprocess

import pytest

from cli.program import COMMAND, plain


def on_a_terminal(arguments, cwd, columns=80, **environment):
    """Run the program on a pseudo-terminal; return exit code and all that appeared on it."""
    master, slave = pty.openpty()
    import fcntl
    import struct
    import termios

    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], cwd=cwd, stdin=slave, stdout=slave, stderr=slave,
        env=plain(TERM="xterm-256color", **environment),
    )  # fmt: skip
    os.close(slave)
    seen = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(master)
    return process.wait(), seen.decode()


def test_a_pipe_that_closes_early(place):
    process = subprocess.Popen(
        [*COMMAND, "search", "store", "--query", "x.npy", "-k", "50"],
        cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=plain(),
    )  # fmt: skip
    assert process.stdout.readline() == b"query 0\n"
    process.stdout.close()
    said = process.stderr.read().decode().splitlines()
    assert all(line.startswith("note: ") for line in said)  # nothing about the pipe
    process.stderr.close()
    assert process.wait() == 0


def test_no_stdin_and_a_dumb_terminal(place):
    done = subprocess.run(
        [*COMMAND, "info", "store"], cwd=place, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=True, env=plain(TERM="dumb"),
    )  # fmt: skip
    assert done.stdout.startswith("items")


@pytest.mark.parametrize("columns", [30, 100])
def test_tables_fit_the_terminal(place, columns):
    code, text = on_a_terminal(["search", "store", "--id", 1, "-k", 3], place, columns)
    assert code == 0
    table = [
        line for line in text.splitlines() if not line.startswith("note: ")
    ]  # the terminal wraps sentences
    assert max(map(len, table)) <= max(columns, 44)  # only the widest column is cut, numbers are not
    assert "Traceback" not in text


def test_no_color_is_heeded(place):
    assert "\x1b[31m" in on_a_terminal(["info", "nowhere"], place)[1]
    code, text = on_a_terminal(["info", "nowhere"], place, NO_COLOR="1")
    assert code == 1
    assert "\x1b" not in text


def test_progress_on_a_narrow_terminal(place):
    code, text = on_a_terminal(["encode", "x.npy", "-o", "bar", "--bits", 64, "--batch", 20], place, 30)
    assert code == 0
    assert "encoding" in text
    assert "300 items added" in text
    assert "Traceback" not in text
