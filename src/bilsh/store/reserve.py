"""Room held back for deletions on a full disk: a file that is given up when one finds none.

Rows are added only while the reserve can be kept beside them, so that what they fill up can be emptied again. Its
bytes are random, lest a file system that packs zeros holds nothing back.
"""

from __future__ import annotations

import contextlib
import os

from bilsh.errors import BilshError
from bilsh.store.files import Directory, no_room
from bilsh.store.log import CAPACITY
from bilsh.store.snapshot import RESERVE_NAME

BYTES = 2 * CAPACITY
"""Bytes of the reserve of a small store: the log's rows as a segment, a manifest, headers."""
SPARE = 32 << 10
"""Bytes by which it is too large at least, lest a small store makes it anew whenever it has doubled."""
PIECE = 1 << 20


class Reserve:
    """The reserve of a writer's store."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._size: int | None = None  # not looked at yet

    def keep(self, rows: int) -> None:
        """Hold back what a deletion among so many rows writes: a bit of each besides; OSError without room for it."""
        if self._size is None:
            self._size = self._found()
        had = self._size
        if had >= BYTES + rows // 8:
            return
        full = BYTES + max(SPARE, rows // 4)
        try:
            self._fill(full)
        except OSError as error:
            if not no_room(error):
                self._size = full  # not for want of room: go without
                return
            for size in sorted((had, full // 2, full // 4), reverse=True):
                with contextlib.suppress(OSError):
                    self._fill(size)
                    break
            text = f"{error.strerror}: what is left is held back for deletions; delete items, or make room"
            raise OSError(error.errno, text, str(self._directory.path)) from error

    @property
    def given_up(self) -> bool:
        """Whether the room is in use: nothing is to be written now that can wait."""
        return self._size == 0

    def give_up(self) -> None:
        """Free the room."""
        self._size = 0
        with contextlib.suppress(OSError):
            self._directory.unlink(RESERVE_NAME)

    def _found(self) -> int:
        with contextlib.suppress(OSError, BilshError):
            file = self._directory.open(RESERVE_NAME)
            file.close()
            return file.size
        return 0

    def _fill(self, size: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._directory.unlink(RESERVE_NAME)
        self._size = 0
        if size:
            with self._directory.create(RESERVE_NAME) as file:
                for start in range(0, size, PIECE):
                    file.write(os.urandom(min(PIECE, size - start)))
        self._size = size
