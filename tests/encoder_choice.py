"""Is the encoder that `choose_encoder` picks the better one? A table for docs/accuracy.md, and what the slow test asks.

The choice is made as users make it, with seed 0. The judgement uses other draws of queries and encoders (seeds 11 and
12), 300 queries, all rows. `python tests/encoder_choice.py` prints the table, `--write FILE` puts it between its marks
there. Data that are not here are left out, and their rows stay as they were: MNIST, photographs and `glosses.npy` lie
in the folder BILSH_DATA.
"""

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bilsh.datasets.images import ImageFolder
from bilsh.workflows.choice import choose_encoder
from bilsh.workflows.recall import KINDS, Bench, Sample, mean_recalls

BITS = (128, 1024, 4096)
MOST_BELOW = 0.01
JUDGES = (11, 12)
"""Seeds of queries and encoders; the choice, made with seed 0, draws 0, 1 and 2."""
MARKS = "<!-- encoder choice: begin -->", "<!-- encoder choice: end -->"
DATA = Path(os.environ.get("BILSH_DATA") or "data")


def rows(X, n=10_000):
    """Take random rows, for the time's sake."""
    return np.ascontiguousarray(X[np.random.default_rng(0).permutation(len(X))[:n]])


def digits():
    from bilsh import datasets

    return datasets.digits().X.astype(np.float32)


def mnist():
    from bilsh import datasets

    return rows(datasets.mnist(DATA / "mnist").X) if (DATA / "mnist").is_dir() else None


def photographs():
    """VLAD of 1,000 photographs, 500 centres."""
    from bilsh.datasets import images
    from bilsh.datasets.named import cache_folder
    from bilsh.descriptors import Vlad, describe

    if not (DATA / "flickr").is_dir():
        return None
    book = np.load(DATA / "vlad_codebook500.npy")
    some = ImageFolder(images(DATA / "flickr").paths[:1000])
    return describe(some, Vlad(book), cache=cache_folder() / "descriptors").X


def glosses():
    """Embeddings of sentences: WordLlama (256 numbers) of WordNet's glosses."""
    path = DATA / "glosses.npy"
    return rows(np.load(path, mmap_mode="r")) if path.is_file() else None


def clusters():
    rng = np.random.default_rng(1)
    return rng.normal(size=(200, 128))[rng.integers(200, size=6_000)] + 0.3 * rng.normal(size=(6_000, 128))


def unit_norm():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 96))[rng.integers(300, size=6_000)] + 0.7 * rng.normal(size=(6_000, 96))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def heavy_tails():
    """Lengths drawn from Student's t with 2.5 degrees of freedom."""
    rng = np.random.default_rng(3)
    return rng.standard_t(2.5, size=(6_000, 1)) * rng.normal(size=(6_000, 64))


def skewed():
    """Log-normal numbers, as counts often are."""
    return np.exp(np.random.default_rng(3).normal(size=(6_000, 64)))


def low_rank():
    rng = np.random.default_rng(4)
    return rng.normal(size=(6_000, 8)) @ rng.normal(size=(8, 256)) + 0.05 * rng.normal(size=(6_000, 256))


def gaussian():
    return np.random.default_rng(5).normal(size=(6_000, 64))


SETS = {
    "digits": digits,
    "MNIST": mnist,
    "VLAD of photographs": photographs,
    "text embeddings": glosses,
    "clusters": clusters,
    "unit norm": unit_norm,
    "heavy tails": heavy_tails,
    "skewed": skewed,
    "low rank": low_rank,
    "Gaussian": gaussian,
}


@dataclass(frozen=True)
class Judged:
    """A choice, and recall@10 of both encoders with asymmetric queries."""

    data: str
    shape: tuple[int, ...]
    bits: int
    chosen: str
    angle: float
    kernel: float

    @property
    def below(self):
        """How much the chosen one is below the better one."""
        return max(self.angle, self.kernel) - getattr(self, self.chosen)


def judge(name, X, bits):
    """Choose on X and measure the choice."""
    X = np.asarray(X)
    found = {kind: [] for kind in KINDS}
    for seed in JUDGES:
        flat = X.reshape(len(X), -1).astype(np.float32)
        order = np.random.default_rng(seed).permutation(len(X))
        bench = Bench(Sample(flat[order], X.shape[1:], min(300, len(X)), len(X), seed), 10)
        for kind in KINDS:
            recalls = mean_recalls(bench.found(bench.costs(bench.encoder(kind, bits)), 10))
            found[kind].append(recalls.asymmetric)
    chosen = choose_encoder(X, bits).encoder
    return Judged(name, X.shape, bits, chosen, *(float(np.mean(found[kind])) for kind in KINDS))


def table(judged, before=""):
    """Return Markdown, a row per data set and length; data that were not judged keep their rows of the table before."""
    rows = {name: [line for line in before.splitlines() if line.startswith(f"| {name} |")] for name in SETS}
    rows |= {j.data: [] for j in judged}
    for j in judged:
        size = f"{j.shape[0]:,} x {int(np.prod(j.shape[1:])):,}"
        angle, kernel, below = (f"{value:.3f}"[1:] for value in (j.angle, j.kernel, j.below))
        rows[j.data].append(f"| {j.data} | {size} | {j.bits:,} | {angle} | {kernel} | {j.chosen} | {below} |")
    head = ["| data | rows x numbers | bits | angle | kernel | chosen | below the better |", "|" + "---|" * 7]
    return "\n".join(head + [line for lines in rows.values() for line in lines])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    target = parser.parse_args().write
    judged = []
    for name, load in SETS.items():
        X = load()
        for bits in BITS if X is not None else ():
            judged.append(judge(name, X, bits))
            print(judged[-1], flush=True)
    print(table(judged))
    if target is not None:
        text = target.read_text("utf-8")
        before, rest = text.split(MARKS[0])
        old, after = rest.split(MARKS[1])
        target.write_text(f"{before}{MARKS[0]}\n{table(judged, old)}\n{MARKS[1]}{after}", "utf-8")


if __name__ == "__main__":
    main()
