"""Encoding a source into a store, batch by batch; a run that was cut off goes on where it stopped.

Everything that decides the bits (settings, source, encoder) is fixed in the store before the first batch, and a
batch is a fixed range of the source's items, committed whole. So a run that was killed at any point and started
again makes the same segments as one that was left alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import BilshError, DataNotFoundError, EncoderAdviceWarning, InvalidInputError
from bilsh.store import Batch, Store
from bilsh.store.creation import refuse_contents
from bilsh.store.files import Disk
from bilsh.store.recipe import Recipe, Settings, read_recipe, write_recipe
from bilsh.types import Progress, silent
from bilsh.workflows.describing import descriptor_for, make_descriptor
from bilsh.workflows.opening import check_ids, check_settings, given_ids, open_addition, open_source
from bilsh.workflows.queries import check_dimension, open_store
from bilsh.workflows.resuming import CHOSEN, adopted, position, rows_per_batch, same_settings, same_source
from bilsh.workflows.sources import ArraySource, ImageSource, Piece, Source

FIT_BYTES = 512 << 20
FIT_IMAGES = 512

Fill = Callable[[Source, Settings, Path, int, Progress], tuple[tuple[str, str], ...]]
"""Called with the source, the settings, the store, the first item that is not in it, and what tells progress."""


DEFAULT = "default"
"""The method that looks at the data and takes kernel or angle codes, see `bilsh advise`."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run of :func:`encode` or :func:`add` did.

    Attributes
    ----------
    store : str
    added : int
        Items that the store has more than before.
    written : int
        Items that were encoded: those added, and those that replaced others.
    items : int
        What the store holds now.
    resumed_at : int
        Where a run that had been cut off went on.
    skipped : tuple of (path, reason)
    encoder, bits, fingerprint
    notes : tuple of str
        What was chosen by a look at the data, and why.
    """

    store: str
    added: int
    written: int
    items: int
    resumed_at: int
    skipped: tuple[tuple[str, str], ...]
    encoder: str
    bits: int
    fingerprint: str
    notes: tuple[str, ...]


def make_encoder(settings: Settings, X: Any, rows: int, say: Progress) -> tuple[Any, list[str]]:
    """Return the unfitted encoder that settings name, and what was measured to choose it."""
    from bilsh.encoders.presets import METHODS
    from bilsh.workflows.advice import measured_choice

    name, notes = settings.method, []
    if name == DEFAULT and len(X) < 3:
        name = "kernel"  # nothing to measure
    elif name == DEFAULT:
        choice = measured_choice(X, settings.bits, of=rows, seed=settings.seed, progress=say)
        name, notes = choice.encoder, [str(choice)]
    if name not in METHODS:
        raise InvalidInputError(f"method must be one of {', '.join([DEFAULT, *METHODS])}; got {name!r}.")
    if settings.oversampling is not None and not METHODS[name].oversampled:
        able = ", ".join(each for each, method in METHODS.items() if method.oversampled)
        raise InvalidInputError(f"oversampling is a setting of {able}; not of {name}.")
    more = {} if settings.oversampling is None else {"oversampling": settings.oversampling}
    return METHODS[name].make(settings.bits, random_state=settings.seed, **more), notes


def encode(
    source: Path,
    store: Path,
    settings: Settings,
    *,
    ids: Path | None = None,
    id_column: str | None = None,
    codebook: NDArray[np.float32] | None = None,
    jobs: int = 1,
    progress: Progress = silent,
    fill: Fill | None = None,
) -> Outcome:
    """Encode an array file or a folder of images into a new store, or go on with a run that was cut off.

    Parameters
    ----------
    source : path
        Array file, or folder of images.
    store : path
        Directory of the store. Where an unfinished run with the same settings and source is, it goes on.
    settings : Settings
        All that decides the bits; `describe="auto"` and 0 centres are chosen by a look at the images.
    ids : path, optional
        File of ids, one per row of an array file, see :func:`bilsh.workflows.queries.read_ids`.
    id_column : str, optional
        Column or array of the source that holds the ids.
    codebook : float32 (c, 128), optional
        VLAD centres; without them they are learned from the images.
    jobs : int
        Threads. The bits do not depend on it.
    progress : callable, optional
    fill : callable, optional
        What encodes the items behind the first so many into the store, instead of this process batch by batch; see
        :func:`bilsh.distributed.encode`. It gives the images that it skipped.

    Returns
    -------
    Outcome
    """
    if settings.batch < 1:
        raise InvalidInputError(f"batch must be at least 1; got {settings.batch}.")
    if not source.exists():
        raise DataNotFoundError(f"{source} does not exist. Check the path.")
    given = given_ids(source, ids, id_column)
    check_settings(source, settings, codebook)
    begun = read_recipe(store)
    if begun is not None:
        same = adopted(settings, begun.settings)
        same_settings(begun.settings, same, store)
        descriptor = (
            make_descriptor(same, begun.codebook, asked=settings.describe) if source.is_dir() else None
        )
        data = open_source(source, same, descriptor, jobs, given, id_column)
        same_source(begun, data, source, store)
        if codebook is not None and (begun.codebook is None or not np.array_equal(codebook, begun.codebook)):
            raise InvalidInputError(
                f"{store} was begun with another codebook. Leave --codebook out to go on."
            )
        return _go_on(store, data, begun, jobs, progress, [], fill)
    notes: list[str] = []
    descriptor = None
    if source.is_dir():
        choice = descriptor_for(source, settings, codebook, progress)
        descriptor, codebook = choice.descriptor, choice.codebook
        notes += [] if settings.describe != CHOSEN else [" ".join(line.split()) for line in choice.lines()]
        settings = replace(
            settings,
            describe=choice.name,
            centers=choice.centers or settings.centers,
            side=choice.side or settings.side,
        )
    data = open_source(source, settings, descriptor, jobs, given, id_column)
    encoder = _fitted(data, settings, notes, progress)
    _create(store, encoder, settings)
    book = codebook if isinstance(data, ImageSource) else None
    recipe = Recipe(settings, data.identity(), data.rows, isinstance(data, ImageSource), book)
    write_recipe(store, recipe)
    return _go_on(store, data, recipe, jobs, progress, notes, fill)


def add(
    store: Path,
    source: Path,
    *,
    ids: Path | None = None,
    id_column: str | None = None,
    upsert: bool = False,
    key: str | None = None,
    describe: str | None = None,
    jobs: int = 1,
    progress: Progress = silent,
) -> Outcome:
    """Add an array file, an image or a folder of images to a store, in one transaction: all of it or nothing.

    Parameters
    ----------
    store, source : path
    ids, id_column
        As in :func:`encode`.
    upsert : bool
        Replace items whose ids are there already, instead of refusing them.
    key : str, optional
        Which array of the source.
    describe : str, optional
        The user's own function that describes the store's images; it is not run unless it is named.
    jobs : int
    progress : callable, optional
    """
    recipe = read_recipe(store)
    with open_store(store, "a") as target:
        if recipe is not None and not recipe.finished:
            raise BilshError(
                f"{store} is not finished: run the `bilsh encode` that began it again first, so that it can go on."
            )
        before = len(target)
        data = open_addition(
            source, recipe, key, describe, jobs, given_ids(source, ids, id_column), id_column
        )
        check_ids(data, target, upsert)
        check_dimension(target.coder.input_shape, data.item_shape, source)
        skipped: list[tuple[str, str]] = []
        batches = _batches(data, rows_per_batch(8192, data.item_shape), skipped, progress)
        written = (target.upsert if upsert else target.add)(batches, n_jobs=jobs)
        return _outcome(target, store, len(target) - before, written, 0, skipped, [])


def _fitted(data: Source, settings: Settings, notes: list[str], say: Progress) -> Any:
    row_bytes = 4 * int(np.prod(data.item_shape))
    most = FIT_IMAGES if isinstance(data, ImageSource) else max(1000, FIT_BYTES // row_bytes)
    X = data.sample(most, say)
    try:
        encoder, measured = make_encoder(settings, X, data.rows, say)
        notes += measured
        say("fitting the encoder", 0, 1)
        # What suits the data was measured; a method chosen by name was chosen on purpose.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EncoderAdviceWarning)
            encoder.fit(X)
        say("fitting the encoder", 1, 1)
        return encoder
    except InvalidInputError:
        if isinstance(data, ArraySource):
            data.check()
        raise


def _create(store: Path, encoder: Any, settings: Settings) -> None:
    if Store.exists(store):
        with Store.open(store) as there:
            if there.next_id == 0 and there.fingerprint == encoder.fingerprint:
                return  # an earlier run was cut off between the store and its recipe
        raise BilshError(
            f"{store} is a store already, and not one that `bilsh encode` began. "
            "Add to it with `bilsh add`, or choose another place with -o."
        )
    if store.exists():
        try:
            refuse_contents(Disk().directory(store))
        except (FileExistsError, NotADirectoryError):
            raise InvalidInputError(
                f"{store} exists and is no store. Choose another place with -o, or empty it first."
            ) from None
    store.parent.mkdir(parents=True, exist_ok=True)
    Store.create(store, encoder, keep_vectors=settings.keep_vectors).close()  # type: ignore[arg-type]


def _go_on(
    path: Path, data: Source, recipe: Recipe, jobs: int, say: Progress, notes: list[str], fill: Fill | None
) -> Outcome:
    if fill is not None:
        return _filled(path, data, recipe, say, notes, fill)
    step = rows_per_batch(recipe.settings.batch, data.item_shape)
    skipped: list[tuple[str, str]] = []
    with Store.open(path, mode="a", log=False) as store:
        at = begin = position(store, recipe, data)
        before = len(store)
        say("encoding", at, data.rows)
        while at < data.rows:
            stop = min(at + step, data.rows)
            piece = data.read(at, stop)
            skipped += [(str(item.path), item.reason) for item in piece.skipped]
            if len(piece.X):
                store.add(piece.X, ids=piece.ids, n_jobs=jobs)
            at = stop
            say("encoding", at, data.rows)
        if not recipe.finished:
            write_recipe(path, replace(recipe, finished=True))
        added = len(store) - before
        return _outcome(store, path, added, added, begin, skipped, notes)


def _filled(path: Path, data: Source, recipe: Recipe, say: Progress, notes: list[str], fill: Fill) -> Outcome:
    with Store.open(path) as store:
        begin, before = position(store, recipe, data), len(store)
    skipped = fill(data, recipe.settings, path, begin, say) if begin < data.rows else ()
    if not recipe.finished:
        write_recipe(path, replace(recipe, finished=True))
    with Store.open(path) as store:
        added = len(store) - before
        return _outcome(store, path, added, added, begin, list(skipped), notes)


def _batches(data: Source, step: int, skipped: list[tuple[str, str]], say: Progress) -> Iterator[Batch]:
    """Read a source batch by batch."""
    for start in range(0, data.rows, step):
        stop = min(start + step, data.rows)
        piece: Piece = data.read(start, stop)
        skipped.extend((str(item.path), item.reason) for item in piece.skipped)
        yield Batch(piece.X, piece.ids)
        say("encoding", stop, data.rows)


def _outcome(
    store: Store,
    path: Path,
    added: int,
    written: int,
    resumed_at: int,
    skipped: list[tuple[str, str]],
    notes: list[str],
) -> Outcome:
    return Outcome(
        store=str(path),
        added=added,
        written=written,
        items=len(store),
        resumed_at=resumed_at,
        skipped=tuple(skipped),
        encoder=store.coder.kind,
        bits=store.n_bits,
        fingerprint=store.fingerprint,
        notes=tuple(notes),
    )


__all__ = ["DEFAULT", "Outcome", "Settings", "add", "encode"]
