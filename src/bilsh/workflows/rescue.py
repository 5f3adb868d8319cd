"""What is left of a damaged store: every item whose blocks have the right checksums, and which ones were lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import CorruptStoreError, InvalidInputError
from bilsh.files import replace_file
from bilsh.store import Batch, Store
from bilsh.store.celled import Arrangement
from bilsh.store.items import Items
from bilsh.store.maintenance import Version
from bilsh.store.recipe import read_recipe, write_recipe
from bilsh.store.segment import Segment
from bilsh.types import Progress, silent
from bilsh.workflows.building import building

ROWS = 4096


@dataclass(frozen=True, slots=True)
class Survey:
    """What of a store can be read.

    Attributes
    ----------
    whole : list of (segment, bool array)
        The rows of each segment that live and can be read.
    lost : list
        Ids of living items that cannot; where the ids are damaged too, the place, "row 17 of s-....seg".
    """

    whole: list[tuple[Segment, NDArray[np.bool_]]]
    lost: list[Any]

    @property
    def items(self) -> int:
        """Number of items that can be read."""
        return int(sum(rows.sum() for _, rows in self.whole))


@dataclass(frozen=True, slots=True)
class Rescued:
    """What :func:`drop_damaged` did."""

    items: int
    lost: int
    lost_file: str | None
    damaged: str


def survey(store: Store) -> Survey:
    """Read every block of a store and tell which items are whole."""
    whole, lost = [], []
    segments = store.loose_segments
    for segment, deleted in segments:
        bad = _damaged_rows(segment)
        alive = segment.alive_bits(0, len(segment))
        lives = np.ones(len(segment), dtype=np.bool_) if alive is None else alive.copy()
        lives &= ~_rows_with(segment, deleted)
        lost += _names(segment, np.flatnonzero(lives & bad))
        whole.append((segment, lives & ~bad))
    # A row that the log replaced, and whose number is damaged, looks alive; its item is in the log, which comes last.
    if lost and len(segments[0][1]) and not len(segments[-1][1]):
        kept = set(_names(segments[-1][0], np.flatnonzero(whole[-1][1])))
        lost = [item for item in lost if item not in kept]
    return Survey(whole, lost)


def walk_whole(store: Store, found: Survey) -> Iterator[Items]:
    """Items that can be read, some at a time; codes as they were given."""
    order = store.coder.order
    for segment, rows in found.whole:
        for start, stop in _runs(rows):
            for at in range(start, stop, ROWS):
                items = _items(segment, at, min(at + ROWS, stop))
                yield items if order is None else replace(items, codes=order.undo(items.codes))


def check_versions(path: Path) -> list[Version]:
    """Versions of a store, oldest first, each with what is wrong with it after every byte of it was read."""
    checked = []
    for version in Store.versions(path):
        problem = version.problem
        if problem is None:
            try:
                with Store.open(path, version=version.version) as store:
                    _ = store.coder
                    found = survey(store)
                    if not found.lost:
                        store.verify(deep=True)
                    else:
                        lost, items = len(found.lost), len(found.lost) + found.items
                        problem = f"{lost:,} of {items:,} items are damaged"
            except CorruptStoreError as error:
                problem = str(error)
        checked.append(replace(version, problem=problem))
    return checked


def drop_damaged(path: Path, *, progress: Progress = silent) -> Rescued:
    """Put all whole items of a damaged store into a new one at its place; the damaged one stays beside it.

    The ids that were lost go to `<store>.lost.txt`: integers, or JSON strings, one per line. Cells are made anew; a
    calibration is not, since it was of other items.
    """
    aside = path.with_name(f"{path.name}.damaged")
    if aside.exists():
        raise InvalidInputError(f"{aside} is there from an earlier repair. Move or remove it first.")
    with Store.open(path, mode="a") as store:
        found = survey(store)
        if not found.lost and _is_whole(store):
            raise InvalidInputError(f"every item of {path} is whole; there is nothing to drop.")
        recipe = read_recipe(path)
        with building(path, aside=aside) as new:
            with Store.create(new, store.coder, keep_vectors=store.keep_vectors) as target:
                if found.items:
                    target.add_codes(_batches(store, found, progress), fingerprint=store.fingerprint)
                if store.n_cells:
                    target.build_cells(_asked_cells(store), progress=progress)
            if recipe is not None:
                write_recipe(new, recipe)
    if not found.lost:
        return Rescued(found.items, 0, None, str(aside))
    listed = path.with_name(f"{path.name}.lost.txt")
    with replace_file(listed) as file:
        file.writelines(json.dumps(item).encode() + b"\n" for item in found.lost)
    return Rescued(found.items, len(found.lost), str(listed), str(aside))


def _is_whole(store: Store) -> bool:
    """Whether every byte is as written, also of what finds items: cells, hashes of names."""
    try:
        store.verify(deep=True)
    except CorruptStoreError:
        return False
    return True


def _asked_cells(store: Store) -> int | str:
    """Number of cells that was asked for; "auto" too where it cannot be read."""
    celled = next(segment for segment, _ in store.loose_segments if segment.has("cells"))
    try:
        return Arrangement.of(celled).asked or "auto"
    except CorruptStoreError:
        return "auto"


def _batches(store: Store, found: Survey, say: Progress) -> Iterator[Batch]:
    done = 0
    for items in walk_whole(store, found):
        yield Batch(items.codes, items.ids, items.metadata, items.vectors)
        done += len(items)
        say("saving items", done, found.items)


def _damaged_rows(segment: Segment) -> NDArray[np.bool_]:
    """Rows of which any part lies in a damaged block."""
    bad = np.zeros(len(segment), dtype=np.bool_)
    fixed = ["ids", *(f"code{i}" for i in range(len(segment.layout.widths)))]
    fixed += [name for name in ("vectors", "keys_ends", "meta_ends") if segment.has(name)]
    try:
        for name in fixed:
            for start, stop in segment.file.damaged(name):
                # The end of one text is the start of the next.
                bad[start : stop + name.endswith("_ends")] = True
        for name in ("keys", "meta"):
            if segment.has(name):
                for start, stop in segment.file.damaged(name):
                    bad |= _touched(segment, f"{name}_ends", start, stop, bad)
    except CorruptStoreError:
        bad[:] = True  # without its table of checksums nothing of a file can be trusted
    return bad


def _rows_with(segment: Segment, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Rows whose ids are among these, where ids can be read."""
    found = np.zeros(len(segment), dtype=np.bool_)
    if len(numbers):
        readable = ~found
        for start, stop in segment.file.damaged("ids"):
            readable[start:stop] = False
        for start, stop in _runs(readable):
            found[start:stop] = np.isin(segment.file.rows_of("ids", start, stop)[:, 0], numbers)
    return found


