"""A new store from the loose segments of one whose manifests are gone or beyond repair.

A segment checks itself: its header has a checksum, and so has every block. What no segment knows is which
version it belonged to and which of its rows were deleted. So where an id lies in several segments the one
written last wins, and items that were deleted may be back; the source is only read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
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
from bilsh.store.maintenance import segment_problems
from bilsh.store.manifest import SegmentRef, VectorKind, is_own_file
from bilsh.store.rows import Layout
from bilsh.store.sections import HEADER, FileRef, SectionFile
from bilsh.store.segment import Segment

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
    """Whole segments of one encoder, oldest first, and what had to be left out."""

    encoder: bytes
    segments: tuple[Segment, ...]
    skipped: tuple[tuple[str, str], ...]

    @property
    def keep_vectors(self) -> VectorKind | None:
        """How these segments keep vectors."""
        return self.segments[0].layout.keep_vectors if self.segments else None


def look_for_segments(directory: Directory) -> Finds:
    """Find the encoder and every whole segment that belongs to it."""
    skipped: list[tuple[str, str]] = []
    files = list(_whole_files(directory, skipped))
    encoders = {}
    for file in files:
        if file.name.startswith("e-"):
            try:
                data = file.array("encoder").tobytes()
                encoders[ForeignCoder.from_bytes(data, file.name).fingerprint] = data
            except (BilshError, KeyError) as error:
                skipped.append((file.name, f"holds no encoder: {error}"))
    loose = [file for file in files if file.name.startswith("s-")]
    rows = {key: sum(file.rows for file in loose if file.fingerprint == key) for key in encoders}
    if not encoders:
        raise CorruptStoreError(
            f"{directory.path} has no whole encoder file (e-....enc), so nothing can be saved."
        )
    chosen = max(rows, key=lambda key: rows[key])
    coder = ForeignCoder.from_bytes(encoders[chosen])
    segments: list[Segment] = []
    for file in loose:
        if file.fingerprint != chosen:
            skipped.append((file.name, "belongs to another encoder"))
            continue
        vectors = file.sections.get("vectors")
        layout = Layout(
            chosen, coder.n_bits, coder.n_features, "str" if "keys" in file.sections else "int",
            _VECTOR_KINDS.get(vectors.dtype.str) if vectors else None,
        )  # fmt: skip
        try:
            ref = SegmentRef(file.ref.file, file.ref.size, file.ref.header, file.rows, 0, None)
            segment = Segment(file, ref, layout, None)
            problem = next(segment_problems(segment), None)
            if segments and layout != segments[0].layout:
                problem = "has ids or vectors of another kind than the others"
        except CorruptStoreError as error:
            problem = str(error)
        if problem is None:
            segments.append(segment)
        else:
            skipped.append((file.name, problem))
    return Finds(encoders[chosen], tuple(segments), tuple(skipped))


def refill(change: Change, finds: Finds) -> None:
    """Put the rows of all segments into a new store; of those with the same id the newest."""
    seen: set[int | bytes] = set()
    wanted: list[NDArray[np.bool_]] = []
    for segment in reversed(finds.segments):
        fresh = []
        for items in walk(segment, 4096):
            for key in _keys(as_names(items.ids, None)):
                fresh.append(key not in seen)
                seen.add(key)
        wanted.append(np.array(fresh, dtype=np.bool_))
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


def _whole_files(directory: Directory, skipped: list[tuple[str, str]]) -> Iterator[SectionFile]:
    """Encoders and segments whose every checksum is right, oldest first."""
    stamps = {
        name: directory.stat(name) for name in directory.list() if is_own_file(name) and name[0] in "es"
    }
    for name in sorted(stamps, key=lambda name: (stat.st_mtime_ns if (stat := stamps[name]) else 0, name)):
        try:
            file = directory.open(name)
            header = file.read_at(0, HEADER)
            ref = FileRef(name, file.size, hashlib.sha256(header).hexdigest())
            kind = b"ENCO" if name.startswith("e-") else b"SEGM"
            found = SectionFile(file, ref, kind, header[48:80].hex().ljust(64, "0"), use_map=False)
            found.check_all()
        except OSError as error:
            skipped.append((name, str(error)))
        else:
            yield found
