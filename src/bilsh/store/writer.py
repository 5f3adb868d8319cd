"""The one writer of a store: its lock, its commit, and its tidying up.

A commit is: files written and synced; directory synced; manifest written under a temporary name and synced;
`link` to its version's name, which fails if another writer was first; directory synced. At each moment the
newest manifest is whole and all it names is on the medium, so a crash at any point leaves the version
before or the version after.

The lock keeps other writers out, but nothing rests on it alone: locks can be removed, and some file systems do
not share them. A commit goes ahead only if the newest version in the directory is the one it is based on and the
lock is still claimed by this writer; both are looked at again before it is acknowledged. Tidying lists the
directory first and looks at the claim then, so that it removes no file of a writer who came later.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Collection, Iterator

from bilsh.errors import BilshError, CorruptStoreError, InvalidInputError, StoreBusyError
from bilsh.store.files import Directory, SyncFailed, sync
from bilsh.store.log import LogWriter
from bilsh.store.manifest import (
    MAX_VERSION,
    Manifest,
    decode_manifest,
    encode_manifest,
    is_own_file,
    manifest_name,
)
from bilsh.store.records import Record
from bilsh.store.reserve import Reserve
from bilsh.store.rows import Layout
from bilsh.store.sections import FileRef, SectionFile
from bilsh.store.snapshot import LOCK_NAME, hint, open_file, read_manifest, versions_among
from bilsh.store.tail import Tail, TailIndex


def vanished(name: str) -> StoreBusyError:
    """Make the error of a change whose own files are gone."""
    return StoreBusyError(
        f"{name} was removed while this change was made; another writer seems to be there. Reopen the store."
    )


class Writer:
    """Holds the lock from construction to :meth:`close`."""

    def __init__(self, directory: Directory, *, use_log: bool = True) -> None:
        self.directory, self._may_log = directory, use_log
        self.reserve = Reserve(directory)
        self._owner = os.getpid()
        self._failed: str | None = None
        self._made: list[str] = []
        self._log: LogWriter | None = None
        self._index = TailIndex()
        self._small = 0
        self._newest: Manifest | None = None
        self._lock = directory.lock(LOCK_NAME)

    def close(self) -> None:
        """Let another writer in."""
        self.use_log(None)
        self._lock.release()

    def refuse_children(self) -> None:
        """Refuse to write in a forked child: the lock is its parent's."""
        if os.getpid() != self._owner:
            raise StoreBusyError(
                "this store was opened for writing by the parent process. Open it again in this process."
            )

    def new_name(self, prefix: str, suffix: str) -> str:
        """Return a fresh random name for a file of the running change."""
        name = f"{prefix}-{secrets.token_hex(8)}.{suffix}"
        self._made.append(name)
        return name

    def take(self, source: Directory, name: str) -> None:
        """Give a finished file of another directory its name here, as a file of the running change."""
        if not self.directory.adopt(source, name):
            raise OSError(
                errno.EXDEV, "cannot be linked into the store (staging must be on its file system)", name
            )
        self._made.append(name)

    def named(self) -> int:
        """Return how many files the running change has named."""
        return len(self._made)

    def open_made(self, ref: FileRef, kind: bytes, fingerprint: str, use_map: bool) -> SectionFile:
        """Open a file that the running change has made."""
        try:
            return open_file(self.directory, ref, kind, fingerprint, use_map)
        except FileNotFoundError:
            raise vanished(ref.file) from None

    def forget(self, name: str) -> None:
        """Take a name off the list of files to remove or to find again: it has served."""
        self._made.remove(name)

    def drop_after(self, count: int) -> None:
        """Remove the files named after the first `count`."""
        self.discard(self._made[count:])
        del self._made[count:]

    @contextlib.contextmanager
    def change(self) -> Iterator[None]:
        """Everything between the first file written and the commit; an error leaves no trace of it."""
        self.begin()
        try:
            yield
        except BaseException as error:
            self.abandon(error)
            raise

    def begin(self) -> None:
        """Begin a change, which ends with :meth:`append`, :meth:`commit` or :meth:`abandon`.

        After a failed sync nobody knows what is on the medium, so the writer then refuses all further work.
        """
        if self._failed:
            raise OSError(
                errno.EIO,
                f"an earlier change failed ({self._failed}); close and reopen the store",
                str(self.directory.path),
            )
        self.refuse_children()
        self._made = []

    def abandon(self, error: BaseException) -> None:
        """Leave no trace of a change that an error has ended; tell with the error what is stored."""
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

    def follows(self, *, small: bool) -> bool:
        """Count small changes one after the other; whether this is at least the second, so that a log pays."""
        self._small = self._small + 1 if small else 0
        return self._small > 1 and self._may_log

    def new_log(self, layout: Layout, base: int) -> LogWriter:
        """Make a log for a manifest to name."""
        return LogWriter(self.directory, self.new_name("l", "log"), layout, base)

    def use_log(self, log: LogWriter | None) -> None:
        """Append to this log from now on; a manifest names it."""
        if self._log is not None and self._log is not log:
            self._log.close()
        self._log, self._index = log, TailIndex()

    def _owns(self, tail: Tail | None) -> bool:
        """Whether this is the log that this writer made, and all of it."""
        mine = self._log
        return mine is not None and tail is not None and (mine.ref, mine.end) == (tail.ref, tail.end)

    def takes(self, record: Record, tail: Tail | None) -> bool:
        """Whether a change of the version that `tail` ends can be a record of this writer's log."""
        return self._log is not None and self._owns(tail) and self._log.has_room(record)

    def index_of(self, tail: Tail | None) -> TailIndex:
        """Which ids live in the log of a version."""
        if self._owns(tail):
            return self._index
        index = TailIndex()
        if tail is not None and tail.rows is not None:
            index.put(tail.rows)
        return index

    def tail(self, layout: Layout) -> Tail:
        """All of this writer's log."""
        mine = self._log
        if mine is None:
            raise RuntimeError("this writer has no log")
        return Tail(mine.ref, layout, mine.base, mine.count, mine.end, mine.pile)

    def append(self, record: Record, base: int) -> None:
        """Make a record of the log the newest version, after manifest `base`; durable when this returns."""
        if self._log is None:
            raise RuntimeError("this writer has no log")
        if record.version > MAX_VERSION:
            raise InvalidInputError(
                f"this change could not be read back: there is no version {record.version}."
            )
        self._check_lock()
        self._failed = "interrupted while committing"
        try:
            self._log.append(record)
        except OSError as error:
            raise SyncFailed(
                error.errno, error.strerror, str(self.directory.path / self._log.ref.file)
            ) from error
        self._confirm(base)
        self._index.apply(record)
        self._failed = None
        self._note(record.version, base)

    def commit(self, manifest: Manifest, *, base: int) -> None:
        """Make `manifest` the newest version; when this returns, it survives power loss.

        Parameters
        ----------
        manifest : Manifest
        base : int
            Version of the manifest that must still be the newest.
        """
        name, data = manifest_name(manifest.version), encode_manifest(manifest)
        try:
            readable = decode_manifest(data, name) == manifest
        except CorruptStoreError as error:
            raise InvalidInputError(f"this change could not be read back: {error}") from None
        if not readable:
            raise InvalidInputError(f"this change could not be read back: {name} would say something else.")
        self._sync_directory()
        temporary = self.new_name("t", "tmp")
        with self.directory.create(temporary) as file:
            file.write(data)
            sync(file)
        self._check_base(base, self._made)
        # Until the directory is synced the version may or may not exist, also when a signal interrupts here.
        self._failed = "interrupted while committing"
        try:
            self.directory.link(temporary, name)
        except FileExistsError:
            self._failed = None
            raise StoreBusyError(f"another writer made {name} first. Reopen the store.") from None
        except FileNotFoundError:
            self._failed = None
            raise vanished(temporary) from None
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror, error.filename) from error
        self._sync_directory()
        self._confirm(manifest.version, manifest.files())
        self._made, self._failed = [], None
        # From here on the version stands; the note and the tidying may fail without harm.
        self._note(manifest.version, manifest.version)
        self.discard([temporary])
        self.tidy(manifest)

    def _note(self, version: int, manifest: int) -> None:
        try:
            self._lock.note(hint(version, manifest, self.directory.identity()))
        except OSError:
            return

    def _confirm(self, newest: int, files: Collection[str] = ()) -> None:
        """Look again before a change is acknowledged: a writer that came in between may not have seen it."""
        try:
            self._check_base(newest, files)
        except StoreBusyError as error:
            if files:
                self.discard([manifest_name(newest)])  # who came may take what it names for leftovers
            raise StoreBusyError(f"{error} Whether this change is stored shows then.") from None
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror, error.filename) from error

    def _check_lock(self) -> None:
        """Refuse to go on where another writer has come."""
        if not self._lock.is_held():
            raise StoreBusyError(
                f"the lock file of {self.directory.path} was removed, replaced or claimed by another writer. "
                "Reopen the store."
            )

    def _check_base(self, base: int, needed: Collection[str] = ()) -> None:
        """Refuse to commit where another writer has been, or where files are gone that are needed."""
        self._check_lock()
        names = self.directory.list() if needed else []
        newest = max(versions_among(names), default=0) if needed else self.directory.newest()
        if newest != base:
            raise StoreBusyError(
                f"another writer was first: {self.directory.path} is at version {newest}, this change is based on "
                f"version {base}. Reopen the store and repeat it."
            )
        gone = set(needed).difference(names)
        if gone:
            raise vanished(min(gone))

    def tidy(self, newest: Manifest) -> None:
        """Remove what neither the newest version nor the one before it needs, leftovers of crashes too."""
        before, self._newest = self._newest, newest
        with contextlib.suppress(OSError):
            names = self.directory.list()
            versions = versions_among(names)
            if not versions or versions[-1] != newest.version:
                return  # what a version that is not known here needs is not known either
            keep = newest.files()
            if len(versions) > 1:
                if before is None or before.version != versions[-2]:
                    # A damaged one raises: not knowing what it needs, keep all while it is one of the last two.
                    before = read_manifest(self.directory, versions[-2])
                keep |= before.files()
            if not self._discard_listed(names, versions[:-2], keep):
                return
            self.reserve.keep(sum(segment.rows for segment in newest.segments))

    def make_room(self) -> None:
        """Give up the reserve, and what only versions before the newest need."""
        self.reserve.give_up()
        with contextlib.suppress(OSError):
            names = self.directory.list()
            versions = versions_among(names)
            if versions:
                keep = read_manifest(self.directory, versions[-1]).files()
                self._discard_listed(names, versions[:-1], keep)

    def _discard_listed(self, names: list[str], versions: list[int], keep: set[str]) -> bool:
        """Remove these versions, and of these files those not to keep; not at all where another writer has come.

        The claim is looked at after the files were listed: who comes later made none of them.
        """
        if not self._lock.is_held():
            return False
        self.discard([manifest_name(v) for v in versions])
        self.discard([name for name in names if is_own_file(name) and name not in keep])
        return True

    def discard(self, names: list[str]) -> None:
        """Remove files as far as that works; what stays is tidied later."""
        for name in names:
            with contextlib.suppress(OSError):
                self.directory.unlink(name)

    def _sync_directory(self) -> None:
        try:
            self.directory.sync()
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror, error.filename) from error
