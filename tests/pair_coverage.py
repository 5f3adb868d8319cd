"""Coverage of pairs chosen beforehand, near and far, by preset: the protocol of the tests, and of docs/intervals.md.

python tests/pair_coverage.py --data digits
python tests/pair_coverage.py --data MNIST --encoders 6      # with MNIST in BILSH_DATA; minutes
"""

import argparse

import numpy as np

import bilsh
from hit_coverage import load

PRESETS = {
    "lsh_angle": bilsh.lsh_angle,
    "lsh_sik": bilsh.lsh_sik,
    "circulant_angle": bilsh.circulant_angle,
    "circulant_sik": bilsh.circulant_sik,
    "AngleEncoder": bilsh.AngleEncoder,
    "KernelEncoder": bilsh.KernelEncoder,
    "bilinear_angle": bilsh.bilinear_angle,
    "blsh_sik, m = 1": bilsh.blsh_sik,
    "blsh_sik, m = 5": lambda n_bits, random_state: bilsh.blsh_sik(
        n_bits, oversampling=5, random_state=random_state
    ),
}
N_PAIRS = 150


def pairs(X, n, rng):
    """Near pairs (the closest of 300) and far ones (any): three arrays of rows."""
    a, others = rng.integers(len(X), size=n), rng.integers(len(X), size=(n, 300))
    distance = np.array(
        [np.linalg.norm(X[i] - X[row], axis=(1, 2)) for i, row in zip(a, others, strict=True)]
    )
    distance[distance == 0] = np.inf
    return a, others[np.arange(n), distance.argmin(axis=1)], others[:, 0]


def covered(X, preset, n_bits, seeds, rng):
    """Share of truths in nominal 95 % intervals for each encoder: combined near, far; sampling near, far."""
    a, near, far = pairs(X, N_PAIRS, rng)
    fitted = X[rng.permutation(len(X))[:20_000]]
    shares = []
    for seed in seeds:
        encoder = PRESETS[preset](n_bits, random_state=seed).fit(fitted)
        exact, row = encoder.coder_.exact, []
        for b in (near, far):
            truth = np.array([exact(X[[i]], X[[j]])[0, 0] for i, j in zip(a, b, strict=True)])
            told = bilsh.estimate(encoder.transform(X[a]), encoder.transform(X[b]), encoder)
            for ends in (told.interval, told.sampling_interval):
                inside = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
                row.append(inside[truth > 1e-6].mean())
        shares.append(np.array(row)[[0, 2, 1, 3]])
    return np.array(shares)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="digits")
    parser.add_argument("--bits", default="64,512,2048,8192")
    parser.add_argument("--encoders", type=int, default=6)
    parser.add_argument("--presets", nargs="*", default=list(PRESETS))
    options = parser.parse_args()
    print("| code, data | bits | combined: near / far | sampling alone: near / far |\n|---|---|---|---|")
    for data in options.data.split(","):
        X = load(data).astype(np.float64)
        for preset in options.presets:
            for n_bits in map(int, options.bits.split(",")):
                rng = np.random.default_rng(n_bits)
                share = 100 * covered(X, preset, n_bits, range(500, 500 + options.encoders), rng).mean(axis=0)
                cells = [f"{one:.0f} / {two:.0f}" for one, two in (share[:2], share[2:])]
                print(f"| `{preset}`, {data} | {n_bits:,} | {cells[0]} | {cells[1]} |", flush=True)


if __name__ == "__main__":
    main()
