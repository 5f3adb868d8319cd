"""Time per query against the number of items: cells with a promised recall, scans, and the indexes of others.

Codes of MNIST images, shifted by up to two pixels and turned by up to ten degrees, so there are as many as wanted;
queries are images whose originals are kept out. One thread, k = 10. Every approximate contestant is set so that its
measured recall of the full scan's ten nearest is just at or above the target; ours is asked for the target and
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bilsh
from bilsh.benchmark import targets
from bilsh.benchmark.measure import Contestant, Timing, race
from bilsh.benchmark.sizes import Size
from bilsh.benchmark.targets import Check, Race
from bilsh.codes import Codes
from bilsh.datasets import digits, mnist
from bilsh.errors import MissingPackageError, optional

K, BATCH, ALONE, N_JUDGED = 10, 100, 20, 1000
RECALL = 0.95
CELLS, PREFIXES, SCAN = "cells", "progressive", "full scan"
IVF, FAISS_HNSW, USEARCH = "FAISS BinaryIVF", "FAISS BinaryHNSW", "usearch HNSW"
PIECE = 20_000
GRAPHS_UP_TO = 100_000
"""Items up to which graphs are built: they take minutes beyond."""

COUNTS = {
    "smoke": (1_000, 3_000),
    "quick": (100_000, 300_000),
    "full": (100_000, 1_000_000, 10_000_000),
}
EFFORTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
Search = Callable[[Codes], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Way:
    """One way to search.

    Attributes
    ----------
    search : callable
        From codes of queries to ids (q, k).
    seconds : float
        Processor time to build it.
    note : str
        How it was set.
    """

    search: Search
    seconds: float
    note: str = ""


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


def cases(size: Size) -> Iterator[tuple[Any, Codes, Codes]]:
    """Yield an encoder, codes of items, and codes of queries."""
    small = size.name.startswith("smoke")
    images = (digits() if small else mnist()).X.astype(np.float32)
    images /= images.max()
    kept_out = 200 if small else 2_000
    for n in COUNTS[size.name.removesuffix("-cpu")]:
        n_bits = 1_024 if n < 10_000_000 else 512
        encoder = bilsh.KernelEncoder(n_bits, random_state=0).fit(images[kept_out : kept_out + 5_000])
        codes = np.empty((n, n_bits // 8), dtype=np.uint8)
        at = 0
        for piece in variants(images[kept_out:], n):
            codes[at : at + len(piece)] = encoder.transform(piece)
            at += len(piece)
        asked = np.concatenate(
            [encoder.transform(piece) for piece in variants(images[:kept_out], kept_out, seed=1)]
        )
        yield encoder, codes, asked


def share_found(found: NDArray[Any], true: NDArray[Any]) -> float:
    """Recall: share of the true neighbours that were found."""
    return float(np.mean([len(np.intersect1d(a, b)) / len(b) for a, b in zip(found, true, strict=True)]))


def ours(codes: Codes, encoder: Any, n_cells: int | str) -> dict[str, Way]:
    """Search with cells, with prefixes only, and all of everything."""
    start = process_time()
    index = bilsh.Index(codes, encoder, cells=n_cells)
    seconds = process_time() - start
    return {
        CELLS: Way(
            lambda queries: index.search(codes=queries, k=K, recall=RECALL).ids, seconds, f"recall={RECALL}"
        ),
        PREFIXES: Way(
            lambda queries: index.search(codes=queries, k=K, mode="progressive").ids, 0.0, "delta=0.01"
        ),
        SCAN: Way(lambda queries: index.search(codes=queries, k=K, mode="hamming").ids, 0.0),
    }


def peers(codes: Codes, judge: Callable[[Search], float]) -> Iterator[tuple[str, Way | str]]:
    """Build the indexes of others and set each to the target; a reason where one cannot take part."""
    n, n_bits = len(codes), 8 * codes.shape[1]
    try:
        faiss = optional("faiss", "FAISS")
    except MissingPackageError as error:
        yield IVF, str(error)
        yield FAISS_HNSW, str(error)
    else:
        faiss.omp_set_num_threads(1)
        best: tuple[float, str, Way] | None = None
        for n_lists in {max(16, int(factor * n**0.5)) for factor in ((2, 4) if n <= GRAPHS_UP_TO else (2,))}:
            start = process_time()
            quantizer = faiss.IndexBinaryFlat(n_bits)
            ivf = faiss.IndexBinaryIVF(quantizer, n_bits, n_lists)
            ivf.train(codes[:: max(1, n // (40 * n_lists))])
            ivf.add(codes)
            seconds = process_time() - start
            effort = _least(judge, partial(_faiss_search, ivf), partial(setattr, ivf, "nprobe"))
            if effort is None:
                continue
            probe = codes[: 10 * BATCH]
            start = process_time()
            ivf.search(probe, K)
            took = process_time() - start
            if best is None or took < best[0]:
                note = f"{n_lists} cells, nprobe {effort}"
                best = took, note, Way(partial(_faiss_search, ivf, _keep=quantizer), seconds, note)
        yield IVF, best[2] if best else f"did not reach {RECALL}"
        if n > GRAPHS_UP_TO:
            yield FAISS_HNSW, f"not built beyond {GRAPHS_UP_TO:,} items"
        else:
            start = process_time()
            graph = faiss.IndexBinaryHNSW(n_bits, 16)
            graph.add(codes)
            yield (
                FAISS_HNSW,
                _graph(
                    judge,
                    partial(_faiss_search, graph),
                    partial(setattr, graph.hnsw, "efSearch"),
                    process_time() - start,
                ),
            )
    try:
        usearch = optional("usearch.index", "usearch")
    except MissingPackageError as error:
        yield USEARCH, str(error)
        return
    if n > GRAPHS_UP_TO:
        yield USEARCH, f"not built beyond {GRAPHS_UP_TO:,} items"
        return
    start = process_time()
    other = usearch.Index(ndim=n_bits, dtype="b1", metric="hamming")
    other.add(np.arange(n), codes, threads=1)
    seconds = process_time() - start

    def set_effort(effort: int) -> None:
        other.expansion_search = max(effort, K)

    def find(queries: Codes) -> NDArray[Any]:
        return np.asarray(other.search(queries, K, threads=1).keys).reshape(len(queries), -1)

    yield USEARCH, _graph(judge, find, set_effort, seconds)


def _faiss_search(index: Any, queries: Codes, _keep: Any = None) -> NDArray[Any]:
    found: NDArray[Any] = index.search(queries, K)[1]
    return found


def _least(judge: Callable[[Search], float], find: Search, set_effort: Callable[[int], Any]) -> int | None:
    """Set the least effort that reaches the target; None where none does."""
    for effort in EFFORTS:
        set_effort(effort)
        if judge(find) >= RECALL:
            return effort
    return None


def _graph(
    judge: Callable[[Search], float], find: Search, set_effort: Callable[[int], Any], seconds: float
) -> Way | str:
    effort = _least(judge, find, set_effort)
    return f"did not reach {RECALL}" if effort is None else Way(find, seconds, f"ef {effort}")


def races(size: Size) -> Iterator[tuple[Race, list[Timing], list[Check]]]:
    """Ask for the neighbours of queries one at a time and a hundred at once."""
    for encoder, codes, asked in cases(size):
        n, judged = len(codes), asked[:N_JUDGED]
        ways: dict[str, Way | str] = dict(ours(codes, encoder, "auto" if n >= 10_000 else 50))
        scan = ways[SCAN]
        if isinstance(scan, str):
            raise TypeError(scan)
        true = scan.search(judged)
        judge = partial(_judged, judged, true)
        ways |= dict(peers(codes, judge))
        for items in (1, BATCH):
            where = Race(targets.CELLS, str(n), items, bits=8 * codes.shape[1])
            field = [_contestant(name, way, asked, items) for name, way in ways.items()]
            timings = race(where.section, where.case, items, field, 3 * size.budget, size.clock)
            checks = list(targets.ratios(where, timings, CELLS))
            if items == 1:
                checks += _facts(where, ways, judge)
            yield where, timings, checks


def _judged(queries: Codes, true: NDArray[Any], find: Search) -> float:
    return share_found(find(queries), true)


def _contestant(name: str, way: Way | str, asked: Codes, items: int) -> Contestant:
    if isinstance(way, str):
        return Contestant(name, None, note=way)
    search = way.search

    def one_by_one() -> None:
        for query in asked[:ALONE]:
            search(query[None])

    if items == 1:
        return Contestant(name, one_by_one, scale=1 / ALONE, note=way.note)
    return Contestant(name, lambda: search(asked[:items]), note=way.note)


def _facts(where: Race, ways: dict[str, Way | str], judge: Callable[[Search], float]) -> Sequence[Check]:
    """Recall and build time of everyone; ours against the goal."""
    checks = []
    for name, way in ways.items():
        if isinstance(way, Way) and name not in (PREFIXES, SCAN):
            recall = targets.CELLS_RECALL if name == CELLS else f"recall, {name}"
            checks.append(targets.check(where, recall, judge(way.search), 0.0, note=way.note))
            checks.append(targets.check(where, f"build seconds, {name}", way.seconds, 0.0, note=way.note))
    return checks
