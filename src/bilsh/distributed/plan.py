"""The plan of a job: what is encoded, in which blocks, into what. It is written before the first block and never again.

A job lives in a directory that all workers see:

- ``plan.json`` and ``encoder``, written once;
- ``ids.npy`` where ids were given;
- for each block a receipt ``b-<number>.json``, and for stores the segment ``s-<hash>.seg`` that it tells of.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bilsh.errors import BilshError
from bilsh.files import replace_file
from bilsh.forks import cached_property
from bilsh.store.manifest import VectorKind
from bilsh.store.sections import FileRef

PLAN, ENCODER, IDS = "plan.json", "encoder", "ids.npy"
FORMAT = 1


@dataclass(frozen=True)
class Plan:
    """What a job does.

    Attributes
    ----------
    job : str
        Sixteen hexadecimal digits: the same for the same source, encoder and blocks.
    source : dict
        How a worker opens the source, see :mod:`bilsh.distributed.sources`.
    identity : dict
        What tells the source from a changed one.
    start, stop, block : int
        Items [start, stop) of the source, so many to a block.
    fingerprint : str
        Of the encoder.
    destination : str
        Address.
    base : int or None
        Version of a store that the job is planned on.
    first_id : int
        Id, or number behind a name, of item `start`.
    names : bool
        Whether items go by strings.
    keep_vectors : str or None
    """

    job: str
    source: dict[str, Any]
    identity: dict[str, Any]
    start: int
    stop: int
    block: int
    fingerprint: str
    destination: str
    base: int | None
    first_id: int
    names: bool
    keep_vectors: VectorKind | None

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return -(-(self.stop - self.start) // self.block)

    def range(self, number: int) -> tuple[int, int]:
        """Items of a block."""
        first = self.start + number * self.block
        return first, min(first + self.block, self.stop)

    @cached_property
    def _stem(self) -> str:
        return f"{self.job} {self.fingerprint}"

    def segment_name(self, number: int) -> str:
        """Name of a block's segment: by job, block and encoder, so that a twin makes the same."""
        digest = hashlib.sha256(f"{self._stem} {number}".encode()).hexdigest()
        return f"s-{digest[:16]}.seg"

    def write(self, folder: Path) -> None:
        """Keep the plan."""
        with replace_file(folder / PLAN) as file:
            file.write(json.dumps({"format": FORMAT, "plan": asdict(self)}, indent=1).encode())

    @classmethod
    def read(cls, folder: Path) -> Plan:
        """Read a plan; FileNotFoundError where the job has ended or never began."""
        raw = json.loads((folder / PLAN).read_bytes())
        if raw.get("format") != FORMAT:
            raise BilshError(f"{folder / PLAN} has format {raw.get('format')!r}; this bilsh reads {FORMAT}.")
        return cls(**raw["plan"])


def job_name(identity: dict[str, Any], start: int, stop: int, block: int, fingerprint: str) -> str:
    """Name of the job that encodes this; wherever the source and the destination lie."""
    what = {**identity, "path": None}
    text = json.dumps([what, start, stop, block, fingerprint], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a block.

    Attributes
    ----------
    block, rows : int
        Rows may be fewer than the block's items: images that could not be read give none.
    start, stop : int
        Items of the source.
    first, last : str or None
        First and last id, for people.
    sha256 : str
        Over ids and codes.
    segment : FileRef or None
        The staged segment; None for engines and for blocks without rows.
    skipped : tuple of (path, reason)
    """

    block: int
    start: int
    stop: int
    rows: int
    first: str | None
    last: str | None
    sha256: str
    segment: FileRef | None
    skipped: tuple[tuple[str, str], ...] = ()

    def write(self, folder: Path) -> None:
        """Lay it beside the segment."""
        with replace_file(folder / receipt_name(self.block)) as file:
            file.write(json.dumps(asdict(self)).encode())

    @classmethod
    def read(cls, folder: Path, block: int) -> Receipt | None:
        """Read the receipt of a block; None where there is none that can be read."""
        try:
            raw = json.loads((folder / receipt_name(block)).read_bytes())
            segment = raw.pop("segment")
            skipped = tuple((path, reason) for path, reason in raw.pop("skipped"))
            return cls(**raw, segment=segment and FileRef(**segment), skipped=skipped)
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return None


def receipt_name(block: int) -> str:
    """Name of a block's receipt."""
    return f"b-{block:08d}.json"


def receipts(plan: Plan, folder: Path) -> Iterator[tuple[int, Receipt | None]]:
    """Every block with its receipt."""
    for number in range(plan.n_blocks):
        yield number, Receipt.read(folder, number)


def check_partition(plan: Plan, found: list[Receipt]) -> None:
    """Refuse receipts that do not cover the items exactly once."""
    at = plan.start
    for number, receipt in enumerate(found):
        if (
            receipt.block != number
            or (receipt.start, receipt.stop) != plan.range(number)
            or receipt.start != at
        ):
            raise BilshError(f"the receipts do not cover the source: block {number} is not items {at} on.")
        at = receipt.stop
    if at != plan.stop:
        raise BilshError(f"the receipts cover items up to {at}; the plan goes to {plan.stop}.")
