"""Codes in memory, laid out for search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh.codes import Codes, as_codes, slab_widths
from bilsh.encoders.calibration import calibration_of
from bilsh.encoders.coder import Coder
from bilsh.encoders.euclidean_coder import EuclideanCoder
from bilsh.encoders.foreign import BitPacking, ForeignCoder
from bilsh.errors import InvalidInputError
from bilsh.search import estimated_promise
from bilsh.search.cells import Cells, in_cells, number_of_cells
from bilsh.search.estimated import by_centre, estimated_widths
from bilsh.search.estimated_promise import EstimatedTrial
from bilsh.search.places import PlaceCells, in_places
from bilsh.search.request import Request
from bilsh.search.scan import Ids, Memory
from bilsh.search.searchable import Searchable, View
from bilsh.search.trial import Trial, try_items, try_queries
from bilsh.validation import thread_count

LINE = 64
"""Bytes that the cache loads at a time."""

PAGE = 2 << 20
"""Large pages of memory, which the system gives where whole ones are wanted: their addresses are found sooner. NumPy
asks for them from two pages on."""


class Index(Searchable):
    """Codes in memory, laid out for search.

    Parameters
    ----------
    codes : uint8 array (n, n_bytes)
        Copied into slabs: a progressive search reads the first of them of every code. Learned codes are put into the
        order of their centres.
    encoder : fitted encoder, optional
        The encoder that made the codes. Queries are then descriptors, and answers carry similarities. Without it
        queries are codes, or the real values behind their bits.
    ids : int64 array (n,), optional
        Distinct ids of the items; row numbers by default.
    vectors : array (n, d) or (n, d_w, d_v), optional
        The descriptors themselves, for re-ranking; not copied.
    bits : None, "sign" or "sign of a rotation"
        What bits of codes that were made elsewhere are. "sign": bit r is [value r >= 0], so values can be queries.
        "sign of a rotation": besides, answers carry similarities.
    bitorder : "little" or "big"
        How such codes, those of queries too, are packed: "big" is what numpy.packbits does by default.
    cells : int, "auto" or None
        Number of cells to put the codes into, so that ``search(recall=...)`` reads only those near the query; "auto"
        takes 4 sqrt(n), and none for fewer than 10,000 codes. See docs/cells.md.
    n_jobs : int, optional
        Threads that make cells, as in scikit-learn: None is 1, -1 all cores.

    Notes
    -----
    Searching by prefixes assumes that bits stand in random order. Encoders here see to that; codes of unknown origin,
    which have more than one slab, are permuted once, by a fixed permutation, and so are queries.

    Examples
    --------
    >>> import numpy as np
    >>> from bilsh import AngleEncoder, Index
    >>> X = np.random.default_rng(0).normal(size=(500, 8, 8))
    >>> enc = AngleEncoder(n_bits=256, random_state=0).fit(X)
    >>> hits = Index(enc.transform(X), enc).search(X[:2], k=3)
    >>> hits.ids[:, 0].tolist(), hits.quantity
    ([0, 1], 'cosine')
    """

    def __init__(
        self,
        codes: ArrayLike,
        encoder: Any = None,
        *,
        ids: ArrayLike | None = None,
        vectors: ArrayLike | None = None,
        bits: str | None = None,
        bitorder: BitPacking = "little",
        cells: int | str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        stored = as_codes(codes, "codes")
        if encoder is None:
            self.coder: Coder = ForeignCoder.of(8 * stored.shape[1], bits, bitorder)
            stored = self.coder.order.apply(stored) if self.coder.order else stored
        else:
            if bits is not None or bitorder != "little":
                raise InvalidInputError(
                    "bits= and bitorder= are for codes without an encoder; the encoder knows what its bits are."
                )
            coder = getattr(encoder, "coder_", encoder)
            if getattr(coder, "by_hamming", True):
                calibration_of(encoder)  # says what is wrong with an encoder that has none
            self.coder = coder
            if stored.shape[1] != self.coder.n_bytes:
                raise InvalidInputError(
                    f"codes of this encoder have {self.coder.n_bytes} bytes; got {stored.shape[1]}. "
                    "Were they made by another encoder?"
                )
        self.ids: Ids = np.arange(len(stored)) if ids is None else _as_ids(ids, len(stored))
        self.cells: Cells | None = None
        self.places: PlaceCells | None = None
        order: Ids | None = None
        n_cells, threads = number_of_cells(cells, len(stored)), thread_count(n_jobs)
        widths = slab_widths(stored.shape[1])
        if isinstance(self.coder, EuclideanCoder):
            order, widths = by_centre(stored, self.coder), estimated_widths(stored.shape[1])
            if n_cells:
                order, self.places = in_places(self.coder, stored, self.ids, n_cells, n_jobs=threads)
        elif n_cells:
            order, self.cells = in_cells(stored, self.ids, n_cells, n_jobs=threads)
        if order is not None:
            self.ids = self.ids[order]
        self.slabs: list[Codes] = _slabs(stored, widths, order)
        self.alive = None
        self.vectors: Any = None
        if vectors is not None:
            kept = np.asarray(vectors)
            if len(kept) != len(stored):
                raise InvalidInputError(f"vectors must be one per code, {len(stored)}; got {len(kept)}.")
            self.vectors = kept.reshape(len(kept), -1)
            if order is not None:
                self.vectors = _InOrder(self.vectors, order)
        self._seen = _IndexView([self], self.coder, order=order)
        if self.cells is not None:
            self._seen = replace(self._seen, tried=try_items(self.slabs, None, self.ids, n_jobs=threads))
        if self.places is not None and isinstance(self.coder, EuclideanCoder):
            tried = estimated_promise.try_items(
                self.coder, self.slabs, None, self.ids, self.vectors, n_jobs=threads
            )
            self._seen = replace(self._seen, tried=tried)

    def _view(self) -> View:
        return self._seen

    def calibrate(self, queries: ArrayLike) -> None:
        """Let promised recalls rest on queries of your own, where they differ from the items.

        Parameters
        ----------
        queries : array (q, d) or (q, d_w, d_v)
            A few hundred at least, none of them among the items; codes where there is no encoder.
        """
        if self.cells is None and self.places is None:
            raise InvalidInputError("there are no cells to calibrate. Make the index with cells='auto'.")
        asked = self._seen.query(queries, None, None, None, Request(mode="progressive"))
        tried: Trial | EstimatedTrial
        if isinstance(self.coder, EuclideanCoder):
            flat = np.asarray(asked.vectors).reshape(-1, self.coder.n_features)
            tried = estimated_promise.try_queries(self.coder, flat, self.slabs, None)
        else:
            tried = try_queries(asked.codes, self.slabs, None)
        self._seen = replace(self._seen, tried=tried, memory=Memory())

    @property
    def n_bits(self) -> int:
        """Length of a code."""
        return self.coder.n_bits

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"<bilsh.Index of {len(self):,} {self.coder.kind} codes, {self.n_bits:,} bits>"


@dataclass(frozen=True)
class _IndexView(View):
    """Codes in memory.

    Attributes
    ----------
    order : int64 array (n,) or None
        Which of the given codes each row is, where cells put them into another order.
    tried : Trial, EstimatedTrial or None
        What promised recalls rest on.
    """

    order: Ids | None = None
    tried: Trial | EstimatedTrial | None = None

    @property
    def trial(self) -> Trial | None:
        """What a promised recall rests on, where there are cells."""
        return self.tried if isinstance(self.tried, Trial) else None

    @property
    def estimated_trial(self) -> EstimatedTrial | None:
        """The same for learned codes."""
        return self.tried if isinstance(self.tried, EstimatedTrial) else None

    def in_row_order(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Booleans of items in the order of rows."""
        return chosen if self.order is None or len(chosen) != len(self.order) else chosen[self.order]


