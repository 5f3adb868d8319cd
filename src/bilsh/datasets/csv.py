"""CSV files: columns of numbers side by side, with or without a line of names; read into memory."""

import csv
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.datasets.files import PathLike, choose, existing, parsing
from bilsh.errors import InvalidInputError


def read_csv(path: PathLike, key: str | None = None, *, ids: str | None = None) -> NDArray[np.float64]:
    """Read numbers from a CSV file.

    Parameters
    ----------
    path : path
        Cells separated by commas. A first line that holds anything but numbers names the columns; else they go
        by their number, from 0.
    key : str, optional
        Columns to read, separated by commas; all of them by default.
    ids : str, optional
        Column of ids, left out.

    Returns
    -------
    float64 (n, d)
    """
    file = existing(path)
    names, lines = _lines(file)
    wanted = [name for name in names if name != ids] if key is None else _split(key, names)
    for name in wanted:
        choose(name, names, file)
    places = [names.index(name) for name in wanted]
    values = array("d")
    rows = 0
    for number, cells in lines:
        for place in places:
            try:
                values.append(float(cells[place]))
            except ValueError:
                raise InvalidInputError(
                    f"{file}: line {number}, column {names[place]} is {cells[place]!r}; expected a number. "
                    "Choose columns by key (a,b,c), or name the column of ids."
                ) from None
        rows += 1
    return (
        np.frombuffer(values, np.float64).reshape(rows, len(places)) if values else np.empty((0, len(places)))
    )


def csv_column(path: Path, name: str) -> NDArray[np.int64] | list[str]:
    """Read a column of ids: integers where all of them are, else texts."""
    names, lines = _lines(path)
    place = names.index(choose(name, names, path))
    texts = [cells[place] for _, cells in lines]
    try:
        numbers = np.array([int(text) for text in texts], dtype=np.int64)
    except (ValueError, OverflowError):
        return texts
    return numbers if [str(number) for number in numbers.tolist()] == texts else texts


def _split(key: str, names: list[str]) -> list[str]:
    return [key] if key in names else key.split(",")


def _lines(path: Path) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Return the names of the columns, and the lines below with their number from 1."""
    rows = _cells(path)
    first = next(rows, None)
    if first is None:
        raise InvalidInputError(f"{path} holds no lines.")
    named = not all(_is_number(cell) for cell in first[1])
    names = [cell.strip() for cell in first[1]] if named else [str(i) for i in range(len(first[1]))]
    if len(set(names)) != len(names):
        raise InvalidInputError(f"{path} has two columns of the same name.")

    def lines() -> Iterator[tuple[int, list[str]]]:
        if not named:
            yield first
        for number, cells in rows:
            if len(cells) != len(names):
                raise InvalidInputError(
                    f"{path}: line {number} has {len(cells)} cells, the first line has {len(names)}."
                )
            yield number, cells

    return names, lines()


def _cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    with parsing(path, "CSV"), path.open(newline="", encoding="utf-8-sig") as file:
        reader: Any = csv.reader(file)
        for cells in reader:
            if cells:
                yield reader.line_num, cells


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
