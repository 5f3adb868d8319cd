"""The driver: plans a job, hands out its blocks, and commits them once, all or none.

Five steps. The plan fixes blocks, source, encoder and base version. A worker encodes a block into a checksummed segment
beside the store and leaves a receipt. The receipts on disk, not the driver's memory, say what is done; so a dead driver
goes on. When every block has one, the segments are checked and become one version of the store. Whatever is run again
finds its work done.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bilsh.distributed.plan import ENCODER, Plan, Receipt, check_partition, job_name, receipts
from bilsh.distributed.sources import Generated, described, identity_of
from bilsh.distributed.stores import committed, forget_damaged, into_store, mark, marked
from bilsh.distributed.worker import encode_block
from bilsh.encoders.coder import Coder
from bilsh.engines import Address, create, open_collection
from bilsh.errors import BilshError, DataNotFoundError, IncompatibleCodesError, InvalidInputError
from bilsh.files import replace_file
from bilsh.store import Store
from bilsh.store.creation import coder_for
from bilsh.store.manifest import VectorKind
from bilsh.store.recipe import Settings
from bilsh.types import Progress
from bilsh.validation import check_integer
from bilsh.workflows.sources import ArraySource, ImageSource, Source

STAGING = "staging"
BLOCKS = 16
"""A store keeps up to so many segments without merging any."""

MIN_BLOCK, MAX_BLOCK_BYTES = 1024, 128 << 20
IN_FLIGHT = 32
"""Blocks handed out at a time: enough for many workers, and finished ones are let go of."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """What a job did.

    Attributes
    ----------
    destination : str
    items : int
        Items of this job that are in the destination.
    blocks : int
        Blocks of the job.
    encoded : int
        Blocks that this run had to encode; the others were done already.
    skipped : tuple of (path, reason)
    job : str
    """

    destination: str
    items: int
    blocks: int
    encoded: int
    skipped: tuple[tuple[str, str], ...]
    job: str


def encode(
    source: str | os.PathLike[str] | Source,
    encoder: Any,
    destination: str | os.PathLike[str],
    executor: Executor,
    *,
    key: str | None = None,
    ids: Any = None,
    id_column: str | None = None,
    settings: Settings | None = None,
    block: int | None = None,
    keep_vectors: VectorKind | None = None,
    work: str | os.PathLike[str] | None = None,
    start: int = 0,
    progress: Progress | None = None,
) -> Encoded:
    """Encode a source on the workers of an executor, into one store or one collection: nothing lost, nothing doubled.

    Run it again after any failure, with the same arguments: it goes on where the receipts end, and does nothing where
    all is done.

    Parameters
    ----------
    source : path, Source or Generated
        Array file (.npy, .parquet, .h5, ...) on a file system that all workers see; or items that a function makes, see
        :class:`Generated`; or a folder of images as :class:`bilsh.workflows.sources.ImageSource`, with `settings`.
    encoder : fitted encoder
    destination : str or path
        A store, new or there; or an engine's address.
    executor : concurrent.futures.Executor
        A process pool, ``dask.distributed.Client.get_executor()``, ``mpi4py.futures.MPIPoolExecutor``, ...
    key, ids, id_column
        As in `bilsh encode`: which array; ids, or the column that holds them. By default items go by their row.
    settings : Settings, optional
        How images are described.
    block : int, optional
        Items per block; by default a sixteenth of all, within 1,024 items and 128 MiB of codes.
    keep_vectors : "float32", "float16" or None
        For a new store.
    work : path, optional
        Directory for plan and receipts, for engines; by default ``bilsh-<job>`` here. Stores have theirs inside.
    start : int
        First item of the source that is not in the destination yet.
    progress : callable (what, done, total), optional

    Returns
    -------
    Encoded
    """
    say = progress or (lambda what, done, total: None)
    coder = coder_for(encoder, None, None)
    data = _source(source, key, ids, id_column)
    generated = data if isinstance(data, Generated) else None
    rows = block or default_block(data.rows - start, coder.n_bytes)
    check_integer("block", rows, minimum=1)
    where = Address.of(destination)
    identity = identity_of(data)
    job = job_name(identity, start, data.rows, rows, coder.fingerprint)
    if where.scheme == "store":
        path = Path(where.rest)
        folder = path / STAGING / job
        with _store(path, coder, keep_vectors) as store:
            if (done := marked(path, job)) is not None:
                _clear(folder)  # an earlier run may have died right here
                return Encoded(str(path), done["items"], done["blocks"], 0, (), job)
            base, next_id, kept = store.version, store.next_id, store.keep_vectors
            if len(store) and getattr(data, "ids", None) is not None:
                raise InvalidInputError(
                    f"{path} holds {len(store):,} items; ids of one's own go into a new store, where none can be taken."
                )
    else:
        if where.scheme == "faiss":
            raise InvalidInputError(
                "a FAISS file has one writer. Encode into a store, and `bilsh copy` that."
            )
        base, next_id, kept = None, start, None
        folder = Path(work) if work is not None else Path(f"bilsh-{job}")
    names = isinstance(data, ImageSource) or _strings(getattr(data, "ids", None))
    plan = _planned(
        folder,
        job,
        data,
        identity,
        start,
        rows,
        coder,
        str(destination),
        base,
        next_id,
        names,
        kept,
        settings,
    )
    if plan.base is None:
        _collection(plan, coder)
    encoded = _run(plan, folder, executor, generated, say)
    found = _whole(plan, folder)
    if _identity(data, source, key, ids, id_column) != plan.identity:
        raise _changed(plan)
    skipped = tuple(item for receipt in found for item in receipt.skipped)
    items = sum(receipt.rows for receipt in found)
    if plan.base is not None:
        damaged = into_store(plan, folder, found)
        if damaged:
            forget_damaged(plan, folder, damaged)
            encoded += _run(plan, folder, executor, generated, say)
            found = _whole(plan, folder)
            if into_store(plan, folder, found):
                raise BilshError(
                    f"segments in {folder} are damaged again: the disk or the network is at fault."
                )
        mark(Path(where.rest), job, items, plan.n_blocks)
        _clear(folder)
    else:
        _count(plan, items)
    return Encoded(str(destination), items, plan.n_blocks, encoded, skipped, job)


def default_block(rows: int, n_bytes: int) -> int:
    """Items per block: a sixteenth of all, but neither tiny nor more than fits a worker's memory."""
    return int(np.clip(-(-rows // BLOCKS), MIN_BLOCK, max(MIN_BLOCK, MAX_BLOCK_BYTES // n_bytes)))


def _source(source: Any, key: str | None, ids: Any, id_column: str | None) -> Source:
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if not path.exists():
            raise DataNotFoundError(f"{path} does not exist. Check the path.")
        if path.is_dir():
            raise InvalidInputError(
                f"{path} is a folder: pass an ImageSource with its settings, or use `bilsh encode --workers`."
            )
        return ArraySource(path, key, ids=ids, id_column=id_column)
    found: Source = source
    return found


def _identity(data: Source, source: Any, key: str | None, ids: Any, id_column: str | None) -> dict[str, Any]:
    """The source's identity now; an array file is opened again, since a replaced one is still mapped as it was."""
    if isinstance(data, ArraySource):
        data = ArraySource(data.path, data.key, ids=ids if ids is not None else data.ids, id_column=None)
        if id_column is not None:
            data = ArraySource(data.path, key, id_column=id_column)
    return identity_of(data)


def _strings(ids: Any) -> bool:
    return ids is not None and len(ids) > 0 and isinstance(ids[0], str)


def _store(path: Path, coder: Coder, keep_vectors: VectorKind | None) -> Store:
    if not Store.exists(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        Store.create(path, coder, keep_vectors=keep_vectors).close()
    store = Store.open(path)
    there = store.fingerprint
    if there != coder.fingerprint:
        store.close()
        raise IncompatibleCodesError(
            f"{path} holds codes of encoder {there[:8]}..., not of {coder.fingerprint[:8]}.... Choose another place."
        )
    return store


def _planned(
    folder: Path,
    job: str,
    data: Source,
    identity: dict[str, Any],
    start: int,
    block: int,
    coder: Coder,
    destination: str,
    base: int | None,
    first_id: int,
    names: bool,
    keep_vectors: VectorKind | None,
    settings: Settings | None,
) -> Plan:
    """The plan that is there, or a new one; everything that workers need is laid beside it first."""
    try:
        return Plan.read(folder)
    except FileNotFoundError:
        pass
    folder.mkdir(parents=True, exist_ok=True)
    with replace_file(folder / ENCODER) as file:
        file.write(coder.to_bytes())
    how = described(data, settings, folder)
    plan = Plan(
        job, how, identity, start, data.rows, block, coder.fingerprint, destination, base, first_id, names,
        keep_vectors,
    )  # fmt: skip
    plan.write(folder)
    return plan


def _collection(plan: Plan, coder: Coder) -> None:
    try:
        there = open_collection(plan.destination, "a")
    except DataNotFoundError:
        there = create(plan.destination, coder, ids="str" if plan.names else "int")
    with there:
        if there.spec.fingerprint != coder.fingerprint:
            raise IncompatibleCodesError(
                f"{there.address} holds codes of another encoder. Choose another place."
            )
        if there.remembered(f"job {plan.job}") is None:
            there.remember(f"job {plan.job}", {"before": len(there)})


def _count(plan: Plan, items: int) -> None:
    """Compare what an engine holds with what the receipts say."""
    with open_collection(plan.destination) as there:
        before = int((there.remembered(f"job {plan.job}") or {"before": 0})["before"])
        now = len(there)
    if now != before + items:
        raise BilshError(
            f"{plan.destination} holds {now:,} items instead of {before + items:,}: it was changed meanwhile, or some "
            "ids were there before."
        )


def _run(plan: Plan, folder: Path, executor: Executor, generated: Generated | None, say: Progress) -> int:
    """Hand out all blocks without a receipt; how many there were."""
    if plan.base is not None and committed(plan, folder):
        return 0
    left = [number for number, receipt in receipts(plan, folder) if receipt is None]
    todo, total, done = len(left), plan.n_blocks, plan.n_blocks - len(left)
    say("encoding", done, total)
    waiting: set[Future[Receipt]] = set()
    left.reverse()
    try:
        while left or waiting:
            while left and len(waiting) < IN_FLIGHT:
                waiting.add(executor.submit(encode_block, str(folder), left.pop(), generated))
            ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in ready:
                future.result()
                done += 1
            say("encoding", done, total)
    except BrokenProcessPool:
        safe = sum(receipt is not None for _, receipt in receipts(plan, folder))
        raise BilshError(
            f"a worker died; {safe} of {total} blocks are done and safe. Run it again to go on."
        ) from None
    finally:
        for future in waiting:
            future.cancel()
    return todo


def _whole(plan: Plan, folder: Path) -> list[Receipt]:
    found = [receipt for _, receipt in receipts(plan, folder) if receipt is not None]
    check_partition(plan, found)
    return found


def _changed(plan: Plan) -> InvalidInputError:
    return InvalidInputError(
        f"{plan.identity['path']} has changed since the job was planned. Nothing was committed; begin anew."
    )


def _clear(folder: Path) -> None:
    """Remove a job's directory, and the one around it where no other job is."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()
