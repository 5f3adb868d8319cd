"""Asking a store: queries from array files, from photographs, or by the ids of items."""

from __future__ import annotations

import re
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bilsh.engines import Address, Collection, open_collection
from bilsh.errors import DataNotFoundError, InvalidInputError
from bilsh.search.request import Mode
from bilsh.search.results import Matches, Neighbors
from bilsh.store import Store
from bilsh.store.recipe import Recipe, read_recipe

_INTEGER = re.compile(r"0|-?[1-9][0-9]*")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to a store.

    Attributes
    ----------
    query : path, optional
        Array file of (n, d), (n, d_w, d_v) or a single (d,); or an image. Either this or `ids` is given.
    ids : list of str, optional
        Items of the store: find those like them.
    key, id_column : str, optional
        Which array of the query's file, and which column of it names the queries.
    k, mode, radius, rerank, recall
        As in :meth:`bilsh.Store.search`.
    where : path, optional
        File of ids; only these items are searched.
    describe : str, optional
        The user's own function that describes the store's images; it is not run unless it is named.
    jobs : int
        Threads.
    """

    query: Path | None = None
    ids: list[str] | None = None
    key: str | None = None
    id_column: str | None = None
    k: int = 10
    mode: Mode = "auto"
    radius: int | None = None
    rerank: bool = False
    where: Path | None = None
    describe: str | None = None
    jobs: int = 1
    recall: float | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The answer: hits, and a name for each query."""

    hits: Neighbors | Matches
    queries: list[str]


def open_store(path: Path, mode: Literal["r", "a"] = "r") -> Store:
    """Open a store, or say what is there instead."""
    check_place(path)
    return Store.open(path, mode)


def open_place(address: str, mode: Literal["r", "a"] = "r") -> Store | Collection:
    """Open codes wherever they are: a directory as a store, any other address as its engine's collection."""
    where = Address.of(address)
    return open_store(Path(where.rest), mode) if where.scheme == "store" else open_collection(address, mode)


def check_place(path: Path) -> None:
    """Refuse a place where no store can be."""
    if not path.exists():
        raise DataNotFoundError(f"there is no store at {path}. Make one with `bilsh encode`.")
    if not path.is_dir():
        raise InvalidInputError(
            f"{path} is a file; a store is a directory. Make one of it with `bilsh encode` or `bilsh import`."
        )


def ask(store: Store | Collection, asked: Asked) -> Found:
    """Search a store; ids in the answer are the caller's."""
    settings: dict[str, Any] = {
        "mode": asked.mode,
        "recall": asked.recall,
        "radius": asked.radius,
        "rerank": asked.rerank,
        "n_jobs": asked.jobs,
    }
    if store.keep_vectors is None:
        _check_without_vectors(store, asked)
    if asked.where is not None:
        settings["where"] = parse_ids(store, read_ids(asked.where))
    if asked.query is None:
        ids = parse_ids(store, asked.ids or [])
        hits: Neighbors | Matches = store.search(k=asked.k, ids=ids, **settings)
        names = [str(item) for item in ids]
    else:
        from bilsh.datasets.arrays import read_column
        from bilsh.datasets.images import is_image

        Q = query_items(store, asked.query, asked.key, id_column=asked.id_column, describe=asked.describe)
        by_code = _are_codes(store, Q)
        hits = store.search(None if by_code else Q, asked.k, codes=Q if by_code else None, **settings)
        names = [str(asked.query)] if is_image(asked.query) else [str(row) for row in range(len(Q))]
        if asked.id_column is not None:
            names = [str(name) for name in read_column(asked.query, asked.id_column)]
    return Found(hits, names)


def _check_without_vectors(store: Store | Collection, asked: Asked) -> None:
    if asked.rerank:
        raise InvalidInputError(
            f"--rerank compares the items themselves, and {store.path} keeps only their codes. Leave it out, or encode "
            "again with --keep-vectors."
        )
    if asked.ids is not None and asked.mode == "asymmetric":
        raise InvalidInputError(
            f"--mode asymmetric needs the query's real values, and {store.path} keeps only codes. Leave it out, "
            "or ask with --query."
        )


