"""Time per query against the number of items: cells with a promised recall, scans, and the indexes of others.

One thread, k = 10. Every approximate contestant is set so that its measured recall of the full scan's ten nearest is
just at or above the target; ours is asked for the target and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from math import isnan, nan
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bilsh
from bilsh.benchmark import targets
from bilsh.benchmark.cell_data import Case, Sets, cases
from bilsh.benchmark.measure import Contestant, Timing, race
from bilsh.benchmark.memory import resident
from bilsh.benchmark.sizes import Size
from bilsh.benchmark.targets import Check, Race
from bilsh.codes import Codes
from bilsh.errors import MissingPackageError, optional

K, BATCH, ALONE, N_JUDGED = 10, 100, 20, 1000
CELLS, PREFIXES, SCAN = "cells", "progressive", "full scan"
IVF, FAISS_HNSW, USEARCH = "FAISS BinaryIVF", "FAISS BinaryHNSW", "usearch HNSW"
GRAPHS_UP_TO = {"full": 10_000_000}
"""Items up to which graphs are built, else 100,000: they take minutes for a million, hours for ten."""

EFFORTS = tuple(sorted({round(2 ** (step / 6)) for step in range(55)}))
MANY = 10_000
"""Queries for which building and asking together are compared."""

Search = Callable[[Codes], NDArray[Any]]
Judge = Callable[[Search], float]


@dataclass(frozen=True, slots=True)
class Way:
    """One way to search.

    Attributes
    ----------
    search : callable
        From codes of queries to ids (q, k).
    seconds : float
        Processor time to build it.
    megabytes : float
        By which the process grew meanwhile.
    note : str
        How it was set.
    read : float
        Per cent of the rows that a query reads, where that is told.
    """

    search: Search
    seconds: float = 0.0
    megabytes: float = 0.0
    note: str = ""
    read: float = nan


class Building:
    """Processor time and growth of the process while something is built."""

    def __enter__(self) -> Building:
        self._start, self._before = process_time(), resident()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds, self.megabytes = process_time() - self._start, resident() - self._before


def share_found(found: NDArray[Any], true: NDArray[Any]) -> float:
    """Recall: share of the true neighbours that were found."""
    return float(np.mean([len(np.intersect1d(a, b)) / len(b) for a, b in zip(found, true, strict=True)]))


def ours(index: Any, built: Building, recall: float, asked: Codes) -> dict[str, Way]:
    """Search with cells, with prefixes only, and all of everything; `asked` tell how much is read."""

    def by(**settings: Any) -> Search:
        return lambda queries: index.search(codes=queries, k=K, **settings).ids

    told = index.search(codes=asked, k=K, recall=recall).explain()
    rows = sum(stage.items for stage in told.stages if stage.name == "cells: rows")
    read = 100 * rows / (told.n_queries * told.n_items) if told.visits else 100.0
    note = "; ".join([f"recall={recall}", *(f"{n_cells} cells" for n_cells, _ in told.visits), *told.notes])
    return {
        CELLS: Way(by(recall=recall), built.seconds, built.megabytes, note, read),
        PREFIXES: Way(by(mode="progressive"), note="delta=0.01"),
        SCAN: Way(by(mode="hamming")),
    }


class Peers:
    """Indexes of others, built once; they are set to every recall in turn."""

    def __init__(self, codes: Codes, most: int, factors: Sequence[int]) -> None:
        self.absent: dict[str, str] = {}
        self.kept: list[Any] = []
        self.lists: list[tuple[int, Any, Building]] = []
        self.graphs: list[tuple[str, Search, Callable[[int], Any], Building]] = []
        n, n_bits = len(codes), 8 * codes.shape[1]
        try:
            faiss = optional("faiss", "FAISS")
        except MissingPackageError as error:
            self.absent |= {IVF: str(error), FAISS_HNSW: str(error)}
        else:
            faiss.omp_set_num_threads(1)
            for n_lists in sorted({max(16, int(factor * n**0.5)) for factor in factors}):
                with Building() as built:
                    quantizer = faiss.IndexBinaryFlat(n_bits)
                    ivf = faiss.IndexBinaryIVF(quantizer, n_bits, n_lists)
                    ivf.train(codes[:: max(1, n // (40 * n_lists))])
                    ivf.add(codes)
                self.kept.append(quantizer)
                self.lists.append((n_lists, ivf, built))
            if n <= most:
                with Building() as built:
                    graph = faiss.IndexBinaryHNSW(n_bits, 16)
                    graph.add(codes)
                effort = partial(setattr, graph.hnsw, "efSearch")
                self.graphs.append((FAISS_HNSW, partial(_faiss_search, graph), effort, built))
        try:
            usearch = optional("usearch.index", "usearch")
        except MissingPackageError as error:
            self.absent[USEARCH] = str(error)
        else:
            if n <= most:
                with Building() as built:
                    other = usearch.Index(ndim=n_bits, dtype="b1", metric="hamming")
                    other.add(np.arange(n), codes, threads=1)

                def find(queries: Codes) -> NDArray[Any]:
                    return np.asarray(other.search(queries, K, threads=1).keys).reshape(len(queries), -1)

                def set_effort(effort: int) -> None:
                    other.expansion_search = max(effort, K)

                self.graphs.append((USEARCH, find, set_effort, built))
        for name in (FAISS_HNSW, USEARCH):
            if n > most and name not in self.absent:
                self.absent[name] = f"not built beyond {most:,} items"

    def ways(self, judge: Judge, recall: float, probe: Codes) -> Iterator[tuple[str, Way | str]]:
        """Set each to a recall; a reason where one cannot take part."""
        yield from self.absent.items()
        best: tuple[float, Way] | None = None
        for n_lists, ivf, built in self.lists:
            effort = _least(judge, recall, partial(_faiss_search, ivf), partial(setattr, ivf, "nprobe"))
            if effort is None:
                continue
            start = process_time()
            ivf.search(probe, K)
            took = process_time() - start
            if best is None or took < best[0]:
                note = f"{n_lists} cells, nprobe {effort}"
                best = took, Way(partial(_faiss_search, ivf), built.seconds, built.megabytes, note)
        if self.lists:
            yield IVF, best[1] if best else f"did not reach {recall}"
        for name, find, set_effort, built in self.graphs:
            effort = _least(judge, recall, find, set_effort)
            note = f"did not reach {recall}" if effort is None else f"ef {effort}"
            yield name, note if effort is None else Way(find, built.seconds, built.megabytes, note)


def _faiss_search(index: Any, queries: Codes) -> NDArray[Any]:
    found: NDArray[Any] = index.search(queries, K)[1]
    return found


def _least(judge: Judge, recall: float, find: Search, set_effort: Callable[[int], Any]) -> int | None:
    """Set the least effort that reaches a recall; None where none does."""
    for effort in EFFORTS:
        set_effort(effort)
        if judge(find) >= recall:
            return effort
    return None


def races(size: Size, sets: Sets) -> Iterator[tuple[Race, list[Timing], list[Check]]]:
    """Ask for the neighbours of queries one at a time and a hundred at once."""
    name = size.name.removesuffix("-cpu")
    most = GRAPHS_UP_TO.get(name, 100_000)
    for case in cases(size, sets):
        if isinstance(case, str):
            where = Race(targets.CELLS, case.partition(":")[0], BATCH)
            yield where, race(where.section, where.case, BATCH, [Contestant(CELLS, None, note=case)], 0), []
            continue
        n = len(case.codes)
        with Building() as built:
            index = bilsh.Index(case.codes, case.encoder, cells="auto" if n >= 10_000 else 50)
        # Twice the lists are at most a little quicker, and take FAISS a minute to learn for codes of 4,096 bits.
        peers = Peers(case.codes, most, (2, 4) if name == "full" and n <= 200_000 else (2,))
        asked = case.asked[:N_JUDGED]
        true = index.search(codes=asked, k=K, mode="hamming").ids
        judge = partial(judged, asked, true)
        for recall in case.recalls:
            ways: dict[str, Way | str] = dict(ours(index, built, recall, asked))
            ways |= dict(peers.ways(judge, recall, case.codes[: 10 * BATCH]))
            yield from raced(size, case, recall, ways, judge)


def raced(
    size: Size, case: Case, recall: float, ways: dict[str, Way | str], judge: Judge
) -> Iterator[tuple[Race, list[Timing], list[Check]]]:
    """Race some ways, queries one at a time and a hundred at once."""
    n, n_bytes = case.codes.shape
    for items in (1, BATCH):
        where = Race(targets.CELLS, case.name(recall), items, n=n, bits=8 * n_bytes)
        field = [_contestant(name, way, case.asked, items) for name, way in ways.items()]
        timings = race(where.section, where.case, items, field, 3 * size.budget, size.clock)
        checks = list(targets.ratios(where, timings, CELLS))
        checks += _facts(where, ways, judge, recall) if items == 1 else _totals(where, ways, timings)
        yield where, timings, checks


def judged(queries: Codes, true: NDArray[Any], find: Search) -> float:
    """Recall of a search, asked these queries."""
    return share_found(find(queries), true)


def _contestant(name: str, way: Way | str, asked: Codes, items: int) -> Contestant:
    if isinstance(way, str):
        return Contestant(name, None, note=way)
    search = way.search
    # Other queries with every call, as they come: their rows are not in the cache.
    ends = range(items, len(asked) + 1, items)
    turns = cycle([asked[end - items : end] for end in ends] or [asked])

    def one_by_one() -> None:
        for _ in range(ALONE):
            search(next(turns))

    if items == 1:
        return Contestant(name, one_by_one, scale=1 / ALONE, note=way.note)
    return Contestant(name, lambda: search(next(turns)), note=way.note)


def _facts(where: Race, ways: dict[str, Way | str], judge: Judge, recall: float) -> Sequence[Check]:
    """Recall, build time and memory of everyone; ours against the goal."""
    checks = []
    for name, way in ways.items():
        if isinstance(way, Way) and name not in (PREFIXES, SCAN):
            found = judge(way.search)
            checks.append(targets.check(where, f"recall, {name}", found, 0.0, note=way.note))
            checks.append(targets.check(where, f"build seconds, {name}", way.seconds, 0.0, note=way.note))
            checks.append(targets.check(where, f"megabytes, {name}", way.megabytes, 0.0, note=way.note))
            if not isnan(way.read):
                checks.append(targets.check(where, f"per cent of rows read, {name}", way.read, 0.0))
            if name == CELLS:
                more = found - recall
                checks.append(targets.check(where, targets.CELLS_RECALL, more, 0.0, note=way.note))
    return checks


def _totals(where: Race, ways: dict[str, Way | str], timings: Sequence[Timing]) -> Sequence[Check]:
    """Building and many queries, of everyone over ours."""
    totals = {}
    for timing in timings:
        way = ways[timing.contestant]
        if isinstance(way, Way) and timing.seconds is not None:
            totals[timing.contestant] = way.seconds + MANY / where.items * timing.seconds
    return [
        targets.check(where, f"{targets.TOTAL}, {name}", total / totals[CELLS], 0.0)
        for name, total in totals.items()
        if name in (IVF, FAISS_HNSW, USEARCH)
    ]
