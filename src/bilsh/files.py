"""Ordinary files, written whole or not at all: under another name, synced, then moved into place."""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_HAS_FDATASYNC = hasattr(os, "fdatasync") and not hasattr(fcntl, "F_FULLFSYNC")


LAST_SECOND = 253_402_300_799
"""The last of the year 9999; calendars end there."""


def seconds() -> int:
    """Time to write into a file; a clock before 1970 says 0, one after the year 9999 its last second."""
    return int(min(max(0.0, time.time()), LAST_SECOND))


def flush(fd: int) -> None:
    """Fsync, and on macOS, where that stops at the drive's cache, the call that goes through."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is None:
        os.fsync(fd)
    else:
        fcntl.fcntl(fd, full)


def flush_data(fd: int) -> None:
    """Flush a file whose length and place on the medium have not changed: its times may be lost, no byte of it."""
    if _HAS_FDATASYNC:
        os.fdatasync(fd)
    else:
        flush(fd)


@contextmanager
def replace_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Give a binary file to write; when the block ends well, it takes the place of `path`, durably.

    Its permissions are those of any new file, by the user's umask. An error leaves what was there before.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replace_file(f"{folder}/note") as file:
    ...         _ = file.write(b"whole")
    ...     Path(f"{folder}/note").read_bytes()
    b'whole'
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            flush(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    directory = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flush(directory)
    finally:
        os.close(directory)
