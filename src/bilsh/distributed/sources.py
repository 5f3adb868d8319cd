"""Sources as workers open them: by path and settings, never by sending the data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.datasets.arrays import check_finite
from bilsh.distributed.plan import IDS
from bilsh.errors import BilshError, InvalidInputError
from bilsh.store.ids import as_names
from bilsh.store.recipe import Settings
from bilsh.types import Progress, silent
from bilsh.validation import check_integer
from bilsh.workflows.describing import make_descriptor
from bilsh.workflows.sources import ArraySource, ImageSource, Piece, Source

SAMPLED = 16
"""Items whose content is part of a source's identity."""


@dataclass(frozen=True, eq=False)
class Generated:
    """Items that a function makes, or reads from wherever they are.

    Attributes
    ----------
    read : callable (start, stop) -> array (stop - start, ...)
        Must give the same items for the same numbers on every machine, and be importable there.
    rows : int
        Number of items.
    name : str
        What tells these items from others: it names the job.
    """

    read_rows: Callable[[int, int], NDArray[Any]]
    rows: int
    name: str = "generated"
    _shape: list[tuple[int, ...]] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        check_integer("rows", self.rows, minimum=1)

    @property
    def item_shape(self) -> tuple[int, ...]:
        """Shape of an item."""
        if not self._shape:
            self._shape.append(np.asarray(self.read_rows(0, 1)).shape[1:])
        return self._shape[0]

    def read(self, start: int, stop: int) -> Piece:
        """Make items [start, stop)."""
        X = np.asarray(self.read_rows(start, stop))
        if len(X) != stop - start:
            raise InvalidInputError(
                f"the function gave {len(X)} items for ({start}, {stop}); expected {stop - start}."
            )
        check_finite(X, Path(self.name), start)
        return Piece(X, None)

    def sample(self, rows: int, progress: Progress = silent) -> NDArray[Any]:
        """Return items evenly spread."""
        chosen = np.linspace(0, self.rows - 1, min(rows, self.rows)).astype(int)
        return np.concatenate([np.asarray(self.read_rows(int(row), int(row) + 1)) for row in chosen])

    def identity(self) -> dict[str, Any]:
        """Return name and number."""
        return {"path": self.name, "rows": self.rows}


def identity_of(data: Source) -> dict[str, Any]:
    """What tells a source from a changed one: size, time, and some of its content."""
    digest = hashlib.sha256()
    if not isinstance(data, ImageSource):
        for row in np.unique(np.linspace(0, data.rows - 1, SAMPLED).astype(int)):
            digest.update(np.ascontiguousarray(data.read(int(row), int(row) + 1).X).tobytes())
    return {**data.identity(), "sample": digest.hexdigest()}


def described(data: Source, settings: Settings | None, folder: Path) -> dict[str, Any]:
    """How a worker opens the same source; ids and codebooks are laid into the job's directory."""
    if isinstance(data, Generated):
        return {"kind": "generated"}
    if isinstance(data, ImageSource):
        if settings is None:
            raise InvalidInputError("a folder of images needs the settings that describe an image.")
        book = getattr(data.descriptor, "codebook", None)
        if book is not None:
            np.save(folder / "codebook.npy", book, allow_pickle=False)
        return {"kind": "images", "path": str(data.folder.resolve()), "settings": asdict(settings)}
    if not isinstance(data, ArraySource):
        raise InvalidInputError(f"a source of type {type(data).__name__} cannot be opened by workers.")
    if data.ids is not None:
        as_names(data.ids, None)  # refuses doubles, which no single block could see
        listed = np.asarray(data.ids)
        if listed.dtype.kind not in "iu":
            listed = np.array([str(item) for item in data.ids])
            if any(str(item).endswith("\0") for item in data.ids):
                raise InvalidInputError("names that end with a null character cannot be sent to workers.")
        np.save(folder / IDS, listed, allow_pickle=False)
    return {
        "kind": "array",
        "path": str(data.path.resolve()),
        "key": data.key,
        "id_column": data.id_column,
        "ids": data.ids is not None,
    }


@lru_cache(maxsize=4)
def _opened(text: str, folder: str) -> Source:
    source = json.loads(text)
    path = Path(source["path"])
    if source["kind"] == "array":
        listed = np.load(Path(folder) / IDS, mmap_mode="r", allow_pickle=False) if source["ids"] else None
        return ArraySource(path, source["key"], ids=listed, id_column=source["id_column"])
    read = Settings(**source["settings"])
    book = Path(folder) / "codebook.npy"
    codebook = np.load(book, allow_pickle=False) if book.exists() else None
    descriptor = make_descriptor(read, codebook, asked=read.describe)
    return ImageSource(path, descriptor, max_side=read.max_side, jobs=1)


def reopened(source: dict[str, Any], folder: Path, generated: Generated | None) -> Source:
    """Open a source in a worker; kept open for the blocks that follow."""
    if source["kind"] == "generated":
        if generated is None:
            raise BilshError("this job's items come from a function, which was not sent along.")
        return generated
    return _opened(json.dumps(source), str(folder))
