"""Coverage of the intervals of hits: the protocol of the tests, and of the table in docs/intervals.md.

    python tests/hit_coverage.py                 # digits, a minute or two
    python tests/hit_coverage.py --full          # MNIST and word vectors from BILSH_DATA, an hour or two

A cell is a data set, a kind of code, a length, a mode of search and a number of stored items. Encoders are fitted on
the stored items; queries are others. Everything goes the way of a user: fit, Index, search, ``hits.estimate``.
"""

import argparse
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy import ndimage

import bilsh
from bilsh import datasets

RANKS = (1, 3, 10)
FILES = {"words": "glove"}
FIRST = 20
"""Seed of the first encoder: none that a constant was chosen with."""
ENCODERS = {
    "angle": lambda k, seed: bilsh.AngleEncoder(k, random_state=seed),
    "kernel": lambda k, seed: bilsh.KernelEncoder(k, random_state=seed),
    "dense": lambda k, seed: bilsh.AngleEncoder(k, projection="dense", random_state=seed),
    "hadamard": lambda k, seed: bilsh.KernelEncoder(k, projection="hadamard", random_state=seed),
    "blsh-sik": lambda k, seed: bilsh.blsh_sik(k, random_state=seed),
    "blsh-sik-5": lambda k, seed: bilsh.blsh_sik(k, oversampling=5, random_state=seed),
    "circulant": lambda k, seed: bilsh.AngleEncoder(k, projection="circulant", random_state=seed),
    "dense-kernel": lambda k, seed: bilsh.KernelEncoder(k, projection="dense", random_state=seed),
    "bilinear-angle": lambda k, seed: bilsh.bilinear_angle(k, random_state=seed),
}


@dataclass(frozen=True)
class Cell:
    """What was seen of one encoder: hits (q, 10) inside their intervals, and the point estimates of the best."""

    inside_95: np.ndarray
    inside_80: np.ndarray
    per_pair: np.ndarray
    far: np.ndarray
    best: np.ndarray
    truth: np.ndarray
    width: float


def cell(X, kind, n_bits, mode, n_items, seed, n_queries=400):
    """Fit, search and judge."""
    return cells_of(X, kind, n_bits, (mode,), n_items, seed, n_queries)[0]


def cells_of(X, kind, n_bits, modes, n_items, seed, n_queries=400):
    """Cells of one encoder, by mode."""
    stored, Q = split(X, n_items, seed, n_queries)
    encoder = ENCODERS[kind](n_bits, 1000 * seed + n_bits).fit(stored)
    codes, asked = encoder.transform(stored), encoder.transform(Q)
    index, exact = bilsh.Index(codes, encoder), encoder.coder_.exact
    far = farthest(Q, stored, exact)
    result = []
    for mode in modes:
        hits = index.search(Q, k=10, mode=mode)
        pair = bilsh.estimate(
            asked[:, None], codes[hits.ids], encoder, of=encoder.coder_.calibration.quantities[0]
        )
        truth = np.array([exact(one[None], stored[ids])[0] for one, ids in zip(Q, hits.ids, strict=True)])
        result.append(judged(hits, truth, pair, far))
    return result


def split(X, n_items, seed, n_queries):
    """Stored items, and queries that are not among them."""
    order = np.random.default_rng([seed, n_items]).permutation(len(X))
    return X[np.sort(order[:n_items])], X[order[-n_queries:]]


def farthest(Q, stored, exact):
    """Which queries are among the quarter with the farthest nearest neighbours."""
    nearest = np.concatenate([exact(Q[at : at + 100], stored).min(axis=1) for at in range(0, len(Q), 100)])
    return nearest >= np.quantile(nearest, 0.75)


def judged(hits, truth, pair, far):
    """What hits told, against the truth (q, k) in the terms of `pair`, the naive estimates."""
    told, narrow = (hits.estimate(of=pair.quantity, confidence=level) for level in (0.95, 0.8))

    def inside(interval):
        return (interval[..., 0] <= truth) & (truth <= interval[..., 1])

    def width(interval):
        return np.where(np.isfinite(interval[..., 1]), interval[..., 1], 0.0).mean() - interval[..., 0].mean()

    return Cell(
        inside(told.interval),
        inside(narrow.interval),
        inside(pair.sampling_interval),
        far,
        told.value[:, 0],
        truth[:, 0],
        float(width(told.interval) / width(pair.sampling_interval)),
    )


