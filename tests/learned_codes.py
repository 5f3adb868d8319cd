"""Recall@10 of learned codes and their peers at equal bytes: what docs/results/learned.csv keeps.

All methods learn from the items that they encode; queries are other rows. `python tests/learned_codes.py FILE` goes on
where FILE ends, in the order of PLAN, and needs FAISS; `--table` prints docs/results/learned.md. Data that
are not here are left out: MNIST, `glosses.npy` (text) and `glove.npy` lie in the folder BILSH_DATA. `--copies FILE`
measures VLAD of copies of photographs instead: `flickr` and `vlad_codebook500.npy` there.
"""

import argparse
import csv
import os
import re
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

import bilsh
from bilsh import datasets
from bilsh.datasets.images import ImageFolder
from bilsh.descriptors import Vlad, describe
from bilsh.evaluation import exact_neighbors, recall_of_ids
from bilsh.experiments.inputs import COPIES, Copy
from bilsh.experiments.peers import METHODS, RABITQ_BITS, counts_hamming, peer_rows, rabitq_name

ITEMS, QUERIES = 20_000, 1_000
DATA = Path(os.environ.get("BILSH_DATA") or "data")
COLUMNS = ("data", "seed", "queries", "method", "bytes", "recall_at_10", "standard_error")
TIMES = ("train_seconds", "encode_microseconds", "query_microseconds")
OURS = "ours: learned, asymmetric"
RABITQ = tuple(rabitq_name(bits, lists) for lists in (0, 256) for bits in RABITQ_BITS)
QUICK = (OURS, "PQ", *RABITQ, "scalar quantiser")
SIGNS = ("ours: sign, asymmetric", "ours: kernel, Hamming", "ours: sign, Hamming", "FAISS LSH", "ITQ")
SIZES = (64, 128, 32, 98, 200, 16, 400)
MOST = {"digits": 200, "glove": 200}
"""Bytes beyond which a code would be as long as the numbers themselves."""

FIRST, FEW = ("text", "mnist"), ("digits", "glove", "power law")

