"""Encoding a source into a store, batch by batch; a run that was cut off goes on where it stopped.

Everything that decides the bits (settings, source, encoder) is fixed in the store before the first batch, and a
batch is a fixed range of the source's items, committed whole. So a run that was killed at any point and started
again makes the same segments as one that was left alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import BilshError, DataNotFoundError, EncoderAdvice, InvalidInputError
from bilsh.store import Batch, Store
from bilsh.store.recipe import CODEBOOK, Recipe, Settings, read_recipe, write_recipe
from bilsh.workflows.describing import make_descriptor
from bilsh.workflows.sources import ArraySource, ImageSource, Piece, Source, is_image

FIT_BYTES = 512 << 20
FIT_IMAGES = 512
CODEBOOK_IMAGES = 500
BATCH_BYTES = 64 << 20

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""

METHODS = {
    "default": "kernel or angle, whichever suits the data (see `bilsh advise`)",
    "kernel": "kernel codes, scrambled orthogonal bilinear projection",
    "angle": "sign codes, scrambled orthogonal bilinear projection",
    "blsh-sik": "the paper: bilinear projections for shift-invariant kernels (Algorithm 1)",
    "lsh-sik": "dense projections for shift-invariant kernels",
    "lsh-angle": "dense projections, sign",
    "bilinear-angle": "bilinear projections, sign",
    "circulant-sik": "circulant projections for shift-invariant kernels",
    "circulant-angle": "circulant projections, sign",
    "hadamard-kernel": "Hadamard projections, kernel codes",
    "hadamard-angle": "Hadamard projections, sign",
}
_BILINEAR = ("default", "kernel", "angle", "blsh-sik")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run of :func:`encode` or :func:`add` did."""

    store: str
    added: int
    items: int
    resumed_at: int
    skipped: tuple[tuple[str, str], ...]
    encoder: str
    bits: int
    fingerprint: str


def make_encoder(settings: Settings, X: Any) -> Any:
    """Return the unfitted encoder that settings name; "default" looks at the data."""
    import bilsh
    from bilsh.encoders import neighbourhood
    from bilsh.encoders.estimators import NORM_RATIO_BOUNDARY

    if settings.method not in METHODS:
        raise InvalidInputError(f"method must be one of {', '.join(METHODS)}; got {settings.method!r}.")
    if settings.oversampling is not None and settings.method not in _BILINEAR:
        raise InvalidInputError(
            f"oversampling is a setting of {', '.join(_BILINEAR)}; not of {settings.method}."
        )
    k, seed, m = settings.bits, settings.seed, settings.oversampling or 1
    method = settings.method
    if method == "default":
        ratio = neighbourhood.measure(X, np.random.default_rng(seed)).norm_ratio
        method = "angle" if ratio < NORM_RATIO_BOUNDARY else "kernel"
    makers: dict[str, Callable[[], Any]] = {
        "kernel": lambda: bilsh.KernelEncoder(k, projection=bilsh.Bilinear(m), random_state=seed),
        "angle": lambda: bilsh.AngleEncoder(k, projection=bilsh.Bilinear(m), random_state=seed),
        "blsh-sik": lambda: bilsh.blsh_sik(k, oversampling=m, random_state=seed),
        "lsh-sik": lambda: bilsh.lsh_sik(k, random_state=seed),
        "lsh-angle": lambda: bilsh.lsh_angle(k, random_state=seed),
        "bilinear-angle": lambda: bilsh.bilinear_angle(k, random_state=seed),
        "circulant-sik": lambda: bilsh.circulant_sik(k, random_state=seed),
        "circulant-angle": lambda: bilsh.circulant_angle(k, random_state=seed),
        "hadamard-kernel": lambda: bilsh.KernelEncoder(k, projection="hadamard", random_state=seed),
        "hadamard-angle": lambda: bilsh.AngleEncoder(k, projection="hadamard", random_state=seed),
    }
    return makers[method]()


