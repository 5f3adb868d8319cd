"""The one way into array files of all formats, by the suffix of their names."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.datasets.csv import csv_column, read_csv
from bilsh.datasets.files import (
    PathLike,
    as_ids,
    existing,
    read_bvecs,
    read_fvecs,
    read_idx,
    read_ivecs,
    read_npy,
    read_npz,
)
from bilsh.datasets.hdf5 import Hdf5Rows, hdf5_column
from bilsh.datasets.parquet import ParquetRows, parquet_column
from bilsh.errors import InvalidInputError

PLAIN = (".npy", ".fvecs", ".bvecs", ".ivecs")
TABLES = (".npz", ".parquet", ".csv", ".h5", ".hdf5")


def load(path: PathLike, *, key: str | None = None) -> NDArray[Any]:
    """Read an array from a file, by the suffix of its name.

    Parameters
    ----------
    path : path
        .npy, .fvecs, .bvecs, .ivecs and plain idx files are memory-mapped, and so is contiguous HDF5; .npz,
        .parquet, .csv and compressed files are read into memory.
    key : str, optional
        Which member of an .npz, dataset of an HDF5 file ("a/b" within a group), or column of a Parquet file with
        lists; or columns of numbers of a Parquet or CSV file, separated by commas.

    Returns
    -------
    array

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/x.npy", np.eye(3))
    ...     load(f"{folder}/x.npy").shape
    (3, 3)
    """
    return np.asanyarray(open_rows(path, key)[:])


def open_rows(path: PathLike, key: str | None = None, *, ids: str | None = None) -> Any:
    """Open an array file; what comes back has a shape and gives rows by slices, without reading the rest.

    Parameters
    ----------
    path, key
        As in :func:`load`.
    ids : str, optional
        Column or array that holds ids, and is no data. See :func:`read_column`.
    """
    file = existing(path)
    suffix = file.suffix.lower()
    if suffix == ".parquet":
        return ParquetRows(file, key, ids=ids)
    if suffix == ".csv":
        return read_csv(file, key, ids=ids)
    if suffix in (".h5", ".hdf5"):
        return Hdf5Rows(file, key, ids=ids)
    if suffix == ".npz":
        return read_npz(file, key, ids=ids)
    readers: dict[str, Callable[[Path], NDArray[Any]]] = {
        ".npy": read_npy,
        ".fvecs": read_fvecs,
        ".bvecs": read_bvecs,
        ".ivecs": read_ivecs,
    }
    reader = read_idx if "-idx" in file.name else readers.get(suffix)
    if reader is None:
        raise InvalidInputError(
            f"{file} has none of the known suffixes {', '.join([*PLAIN, *TABLES])} (or idx files such as "
            "train-images-idx3-ubyte.gz). Rename it or convert it, e.g. with numpy.save."
        )
    for name in (key, ids):
        if name is not None:
            raise InvalidInputError(f"{file} holds a single array: leave out the name {name!r}.")
    return reader(file)


def read_column(path: PathLike, name: str) -> NDArray[np.int64] | list[str]:
    """Read ids from a file: a column of a Parquet or CSV file, a dataset of an HDF5 file, a member of an .npz.

    Returns
    -------
    int64 (n,), or list of n str
    """
    file = existing(path)
    suffix = file.suffix.lower()
    if suffix == ".parquet":
        return parquet_column(file, name)
    if suffix == ".csv":
        return csv_column(file, name)
    if suffix in (".h5", ".hdf5"):
        return hdf5_column(file, name)
    if suffix == ".npz":
        return as_ids(read_npz(file, name, numbers=False), f"{name} of {file}")
    raise InvalidInputError(f"{file} has no columns; give the ids in a file of their own.")


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
