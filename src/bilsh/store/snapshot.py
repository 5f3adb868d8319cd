"""One version of a store with all its files open: what a reader sees, whatever writers do meanwhile."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import CorruptStoreError
from bilsh.store.files import Directory, Disk
from bilsh.store.ids import Names
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

LOCK_NAME = "lock"
_TRIES = 1000
_NOTE = re.compile(rb"bilsh head (\d{10}) (\d{10})(?: ([0-9a-f]{16}))?\n")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An open version."""

    manifest: Manifest
    encoder: SectionFile
    segments: tuple[Segment, ...]
    deletes: SectionFile | None

    @property
    def n_alive(self) -> int:
        """Number of items."""
        return sum(segment.n_alive for segment in self.segments)

    def files(self) -> list[SectionFile]:
        """Return all open files of the version."""
        return [self.encoder, *(s.file for s in self.segments), *([self.deletes] if self.deletes else [])]

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
    where = np.full(len(names), -1, dtype=np.int64)
    rows = np.full(len(names), -1, dtype=np.int64)
    for number, segment in enumerate(segments):
        found = segment.find(names)
        hit = found >= 0
        where[hit], rows[hit] = number, found[hit]
    return where, rows


def read_hint(directory: Directory) -> int:
    """Newest version the last writer noted in the lock file; 0 when it left no readable note.

    A note tells of the directory it was made in: a copy of a store may have been made before or after it.
    """
    try:
        file = directory.open(LOCK_NAME)
    except FileNotFoundError:
        return 0
    data = file.read_at(0, 64)
    file.close()
    match = _NOTE.fullmatch(data)
    if not match or int(match[1]) + int(match[2]) != MAX_VERSION:
        return 0
    return int(match[1]) if match[3] in (None, b"%016x" % directory.identity()) else 0


def hint(version: int, identity: int) -> bytes:
    """Note for the lock file; the complement makes a torn or damaged note unreadable."""
    return b"bilsh head %010d %010d %016x\n" % (version, MAX_VERSION - version, identity)


def versions_among(names: list[str]) -> list[int]:
    """Versions whose manifests are among these files, oldest first."""
    return sorted(v for name in names if (v := version_of(name)) is not None)


def open_directory(disk: Disk, path: Path) -> Directory:
    """Open the directory of a store; FileNotFoundError says how to make one."""
    try:
        return disk.directory(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no store at {path}. Make one with Store.create.") from None


def newest_version(directory: Directory) -> int:
    """Find the newest version; the note in the lock file tells when its manifest has gone missing."""
    for _ in range(3):
        # The note is read first: it never runs ahead of the manifests, so a newer note means a missing
        # manifest (or, once in a blue moon, a listing made while two commits went by: look again).
        noted = read_hint(directory)
        versions = versions_among(directory.list())
        if versions and versions[-1] >= noted:
            return versions[-1]
    if noted:
        raise CorruptStoreError(f"{manifest_name(noted)} is missing. See Store.versions and Store.repair.")
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
    for _ in range(_TRIES):
        number = newest_version(directory) if version is None else version
        try:
            return load(directory, read_manifest(directory, number), use_map, known)
        except FileNotFoundError as error:
            missing = error.filename
        if version is not None or newest_version(directory) == number:
            break
    raise CorruptStoreError(
        f"{str(missing).rsplit('/', 1)[-1]} is missing. See Store.versions and Store.repair."
    )


def load(directory: Directory, manifest: Manifest, use_map: bool, known: Snapshot | None) -> Snapshot:
    """Open all files of a manifest; FileNotFoundError when one is gone."""
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
    except BaseException:
        for file in opened:
            file.close()
        raise
    return Snapshot(manifest, encoder, segments, deletes)


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
