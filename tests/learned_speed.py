"""Milliseconds of one query and of fifty over a million codes: learned codes, all of them and by cells at a recall of
.95, beside FAISS's FastScan, one thread.

`python tests/learned_speed.py FOLDER` first makes what FOLDER lacks (minutes): codes of MNIST images, shifted by up to
two pixels and with noise, 16 centres, and FAISS's indices of random vectors with codes as long. Then it measures.
`python tests/learned_speed.py FOLDER --encode` measures microseconds to encode an item instead, a thousand at once and
one alone, beside FAISS's PQ and IVF256-RaBitQ of as many bytes, the latter with as many bits as `learned.csv` found
best; rows are centred, of MNIST also as they come, mostly zeros. It ends with the lines of the table in
docs/accuracy.md. MNIST and `glosses.npy` lie in the folder BILSH_DATA.
"""

import argparse
import os
from pathlib import Path
from time import perf_counter, process_time

import faiss
import numpy as np

import bilsh
import learned_codes
from bilsh import datasets
from bilsh.experiments.peers import METHODS, RABITQ_BITS, rabitq_name, split

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


ENCODED = 1_000
ENCODED_BYTES = (16, 32, 64, 98, 128, 200, 400)
OURS = "`EuclideanEncoder`"
KEPT = Path(__file__).parents[1] / "docs" / "results" / "learned.csv"


def best_rabitq(name, size):
    """The kind of IVF256-RaBitQ that found most in the first draw; of as many bits as fit where none was measured."""
    kinds = [rabitq_name(bits, 256) for bits in RABITQ_BITS]
    rows = [
        row
        for row in learned_codes.read(KEPT)
        if (row["data"], row["seed"], row["bytes"]) == (name, "0", str(size)) and row["method"] in kinds
    ]
    return (
        max(rows, key=lambda row: float(row["recall_at_10"]))["method"]
        if rows
        else kinds[0 if size < 64 else -1]
    )


def encoders(name, X, size):
    """How each method encodes some of the items, by its name."""
    encoder = bilsh.EuclideanEncoder(size, random_state=0).fit(X)
    made = {OURS: encoder.transform}
    for title, kind in (("PQ", "PQ"), ("IVF256-RaBitQ", best_rabitq(name, size))):
        if (peer := METHODS[kind]((len(X), X.shape[1]), size, 1.0)) is None:
            continue
        peer.train(X[:2_000])  # how long it takes to encode does not depend on how many
        placed = peer._placed(X[:ENCODED])

        def encode(items, peer=peer, placed=placed):
            peer.index.reset()
            peer.index.add(placed[: len(items)])

        made[title] = encode
    return made


def encoded():
    """What is encoded: the title of its lines, the name of the data, and rows."""
    for name, title in (("text", "text"), ("mnist", "MNIST")):
        drawn = learned_codes.drawn(name, 0)
        yield title, name, split(drawn, 1_000, 0)[1]
    # Centring fills in the zeros of images, which users have, and which our dense product leaves out.
    yield "MNIST as it comes", "mnist", np.ascontiguousarray(drawn.reshape(len(drawn), -1)[1_000:])


def measure_encoding():
    """Interleaved: least microseconds of 18 turns, of a thousand items at once and of one alone, 20 times each turn."""
    table = {}
    for title, name, X in encoded():
        for size in ENCODED_BYTES:
            made, times = encoders(name, X, size), {}
            for turn in range(18):
                for method, encode in made.items():
                    # PQ's own setting and another one each suit some sizes.
                    faiss.cvar.distance_compute_blas_threshold = (20, 128_000)[turn // 9]
                    for n in (ENCODED, *20 * (1,)):
                        start = perf_counter()
                        encode(X[:n])
                        times.setdefault((method, n), []).append(1e6 * (perf_counter() - start) / n)
            least = {m: f"{min(times[m, ENCODED]):.1f} ({min(times[m, 1]):.0f})" for m in made}
            for method in (OURS, "PQ", "IVF256-RaBitQ"):
                table.setdefault(f"{title}: {method}", []).append(least.get(method, ""))
            print(title, f"{size:3} B", "; ".join(f"{m}: {told}" for m, told in least.items()), flush=True)
    print("|", *(f"| {size} B" for size in ENCODED_BYTES), "|")
    print("|---" * (1 + len(ENCODED_BYTES)) + "|")
    for line, told in table.items():
        print("|", " | ".join((line, *told)), "|")


def main():
    """Prepare and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bytes", type=int, nargs="+", default=SIZES, choices=SIZES)
    parser.add_argument("--encode", action="store_true", help="encoding instead of searching")
    asked = parser.parse_args()
    asked.folder.mkdir(exist_ok=True)
    faiss.omp_set_num_threads(1)
    if asked.encode:
        return measure_encoding()
    prepare(asked.folder, asked.bytes)
    return measure(asked.folder, asked.bytes)


if __name__ == "__main__":
    main()
