"""Milliseconds of one query and of fifty over a million codes: learned codes, all of them and by cells at a recall of
.95, beside FAISS's FastScan, one thread.

`python tests/learned_speed.py FOLDER` first makes what FOLDER lacks (minutes): codes of MNIST images, shifted by up to
two pixels and with noise, 16 centres, and FAISS's indices of random vectors with codes as long. Then it measures. MNIST
lies in the folder BILSH_DATA.
"""

import argparse
import os
from pathlib import Path
from time import perf_counter, process_time

import faiss
import numpy as np

import bilsh
from bilsh import datasets

N, STEP, SIZES, RECALL = 1_000_000, 50_000, (32, 64, 128), 0.95


def shifted(X, n, rng):
    """Return n images like X."""
    made, shift = X[rng.integers(len(X), size=n)].copy(), rng.integers(-2, 3, size=(n, 2))
    for a in range(-2, 3):
        for b in range(-2, 3):
            mine = (shift == (a, b)).all(axis=1)
            made[mine] = np.roll(made[mine], (a, b), axis=(1, 2))
    return made + 0.02 * X.max() * rng.normal(size=made.shape).astype(np.float32)


def prepare(folder, sizes):
    """Make files that are not there."""
    rng = np.random.default_rng(0)
    X = datasets.mnist(Path(os.environ["BILSH_DATA"]) / "mnist").X.astype(np.float32).reshape(-1, 28, 28)
    np.save(folder / "Qm.npy", X[:200])
    for size in sizes:
        if not (folder / f"m{size}.npy").exists():
            encoder = bilsh.EuclideanEncoder(size, centres=16, random_state=0).fit(
                shifted(X[200:], 20_000, rng)
            )
            codes = [encoder.transform(shifted(X[200:], STEP, rng)) for _ in range(N // STEP)]
            encoder.save(folder / f"m{size}.encoder")
            np.save(folder / f"m{size}.npy", np.concatenate(codes))
        rows = rng.normal(size=(20_000, 8 * size)).astype(np.float32)
        bits = 8 * size - 64  # RaBitQ's factors take eight bytes
        for name, index in (
            ("pqfs", faiss.IndexPQFastScan(8 * size, 2 * size, 4)),
            ("rbfs", faiss.IndexRaBitQFastScan(bits)),
        ):
            path = folder / f"{name}{size}.faiss"
            if not path.exists():
                mine = np.ascontiguousarray(rows[:, : index.d])
                index.train(mine[:3000])
                for _ in range(N // len(rows)):
                    index.add(mine)
                faiss.write_index(index, str(path))


def contestants(folder, size):
    """Name, search and queries of each."""
    encoder = bilsh.load_encoder(folder / f"m{size}.encoder")
    start = process_time()
    index = bilsh.Index(np.load(folder / f"m{size}.npy"), encoder, cells="auto")
    print(f"{size:4} B  {len(index.places)} cells made in {process_time() - start:.0f} s", flush=True)
    asked = np.load(folder / "Qm.npy").astype(np.float32)
    told, exact = index.search(asked, k=10, recall=RECALL), index.search(asked, k=10)
    kept = np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(told.ids, exact.ids, strict=True)])
    rows = next(stage.items for stage in told.explain().stages if stage.name == "cells: rows")
    print(
        f"{size:4} B  found {kept:.3f} of the ten best, read {rows / len(asked) / N:.2%} of the rows",
        flush=True,
    )
    yield "learned codes", lambda q: index.search(q, k=10), asked
    yield f"cells, recall {RECALL}", lambda q: index.search(q, k=10, recall=RECALL), asked
    for name, title in (("pqfs", "IndexPQFastScan"), ("rbfs", "IndexRaBitQFastScan")):
        other = faiss.read_index(str(folder / f"{name}{size}.faiss"))
        queries = np.random.default_rng(1).normal(size=(200, other.d)).astype(np.float32)
        yield title, lambda q, other=other: other.search(q, 10), queries


def measure(folder, sizes):
    """Interleaved: least and median of 15 single queries, and of 3 batches of 50."""
    for size in sizes:
        all_, times = list(contestants(folder, size)), {}
        for r in range(18):
            for name, search, queries in all_:
                asked = queries[r : r + 1] if r < 15 else queries[:50]
                start = perf_counter()
                search(asked)
                times.setdefault((name, r < 15), []).append(1e3 * (perf_counter() - start) / len(asked))
        for name, _, _ in all_:
            one, many = times[name, True], times[name, False]
            print(
                f"{size:4} B  {name:20} one {min(one):6.2f} ({np.median(one):.2f})  "
                f"fifty {min(many):6.2f} ({np.median(many):.2f})",
                flush=True,
            )


def main():
    """Prepare and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bytes", type=int, nargs="+", default=SIZES, choices=SIZES)
    asked = parser.parse_args()
    asked.folder.mkdir(exist_ok=True)
    faiss.omp_set_num_threads(1)
    prepare(asked.folder, asked.bytes)
    measure(asked.folder, asked.bytes)


if __name__ == "__main__":
    main()
