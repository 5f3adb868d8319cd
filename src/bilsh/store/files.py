"""The only module of the store that touches the disk.

Everything the store asks of a file system is one method of :class:`Disk` or :class:`Directory`. The tests put
others in their place: a disk that fails at the n-th operation, and one that loses power and keeps any subset
of what was not synced.

A store is a directory, not a path: it is opened once, and every file in it by its name relative to that
descriptor, so a store that is moved or replaced while it is open cannot be mistaken for another.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from bilsh import _native
from bilsh.errors import CorruptStoreError, StoreBusyError
from bilsh.files import flush, flush_data

Bytes = bytes | bytearray | memoryview
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
CLAIM_AT = 64
"""Where a writer's claim lies in the lock file, behind the hint."""


class _Descriptor:
    """Calls that must work when the interpreter has begun to take its modules apart."""

    _close = staticmethod(os.close)
    _flock = staticmethod(fcntl.flock)
    _getpid = staticmethod(os.getpid)
    _fd = -1


class SyncFailed(OSError):
    """What is on the medium is unknown: a sync, or the link that makes a commit, failed."""


def no_room(error: OSError) -> bool:
    """Whether an error says that the disk, or the user's share of it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class NewFile(_Descriptor):
    """A file being written: bytes are appended, the header is put in last, then all is synced."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self.path = path
        self._grown = True

    def write(self, data: Bytes) -> None:
        """Append all of `data`."""
        self._grown = True
        left = memoryview(data).cast("B")
        while len(left):
            left = left[os.write(self._fd, left) :]

    def write_at(self, offset: int, data: bytes) -> None:
        """Overwrite bytes that were written before."""
        if os.pwrite(self._fd, data, offset) != len(data):
            raise OSError(errno.EIO, "short write", str(self.path))

    def sync(self) -> None:
        """Return when the bytes (not yet the name) are on the medium."""
        if self._grown:
            flush(self._fd)
            self._grown = False
        else:
            flush_data(self._fd)

    def close(self) -> None:
        """Give the descriptor back; safe to call twice."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def sync(file: NewFile) -> None:
    """Sync a file; SyncFailed where that fails, whatever the disk underneath."""
    try:
        file.sync()
    except OSError as error:
        raise SyncFailed(error.errno, error.strerror, str(file.path)) from error


class OpenFile(_Descriptor):
    """A finished file, open for reading; stays readable after its name is gone."""

    def __init__(self, fd: int, size: int) -> None:
        self._fd, self.size = fd, size

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
            self._close(fd)

    def __del__(self) -> None:
        self.close()


class Lock(_Descriptor):
    """The writer's lock. Its file carries a hint of the newest version, see :meth:`note`, and a claim behind it.

    The claim is a random number that every writer writes before it reads anything. Where locks are not shared, the
    last to come has the store: what others look at after they wrote tells them that they have lost it.
    """

    _UNLOCK = fcntl.LOCK_UN

    def __init__(self, fd: int, name: str, directory: Directory) -> None:
        self._fd, self._name, self._directory = fd, name, directory
        self._owner = os.getpid()
        self._is_ours = _is_ours(fd, os.fstat(fd))
        self._claim = b"bilsh writer %s\n" % secrets.token_hex(8).encode() if self._is_ours else b""
        try:
            os.pwrite(fd, self._claim, CLAIM_AT)
        except OSError:
            self._claim = b""  # a full disk: the lock alone must do

    def note(self, data: bytes) -> None:
        """Overwrite the hint. It is not synced: it may lag behind the truth, never run ahead of it."""
        if self._is_ours:
            os.pwrite(self._fd, data, 0)

    def is_held(self) -> bool:
        """Whether the locked file still has its name, and no other writer has claimed it since."""
        return self._directory.names(self._name, self._fd, self._claim, CLAIM_AT)

    def release(self) -> None:
        """Let another writer in, also while forked children still have the file open; safe to call twice."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            if self._getpid() == self._owner:
                self._flock(fd, self._UNLOCK)
            self._close(fd)

    def __del__(self) -> None:
        self.release()


def _is_ours(fd: int, found: os.stat_result) -> bool:
    """Whether a lock file may be written to: not where it is another name of a foreign file."""
    return found.st_nlink == 1 or os.pread(fd, 6, 0) in (b"", b"bilsh ")


