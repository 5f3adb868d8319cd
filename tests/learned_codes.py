"""Recall@10 of learned codes and their peers at equal bytes: what docs/results/learned.csv keeps.

All methods learn from the items that they encode; queries are other rows. `python tests/learned_codes.py FILE` goes on
where FILE ends, in the order of PLAN, and needs FAISS; `--table FILE` prints the tables of docs/accuracy.md. Data that
are not here are left out: MNIST, `glosses.npy` (text) and `glove.npy` lie in the folder BILSH_DATA. `--copies FILE`
measures VLAD of copies of photographs instead, by learned and by sign codes: `flickr` and `vlad_codebook500.npy` there.
"""

import argparse
import csv
import os
import re
from functools import cache
from pathlib import Path

import numpy as np

import bilsh
from bilsh import datasets
from bilsh.datasets.images import ImageFolder
from bilsh.descriptors import Vlad, describe
from bilsh.evaluation import exact_neighbors, recall_of_ids
from bilsh.experiments.inputs import COPIES, Copy
from bilsh.experiments.peers import RABITQ_BITS, peer_rows, rabitq_name

ITEMS, QUERIES = 20_000, 1_000
DATA = Path(os.environ.get("BILSH_DATA") or "data")
COLUMNS = ("data", "seed", "queries", "method", "bytes", "recall_at_10", "standard_error")
TIMES = ("train_seconds", "encode_microseconds", "query_microseconds")
OURS = "ours: learned, asymmetric"
RABITQ = tuple(rabitq_name(bits, lists) for lists in (0, 256) for bits in RABITQ_BITS)
QUICK = (OURS, "PQ", *RABITQ, "scalar quantiser")
SIGNS = ("ours: sign, asymmetric", "ours: kernel, Hamming", "ours: sign, Hamming", "FAISS LSH", "ITQ")
SIZES = (64, 128, 32, 98, 200)
FEW = ("digits", "glove", "power law")

