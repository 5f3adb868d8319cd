"""Run by `make bench-engines`: load and query times of every engine, plans held against real runs, 1 and 2 workers.

Usage: engine_rates.py [ITEMS]. Prints tables for docs/scale.md; takes some minutes.
"""

import multiprocessing
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from engine_servers import milvus_server, postgres_folder, postgres_server

import bilsh
from bilsh import distributed, engines
from bilsh.workflows import planning


def one(address, codes, asked):
    with engines.create(address, n_bits=8 * codes.shape[1]) as there:
        load = planning._loaded(there, codes)
        query = planning._quickest(partial(there.search, codes=asked[:1], k=10, mode="hamming"))
        able = there.capabilities
    return f"{able.engine} {able.version}", load, query


def engines_table(rows):
    codes, asked = planning.sample_codes(rows, 4096)
    print(f"| engine | load of {rows:,} codes of 4,096 bits | per second | exact query |\n|---|---|---|---|")
    with (
        tempfile.TemporaryDirectory() as folder,
        postgres_folder() as data,
        postgres_server(data) as postgres,
        milvus_server(Path(folder) / "milvus") as milvus,
    ):
        for address in (
            f"{folder}/store", f"faiss:{folder}/faiss", f"lance:{folder}/lance",
            f"{postgres}&table=stock&extension=none", f"{postgres}&table=pgvector&extension=vector",
            f"{milvus}/codes",
        ):  # fmt: skip
            name, load, query = one(address, codes, asked)
            print(f"| {name} | {load:.1f} s | {rows / load:,.0f} | {1e3 * query:.0f} ms |", flush=True)


def plans_table(cases):
    print("\n| engine | items | bits | quantity | planned | seen | ratio |\n|---|---|---|---|---|---|---|")
    for scheme, n_bits, items in cases:
        with tempfile.TemporaryDirectory() as folder:
            rates = planning.measure(f"{scheme}:{folder}", n_bits, 0.95)
            place = f"{folder}/codes" if scheme == "store" else f"{scheme}:{folder}/codes"
            for rows in items:
                codes, asked = planning.sample_codes(rows, n_bits)
                _, load, query = one(place, codes, asked)
                disk = planning._bytes_in(Path(folder))
                for what, planned, seen in (
                    ("load", rates.load.at(rows), load),
                    ("query", rates.query.at(rows), query),
                    ("disk", rates.disk.at(rows), disk),
                ):
                    print(
                        f"| {rates.engine} | {rows:,} | {n_bits:,} | {what} | {planned:.4g} | {seen:.4g} | "
                        f"{planned / seen:.2f} |",
                        flush=True,
                    )
                place += "x"
                for file in sorted(Path(folder).rglob("*"), reverse=True):
                    file.unlink() if file.is_file() else file.rmdir()


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
    plans_table([(scheme, 512, (100_000, 1_000_000, 10_000_000)) for scheme in ("faiss", "store")])