class Directory(_Descriptor):
    """An open directory of files that are read and written by their names alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, _DIRECTORY)
        self._inode = os.fstat(self._fd).st_ino

    def identity(self) -> int:
        """Return a number that tells this directory from copies of it."""
        return self._inode

    def stat(self, name: str) -> os.stat_result | None:
        """What a name stands for, links not followed; None when it is free."""
        try:
            return os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def names(self, name: str, fd: int, mark: bytes, at: int) -> bool:
        """Whether a name stands for an open file, links not followed, and the file has these bytes at an offset."""
        return _native.is_named(self._fd, name, fd, mark, at)

    def list(self) -> list[str]:
        """Names in the directory."""
        # Opened anew: threads that list through one descriptor share its place in the listing, and miss names.
        fd = os.open(".", _DIRECTORY, dir_fd=self._fd)
        try:
            return os.listdir(fd)
        finally:
            os.close(fd)

    def newest(self) -> int:
        """The highest version whose manifest is here, 0 for none."""
        return _native.newest_version(self._fd)

    def create(self, name: str) -> NewFile:
        """Open a new file for writing; FileExistsError when the name is taken."""
        return NewFile(self._open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR)[0], self.path / name)

    def open(self, name: str) -> OpenFile:
        """Open a file for reading."""
        return OpenFile(*self._open(name, os.O_RDONLY))

    def link(self, source: str, target: str) -> None:
        """Give a file a second name, in one step; FileExistsError when that name is taken."""
        os.link(source, target, src_dir_fd=self._fd, dst_dir_fd=self._fd, follow_symlinks=False)

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, in one step and in place of what had it."""
        os.rename(source, target, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def adopt(self, source: Directory, name: str) -> bool:
        """Give a file of another directory the same name here too; False where that is not possible."""
        try:
            os.link(name, name, src_dir_fd=source._fd, dst_dir_fd=self._fd, follow_symlinks=False)
        except OSError:
            return False
        return True

    def unlink(self, name: str) -> None:
        """Remove a name."""
        os.unlink(name, dir_fd=self._fd)

    def sync(self) -> None:
        """Return when the names in the directory are on the medium."""
        flush(self._fd)

    def lock(self, name: str) -> Lock:
        """Take the writer's lock, or raise StoreBusyError at once."""
        fd, _ = self._open(name, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise StoreBusyError(
                f"another writer has {self.path} open. Close it there first, "
                "or open the store with mode='r' to read beside it."
            ) from None
        lock = Lock(fd, name, self)
        if not lock.is_held():
            lock.release()
            raise StoreBusyError(f"the lock of {self.path} was replaced a moment ago. Try again.")
        return lock

    def _open(self, name: str, flags: int) -> tuple[int, int]:
        """Open a regular file, and nothing else: links are not followed, pipes and devices not waited for.

        Its descriptor and its size.
        """
        flags |= os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
        try:
            fd = os.open(name, flags, 0o666, dir_fd=self._fd)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EISDIR):
                raise self._special(name) from None
            error.filename = str(self.path / name)
            raise
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            os.close(fd)
            raise self._special(name)
        return fd, found.st_size

    def _special(self, name: str) -> CorruptStoreError:
        return CorruptStoreError(
            f"{name} in {self.path} is a link, a pipe or another special file; a store has plain files only. "
            "Remove it."
        )

    def __del__(self) -> None:
        # Never closed by hand: another thread may be in the middle of a call, and numbers are used again.
        if self._fd >= 0:
            self._close(self._fd)


class Disk:
    """Directories on a POSIX file system."""

    def make_directory(self, path: Path) -> None:
        """Make one directory; it may exist already."""
        path.mkdir(exist_ok=True)

    def sync_parent(self, path: Path) -> None:
        """Return when the name of a directory is on the medium."""
        Directory(path.resolve().parent).sync()

    def directory(self, path: Path) -> Directory:
        """Open a directory."""
        return Directory(path)


def read_small(directory: Directory, name: str, most: int) -> bytes | None:
    """Whole content of a file of at most `most` bytes; None where there is none."""
    try:
        file = directory.open(name)
    except FileNotFoundError:
        return None
    try:
        if file.size > most:
            raise CorruptStoreError(f"{name} has {file.size} bytes; it has at most {most}.")
        return file.read_at(0, file.size)
    finally:
        file.close()


def put_small(directory: Directory, name: str, data: bytes) -> None:
    """Put a file in the place of an earlier one, whole and on the medium when it returns."""
    temporary = f"t-{secrets.token_hex(8)}.tmp"
    try:
        with directory.create(temporary) as file:
            file.write(data)
            sync(file)
        directory.rename(temporary, name)
    except BaseException:
        with suppress(FileNotFoundError):
            directory.unlink(temporary)
        raise
    directory.sync()
