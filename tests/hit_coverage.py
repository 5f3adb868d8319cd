"""Coverage of the intervals of hits: the protocol of the tests, and of the table in docs/intervals.md.

    python tests/hit_coverage.py            # digits, in a minute
    python tests/hit_coverage.py --full     # MNIST and word vectors from BILSH_DATA, an hour or two

A cell is a data set, a kind of code, a length, a way of ranking and a number of stored items. Encoders are fitted on
the stored items; queries are others. The truth is the exact distance or angle, in the currency of the law.
"""

import argparse
import os
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import bilsh
import bilsh.estimates.intervals
from bilsh import datasets
from bilsh.estimates import hits, sampling
from bilsh.estimates.calibration import calibration_of
from bilsh.estimates.scores import score_ratios
from bilsh.search.asymmetric import score_weights
from bilsh.search.score_law import score_anchors, score_law

RANKS = (1, 3, 10)
BLOCK = 4096


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


def exact(kind, encoder, Q, X):
    """Exact angles or distances (q, n)."""
    q, mean = Q.reshape(len(Q), -1).astype(np.float32), X.reshape(len(X), -1)[:2000].mean(axis=0)
    mean = (encoder.mean_.ravel() if kind == "angle" else mean).astype(np.float32)
    q, found = q - mean, np.empty((len(Q), len(X)), np.float32)
    for start in range(0, len(X), BLOCK):
        x = X[start : start + BLOCK].reshape(-1, q.shape[1]).astype(np.float32) - mean
        if kind == "angle":
            cosines = (q / np.linalg.norm(q, axis=1, keepdims=True)) @ (
                x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
            ).T
            found[:, start : start + BLOCK] = np.arccos(np.clip(cosines, -1, 1))
        else:
            squares = np.square(q).sum(axis=1)[:, None] - 2 * q @ x.T + np.square(x).sum(axis=1)
            found[:, start : start + BLOCK] = np.sqrt(np.maximum(squares, 0))
    return found


def observe(encoder, Q, codes, law=None):
    """Fractions (q, n) of all items, and their background: by Hamming distance, or by score where a law is given."""
    own = encoder.transform(Q)
    if law is None:
        fractions = bilsh.hamming(own, codes) / encoder.n_bits
        return fractions, fractions.mean(axis=1)
    weights, bias = score_weights(encoder, encoder.phases(Q))
    anchors = score_anchors(encoder, weights, bias, bilsh.unpack(own, encoder.n_bits))
    ratios = np.concatenate(
        [
            score_ratios(
                weights @ bilsh.unpack(block, encoder.n_bits).T.astype(np.float32) + bias[:, None], *anchors
            )
            for block in np.split(codes, range(BLOCK, len(codes), BLOCK))
        ],
        axis=1,
    )
    return law.fractions(ratios), law.fractions(ratios.mean(axis=1))


