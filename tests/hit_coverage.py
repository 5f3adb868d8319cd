"""Coverage of the intervals of hits: the protocol of the tests, and of the table in docs/intervals.md.

    python tests/hit_coverage.py                 # digits, a minute or two
    python tests/hit_coverage.py --full          # MNIST and word vectors from BILSH_DATA, an hour or two

A cell is a data set, a kind of code, a length, a mode of search and a number of stored items. Encoders are fitted on
the stored items; queries are others. Everything goes the way of a user: fit, Index, search, ``hits.estimate``.
"""

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import bilsh
from bilsh import datasets

RANKS = (1, 3, 10)
ENCODERS = {
    "angle": lambda k, seed: bilsh.AngleEncoder(k, random_state=seed),
    "kernel": lambda k, seed: bilsh.KernelEncoder(k, random_state=seed),
    "dense": lambda k, seed: bilsh.AngleEncoder(k, projection="dense", random_state=seed),
    "hadamard": lambda k, seed: bilsh.KernelEncoder(k, projection="hadamard", random_state=seed),
    "blsh-sik": lambda k, seed: bilsh.blsh_sik(k, random_state=seed),
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
    rng = np.random.default_rng([seed, n_bits, n_items])
    order = rng.permutation(len(X))
    stored, Q = X[np.sort(order[:n_items])], X[order[-n_queries:]]
    encoder = ENCODERS[kind](n_bits, 1000 * seed + n_bits).fit(stored)
    index = bilsh.Index(encoder.transform(stored), encoder)
    hits = index.search(Q, k=10, mode=mode)
    told, narrow = hits.estimate(of=encoder.coder_.calibration.quantities[0]), None
    narrow = hits.estimate(of=told.quantity, confidence=0.8)
    truth, nearest = np.empty(hits.ids.shape), np.empty(len(Q))
    for start in range(0, len(Q), 100):
        some = slice(start, start + 100)
        exact = encoder.coder_.exact(Q[some], stored)
        truth[some], nearest[some] = np.take_along_axis(exact, hits.ids[some], axis=1), exact.min(axis=1)
    pair = bilsh.estimate(
        encoder.transform(Q)[:, None], encoder.transform(stored)[hits.ids], encoder, of=told.quantity
    )

    def inside(interval):
        return (interval[..., 0] <= truth) & (truth <= interval[..., 1])

    def width(interval):
        return np.where(np.isfinite(interval[..., 1]), interval[..., 1], 0.0).mean() - interval[..., 0].mean()

    return Cell(
        inside(told.sampling_interval),
        inside(narrow.sampling_interval),
        inside(pair.sampling_interval),
        nearest >= np.quantile(nearest, 0.75),
        told.value[:, 0],
        truth[:, 0],
        float(width(told.sampling_interval) / width(pair.sampling_interval)),
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


def load(name):
    """Images of MNIST, or word vectors: glove.npy (n, 100) in BILSH_DATA."""
    if name == "digits":
        return datasets.digits().X.astype(np.float32)
    folder = Path(os.environ["BILSH_DATA"])
    if name == "MNIST":
        return np.asarray(datasets.mnist(folder / "mnist").X, np.float32)
    X = np.load(os.environ.get("BILSH_WORDS", folder / "glove.npy"))
    return X[np.random.default_rng(7).choice(len(X), 70_000, replace=False)]


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
                    for mode in options.modes.split(","):
                        cells = [
                            cell(X, kind, n_bits, mode, n_items, seed) for seed in range(options.encoders)
                        ]
                        print(line(f"{name} {n_items:,} {kind} {n_bits:,} {mode}", cells), flush=True)


if __name__ == "__main__":
    main()
