"""What a worker does with one block: read, encode, write, leave a receipt. Doing it twice is doing it once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import Codes
from bilsh.distributed.plan import ENCODER, Plan, Receipt
from bilsh.distributed.sources import Generated, reopened
from bilsh.encoders.coder import Coder
from bilsh.engines import open_collection
from bilsh.engines.base import external
from bilsh.errors import BilshError, InvalidInputError
from bilsh.store.files import Directory
from bilsh.store.ids import Names, as_names
from bilsh.store.inputs import as_vectors
from bilsh.store.merge import write_segment
from bilsh.store.rows import Layout, RowSet, make_rows
from bilsh.store.sections import FileRef
from bilsh.workflows.exchange import Digest
from bilsh.workflows.resuming import rows_per_batch
from bilsh.workflows.sources import ImageSource, Piece, Source

READ_ROWS = 8192


class JobEnded(BilshError):
    """The job's directory is gone: it was committed, or given up. Nothing is left to do."""


@lru_cache(maxsize=4)
def _coder(path: str, fingerprint: str) -> Coder:
    """The job's encoder: read once per process, not sent with every block."""
    return Coder.from_bytes(Path(path).read_bytes(), path)


def encode_block(folder: str, number: int, generated: Generated | None = None) -> Receipt:
    """Encode one block of a job; the receipt of a twin is taken as it is."""
    place = Path(folder)
    try:
        plan = Plan.read(place)
        found = Receipt.read(place, number)
        if found is not None:
            return found
        data = reopened(plan.source, place, generated)
        check_source(plan, data)
        coder = _coder(str(place / ENCODER), plan.fingerprint)
        receipt = _encoded(plan, place, number, data, coder)
        receipt.write(place)
        return receipt
    except FileNotFoundError as error:
        if not (place / "plan.json").exists():
            raise JobEnded(f"the job in {place} has ended; block {number} is not needed any more.") from error
        raise


def check_source(plan: Plan, data: Source) -> None:
    """Refuse a source whose size or time has changed since the plan.

    The driver looks at the content too, and at the many files of a folder, before it commits.
    """
    if isinstance(data, ImageSource):
        return
    now = data.identity()
    if any(plan.identity[name] != value for name, value in now.items() if name != "path"):
        raise InvalidInputError(
            f"{plan.identity['path']} has changed since the job was planned. Remove the job's directory and begin anew."
        )


def _encoded(plan: Plan, folder: Path, number: int, data: Source, coder: Coder) -> Receipt:
    start, stop = plan.range(number)
    parts = list(_parts(plan, data, coder, start, stop))
    skipped = tuple((str(item.path), item.reason) for part in parts for item in part.piece.skipped)
    parts = [part for part in parts if len(part.codes)]
    digest = Digest()
    for part in parts:
        digest.update(external(part.names), part.codes)
    sha = " ".join(f"{name} {value}" for name, value in sorted(digest.parts().items()))
    rows = sum(len(part.codes) for part in parts)
    first = str(external(parts[0].names)[0]) if rows else None
    last = str(external(parts[-1].names)[-1]) if rows else None
    segment = None
    if plan.base is not None:
        segment = _staged(plan, folder, number, parts, coder) if rows else None
    elif rows:
        _sent(plan, parts, coder)
    return Receipt(number, start, stop, rows, first, last, sha, segment, skipped)


@dataclass(frozen=True, slots=True)
class Part:
    """Some encoded items."""

    piece: Piece
    codes: Codes
    numbers: NDArray[np.int64]
    names: Names
    vectors: NDArray[Any] | None


def _parts(plan: Plan, data: Source, coder: Coder, start: int, stop: int) -> Iterator[Part]:
    step, at = rows_per_batch(READ_ROWS, data.item_shape), plan.first_id + start - plan.start
    for first in range(start, stop, step):
        piece = data.read(first, min(first + step, stop))
        # One thread: there are as many workers as cores.
        codes = coder.encode(piece.X, n_jobs=1) if len(piece.X) else np.empty((0, coder.n_bytes), np.uint8)
        numbers = np.arange(at, at + len(codes), dtype=np.int64)
        at += len(codes)
        names = Names("int", ints=numbers) if piece.ids is None else as_names(_listed(piece.ids), None)
        kept = plan.keep_vectors
        vectors = as_vectors(piece.X, kept, coder.n_features) if kept and len(codes) else None
        yield Part(piece, codes, numbers if names.ints is None else names.ints, names, vectors)


def _listed(ids: Any) -> Any:
    return ids.tolist() if isinstance(ids, np.ndarray) and ids.dtype.kind == "U" else ids


def _staged(plan: Plan, folder: Path, number: int, parts: list[Part], coder: Coder) -> FileRef:
    """Write a segment in a directory of its own, then give it its name among the others, in one step."""
    kind = parts[0].names.kind
    layout = Layout(plan.fingerprint, coder.n_bits, coder.n_features, kind, plan.keep_vectors)
    rows: list[RowSet] = [
        make_rows(layout, part.codes, part.numbers, part.names, part.vectors, None) for part in parts
    ]
    name, own = plan.segment_name(number), folder / f"try-{token_hex(8)}"
    own.mkdir()
    try:
        private, shared = Directory(own), Directory(folder)
        ref = write_segment(private, name, layout, rows)
        if not shared.adopt(private, name) and not (folder / name).exists():
            raise OSError(
                f"{folder / name} could not be linked: staging needs a file system with hard links."
            )
        shared.sync()
        return FileRef(ref.file, ref.size, ref.header)
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _sent(plan: Plan, parts: list[Part], coder: Coder) -> None:
    """Write to an engine: idempotent by id, durable before the receipt."""
    with open_collection(plan.destination, "a") as there:
        for part in parts:
            codes = there.spec.given(part.codes)
            there.upsert(external(part.names), codes, fingerprint=coder.fingerprint)
        there.flush()