def cell(X, kind, n_bits, ranking, n_items, seed, n_queries=400, projection="bilinear"):
    """Fit, learn, search and judge."""
    rng = np.random.default_rng([seed, n_bits, n_items])
    order = rng.permutation(len(X))
    stored, Q = X[np.sort(order[:n_items])], X[order[-n_queries:]]
    make = bilsh.AngleEncoder if kind == "angle" else bilsh.KernelEncoder
    with warnings.catch_warnings(action="ignore"):
        encoder = make(n_bits=n_bits, projection=projection, random_state=1000 * seed + n_bits).fit(stored)
    calibration = calibration_of(encoder)
    law = score_law(encoder) if ranking == "asymmetric" else None
    worth = calibration.effective_bits if law is None else law.effective_bits

    n_sampled, n_others = sampling.sample_sizes(n_items, n_bits)
    chosen = rng.permutation(n_items)
    asked, others = stored[chosen[:n_sampled]], stored[chosen[n_sampled : n_sampled + n_others]]
    seen, background = observe(encoder, asked, encoder.transform(others), law)
    truth = calibration.fraction_at(exact(kind, encoder, asked, others))
    sample = sampling.learn(seen, truth, background, n_bits, worth)

    seen, background = observe(encoder, Q, encoder.transform(stored), law)
    truth = exact(kind, encoder, Q, stored)
    nearest = truth.min(axis=1)
    window = np.argpartition(seen, hits.WINDOW, axis=1)[:, : hits.WINDOW]
    window = np.take_along_axis(
        window, np.argsort(np.take_along_axis(seen, window, 1), axis=1, kind="stable"), 1
    )
    smallest = np.take_along_axis(seen, window, 1)
    truth = calibration.fraction_at(np.take_along_axis(truth, window[:, :10], 1))
    made = hits.posterior(smallest[:, :10], smallest, background, n_items, n_bits, worth, sample)
    wide, narrow = made.interval(0.95), made.interval(0.8)
    f = np.clip(smallest[:, :10], 0, 1)
    pair = bilsh.estimates.intervals.wilson(f, worth(np.maximum(f, 0.5 / n_bits)), 1.96)
    return Cell(
        (wide[..., 0] <= truth) & (truth <= wide[..., 1]),
        (narrow[..., 0] <= truth) & (truth <= narrow[..., 1]),
        (pair[0] <= truth) & (truth <= pair[1]),
        nearest >= np.quantile(nearest, 0.75),
        made.median()[:, 0],
        truth[:, 0],
        float((wide[..., 1] - wide[..., 0]).mean() / (pair[1] - pair[0]).mean()),
    )


def summary(cells):
    """Shares in per cent over encoders: 95 % and 80 % at ranks 1, 3, 10; far queries; per pair; width; bias."""
    at = np.array(RANKS) - 1

    def share(name):
        return 100 * np.mean([getattr(one, name)[:, at].mean(axis=0) for one in cells], axis=0)

    far = 100 * np.mean([one.inside_95[one.far][:, at].mean() for one in cells])
    bias = 100 * (
        np.mean([one.best.mean() for one in cells]) / np.mean([one.truth.mean() for one in cells]) - 1
    )
    width = np.mean([one.width for one in cells])
    return share("inside_95"), share("inside_80"), share("per_pair"), far, width, bias


def line(name, cells):
    """One row of the table."""
    wide, narrow, pair, far, width, bias = summary(cells)
    shares = " | ".join(" / ".join(f"{x:.0f}" for x in one) for one in (wide, narrow, pair))
    return f"| {name} | {shares} | {far:.0f} | {width:.2f} | {bias:+.1f} % |"


def load(name):
    """Images of MNIST, or word vectors: glove.npy (n, 100) in BILSH_DATA."""
    folder = Path(os.environ["BILSH_DATA"])
    if name == "MNIST":
        return np.asarray(datasets.mnist(folder / "mnist").X, np.float32)
    X = np.load(folder / "glove.npy")
    return X[np.random.default_rng(7).choice(len(X), 70_000, replace=False)]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--data", default="MNIST,words")
    parser.add_argument("--items", default="1000,20000,60000")
    parser.add_argument("--bits", default="64,256,1024,4096")
    parser.add_argument("--encoders", type=int, default=2)
    options = parser.parse_args()
    print(
        "| data, items, code, bits, ranking | 95 % at ranks 1 / 3 / 10 | 80 % | per pair | far | width | bias |"
    )
    print("|---|---|---|---|---|---|---|")
    for data in options.data.split(",") if options.full else ["digits"]:
        X = load(data) if options.full else datasets.digits().X.astype(np.float32)
        for n_items in map(int, options.items.split(",")) if options.full else [1000]:
            for kind in ("angle", "kernel"):
                for n_bits in map(int, options.bits.split(",")):
                    for ranking in ("hamming", "asymmetric"):
                        cells = [
                            cell(X, kind, n_bits, ranking, n_items, seed) for seed in range(options.encoders)
                        ]
                        print(line(f"{data} {n_items:,} {kind} {n_bits:,} {ranking}", cells), flush=True)


if __name__ == "__main__":
    main()
