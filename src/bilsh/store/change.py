"""One change of a store: rows added, rows deleted, segments merged; then a single commit, or nothing."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import CorruptStoreError, InvalidInputError, InvalidTypeError
from bilsh.store.files import SyncFailed
from bilsh.store.ids import Names, show
from bilsh.store.manifest import IdKind, SegmentRef, seconds
from bilsh.store.merge import to_merge, write_segment
from bilsh.store.rows import Layout, RowSet, make_rows
from bilsh.store.sections import FileRef, SectionFile, SectionWriter
from bilsh.store.segment import Segment
from bilsh.store.snapshot import Snapshot, locate, open_file
from bilsh.store.writer import Writer

FLUSH_BYTES = 64 << 20
_MAX_ID = 2**63 - 1


class Change:
    """Built up by :meth:`insert` and :meth:`delete`, made true by :meth:`commit`; `base` stays as it is.

    Rows wait in memory until there are 64 MiB of them and are then written as a segment that no manifest
    names yet.
    """

    def __init__(self, writer: Writer, base: Snapshot, use_map: bool) -> None:
        self._writer, self._base, self._use_map = writer, base, use_map
        self._segments = list(base.segments)
        self._layout = Layout.of(base.manifest)
        self._kind = base.manifest.id_kind
        self._next_id = base.manifest.next_id
        self._pending: list[RowSet] = []
        self._pending_keys: set[bytes] = set()
        self._touched: set[str] = set()
        self._changed = False

    @property
    def id_kind(self) -> IdKind | None:
        """Kind of ids that further rows must have."""
        return self._kind

    def insert(
        self,
        codes: NDArray[np.uint8],
        names: Names | None,
        vectors: NDArray[Any] | None,
        metadata: Sequence[bytes] | None,
        *,
        overwrite: bool,
    ) -> None:
        """Add rows, by the next integers when `names` is None; `overwrite` deletes older rows of these ids."""
        if not len(codes):
            return
        if names is None:
            names = self._next_names(len(codes))
        else:
            self._settle(names, overwrite)
        self._kind = names.kind
        self._layout = replace(self._layout, id_kind=names.kind)
        if names.ints is not None:
            ids = names.ints
            self._next_id = max(self._next_id, int(ids.max()) + 1)
        else:
            ids = np.arange(self._next_id, self._next_id + len(codes), dtype=np.int64)
            self._next_id += len(codes)
            self._pending_keys.update(names.keys or ())
        self._pending.append(make_rows(self._layout, codes, ids, names, vectors, metadata))
        self._changed = True
        if sum(batch.nbytes for batch in self._pending) >= FLUSH_BYTES:
            self._flush()

    def delete(self, names: Names) -> int:
        """Mark rows as deleted; ids that are not there are passed over. Return how many were."""
        where, rows = locate(self._segments, names)
        count = 0
        for number in np.unique(where[where >= 0]).tolist():
            dying = np.unique(rows[where == number])
            self._delete_rows(number, dying)
            count += len(dying)
        return count

    def merge_all(self) -> None:
        """Rewrite all segments as one, without dead rows."""
        if len(self._segments) > 1 or any(segment.ref.dead for segment in self._segments):
            self._merge(list(range(len(self._segments))))

    def commit(self) -> Snapshot:
        """Make the change durable and return the version it makes; the old one where nothing changed."""
        self._flush()
        if not self._changed:
            return self._base
        self._segments = [segment for segment in self._segments if segment.n_alive]
        self._merge_where_due()
        refs, deletes = self._write_bitmaps()
        manifest = replace(
            self._base.manifest,
            version=self._base.manifest.version + 1,
            time=seconds(),
            id_kind=self._kind,
            next_id=self._next_id,
            segments=refs,
            deletes=deletes.ref if deletes else None,
            repaired_from=None,
        )
        # The new version is opened before it is committed: once committed, nothing may fail any more.
        segments = tuple(
            Segment(segment.file, ref, self._layout, segment.alive)
            for segment, ref in zip(self._segments, refs, strict=True)
        )
        snapshot = Snapshot(manifest, self._base.encoder, segments, deletes)
        self._writer.commit(manifest, base=self._base.manifest.version)
        return snapshot

    def _next_names(self, count: int) -> Names:
        if self._kind == "str":
            raise InvalidTypeError(
                "this store has string ids, so ids cannot be left out. Give one for each item."
            )
        if self._next_id + count - 1 > _MAX_ID:
            raise InvalidInputError(
                f"there are no {count} integers left after id {self._next_id - 1}. Give ids yourself."
            )
        return Names("int", ints=np.arange(self._next_id, self._next_id + count, dtype=np.int64))

    def _settle(self, names: Names, overwrite: bool) -> None:
        """Make room for new rows of these ids."""
        where, rows = locate(self._segments, names)
        twice = where >= len(self._base.segments)
        for batch in self._pending:
            if names.ints is not None:
                twice |= np.isin(names.ints, batch.arrays["ids"])
        if self._pending_keys:
            twice |= np.array([key in self._pending_keys for key in names.keys or ()], dtype=np.bool_)
        if twice.any():
            first = show(names, int(np.argmax(twice)))
            raise InvalidInputError(
                f"ids must be unique; {first} occurs in more than one batch. Keep one row of each."
            )
        taken = np.flatnonzero(where >= 0)
        if len(taken) and not overwrite:
            raise InvalidInputError(
                f"id {show(names, int(taken[0]))} is in the store already (in all {len(taken)} of "
                f"{len(names)}). Use upsert to replace items."
            )
        for number in np.unique(where[taken]).tolist():
            self._delete_rows(number, rows[where == number])

    def _delete_rows(self, number: int, rows: NDArray[np.int64]) -> None:
        segment = self._segments[number]
        count = len(segment)
        bits = segment.alive_bits(0, count)
        bits = np.ones(count, dtype=np.bool_) if bits is None else bits.copy()
        bits[rows] = False
        ref = replace(segment.ref, dead=count - int(np.count_nonzero(bits)), bitmap=0)
        self._segments[number] = Segment(
            segment.file, ref, segment.layout, np.packbits(bits, bitorder="little")
        )
        self._touched.add(ref.file)
        self._changed = True

    def _flush(self) -> None:
        if self._pending:
            self._segments.append(self._write(self._pending))
            self._pending, self._pending_keys = [], set()

    def _write(self, sources: Sequence[RowSet | Segment]) -> Segment:
        ref = write_segment(self._writer.directory, self._writer.new_name("s", "seg"), self._layout, sources)
        return Segment(self._open(ref, b"SEGM"), ref, self._layout, None)

    def _open(self, ref: FileRef, kind: bytes) -> SectionFile:
        return open_file(self._writer.directory, ref, kind, self._layout.fingerprint, self._use_map)

    def _merge(self, numbers: list[int]) -> None:
        sources = sorted((self._segments[i] for i in numbers if self._segments[i].n_alive), key=_first_id)
        merged = [self._write(sources)] if sources else []
        self._segments = [s for i, s in enumerate(self._segments) if i not in set(numbers)] + merged
        self._changed = True

    def _merge_where_due(self) -> None:
        numbers = to_merge([segment.ref for segment in self._segments])
        if numbers:
            named = self._writer.named()
            try:
                self._merge(numbers)
            except OSError as error:
                # Merging is housekeeping: having no room for it is no reason to refuse the change itself.
                full = error.errno in (errno.ENOSPC, errno.EDQUOT)
                if not full or isinstance(error, SyncFailed | CorruptStoreError):
                    raise
                self._writer.drop_after(named)

    def _write_bitmaps(self) -> tuple[tuple[SegmentRef, ...], SectionFile | None]:
        """Write the bitmaps of all segments into one file; the old one serves where none has changed."""
        marked = [segment for segment in self._segments if segment.alive is not None]
        if not marked:
            return tuple(segment.ref for segment in self._segments), None
        if not any(segment.ref.file in self._touched for segment in marked):
            return tuple(segment.ref for segment in self._segments), self._base.deletes
        pieces, refs, at = [], [], 0
        for segment in self._segments:
            ref = segment.ref
            if segment.alive is not None:
                ref = replace(ref, bitmap=at)
                pieces += [segment.alive, np.zeros(-len(segment.alive) % 8, dtype=np.uint8)]
                at += len(segment.alive) + len(pieces[-1])
            refs.append(ref)
        writer = SectionWriter(
            self._writer.directory,
            self._writer.new_name("d", "del"),
            b"DEAD",
            len(marked),
            self._layout.fingerprint,
        )
        try:
            writer.section("alive", "<u1", 1, pieces)
            written = writer.finish()
        finally:
            writer.abandon()
        return tuple(refs), self._open(written, b"DEAD")


def _first_id(segment: Segment) -> int:
    return int(segment.rows_of("ids", 0, 1)[0, 0])