def encode(
    source: Path,
    store: Path,
    settings: Settings,
    *,
    codebook: NDArray[np.float32] | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Outcome:
    """Encode an array file or a folder of images into a new store, or go on with a run that was cut off.

    Parameters
    ----------
    source : path
        Array file, or folder of images.
    store : path
        Directory of the store. Where an unfinished run with the same settings and source is, it goes on.
    settings : Settings
        All that decides the bits.
    codebook : float32 (c, 128), optional
        VLAD centres; without them they are learned from at most 500 of the images.
    jobs : int
        Threads. The bits do not depend on it.
    progress : callable, optional

    Returns
    -------
    Outcome
    """
    say = progress or (lambda what, done, total: None)
    if settings.batch < 1:
        raise InvalidInputError(f"batch must be at least 1; got {settings.batch}.")
    if not source.exists():
        raise DataNotFoundError(f"{source} does not exist. Check the path.")
    begun = read_recipe(store)
    if begun is not None:
        _same_settings(begun, settings, store)
        data = _open(source, settings, begun.codebook, jobs)
        _same_source(begun, data, source, store)
        if codebook is not None and (begun.codebook is None or not np.array_equal(codebook, begun.codebook)):
            raise InvalidInputError(
                f"{store} was begun with another codebook. Leave --codebook out to go on."
            )
        return _go_on(store, data, begun, jobs, say)
    if settings.describe == "vlad" and codebook is None and source.is_dir():
        codebook = _learn_codebook(source, settings, say)
    data = _open(source, settings, codebook, jobs)
    say("fitting the encoder", 0, 1)
    encoder = _fitted(data, settings)
    say("fitting the encoder", 1, 1)
    _create(store, encoder, settings)
    book = codebook if isinstance(data, ImageSource) and settings.describe == "vlad" else None
    recipe = Recipe(settings, data.identity(), data.rows, isinstance(data, ImageSource), book)
    write_recipe(store, recipe)
    return _go_on(store, data, recipe, jobs, say)


def add(
    store: Path,
    source: Path,
    *,
    ids: list[Any] | None = None,
    key: str | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Outcome:
    """Add an array file, an image or a folder of images to a store, in one transaction: all of it or nothing."""
    say = progress or (lambda what, done, total: None)
    recipe = read_recipe(store)
    with Store.open(store, mode="a") as target:
        if recipe is not None and not recipe.finished:
            raise BilshError(
                f"{store} is not finished: run the `bilsh encode` that began it again first, so that it can go on."
            )
        before = len(target)
        data = _addition(source, recipe, key, jobs)
        if target.id_kind == "str" and ids is None and isinstance(data, ArraySource):
            raise InvalidInputError(
                f"the items of {store} have names; give one name per row with --ids FILE."
            )
        if ids is not None and isinstance(data, ArraySource) and len(ids) != data.rows:
            raise InvalidInputError(f"{source} has {data.rows} rows; {len(ids)} ids were given.")
        check_dimension(target, data.item_shape, source)
        skipped: list[tuple[str, str]] = []
        step = rows_per_batch(8192, data.item_shape)
        target.add(_batches(data, step, ids, skipped, say), n_jobs=jobs)
        return _outcome(target, store, len(target) - before, 0, skipped)


def rows_per_batch(batch: int, shape: tuple[int, ...]) -> int:
    """Return how many items make a batch: at most `batch`, and at most 64 MiB of float32."""
    return max(1, min(batch, BATCH_BYTES // (4 * int(np.prod(shape)))))


def check_dimension(store: Store, shape: tuple[int, ...], source: Path) -> None:
    """Refuse items of another size than the store's."""
    wanted, found = store.coder.input_shape_, int(np.prod(shape))
    if found != int(np.prod(wanted)) or (len(shape) == 2 and tuple(shape) != tuple(wanted)):
        raise InvalidInputError(
            f"{source} holds items of shape {tuple(shape)} ({found} values); those of the store have shape "
            f"{tuple(wanted)} ({int(np.prod(wanted))} values)."
        )


def _open(source: Path, settings: Settings, codebook: NDArray[np.float32] | None, jobs: int) -> Source:
    if source.is_dir():
        if settings.describe != "vlad" and codebook is not None:
            raise InvalidInputError(f"a codebook belongs to describe='vlad'; got {settings.describe!r}.")
        descriptor = make_descriptor(settings, codebook)
        return ImageSource(source, descriptor, max_side=settings.max_side, jobs=jobs)
    return ArraySource(source, settings.key)


def _addition(source: Path, recipe: Recipe | None, key: str | None, jobs: int) -> Source:
    if source.is_dir() or is_image(source):
        if recipe is None or not recipe.images:
            raise InvalidInputError(
                f"{source} holds images, but the store was not made from images: describe them yourself and add an "
                "array file."
            )
        folder = source if source.is_dir() else source.parent
        descriptor = make_descriptor(recipe.settings, recipe.codebook)
        data = ImageSource(folder, descriptor, max_side=recipe.settings.max_side, jobs=jobs)
        if not source.is_dir():
            if not source.is_file():
                raise DataNotFoundError(f"{source} does not exist. Check the path.")
            data.paths, data.names = [source], [source.name]
        return data
    return ArraySource(source, key)


def _learn_codebook(source: Path, settings: Settings, say: Progress) -> NDArray[np.float32]:
    from bilsh.datasets.images import images
    from bilsh.descriptors import learn_codebook

    folder = images(source, max_side=settings.max_side)
    folder.paths = folder.paths[:: -(-len(folder) // CODEBOOK_IMAGES)]
    try:
        return learn_codebook(
            folder,
            settings.centers,
            rng=settings.seed,
            progress=lambda done, total: say("learning the codebook", done, total),
        )
    except InvalidInputError as error:
        raise InvalidInputError(f"{error} (--centers, --codebook, or --describe hog.)") from None


def _fitted(data: Source, settings: Settings) -> Any:
    row_bytes = 4 * int(np.prod(data.item_shape))
    most = FIT_IMAGES if isinstance(data, ImageSource) else max(1000, FIT_BYTES // row_bytes)
    X = data.sample(most)
    try:
        # The rule behind "default" was applied already; a method chosen by name was chosen on purpose.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EncoderAdvice)
            return make_encoder(settings, X).fit(X)
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
    store.parent.mkdir(parents=True, exist_ok=True)
    Store.create(store, encoder, keep_vectors=settings.keep_vectors).close()  # type: ignore[arg-type]


def _same_settings(begun: Recipe, settings: Settings, store: Path) -> None:
    old, new = asdict(begun.settings), asdict(settings)
    for name in old:
        if old[name] != new[name]:
            option = "--" + name.replace("_", "-")
            raise InvalidInputError(
                f"{store} was begun with {option} {old[name]}, now {new[name]} is asked for. "
                "Go on with the same options, or choose another place with -o."
            )


def _same_source(begun: Recipe, data: Source, source: Path, store: Path) -> None:
    # The path may differ: source and store may have been moved or mounted elsewhere.
    if {**data.identity(), "path": None} != {**begun.source, "path": None}:
        raise InvalidInputError(
            f"{source} is not what {store} was begun with, or has changed since ({begun.source['path']}). "
            "Add further items with `bilsh add`, or choose another place with -o."
        )


def _go_on(path: Path, data: Source, recipe: Recipe, jobs: int, say: Progress) -> Outcome:
    step = rows_per_batch(recipe.settings.batch, data.item_shape)
    skipped: list[tuple[str, str]] = []
    with Store.open(path, mode="a", log=False) as store:
        at = begin = _position(store, recipe, data)
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
        return _outcome(store, path, len(store) - before, begin, skipped)


def _position(store: Store, recipe: Recipe, data: Source) -> int:
    """Return the first item of the source that no committed batch covers."""
    if recipe.finished:
        return recipe.rows
    if not isinstance(data, ImageSource):
        return min(store.next_id, recipe.rows)
    if store.next_id == 0:
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


def _batches(
    data: Source, step: int, ids: list[Any] | None, skipped: list[tuple[str, str]], say: Progress
) -> Iterator[Batch]:
    """Read a source batch by batch; ids that were given go before the names that it has itself."""
    for start in range(0, data.rows, step):
        stop = min(start + step, data.rows)
        piece: Piece = data.read(start, stop)
        skipped.extend((str(item.path), item.reason) for item in piece.skipped)
        yield Batch(piece.X, piece.ids if ids is None else ids[start:stop])
        say("encoding", stop, data.rows)


def _outcome(
    store: Store, path: Path, added: int, resumed_at: int, skipped: list[tuple[str, str]]
) -> Outcome:
    return Outcome(
        store=str(path),
        added=added,
        items=len(store),
        resumed_at=resumed_at,
        skipped=tuple(skipped),
        encoder=store.coder.kind,
        bits=store.n_bits,
        fingerprint=store.fingerprint,
    )


__all__ = ["CODEBOOK", "METHODS", "Outcome", "Settings", "add", "encode"]
