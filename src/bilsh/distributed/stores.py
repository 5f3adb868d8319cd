"""Staged segments into a store: checked, committed once, and known to be committed ever after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from bilsh.distributed.plan import Plan, Receipt, receipt_name, receipts
from bilsh.errors import CorruptStoreError, StoreBusyError
from bilsh.files import replace_file
from bilsh.store import Store
from bilsh.store.files import Directory
from bilsh.store.manifest import IdKind
from bilsh.store.sections import FileRef
from bilsh.store.snapshot import open_file
from bilsh.store.staging import adopt

JOBS = "jobs.json"


def into_store(plan: Plan, folder: Path, found: list[Receipt]) -> list[int]:
    """Check every byte of the staged segments and commit them; the blocks whose segments are damaged, if any."""
    if committed(plan, folder):
        return []
    damaged = [
        receipt.block
        for receipt in found
        if receipt.segment is not None and not _is_whole(folder, receipt.segment, plan)
    ]
    refs = [receipt.segment for receipt in found if receipt.segment is not None]
    if damaged or not refs:
        return damaged
    with Store.open(plan.destination, "a") as store:
        base = plan.base if plan.base is not None else store.version
        if store.version != base:
            raise StoreBusyError(
                f"{plan.destination} is at version {store.version}; this job was planned on version {base}. Remove "
                f"{folder} and begin anew: its items would get ids that are taken."
            )
        kind: IdKind = "str" if plan.names else "int"
        adopt(store, Directory(folder), refs, kind, _next_id(plan, folder, refs), base)
    return []


def _next_id(plan: Plan, folder: Path, refs: list[FileRef]) -> int:
    """First integer after all ids; numbers behind names, and rows, are counted by the plan."""
    last = plan.first_id + plan.stop - plan.start
    if plan.names:
        return last
    for ref in refs:
        file = open_file(Directory(folder), ref, b"SEGM", plan.fingerprint, False)
        last = max(last, int(file.array("ids").max()) + 1)
        file.close()
    return last


def _is_whole(folder: Path, ref: FileRef, plan: Plan) -> bool:
    try:
        file = open_file(Directory(folder), ref, b"SEGM", plan.fingerprint, False)
        file.check_all()
        file.close()
    except (CorruptStoreError, FileNotFoundError):
        return False
    return True


def forget_damaged(plan: Plan, folder: Path, blocks: list[int]) -> None:
    """Remove damaged segments and their receipts, so that they are made again."""
    for number in blocks:
        (folder / receipt_name(number)).unlink(missing_ok=True)
        (folder / plan.segment_name(number)).unlink(missing_ok=True)


def committed(plan: Plan, folder: Path) -> bool:
    """Whether the store holds the job's segments already: by their names; or, after a merge, by their rows.

    A job is committed whole, so one row that is there, id and code, tells for all.
    """
    with Store.open(plan.destination) as store:
        if store.version == plan.base:
            return False
        named = {segment.ref.file for segment in store._now.files_segments}
        if named & {plan.segment_name(number) for number in range(plan.n_blocks)}:
            return True
        return any(
            receipt is not None and receipt.segment is not None and _holds(store, receipt, folder, plan)
            for _, receipt in receipts(plan, folder)
        )


def _holds(store: Store, receipt: Receipt, folder: Path, plan: Plan) -> bool:
    """Whether the first row of a staged segment is in a store."""
    if receipt.segment is None or not _is_whole(folder, receipt.segment, plan):
        return False
    item: Any = receipt.first if plan.names else int(receipt.first or 0)
    if item not in store:
        return False
    file = open_file(Directory(folder), receipt.segment, b"SEGM", plan.fingerprint, False)
    slabs = sorted(
        (name for name in file.sections if name.startswith("code")), key=lambda name: int(name[4:])
    )
    code = np.hstack([file.rows_of(name, 0, 1) for name in slabs])
    file.close()
    order, there = store.coder.order, store.get([item]).codes
    return bool((there == (code if order is None else order.undo(code))).all())


def marked(path: Path, job: str) -> dict[str, Any] | None:
    """What is known of a job that was committed and cleared away; None of others."""
    try:
        found: dict[str, Any] | None = json.loads((path / JOBS).read_bytes()).get(job)
    except FileNotFoundError:
        return None
    return found


def mark(path: Path, job: str, items: int, blocks: int) -> None:
    """Remember that a job is done; its directory may go then."""
    try:
        known = json.loads((path / JOBS).read_bytes())
    except FileNotFoundError:
        known = {}
    with replace_file(path / JOBS) as file:
        file.write(json.dumps({**known, job: {"items": items, "blocks": blocks}}).encode())
