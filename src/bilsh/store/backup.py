"""A copy of one version in another directory, made while writers go on.

Files of a store never change once they are written, and those of an open version stay readable when their names
are gone; so they are copied first, checked, and then a manifest is committed that names them, as in any change.
What the log holds becomes a segment of the copy. A backup made again copies only what is new.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bilsh.errors import InvalidInputError
from bilsh.store.calibration import calibration_files
from bilsh.store.change import Change
from bilsh.store.creation import refuse_contents
from bilsh.store.files import Directory, Disk, put_small, sync
from bilsh.store.manifest import is_own_file
from bilsh.store.recipe import recipe_files
from bilsh.store.sections import SectionFile
from bilsh.store.segment import Segment
from bilsh.store.snapshot import (
    LOCK_NAME,
    RESERVE_NAME,
    Snapshot,
    open_file,
    open_snapshot,
    read_manifest,
    versions_among,
)
from bilsh.store.writer import Writer


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup holds, and what had to be copied for it."""

    version: int
    items: int
    files_copied: int
    bytes_copied: int


def back_up(disk: Disk, source: Directory, snapshot: Snapshot, path: Path, link: bool) -> Backup:
    """Copy a version into the directory `path`; durable and checked when it returns."""
    disk.make_directory(path)
    target = disk.directory(path)
    writer = Writer(target)
    try:
        there = _newest(target, snapshot)
        version, copied = snapshot.version, []
        if there == version:
            _refuse_another(open_snapshot(target, version=None, use_map=False), snapshot, path)
        else:
            with writer.change():
                disk.sync_parent(path)
                if not there:
                    _begin(writer)
                copied = [file for file in snapshot.files() if not _is_there(target, file)]
                for file in copied:
                    if not (link and target.adopt(source, file.name)):
                        _copy(writer, file)
                    _opened(target, file).check_all()
                beside = recipe_files(source) | calibration_files(source, snapshot.manifest.fingerprint)
                for name, data in beside.items():
                    put_small(target, name, data)
                Change(writer, snapshot, use_map=False).restate(version, there, None)
        made = open_snapshot(target, version=None, use_map=False)
        return Backup(version, made.n_alive, len(copied), sum(file.ref.size for file in copied))
    finally:
        writer.close()


def _newest(target: Directory, snapshot: Snapshot) -> int:
    """Version of the backup that is there, 0 for none; anything else there is refused."""
    names = target.list()
    versions = versions_among(names)
    mine = {file.name for file in snapshot.files()}
    if not versions:
        # What an earlier try left is welcome: such files are whole. Those of versions that are gone are tidied away.
        begun = any(name.startswith("b-") and is_own_file(name) for name in names)
        if not begun and not mine.issuperset(
            name for name in names if not name.startswith("t-") and name not in (LOCK_NAME, RESERVE_NAME)
        ):
            refuse_contents(target)
        return 0
    newest = read_manifest(target, versions[-1])
    if newest.encoder != snapshot.manifest.encoder:
        raise InvalidInputError(
            f"{target.path} holds another store. Choose a new directory, or one with an earlier backup of this one."
        )
    if newest.log is not None or newest.version > snapshot.version:
        raise InvalidInputError(
            f"{target.path} has version {newest.version}, changed or made later than version "
            f"{snapshot.version} here. Choose another directory."
        )
    return newest.version


def _begin(writer: Writer) -> None:
    """Leave a sign that files without a manifest are those of a first backup; the commit tidies it away."""
    name = writer.new_name("b", "bak")
    writer.directory.create(name).close()
    writer.directory.sync()
    writer.forget(name)


def _refuse_another(made: Snapshot, snapshot: Snapshot, path: Path) -> None:
    """Refuse a backup with this version's number that holds something else.

    Readers see what is not yet on the medium; after a loss of power the next writer makes such a version anew.
    """
    last = snapshot.tail.segment if snapshot.tail else None
    ours, theirs = snapshot.files_segments, made.files_segments
    same = (made.next_id, made.manifest.calibration) == (snapshot.next_id, snapshot.manifest.calibration)
    same = same and len(theirs) == len(ours) + (last is not None)
    same = same and all(
        (a.ref.file, a.ref.header) == (b.ref.file, b.ref.header) and _bits(a) == _bits(b)
        for a, b in zip(ours, theirs, strict=False)
    )
    if not same or (last is not None and not _same_rows(last.file, theirs[-1].file)):
        raise InvalidInputError(
            f"{path} holds another version {snapshot.version} than the store: one that was lost before it was on the "
            "medium. Choose another directory, or make a backup of a later version."
        )


def _bits(segment: Segment) -> bytes | None:
    return None if segment.alive is None else segment.alive.tobytes()


def _same_rows(a: SectionFile, b: SectionFile) -> bool:
    """Whether two files hold the same sections."""
    return list(a.sections) == list(b.sections) and all(
        np.array_equal(a.array(name), b.array(name)) for name in a.sections
    )


def _is_there(target: Directory, file: SectionFile) -> bool:
    try:
        _opened(target, file)
    except FileNotFoundError:
        return False
    return True


def _opened(target: Directory, file: SectionFile) -> SectionFile:
    return open_file(target, file.ref, file.kind, file.fingerprint, use_map=False)


def _copy(writer: Writer, file: SectionFile) -> None:
    """Copy a file under a temporary name, and give it its own when it is whole and on the medium."""
    temporary = writer.new_name("t", "tmp")
    with writer.directory.create(temporary) as new:
        for piece in file.pieces_of_file():
            new.write(piece)
        sync(new)
    writer.directory.link(temporary, file.name)
    writer.discard([temporary])
    writer.forget(temporary)
