"""The same question of stores: cells built on disk, opened, and searched from the mapped files.

Only our own ways take part; others have nothing that is kept so. :mod:`bilsh.benchmark.cells` compares with them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import bilsh
from bilsh.benchmark import memory
from bilsh.benchmark.cell_data import STORED, Case, cases
from bilsh.benchmark.cells import N_JUDGED, Building, K, judged, ours, raced
from bilsh.benchmark.measure import Timing
from bilsh.benchmark.sizes import Size
from bilsh.benchmark.targets import Check, Race


def races(size: Size, scratch: Path) -> Iterator[tuple[Race, list[Timing], list[Check]]]:
    """Ask stores in a folder below `scratch`, which is gone afterwards, for the neighbours of queries."""
    for case in cases(size, STORED):
        if isinstance(case, Case):
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                yield from _asked(size, case, Path(folder) / "store")


def _asked(size: Size, case: Case, path: Path) -> Iterator[tuple[Race, list[Timing], list[Check]]]:
    case = replace(case, kind=f"stored {case.kind}")
    few = len(case.codes) < 10_000
    with bilsh.Store.create(path, case.encoder) as store:
        store.add_codes(case.codes, fingerprint="unchecked")
        with Building() as built:
            store.build_cells(50 if few else "auto", n_jobs=1)
    asked = case.asked[:N_JUDGED]
    with bilsh.Store.open(path) as store:
        judge = partial(judged, asked, store.search(codes=asked, k=K, mode="hamming").ids)
        for recall in case.recalls:
            built.megabytes = memory.beside_file(path, asked, K, recall)
            yield from raced(size, case, recall, dict(ours(store, built, recall, asked)), judge)
