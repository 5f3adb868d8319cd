"""Run by `make bench-engines`: load and query times of every engine, plans held against real runs, 1 and 2 workers.

Usage: engine_rates.py [ITEMS [POWER]]. Prints tables for docs/scale.md; takes some minutes. Plans are held
against runs of 10^5 to 10^POWER items, by default 7.
"""

import multiprocessing
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from engine_servers import milvus_server, postgres_folder, postgres_server

import bilsh
from bilsh import distributed
from bilsh.workflows import planning


def engines_table(rows):
    print(f"| engine | load of {rows:,} codes of 4,096 bits | per second | exact query |\n|---|---|---|---|")
    with (
        tempfile.TemporaryDirectory() as folder,
        postgres_folder() as data,
        postgres_server(data) as postgres,
        milvus_server(Path(folder) / "milvus") as milvus,
    ):
        for address in (
            f"store:{folder}", f"faiss:{folder}", f"lance:{folder}",
            f"{postgres}&table=stock&extension=none", f"{postgres}&table=pgvector&extension=vector",
            f"{milvus}/codes",
        ):  # fmt: skip
            seen = planning.fill(address, rows, 4096, 0.95)
            print(
                f"| {seen.engine} {seen.version} | {seen.load:.1f} s | {rows / seen.load:,.0f} | "
                f"{1e3 * seen.query:.0f} ms |",
                flush=True,
            )


def plans_table(schemes, n_bits, sizes):
    print("\n| engine | items | bits | quantity | planned | seen | ratio |\n|---|---|---|---|---|---|---|")
    for scheme in schemes:
        with tempfile.TemporaryDirectory() as folder:
            rates = planning.measure(f"{scheme}:{folder}", n_bits, 0.95)
            for rows in sizes:
                seen = planning.fill(f"{scheme}:{folder}", rows, n_bits, 0.95)
                for what in ("load", "query", "recall_query", "disk"):
                    if getattr(seen, what) is not None:
                        planned, was = getattr(rates, what).at(rows), getattr(seen, what)
                        print(
                            f"| {rates.engine} | {rows:,} | {n_bits:,} | {what} | {planned:.4g} | {was:.4g} | "
                            f"{planned / was:.2f} |",
                            flush=True,
                        )


def workers_table(rows=60_000):
    X = np.random.default_rng(0).standard_normal((rows, 784)).astype(np.float32)
    encoder = bilsh.AngleEncoder(n_bits=8192, random_state=0).fit(X[:2000])
    print("\n| workers | seconds | items per second |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", X)
        for workers in (1, 2):
            with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
                list(pool.map(np.ones, [1] * workers))  # their start is not counted
                start = time.perf_counter()
                distributed.encode(f"{folder}/x.npy", encoder, f"{folder}/s{workers}", pool, block=4096)
                took = time.perf_counter() - start
            print(f"| {workers} | {took:.1f} | {rows / took:,.0f} |", flush=True)


if __name__ == "__main__":
    engines_table(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
    workers_table()
    sizes = [10**power for power in range(5, 1 + (int(sys.argv[2]) if len(sys.argv) > 2 else 7))]
    plans_table(("store", "faiss", "lance"), 512, sizes)
