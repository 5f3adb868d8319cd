"""Coverage of the intervals of hits away from the plain case: filters, small stores, copies, other projections, drift.

    python tests/hit_conditions.py            # MNIST in BILSH_DATA; some minutes

Each line is a condition with 256 bits (or those it names): 95 % intervals at ranks 1 and 10 (the last, where there are
fewer or more), Hamming and default ranking, bias of the best hit's distance or angle. Two encoders, 300 queries each.
"""

import argparse
import os
import tempfile
import warnings
from pathlib import Path

import numpy as np

import bilsh
from bilsh import datasets
from bilsh.encoders.neighbourhood import distances
from hit_coverage import ENCODERS

N_ITEMS, N_QUERIES = 10_000, 300
MODES = ("hamming", "auto")


def drawn(X, seed, n_items=N_ITEMS):
    order = np.random.default_rng([seed, 77]).permutation(len(X))
    return X[order[:n_items]], X[order[-N_QUERIES:]]


def told(hits, coder, Q, stored, rows):
    """Whether the truths lie inside, at the first and last rank; estimate and truth of the best."""
    quantity = coder.calibration.quantities[0]
    made = hits.estimate(of=quantity)
    truth = np.array([coder.exact(one[None], stored[ids])[0] for one, ids in zip(Q, rows, strict=True)])
    inside = (made.interval[..., 0] <= truth) & (truth <= made.interval[..., 1])
    return inside[:, [0, -1]], made.value[:, 0], truth[:, 0]


class Bench:
    """An encoder with its codes in an index."""

    def __init__(self, X, kind, n_bits, seed, n_items=N_ITEMS, fit_on=None, cut=None, cells=None):
        self.stored, self.Q = drawn(X, seed, n_items)
        encoder = ENCODERS[kind](n_bits, 1000 * seed + n_bits)
        encoder.fit(self.stored if fit_on is None else fit_on)
        self.encoder = encoder.truncated(cut) if cut else encoder
        self.coder = getattr(self.encoder, "coder_", self.encoder)
        self.index = bilsh.Index(self.coder.encode(self.stored), self.encoder, cells=cells)

    def ask(self, mode, k=10, Q=None, where=None, stored=None, recall=None):
        Q = self.Q if Q is None else Q
        stored = self.stored if stored is None else stored
        hits = self.index.search(Q, k=k, mode=mode, where=where, recall=recall)
        return told(hits, self.coder, Q, stored, hits.ids)


def plain(X, labels, kind, seed):
    bench = Bench(X, kind, 256, seed)
    return [bench.ask(mode) for mode in MODES]


def progressive(X, labels, kind, seed):
    """Only ten candidates are known; 1,024 bits, so that prefixes are used."""
    bench = Bench(X, kind, 1024, seed)
    return [bench.ask(mode) for mode in ("progressive", "auto")]


def fifty(X, labels, kind, seed):
    bench = Bench(X, kind, 256, seed)
    return [bench.ask(mode, k=50) for mode in MODES]


