"""A store held in memory to be looked at: items by row, codes of every length, what is known of each item.

Everything is read and checked when it is opened, so whatever happens to the files afterwards, looking goes on.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import Codes, prefix
from bilsh.encoders.coder import Coder
from bilsh.encoders.euclidean_coder import require_hamming
from bilsh.encoders.sampling import with_hits
from bilsh.errors import InvalidInputError
from bilsh.search.background import Background
from bilsh.search.index import Index
from bilsh.store.recipe import Recipe, read_recipe
from bilsh.workflows.exact import Exact
from bilsh.workflows.queries import open_store

SHORTEST = 64
MOST_BYTES = 4 << 30
"""Codes beyond this are not loaded."""

VECTOR_BYTES = 1 << 30
"""Vectors beyond this are not loaded: there are no true ranks then."""


class Collection:
    """Items of one version of a store.

    Parameters
    ----------
    path : path
        Directory of the store.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_store(path) as store:
            require_hamming(store.coder, "Ask it with `bilsh search`.")
            n_bytes = len(store) * (-(-store.n_bits // 8))
            if n_bytes > MOST_BYTES:
                raise InvalidInputError(
                    f"{path} has {n_bytes / 1e9:.1f} GB of codes; at most {MOST_BYTES / 1e9:.1f} GB are held in memory "
                    "to be looked at. Look at a store of some of its items."
                )
            self.version, self.fingerprint = store.version, store.fingerprint
            self.coder: Coder = store.coder
            self.keeps = store.keep_vectors
            self.strings = store.id_kind == "str"
            made = read_recipe(path)
            self.recipe: Recipe | None = made if made is not None and made.images else None
            self.source = None if made is None else Path(made.source["path"]).name + "/" * made.images
            size = len(store) * self.coder.n_features * 4
            held = self.keeps is not None and size <= VECTOR_BYTES
            self.no_truth = None if held else _why_no_truth(self.keeps, size)
            ids, codes, vectors = [], [], []
            self.notes: dict[int, Any] = {}
            row = 0
            order = self.coder.order
            for items in store.batches(8192):
                ids.append(items.ids)
                codes.append(items.codes if order is None else order.apply(items.codes))
                if held and items.vectors is not None:
                    vectors.append(items.vectors.astype(np.float32))
                self.notes |= {row + i: note for i, note in enumerate(items.metadata) if note is not None}
                row += len(items)
        self.ids: NDArray[Any] = np.concatenate(ids) if ids else np.empty(0, dtype=np.int64)
        width = -(-self.coder.n_bits // 8)
        self.codes: Codes = np.concatenate(codes) if codes else np.empty((0, width), dtype=np.uint8)
        self.vectors: NDArray[np.float32] | None = np.concatenate(vectors) if vectors else None
        self._rows: dict[Any, int] | None = None
        self._indexes: dict[int, Index] = {}
        self._exact: Exact | None = None
        self._band: Background | None = None
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_bits(self) -> int:
        """Length of a code."""
        return self.coder.n_bits

    @property
    def quantity(self) -> str | None:
        """What similarities are; None where codes do not tell any."""
        return self.coder.calibration.similarity if self.coder.tells else None

    @property
    def ladder(self) -> tuple[int, ...]:
        """Lengths that are looked at: 64 bits, doubled until the whole code."""
        lengths, bits = [], SHORTEST
        while bits < self.n_bits:
            lengths.append(bits)
            bits *= 2
        return (*lengths, self.n_bits)

    def index(self, n_bits: int) -> Index:
        """Codes of one of the lengths, made when first asked for.

        A prefix of a code knows nothing about its hits; where vectors are kept, a sample of them tells.
        """
        with self._lock:
            if n_bits not in self._indexes:
                self._indexes[n_bits] = self._made(n_bits)
            return self._indexes[n_bits]

    def _made(self, n_bits: int) -> Index:
        if n_bits == self.n_bits:
            return Index(self.codes, self.coder, vectors=self.vectors)
        coder = self.coder.truncated(n_bits)
        if self.vectors is not None and self.coder.hits is not None:
            coder = with_hits(coder, self.items(slice(None)), np.random.default_rng(0))
        return Index(prefix(self.codes, n_bits), coder, vectors=self.vectors)

    def items(self, rows: Any) -> NDArray[np.float32]:
        """Kept vectors of rows, in the shape that they were given."""
        if self.vectors is None:
            raise InvalidInputError(self.no_truth or "this store has no items yet.")
        return np.asarray(self.vectors[rows]).reshape(-1, *self.coder.input_shape)

    @property
    def exact(self) -> Exact | None:
        """True similarities, where vectors are kept."""
        if self.vectors is None or not self.coder.tells:
            return None
        with self._lock:
            if self._exact is None:
                self._exact = Exact(self.coder, self.vectors)
            return self._exact

    @property
    def background(self) -> Background | None:
        """The band of random pairs, by the whole codes."""
        if len(self) < 2:
            return None
        whole = self.index(self.n_bits)
        with self._lock:
            if self._band is None:
                self._band = whole.background()
            return self._band

    def check_row(self, row: int, name: str = "item") -> int:
        """Refuse rows that are not there."""
        if not 0 <= row < len(self):
            raise InvalidInputError(
                f"{name} must be a row from 0 to {len(self) - 1}; got {row}."
                if len(self)
                else "this store is empty: there are no items to look at. Add some with `bilsh add`."
            )
        return row

    def name(self, row: int) -> str:
        """Id of an item, as text."""
        return str(self.ids[row])

    def caption(self, row: int) -> str | None:
        """Metadata of an item in one line; None where it has none."""
        note = self.notes.get(row)
        if note is None:
            return None
        if isinstance(note, dict):
            text = " · ".join(f"{key} {_short(value)}" for key, value in note.items())
        else:
            text = _short(note)
        return text if len(text) <= 200 else text[:199] + "…"

    def find(self, text: str, after: int = -1, limit: int = 20) -> list[int]:
        """Rows whose ids or captions contain a text, an exact id first."""
        wanted = text.casefold()
        found: list[int] = []
        if after < 0:
            exact = self._named().get(text)
            found += [] if exact is None else [exact]
        for row in range(after + 1, len(self)):
            if len(found) >= limit:
                break
            if row in found:
                continue
            if wanted in self.name(row).casefold() or wanted in (self.caption(row) or "").casefold():
                found.append(row)
        return found

    def _named(self) -> dict[Any, int]:
        if self._rows is None:
            self._rows = {str(name): row for row, name in enumerate(self.ids)}
        return self._rows


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _why_no_truth(keeps: str | None, size: int) -> str:
    if keeps is None:
        return (
            "this store keeps only codes, so true similarities are not known. "
            "Encode with --keep-vectors to see them."
        )
    return f"the vectors ({size / 1e9:.1f} GB) are more than is held in memory, so true similarities are not shown."
