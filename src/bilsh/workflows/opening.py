"""The source that a call names, with its ids; what a call would ignore is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.datasets.images import is_image
from bilsh.descriptors.kinds import Descriptor
from bilsh.errors import DataNotFoundError, InvalidInputError
from bilsh.store import Store
from bilsh.store.ids import as_names
from bilsh.store.recipe import Recipe, Settings
from bilsh.workflows.describing import make_descriptor
from bilsh.workflows.queries import as_new_ids, parse_ids, read_ids
from bilsh.workflows.resuming import CHOSEN
from bilsh.workflows.sources import ArraySource, ImageSource, Source


def given_ids(source: Path, ids: Path | None, id_column: str | None) -> list[Any] | None:
    """Read the ids that a file gives, and refuse ids of images."""
    if ids is not None and id_column is not None:
        raise InvalidInputError("give the ids in a file (--ids) or as a column (--id-column), not both.")
    if (ids is not None or id_column is not None) and (source.is_dir() or is_image(source)):
        raise InvalidInputError("images go by their path; --ids and --id-column are for array files.")
    return None if ids is None else as_new_ids(read_ids(ids))


def check_settings(source: Path, settings: Settings, codebook: NDArray[np.float32] | None) -> None:
    """Refuse what would be ignored: settings of images for arrays, and those of one descriptor for another."""
    name = settings.describe
    if source.is_dir():
        if settings.key is not None:
            raise InvalidInputError(f"{source} is a folder of images; --key is for array files.")
        if codebook is not None and name not in (CHOSEN, "vlad"):
            raise InvalidInputError(f"a codebook belongs to --describe vlad; got {name!r}.")
        if settings.centers and name not in (CHOSEN, "vlad"):
            raise InvalidInputError(f"--centers belongs to --describe vlad; got {name!r}.")
        if settings.side is not None and (name == "vlad" or ":" in name):
            raise InvalidInputError(f"--side belongs to hog-color, hog and pixels; got --describe {name}.")
    elif name != CHOSEN or codebook is not None or settings.centers or settings.side or settings.max_side:
        raise InvalidInputError(
            f"{source} is an array file; --describe, --codebook, --centers, --side and --max-side are for images."
        )


def check_ids(data: Source, target: Store, upsert: bool) -> None:
    """Bring the ids of a source into the kind that the store has; refuse a source that lacks them."""
    if not isinstance(data, ArraySource):
        return
    if data.ids is not None:
        data.ids = parse_ids(target, list(data.ids)) if target.id_kind else data.ids
    elif upsert:
        raise InvalidInputError("to replace items their ids are needed: give --ids FILE or --id-column NAME.")
    elif target.id_kind == "str":
        raise InvalidInputError(
            f"the items of {target.path} have names; give one name per row with --ids FILE or --id-column NAME."
        )


def open_source(
    source: Path,
    settings: Settings,
    descriptor: Descriptor | None,
    jobs: int,
    ids: list[Any] | None,
    id_column: str | None,
) -> Source:
    """Open a folder of images, described, or an array file."""
    if descriptor is not None:
        return ImageSource(source, descriptor, max_side=settings.max_side, jobs=jobs)
    data = ArraySource(source, settings.key, ids=ids, id_column=id_column)
    if data.ids is not None:
        as_names(data.ids, None)  # refuses doubles and empty names before a store is made
    return data


def open_addition(
    source: Path,
    recipe: Recipe | None,
    key: str | None,
    describe: str | None,
    jobs: int,
    ids: list[Any] | None,
    id_column: str | None,
) -> ArraySource | ImageSource:
    """Open what is added to a store: images described as its own, or an array file."""
    if source.is_dir() or is_image(source):
        if recipe is None or not recipe.images:
            raise InvalidInputError(
                f"{source} holds images, but the store was not made from images: describe them yourself and add an "
                "array file."
            )
        folder = source if source.is_dir() else source.parent
        descriptor = make_descriptor(recipe.settings, recipe.codebook, asked=describe)
        data = ImageSource(folder, descriptor, max_side=recipe.settings.max_side, jobs=jobs)
        if not source.is_dir():
            if not source.is_file():
                raise DataNotFoundError(f"{source} does not exist. Check the path.")
            data.paths, data.names = [source], [source.name]
        return data
    return ArraySource(source, key, ids=ids, id_column=id_column)
