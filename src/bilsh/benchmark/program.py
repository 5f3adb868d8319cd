"""The benchmark itself: which races are run, in which order, and where the results go."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import Any

from bilsh.benchmark import (
    cell_store,
    cells,
    limits,
    machine,
    memory,
    plots,
    progressive,
    report,
    storing,
    targets,
)
from bilsh.benchmark import contestants_encode as enc
from bilsh.benchmark import contestants_hamming as ham
from bilsh.benchmark.cell_data import GROWING, IN_MEMORY
from bilsh.benchmark.measure import Contestant, Timing, race
from bilsh.benchmark.sizes import SIZES, Size
from bilsh.benchmark.targets import Check, Race
from bilsh.errors import InvalidInputError

SECTIONS = ("encode", "ways", "hamming", "memory", "scaling")
"""What a run measures unless it is told otherwise."""

ON_REQUEST = ("progressive", "store", "cells", "cells-growth", "cells-store", "page")
"""Parts that need MNIST, much memory and time, 2.5 GB of disk, or the extra `view`: only when they are named."""

CELLS_IN_MEMORY = {"cells": IN_MEMORY, "cells-growth": GROWING}


@dataclass(slots=True)
class Results:
    """All that a run found."""

    size: str
    machine: dict[str, Any]
    timings: list[Timing] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)


def encode_races(size: Size) -> Iterator[tuple[Race, list[Timing]]]:
    """Encode batches of every size, against NumPy, the dense methods and the peak of sgemm."""
    for case, batches in size.encode:
        X = enc.descriptors(case.shape, max(batches))
        for items in batches:
            batch = X[:items]
            field: list[Contestant] = []
            for threads in size.threads:
                field += [enc.our_field(case, batch, threads), *limits.sgemm(threads, size.sgemm_sides)]
            for threads in size.peer_threads:
                field += enc.literal_field(case, batch, threads, size.longest)
                field += enc.dense_field(case, batch, threads)
                field.append(enc.faiss_field(case, batch, threads))
            where = Race(targets.ENCODE, str(case), items, d=case.d, k=case.k, m=case.m)
            yield where, race(where.section, where.case, items, field, size.budget, size.clock)


def way_races(size: Size) -> Iterator[tuple[Race, list[Timing]]]:
    """Run all projections against the bilinear one with m = 1."""
    for case, items in size.ways:
        X = enc.descriptors(case.shape, items)
        more = enc.EncodeCase(case.shape, case.k, 5)
        field = [enc.our_field(case, X, 1)]
        field.append(Contestant("bilinear m=5", enc.run_encoder(enc.ours(more), X, 1)))
        for name, projection in enc.PROJECTION_OF.items():
            field.append(Contestant(name, enc.run_encoder(enc.variant(case, projection), X, 1)))
        field.append(Contestant(enc.FFT, enc.circulant_fft(X, case.k, case.bandwidth)))
        field += enc.dense_field(case, X, 1)
        where = Race(targets.WAYS, str(case), items, d=case.d, k=case.k, m=case.m)
        yield where, race(where.section, where.case, items, field, size.budget, size.clock)


def hamming_races(size: Size) -> Iterator[tuple[Race, list[Timing]]]:
    """Find the 50 nearest codes, against the peers and the bandwidth of the memory."""
    for case, batches in size.hamming:
        stored = ham.stored_codes(case)
        scans = ham.scans(stored)
        asked = ham.query_codes(stored, max(batches))
        for items in batches:
            field = limits.bandwidth(stored, size.threads)
            for name, scan in scans.items():
                for threads in _scan_threads(name, size):
                    part = (scan, stored, asked[:items], threads, 3 * size.longest)
                    field.append(ham.contestant(name, *part))
            where = Race(targets.HAMMING, str(case), items, bits=case.bits)
            yield where, race(where.section, where.case, items, field, 3 * size.budget, size.clock)


def _scan_threads(name: str, size: Size) -> tuple[int, ...]:
    """Threads that a scan is run with; NumPy has but one."""
    return {ham.OURS: size.threads, ham.NUMPY: (1,)}.get(name, size.peer_threads)


def memory_checks(size: Size) -> Iterator[tuple[Race, str, float]]:
    """Let child processes encode, and report by how many megabytes each grew."""
    for case in size.memory:
        for name in memory.CONTESTANTS:
            if case.m > 1 and name not in (enc.OURS, enc.LITERAL):
                continue
            where = Race(targets.MEMORY_SECTION, str(case), memory.ITEMS, d=case.d, k=case.k, m=case.m)
            yield where, name, memory.growth(name, case)


def scaling_races(size: Size) -> Iterator[list[Timing]]:
    """Time against k, d, the number of items and the number of stored codes; the case is the value on the axis."""
    share = size.budget / 2
    items = min(64, max(size.scaling_n))
    for k in size.scaling_k:
        yield race(
            "scaling-k",
            str(k),
            items,
            _curves(enc.EncodeCase(size.scaling_shape, k), items, size),
            share,
            size.clock,
        )
    for shape in size.scaling_d:
        case = enc.EncodeCase(shape, size.scaling_k[1])
        yield race(
            "scaling-d", str(case.d), min(16, items), _curves(case, min(16, items), size), share, size.clock
        )
    for n in size.scaling_n:
        case = enc.EncodeCase(size.scaling_shape, size.scaling_k[1])
        yield race("scaling-n", str(n), n, _curves(case, n, size), share, size.clock)
    for n in size.scaling_codes:
        stored = ham.stored_codes(ham.HammingCase(n, 512))
        asked = ham.query_codes(stored, 15)
        field = [
            ham.contestant(name, scan, stored, asked, 1, size.longest)
            for name, scan in ham.scans(stored).items()
        ]
        yield race("scaling-codes", str(n), len(asked), field, share, size.clock)


def _curves(case: enc.EncodeCase, items: int, size: Size) -> list[Contestant]:
    X = enc.descriptors(case.shape, items)
    more = enc.EncodeCase(case.shape, case.k, 5)
    ours = [
        Contestant("bilinear m=1", enc.run_encoder(enc.ours(case), X, 1)),
        Contestant("bilinear m=5", enc.run_encoder(enc.ours(more), X, 1)),
        Contestant(enc.HADAMARD, enc.run_encoder(enc.variant(case, "hadamard"), X, 1)),
        Contestant(enc.FFT, enc.circulant_fft(X, case.k, case.bandwidth)),
    ]
    literal = enc.literal_field(more, X, 1, size.longest)[:1]
    return [*ours, *literal, *enc.dense_field(case, X, 1)[:1], enc.faiss_field(case, X, 1)]


def _take(
    results: Results,
    races: Iterable[tuple[Race, list[Timing], list[Check]]],
    say: Callable[[str], None],
    absent: set[str],
) -> None:
    """Add races to the results and tell each; who is absent is told once."""
    for where, timings, checks in races:
        results.timings += timings
        results.checks += checks
        for line in report.lines(where, timings, checks):
            say(line)
        for line in report.absent(timings):
            if line not in absent:
                say(line)
            absent.add(line)


def run(
    size: Size,
    sections: Sequence[str] = SECTIONS,
    say: Callable[[str], None] = print,
    scratch: Path = Path(),
) -> Results:
    """Run the benchmark.

    Parameters
    ----------
    size : Size
        What to measure.
    sections : sequence of str
        Which of `SECTIONS` and `ON_REQUEST`.
    say : callable
        Takes every line as soon as it is known.
    scratch : path
        Folder on the disk whose writes are measured.
    """
    results = Results(size.name, {**machine.describe(), "clock": size.clock})
    absent: set[str] = set()
    say(report.heading(results.machine, size.name))
    races = {"encode": encode_races, "ways": way_races, "hamming": hamming_races}
    for section in (s for s in (*SECTIONS, *ON_REQUEST) if s in sections):
        if section in races:
            found = (
                (where, timings, list(targets.ratios(where, timings)))
                for where, timings in races[section](size)
            )
            _take(results, found, say, absent)
        elif section == "progressive":
            _take(results, progressive.races(size), say, absent)
        elif section in CELLS_IN_MEMORY:
            _take(results, cells.races(size, CELLS_IN_MEMORY[section]), say, absent)
        elif section == "cells-store":
            _take(results, cell_store.races(size, scratch), say, absent)
        elif section == "memory":
            for where, name, megabytes in memory_checks(size):
                ours = name == enc.OURS
                against = targets.MEMORY if ours else f"{targets.MEMORY}, {name}"
                results.checks.append(targets.check(where, against, megabytes, nan))
                say(report.memory_line(where, name, results.checks[-1]))
        elif section == "store":
            for where, check in storing.checks(size, scratch):
                results.checks.append(check)
                say(report.store_line(where, check))
        elif section == "page":
            from bilsh.benchmark import paging  # needs the extra `view`

            for where, check in paging.checks(size, scratch):
                results.checks.append(check)
                say(report.store_line(where, check))
        else:
            for timings in scaling_races(size):
                results.timings += timings
                say(report.scaling_line(timings))
    say(report.summary(results.checks))
    return results


def benchmark(
    size: str,
    output: Path,
    *,
    only: Sequence[str] = (),
    tables: Path | None = None,
    cpu: bool = False,
    say: Callable[[str], None] = print,
) -> list[Path]:
    """Run the benchmark, tell its lines, write results and plots; return the files.

    Parameters
    ----------
    size : {"full", "quick", "smoke"}
        A quarter of an hour, three minutes, or seconds that check the program and measure nothing.
    output : path
        Folder for results and plots; they go into a folder of the processor's name in it, since numbers of different
        processors do not compare.
    only : sequence of str
        Which of `SECTIONS` and `ON_REQUEST`; all of `SECTIONS` by default.
    tables : path, optional
        Also write the tables as Markdown to this file.
    cpu : bool
        Time the processor, one thread: for busy machines.
    say : callable
        Takes every line as soon as it is known.
    """
    parts = (*SECTIONS, *ON_REQUEST)
    if unknown := [name for name in only if name not in parts]:
        raise InvalidInputError(f"No part is called {unknown[0]!r}; choose from {', '.join(parts)}.")
    chosen = SIZES[size].on_busy_machine() if cpu else SIZES[size]
    output = output / machine.folder_name()
    output.mkdir(parents=True, exist_ok=True)
    results = run(chosen, only or SECTIONS, say, output)
    files = [output / f"{chosen.name}.json", output / f"{chosen.name}.csv"]
    report.write_json(results, files[0])
    report.write_csv(results, files[1])
    picture = output / f"{chosen.name}-scaling.png"
    drawn = plots.draw(results.timings, picture)
    files += [picture] if drawn else []
    growth = output / f"{chosen.name}-cells.png"
    files += [growth] if plots.draw_cells(results.timings, growth) else []
    if tables is not None:
        link = Path(os.path.relpath(picture, tables.parent)).as_posix() if drawn else None
        tables.write_text(report.markdown(results, link))
        files.append(tables)
    why = "" if drawn else " No picture: it needs matplotlib (pip install matplotlib) and the part 'scaling'."
    say(f"Raw results and picture: {chosen.name}*.* in {output}.{why}")
    return files
