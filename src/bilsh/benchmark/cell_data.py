"""Codes that the benchmark of cells searches: images, as many as wanted; clusters; and texts.

Queries are never among the items, nor shifted copies of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bilsh
from bilsh.benchmark.sizes import Size
from bilsh.codes import Codes
from bilsh.datasets import digits, mnist
from bilsh.errors import MissingPackageError

PIECE = 20_000
KEPT_OUT = 2_000
Sets = dict[str, tuple[tuple[str, int, int, tuple[float, ...]], ...]]
IN_MEMORY: Sets = {
    "smoke": (("shifted", 1_000, 1_024, (0.95,)), ("shifted", 3_000, 1_024, (0.95,))),
    "quick": (
        ("MNIST", 68_000, 1_024, (0.95, 0.99)),
        ("MNIST", 68_000, 4_096, (0.95, 0.99)),
        ("shifted", 100_000, 1_024, (0.95,)),
        ("shifted", 300_000, 1_024, (0.95,)),
        ("clustered", 100_000, 512, (0.95,)),
        ("texts", 100_000, 1_024, (0.95,)),
    ),
    "full": (
        ("MNIST", 68_000, 1_024, (0.90, 0.95, 0.99, 0.995)),
        ("MNIST", 68_000, 4_096, (0.90, 0.95, 0.99, 0.995)),
        ("shifted", 100_000, 1_024, (0.95, 0.99)),
        ("shifted", 1_000_000, 1_024, (0.95, 0.99)),
        ("clustered", 100_000, 512, (0.95,)),
        ("texts", 100_000, 1_024, (0.95,)),
    ),
}
GROWING: Sets = {
    "smoke": (("shifted", 1_000, 512, (0.95,)),),
    "quick": tuple(("shifted", n, 512, (0.95,)) for n in (30_000, 100_000)),
    "full": tuple(("shifted", n, 512, (0.95,)) for n in (100_000, 1_000_000, 10_000_000)),
}
STORED: Sets = {
    "smoke": (("shifted", 1_000, 512, (0.95,)),),
    "quick": tuple((kind, 100_000, 512, (0.95,)) for kind in ("shifted", "clustered")),
    "full": (
        *(("shifted", n, 512, (0.95,)) for n in (100_000, 1_000_000, 10_000_000)),
        *(("clustered", n, 512, (0.95,)) for n in (100_000, 1_000_000)),
    ),
}
"""Kind of data, number of items, bits of a code, and recalls. Images are MNIST's; in the smoke run the digits of
scikit-learn."""


@dataclass(frozen=True, slots=True)
class Case:
    """Codes to search.

    Attributes
    ----------
    kind : str
    encoder : object
        That made the codes.
    codes, asked : uint8 array
        Of items and of queries.
    recalls : tuple of float
        That are asked for.
    """

    kind: str
    encoder: Any
    codes: Codes
    asked: Codes
    recalls: tuple[float, ...]

    def name(self, recall: float) -> str:
        """Name of the race for a recall; the number of items stands after the kind."""
        n, n_bytes = self.codes.shape
        return f"{self.kind} {n}, {8 * n_bytes} bits, recall {recall}"


def cases(size: Size, sets: Sets) -> Iterator[Case | str]:
    """Yield codes of items and queries, or why there are none."""
    name = size.name.removesuffix("-cpu")
    for kind, n, n_bits, recalls in sets[name]:
        try:
            train, items, queries = _pieces(kind, n, name == "smoke")
        except MissingPackageError as error:
            yield f"{kind} {n}: {error}"
            continue
        encoder = bilsh.KernelEncoder(n_bits, random_state=0).fit(train)
        codes, at = np.empty((n, n_bits // 8), dtype=np.uint8), 0
        for piece in items:
            codes[at : at + len(piece)] = encoder.transform(piece)
            at += len(piece)
        asked = np.concatenate([encoder.transform(piece) for piece in queries])
        yield Case(kind, encoder, codes[:at], asked, recalls)


Pieces = Iterator[NDArray[np.float32]]


def _pieces(kind: str, n: int, small: bool) -> tuple[NDArray[np.float32], Pieces, Pieces]:
    """What the encoder is fitted to, items and queries."""
    if kind == "clustered":
        return _clustered(n)
    if kind == "texts":
        vectors = _texts()
        shuffled = vectors[np.random.default_rng(0).permutation(len(vectors))]
        items = shuffled[KEPT_OUT:][:n]
        return items[:5_000], _cut(items), iter([shuffled[:KEPT_OUT]])
    images = (digits() if small else mnist()).X.astype(np.float32)
    images /= images.max()
    kept_out = 200 if small else KEPT_OUT
    rest = images[kept_out:]
    if kind == "MNIST":
        return rest[:5_000], _cut(rest[:n]), iter([images[:kept_out]])
    return rest[:5_000], variants(rest, n), variants(images[:kept_out], kept_out, seed=1)


def _cut(items: NDArray[np.float32]) -> Pieces:
    return (items[start : start + PIECE] for start in range(0, len(items), PIECE))


def _clustered(n: int) -> tuple[NDArray[np.float32], Pieces, Pieces]:
    """Vectors around 2,000 centres in 16 dimensions."""
    centres = np.random.default_rng(0).normal(size=(2_000, 16)).astype(np.float32)

    def some(count: int, seed: int) -> Pieces:
        rng = np.random.default_rng(seed)
        for start in range(0, count, PIECE):
            chosen = centres[rng.integers(0, len(centres), size=min(PIECE, count - start))]
            yield chosen + 0.3 * rng.normal(size=chosen.shape).astype(np.float32)

    return next(some(5_000, 1)), some(n, 2), some(KEPT_OUT, 3)


def _texts() -> NDArray[np.float32]:
    """Embeddings of WordNet's glosses."""
    try:
        wordllama = import_module("wordllama")
    except ImportError as error:
        raise MissingPackageError(
            "Embeddings of texts need the package wordllama: pip install wordllama."
        ) from error
    folder = Path(os.environ.get("WNSEARCHDIR", "/usr/share/wordnet"))
    files = sorted(folder.glob("data.*"))
    if not files:
        raise MissingPackageError(
            f"Texts are the glosses of WordNet, and {folder} has none: apt install wordnet-base, or say where they are "
            "by WNSEARCHDIR."
        )
    lines = [line for file in files for line in file.read_text().splitlines() if " | " in line]
    glosses = [line.split(" | ", 1)[1].strip() for line in lines]
    model = wordllama.WordLlama.load(cache_dir=Path(str(wordllama.__file__)).parent, disable_download=True)
    embedded: NDArray[np.float32] = model.embed(glosses).astype(np.float32)
    return embedded


