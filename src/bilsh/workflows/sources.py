"""Where items come from: array files and folders of images, read piece by piece and never as a whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bilsh.datasets import files
from bilsh.datasets.images import SUFFIXES, SkippedImage, images, read_gray
from bilsh.descriptors.kinds import Descriptor
from bilsh.errors import DataNotFoundError, InvalidInputError, optional


@dataclass(frozen=True, slots=True)
class Piece:
    """Some items of a source.

    Attributes
    ----------
    X : array (n, d) or (n, d_w, d_v)
        Finite numbers.
    ids : list of n str, or None
        Names of the items; None where they go by their row number.
    skipped : tuple of SkippedImage
        Images that gave no item, and why.
    """

    X: NDArray[Any]
    ids: list[str] | None
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

    def sample(self, rows: int) -> NDArray[Any]:
        """Return at most `rows` items, evenly spread; all of them, mapped, where that is cheap."""

    def identity(self) -> dict[str, Any]:
        """Return what tells this source from a changed one, as JSON values."""


class ArraySource:
    """Rows of an array file: mapped where the format allows it, else read in pieces (Parquet, chunked HDF5)."""

    def __init__(self, path: Path, key: str | None = None) -> None:
        self.path, self.key = path, key
        self._rows = open_rows(path, key)
        shape = tuple(int(size) for size in self._rows.shape)
        if len(shape) not in (2, 3) or 0 in shape[1:]:
            raise InvalidInputError(
                f"{path} has shape {shape}; expected items as rows, (n, d) or (n, d_w, d_v), with d >= 1."
            )
        if not shape[0]:
            raise InvalidInputError(f"{path} has shape {shape}: it holds no items.")
        self._shape = shape

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
        return Piece(X, None)

    def sample(self, rows: int) -> NDArray[Any]:
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
        """Return path, size and time of change."""
        state = self.path.stat()
        return {
            "path": str(self.path.resolve()),
            "bytes": state.st_size,
            "changed": state.st_mtime_ns,
            "shape": list(self._shape),
        }


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

    def sample(self, rows: int) -> NDArray[Any]:
        """Describe at most `rows` images, evenly spread."""
        some = self.paths[:: -(-self.rows // rows)]
        X = self._describe(some, [path.name for path in some]).X
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


def describe_image(
    path: Path, descriptor: Descriptor, max_side: int | None
) -> NDArray[np.float32] | SkippedImage:
    """Describe one image, or say why that is not possible."""
    image = read_gray(path, max_side)
    if isinstance(image, SkippedImage):
        return image
    matrix = descriptor.compute(image)
    return SkippedImage(path, "no local features") if matrix is None else matrix


def is_image(path: Path) -> bool:
    """Tell by its suffix whether a file is an image."""
    return path.suffix.lower() in SUFFIXES


def check_finite(X: NDArray[Any], path: Path, first_row: int = 0) -> None:
    """Refuse NaN, infinity and values beyond float32, naming file, row and column."""
    if X.dtype.kind not in "fiub":
        raise InvalidInputError(f"{path} holds {X.dtype} values; expected real numbers.")
    with np.errstate(over="ignore"):
        bad = ~np.isfinite(X.astype(np.float32, copy=False))
    if not bad.any():
        return
    place = np.argwhere(bad)[0]
    value = X[tuple(place)]
    name = "NaN" if np.isnan(value) else "infinite" if np.isinf(value) else f"{value}, beyond float32"
    column = ", ".join(str(int(i)) for i in place[1:])
    row = first_row + int(place[0])
    where = f"row {row}, column {column}"
    raise InvalidInputError(f"{path}: {where} (from 0) is {name}. Remove or impute such values first.")


def open_rows(path: Path, key: str | None = None) -> Any:
    """Open an array file; what comes back has a shape and gives rows by slices."""
    if not path.exists():
        raise DataNotFoundError(f"{path} does not exist. Check the path.")
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return ParquetRows(path, key)
    if suffix in (".h5", ".hdf5"):
        return _hdf5_rows(path, key)
    return files.load(path, key=key)


class ParquetRows:
    """Vectors of a Parquet file, one row group in memory at a time."""

    def __init__(self, path: Path, key: str | None) -> None:
        parquet = optional("pyarrow.parquet", "Reading Parquet files")
        with files._parsing(path, "Parquet"):
            self._path, self._file = path, parquet.ParquetFile(path, memory_map=True)
            schema = self._file.schema_arrow
            lists = [
                f.name for f in schema if str(f.type).startswith(("list", "fixed_size_list", "large_list"))
            ]
            self._list = key is not None or bool(lists)
            self._columns = [files._choose(key, lists, path)] if self._list else list(schema.names)
            groups = [self._file.metadata.row_group(i).num_rows for i in range(self._file.num_row_groups)]
            self._starts = [0, *np.cumsum(groups, dtype=np.int64).tolist()]
            self._last: tuple[int, NDArray[Any]] | None = None
            width = self._group(0).shape[1] if groups else 0
        self.shape = (self._starts[-1], width)

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        start, stop, _ = rows.indices(self.shape[0])
        parts = [
            self._group(number)[max(start - first, 0) : stop - first]
            for number, (first, last) in enumerate(pairwise(self._starts))
            if first < stop and last > start
        ]
        return np.concatenate(parts)

    def _group(self, number: int) -> NDArray[Any]:
        if self._last is None or self._last[0] != number:
            with files._parsing(self._path, "Parquet"):
                table = self._file.read_row_group(number, columns=self._columns)
                self._last = number, self._as_array(table)
        return self._last[1]

    def _as_array(self, table: Any) -> NDArray[Any]:
        if not self._list:
            columns = [files._numeric(c.to_numpy(), f"a column of {self._path}") for c in table.columns]
            return np.stack(columns, axis=1)
        column = table.column(0).combine_chunks()
        values = column.flatten().to_numpy(zero_copy_only=False)
        rows = len(column)
        if column.null_count or not rows or len(values) % rows or len(values) // rows != _width(column, rows):
            raise InvalidInputError(
                f"Column {self._columns[0]} of {self._path} has missing lists or lists of different lengths."
            )
        return files._numeric(values, f"column {self._columns[0]} of {self._path}").reshape(rows, -1)


def _width(column: Any, rows: int) -> int:
    compute = optional("pyarrow.compute", "Reading Parquet files")
    lengths = compute.list_value_length(column).unique()
    return int(lengths[0].as_py()) if len(lengths) == 1 else -1


def _hdf5_rows(path: Path, key: str | None) -> Any:
    h5py = optional("h5py", "Reading HDF5 files")
    with files._parsing(path, "HDF5"):
        source = h5py.File(path, "r")
        own = [n for n in source if isinstance(source.get(n, getlink=True), h5py.HardLink)]
        names = [n for n in own if isinstance(source[n], h5py.Dataset)]
        dataset = source[files._choose(key, names, path, preferred="train")]
        if dataset.chunks and dataset.dtype.kind in "fiub" and not (dataset.external or dataset.is_virtual):
            return dataset
    return files.read_hdf5(path, key)
