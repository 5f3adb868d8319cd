"""How often 95 % intervals of learned codes' ten best hits hold, among as many items as were learned from and more.

`python tests/learned_coverage.py` prints a table: a power law, digits, and text, GloVe, MNIST and photographs (VLAD, by
codes that are asked for by name and by those that are chosen) where they lie in the folder BILSH_DATA, three draws each
of 500 new queries (300 digits and photographs); items are those learned from and others of their kind. The standard
error is that over draws. `--seed` gives other draws. Beside it: in how many of all pairs of queries and items the hard
bound |d(q, x) - d(q, x_hat)| <= e is violated, with as many queries again that lie beyond items, where it is met.
"""

import argparse

import numpy as np

import bilsh
import learned_codes

PLAN = (
    ("power law", 32, 10_000, (1, 4), 500),
    ("text", 64, 5_000, (1, 4, 16), 500),
    ("text", 64, 20_000, (1, 4), 500),
    ("text", 32, 20_000, (1,), 500),
    ("text", 128, 20_000, (1,), 500),
    ("glove", 32, 10_000, (1, 4), 500),
    ("mnist", 64, 15_000, (1, 4), 500),
    ("mnist", 32, 15_000, (1,), 500),
    ("mnist", 128, 15_000, (1,), 500),
    ("digits", 32, 1_497, (1,), 300),
    ("digits", 64, 1_497, (1,), 300),
    ("photographs", 64, 1_000, (1,), 300),
    ("photographs, chosen", 64, 1_000, (1,), 300),
)
"""Data, bytes, rows learned from, how many times as many are searched, queries."""


def rows_of(name, n, rng):
    """Some rows of a kind, in random order; None where they are not here."""
    if name == "power law":
        turn = np.linalg.qr(rng.normal(size=(512, 512)))[0]
        return (rng.normal(size=(n, 512)) * np.arange(1, 513) ** -0.5 @ turn).astype(np.float32)
    if name.startswith("photographs"):
        return learned_codes.some_photographs(n, rng)
    X = learned_codes.rows_of(name)
    if X is None:
        return None
    chosen = np.asarray(X[np.sort(rng.permutation(len(X))[:n])], dtype=np.float32).reshape(n, -1)
    return chosen[rng.permutation(n)]


def covered(encoder, X, Q):
    """Share of intervals that hold: of all ten hits, and of the first."""
    hits = bilsh.Index(encoder.transform(X), encoder).search(Q, k=10, mode="asymmetric")
    # Sign codes, which are chosen where items are nearly equidistant, tell cosines.
    of = "cosine" if encoder.transform_ == "sign" else "distance"
    told = hits.estimate(of=of, confidence=0.95)
    true = np.stack(
        [np.linalg.norm(X[ids] - q, axis=-1) for q, ids in zip(Q, np.asarray(hits.ids), strict=True)]
    )
    if of == "cosine":
        true = 1 - np.square(true) / 2  # photographs have length 1
    inside = (told.interval[..., 0] <= true) & (true <= told.interval[..., 1])
    return inside.mean(), inside[:, 0].mean()


def distances(Q, X):
    """All distances (q, n), by a matrix product; its rounding is far below the steps of a code's bound."""
    squares = np.square(Q).sum(axis=1)[:, None] + np.square(X).sum(axis=1) - 2 * Q @ X.T
    return np.sqrt(np.maximum(squares, 0))


def violated(encoder, X, Q):
    """Pairs of items with queries, and with as many in the worst direction, whose hard bound fails; and all pairs."""
    codes = encoder.transform(X)
    stands = encoder.inverse_transform(codes).reshape(X.shape).astype(np.float64)
    items, bounds = X.astype(np.float64), encoder.coder_.errors(codes)
    # Beyond an item, on the line from what its code stands for, the bound is met.
    worst = items[: len(Q)] + 20 * (items[: len(Q)] - stands[: len(Q)])
    wrong = 0
    for queries in (Q.astype(np.float64), worst):
        wrong += int((np.abs(distances(queries, items) - distances(queries, stands)) > bounds).sum())
    return wrong, len(items) * (len(Q) + len(worst))


def main():
    """Print a line for each kind and number of items."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--seed", type=int, default=700)
    parser.add_argument("--data", action="append", help="only these data")
    given = parser.parse_args()
    for name, size, learned, times, n_queries in PLAN:
        found, wrong = {}, np.zeros(2, dtype=np.int64)
        for draw in range(given.draws if not given.data or name in given.data else 0):
            rng = np.random.default_rng(given.seed + draw)
            X = rows_of(name, learned * max(times) + n_queries, rng)
            if X is None:
                break
            transform = "klt" if name == "photographs" else "auto"
            shape = (len(X), 250, 256) if name.startswith("photographs") else X.shape
            encoder = bilsh.EuclideanEncoder(size, transform, random_state=draw).fit(
                X.reshape(shape)[:learned]
            )
            if encoder.transform_ != "sign":
                wrong += violated(encoder, X[:learned], X[-n_queries:])
            for factor in times:
                found.setdefault(factor, []).append(covered(encoder, X[: learned * factor], X[-n_queries:]))
        for factor, shares in found.items():
            (ten, first), error = np.mean(shares, axis=0), np.std(shares, axis=0)[0] / np.sqrt(len(shares))
            print(
                f"{name:19} {size:3} B, learned from {learned:6}, among {factor:2} times as many: "
                f"{ten:.3f} +- {error:.3f}, first {first:.3f}",
                flush=True,
            )
        if wrong[1]:
            print(
                f"{name:19} {size:3} B, hard bound violated in {wrong[0]:,} of {wrong[1]:,} pairs", flush=True
            )


if __name__ == "__main__":
    main()
