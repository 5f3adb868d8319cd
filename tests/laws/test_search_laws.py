"""The promise of progressive search, on codes of real encoders: a neighbour is lost with probability <= delta."""

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.datasets import load_digits

import bilsh
from bilsh.search import scan as scans
from support import SEED


@pytest.mark.parametrize("delta", [0.2, pytest.param(0.05, marks=pytest.mark.slow)])
def test_misses_stay_below_delta(delta, monkeypatch):
    """One neighbour of one query per encoder counts: losses that share bits are not independent.

    Where the rule just holds it fails with probability below 1e-6, and misses of four times delta fail it with
    probability above 1 - 1e-6.
    """
    monkeypatch.setattr(scans, "MIN_ROWS", 1)
    images = load_digits().images
    rng = np.random.default_rng([SEED, round(1000 * delta)])
    trials = 150 if delta > 0.1 else 600
    allowed = int(binom.isf(1e-6, trials, delta))
    assert binom.cdf(allowed, trials, 4 * delta) < 1e-6
    lost = 0
    for _ in range(trials):
        encoder = bilsh.AngleEncoder(n_bits=2400, random_state=rng).fit(images[:50])
        chosen = rng.permutation(len(images))[:251]
        codes = encoder.transform(images[chosen])
        index = bilsh.Index(codes[1:])
        wanted = index.search(codes[:1], 10, mode="hamming").ids[0, rng.integers(10)]
        found = index.search(codes[:1], 10, delta=delta)
        assert found.explain().stages[0].name == "bits up to 512"
        lost += wanted not in found.ids
    assert lost <= allowed
