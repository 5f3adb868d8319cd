"""Coverage of the intervals of near-duplicates: every query has a copy in the store, near enough to be the best hit.

    python tests/hit_copies.py                                       # digits, some seconds
    python tests/hit_copies.py --data MNIST,words --items 20000      # from BILSH_DATA, some minutes

A copy is its query with noise of some share of the distance to the query's nearest neighbour, in any direction. Judged
are copies that were found first (with 64 bits an ordinary item may come before one at a third of the distance).
"""

import argparse

import numpy as np

import bilsh
from bilsh.encoders.neighbourhood import distances
from hit_coverage import ENCODERS, load, split

SHARES = (0.0, 0.001, 0.01, 0.03, 0.1, 0.2, 1 / 3)
"""Distances of copies, over those of nearest neighbours."""
FIRST = 70
"""Seed of the first encoder: none that the doubt was mended with."""


def copies_of(X, kind, n_bits, modes, n_items, seed, n_queries=300, shares=SHARES, confidence=0.95):
    """Shares of copies inside their intervals (modes, shares), for one encoder."""
    stored, Q = split(X, n_items, seed, n_queries)
    axes = (-1, *[1] * (Q.ndim - 1))
    reach = np.concatenate(
        [distances(Q[at : at + 100], stored, "euclidean").min(axis=1) for at in range(0, n_queries, 100)]
    )
    noise = np.random.default_rng([seed, 5]).normal(size=Q.shape)
    noise *= (reach / np.linalg.norm(noise.reshape(n_queries, -1), axis=1)).reshape(axes)
    encoder = ENCODERS[kind](n_bits, 1000 * seed + n_bits).fit(stored)
    codes, coder = encoder.transform(stored), encoder.coder_
    inside = np.empty((len(modes), len(shares)))
    for column, share in enumerate(shares):
        made = (Q + share * noise).astype(np.float32)
        index = bilsh.Index(np.concatenate([codes, encoder.transform(made)]), encoder)
        truth = np.array(
            [coder.exact(one[None], copy[None])[0, 0] for one, copy in zip(Q, made, strict=True)]
        )
        for row, mode in enumerate(modes):
            found = index.search(Q, k=10, mode=mode)
            ends = found.estimate(of=coder.calibration.quantities[0], confidence=confidence).interval[:, 0]
            first = found.ids[:, 0] == n_items + np.arange(n_queries)
            inside[row, column] = np.mean(((ends[:, 0] <= truth) & (truth <= ends[:, 1]))[first])
    return inside


def line(name, runs):
    """One row of the table, from (encoders, shares)."""
    return f"| {name} | {' / '.join(f'{100 * one:.0f}' for one in np.mean(runs, axis=0))} |"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="digits")
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--bits", default="64,256,1024")
    parser.add_argument("--codes", default="angle,kernel")
    parser.add_argument("--encoders", type=int, default=3)
    parser.add_argument("--confidence", type=float, default=0.95)
    options = parser.parse_args()
    modes = "hamming", "asymmetric"
    print(
        f"| data, items, code, bits, mode | copies at {' / '.join(f'{one:.3g}' for one in SHARES)} |\n|---|---|"
    )
    for name in options.data.split(","):
        X = load(name)
        for kind in options.codes.split(","):
            for n_bits in map(int, options.bits.split(",")):
                seeds = range(FIRST, FIRST + options.encoders)
                runs = [
                    copies_of(X, kind, n_bits, modes, options.items, seed, confidence=options.confidence)
                    for seed in seeds
                ]
                for mode, cells in zip(modes, np.swapaxes(runs, 0, 1), strict=True):
                    print(line(f"{name} {options.items:,} {kind} {n_bits:,} {mode}", cells), flush=True)


if __name__ == "__main__":
    main()