def variants(images: NDArray[Any], n: int, seed: int = 0) -> Iterator[NDArray[np.float32]]:
    """Yield n images in pieces: originals, each shifted by up to two pixels and turned by up to ten degrees."""
    rng = np.random.default_rng(seed)
    side = images.shape[1]
    flat = np.zeros(
        (len(images), side * side + 1), dtype=np.float32
    )  # the last is what comes in from outside
    flat[:, :-1] = images.reshape(len(images), -1)
    moves = np.array([_move(side, *move) for move in product(range(-10, 11), range(-2, 3), range(-2, 3))])
    for start in range(0, n, PIECE):
        source = flat[(start + np.arange(min(PIECE, n - start))) % len(images)]
        chosen = rng.integers(0, len(moves), size=len(source))
        out = np.empty((len(source), side * side), dtype=np.float32)
        for move in range(len(moves)):
            mine = np.flatnonzero(chosen == move)
            out[mine] = source[mine].take(moves[move], axis=1)
        yield out.reshape(-1, side, side)


def _move(side: int, degrees: int, down: int, right: int) -> NDArray[np.int64]:
    """Pixel from which each pixel comes in an image that was turned and shifted; side * side for one outside."""
    grid, angle = np.arange(side) - (side - 1) / 2, np.deg2rad(degrees)
    row = np.cos(angle) * grid[:, None] + np.sin(angle) * grid + down
    column = np.cos(angle) * grid - np.sin(angle) * grid[:, None] + right
    rows, columns = (np.rint(at + (side - 1) / 2).astype(np.int64) for at in (row, column))
    inside = (rows >= 0) & (rows < side) & (columns >= 0) & (columns < side)
    return np.where(inside, rows * side + columns, side * side).ravel()
