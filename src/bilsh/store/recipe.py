"""How a store was made: kept beside its codes, so that a run can go on and queries are described alike.

`recipe.json` in the store's directory holds the settings, the identity of the source and the descriptor of
images; `codebook.npy` the VLAD centres where there are any. Both carry a SHA-256 in the recipe. A store made in
Python has no recipe and needs none.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import CorruptStoreError
from bilsh.files import replace_file
from bilsh.store.files import Directory, Disk, read_small

RECIPE = "recipe.json"
CODEBOOK = "codebook.npy"
FORMAT = 1
MAX_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Settings:
    """What decides which bits a store holds.

    Attributes
    ----------
    bits, method, oversampling, seed
        The encoder, see :data:`bilsh.encoders.presets.METHODS`.
    batch : int
        Most items per commit.
    keep_vectors : "float32", "float16" or None
    key : str or None
        Which array of an .npz, HDF5 or Parquet file.
    describe : str
        How images become numbers: "hog-color", "hog", "vlad", "pixels", "module:function"; "auto" is chosen by a look
        at them, and replaced by what was chosen.
    centers, side, max_side
        VLAD centres (0: chosen); pixels per side for hog-color, hog and pixels; longest side that images are shrunk to.
    """

    bits: int = 4096
    method: str = "default"
    oversampling: int | None = None
    seed: int = 0
    batch: int = 8192
    keep_vectors: str | None = None
    key: str | None = None
    describe: str = "auto"
    centers: int = 0
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


def write_recipe(store: Path, recipe: Recipe) -> None:
    """Write the recipe into a store's directory; the codebook first, so that a recipe is always complete."""
    digest = None
    if recipe.codebook is not None:
        buffer = io.BytesIO()
        np.save(buffer, recipe.codebook, allow_pickle=False)
        digest = hashlib.sha256(buffer.getvalue()).hexdigest()
        with replace_file(store / CODEBOOK) as file:
            file.write(buffer.getvalue())
    body = {
        "settings": asdict(recipe.settings),
        "source": recipe.source,
        "rows": recipe.rows,
        "images": recipe.images,
        "finished": recipe.finished,
        "codebook": digest,
    }
    with replace_file(store / RECIPE) as file:
        file.write(_encoded(body))


def _encoded(body: Any) -> bytes:
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    whole = {"format": FORMAT, "sha256": digest, "recipe": body}
    return (json.dumps(whole, indent=1, sort_keys=True) + "\n").encode()


def read_recipe(store: Path) -> Recipe | None:
    """Read the recipe of a store; None where there is none, CorruptStoreError where it is damaged."""
    try:
        return recipe_in(Disk().directory(store))
    except (FileNotFoundError, NotADirectoryError):
        return None


def recipe_in(directory: Directory) -> Recipe | None:
    """Read the recipe in a store's directory, every byte of it checked."""
    data = read_small(directory, RECIPE, MAX_BYTES)
    if data is None:
        return None
    try:
        body = json.loads(data)["recipe"]
        if data != _encoded(body):
            raise ValueError("its checksum does not match, or it has another format")
        codebook = _read_codebook(directory, body["codebook"])
        settings = Settings(**body["settings"])
        return Recipe(settings, body["source"], body["rows"], body["images"], codebook, body["finished"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptStoreError(
            f"{directory.path / RECIPE} is damaged: {error}. Codes and search by arrays are unaffected; "
            "restore it from a copy, or remove it to go without."
        ) from None


def recipe_files(directory: Directory) -> dict[str, bytes]:
    """Files of the recipe, after a check, in the order in which a copy must get them; none where there is none."""
    if recipe_in(directory) is None:
        return {}
    found = {name: read_small(directory, name, MAX_BYTES) for name in (CODEBOOK, RECIPE)}
    return {name: data for name, data in found.items() if data is not None}


def _read_codebook(directory: Directory, digest: str | None) -> NDArray[np.float32] | None:
    if digest is None:
        return None
    data = read_small(directory, CODEBOOK, MAX_BYTES)
    if data is None:
        raise ValueError(f"{CODEBOOK} is missing")
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"{CODEBOOK} does not match its checksum")
    # Not numpy.load: that would allocate what the header claims before it looks at the size.
    buffer = io.BytesIO(data)
    try:
        if np.lib.format.read_magic(buffer) != (1, 0):
            raise ValueError("version 1.0 is expected")
        shape, by_columns, dtype = np.lib.format.read_array_header_1_0(buffer)
    except Exception as error:  # a false header makes NumPy raise errors of many kinds
        raise ValueError(f"{CODEBOOK} is not a .npy file: {error}") from None
    if len(shape) != 2 or by_columns or dtype != np.dtype("<f4") or min(shape) < 1:
        raise ValueError(f"{CODEBOOK} holds {dtype} {shape}")
    flat = np.frombuffer(data, "<f4", offset=buffer.tell())
    return flat.reshape(shape).astype(np.float32)
