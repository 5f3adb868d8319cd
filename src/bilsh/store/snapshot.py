"""One version of a store with all its files open: what a reader sees, whatever writers do meanwhile."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.encoders.coder import Coder
from bilsh.errors import (
    CorruptEncoderError,
    CorruptStoreError,
    DataNotFoundError,
    IncompatibleCodesError,
)
from bilsh.forks import cached_property
from bilsh.store.files import CLAIM_AT, Directory, Disk
from bilsh.store.ids import Names
from bilsh.store.log import Log, read_log
from bilsh.store.manifest import (
    MAX_BYTES,
    MAX_VERSION,
    Manifest,
    SegmentRef,
    decode_manifest,
    manifest_name,
    version_of,
)
from bilsh.store.rows import Layout
from bilsh.store.sections import FileRef, SectionFile
from bilsh.store.segment import Segment
from bilsh.store.tail import Tail, follow

LOCK_NAME, RESERVE_NAME = "lock", "reserve"
_TRIES = 1000
_OLD_NOTE = re.compile(rb"bilsh head (\d{10}) (\d{10})\n")
_NOTE = re.compile(rb"bilsh head (\d{10}) (\d{10}) [0-9a-f]{16} [0-9a-f]{8}\n")


@dataclass(frozen=True)
class Snapshot:
    """An open version.

    Attributes
    ----------
    version, next_id : int
        Number of this version, and its next id: those after the records of the log.
    manifest : Manifest
        As it is on disk; its number and next id are those before the records of the log.
    encoder, deletes : SectionFile
    opened : tuple of Segment
        Segments in files, as they were opened.
    tail : Tail or None
        What the log adds.
    calibration : SectionFile or None
        What promised recalls rest on.
    followed : bool
        Whether `opened` has the rows deleted that the log deletes; where not, that waits until segments are asked for.
    """

    version: int
    next_id: int
    manifest: Manifest
    encoder: SectionFile
    opened: tuple[Segment, ...]
    deletes: SectionFile | None
    tail: Tail | None = None
    calibration: SectionFile | None = None
    followed: bool = True

    def coder(self) -> Coder:
        """What made the codes, read from its file."""
        file = self.encoder
        try:
            coder = Coder.from_bytes(file.array("encoder").tobytes(), file.name)
        except CorruptEncoderError as error:
            raise CorruptStoreError(
                f"{file.name} holds no encoder that this bilsh can read: {error}"
            ) from error
        if coder.fingerprint != self.manifest.fingerprint:
            raise file.corrupt("holds another encoder than the manifest says")
        return coder

    @property
    def files_segments(self) -> tuple[Segment, ...]:
        """Segments in files, with the rows deleted that the log deletes."""
        return self.opened if self.followed else self._followed

    @cached_property
    def _followed(self) -> tuple[Segment, ...]:
        return follow(self.opened, self.tail.deleted) if self.tail else self.opened

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """All segments, that of the log too."""
        last = self.tail.segment if self.tail else None
        return self.files_segments if last is None else (*self.files_segments, last)

    @property
    def n_alive(self) -> int:
        """Number of items."""
        in_tail = self.tail.n_alive if self.tail else 0
        return in_tail + sum(segment.n_alive for segment in self.files_segments)

    def files(self) -> list[SectionFile]:
        """Return all open files of sections."""
        others = [file for file in (self.deletes, self.calibration) if file]
        return [self.encoder, *(s.file for s in self.opened), *others]

    def distrust(self) -> None:
        """Have every block checked anew when it is next used."""
        for file in self.files():
            file.distrust()

    def find(self, names: Names) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Segment and row of each id that is in the store; -1, -1 for the others."""
        return locate(self.segments, names)

    def numbers(self, names: Names) -> NDArray[np.int64]:
        """Ids as segments have them, of those names that are in the store."""
        where, rows = self.find(names)
        numbers = [segment.ids[rows[where == place]] for place, segment in enumerate(self.segments)]
        return np.concatenate([*numbers, np.empty(0, dtype=np.int64)])

    def external_ids(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """Ids as the caller knows them, for ids of segments: the same integers, or strings behind them."""
        if self.manifest.id_kind != "str":
            return ids
        numbers = ids.ravel()
        result = np.empty(len(numbers), dtype=object)
        for segment in self.segments:
            rows = segment.find_numbers(numbers)
            hit = np.flatnonzero(rows >= 0)
            result[hit] = segment.strings(segment.keys_at(rows[hit]))
        return result.reshape(ids.shape)


def locate(
    segments: tuple[Segment, ...] | list[Segment], names: Names
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Segment and row of each living id; -1, -1 where there is none."""
    if names.ints is not None and len(names.ints) == 1:
        place, row = locate_one(segments, int(names.ints[0]))
        return np.array([place]), np.array([row])
    where = np.full(len(names), -1, dtype=np.int64)
    rows = where.copy()
    for number, segment in enumerate(segments):
        found = segment.find(names)
        hit = found >= 0
        if hit.any():
            where[hit], rows[hit] = number, found[hit]
            if where.min() >= 0:  # an id lives in one segment only
                break
    return where, rows


def locate_one(segments: tuple[Segment, ...] | list[Segment], number: int) -> tuple[int, int]:
    """Segment and row of one living integer id; -1, -1 where there is none."""
    for place, segment in enumerate(segments):
        row = segment.find_one(number)
        if row >= 0:
            return place, row
    return -1, -1


@dataclass(frozen=True, slots=True)
class Note:
    """What the last writer noted: the newest version, and the manifest it rests on; zeros when it noted nothing."""

    version: int = 0
    manifest: int = 0


def read_hint(directory: Directory) -> Note:
    """Read the note in the lock file.

    A note tells of the directory it was made in: a copy of a store may have been made before or after it.
    """
    try:
        file = directory.open(LOCK_NAME)
    except FileNotFoundError:
        return Note()
    data = file.read_at(0, CLAIM_AT).rstrip(b"\0")
    file.close()
    old, match = _OLD_NOTE.fullmatch(data), _NOTE.fullmatch(data)
    if old and int(old[1]) + int(old[2]) == MAX_VERSION:
        return Note(int(old[1]), int(old[1]))
    if match and data == hint(int(match[1]), int(match[2]), directory.identity()):
        return Note(int(match[1]), int(match[2]))
    return Note()


def hint(version: int, manifest: int, identity: int) -> bytes:
    """Note for the lock file; the checksum makes a torn or damaged note unreadable."""
    note = b"bilsh head %010d %010d %016x" % (version, manifest, identity)
    return note + b" %08x\n" % zlib.crc32(note)


def versions_among(names: list[str]) -> list[int]:
    """Versions whose manifests are among these files, oldest first."""
    return sorted([v for name in names if name[:2] == "m-" and (v := version_of(name)) is not None])


def open_directory(disk: Disk, path: Path) -> Directory:
    """Open the directory of a store; FileNotFoundError says how to make one."""
    try:
        return disk.directory(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no store at {path}. Make one with Store.create.") from None
    except NotADirectoryError:
        raise NotADirectoryError(f"{path} is a file; a store is a directory.") from None


def refuse_nothing(directory: Directory) -> None:
    """Raise FileNotFoundError where there is no store at all, not even a damaged one."""
    if not versions_among(directory.list()) and not read_hint(directory).version:
        raise FileNotFoundError(f"{directory.path} holds no bilsh store. Make one with Store.create.")


def read_manifest(directory: Directory, version: int) -> Manifest:
    """Read and check one manifest."""
    name = manifest_name(version)
    file = directory.open(name)
    try:
        if file.size > MAX_BYTES:
            raise CorruptStoreError(f"{name} has {file.size} bytes; a manifest has at most {MAX_BYTES}.")
        return decode_manifest(file.read_at(0, file.size), name)
    finally:
        file.close()


def open_snapshot(
    directory: Directory, *, version: int | None, use_map: bool, known: Snapshot | None = None
) -> Snapshot:
    """Open a version, the newest when `version` is None; files that `known` has open are used again."""
    before, behind = None, 0
    for _ in range(_TRIES):
        # The note is read first: it never runs ahead, so a note of a version that is not there means that
        # something is missing (or, once in a blue moon, that commits went by meanwhile: look again).
        noted = read_hint(directory) if version is None else Note()
        number = directory.newest() if version is None else _newest_up_to(directory, version)
        if not number and not noted.version:
            refuse_nothing(directory)
            raise missing(manifest_name(0)) if version is None else _not_kept(version)
        try:
            if number < noted.manifest:
                raise FileNotFoundError(2, "missing", manifest_name(noted.manifest))
            snapshot = load(directory, read_manifest(directory, number), use_map, known, version)
        except FileNotFoundError as error:
            if number == before:
                behind += 1
            if version is not None or behind > 2:
                raise missing(str(error.filename).rsplit("/", 1)[-1]) from None
            before = number
            continue
        if known and known.manifest.fingerprint != snapshot.manifest.fingerprint:
            raise IncompatibleCodesError(
                f"{directory.path} holds another store by now: its codes were made by another encoder. Open it anew."
            )
        found = snapshot.version
        if version is not None and found != version:
            raise _not_kept(version)
        if found >= noted.version:
            return snapshot
        behind += 1
        if behind > 2:
            what = snapshot.manifest.log.file if snapshot.manifest.log else manifest_name(noted.version)
            raise CorruptStoreError(
                f"{what} is damaged or missing: version {noted.version} was stored, version {found} is found. "
                "See Store.versions and Store.repair."
            )
    raise missing(manifest_name(number))


def _newest_up_to(directory: Directory, version: int) -> int:
    """Version of the manifest that a version rests on, 0 for none."""
    return max([v for v in versions_among(directory.list()) if v <= version], default=0)


def _not_kept(version: int) -> DataNotFoundError:
    return DataNotFoundError(f"version {version} is not kept. Store.versions tells which are.")


def missing(what: str) -> CorruptStoreError:
    """Make the error of a file that a version needs and does not have."""
    return CorruptStoreError(f"{what} is missing. See Store.versions and Store.repair.")


def load(
    directory: Directory,
    manifest: Manifest,
    use_map: bool,
    known: Snapshot | None,
    version: int | None = None,
) -> Snapshot:
    """Open all files of a manifest, and the records of its log up to a version, all when that is None.

    FileNotFoundError when a file is gone.
    """
    ready = {file.name: file for file in known.files()} if known else {}
    opened: list[SectionFile] = []

    def get(ref: FileRef, kind: bytes) -> SectionFile:
        if ref.file in ready and ready[ref.file].ref.header == ref.header:
            return ready[ref.file]
        file = open_file(directory, ref, kind, manifest.fingerprint, use_map)
        opened.append(file)
        return file

    try:
        encoder = get(manifest.encoder, b"ENCO")
        if set(encoder.sections) != {"encoder"} or encoder.sections["encoder"].row_bytes != 1:
            raise encoder.corrupt("does not hold an encoder")
        deletes = get(manifest.deletes, b"DEAD") if manifest.deletes else None
        if deletes and (set(deletes.sections) != {"alive"} or deletes.sections["alive"].row_bytes != 1):
            raise deletes.corrupt("does not hold bitmaps")
        layout = Layout.of(manifest)
        segments = tuple(
            Segment(get(ref, b"SEGM"), ref, layout, _bitmap(deletes, ref) if deletes else None)
            for ref in manifest.segments
        )
        calibration = get(manifest.calibration, b"CALI") if manifest.calibration else None
        log = _log(directory, manifest.log, layout, manifest.version) if manifest.log else None
    except BaseException:
        for file in opened:
            file.close()
        raise
    base = manifest.version
    if log is None:
        return Snapshot(base, manifest.next_id, manifest, encoder, segments, deletes, None, calibration)
    count = len(log.records) if version is None else min(len(log.records), version - base)
    tail = Tail.of(log, layout, base, count)
    next_id = log.records.next_id(count) if count else manifest.next_id
    return Snapshot(
        base + count, next_id, manifest, encoder, segments, deletes, tail, calibration, followed=False
    )


def _log(directory: Directory, ref: FileRef, layout: Layout, base: int) -> Log:
    file = directory.open(ref.file)
    try:
        return read_log(file, ref, layout, base)
    finally:
        file.close()


def open_file(
    directory: Directory, ref: FileRef, kind: bytes, fingerprint: str, use_map: bool
) -> SectionFile:
    """Open one file that a manifest names."""
    file = directory.open(ref.file)
    try:
        return SectionFile(file, ref, kind, fingerprint, use_map)
    except BaseException:
        file.close()
        raise


def _bitmap(deletes: SectionFile, ref: SegmentRef) -> NDArray[np.uint8] | None:
    if ref.bitmap is None:
        return None
    length = -(-ref.rows // 8)
    if ref.bitmap + length > deletes.sections["alive"].rows:
        raise deletes.corrupt(f"has no bitmap of {ref.file}")
    bitmap: NDArray[Any] = deletes.rows_of("alive", ref.bitmap, ref.bitmap + length)[:, 0]
    padding = int(bitmap[-1]) >> (ref.rows % 8 or 8)
    if int(np.bitwise_count(bitmap).sum(dtype=np.int64)) != ref.rows - ref.dead or padding:
        raise deletes.corrupt(f"has a bitmap of {ref.file} that does not count {ref.dead} deleted rows")
    return bitmap
