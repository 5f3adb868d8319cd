"""Looking after a store: checks, in one go or little by little, backups, earlier versions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from bilsh.store.files import Disk
from bilsh.store.snapshot import open_directory, versions_among
from bilsh.store.view import View

if TYPE_CHECKING:
    from threading import Event

    from bilsh.store.backup import Backup
    from bilsh.store.maintenance import Verification, Version


class Care(View):
    """What keeps a store healthy."""

    _disk: Disk

    def verify(self, deep: bool = False) -> Verification:
        """Check the newest version on disk; CorruptStoreError names every damaged file.

        Quick: sizes and headers of all files. Deep: every byte, and every cross-reference between sections.
        """
        from bilsh.store import maintenance

        return maintenance.verify(self._place, deep)

    def scrub(self, *, rate: float | None = None, stop: Event | None = None) -> Verification:
        """Check every byte of the version this object sees, again and as slowly as you like.

        A block is checked when it is first read. What is overwritten later, by a broken disk or another program,
        changes answers unnoticed: a process that reads for weeks lets this run beside it, in a thread of its own.
        CorruptStoreError names the file and the block.

        Parameters
        ----------
        rate : float or None
            Most bytes per second; None for no limit.
        stop : threading.Event or None
            Ends the check early when it is set.
        """
        from bilsh.store import maintenance

        return maintenance.scrub(self._place, self._now, rate, stop)

    def backup(self, path: str | os.PathLike[str], *, link: bool = False) -> Backup:
        """Copy the version this object sees into another directory, while writers go on.

        Durable, and every copied byte checked, when it returns. Into a directory that has an earlier backup of
        this store only what is new is copied; what was there is checked by size and header (see :meth:`verify`).

        Parameters
        ----------
        path : path
            New directory, or that of an earlier backup.
        link : bool
            Hard-link files instead of copying them where the file system allows it: quick and without space,
            but then damage of a file is damage of both.
        """
        from bilsh.store.backup import back_up

        return back_up(self._disk, self._place, self._now, Path(path), link)

    @staticmethod
    def exists(path: str | os.PathLike[str], *, _disk: Disk | None = None) -> bool:
        """Tell whether there is a store at `path`, be it readable or damaged."""
        try:
            return bool(versions_among((_disk or Disk()).directory(Path(path)).list()))
        except (FileNotFoundError, NotADirectoryError):
            return False

    @staticmethod
    def versions(path: str | os.PathLike[str], *, _disk: Disk | None = None) -> list[Version]:
        """Versions a store can be read at or repaired to, oldest first; works on damaged stores.

        One for each manifest: the last that its log leads to. Those in between can be read and repaired to as well.
        """
        from bilsh.store import maintenance

        return maintenance.versions(open_directory(_disk or Disk(), Path(path)))

    @staticmethod
    def repair(path: str | os.PathLike[str], to_version: int, *, _disk: Disk | None = None) -> int:
        """Go back to an earlier version of a damaged store, after checking every byte of it.

        It becomes a new newest version, whose number is returned; nothing is removed before the next change.
        """
        from bilsh.store import maintenance

        return maintenance.repair(open_directory(_disk or Disk(), Path(path)), to_version)
