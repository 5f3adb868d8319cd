"""How a store was made: kept beside its codes, so that a run can go on and queries are described alike.

`recipe.json` in the store's directory holds the settings, the identity of the source and the descriptor of
images; `codebook.npy` the VLAD centres where there are any. Both carry a SHA-256 in the recipe. A store made in
Python has no recipe and needs none.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.descriptors.kinds import Descriptor, Hog, Pixels, Vlad
from bilsh.errors import CorruptStore, InvalidInputError

RECIPE = "recipe.json"
CODEBOOK = "codebook.npy"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Settings:
    """What decides which bits a store holds.

    Attributes
    ----------
    bits, method, oversampling, seed
        The encoder, see :data:`bilsh.workflows.ingest.METHODS`.
    batch : int
        Most items per commit.
    keep_vectors : "float32", "float16" or None
    key : str or None
        Which array of an .npz, HDF5 or Parquet file.
    describe : "vlad", "hog" or "pixels"
        How images become matrices.
    centers, side, max_side
        VLAD centres; pixels per side for hog and pixels; longest side that images are shrunk to.
    """

    bits: int = 4096
    method: str = "default"
    oversampling: int | None = None
    seed: int = 0
    batch: int = 8192
    keep_vectors: str | None = None
    key: str | None = None
    describe: str = "vlad"
    centers: int = 500
    side: int | None = None
    max_side: int | None = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a run needs to go on, and a query to be described."""

    settings: Settings
    source: dict[str, Any]
    rows: int
    images: bool
    codebook: NDArray[np.float32] | None = None
    finished: bool = False

    def descriptor(self) -> Descriptor:
        """Return the descriptor of images."""
        return make_descriptor(self.settings, self.codebook)


def make_descriptor(settings: Settings, codebook: NDArray[np.float32] | None) -> Descriptor:
    """Return the descriptor that settings name."""
    if settings.describe == "vlad" and codebook is not None:
        return Vlad(codebook)
    if settings.describe == "hog":
        return Hog(settings.side or 128)
    if settings.describe == "pixels":
        return Pixels(settings.side or 32, settings.side or 32)
    raise InvalidInputError(
        f"describe must be 'vlad' (with a codebook), 'hog' or 'pixels'; got {settings.describe!r}."
    )


def write_recipe(store: Path, recipe: Recipe) -> None:
    """Write the recipe into a store's directory; the codebook first, so that a recipe is always complete."""
    digest = None
    if recipe.codebook is not None:
        buffer = io.BytesIO()
        np.save(buffer, recipe.codebook, allow_pickle=False)
        digest = hashlib.sha256(buffer.getvalue()).hexdigest()
        _put(store / CODEBOOK, buffer.getvalue())
    body = {
        "settings": asdict(recipe.settings),
        "source": recipe.source,
        "rows": recipe.rows,
        "images": recipe.images,
        "finished": recipe.finished,
        "codebook": digest,
    }
    text = json.dumps(body, sort_keys=True)
    whole = {"format": FORMAT, "sha256": hashlib.sha256(text.encode()).hexdigest(), "recipe": body}
    _put(store / RECIPE, (json.dumps(whole, indent=1, sort_keys=True) + "\n").encode())


def read_recipe(store: Path) -> Recipe | None:
    """Read the recipe of a store; None where there is none, CorruptStore where it is damaged."""
    try:
        data = (store / RECIPE).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        whole = json.loads(data)
        body = whole["recipe"]
        good = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest() == whole["sha256"]
        if not good or whole["format"] != FORMAT:
            raise ValueError("its checksum does not match")
        codebook = _read_codebook(store, body["codebook"])
        settings = Settings(**body["settings"])
        return Recipe(settings, body["source"], body["rows"], body["images"], codebook, body["finished"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptStore(
            f"{store / RECIPE} is damaged: {error}. Codes and search by arrays are unaffected; restore it from a "
            "copy, or remove it to go without."
        ) from None


def _read_codebook(store: Path, digest: str | None) -> NDArray[np.float32] | None:
    if digest is None:
        return None
    try:
        data = (store / CODEBOOK).read_bytes()
    except FileNotFoundError:
        raise ValueError(f"{CODEBOOK} is missing") from None
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"{CODEBOOK} does not match its checksum")
    return np.asarray(np.load(io.BytesIO(data), allow_pickle=False), dtype=np.float32)


def _put(path: Path, data: bytes) -> None:
    """Put a file in place, whole and synced, or not at all."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
