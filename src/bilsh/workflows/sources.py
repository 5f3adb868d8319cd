"""Where items come from: array files and folders of images, read piece by piece and never as a whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bilsh.datasets.arrays import check_finite, open_rows, read_column
from bilsh.datasets.images import SkippedImage, images
from bilsh.descriptors.folder import describe_image
from bilsh.descriptors.kinds import Descriptor
from bilsh.errors import InvalidInputError
from bilsh.types import Progress, silent

SAMPLED_AT_ONCE = 16
"""Images of a sample that are described between two reports of progress."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some items of a source.

    Attributes
    ----------
    X : array (n, d) or (n, d_w, d_v)
        Finite numbers.
    ids : n integers or strings, or None
        Ids of the items; None where they go by their row number.
    skipped : tuple of SkippedImage
        Images that gave no item, and why.
    """

    X: NDArray[Any]
    ids: Any
    skipped: tuple[SkippedImage, ...] = ()


class Source(Protocol):
    """Items in a fixed order."""

    @property
    def rows(self) -> int:
        """Number of items (images: of files, some of which may turn out unreadable)."""

    @property
    def item_shape(self) -> tuple[int, ...]:
        """Shape of an item, (d,) or (d_w, d_v)."""

    def read(self, start: int, stop: int) -> Piece:
        """Read items [start, stop)."""

    def sample(self, rows: int, progress: Progress = silent) -> NDArray[Any]:
        """Return at most `rows` items, evenly spread; all of them, mapped, where that is cheap."""

    def identity(self) -> dict[str, Any]:
        """Return what tells this source from a changed one, as JSON values."""


class ArraySource:
    """Rows of an array file: mapped where the format allows it, else read in pieces (Parquet, chunked HDF5).

    Parameters
    ----------
    path : path
    key : str, optional
        Which array, see :func:`bilsh.datasets.load`.
    ids : sequence of int or str, optional
        One id per row; by default rows go by their number.
    id_column : str, optional
        Column or array of the file that holds the ids.
    """

    def __init__(
        self, path: Path, key: str | None = None, *, ids: Any = None, id_column: str | None = None
    ) -> None:
        self.path, self.key, self.id_column = path, key, id_column
        self._rows = open_rows(path, key, ids=id_column)
        shape = tuple(int(size) for size in self._rows.shape)
        if len(shape) not in (2, 3) or 0 in shape[1:]:
            raise InvalidInputError(
                f"{path} has shape {shape}; expected items as rows, (n, d) or (n, d_w, d_v), with d >= 1."
            )
        if not shape[0]:
            raise InvalidInputError(f"{path} has shape {shape}: it holds no items.")
        self._shape = shape
        self.ids = ids if id_column is None else read_column(path, id_column)
        if self.ids is not None and len(self.ids) != shape[0]:
            raise InvalidInputError(f"{path} has {shape[0]:,} rows; {len(self.ids):,} ids were given.")

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self._shape[0]

    @property
    def item_shape(self) -> tuple[int, ...]:
        """Shape of a row."""
        return self._shape[1:]

    def read(self, start: int, stop: int) -> Piece:
        """Read rows [start, stop); NaN and infinity are refused with their place."""
        X = np.asarray(self._rows[start:stop])
        check_finite(X, self.path, start)
        return Piece(X, None if self.ids is None else self.ids[start:stop])

    def sample(self, rows: int, progress: Progress = silent) -> NDArray[Any]:
        """Return at most `rows` rows, evenly spread; a view of a mapped file."""
        step = -(-self.rows // rows)
        if isinstance(self._rows, np.ndarray):
            return self._rows[::step]
        window = step * max(1, 4096 // step)
        parts = [self._rows[start : start + window][::step] for start in range(0, self.rows, window)]
        return np.concatenate(parts)

    def check(self) -> None:
        """Read everything and raise where a value is not finite."""
        step = max(1, (32 << 20) // int(8 * np.prod(self.item_shape)))
        for start in range(0, self.rows, step):
            self.read(start, start + step)

    def identity(self) -> dict[str, Any]:
        """Return path, size and time of change, and a checksum of ids that were given."""
        state = self.path.stat()
        found = {
            "path": str(self.path.resolve()),
            "bytes": state.st_size,
            "changed": state.st_mtime_ns,
            "shape": list(self._shape),
        }
        if self.ids is not None:
            listed = json.dumps([str(item) for item in self.ids]).encode()
            found["ids"] = hashlib.sha256(listed).hexdigest()
        return found


class ImageSource:
    """Images of a folder, each described when it is read; items go by their path within the folder."""

    def __init__(
        self, folder: Path, descriptor: Descriptor, *, max_side: int | None = None, jobs: int = 1
    ) -> None:
        self.folder, self.descriptor, self.max_side, self.jobs = folder, descriptor, max_side, jobs
        self.paths = images(folder).paths
        self.names = [path.relative_to(folder).as_posix() for path in self.paths]

    @property
    def rows(self) -> int:
        """Number of files."""
        return len(self.paths)

    @property
    def item_shape(self) -> tuple[int, ...]:
        """Shape of a description."""
        return self.descriptor.shape

    def read(self, start: int, stop: int) -> Piece:
        """Describe images [start, stop); those that cannot be read are named."""
        return self._describe(self.paths[start:stop], self.names[start:stop])

    def sample(self, rows: int, progress: Progress = silent) -> NDArray[Any]:
        """Describe at most `rows` images, evenly spread."""
        some = self.paths[:: -(-self.rows // rows)]
        parts = []
        for start in range(0, len(some), SAMPLED_AT_ONCE):
            progress("describing some images", start, len(some))
            paths = some[start : start + SAMPLED_AT_ONCE]
            parts.append(self._describe(paths, [path.name for path in paths]).X)
        X = np.concatenate(parts)
        progress("describing some images", len(some), len(some))
        if not len(X):
            raise InvalidInputError(f"none of {len(some)} images of {self.folder} could be described.")
        return X

    def identity(self) -> dict[str, Any]:
        """Return folder, number of files and a checksum of names, sizes and times of change."""
        states = [path.stat() for path in self.paths]
        listed = [[name, s.st_size, s.st_mtime_ns] for name, s in zip(self.names, states, strict=True)]
        digest = hashlib.sha256(json.dumps(listed).encode()).hexdigest()
        return {"path": str(self.folder.resolve()), "files": len(self.paths), "sha256": digest}

    def _describe(self, paths: Sequence[Path], names: Sequence[str]) -> Piece:
        # Threads, not processes: OpenCV and BLAS work outside the interpreter's lock.
        with ThreadPoolExecutor(self.jobs) as pool:
            found = list(pool.map(lambda path: describe_image(path, self.descriptor, self.max_side), paths))
        rows = [X for X in found if not isinstance(X, SkippedImage)]
        return Piece(
            np.stack(rows) if rows else np.empty((0, *self.descriptor.shape), np.float32),
            [name for name, X in zip(names, found, strict=True) if not isinstance(X, SkippedImage)],
            tuple(X for X in found if isinstance(X, SkippedImage)),
        )
