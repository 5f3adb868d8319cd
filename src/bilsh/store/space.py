"""A full disk: deleting and compacting must still work, for they are what makes room.

Where a deletion finds no room, the reserve and what only the version before needs are given up, and it is tried
again. Where there is no room for all segments
as one, they are compacted one by one, those with the fewest living rows first.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from traceback import clear_frames
from typing import TypeVar

from bilsh.errors import BilshError
from bilsh.store.change import Change
from bilsh.store.files import SyncFailed, no_room
from bilsh.store.writer import Writer

_Answer = TypeVar("_Answer")
Begin = Callable[[], AbstractContextManager[Change]]


def is_full(error: BaseException) -> bool:
    """Whether an error says that there is no room, and nothing else is wrong."""
    return isinstance(error, OSError) and no_room(error) and not isinstance(error, SyncFailed | BilshError)


def let_go(change: Change, error: BaseException) -> None:
    """Where a change finds no room, keep nothing of it, lest the error that tells of it holds its files open."""
    if is_full(error):
        change.let_go()
        clear_frames(error.__traceback__)


def with_reserve(writer: Writer, attempt: Callable[[], _Answer]) -> _Answer:
    """Do something; where the disk is full, make room and try it once more."""
    try:
        return attempt()
    except OSError as error:
        if not is_full(error):
            raise
    writer.make_room()
    return attempt()


def compact(writer: Writer, begin: Begin) -> None:
    """Rewrite all segments as one, or where there is no room for that, one after the other."""

    def at_once() -> None:
        with begin() as change:
            change.merge_all()

    try:
        with_reserve(writer, at_once)
    except OSError as error:
        if not is_full(error) or not _one_by_one(writer, begin):
            raise


def _one_by_one(writer: Writer, begin: Begin) -> bool:
    """Rewrite segments that have dead rows, as far as there is room; whether any was."""
    done = False
    try:
        while True:
            with begin() as change:
                if not change.merge_smallest():
                    return done
            done = True
            writer.make_room()
    except OSError as error:
        if not is_full(error):
            raise
        return done
