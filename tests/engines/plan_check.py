"""Plans held against real runs: what `bilsh plan` would say is measured, then done, one right after the other.

Usage: plan_check.py [--bits N] [--keep FILE] [--processor] WHAT [ITEMS...]

WHAT is all, store, cells, encode, faiss, lance, postgres, pgvector or milvus; servers are started here. Prints a line
for each quantity and ends with 1 if any is off by more than a factor of 1.5. What is measured while others have more
than a tenth of the processors counts for nothing: the program ends with 2 and gives no verdict. With --keep the rates
are kept in a file, or taken from there if it exists: for runs too long for one undisturbed stretch. With --processor
cells are built on one thread, and its seconds of processor time count, planned and seen: for busy machines.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict
from itertools import count
from pathlib import Path

import numpy as np

import bilsh
from bilsh.workflows import disturbance, planning, sampling
from bilsh.workflows.growth import Growth

FACTOR = 1.5
RECALL = 0.95
DIMENSION = 1024
QUANTITIES = dict.fromkeys(sampling.GROWS, "s") | {"disk": "bytes", "memory": "bytes"}
SIZES = dict.fromkeys(("encode", "store", "cells", "faiss"), (10**5, 10**6, 10**7))
SIZES |= {"lance": (10**5, 10**6)} | dict.fromkeys(("postgres", "pgvector", "milvus"), (10**5,))


class Verdict:
    """Lines of the table, and whether all of them held."""

    def __init__(self):
        self.off = self.seen = 0
        print("| what | items | quantity | planned | seen | planned / seen |\n|---|---|---|---|---|---|")

    def line(self, what, items, quantity, unit, planned, seen):
        ratio = planned / seen
        bad = not 1 / FACTOR <= ratio <= FACTOR
        self.seen += 1
        self.off += bad
        told = f"{planned:.4g} {unit} | {seen:.4g} {unit} | {ratio:.2f}{' OFF' * bad}"
        print(f"| {what} | {items:,} | {quantity} | {told} |", flush=True)


def watched(measured, what=None):
    """What is measured, and the share of the processors that others had; a server of ours is not others."""
    watch, before, start = disturbance.Watch(), spent(what), time.perf_counter()
    found = measured()
    mine = (spent(what) - before) / (time.perf_counter() - start) / os.cpu_count()
    return found, max(0.0, (watch.others() or 0.0) - mine)


def calm(measured, what=None):
    """What is measured while others leave the processors alone; else there is no verdict."""
    found, share = watched(measured, what)
    print(f"others had {share:.0%} of the processors", file=sys.stderr, flush=True)
    if share > disturbance.TOO_MUCH:
        print("no verdict: others had too much of the processors")
        sys.exit(2)
    return found


def spent(what):
    """Seconds of processors that servers and workers of ours have had, with their children that have ended."""
    import psutil

    total = 0.0
    for process in psutil.process_iter(["name", "cpu_times"]):
        name = process.info["name"] or ""
        if process.info["cpu_times"] and (
            name.startswith({"pgvector": "postgres"}.get(what, what or "-")) or descends(process)
        ):
            total += sum(process.info["cpu_times"][:4])
    return total


def descends(process):
    """Whether a process is one of our children, or one of theirs."""
    import psutil

    with suppress(psutil.NoSuchProcess):
        return any(parent.pid == os.getpid() for parent in process.parents())
    return False


def kept(file, made):
    """Growths by name, from a file if it is there, else measured and kept."""
    if file and Path(file).exists():
        raw = json.loads(Path(file).read_text())
        return {
            name: Growth(*(tuple(v) if isinstance(v, list) else v for v in one.values()))
            for name, one in raw.items()
        }
    found = made()
    if file:
        Path(file).write_text(json.dumps({name: asdict(one) for name, one in found.items()}))
    return found


def engine(verdict, what, address, sizes, bits, keep):
    numbers = count()

    def place(what_for):
        return address if what in sampling.FILES else f"{address}_{what_for}_{next(numbers)}"

    def measured():
        # Cells are a check of their own, see `cells`.
        sampling.measure_cells, saved = lambda *_: (None, None), sampling.measure_cells
        try:
            rates = sampling.measure(place("rates"), bits, RECALL)
        finally:
            sampling.measure_cells = saved
        return {name: getattr(rates, name) for name in QUANTITIES if getattr(rates, name) is not None}

    rates = kept(keep, lambda: calm(measured, what))
    for items in sizes:
        seen = calm(lambda items=items: sampling.fill(place(items), items, bits), what)
        for name, growth in rates.items():
            verdict.line(what, items, name, QUANTITIES[name], growth.at(items), getattr(seen, name))


def cells(verdict, folder, sizes, bits, keep):
    def measured():
        return dict(
            zip(
                ("build", "recall_query"),
                sampling.measure_cells(f"store:{folder}", bits, RECALL),
                strict=True,
            )
        )

    rates = kept(keep, lambda: calm(measured))
    for items in sizes:
        seen = calm(lambda items=items: sampling.fill_cells(f"store:{folder}", items, bits, RECALL))
        for (name, growth), was in zip(rates.items(), seen, strict=True):
            verdict.line("cells", items, name, "s", growth.at(items), was)


def encode(verdict, sizes, bits):
    """Blocks of 65,536 items, again and again: the time to make them is not part of it."""
    X = np.random.default_rng(1).standard_normal((1 << 16, DIMENSION), dtype=np.float32)
    encoder = bilsh.AngleEncoder(n_bits=bits, random_state=1).fit(X[:512])

    def run(items):
        start = time.perf_counter()
        for first in range(0, items, len(X)):
            encoder.coder_.encode(X[: items - first], n_jobs=-1)
        return time.perf_counter() - start

    for items in sizes:
        rate = calm(lambda: sampling.encode_rate(bits, DIMENSION))
        took = calm(lambda items=items: run(items))
        made = planning.plan(items, [nothing(bits)], rate)
        verdict.line("encode", items, "encode", "s", made.encode_seconds, took)


def nothing(bits):
    flat = Growth.through([1, 2], [1.0, 1.0], ["once"])
    return sampling.Rates("store", "", bits, flat, flat, memory=flat)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["all", *SIZES])
    parser.add_argument("items", nargs="*", type=lambda text: int(float(text)))
    parser.add_argument("--bits", type=int, default=512)
    parser.add_argument("--keep")
    parser.add_argument("--processor", action="store_true")
    given = parser.parse_args()
    if given.processor:
        if given.what != "cells":
            parser.error("--processor is for cells")
        disturbance.TOO_MUCH = 1.0
        sampling.BUILD = sampling.BUILD.replace("perf_counter", "process_time").replace(
            "n_jobs=-1", "n_jobs=1"
        )
    verdict = Verdict()
    for what in SIZES if given.what == "all" else [given.what]:
        check(verdict, what, given.items or SIZES[what], given.bits, given.keep)
    print(f"{verdict.seen - verdict.off} of {verdict.seen} within a factor of {FACTOR}")
    return int(verdict.off > 0)


def check(verdict, what, sizes, bits, keep):
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        if what == "encode":
            encode(verdict, sizes, bits)
        elif what == "cells":
            cells(verdict, folder, sizes, bits, keep)
        else:
            engine(verdict, what, address_of(what, folder, stack), sizes, bits, keep)


def address_of(what, folder, stack):
    from engine_servers import milvus_server, postgres_folder, postgres_server

    if what in sampling.FILES:
        return f"{what}:{folder}"
    if what == "milvus":
        return f"{stack.enter_context(milvus_server(Path(folder) / 'milvus'))}/plan"
    url = stack.enter_context(postgres_server(stack.enter_context(postgres_folder())))
    # The table's name is last, so that what is added to the address is added to it.
    return f"{url}&extension={'vector' if what == 'pgvector' else 'none'}&table=plan"


if __name__ == "__main__":
    sys.exit(main())
