"""What progressive search gains over full scans, ours and FAISS's, on the same codes in one run.

One thread, k = 10, delta = 0.01. Recall is that of the full scan's neighbours, ties in distance counted as found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import bilsh
from bilsh.benchmark import contestants_hamming as ham
from bilsh.benchmark import targets
from bilsh.benchmark.measure import Contestant, Timing, race
from bilsh.benchmark.sizes import Size
from bilsh.benchmark.targets import Check, Race
from bilsh.codes import Codes
from bilsh.datasets import digits, mnist
from bilsh.errors import MissingPackageError, optional

K, N_QUERIES, FEW = 10, 100, 20
PROGRESSIVE, FULL = "progressive", "full scan"

Search = Callable[[Codes], Any]


def clustered(n: int, n_bytes: int, n_centres: int, flipped: float) -> Codes:
    """Codes around random centres; each bit differs from the centre's with probability `flipped`."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (n_centres, n_bytes), dtype=np.uint8)[rng.integers(0, n_centres, n)]
    for rows in np.array_split(codes, 100):
        rows ^= np.packbits(rng.random((len(rows), 8 * n_bytes), dtype=np.float32) < flipped, axis=1)
    return codes


def cases(size: Size) -> Iterator[tuple[str, Codes]]:
    """Yield codes by name: images by both encoders, clustered, and random ones, for which the search falls back."""
    small = size.name.startswith("smoke")
    images = (digits() if small else mnist()).X.astype(np.float32)
    data, n_bits = ("digits", 1_024) if small else ("MNIST", 16_384)
    for encoder in (bilsh.KernelEncoder(n_bits, random_state=0), bilsh.AngleEncoder(n_bits, random_state=0)):
        codes = encoder.fit(images[N_QUERIES:]).transform(images)
        yield f"{data}, {type(encoder).__name__}, {n_bits:,} bits", codes
    n, centres, n_bytes = (2_000, 50, 64) if small else (1_000_000, 10_000, 512)
    yield f"{n:,} clustered, {8 * n_bytes:,} bits", clustered(n, n_bytes, centres, 0.1)
    n //= 5
    codes = np.random.default_rng(1).integers(0, 256, (n, n_bytes), dtype=np.uint8)
    yield f"{n:,} random, {8 * n_bytes:,} bits", codes


def searches(codes: Codes) -> dict[str, Search]:
    """Return the ways to search; FAISS is left out where it is not installed."""
    index = bilsh.Index(codes)
    found: dict[str, Search] = {
        PROGRESSIVE: partial(index.search, k=K, mode="progressive"),
        FULL: partial(index.search, k=K, mode="hamming"),
    }
    try:
        flat = optional("faiss", "FAISS").IndexBinaryFlat(8 * codes.shape[1])
    except MissingPackageError:
        return found
    flat.add(codes)
    return found | {ham.FAISS: lambda queries: flat.search(queries, K)}


def recall(found: Any, true: Any) -> float:
    """Share of the found neighbours that are no farther than the last of the true ones."""
    return float((found.distances <= true.distances[:, -1:]).mean())


def races(size: Size) -> Iterator[tuple[Race, list[Timing], list[Check]]]:
    """Ask for the neighbours of the first codes among the rest, one query at a time and all at once."""
    for case, whole in cases(size):
        queries, codes = whole[:N_QUERIES].copy(), whole[N_QUERIES:]
        ways = searches(codes)
        share = recall(ways[PROGRESSIVE](queries), ways[FULL](queries))

        def one_by_one(search: Search, queries: Codes = queries) -> None:
            for query in queries[:FEW]:
                search(query[None])

        def together(search: Search, queries: Codes = queries) -> None:
            search(queries)

        for items, ask in ((1, one_by_one), (len(queries), together)):
            where = Race(targets.PROGRESSIVE, case, items)
            share_of_run = 1 / FEW if items == 1 else 1.0
            field = [
                Contestant(name, partial(ask, search), scale=share_of_run) for name, search in ways.items()
            ]
            timings = race(where.section, case, items, field, 3 * size.budget, size.clock)
            checks = list(targets.ratios(where, timings, PROGRESSIVE))
            if items == 1:
                checks.insert(0, targets.check(where, targets.RECALL, share, 0.0))
            yield where, timings, checks
