"""Asking a store: queries from array files, from photographs, or by the id of an item."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import InvalidInputError
from bilsh.search.results import Matches, Neighbors
from bilsh.store import Store


def query_items(store: Store, path: Path, key: str | None = None) -> NDArray[Any]:
    """Read queries (n, ...) from a file: rows of an array, or a photograph described as the store's images were.

    Parameters
    ----------
    store : Store
    path : path
        Array file of (n, d), (n, d_w, d_v) or a single (d,); or an image.
    key : str, optional
        Which array of an .npz, HDF5 or Parquet file.
    """
    from bilsh.workflows.ingest import check_dimension
    from bilsh.workflows.sources import check_finite, describe_image, is_image, open_rows

    if is_image(path):
        from bilsh.datasets.images import SkippedImage
        from bilsh.store.recipe import read_recipe
        from bilsh.workflows.describing import make_descriptor

        recipe = read_recipe(store.path)
        if recipe is None or not recipe.images:
            raise InvalidInputError(
                f"{path} is an image, but {store.path} was not made from images by `bilsh encode`. "
                "Describe it yourself and pass an array file."
            )
        found = describe_image(
            path, make_descriptor(recipe.settings, recipe.codebook), recipe.settings.max_side
        )
        if isinstance(found, SkippedImage):
            raise InvalidInputError(f"{path}: {found.reason}.")
        return found[None]
    rows = open_rows(path, key)
    items = np.asarray(rows[:])
    if items.ndim == 1:
        items = items[None]
    if items.ndim not in (2, 3):
        raise InvalidInputError(f"{path} has shape {items.shape}; expected (n, d), (n, d_w, d_v) or (d,).")
    check_finite(items, path)
    check_dimension(store, items.shape[1:], path)
    return items


def parse_ids(store: Store, ids: list[str]) -> list[Any]:
    """Turn ids from text into what the store uses: integers or strings."""
    if store.id_kind == "str":
        return list(ids)
    try:
        return [int(item) for item in ids]
    except ValueError as error:
        raise InvalidInputError(f"the ids of {store.path} are integers; {error}.") from None


def search(
    store: Store, Q: Any, k: int = 10, *, of_codes: bool = False, **settings: Any
) -> Neighbors | Matches:
    """Search a store; ids in the answer are the caller's.

    Parameters
    ----------
    store : Store
    Q : array (q, d) or (q, d_w, d_v), or with `of_codes` codes (q, n_bytes)
    k : int
    of_codes : bool
        Queries are codes of the store's encoder, as for "items like this one".
    **settings
        As in :meth:`bilsh.Store.search`.
    """
    queries = {"codes": Q} if of_codes else {"Q": Q}
    found: Neighbors | Matches = store.search(k=k, **queries, **settings)
    return found


def read_ids(path: Path) -> list[Any]:
    """Read ids from a file: integers of an .npy, or text with one id per line."""
    if path.suffix.lower() == ".npy":
        from bilsh.datasets.files import read_npy

        numbers = read_npy(path)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise InvalidInputError(f"{path} holds {numbers.dtype} {numbers.shape}; expected integers (n,).")
        return [int(number) for number in numbers]
    lines = path.read_text("utf-8").splitlines()
    return [line for line in lines if line]