def celled(filtered):
    """Through cells at a promised recall of .9, so that not all that is near was read; with a filter or without."""

    def run(X, labels, kind, seed):
        bench = Bench(X, kind, 256, seed, cells=int(len(X) ** 0.5))
        n = len(bench.stored)
        where = np.random.default_rng(seed).choice(n, n // 4, replace=False) if filtered else None
        return [bench.ask(mode, where=where, recall=0.9) for mode in ("progressive", "auto")]

    return run


def random_filter(X, labels, kind, seed):
    bench = Bench(X, kind, 256, seed)
    where = np.random.default_rng(seed).choice(N_ITEMS, 500, replace=False)
    return [bench.ask(mode, where=where) for mode in MODES]


def class_filter(n_bits, all_far):
    """Items of one class, which is that of a tenth of the queries; or of none, so that all items are far."""

    def run(X, labels, kind, seed):
        bench = Bench(X, kind, n_bits, seed)
        stored, asked = drawn(labels, seed)
        where, Q = np.flatnonzero(stored == seed % 10), bench.Q
        if all_far:
            Q = Q[asked != seed % 10]
        return [bench.ask(mode, Q=Q, where=where) for mode in MODES]

    return run


def small(n_items):
    def run(X, labels, kind, seed):
        parts = []
        for part in range(3):
            bench = Bench(X, kind, 256, 100 * seed + part, n_items)
            parts.append([bench.ask(mode) for mode in MODES])
        return [
            tuple(np.concatenate(cells) for cells in zip(*side, strict=True))
            for side in zip(*parts, strict=True)
        ]

    return run


def fitted_on_more(X, labels, kind, seed):
    """30 items, the encoder fitted on 10,000 others."""
    bench = Bench(X, kind, 256, seed, 30, fit_on=X[np.random.default_rng(seed).permutation(len(X))[:10_000]])
    return [bench.ask(mode) for mode in MODES]


def copies(X, labels, kind, seed):
    """Every query has a copy in the store at a third of its nearest neighbour's distance; the best hit is judged."""
    stored, Q = drawn(X, seed)
    reach = distances(Q, stored, "euclidean").min(axis=1)
    noise = np.random.default_rng(seed).normal(size=Q.shape)
    noise *= (reach / 3 / np.linalg.norm(noise.reshape(N_QUERIES, -1), axis=1)).reshape(
        -1, *[1] * (Q.ndim - 1)
    )
    both = np.concatenate([stored, (Q + noise).astype(np.float32)])
    encoder = ENCODERS[kind](256, 1000 * seed).fit(stored)
    index, coder = bilsh.Index(encoder.transform(both), encoder), encoder.coder_
    result = []
    for mode in MODES:
        hits = index.search(Q, k=10, mode=mode)
        result.append(told(hits, coder, Q, both, hits.ids))
    return result


def projection(name):
    def run(X, labels, kind, seed):
        bench = Bench(X, f"{kind}-{name}", 256, seed)
        return [bench.ask(mode) for mode in MODES]

    return run


def prefix(X, labels, kind, seed):
    bench = Bench(X, kind, 1024, seed, cut=256)
    return [bench.ask(mode) for mode in MODES]


def drifted(X, labels, kind, seed):
    """Queries with noise of half their own length."""
    bench = Bench(X, kind, 256, seed)
    return [bench.ask(mode, Q=blurred(bench.Q, seed)) for mode in MODES]


def blurred(Q, seed):
    noise = np.random.default_rng(seed).normal(size=Q.shape)
    axes = tuple(range(1, Q.ndim))
    noise *= 0.5 * np.sqrt(np.square(Q).sum(axes, keepdims=True) / np.square(noise).sum(axes, keepdims=True))
    return (Q + noise).astype(np.float32)


def calibrated(given):
    """The same, or plain queries, after Store.calibrate (with 600 such queries)."""

    def run(X, labels, kind, seed):
        stored, Q = drawn(X, seed)
        order = np.random.default_rng([seed, 77]).permutation(len(X))
        others = X[order[N_ITEMS : N_ITEMS + 600]]
        encoder = ENCODERS[kind](256, 1000 * seed + 256).fit(stored)
        Q = blurred(Q, seed) if given else Q
        with (
            tempfile.TemporaryDirectory() as folder,
            bilsh.Store.create(f"{folder}/store", encoder, keep_vectors="float32") as store,
        ):
            store.add(stored)
            store.calibrate(blurred(others, seed + 1) if given else None)
            found = [store.search(Q, k=10, mode=mode) for mode in MODES]
            return [told(hits, encoder.coder_, Q, stored, hits.ids) for hits in found]

    return run


ENCODERS |= {
    "angle-dense": ENCODERS["dense"],
    "kernel-dense": ENCODERS["dense-kernel"],
    "angle-hadamard": lambda k, seed: bilsh.AngleEncoder(k, projection="hadamard", random_state=seed),
    "kernel-hadamard": ENCODERS["hadamard"],
    "angle-circulant": ENCODERS["circulant"],
    "kernel-circulant": lambda k, seed: bilsh.KernelEncoder(k, projection="circulant", random_state=seed),
}

CONDITIONS = {
    "plain": plain,
    "1,024 bits, ten candidates (progressive), default": progressive,
    "rank 50": fifty,
    "filter: 500 of 10,000 at random": random_filter,
    "filter: one class": class_filter(256, False),
    "filter: one class, none of the queries', 64 bits": class_filter(64, True),
    "filter: one class, none of the queries', 128 bits": class_filter(128, True),
    "cells, recall 0.9 (progressive), default": celled(False),
    "cells, recall 0.9, filter: a quarter (progressive), default": celled(True),
    "12 items": small(12),
    "30 items": small(30),
    "100 items": small(100),
    "30 items, fitted on 10,000 others": fitted_on_more,
    "a near-duplicate of every query": copies,
    "dense": projection("dense"),
    "Hadamard": projection("hadamard"),
    "circulant": projection("circulant"),
    "prefix of 1,024 bits": prefix,
    "drifted queries": drifted,
    "calibrated on the store": calibrated(False),
    "drifted, calibrated with such queries": calibrated(True),
}


def line(name, kind, runs):
    """One row of the table."""
    cells = []
    for side in zip(*runs, strict=True):
        inside = 100 * np.concatenate([one[0] for one in side]).mean(axis=0)
        bias = (
            np.concatenate([one[1] for one in side]).mean() / np.concatenate([one[2] for one in side]).mean()
            - 1
        )
        cells.append(f"{inside[0]:.0f} / {inside[1]:.0f} | {100 * bias:+.1f} %")
    return f"| {name} | {kind} | {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--encoders", type=int, default=2)
    parser.add_argument("--first", type=int, default=30, help="seed of the first encoder")
    parser.add_argument(
        "--step", type=int, default=1, help="between seeds; the class of a filter is their last digit"
    )
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    data = datasets.mnist(Path(os.environ["BILSH_DATA"]) / "mnist")
    X, labels = np.asarray(data.X, np.float32), np.asarray(data.labels)
    print(
        "| condition | code | Hamming, 95 % at ranks 1 / 10 | bias | default | bias |\n|---|---|---|---|---|---|"
    )
    for name, run in CONDITIONS.items():
        if options.only in name:
            for kind in ("angle", "kernel"):
                with warnings.catch_warnings(action="ignore"):
                    runs = [
                        run(X, labels, kind, options.first + options.step * i)
                        for i in range(options.encoders)
                    ]
                print(line(name, kind, runs), flush=True)


if __name__ == "__main__":
    main()
