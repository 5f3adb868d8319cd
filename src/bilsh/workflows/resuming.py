"""Going on with a run that was cut off: is it the same run, and where did it stop."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from bilsh.errors import BilshError, InvalidInputError
from bilsh.store import Store
from bilsh.store.recipe import Recipe, Settings
from bilsh.workflows.sources import ArraySource, ImageSource, Source

BATCH_BYTES = 64 << 20
CHOSEN = "auto"
"""The descriptor of images that is chosen by a look at them; 0 centres are chosen likewise."""


def rows_per_batch(batch: int, shape: tuple[int, ...]) -> int:
    """Return how many items make a batch: at most `batch`, and at most 64 MiB of float32."""
    return max(1, min(batch, BATCH_BYTES // (4 * int(np.prod(shape)))))


def adopted(asked: Settings, begun: Settings) -> Settings:
    """Return the settings asked for, with the descriptor and its size as they were chosen when the run was begun."""
    return replace(
        asked,
        describe=begun.describe if asked.describe == CHOSEN else asked.describe,
        centers=asked.centers or begun.centers,
        side=asked.side or begun.side,
    )


def same_settings(begun: Settings, settings: Settings, store: Path) -> None:
    """Refuse to go on with other settings than a run was begun with."""
    old, new = asdict(begun), asdict(settings)
    for name in old:
        if old[name] != new[name]:
            option = "--" + name.replace("_", "-")
            raise InvalidInputError(
                f"{store} was begun with {option} {old[name]}, now {new[name]} is asked for. "
                "Go on with the same options, or choose another place with -o."
            )


def same_source(begun: Recipe, data: Source, source: Path, store: Path) -> None:
    """Refuse to go on with another source, or one that has changed."""
    # The path may differ: source and store may have been moved or mounted elsewhere.
    if {**data.identity(), "path": None} != {**begun.source, "path": None}:
        raise InvalidInputError(
            f"{source} is not what {store} was begun with, or has changed since ({begun.source['path']}). "
            "Add further items with `bilsh add`, or choose another place with -o."
        )


def position(store: Store, recipe: Recipe, data: Source) -> int:
    """Return the first item of the source that no committed batch covers."""
    if recipe.finished:
        return recipe.rows
    if isinstance(data, ArraySource):
        # Behind names, items are numbered as they come.
        by_number = data.ids is None or store.id_kind == "str"
        return min(store.next_id, recipe.rows) if by_number else _after_known_ids(store, recipe, data)
    if not isinstance(data, ImageSource) or store.next_id == 0:
        return 0
    # Unreadable images have no row, so rows do not tell the place; the last name does, as batches are whole.
    last = store.external_ids(np.array([store.next_id - 1]))[0]
    if last not in data.names:
        raise BilshError(
            f"{store.path} lost its last image ({last}) before the run was finished, so the run cannot go on. "
            "Choose another place with -o."
        )
    step = rows_per_batch(recipe.settings.batch, data.item_shape)
    return min((data.names.index(last) // step + 1) * step, recipe.rows)


def _after_known_ids(store: Store, recipe: Recipe, data: ArraySource) -> int:
    """Return the first row of the first batch of which the store has no id; batches are committed whole, in order."""
    step = rows_per_batch(recipe.settings.batch, data.item_shape)

    def known(batch: int) -> bool:
        try:
            store.get(data.ids[batch * step : batch * step + 1])
        except InvalidInputError:
            return False
        return True

    low, high = 0, -(-data.rows // step)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if known(middle) else (low, middle)
    return min(low * step, recipe.rows)