def summary(cells):
    """Shares in per cent over encoders: 95 % and 80 % at ranks 1, 3, 10; per pair; far queries; width; bias."""
    at = np.array(RANKS) - 1

    def share(name):
        return 100 * np.mean([getattr(one, name)[:, at].mean(axis=0) for one in cells], axis=0)

    far = 100 * np.mean([one.inside_95[one.far][:, at].mean() for one in cells])
    bias = np.mean([one.best.mean() for one in cells]) / np.mean([one.truth.mean() for one in cells]) - 1
    width = np.mean([one.width for one in cells])
    return share("inside_95"), share("inside_80"), share("per_pair"), far, width, 100 * bias


def line(name, cells):
    """One row of the table."""
    wide, narrow, pair, far, width, bias = summary(cells)
    shares = " | ".join(" / ".join(f"{x:.0f}" for x in one) for one in (wide, narrow, pair))
    return f"| {name} | {shares} | {far:.0f} | {width:.2f} | {bias:+.1f} % |"


@cache
def load(name):
    """Images of MNIST, 70,000 rows of an array in BILSH_DATA (glove.npy: words, or <name>.npy), or made ones."""
    if name == "digits":
        return datasets.digits().X.astype(np.float32)
    if name in MADE:
        return MADE[name](np.random.default_rng(7)).astype(np.float32)
    folder = Path(os.environ["BILSH_DATA"])
    if name == "MNIST":
        return np.asarray(datasets.mnist(folder / "mnist").X, np.float32)
    X = np.load(folder / f"{FILES.get(name, name)}.npy")
    return X[np.random.default_rng(7).choice(len(X), 70_000, replace=False)]


def rotated(rng):
    """Digits turned by -78 to 78 degrees: of 20,000 items, eleven are turns of one."""
    X = datasets.digits().X
    return np.concatenate(
        [ndimage.rotate(X, angle, axes=(1, 2), reshape=False, order=1) for angle in range(-78, 79, 4)]
    )


def clusters(rng):
    """Tight clusters with gaps around them: of 20,000 items, twenty in each."""
    return np.repeat(rng.normal(size=(1000, 64)), 70, axis=0) + 0.1 * rng.normal(size=(70_000, 64))


def tails(rng):
    """Student's t with two degrees of freedom: no variance, and lengths that differ by a hundred times."""
    return rng.normal(size=(70_000, 64)) / np.sqrt(rng.chisquare(2, size=(70_000, 1)) / 2)


MADE = {"rotated": rotated, "clusters": clusters, "tails": tails}
"""Data that no constant was chosen with, besides glosses.npy."""


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--data")
    parser.add_argument("--items")
    parser.add_argument("--bits", default="64,256,1024,4096")
    parser.add_argument("--codes", default="angle,kernel")
    parser.add_argument("--modes", default="hamming,asymmetric")
    parser.add_argument("--encoders", type=int, default=2)
    parser.add_argument("--first", type=int, default=FIRST, help="seed of the first encoder")
    options = parser.parse_args()
    data = options.data or ("MNIST,words" if options.full else "digits")
    items = options.items or ("1000,20000,60000" if options.full else "1000")
    print(
        "| data, items, code, bits, mode | 95 % at ranks 1 / 3 / 10 | 80 % | per pair | far | width | bias |"
    )
    print("|---|---|---|---|---|---|---|")
    for name in data.split(","):
        X = load(name)
        for n_items in map(int, items.split(",")):
            for kind in options.codes.split(","):
                for n_bits in map(int, options.bits.split(",")):
                    modes = options.modes.split(",")
                    seeds = range(options.first, options.first + options.encoders)
                    made = [cells_of(X, kind, n_bits, modes, n_items, seed) for seed in seeds]
                    for mode, cells in zip(modes, zip(*made, strict=True), strict=True):
                        print(line(f"{name} {n_items:,} {kind} {n_bits:,} {mode}", cells), flush=True)


if __name__ == "__main__":
    main()
