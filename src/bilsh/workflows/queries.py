"""Asking a store: queries from array files, from photographs, or by the ids of items."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import Neighbors
from bilsh.datasets.files import existing, open_rows, read_npy
from bilsh.errors import DataNotFoundError, InvalidInputError
from bilsh.estimates.intervals import estimate_distances
from bilsh.search.index import search_segments
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
    key : str, optional
        Which array of the query's file.
    k, mode, radius, rerank
        As in :meth:`bilsh.Store.search`.
    where : path, optional
        File of ids; only these items are searched.
    jobs : int
        Threads.
    """

    query: Path | None = None
    ids: list[str] | None = None
    key: str | None = None
    k: int = 10
    mode: str = "auto"
    radius: int | None = None
    rerank: bool = False
    where: Path | None = None
    jobs: int = 1


@dataclass(frozen=True, slots=True)
class Found:
    """The answer: hits, a name for each query, and what the user should know."""

    hits: Neighbors
    queries: list[str]
    reranked: bool = False
    notes: tuple[str, ...] = ()


def open_store(path: Path, mode: Literal["r", "a"] = "r") -> Store:
    """Open a store, or say what is there instead."""
    check_place(path)
    return Store.open(path, mode)


def check_place(path: Path) -> None:
    """Refuse a place where no store can be."""
    if not path.exists():
        raise DataNotFoundError(f"there is no store at {path}. Make one with `bilsh encode`.")
    if not path.is_dir():
        raise InvalidInputError(
            f"{path} is a file; a store is a directory. Make one of it with `bilsh encode` or `bilsh import`."
        )


def ask(store: Store, asked: Asked) -> Found:
    """Search a store; ids in the answer are the caller's."""
    notes = []
    settings: dict[str, Any] = {"radius": asked.radius, "n_jobs": asked.jobs}
    if asked.where is not None:
        wanted = parse_ids(store, read_ids(asked.where))
        missing = _missing(store, wanted)
        if missing:
            notes.append(f"{missing:,} of the {len(wanted):,} ids in {asked.where} are not in the store.")
        settings["where"] = wanted
    if asked.query is not None:
        mode = "hamming" if asked.radius is not None else "asymmetric"
        settings["mode"] = mode if asked.mode == "auto" else asked.mode
        Q = query_items(store, asked.query, asked.key)
        names = [str(asked.query)] if is_single(asked.query, Q) else [str(row) for row in range(len(Q))]
        return Found(
            store.search(Q, asked.k, rerank=asked.rerank, **settings), names, asked.rerank, tuple(notes)
        )
    settings["mode"] = "hamming" if asked.mode == "auto" else asked.mode
    ids = parse_ids(store, asked.ids or [])
    hits = _like(store, ids, asked.k, settings)
    return Found(hits, [str(item) for item in ids], False, tuple(notes))


def is_single(path: Path, Q: NDArray[Any]) -> bool:
    """Tell whether a query file stands for one query."""
    from bilsh.workflows.sources import is_image

    return is_image(path)


def _like(store: Store, ids: list[Any], k: int, settings: dict[str, Any]) -> Neighbors:
    codes = store.get(ids).codes
    settings = {name: value for name, value in settings.items() if name != "where"}
    hits = search_segments(store.segments, None, codes, k, n_bits=store.n_bits, **settings)
    hits = _with_similarity(hits, store.coder)
    if isinstance(hits.ids, list):
        return replace(hits, ids=[store.external_ids(part) for part in hits.ids])
    return replace(hits, ids=store.external_ids(hits.ids))


def _with_similarity(hits: Neighbors, encoder: Any) -> Neighbors:
    """Add what the distances mean; the same quantity that a search by items tells."""
    of = "angle" if encoder.kind == "angle" else "kernel"
    if isinstance(hits.ids, list):
        found = [estimate_distances(distances, encoder, of=of) for distances in hits.distances]
        return replace(
            hits, similarity=[t.value for t in found], interval=[t.sampling_interval for t in found]
        )
    one = estimate_distances(hits.distances, encoder, of=of)
    return replace(hits, similarity=one.value, interval=one.sampling_interval)


def _missing(store: Store, ids: list[Any]) -> int:
    """Count the ids that are not in the store."""
    there = 0
    for item in ids:
        try:
            store.get([item])
            there += 1
        except InvalidInputError:
            continue
    return len(ids) - there


def query_items(store: Store, path: Path, key: str | None = None) -> NDArray[Any]:
    """Read queries (n, ...) from a file: rows of an array, or a photograph described as the store's images were."""
    from bilsh.workflows.sources import check_dimension, check_finite, describe_image, is_image

    if is_image(path):
        from bilsh.datasets.images import SkippedImage
        from bilsh.workflows.describing import make_descriptor

        existing(path)
        recipe = image_recipe(store)
        if recipe is None:
            raise InvalidInputError(
                f"{path} is an image, but {store.path} was not made from images by `bilsh encode`. "
                "Describe it yourself and pass an array file."
            )
        descriptor = make_descriptor(recipe.settings, recipe.codebook)
        found = describe_image(path, descriptor, recipe.settings.max_side)
        if isinstance(found, SkippedImage):
            raise InvalidInputError(f"{path}: {found.reason}.")
        return found[None]
    items = np.asarray(open_rows(path, key)[:])
    if items.ndim == 1:
        items = items[None]
    if items.ndim not in (2, 3) or 0 in items.shape:
        raise InvalidInputError(f"{path} has shape {items.shape}; expected (n, d), (n, d_w, d_v) or (d,).")
    check_finite(items, path)
    check_dimension(store.coder.input_shape_, items.shape[1:], path)
    return items


def image_recipe(store: Store) -> Recipe | None:
    """Return how the images of a store were described; None where it was not made from images."""
    recipe = read_recipe(store.path)
    return recipe if recipe is not None and recipe.images else None


def read_ids(path: Path) -> list[Any]:
    """Read ids from a file: integers of an .npy, or text with one id per line."""
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


def parse_ids(store: Store, ids: list[Any]) -> list[Any]:
    """Turn ids into what the store uses: integers or strings."""
    if store.id_kind == "str":
        return [str(item) for item in ids]
    return _integers(ids, f"the ids of {store.path} are integers")


def as_new_ids(ids: list[Any]) -> list[Any]:
    """Turn ids for a new store into integers where every one of them is written as one, else into strings."""
    if all(isinstance(item, int) or _INTEGER.fullmatch(item) for item in ids):
        return _integers(ids, "ids that are numbers must fit 64 bits")
    return [str(item) for item in ids]


def _integers(ids: list[Any], rule: str) -> list[int]:
    for item in ids:
        if not isinstance(item, int) and not _INTEGER.fullmatch(item):
            raise InvalidInputError(f"{rule}; got {item!r}.")
    numbers = [int(item) for item in ids]
    for number in numbers:
        if not -(2**63) <= number < 2**63:
            raise InvalidInputError(f"{rule} of 64 bits; got {number}.")
    return numbers
