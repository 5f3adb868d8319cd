"""Parquet files (with pyarrow): vectors as a column of lists or as columns of numbers, one row group at a time."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.datasets.files import PathLike, as_ids, choose, existing, numeric, parsing
from bilsh.errors import InvalidInputError, optional

_LISTS = ("list", "fixed_size_list", "large_list")


def read_parquet(path: PathLike, key: str | None = None) -> NDArray[Any]:
    """Read vectors from a Parquet file (needs pyarrow).

    Parameters
    ----------
    path : path
    key : str, optional
        The column of equally long lists, or columns of numbers separated by commas. Without it, the only list
        column; where there is none, all columns (which must be numbers) side by side.

    Returns
    -------
    array (n, d)
    """
    return ParquetRows(existing(path), key)[:]


class ParquetRows:
    """Rows of a Parquet file; one row group in memory at a time."""

    def __init__(self, path: Path, key: str | None = None, *, ids: str | None = None) -> None:
        self._path, self._file = path, _open(path)
        with parsing(path, "Parquet"):
            schema = self._file.schema_arrow
            self._columns, self._list = _chosen(schema, key, ids, path)
            groups = [self._file.metadata.row_group(i).num_rows for i in range(self._file.num_row_groups)]
            self._starts = [0, *np.cumsum(groups, dtype=np.int64).tolist()]
            self._last: tuple[int, NDArray[Any]] | None = None
            width = self._group(0).shape[1] if self._starts[-1] else 0
        self.shape = (self._starts[-1], width)

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        start, stop, _ = rows.indices(self.shape[0])
        parts = [
            self._group(number)[max(start - first, 0) : stop - first]
            for number, (first, last) in enumerate(pairwise(self._starts))
            if first < stop and last > start
        ]
        if {part.shape[1] for part in parts} - {self.shape[1]}:
            raise _uneven(self._columns[0], self._path)
        return np.concatenate(parts) if parts else np.empty((0, self.shape[1]), np.float32)

    def _group(self, number: int) -> NDArray[Any]:
        if self._last is None or self._last[0] != number:
            with parsing(self._path, "Parquet"):
                table = self._file.read_row_group(number, columns=self._columns)
                self._last = number, self._as_array(table)
        return self._last[1]

    def _as_array(self, table: Any) -> NDArray[Any]:
        if not self._list:
            return np.stack([self._numbers(table.column(name), name) for name in self._columns], axis=1)
        name = self._columns[0]
        column = table.column(name).combine_chunks()
        lengths = optional("pyarrow.compute", "Reading Parquet files").list_value_length(column).unique()
        if column.null_count or len(lengths) > 1:
            raise _uneven(name, self._path)
        values = column.flatten()
        width = lengths[0].as_py() if len(lengths) else 0
        return self._numbers(values, name).reshape(len(column), width)

    def _numbers(self, values: Any, name: str) -> NDArray[Any]:
        what = f"column {name} of {self._path}"
        if values.null_count:
            raise InvalidInputError(
                f"{what} has {values.null_count} missing values. Remove or impute them first."
            )
        whole = values.combine_chunks() if hasattr(values, "combine_chunks") else values
        return numeric(whole.to_numpy(zero_copy_only=False), what)


def _uneven(name: str, path: Path) -> InvalidInputError:
    return InvalidInputError(f"Column {name} of {path} has missing lists or lists of different lengths.")


def _open(path: Path) -> Any:
    parquet = optional("pyarrow.parquet", "Reading Parquet files")
    with parsing(path, "Parquet"):
        return parquet.ParquetFile(path, memory_map=True, page_checksum_verification=True)


def _chosen(schema: Any, key: str | None, ids: str | None, path: Path) -> tuple[list[str], bool]:
    """Return the columns to read, and whether they are one column of lists."""
    kinds = {field.name: str(field.type) for field in schema if field.name != ids}
    lists = [name for name, kind in kinds.items() if kind.startswith(_LISTS)]
    if key is None and not lists:
        if wrong := [name for name, kind in kinds.items() if not _is_number(kind)]:
            raise InvalidInputError(
                f"column {wrong[0]} of {path} holds {kinds[wrong[0]]} values; expected real numbers. Choose columns by "
                "key (a,b,c), or name the column of ids."
            )
        return list(kinds), False
    if key is None or key in lists:
        return [choose(key, lists, path)], True
    names = [key] if key in kinds else key.split(",")
    for name in names:
        choose(name, list(kinds), path)
    return names, False


def _is_number(kind: str) -> bool:
    return kind.startswith(("int", "uint", "float", "half", "double", "bool"))


def parquet_column(path: Path, name: str) -> NDArray[np.int64] | list[str]:
    """Read a column of ids."""
    source = _open(path)
    with parsing(path, "Parquet"):
        choose(name, list(source.schema_arrow.names), path)
        column = source.read(columns=[name]).column(name)
        what = f"column {name} of {path}"
        if column.null_count:
            raise InvalidInputError(f"{what} has {column.null_count} missing values; every item needs an id.")
        kind = str(column.type)
        if kind in ("string", "large_string"):
            return [str(value) for value in column.to_pylist()]
        if not kind.startswith(("int", "uint")):
            raise InvalidInputError(f"{what} holds {kind} values; expected ids, integers or texts.")
        return as_ids(column.to_numpy(), what)