@dataclass(frozen=True, eq=False, slots=True)
class _InOrder:
    """Rows of an array by their places in an order, without a copy of the array."""

    array: NDArray[Any]
    order: Ids

    def __getitem__(self, rows: Ids) -> NDArray[Any]:
        found: NDArray[Any] = self.array[self.order[rows]]
        return found


def _slabs(codes: Codes, widths: Sequence[int], order: Ids | None) -> list[Codes]:
    """Slabs of codes, rows in an order; each begins with a line of the cache, lest rows are in more than they fill.

    Large ones fill whole pages.
    """
    slabs, at = [], 0
    for width in widths:
        part = codes[:, at : at + width]
        unit = PAGE if part.size >= 2 * PAGE else LINE
        memory = np.empty((-(-part.size // unit) + 1) * unit, dtype=np.uint8)
        begin = -memory.ctypes.data % unit
        slab = memory[begin : begin + part.size].reshape(part.shape)
        if order is None:
            slab[:] = part
        else:
            np.take(part, order, axis=0, out=slab, mode="clip")
        slabs.append(slab)
        at += width
    return slabs


def _as_ids(ids: ArrayLike, n: int) -> Ids:
    array = np.asarray(ids)
    if array.dtype.kind not in "iu" or array.shape != (n,):
        raise InvalidInputError(f"ids must be {n} integers; got {array.dtype} of shape {array.shape}.")
    array = array.astype(np.int64)
    if len(np.unique(array)) != n:
        raise InvalidInputError("ids must be distinct; some occur twice.")
    return array
