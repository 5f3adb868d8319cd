"""The only module of the store that touches the disk.

Everything the store asks of a file system is one method of :class:`Disk`. The tests put other disks in its
place: one that fails at the n-th operation, and one that loses power and keeps any subset of what was not
synced.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from types import TracebackType
from typing import TYPE_CHECKING, Self

from bilsh.errors import StoreBusyError

if TYPE_CHECKING:
    from pathlib import Path

Bytes = bytes | bytearray | memoryview


class SyncFailed(OSError):
    """What is on the medium is unknown: a sync, or the link that makes a commit, failed."""


def _flush(fd: int) -> None:
    """Fsync, and on macOS, where that stops at the drive's cache, the call that goes through."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is None:
        os.fsync(fd)
    else:
        fcntl.fcntl(fd, full)


class NewFile:
    """A file being written: bytes are appended, the header is put in last, then all is synced."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self.path = path

    def write(self, data: Bytes) -> None:
        """Append all of `data`."""
        left = memoryview(data).cast("B")
        while len(left):
            left = left[os.write(self._fd, left) :]

    def write_at(self, offset: int, data: bytes) -> None:
        """Overwrite bytes that were written before."""
        if os.pwrite(self._fd, data, offset) != len(data):
            raise OSError(errno.EIO, "short write", str(self.path))

    def sync(self) -> None:
        """Return when the bytes (not yet the name) are on the medium."""
        _flush(self._fd)

    def close(self) -> None:
        """Give the descriptor back; safe to call twice."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def sync(file: NewFile) -> None:
    """Sync a file; SyncFailed where that fails, whatever the disk underneath."""
    try:
        file.sync()
    except OSError as error:
        raise SyncFailed(error.errno, error.strerror, str(file.path)) from error


class OpenFile:
    """A finished file, open for reading; stays readable after its name is gone."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self.path = path
        self.size = os.fstat(fd).st_size

    def read_at(self, offset: int, length: int) -> bytes:
        """Read `length` bytes, or fewer where the file ends sooner."""
        parts = []
        while length > 0:
            part = os.pread(self._fd, min(length, 1 << 30), offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def map(self, offset: int, length: int) -> memoryview:
        """Map a part of the file into memory, read-only."""
        spare = offset % mmap.ALLOCATIONGRANULARITY
        whole = mmap.mmap(self._fd, length + spare, access=mmap.ACCESS_READ, offset=offset - spare)
        return memoryview(whole)[spare:]

    def close(self) -> None:
        """Give the descriptor back; maps stay valid."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class Lock:
    """The writer's lock. Its file also carries a hint of the newest version, see :meth:`note`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def note(self, data: bytes) -> None:
        """Overwrite the hint. It is not synced: it may lag behind the truth, never run ahead of it."""
        os.pwrite(self._fd, data, 0)

    def release(self) -> None:
        """Let another writer in; safe to call twice."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def __del__(self) -> None:
        self.release()


class Disk:
    """A directory tree on a POSIX file system."""

    def make_directory(self, path: Path) -> None:
        """Make one directory; it may exist already."""
        path.mkdir(exist_ok=True)

    def list(self, directory: Path) -> list[str]:
        """Names in `directory`."""
        return os.listdir(directory)

    def create(self, path: Path) -> NewFile:
        """Open a new file for writing; FileExistsError when the name is taken."""
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        return NewFile(os.open(path, flags, 0o666), path)

    def open(self, path: Path) -> OpenFile:
        """Open a file for reading."""
        return OpenFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC), path)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name, in one step; FileExistsError when that name is taken."""
        os.link(source, target)

    def unlink(self, path: Path) -> None:
        """Remove a name."""
        os.unlink(path)

    def sync_directory(self, directory: Path) -> None:
        """Return when the names in `directory` are on the medium."""
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _flush(fd)
        finally:
            os.close(fd)

    def lock(self, path: Path) -> Lock:
        """Take the writer's lock, or raise StoreBusyError at once."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise StoreBusyError(
                f"another writer has {path.parent} open. Close it there first, "
                "or open the store with mode='r' to read beside it."
            ) from None
        return Lock(fd)