def query_items(
    store: Store | Collection,
    path: Path,
    key: str | None = None,
    *,
    id_column: str | None = None,
    describe: str | None = None,
) -> NDArray[Any]:
    """Read queries (n, ...) from a file: rows of an array, or a photograph described as the store's images were."""
    from bilsh.datasets.arrays import check_finite, open_rows
    from bilsh.datasets.images import is_image

    if is_image(path):
        return _described(store, path, describe)[None]
    items = np.asarray(open_rows(path, key, ids=id_column)[:])
    if items.ndim == 1:
        items = items[None]
    if items.ndim not in (2, 3) or 0 in items.shape:
        raise InvalidInputError(f"{path} has shape {items.shape}; expected (n, d), (n, d_w, d_v) or (d,).")
    if _are_codes(store, items):
        return items
    check_finite(items, path)
    check_dimension(store.coder.input_shape, items.shape[1:], path)
    return items


def _described(store: Store | Collection, path: Path, describe: str | None) -> NDArray[Any]:
    """Describe a photograph as the store's images were."""
    from bilsh.datasets.files import existing
    from bilsh.datasets.images import SkippedImage
    from bilsh.descriptors.folder import describe_image
    from bilsh.workflows.describing import make_descriptor

    existing(path)
    recipe = image_recipe(store) if isinstance(store, Store) else None
    if recipe is None:
        raise InvalidInputError(
            f"{path} is an image, but {store.path} was not made from images by `bilsh encode`. "
            "Describe it yourself and pass an array file."
        )
    descriptor = make_descriptor(recipe.settings, recipe.codebook, asked=describe)
    found = describe_image(path, descriptor, recipe.settings.max_side)
    if isinstance(found, SkippedImage):
        raise InvalidInputError(f"{path}: {found.reason}.")
    return found


def _are_codes(store: Store | Collection, items: NDArray[Any]) -> bool:
    """Tell whether queries are codes: bytes, of the length of codes that were made elsewhere."""
    bytes_each = -(-store.n_bits // 8)
    return store.coder.kind == "foreign" and items.dtype == np.uint8 and items.shape[1:] == (bytes_each,)


def check_dimension(wanted: tuple[int, ...], shape: tuple[int, ...], source: Path) -> None:
    """Refuse items of another shape than those of the store; vectors may stand for matrices of as many values."""
    found, needed = int(np.prod(shape)), int(np.prod(wanted))
    if found != needed or (len(shape) == 2 and tuple(shape) != tuple(wanted)):
        raise InvalidInputError(
            f"{source} holds items of shape {tuple(shape)} ({found} values); those of the store have shape "
            f"{tuple(wanted)} ({needed} values)."
        )


def image_recipe(store: Store) -> Recipe | None:
    """Return how the images of a store were described; None where it was not made from images."""
    recipe = read_recipe(store.path)
    return recipe if recipe is not None and recipe.images else None


def read_ids(path: Path) -> list[Any]:
    """Read ids from a file: integers of an .npy, or text with one id per line."""
    from bilsh.datasets.files import existing, read_npy

    if path.suffix.lower() == ".npy":
        numbers = read_npy(path)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise InvalidInputError(f"{path} holds {numbers.dtype} {numbers.shape}; expected integers (n,).")
        return [int(number) for number in numbers]
    try:
        lines = existing(path).read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        raise InvalidInputError(
            f"{path} is not a text of ids, one per line (UTF-8), nor an .npy file. Convert it first."
        ) from None
    return [line for line in lines if line]


def parse_ids(store: Store | Collection, ids: list[Any]) -> list[Any]:
    """Turn ids into what the store uses: integers or strings."""
    if store.id_kind == "str":
        return [str(item) for item in ids]
    return _integers(ids, f"the ids of {store.path} are integers")


def as_new_ids(ids: list[Any]) -> list[Any]:
    """Turn ids for a new store into integers where every one of them is written as one, else into strings."""
    if all(isinstance(item, Integral) or _INTEGER.fullmatch(item) for item in ids):
        return _integers(ids, "ids that are numbers must be integers")
    return [str(item) for item in ids]


def _integers(ids: list[Any], rule: str) -> list[int]:
    for item in ids:
        if not isinstance(item, Integral) and not _INTEGER.fullmatch(item):
            raise InvalidInputError(f"{rule}; got {item!r}.")
    numbers = [int(item) for item in ids]
    for number in numbers:
        if not -(2**63) <= number < 2**63:
            raise InvalidInputError(f"{rule} of 64 bits; got {number}.")
    return numbers
