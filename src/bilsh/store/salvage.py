"""A new store from the loose segments of one whose manifests are gone or beyond repair.

A segment checks itself: its header has a checksum, and so has every block. What no segment knows is which
version it belonged to and which of its rows were deleted, unless a log says so. So where an id lies in several
segments the one written last wins, and items that were deleted may be back; the source is only read.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bilsh.encoders.foreign import ForeignCoder
from bilsh.errors import BilshError, CorruptStoreError
from bilsh.store.change import Change
from bilsh.store.files import Directory
from bilsh.store.ids import Names, as_names
from bilsh.store.inputs import as_metadata
from bilsh.store.items import walk
from bilsh.store.log import read_loose_log
from bilsh.store.maintenance import segment_problems
from bilsh.store.manifest import SegmentRef, VectorKind, is_own_file
from bilsh.store.rows import Layout
from bilsh.store.sections import HEADER, FileRef, SectionFile
from bilsh.store.segment import Segment
from bilsh.store.tail import Tail

_VECTOR_KINDS: dict[str, VectorKind] = {"<f4": "float32", "<f2": "float16"}


@dataclass(frozen=True, slots=True)
class Salvage:
    """What was saved.

    Attributes
    ----------
    items : int
        Items in the new store.
    segments : tuple of str
        Files that they came from, oldest first.
    skipped : tuple of (str, str)
        Files that were left out, each with the reason.
    """

    items: int
    segments: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Finds:
    """Whole segments and logs of one encoder, oldest first, and what had to be left out."""

    encoder: bytes
    segments: tuple[Segment, ...]
    deleted: dict[str, NDArray[np.int64]]
    skipped: tuple[tuple[str, str], ...]

    @property
    def keep_vectors(self) -> VectorKind | None:
        """How these segments keep vectors."""
        return self.segments[0].layout.keep_vectors if self.segments else None


def look_for_segments(directory: Directory) -> Finds:
    """Find the encoder, and every whole segment and log that belongs to it."""
    skipped: list[tuple[str, str]] = []
    stamps = {name: directory.stat(name) for name in directory.list() if is_own_file(name)}
    names = sorted(stamps, key=lambda name: (stat.st_mtime_ns if (stat := stamps[name]) else 0, name))
    encoders = {}
    for name in (name for name in names if name.startswith("e-")):
        try:
            data = _whole_file(directory, name).array("encoder").tobytes()
            encoders[ForeignCoder.from_bytes(data, name).fingerprint] = data
        except (OSError, BilshError, KeyError) as error:
            skipped.append((name, f"holds no encoder: {error}"))
    if len(encoders) != 1:
        raise CorruptStoreError(
            f"{directory.path} has {len(encoders) or 'no'} whole encoder files (e-....enc); one is needed."
        )
    ((fingerprint, data),) = encoders.items()
    coder = ForeignCoder.from_bytes(data)
    shape = coder.n_bits, coder.n_features
    segments: list[Segment] = []
    deleted: dict[str, NDArray[np.int64]] = {}
    for name in (name for name in names if name[0] in "sl"):
        try:
            if name.startswith("s-"):
                segment: Segment | None = _loose_segment(_whole_file(directory, name), *shape)
            else:
                log, layout, base = read_loose_log(directory.open(name), name, *shape)
                tail = Tail.of(log, layout, base, len(log.records))
                segment = tail.segment
                deleted[name] = tail.deleted
            if segment is None:
                continue
            problem = next(segment_problems(segment), None)
            if segment.layout.fingerprint != fingerprint:
                problem = "belongs to another encoder"
            elif segments and segment.layout != segments[0].layout:
                problem = "has ids or vectors of another kind than the others"
        except OSError as error:
            problem = str(error)
        if problem is None and segment is not None:
            segments.append(segment)
        elif problem is not None:
            skipped.append((name, problem))
    return Finds(data, tuple(segments), deleted, tuple(skipped))


def refill(change: Change, finds: Finds) -> None:
    """Put the rows of all segments into a new store; of those with the same id the newest."""
    seen: set[int | bytes] = set()
    dead = np.empty(0, dtype=np.int64)
    wanted: list[NDArray[np.bool_]] = []
    for segment in reversed(finds.segments):
        fresh = []
        for items in walk(segment, 4096):
            for key in _keys(as_names(items.ids, None)):
                fresh.append(key not in seen)
                seen.add(key)
        wanted.append(np.array(fresh, dtype=np.bool_) & ~np.isin(segment.ids, dead))
        dead = np.concatenate([dead, finds.deleted.get(segment.file.name, dead[:0])])
    for segment, mask in zip(finds.segments, reversed(wanted), strict=True):
        at = 0
        for items in walk(segment, 4096):
            rows = np.flatnonzero(mask[at : at + len(items)])
            at += len(items)
            change.insert(
                items.codes[rows],
                as_names(items.ids[rows], None),
                None if items.vectors is None else items.vectors[rows],
                as_metadata([items.metadata[row] for row in rows]),
                overwrite=False,
            )


def _keys(names: Names) -> list[int] | list[bytes]:
    return names.ints.tolist() if names.ints is not None else names.keys or []


def _whole_file(directory: Directory, name: str) -> SectionFile:
    """Open an encoder or segment whose every checksum is right."""
    file = directory.open(name)
    header = file.read_at(0, HEADER)
    ref = FileRef(name, file.size, hashlib.sha256(header).hexdigest())
    kind = b"ENCO" if name.startswith("e-") else b"SEGM"
    found = SectionFile(file, ref, kind, header[48:80].hex().ljust(64, "0"), use_map=False)
    found.check_all()
    return found


def _loose_segment(file: SectionFile, n_bits: int, n_features: int) -> Segment:
    vectors = file.sections.get("vectors")
    kept = _VECTOR_KINDS.get(vectors.dtype.str) if vectors else None
    layout = Layout(file.fingerprint, n_bits, n_features, "str" if "keys" in file.sections else "int", kept)
    ref = SegmentRef(file.ref.file, file.ref.size, file.ref.header, file.rows, 0, None)
    return Segment(file, ref, layout, None)
