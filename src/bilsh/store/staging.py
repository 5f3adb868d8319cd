"""Segments that were written elsewhere, by workers of :mod:`bilsh.distributed`, become a version of a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from bilsh.errors import InvalidTypeError, StoreBusyError
from bilsh.store.change import Change
from bilsh.store.files import Directory
from bilsh.store.manifest import IdKind, SegmentRef
from bilsh.store.sections import FileRef
from bilsh.store.segment import Segment

if TYPE_CHECKING:
    from bilsh.store.store import Store


class StagedChange(Change):
    """A change that takes in whole segments."""

    def adopt(self, source: Directory, refs: Sequence[FileRef], kind: IdKind, next_id: int) -> None:
        """Take in segments of another directory; their ids must be new."""
        if self._kind not in (None, kind):
            raise InvalidTypeError(f"this store has {self._kind} ids; the segments have {kind} ids.")
        self._kind, self._layout = kind, replace(self._layout, id_kind=kind)
        for ref in refs:
            self._writer.take(source, ref.file)
            file = self._open(ref, b"SEGM")
            whole = SegmentRef(ref.file, ref.size, ref.header, rows=file.rows, dead=0, bitmap=None)
            self._segments.append(Segment(file, whole, self._layout, None))
        self._next_id = max(self._next_id, next_id)
        self._changed = self._rewritten = True

    def _merge_where_due(self) -> None:
        """Leave them as they are: merging what many machines wrote would take one machine long."""


def adopt(
    store: Store, source: Directory, refs: Sequence[FileRef], kind: IdKind, next_id: int, base: int
) -> None:
    """Commit segments, all of them as one version; durable when it returns.

    Parameters
    ----------
    store : Store
        Open for writing.
    source : Directory
        Where the segments are, on the store's file system.
    refs : sequence of FileRef
    kind : "int" or "str"
        Of their ids, which must be new.
    next_id : int
        First integer after theirs.
    base : int
        The version that they were made for; StoreBusyError where another is the newest.
    """
    with store._change(StagedChange) as change:
        if store.version != base:
            raise StoreBusyError(
                f"{store.path} is at version {store.version}; these segments were made for version {base}. "
                "Another writer was there in between."
            )
        cast(StagedChange, change).adopt(source, refs, kind, next_id)