PLAN = (
    *((name, 0, size, QUICK) for size in SIZES for name in ("text", "mnist")),
    *((name, 0, size, ("OPQ",)) for name in ("text", "mnist") for size in SIZES),
    *((name, 0, 32, (*QUICK, "OPQ")) for name in FEW),
    *((name, seed, size, QUICK) for seed in (1, 2) for size in SIZES for name in ("text", "mnist")),
    *((name, seed, size, ("OPQ",)) for size in SIZES[:3] for seed in (1, 2) for name in ("text", "mnist")),
    *((name, 0, size, SIGNS) for size in (16, *SIZES, 400) for name in ("text", "mnist")),
    *((name, seed, size, QUICK) for seed in range(3) for size in (16, 400) for name in ("text", "mnist")),
    *((name, seed, 32, (*QUICK, "OPQ")) for seed in (1, 2) for name in FEW),
    *((name, 0, 64, (*QUICK, "OPQ")) for name in FEW),
    *((name, seed, size, ("OPQ",)) for seed in (1, 2) for size in SIZES[3:] for name in ("text", "mnist")),
    *((name, 0, 16, ("OPQ",)) for name in ("text", "mnist")),
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


def measure(path, data, method, size, draw):
    """Append what is missing, of some data, methods, bytes and draws or of all."""
    done = (
        {(row["data"], row["seed"], row["method"], row["bytes"]) for row in read(path)}
        if path.exists()
        else set()
    )
    with path.open("a", newline="") as file:
        out = csv.DictWriter(file, (*COLUMNS, *TIMES))
        if not done:
            out.writeheader()
        for name, seed, n_bytes, methods in PLAN:
            missing = [
                each
                for each in methods
                if (name, str(seed), each, str(n_bytes)) not in done and (not method or each in method)
            ]
            wanted = all(
                not some or each in some for each, some in ((name, data), (n_bytes, size), (seed, draw))
            )
            if not missing or not wanted or (X := drawn(name, seed)) is None:
                continue
            queries = min(QUERIES, len(X) // 6)  # a sixth of digits, which are few
            near = exact_neighbors(X[:200].reshape(200, -1), X.reshape(len(X), -1), 50)[1]
            for row in peer_rows(X, n_bytes, float(near[:, -1].mean()), queries, seed, missing):
                row = {
                    key: round(value, 5) if isinstance(value, float) else value for key, value in row.items()
                }
                out.writerow({"data": name, "seed": seed, "queries": queries, **row})
            file.flush()


PHOTOGRAPHS, COPIED = 1_000, 300
COPY_COLUMNS = ("copy", "seed", "method", "bytes", "found_first", "recall_at_10")


def photographs(folder):
    """VLAD (n, 250, 256) of photographs, and of two kinds of copies of some: kind -> (originals, VLAD)."""
    book = np.load(DATA / "vlad_codebook500.npy").astype(np.float32)
    paths = datasets.images(DATA / "flickr").paths[:PHOTOGRAPHS]
    items = describe(ImageFolder(list(paths)), Vlad(book), cache=folder)
    place = {path: row for row, path in enumerate(items.paths[:COPIED])}
    copies = {}
    for kind, (scale, keep) in COPIES.items():
        made = describe(ImageFolder(list(place)), Copy(book, scale, keep), cache=folder)
        copies[kind] = np.array([place[path] for path in made.paths]), np.asarray(made.X)
    return np.asarray(items.X), copies


@cache
def all_photographs():
    """VLAD (n, 250, 256) of all photographs."""
    book = np.load(DATA / "vlad_codebook500.npy").astype(np.float32)
    return describe(ImageFolder(list(datasets.images(DATA / "flickr").paths)), Vlad(book)).X


def some_photographs(n, rng):
    """VLAD (n, 64,000) of some photographs in random order; None where they are not here."""
    if not (DATA / "flickr").is_dir():
        return None
    X = all_photographs()
    return np.asarray(X[rng.permutation(len(X))[:n]]).reshape(n, -1)


def measure_copies(path, seeds, sizes=(32, 64, 128, 200)):
    """Copies whose original comes first and recall of their ten exact neighbours, by learned and by sign codes.

    "chosen" are the codes that EuclideanEncoder takes by itself, "learned" those that it is asked for by name.
    """
    X, copies = photographs(path.parent / "descriptors")
    exact = {kind: exact_neighbors(Q, X, 10)[0] for kind, (_, Q) in copies.items()}
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(COPY_COLUMNS)
        for seed, size in ((seed, size) for seed in range(seeds) for size in sizes):
            for method, encoder in (
                ("chosen", bilsh.EuclideanEncoder(size, random_state=seed)),
                ("learned", bilsh.EuclideanEncoder(size, transform="klt", random_state=seed)),
                ("sign", bilsh.AngleEncoder(8 * size, random_state=seed)),
            ):
                index = bilsh.Index(encoder.fit(X).transform(X), encoder)
                for kind, (originals, Q) in copies.items():
                    ids = np.asarray(index.search(Q, k=10, mode="asymmetric").ids)
                    first = (ids[:, 0] == originals).mean()
                    recall = recall_of_ids(ids, exact[kind])
                    out.writerow([kind, seed, method, size, f"{first:.4f}", f"{recall:.4f}"])
                    file.flush()


def read(path):
    """Return the rows of a file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


BEST = {
    "IVF256-RaBitQ, best bits": RABITQ[len(RABITQ_BITS) :],
    "RaBitQ, best bits": RABITQ[: len(RABITQ_BITS)],
}
SHOWN = {
    **{name: (name,) for name in (OURS, "OPQ", "PQ")},
    **BEST,
    **{name: (name,) for name in ("scalar quantiser", *SIGNS)},
}
"""Rows of tables: of RaBitQ the number of bits that found most, in each column."""


def tables(path):
    """Mean recall by data, method and bytes, its standard error over queries and number of draws; then times.

    Below them by how much ours leads the best of the others that keep real-valued queries, at least, over the draws.
    """
    found, lines = read(path), []
    for name in dict.fromkeys(row["data"] for row in found):
        mine = [row for row in found if row["data"] == name]
        sizes = sorted({int(row["bytes"]) for row in mine})
        for times in (False, True):
            head = f"{name}, " + ("train s / encode µs / query µs" if times else "recall@10 ± error (draws)")
            lines += [f"\n| {head} | " + " | ".join(f"{size} B" for size in sizes) + " |"]
            lines += ["|---" * (len(sizes) + 1) + "|"]
            for shown, methods in SHOWN.items():
                cells = [cell(mine, methods, size, times) for size in sizes]
                if any(cells):
                    lines.append(f"| {shown} | " + " | ".join(cells) + " |")
        lines.append("| least lead | " + " | ".join(least_lead(mine, size) for size in sizes) + " |")
    return "\n".join(lines)


def cell(rows, methods, size, times):
    """What a table says of the best of some methods."""
    groups = [
        [row for row in rows if row["method"] == each and int(row["bytes"]) == size] for each in methods
    ]
    most = max(map(len, groups))
    if most == 0:
        return ""
    groups = [group for group in groups if len(group) == most]  # draws differ more than numbers of bits do
    best = max(groups, key=lambda group: np.mean([float(row["recall_at_10"]) for row in group]))
    if times:
        timed = [row for row in best if row[TIMES[0]]]  # not all draws kept their times
        if not timed:
            return ""
        train, encode, query = (min(float(row[key]) for row in timed) for key in TIMES)
        return f"{train:.1f} / {encode:.1f} / {query:.0f}"
    mean = np.mean([float(row["recall_at_10"]) for row in best])
    error = np.sqrt(np.mean([float(row["standard_error"]) ** 2 for row in best]) / len(best))
    bits = re.findall(r", (\d) bits", best[0]["method"]) or ["1"]
    more = f", {bits[0]} bits" if len(methods) > 1 else ""
    return f"{mean:.3f} ± {error:.3f} ({len(best)}{more})".replace("0.", ".")


def least_lead(rows, size):
    """The least of the draws' leads of ours over the best of the others, and over which."""
    leads = []
    for seed in {row["seed"] for row in rows}:
        here = [row for row in rows if row["seed"] == seed and int(row["bytes"]) == size]
        ours = [float(row["recall_at_10"]) for row in here if row["method"] == OURS]
        others = [
            (float(row["recall_at_10"]), row["method"]) for row in here if row["method"] not in (OURS, *SIGNS)
        ]
        if ours and others:
            recall, method = max(others)
            leads.append((ours[0] - recall, method))
    return f"{min(leads)[0]:+.3f} ({min(leads)[1]})" if leads else ""


def main():
    """Measure, or show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--data", action="append", help="only these data")
    parser.add_argument("--method", action="append", help="only these methods")
    parser.add_argument("--size", action="append", type=int, help="only so many bytes")
    parser.add_argument("--draw", action="append", type=int, help="only these draws")
    parser.add_argument("--copies", action="store_true", help="VLAD of copies of photographs")
    parser.add_argument("--seeds", type=int, default=3, help="draws of --copies")
    given = parser.parse_args()
    if given.copies:
        return measure_copies(given.file, given.seeds)
    if given.table:
        return print(tables(given.file))
    return measure(given.file, given.data, given.method, given.size, given.draw)


if __name__ == "__main__":
    main()