PLAN = tuple(
    (name, seed, size, methods)
    for names, seeds, sizes, methods in (
        (FIRST, range(3), SIZES, QUICK),
        (FEW, range(3), SIZES, QUICK),
        (FIRST, range(3), SIZES, ("OPQ from components", "OPQ")),
        (FEW + FIRST, range(3), SIZES, SIGNS),
        (FEW, range(3), SIZES, ("OPQ from components",)),
        (FEW, range(3), (32,), ("OPQ",)),
        (("mnist",), range(3), (98,), ("OPQ of all numbers",)),
    )
    for seed in seeds
    for size in sizes
    for name in names
    if size <= MOST.get(name, size)
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


PHOTOGRAPHS, COPIED, COPY_SIZES = 1_000, 300, (32, 64, 128, 200)
COPY_COLUMNS = ("copy", "seed", "method", "bytes", "found_first", "recall_at_10")
APART = ", learned from others"
OF_NUMBERS = ("PQ", "RaBitQ of random directions", "FAISS LSH")
OF_COMPONENTS = (*RABITQ[: len(RABITQ_BITS)], "scalar quantiser", "ITQ", "OPQ from components")
OF_COPIES = {
    "ours: sign, asymmetric": lambda size, seed: bilsh.AngleEncoder(8 * size, random_state=seed),
    OURS: lambda size, seed: bilsh.EuclideanEncoder(size, transform="klt", random_state=seed),
    "ours: chosen": lambda size, seed: bilsh.EuclideanEncoder(size, random_state=seed),
    "ours: sign, Hamming": lambda size, seed: bilsh.AngleEncoder(8 * size, random_state=seed),
}
"""Our codes of copies; "chosen" are those that EuclideanEncoder takes by itself."""


def photographs(folder, seed):
    """VLAD (n, 250, 256) of photographs, and of two kinds of copies of some: kind -> (originals, VLAD).

    Each seed has other photographs.
    """
    book = np.load(DATA / "vlad_codebook500.npy").astype(np.float32)
    paths = datasets.images(DATA / "flickr").paths[PHOTOGRAPHS * seed :][:PHOTOGRAPHS]
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


def components(X):
    """Mean and principal axes (d, n - 1) of matrices: all that items have, as there are fewer of them than numbers."""
    rows = X.reshape(len(X), -1)
    mean = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
    rows = rows - mean
    values, left = np.linalg.eigh((rows @ rows.T).astype(np.float64))
    largest = np.argsort(-values)[: len(X) - 1]
    return mean, rows.T @ (left[:, largest] / np.sqrt(values[largest])).astype(np.float32)


def searcher(method, rows, X, size, seed, mean, axes):
    """What finds the ten nearest of X by codes of a method that learned from rows; None where there is no such code.

    Mean and axes are those of the rows. Peers that cannot take so many numbers have components, OPQ the leading 512:
    where rows are the items, what queries have beside them is the same for all.
    """
    if method in OF_COPIES:
        encoder = OF_COPIES[method](size, seed).fit(rows)
        index = bilsh.Index(encoder.transform(X), encoder)
        mode = "hamming" if counts_hamming(method) else "asymmetric"
        return lambda Q: np.asarray(index.search(Q, k=10, mode=mode).ids)

    def seen(Z):
        Z = Z.reshape(len(Z), -1) - mean
        if method in OF_NUMBERS:
            return Z
        return np.ascontiguousarray(Z @ (axes[:, :512] if method.startswith("OPQ") else axes))

    learned_from = seen(rows)
    peer = METHODS[method](learned_from.shape, size, 1.0)
    if peer is None:
        return None
    peer.train(learned_from)
    peer.add(seen(X))
    return lambda Q: peer.search(seen(Q))


def measure_copies(path, seeds, method, size, apart):
    """Append what is missing: copies whose original comes first, and recall of their ten exact neighbours.

    Methods learn from the photographs that they encode, or from others where these are to be apart.
    """
    done = (
        {(int(row["seed"]), row["method"], int(row["bytes"])) for row in read(path)}
        if path.exists()
        else set()
    )
    with path.open("a", newline="") as file:
        out = csv.writer(file)
        if not done:
            out.writerow(COPY_COLUMNS)
        for seed in range(seeds):
            X, copies = photographs(path.parent / "descriptors", seed)
            exact = {kind: exact_neighbors(Q, X, 10)[0] for kind, (_, Q) in copies.items()}
            rows = photographs(path.parent / "descriptors", seed + 1)[0] if apart else X
            mean, axes = components(rows)
            for each, n_bytes in product((*OF_COPIES, *OF_NUMBERS, *OF_COMPONENTS), COPY_SIZES):
                wanted = (not method or each in method) and (not size or n_bytes in size)
                shown = each + APART * apart
                if not wanted or (seed, shown, n_bytes) in done:
                    continue
                if (search := searcher(each, rows, X, n_bytes, seed, mean, axes)) is None:
                    continue
                for kind, (originals, Q) in copies.items():
                    ids = search(Q)
                    first, recall = (ids[:, 0] == originals).mean(), recall_of_ids(ids, exact[kind])
                    out.writerow([kind, seed, shown, n_bytes, f"{first:.4f}", f"{recall:.4f}"])
                file.flush()


def read(path):
    """Return the rows of a file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


SHOWN = {
    "`EuclideanEncoder`": (OURS,),
    "OPQ from components": ("OPQ from components",),
    "OPQ": ("OPQ",),
    "OPQ of all numbers": ("OPQ of all numbers",),
    "PQ": ("PQ",),
    "IVF256-RaBitQ, all lists": RABITQ[len(RABITQ_BITS) :],
    "RaBitQ after PCA": RABITQ[: len(RABITQ_BITS)],
    "scalar quantiser after PCA": ("scalar quantiser",),
    "our sign codes": ("ours: sign, asymmetric",),
}
"""Rows of tables: of RaBitQ the number of bits that found most, in each column."""
BY_HAMMING = {
    "our kernel codes": ("ours: kernel, Hamming",),
    "our sign codes": ("ours: sign, Hamming",),
    "FAISS LSH": ("FAISS LSH",),
    "ITQ": ("ITQ",),
}
HEADS = (
    ("recall@10 ± standard error (draws), real-valued queries", SHOWN, False),
    ("recall@10 ± standard error (draws), by Hamming distance", BY_HAMMING, False),
    ("train s / encode µs / query µs", {**SHOWN, "FAISS LSH": ("FAISS LSH",), "ITQ": ("ITQ",)}, True),
)


TITLE = """# Codes at equal bytes, all tables

Made of [learned.csv](learned.csv) by `python tests/learned_codes.py docs/results/learned.csv --table`. What the rows
are and tell stands in [accuracy](../accuracy.md#learned-codes-at-equal-bytes). Times are the least of the draws,
of one processor that others used too (AMD EPYC, AVX-512)."""


def tables(path):
    """Mean recall by data, method and bytes, its standard error over queries and number of draws; then times.

    With them by how much ours leads the best of the others that keep real-valued queries, at least, over the draws.
    """
    found, lines = read(path), [TITLE]
    for name in dict.fromkeys(row["data"] for row in found):
        mine = [row for row in found if row["data"] == name]
        sizes = sorted({int(row["bytes"]) for row in mine})
        lines += [f"\n## {name}"]
        for head, kinds, times in HEADS:
            lines += ["", head + ":", "", "| | " + " | ".join(f"{size} B" for size in sizes) + " |"]
            lines += ["|---" * (len(sizes) + 1) + "|"]
            for shown, methods in kinds.items():
                cells = [cell(mine, methods, size, times) for size in sizes]
                if any(cells):
                    lines.append(f"| {shown} | " + " | ".join(cells) + " |")
            if kinds is SHOWN:
                leads = " | ".join(least_lead(mine, size) for size in sizes)
                lines.append(f"| least lead of a draw | {leads} |")
    return "\n".join(lines)


def copy_tables(path):
    """Mean share of copies that find their original first, its error over draws (how many), and mean recall."""
    found, lines = read(path), []
    sizes = sorted({int(row["bytes"]) for row in found})
    for kind in COPIES:
        lines += [f"\n| {kind} | " + " | ".join(f"{size} B" for size in sizes) + " |"]
        lines += ["|---" * (len(sizes) + 1) + "|"]
        for shown in dict.fromkeys(row["method"] for row in found):
            cells = []
            for size in sizes:
                key = (kind, shown, str(size))
                mine = [row for row in found if (row["copy"], row["method"], row["bytes"]) == key]
                first, recall = ([float(row[each]) for row in mine] for each in COPY_COLUMNS[-2:])
                error = f" ± {np.std(first, ddof=1) / np.sqrt(len(first)):.3f}" if len(first) > 1 else ""
                cells.append(
                    f"{np.mean(first):.3f}{error} ({len(mine)}), {np.mean(recall):.3f}" if mine else ""
                )
            lines.append(short(f"| {shown} | " + " | ".join(cells) + " |"))
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
        return short(f"{train:.1f} / {encode:.1f} / {query:.0f}")
    mean = np.mean([float(row["recall_at_10"]) for row in best])
    error = np.sqrt(np.mean([float(row["standard_error"]) ** 2 for row in best]) / len(best))
    bits = re.findall(r", (\d) bits", best[0]["method"]) or ["1"]
    more = f", {bits[0]} b" if len(methods) > 1 else ""
    return short(f"{mean:.3f} ± {error:.3f}{more} ({len(best)})")


def short(text):
    """Without zeros before points."""
    return re.sub(r"(?<!\d)0\.", ".", text)


def least_lead(rows, size):
    """The least of the draws' leads of ours over the best of the others, over which, and the number of draws."""
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
    if not leads:
        return ""
    least, method = min(leads)
    name = method.replace("256-RaBitQ", "").replace(" bits", " b").replace(",", "")
    return short(f"{least:+.3f} {name} ({len(leads)})")


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
    parser.add_argument(
        "--apart", action="store_true", help="learn from other photographs than those of --copies"
    )
    given = parser.parse_args()
    if given.copies and given.table:
        return print(copy_tables(given.file))
    if given.copies:
        return measure_copies(given.file, given.seeds, given.method, given.size, given.apart)
    if given.table:
        return print(tables(given.file))
    return measure(given.file, given.data, given.method, given.size, given.draw)


if __name__ == "__main__":
    main()
