"""One change of a store: rows added, rows deleted, segments merged; then a single commit, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import CorruptStoreError, InvalidInputError
from bilsh.files import seconds
from bilsh.store import log
from bilsh.store.celled import Arrangements, Workshop, merge_into_cells
from bilsh.store.files import SyncFailed, no_room
from bilsh.store.ids import Names, next_names, once, refuse_taken, show
from bilsh.store.log import LogWriter
from bilsh.store.manifest import IdKind, SegmentRef
from bilsh.store.merge import to_merge, write_bitmaps, write_segment
from bilsh.store.records import FIXED_BYTES, Record, make_record
from bilsh.store.rows import Layout, RowSet, joined, make_rows
from bilsh.store.sections import FileRef, SectionFile
from bilsh.store.segment import Segment
from bilsh.store.snapshot import Snapshot, locate, locate_one
from bilsh.store.tail import Tail
from bilsh.store.writer import Writer
from bilsh.types import Progress

FLUSH_BYTES = 64 << 20
_NONE = np.empty(0, np.int64)


class Change:
    """Built up by :meth:`insert` and :meth:`delete`, made true by :meth:`commit`; `base` stays as it is.

    Rows wait in memory until there are 64 MiB of them and are then written as a segment that no manifest
    names yet. A small change that follows another small one is one record of the log instead.
    """

    def __init__(self, writer: Writer, base: Snapshot, use_map: bool) -> None:
        self._writer, self._base, self._use_map = writer, base, use_map
        self._segments = list(base.files_segments)
        self._layout = base.tail.layout if base.tail else Layout.of(base.manifest)
        self._kind = base.manifest.id_kind
        self._next_id = base.next_id
        self._index = writer.index_of(base.tail)
        self._pending: list[RowSet] = []
        self._pending_keys: set[bytes] = set()
        self._deleted: list[NDArray[np.int64]] = []
        self._deleted_in_tail: set[int] = set()
        self._folded = base.tail is None
        self._calibration = base.calibration
        self._changed = self._marked = self._rewritten = False
        self._inserted = self._pending_bytes = 0

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
        after = self._next_id + len(codes)
        if names is None:
            names = next_names(self._kind, self._next_id, len(codes))
        else:
            self._settle(names, overwrite)
            if names.ints is not None:
                after = max(self._next_id, int(names.ints.max()) + 1)
        self._kind = names.kind
        if names.kind != self._layout.id_kind:
            self._layout = replace(self._layout, id_kind=names.kind)
        ids = names.ints
        if ids is None:
            ids = np.arange(self._next_id, after, dtype=np.int64)
            self._pending_keys.update(names.keys or ())
        self._next_id = after
        rows = make_rows(self._layout, codes, ids, names, vectors, metadata)
        self._pending.append(rows)
        self._pending_bytes += rows.nbytes
        self._inserted += len(codes)
        self._changed = True
        if self._pending_bytes >= FLUSH_BYTES:
            self._flush()

    def delete(self, names: Names) -> int:
        """Mark rows as deleted; ids that are not there are passed over. Return how many were."""
        where, rows = locate(self._segments, names)
        return self._delete_found(names, where, rows) + self._delete_in_tail(*self._in_tail(names))

    def merge_all(self) -> None:
        """Rewrite all segments as one, without dead rows; in cells, where there are any."""
        tail = self._fold()
        if tail or len(self._segments) > 1 or any(segment.ref.dead for segment in self._segments):
            if any(segment.has("cells") for segment in self._segments):
                self._merge_into_cells(tail)
            else:
                self._merge(list(range(len(self._segments))), tail)

    def merge_smallest(self) -> bool:
        """Rewrite the one segment with dead rows that has the fewest living; False when there is none."""
        numbers = [i for i, segment in enumerate(self._segments) if segment.ref.dead]
        if not numbers:
            return False
        number = min(numbers, key=lambda i: self._segments[i].n_alive)
        celled = self._segments[number]
        if not celled.has("cells") or not self._write_cells([celled], [], 1, self._workshop().before(celled)):
            self._merge([number])
        return True

    def build_cells(self, n_cells: int | str, *, n_jobs: int = 1, progress: Progress | None = None) -> int:
        """Rewrite all segments as one in the order of new cells; return their number, 0 where items are too few."""
        tail = self._fold()
        made = self._write_cells(self._segments, tail, n_cells, None, n_jobs=n_jobs, progress=progress)
        self._pending += [] if made else tail
        return made

    def calibrate(
        self, queries: NDArray[Any] | None, *, n_jobs: int = 1, progress: Progress | None = None
    ) -> None:
        """Measure anew what promised recalls rest on, by queries (codes; descriptors of learned codes) or by items."""
        celled = next(segment for segment in self._segments if segment.has("cells"))
        self._calibration = self._workshop(n_jobs, progress).calibration(celled, queries)
        self._rewritten = self._changed = True

    def commit(self) -> Snapshot:
        """Make the change durable and return the version it makes; the old one where nothing changed."""
        if not self._changed:
            return self._base
        if self._inserted:
            self._writer.reserve.keep(self._inserted + sum(segment.rows for segment in self._segments))
        record = self._as_record()
        if record is not None and self._writer.takes(record, self._base.tail) and self._in_order():
            return self._append(record)
        self._flush()
        self._segments = [segment for segment in self._segments if segment.n_alive]
        following = self._writer.follows(small=record is not None)
        if self._writer.reserve.given_up:
            following = False  # what can wait does
        else:
            self._merge_where_due()
        return self._commit(self._base.version + 1, self._base.manifest.version, following)

    def let_go(self) -> None:
        """Keep nothing open of a change that failed."""
        self._segments, self._pending, self._calibration = [], [], None

    def restate(self, version: int, base: int, repaired_from: int | None) -> Snapshot:
        """Commit what the version at hand holds under another number: for repairs and backups."""
        self._flush()
        return self._commit(version, base, False, repaired_from)

    def _append(self, record: Record) -> Snapshot:
        self._writer.append(record, self._base.manifest.version)
        base, tail = self._base, self._writer.tail(self._layout)
        return Snapshot(
            record.version, record.next_id, base.manifest, base.encoder, tuple(self._segments), base.deletes, tail,
            base.calibration,
        )  # fmt: skip

    def _commit(self, version: int, base: int, following: bool, repaired_from: int | None = None) -> Snapshot:
        refs, deletes = self._write_bitmaps()
        ready = self._new_log(version) if following and self._kind else None
        celled = any(segment.has("cells") for segment in self._segments)
        calibration = self._calibration if celled else None
        manifest = replace(
            self._base.manifest,
            format=3 if celled else 2 if ready else 1,
            version=version,
            time=seconds(),
            id_kind=self._kind,
            next_id=self._next_id,
            segments=refs,
            deletes=deletes.ref if deletes else None,
            repaired_from=repaired_from,
            log=ready.ref if ready else None,
            calibration=calibration.ref if calibration else None,
        )
        # The new version is opened before it is committed: once committed, nothing may fail any more.
        segments = tuple(
            Segment(segment.file, ref, self._layout, segment.alive)
            for segment, ref in zip(self._segments, refs, strict=True)
        )
        tail = Tail(ready.ref, self._layout, version, 0, ready.end, ready.pile) if ready else None
        place = version, self._next_id, manifest
        snapshot = Snapshot(*place, self._base.encoder, segments, deletes, tail, calibration)
        self._writer.commit(manifest, base=base)
        self._writer.use_log(ready)
        return snapshot

    def _new_log(self, version: int) -> LogWriter | None:
        named = self._writer.named()
        try:
            return self._writer.new_log(self._layout, version)
        except OSError as error:
            self._forgive(error, named)
            return None

    def _forgive(self, error: OSError, named: int) -> None:
        """Go without housekeeping where there is no room for it: that is no reason to refuse the change itself."""
        if not no_room(error) or isinstance(error, SyncFailed | CorruptStoreError):
            raise error
        self._writer.drop_after(named)

    def _as_record(self) -> Record | None:
        """The change as a record of the log; None when it is not small, or more than rows and deletions."""
        if self._rewritten:
            return None
        pending, gone = self._pending, self._deleted or [_NONE]
        deleted = np.concatenate(gone) if len(gone) > 1 else gone[0]
        if FIXED_BYTES + deleted.nbytes + self._pending_bytes > log.MAX_RECORD:
            return None
        rows = joined(pending) if len(pending) > 1 else pending[0] if pending else None
        return make_record(self._base.version + 1, self._next_id, deleted, rows)

    def _settle(self, names: Names, overwrite: bool) -> None:
        """Make room for new rows of these ids."""
        if not self._changed and names.ints is not None and len(names.ints) == 1:
            return self._settle_one(names, names.ints, overwrite)
        where, rows = locate(self._segments, names)
        if self._inserted:
            self._refuse_twice(names, where)
        in_tail, numbers = self._in_tail(names)
        if not overwrite:
            refuse_taken(names, (where >= 0) | in_tail)
        self._delete_found(names, where, rows)
        self._delete_in_tail(in_tail, numbers)

    def _settle_one(self, names: Names, numbers: NDArray[np.int64], overwrite: bool) -> None:
        """Make room for the first row of a change, which often is the only one: without arrays."""
        number = int(numbers[0])
        place, row = locate_one(self._segments, number)
        if place < 0 and number not in self._index:
            return
        if not overwrite:
            refuse_taken(names, np.ones(1, dtype=np.bool_))
        if place >= 0:
            self._segments[place], self._marked = self._segments[place].deleting(np.array([row])), True
        else:
            self._deleted_in_tail.add(number)
        self._deleted.append(numbers)

    def _refuse_twice(self, names: Names, where: NDArray[np.int64]) -> None:
        """Refuse ids that an earlier batch of this change has brought."""
        twice = where >= len(self._base.files_segments)
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

    def _delete_found(self, names: Names, where: NDArray[np.int64], rows: NDArray[np.int64]) -> int:
        ids, count = names.ints, 0
        for number in sorted({*where.tolist()} - {-1}):
            segment, mine = self._segments[number], where == number if len(where) > 1 else slice(None)
            dying = once(rows[mine])
            self._deleted += [segment.file.take("ids", dying)[:, 0] if ids is None else once(ids[mine])]
            self._segments[number] = segment.deleting(dying)
            self._changed = self._marked = True
            count += len(dying)
        return count

    def _in_tail(self, names: Names) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        there, numbers = self._index.find(names)
        if self._deleted_in_tail:
            there &= ~np.isin(numbers, np.array(sorted(self._deleted_in_tail), dtype=np.int64))
        return there, numbers

    def _delete_in_tail(self, there: NDArray[np.bool_], numbers: NDArray[np.int64]) -> int:
        dying = once(numbers[there])
        if len(dying):
            self._deleted.append(dying)
            self._deleted_in_tail.update(dying.tolist())
            self._changed = True
        return len(dying)

    def _fold(self) -> list[RowSet]:
        """Living rows of the log, which the manifest to come does not name; once."""
        if self._folded or self._base.tail is None:
            return []
        self._folded = True
        rows = self._base.tail.rows
        if rows is None:
            return []
        alive = ~np.isin(rows.arrays["ids"][:, 0], np.array(sorted(self._deleted_in_tail), dtype=np.int64))
        self._changed = True
        return [joined([rows], alive)] if alive.any() else []

    def _flush(self) -> None:
        sources = self._fold() + self._pending
        if sources:
            self._segments.append(self._write(sources))
            self._pending, self._pending_bytes, self._pending_keys = [], 0, set()

    def _write(self, sources: Sequence[RowSet | Segment]) -> Segment:
        self._rewritten = True
        ref = write_segment(self._writer.directory, self._writer.new_name("s", "seg"), self._layout, sources)
        return Segment(self._open(ref, b"SEGM"), ref, self._layout, None)

    def _open(self, ref: FileRef, kind: bytes) -> SectionFile:
        return self._writer.open_made(ref, kind, self._layout.fingerprint, self._use_map)

    def _merge(self, numbers: list[int], more: Sequence[RowSet] = ()) -> None:
        alive = [self._segments[i] for i in numbers if self._segments[i].n_alive]
        sources: list[RowSet | Segment] = [*sorted(alive, key=_first_id), *more]
        merged = [self._write(sources)] if sources else []
        self._segments = [s for i, s in enumerate(self._segments) if i not in set(numbers)] + merged
        self._changed = True

    def _to_merge(self) -> list[int]:
        """Segments to rewrite as one; that of the cells has a rule of its own."""
        plain = [i for i, segment in enumerate(self._segments) if not segment.has("cells")]
        return [plain[i] for i in to_merge([self._segments[i].ref for i in plain])]

    def _in_order(self) -> bool:
        """Whether no deletion of this change makes a merge due; what was due before had its chance with the log."""
        return not self._marked or not (merge_into_cells(self._segments) or self._to_merge())

    def _merge_where_due(self) -> None:
        into_cells = merge_into_cells(self._segments)
        numbers = [] if into_cells else self._to_merge()
        if into_cells or numbers:
            named = self._writer.named()
            try:
                if into_cells:
                    self._merge_into_cells([])
                else:
                    self._merge(numbers)
            except OSError as error:
                self._forgive(error, named)

    def _merge_into_cells(self, more: Sequence[RowSet]) -> None:
        celled = next(segment for segment in self._segments if segment.has("cells"))
        before = self._workshop().before(celled)
        if not self._write_cells(self._segments, more, before.asked or "auto", before):
            self._merge(list(range(len(self._segments))), more)

    def _write_cells(
        self,
        segments: Sequence[Segment],
        more: Sequence[RowSet],
        n_cells: int | str,
        before: Arrangements | None,
        *,
        n_jobs: int = 1,
        progress: Progress | None = None,
    ) -> int:
        """Rewrite some segments as one in the order of cells, with a calibration; return the number of cells."""
        alive = [segment for segment in segments if segment.n_alive]
        sources: list[RowSet | Segment] = [*sorted(alive, key=_first_id), *more]
        shop = self._workshop(n_jobs, progress)
        celled = shop.cells(sources, n_cells, before)
        if celled is None:
            return 0
        calibration = shop.calibration(celled, shop.queries_of(self._calibration))
        self._rewritten = self._changed = True
        gone = {segment.file.name for segment in segments}
        self._segments = [segment for segment in self._segments if segment.file.name not in gone] + [celled]
        self._calibration = calibration
        return celled.file.sections["centres"].rows

    def _workshop(self, n_jobs: int = 1, progress: Progress | None = None) -> Workshop:
        return Workshop(self._writer, self._layout, self._base.coder(), self._use_map, n_jobs, progress)

    def _write_bitmaps(self) -> tuple[tuple[SegmentRef, ...], SectionFile | None]:
        """Write the bitmaps of all segments into one file; the old one serves where none has changed."""
        stored = {ref.file: ref for ref in self._base.manifest.segments}
        dead = {file: ref.dead for file, ref in stored.items()}  # they only ever become more
        marked = [segment for segment in self._segments if segment.alive is not None]
        if not marked:
            return tuple(segment.ref for segment in self._segments), None
        if all(dead.get(segment.ref.file) == segment.ref.dead for segment in marked):
            return tuple(stored.get(s.ref.file, s.ref) for s in self._segments), self._base.deletes
        refs, written = write_bitmaps(
            self._writer.directory,
            self._writer.new_name("d", "del"),
            self._layout.fingerprint,
            self._segments,
        )
        return refs, self._open(written, b"DEAD")


def _first_id(segment: Segment) -> int:
    return int(segment.rows_of("ids", 0, 1)[0, 0])
