"""A new store that appears when all is in it, and not at all when anything fails."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bilsh.errors import InvalidInputError
from bilsh.files import flush


@contextmanager
def building(path: Path, *, aside: Path | None = None) -> Iterator[Path]:
    """Give another place to build a store at; it moves to `path` when the block ends well, else it is removed.

    Parameters
    ----------
    path : path
        Where the store shall be: a place that does not exist yet, or is an empty directory.
    aside : path, optional
        Where to put the store that is there now; without it, it is in the way.
    """
    if aside is None and path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InvalidInputError(
            f"{path} exists and is no store. Choose another place with -o, or empty it first."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        yield temporary
        if aside is not None:
            path.rename(aside)
        temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        flush(directory)
    finally:
        os.close(directory)