def _touched(segment: Segment, ends: str, start: int, stop: int, bad: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Rows whose texts reach into the bytes [start, stop)."""
    touched = np.zeros(len(bad), dtype=np.bool_)
    for first, last in _runs(~bad):
        upper = segment.file.rows_of(ends, first, last)[:, 0]
        lower = np.concatenate(
            [segment.file.rows_of(ends, first - 1, first)[:, 0] if first else [0], upper[:-1]]
        )
        touched[first:last] = (upper > start) & (lower < stop)
    return touched


def _runs(rows: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Ranges [start, stop) of rows that are true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], rows, [False]]).astype(np.int8)))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def _items(segment: Segment, start: int, stop: int) -> Items:
    part = segment.part(start, stop)
    keys = segment.read_items("keys", start, stop) if segment.has("keys") else None
    notes = segment.read_items("meta", start, stop) if segment.has("meta") else None
    return Items(
        part.ids if keys is None else segment.strings(keys),
        np.hstack(part.slabs),
        part.vectors,
        [None] * (stop - start) if notes is None else segment.parse(notes),
    )


def _names(segment: Segment, rows: NDArray[np.int64]) -> list[Any]:
    """Ids of rows, or their places where the ids cannot be read."""
    found: list[Any] = []
    for row in rows.tolist():
        try:
            if segment.has("keys"):
                found.append(str(segment.strings(segment.read_items("keys", row, row + 1))[0]))
            else:
                found.append(int(segment.file.rows_of("ids", row, row + 1)[0, 0]))
        except CorruptStoreError:
            found.append(f"row {row} of {segment.file.name}")
    return found


__all__ = ["Rescued", "Survey", "check_versions", "drop_damaged", "survey", "walk_whole"]
