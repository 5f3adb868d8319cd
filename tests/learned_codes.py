"""Recall@10 of learned codes and their peers at equal bytes: what docs/results/learned.csv keeps.

All methods learn from the items that they encode; queries are other rows. `python tests/learned_codes.py FILE` goes on
where FILE ends, in the order of PLAN, and needs FAISS; `--table FILE` prints the tables of docs/accuracy.md. Data that
are not here are left out: MNIST, `glosses.npy` (text) and `glove.npy` lie in the folder BILSH_DATA.
"""

import argparse
import csv
import os
from pathlib import Path

import numpy as np

from bilsh import datasets
from bilsh.experiments.peers import METHODS, peer_rows

ITEMS, QUERIES = 20_000, 300
DATA = Path(os.environ.get("BILSH_DATA") or "data")
COLUMNS = ("data", "seed", "method", "bytes", "recall_at_10", "standard_error", "seconds")
OURS = "ours: learned, asymmetric"
QUICK = (OURS, "PQ", "IVF256-RaBitQ", "IVF256-RaBitQ, 2 bits", "RaBitQ", "RaBitQ, 2 bits")
OTHERS = ("scalar quantiser", "IVF256-RaBitQ, 4 bits", "RaBitQ, 4 bits", "ours: sign, asymmetric")
SIGNS = ("ours: kernel, Hamming", "FAISS LSH", "ITQ")

PLAN = (
    *((name, seed, size, QUICK) for seed in range(3) for size in (64, 32) for name in ("text", "mnist")),
    *((name, 0, 128, QUICK) for name in ("text", "mnist")),
    *((name, 0, 64, ("OPQ",)) for name in ("text", "mnist")),
    *(
        (name, seed, size, QUICK)
        for seed in range(3)
        for size in (128, 98, 200)
        for name in ("text", "mnist")
    ),
    *(
        (name, seed, size, QUICK)
        for size in (32, 64)
        for seed in range(3)
        for name in ("digits", "glove", "power law")
    ),
    *((name, 0, size, ("OPQ",)) for size in (128, 32, 98, 200) for name in ("text", "mnist")),
    *((name, 0, size, QUICK) for size in (16, 400) for name in ("text", "mnist")),
    *((name, 0, size, (*OTHERS, *SIGNS)) for size in (32, 64, 128, 200) for name in ("text", "mnist")),
    *((name, seed, 64, ("OPQ",)) for seed in (1, 2) for name in ("text", "mnist")),
)
"""What is measured, the most wanted first: data, seed, bytes, methods."""


def rows_of(name):
    """Return the rows of a data set, None where they are not here."""
    if name == "mnist":
        return datasets.mnist(DATA / "mnist").X if (DATA / "mnist").is_dir() else None
    if name == "digits":
        return datasets.digits().X
    if name == "power law":
        rng = np.random.default_rng(0)
        turn = np.linalg.qr(rng.normal(size=(512, 512)))[0]
        return (rng.normal(size=(25_000, 512)) * np.arange(1, 513) ** -0.5 @ turn).astype(np.float32)
    path = DATA / {"text": "glosses.npy", "glove": "glove.npy"}[name]
    return np.load(path, mmap_mode="r") if path.is_file() else None


def drawn(name, seed):
    """Items and queries of one draw."""
    X = rows_of(name)
    if X is None:
        return None
    n = min(ITEMS + QUERIES, len(X))
    return np.asarray(X[np.sort(np.random.default_rng(100 + seed).permutation(len(X))[:n])], dtype=np.float32)


def measure(path, only):
    """Append what is missing, of some data or of all."""
    done = (
        {(row["data"], row["seed"], row["method"], row["bytes"]) for row in read(path)}
        if path.exists()
        else set()
    )
    with path.open("a", newline="") as file:
        out = csv.DictWriter(file, COLUMNS)
        if not done:
            out.writeheader()
        for name, seed, size, methods in PLAN:
            X = None
            if only and name not in only:
                continue
            for method in methods:
                if (name, str(seed), method, str(size)) in done or method not in METHODS:
                    continue
                X = drawn(name, seed) if X is None else X
                if X is None:
                    break
                for row in peer_rows(X, size, 1.0, QUERIES, seed, [method]):
                    row = {
                        key: round(value, 5) if isinstance(value, float) else value
                        for key, value in row.items()
                    }
                    out.writerow({"data": name, "seed": seed, **row})
                    file.flush()


def read(path):
    """Return the rows of a file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def tables(path):
    """Mean recall by data, method and bytes, with the standard error over seeds and queries."""
    found = read(path)
    lines = []
    for name in dict.fromkeys(row["data"] for row in found):
        mine = [row for row in found if row["data"] == name]
        sizes = sorted({int(row["bytes"]) for row in mine})
        lines += [
            f"\n| {name} | " + " | ".join(f"{size} B" for size in sizes) + " |",
            "|---" * (len(sizes) + 1) + "|",
        ]
        for method in METHODS:
            cells = []
            for size in sizes:
                some = [row for row in mine if row["method"] == method and int(row["bytes"]) == size]
                if not some:
                    cells.append("")
                    continue
                mean = np.mean([float(row["recall_at_10"]) for row in some])
                error = np.sqrt(np.mean([float(row["standard_error"]) ** 2 for row in some]) / len(some))
                cells.append(f"{mean:.3f} ± {error:.3f}".replace("0.", "."))
            if any(cells):
                lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    """Measure, or show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--data", action="append", help="only these data")
    given = parser.parse_args()
    print(tables(given.file)) if given.table else measure(given.file, given.data)


if __name__ == "__main__":
    main()
