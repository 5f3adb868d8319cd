"""Ways to find the 50 nearest codes by Hamming distance in an exact scan."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bilsh
from bilsh.benchmark.contestants_encode import extrapolated, part_of
from bilsh.benchmark.measure import Contestant
from bilsh.codes import Codes

Found = tuple[NDArray[Any], NDArray[Any]]
Scan = Callable[[Codes, int], Callable[[], Found]]
"""A search made ready for stored codes: (queries, threads) -> what the clock runs."""

OURS, FAISS, USEARCH, NUMKONG, NUMPY = "ours", "FAISS BinaryFlat", "usearch exact", "numkong", "NumPy"

NEAREST = 50

GUESSED_BYTES_PER_SECOND = {OURS: 20e9, FAISS: 4e9, USEARCH: 1.5e9, NUMKONG: 5e9, NUMPY: 0.8e9}
"""Only to decide how many queries each peer is asked; the clock says the rest."""


@dataclass(frozen=True, slots=True)
class HammingCase:
    """How many codes of how many bits are stored."""

    n: int
    bits: int

    def __str__(self) -> str:
        return f"{self.n:,} x {self.bits:,} bits"


def stored_codes(case: HammingCase) -> Codes:
    """Random codes, the same in every run; an array of NumPy's own, which lies in large pages."""
    rng = np.random.default_rng(11)
    return np.frombuffer(rng.bytes(case.n * case.bits // 8), np.uint8).reshape(case.n, case.bits // 8).copy()


def query_codes(stored: Codes, n: int) -> Codes:
    """Queries: stored codes with a tenth of their bits flipped, so that there is something to find."""
    rng = np.random.default_rng(13)
    rows = rng.integers(len(stored), size=n)
    flips = rng.random((n, stored.shape[1], 8), dtype=np.float32) < 0.1
    return stored[rows] ^ np.packbits(flips, axis=2)[:, :, 0]


def ours(stored: Codes) -> Scan:
    """Our scan with its fused selection."""

    def ask(queries: Codes, threads: int) -> Callable[[], Found]:
        def run() -> Found:
            found = bilsh.top_k(queries, stored, NEAREST, n_jobs=threads)
            return found.ids, found.distances

        return run

    return ask


def faiss_flat(stored: Codes, block: int | None = None) -> Scan:
    """FAISS; OpenMP's threads are set by the clock.

    Many queries meet a block of codes before the next: `block` of them, 65,536 as FAISS comes. So many long codes are
    more than a cache holds, or just as much, and then the time depends on who else uses the cache.
    """
    import faiss

    index = faiss.IndexBinaryFlat(8 * stored.shape[1])
    index.add(stored)

    def ask(queries: Codes, threads: int) -> Callable[[], Found]:
        def run() -> Found:
            settings: Any = faiss.cvar
            usual = settings.hamming_batch_size
            settings.hamming_batch_size = block or usual
            try:
                distances, ids = index.search(queries, min(NEAREST, len(stored)))
            finally:
                settings.hamming_batch_size = usual
            return ids, distances

        return run

    return ask


def usearch_exact(stored: Codes) -> Scan:
    """Search of usearch without an index."""
    from usearch.compiled import MetricKind
    from usearch.index import search

    def ask(queries: Codes, threads: int) -> Callable[[], Found]:
        def run() -> Found:
            found = search(stored, queries, NEAREST, MetricKind.Hamming, exact=True, threads=threads)
            return np.atleast_2d(found.keys), np.atleast_2d(found.distances)

        return run

    return ask


def numkong_packed(stored: Codes) -> Scan:
    """Compute all distances with numkong, then select with NumPy: numkong itself does not select."""
    import numkong

    packed = numkong.hammings_pack(stored)

    def one(part: Codes) -> Found:
        return nearest_of(np.asarray(numkong.hammings_packed(part, packed)))

    def ask(queries: Codes, threads: int) -> Callable[[], Found]:
        parts = np.array_split(queries, min(threads, len(queries)))
        if len(parts) == 1:
            return lambda: one(queries)
        pool = ThreadPoolExecutor(threads)

        def run() -> Found:
            ids, distances = zip(*pool.map(one, parts), strict=True)
            return np.concatenate(ids), np.concatenate(distances)

        return run

    return ask


def numpy_count(stored: Codes) -> Scan:
    """XOR and bitwise_count on the widest words that fit, a block of codes at a time; always one thread."""
    word = np.dtype(np.uint64 if stored.shape[1] % 8 == 0 else np.uint8)
    wide = stored.view(word)
    step = max(1, (1 << 20) // stored.shape[1])

    def ask(queries: Codes, threads: int) -> Callable[[], Found]:
        asked = queries.view(word)

        def run() -> Found:
            distances = np.empty((len(asked), len(wide)), np.uint32)
            for row, query in enumerate(asked):
                for start in range(0, len(wide), step):
                    counts = np.bitwise_count(wide[start : start + step] ^ query)
                    distances[row, start : start + step] = counts.sum(axis=1, dtype=np.uint32)
            return nearest_of(distances)

        return run

    return ask


def nearest_of(distances: NDArray[Any]) -> Found:
    """Select the nearest of a full matrix of distances, sorted."""
    nearest = min(NEAREST, distances.shape[1])
    ids = np.argpartition(distances, nearest - 1, axis=1)[:, :nearest]
    found = np.take_along_axis(distances, ids, axis=1)
    order = np.argsort(found, axis=1, kind="stable")
    return np.take_along_axis(ids, order, axis=1), np.take_along_axis(found, order, axis=1)


PEERS: dict[str, tuple[Callable[[Codes], Scan], str, str]] = {
    OURS: (ours, "bilsh", "bilsh"),
    FAISS: (faiss_flat, "faiss", "faiss-cpu"),
    USEARCH: (usearch_exact, "usearch", "usearch"),
    NUMKONG: (numkong_packed, "numkong", "numkong"),
    NUMPY: (numpy_count, "numpy", "numpy"),
}
"""How each is made ready, its module, and the name to install it by."""


def scans(stored: Codes) -> dict[str, Scan | None]:
    """Everyone who is installed, made ready for the stored codes; None for who is not."""
    return {name: ready(stored) if find_spec(module) else None for name, (ready, module, _) in PEERS.items()}


def contestant(
    name: str, scan: Scan | None, stored: Codes, queries: Codes, threads: int, longest: float
) -> Contestant:
    """Enter a scan in a race, asked as many of the queries as it can answer in about `longest` seconds."""
    if scan is None:
        return Contestant(name, None, threads, note=f"not installed: pip install {PEERS[name][2]}")
    part = part_of(len(queries), stored.nbytes / GUESSED_BYTES_PER_SECOND[name], longest)
    work = float(stored.nbytes) * len(queries)
    fields = extrapolated(scan(queries[:part], threads), part, len(queries), "queries")
    return Contestant(name, threads=threads, work=work, **fields)
