"""Run by `make bench-engines`: load and query times of every engine, 1 and 2 workers.

Usage: engine_rates.py [ITEMS [WHAT...]]. Prints tables for docs/scale.md; takes some minutes. WHAT is store, faiss,
lance, postgres, pgvector, milvus or workers, by default all. Beside each stands what others had of the processors.
"""

import multiprocessing
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial

import numpy as np
from engine_servers import NEEDS
from plan_check import address_of, watched

import bilsh
from bilsh import distributed
from bilsh.workflows import sampling


def engines_table(rows, names):
    print(f"| engine | load of {rows:,} codes of 4,096 bits | per second | exact query | others |")
    print("|---|---|---|---|---|", flush=True)
    for name in names:
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            seen, share = watched(partial(sampling.fill, address_of(name, folder, stack), rows, 4096), name)
        print(
            f"| {seen.engine} {seen.version} | {seen.load:.2f} s | {rows / seen.load:,.0f} | "
            f"{1e3 * seen.query:.1f} ms | {share:.0%} |",
            flush=True,
        )


def workers_table(rows=60_000):
    X = np.random.default_rng(0).standard_normal((rows, 784)).astype(np.float32)
    encoder = bilsh.AngleEncoder(n_bits=8192, random_state=0).fit(X[:2000])
    print("\n| workers | seconds | items per second | others |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", X)
        for workers in (1, 2):
            with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
                list(pool.map(np.ones, [1] * workers))  # their start is not counted
                took, share = watched(
                    partial(encoded, f"{folder}/x.npy", encoder, f"{folder}/s{workers}", pool)
                )
            print(f"| {workers} | {took:.2f} | {rows / took:,.0f} | {share:.0%} |", flush=True)


def encoded(source, encoder, store, pool):
    start = time.perf_counter()
    distributed.encode(source, encoder, store, pool, block=4096)
    return time.perf_counter() - start


if __name__ == "__main__":
    asked = sys.argv[2:] or [*NEEDS, "workers"]
    if engines := [name for name in asked if name != "workers"]:
        engines_table(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000, engines)
    if "workers" in asked:
        workers_table()
