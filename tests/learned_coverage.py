"""How often 95 % intervals of learned codes' ten best hits hold, among as many items as were learned from and more.

`python tests/learned_coverage.py` prints a table: a power law, and text, GloVe and MNIST where they lie in the folder
BILSH_DATA, three draws each of 500 new queries; items are those learned from and others of their kind. The standard
error is that over draws. `--seed` gives other draws.
"""

import argparse

import numpy as np

import bilsh
import learned_codes

QUERIES = 500
PLAN = (
    ("power law", 32, 10_000, (1, 4)),
    ("text", 64, 5_000, (1, 4, 16)),
    ("text", 64, 20_000, (1, 4)),
    ("glove", 32, 10_000, (1, 4)),
    ("mnist", 64, 15_000, (1, 4)),
)


def rows_of(name, n, rng):
    """Some rows of a kind, in random order; None where they are not here."""
    if name == "power law":
        turn = np.linalg.qr(rng.normal(size=(512, 512)))[0]
        return (rng.normal(size=(n, 512)) * np.arange(1, 513) ** -0.5 @ turn).astype(np.float32)
    X = learned_codes.rows_of(name)
    if X is None:
        return None
    chosen = np.asarray(X[np.sort(rng.permutation(len(X))[:n])], dtype=np.float32).reshape(n, -1)
    return chosen[rng.permutation(n)]


def covered(encoder, X, Q):
    """Share of intervals that hold: of all ten hits, and of the first."""
    hits = bilsh.Index(encoder.transform(X), encoder).search(Q, k=10)
    told = hits.estimate(of="distance", confidence=0.95)
    true = np.sqrt(np.square(Q[:, None].astype(np.float64) - X[np.asarray(hits.ids)]).sum(axis=2))
    inside = (told.interval[..., 0] <= true) & (true <= told.interval[..., 1])
    return inside.mean(), inside[:, 0].mean()


def main():
    """Print a line for each kind and number of items."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--seed", type=int, default=700)
    parser.add_argument("--data", action="append", help="only these data")
    given = parser.parse_args()
    for name, size, learned, times in PLAN:
        found = {}
        for draw in range(given.draws if not given.data or name in given.data else 0):
            rng = np.random.default_rng(given.seed + draw)
            X = rows_of(name, learned * max(times) + QUERIES, rng)
            if X is None:
                break
            encoder = bilsh.EuclideanEncoder(size, random_state=draw).fit(X[:learned])
            for factor in times:
                found.setdefault(factor, []).append(covered(encoder, X[: learned * factor], X[-QUERIES:]))
        for factor, shares in found.items():
            (ten, first), error = np.mean(shares, axis=0), np.std(shares, axis=0)[0] / np.sqrt(len(shares))
            print(
                f"{name:10} {size} B, learned from {learned:6}, among {factor:2} times as many: "
                f"{ten:.3f} +- {error:.3f}, first {first:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
