"""Looking after a store: is every byte as written, which versions are there, go back to one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bilsh.encoders.coder import Coder
from bilsh.errors import CorruptEncoderError, CorruptStoreError, InvalidInputError
from bilsh.store.calibration import read_intervals
from bilsh.store.change import Change
from bilsh.store.files import Directory
from bilsh.store.ids import hash_keys
from bilsh.store.manifest import manifest_name
from bilsh.store.recipe import recipe_in
from bilsh.store.segment import Segment, windows
from bilsh.store.snapshot import (
    Snapshot,
    load,
    missing,
    open_snapshot,
    read_hint,
    read_manifest,
    versions_among,
)
from bilsh.store.trials import read_trial
from bilsh.store.writer import Writer
from bilsh.validation import check_positive

if TYPE_CHECKING:
    from threading import Event


@dataclass(frozen=True, slots=True)
class Verification:
    """What a successful check went through."""

    version: int
    files: int
    bytes: int
    deep: bool


@dataclass(frozen=True, slots=True)
class Version:
    """A version whose manifest is there; `problem` is None when all its files are there too."""

    version: int
    time: int | None
    items: int | None
    problem: str | None


def verify(directory: Directory, deep: bool) -> Verification:
    """Check sizes and headers of the newest version; `deep` also every block and cross-reference."""
    snapshot = open_snapshot(directory, version=None, use_map=False)
    stored = snapshot.manifest
    before = stored.repaired_from
    if before is None:
        before = max((v for v in versions_among(directory.list()) if v < stored.version), default=0)
    problems = [
        *_problems(snapshot, deep),
        *_earlier_problems(directory, before),
        *_beside_problems(directory, snapshot),
    ]
    if problems:
        raise CorruptStoreError(" ".join(problems))
    refs = [*(file.ref for file in snapshot.files()), *([stored.log] if stored.log else [])]
    return Verification(snapshot.version, 1 + len(refs), sum(ref.size for ref in refs), deep)


def scrub(directory: Directory, snapshot: Snapshot, rate: float | None, stop: Event | None) -> Verification:
    """Check every block of an open version, at most `rate` bytes per second; its log is read anew too."""
    if rate is not None:
        rate = check_positive("rate", rate)
    files, done = snapshot.files(), 0
    start = time.monotonic()
    for file in files:
        for length in file.check_blocks():
            done += length
            ahead = done / rate - (time.monotonic() - start) if rate else 0.0
            # In short naps, so that it can be stopped.
            while ahead > 0 and not (stop and stop.is_set()):
                time.sleep(min(ahead, 0.1))
                ahead = done / (rate or 1.0) - (time.monotonic() - start)
            if stop and stop.is_set():
                return Verification(snapshot.version, len(files), done, False)
    if snapshot.manifest.log and _is_there(directory, snapshot):
        try:
            load(directory, snapshot.manifest, use_map=False, known=snapshot)
        except FileNotFoundError:
            if _is_there(directory, snapshot):  # else a writer has removed both, the manifest first
                raise missing(snapshot.manifest.log.file) from None
    return Verification(snapshot.version, len(files), done, True)


def _is_there(directory: Directory, snapshot: Snapshot) -> bool:
    """Whether the manifest of an open version is still kept."""
    return snapshot.manifest.version in versions_among(directory.list())


def versions(directory: Directory) -> list[Version]:
    """Versions in the directory, oldest first, each with what is wrong with it at first sight.

    One for each manifest: the last that its log leads to.
    """
    found = []
    for number in versions_among(directory.list()):
        stamp = items = problem = None
        try:
            manifest = read_manifest(directory, number)
            stamp = manifest.time
            items = sum(segment.rows - segment.dead for segment in manifest.segments)
            snapshot = load(directory, manifest, use_map=False, known=None)
            number, items = snapshot.version, snapshot.n_alive
        except CorruptStoreError as error:
            problem = str(error)
        except FileNotFoundError as error:
            problem = f"{str(error.filename).rsplit('/', 1)[-1]} is missing."
        found.append(Version(number, stamp, items, problem))
    return found


def repair(directory: Directory, to_version: int) -> int:
    """Make a new newest version with the content of an earlier one, after checking every byte of it."""
    there = versions_among(directory.list())
    last = [version.version for version in versions(directory)]
    if not there or not there[0] <= to_version <= max(last):
        why = "is no longer kept" if last and 0 < to_version < max(last) else "never was"
        raise InvalidInputError(f"version {to_version} {why}; there are {', '.join(map(str, last))}.")
    writer = Writer(directory)
    try:
        snapshot = open_snapshot(directory, version=to_version, use_map=False)
        problems = list(_problems(snapshot, deep=True))
        if problems:
            raise CorruptStoreError(f"version {to_version} is damaged too. " + " ".join(problems))
        newest = max(*last, read_hint(directory).version) + 1
        with writer.change():
            Change(writer, snapshot, use_map=False).restate(newest, there[-1], to_version)
    finally:
        writer.close()
    return newest


def _earlier_problems(directory: Directory, version: int) -> Iterator[str]:
    """Damage of the manifest that a repair would go back to; versions that are gone have none."""
    try:
        read_manifest(directory, version)
    except FileNotFoundError:
        return
    except CorruptStoreError as error:
        yield f"{error} (Only the version before the newest is affected.)"


def _beside_problems(directory: Directory, snapshot: Snapshot) -> Iterator[str]:
    """Damage of what no manifest names: the recipe and the calibration."""
    checks = recipe_in, lambda place: read_intervals(place, snapshot.manifest.fingerprint)
    for check in checks:
        try:
            check(directory)
        except CorruptStoreError as error:
            yield str(error)


def _encoder_problems(snapshot: Snapshot) -> Iterator[str]:
    file = snapshot.encoder
    try:
        coder = Coder.from_bytes(file.array("encoder").tobytes(), file.name)
    except CorruptEncoderError as error:
        yield f"{file.name} holds no encoder that this bilsh can read: {error}"
        return
    if coder.fingerprint != snapshot.manifest.fingerprint:
        yield f"{file.name} holds another encoder than the manifest says."


def _problems(snapshot: Snapshot, deep: bool) -> Iterator[str]:
    if not deep:
        return
    for file in snapshot.files():
        try:
            file.check_all()
        except CorruptStoreError as error:
            yield str(error)
            return
    yield from _encoder_problems(snapshot)
    living = []
    for segment in snapshot.segments:
        yield from (f"{segment.file.name}: {problem}." for problem in segment_problems(segment))
        alive = segment.alive_bits(0, len(segment))
        living.append(segment.ids if alive is None else segment.ids[alive])
    if snapshot.calibration is not None:
        try:
            read_trial(snapshot.calibration, snapshot.files_segments)
        except CorruptStoreError as error:
            yield str(error)
    ids = np.sort(np.concatenate(living)) if living else np.empty(0, dtype=np.int64)
    name = manifest_name(snapshot.version)
    if len(ids) and bool(np.any(ids[1:] == ids[:-1])):
        yield f"{name}: an id is alive in two segments."
    if len(ids) and int(ids[-1]) >= snapshot.next_id:
        yield f"{name}: the next id {snapshot.next_id} is in use already."


def segment_problems(segment: Segment) -> Iterator[str]:
    """What is wrong between the sections of a segment whose checksums are right."""
    ids, rows = segment.ids, len(segment)
    order = segment.rows_of("order", 0, rows)[:, 0] if segment.has("order") else np.arange(rows)
    if not np.array_equal(np.sort(order), np.arange(rows)) or bool(np.any(np.diff(ids[order]) <= 0)):
        yield "ids are not in the order its lookup needs"
    if segment.has("cells"):
        offsets = segment.rows_of("cells", 0, segment.file.sections["cells"].rows)[:, 0]
        if offsets[0] != 0 or offsets[-1] != rows or bool(np.any(np.diff(offsets) < 0)):
            yield "cells do not cut its rows"
    used, last = segment.layout.n_bits % 8, f"code{len(segment.layout.widths) - 1}"
    for start, stop in windows(rows, segment.layout.widths[-1]):
        if used and bool(np.any(segment.rows_of(last, start, stop)[:, -1] >> np.uint8(used))):
            yield "padding bits of codes are not zero"
    hashes = segment.hashes_by_row() if segment.has("keys") else None
    for start, stop in windows(rows, 512):
        if segment.has("meta"):
            segment.parse(segment.read_items("meta", start, stop))
        if hashes is not None:
            keys = segment.read_items("keys", start, stop)
            if not np.array_equal(hash_keys(keys), hashes[start:stop]):
                yield "keys do not match their hashes"
