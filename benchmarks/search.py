"""What progressive search gains over full scans, ours and FAISS's, on the same codes in one run.

Run `python benchmarks/search.py [MNIST]`, MNIST the folder of its four idx files (default: where `bilsh.datasets`
looks); it needs 5 GB of memory and `faiss-cpu`. One thread, contestants in turns, smallest times; k = 10,
delta = 0.01. Recall is that of the full scan's neighbours, ties in distance counted as found.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import faiss
import numpy as np

import bilsh
from bilsh.benchmark.measure import Contestant, race
from bilsh.codes import Codes
from bilsh.datasets import mnist

K, N_QUERIES = 10, 100
PROGRESSIVE, FULL, FAISS = "progressive", "full scan", "FAISS BinaryFlat"

Goals = dict[str, float]
"""By whom is compared with: how many times faster progressive search should be."""


def clustered(n: int, n_bytes: int, n_centres: int, flipped: float) -> Codes:
    """Codes around random centres; each bit differs from the centre's with probability `flipped`."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (n_centres, n_bytes), dtype=np.uint8)[rng.integers(0, n_centres, n)]
    for rows in np.array_split(codes, 100):
        rows ^= np.packbits(rng.random((len(rows), 8 * n_bytes), dtype=np.float32) < flipped, axis=1)
    return codes


def contestants(codes: Codes, others: Goals) -> dict[str, Callable[[Codes], object]]:
    index = bilsh.Index(codes)
    searches = {PROGRESSIVE: partial(index.search, k=K), FULL: partial(index.search, k=K, mode="hamming")}
    if FAISS in others:
        flat = faiss.IndexBinaryFlat(8 * codes.shape[1])
        flat.add(codes)
        searches[FAISS] = lambda part: flat.search(part, K)
    return searches


def recall(index: Callable[[Codes], object], full: Callable[[Codes], object], queries: Codes) -> float:
    found, true = index(queries).distances, full(queries).distances
    return float((found <= true[:, -1:]).mean())


def measure(case: str, codes: Codes, one: Goals, many: Goals) -> None:
    """Ask for the neighbours of the first codes among the rest."""
    queries, codes = codes[:N_QUERIES].copy(), codes[N_QUERIES:]
    searches = contestants(codes, one)
    found = recall(searches[PROGRESSIVE], searches[FULL], queries)
    print(f"{case}: recall {found:.4f} of the full scan (goal 0.99) {'ok' if found >= 0.99 else 'MISSED'}")
    few = queries[:20]
    for what, goals, ask in (
        ("one query", one, lambda search: [search(query[None]) for query in few]),
        (f"{len(queries)} queries", many, lambda search: search(queries)),
    ):
        field = [Contestant(name, partial(ask, search)) for name, search in searches.items()]
        times = {t.contestant: t for t in race("search", case, len(queries), field, 30)}
        for name, goal in goals.items():
            ratio = times[name].seconds / times[PROGRESSIVE].seconds
            spread = max(times[name].spread, times[PROGRESSIVE].spread)
            verdict = f"(goal {goal:g}) {'ok' if ratio >= goal else 'MISSED'}"
            print(
                f"  {what:12} over {name:17} {ratio:7.2f} {verdict}, spread {100 * spread:.0f} %", flush=True
            )


def main(folder: str | None) -> None:
    images = mnist(folder).X.astype(np.float32) / 255
    for encoder in (bilsh.KernelEncoder(16_384, random_state=0), bilsh.AngleEncoder(16_384, random_state=0)):
        codes = encoder.fit(images[N_QUERIES:]).transform(images)
        measure(
            f"MNIST, {type(encoder).__name__}, 16,384 bits",
            codes,
            {FULL: 20, FAISS: 40},
            {FULL: 6, FAISS: 60},
        )
    codes = clustered(1_000_000, 512, 10_000, 0.1)
    measure("1,000,000 clustered codes, 4,096 bits", codes, {FULL: 10}, {})
    codes = np.random.default_rng(1).integers(0, 256, (200_000, 512), dtype=np.uint8)
    measure("200,000 random codes, 4,096 bits", codes, {FULL: 0.9}, {FULL: 0.9})


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
