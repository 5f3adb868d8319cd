"""The one writer of a store: its lock, its commit, and its tidying up.

A commit is: files written and synced; directory synced; manifest written under a temporary name and synced;
`link` to its version's name, which fails if another writer was first; directory synced. At each moment the
newest manifest is whole and all it names is on the medium, so a crash at any point leaves the version
before or the version after.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

from bilsh.errors import BilshError, CorruptStoreError, StoreBusyError
from bilsh.store.files import Disk, SyncFailed, sync
from bilsh.store.manifest import Manifest, encode_manifest, is_own_file, manifest_name
from bilsh.store.snapshot import LOCK_NAME, hint, list_versions, read_manifest

if TYPE_CHECKING:
    from pathlib import Path


class Writer:
    """Holds the lock from construction to :meth:`close`."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self.disk, self.path = disk, path
        self._owner = os.getpid()
        self._failed: str | None = None
        self._made: list[Path] = []
        self._lock = disk.lock(path / LOCK_NAME)

    def close(self) -> None:
        """Let another writer in."""
        self._lock.release()

    def new_path(self, prefix: str, suffix: str) -> Path:
        """Return a fresh random name for a file of the running change."""
        path = self.path / f"{prefix}-{secrets.token_hex(8)}.{suffix}"
        self._made.append(path)
        return path

    def named(self) -> int:
        """Return how many files the running change has named."""
        return len(self._made)

    def drop_after(self, count: int) -> None:
        """Remove the files named after the first `count`."""
        self.discard(self._made[count:])
        del self._made[count:]

    @contextlib.contextmanager
    def change(self) -> Iterator[None]:
        """Everything between the first file written and the commit; an error leaves no trace of it.

        After a failed sync nobody knows what is on the medium, so the writer then refuses all further work.
        """
        if self._failed:
            raise OSError(
                errno.EIO,
                f"an earlier change failed ({self._failed}); close and reopen the store",
                str(self.path),
            )
        if os.getpid() != self._owner:
            raise StoreBusyError(
                "this store was opened for writing by the parent process. Open it again in this process."
            )
        self._made = []
        try:
            yield
        except BaseException as error:
            if isinstance(error, SyncFailed):
                self._failed = str(error)
            if not self._failed:
                self.discard(self._made)
            if isinstance(error, OSError) and not isinstance(error, BilshError):
                error.add_note(
                    "Whether this change is stored shows when the store is reopened; all earlier ones are."
                    if self._failed
                    else "Nothing of this change was stored; everything stored before is untouched."
                )
            raise

    def commit(self, manifest: Manifest) -> None:
        """Make `manifest` the newest version; when this returns, it survives power loss."""
        self._sync_directory()
        temporary = self.new_path("t", "tmp")
        with self.disk.create(temporary) as file:
            file.write(encode_manifest(manifest))
            sync(file)
        # Until the directory is synced the version may or may not exist, also when a signal interrupts here.
        self._failed = "interrupted while committing"
        try:
            self.disk.link(temporary, self.path / manifest_name(manifest.version))
        except FileExistsError:
            self._failed = None
            raise StoreBusyError(
                f"another writer made {manifest_name(manifest.version)} first. Reopen the store."
            ) from None
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror, error.filename) from error
        self._sync_directory()
        self._made, self._failed = [], None
        # From here on the version stands; the note and the tidying may fail without harm.
        with contextlib.suppress(OSError):
            self._lock.note(hint(manifest.version))
        self.discard([temporary])
        self.tidy(manifest)

    def tidy(self, newest: Manifest) -> None:
        """Remove what neither the newest version nor the one before it needs, leftovers of crashes too."""
        with contextlib.suppress(OSError):
            versions = [v for v in list_versions(self.disk, self.path) if v < newest.version]
            keep = newest.files()
            if versions:
                try:
                    keep |= read_manifest(self.disk, self.path, versions[-1]).files()
                except CorruptStoreError:
                    # Not knowing what it needs, keep everything until it is no longer one of the last two.
                    return
            self.discard([self.path / manifest_name(v) for v in versions[:-1]])
            names = self.disk.list(self.path)
            self.discard([self.path / name for name in names if is_own_file(name) and name not in keep])

    def discard(self, paths: list[Path]) -> None:
        """Remove files as far as that works; what stays is tidied later."""
        for path in paths:
            with contextlib.suppress(OSError):
                self.disk.unlink(path)

    def _sync_directory(self) -> None:
        try:
            self.disk.sync_directory(self.path)
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror, error.filename) from error
