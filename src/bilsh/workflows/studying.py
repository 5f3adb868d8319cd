"""Recall against bits of whatever is looked at: a store, an array file or a folder of images."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from bilsh.errors import InvalidInputError
from bilsh.store.recipe import read_recipe
from bilsh.types import Progress, silent
from bilsh.workflows.advice import Sampled, advice_cache, sampled
from bilsh.workflows.collection import Collection
from bilsh.workflows.curves import BitsCurve, bits_curve
from bilsh.workflows.recall import RANKINGS

TARGETS = tuple(round(0.5 + 0.01 * step, 2) for step in range(50))
"""Recalls that a code is recommended for."""


def study(subject: Collection | Path, progress: Progress = silent) -> dict[str, Any]:
    """Measure the curve, and which code reaches which recall; plain values.

    Parameters
    ----------
    subject : Collection or path
        A store that keeps vectors, or whose source is still there; an array file; a folder of images.
    progress : callable (what, done, total), optional
    """
    if isinstance(subject, Collection) and subject.vectors is not None:
        X = subject.items(slice(None))
        return told_curve(_measured(Sampled(X, len(X), X.shape[1:]), progress))
    path, key, describe = _source(subject)
    with sampled(path, key, describe, progress=progress) as data:
        return told_curve(_measured(data, progress))


def _source(subject: Collection | Path) -> tuple[Path, str | None, str | None]:
    if not isinstance(subject, Collection):
        return subject, None, None
    recipe = read_recipe(subject.path)
    path = None if recipe is None else Path(recipe.source["path"])
    if recipe is None or path is None or not path.exists():
        raise InvalidInputError(
            "recall is measured on the items themselves; this store keeps only codes, and what it was made from is not "
            "there. Encode with --keep-vectors, or look at the data: bilsh view x.npy."
        )
    describe = recipe.settings.describe
    if recipe.images and ":" in describe:
        raise InvalidInputError(
            f"the images of this store are described by the function {describe}, which would be run. "
            "Use `bilsh advise` with --describe if you trust it."
        )
    return path, recipe.settings.key, describe if recipe.images else None


def _measured(data: Sampled, progress: Progress) -> BitsCurve:
    return bits_curve(data.X, of=data.rows, cache=advice_cache(), progress=progress)


def told_curve(curve: BitsCurve) -> dict[str, Any]:
    """Tell a curve: its points, and for each way of ranking which point is the shortest that reaches a recall.

    `picks[by][i]` is the number of the point for `targets[i]`, or null where no code that was measured reaches it;
    `best[by]` is the one with the highest recall.
    """
    place = {id(point): number for number, point in enumerate(curve.points)}
    picks = {
        by: [
            None if (point := curve.shortest(target, by)) is None else place[id(point)] for target in TARGETS
        ]
        for by in RANKINGS
    }
    return {
        **asdict(curve),
        "targets": list(TARGETS),
        "picks": picks,
        "best": {by: place[id(curve.best(by))] for by in RANKINGS},
    }
