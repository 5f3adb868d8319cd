"""HDF5 files (with h5py): datasets in any group, mapped where they lie contiguous, else read by slices."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.datasets.files import MAX_DEFLATE, PathLike, as_ids, choose, existing, parsing
from bilsh.errors import InvalidInputError, optional


def read_hdf5(path: PathLike, key: str | None = None) -> NDArray[Any]:
    """Read one dataset of an HDF5 file (needs h5py).

    Parameters
    ----------
    path : path
    key : str, optional
        Name, "a/b" within a group. Without it, the only dataset; in a file without groups also "train", as in
        ann-benchmarks.
    """
    return np.asanyarray(Hdf5Rows(existing(path), key)[:])


class Hdf5Rows:
    """Rows of a dataset; the file stays open as long as this lives, unless its bytes can be mapped."""

    def __init__(self, path: Path, key: str | None = None, *, ids: str | None = None) -> None:
        self._path = path
        with parsing(path, "HDF5"):
            source = _open(path)
            names = [name for name in _names(source) if name != ids]
            flat = not any("/" in name for name in names)
            wanted = None if key is None else key.strip("/")
            dataset = source[choose(wanted, names, path, "train" if flat else None)]
            self._what = f"{dataset.name.lstrip('/')} of {path}"
            self._check(dataset)
            self.shape = tuple(int(size) for size in dataset.shape)
            offset = dataset.id.get_offset()
            if offset is not None and dataset.size:
                dataset = np.memmap(path, dtype=dataset.dtype, mode="r", offset=offset, shape=dataset.shape)
                source.close()
        self._rows: Any = dataset

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        if isinstance(self._rows, np.ndarray):
            return self._rows[rows]
        with parsing(self._path, "HDF5"):
            return np.asarray(self._rows[rows] if self.shape else self._rows[()])

    def _check(self, dataset: Any) -> None:
        if dataset.dtype.kind not in "fiub":
            raise InvalidInputError(f"{self._what} holds {dataset.dtype} values; expected real numbers.")
        if dataset.external or dataset.is_virtual:
            raise InvalidInputError(
                f"{self._what} points to other files; copy its values into one file first."
            )
        stored = dataset.id.get_storage_size()
        if dataset.nbytes > stored * (MAX_DEFLATE if dataset.chunks else 1):
            raise InvalidInputError(
                f"{self._what} declares {dataset.nbytes} bytes but stores {stored}: not fully written."
            )


def _open(path: Path) -> Any:
    return optional("h5py", "Reading HDF5 files").File(path, "r")


def _names(source: Any) -> list[str]:
    """Return the datasets of all groups; links to other places are not followed."""
    dataset = optional("h5py", "Reading HDF5 files").Dataset
    found: list[str] = []
    source.visititems(lambda name, item: found.append(name) if isinstance(item, dataset) else None)
    return sorted(found)


def hdf5_column(path: Path, name: str) -> NDArray[np.int64] | list[str]:
    """Read a dataset of ids."""
    with parsing(path, "HDF5"), _open(path) as source:
        dataset = source[choose(name.strip("/"), _names(source), path)]
        values = dataset[...] if dataset.dtype.kind in "iu" else dataset.asstr()[...].astype(np.str_)
        return as_ids(np.asarray(values), f"{name} of {path}")


@dataclass(frozen=True, slots=True)
class SearchProblem:
    """A nearest-neighbour task in the layout of ann-benchmarks.

    Attributes
    ----------
    database, queries : array (n, d), (q, d)
    neighbors : int array (q, k)
        True neighbours of each query, nearest first.
    metric : str
        As the file says: "euclidean", "angular", ...
    """

    database: NDArray[Any]
    queries: NDArray[Any]
    neighbors: NDArray[Any]
    metric: str


def ann_benchmarks(path: PathLike) -> SearchProblem:
    """Open an ann-benchmarks HDF5 file: train, test, neighbors, and the distance attribute."""
    file = existing(path)
    database, queries, neighbors = (read_hdf5(file, key) for key in ("train", "test", "neighbors"))
    with parsing(file, "HDF5"), _open(file) as source:
        metric = source.attrs.get("distance", "euclidean")
    if len(queries) != len(neighbors) or database.shape[1:] != queries.shape[1:]:
        raise InvalidInputError(
            f"{file} does not fit together: train {database.shape}, test {queries.shape}, "
            f"neighbors {neighbors.shape}."
        )
    return SearchProblem(database, queries, neighbors, str(metric))
