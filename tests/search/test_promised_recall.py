"""Promised recalls on data: with few and many cells, deletions and new rows. Seeds are fixed.

The recall of 1,000 new queries has a standard error of about 0.005, half of it from the trial; 0.025 below the target
is five of them. With MNIST's 2,000 queries 0.01 below is two. Whether the promise is biased: test_promise.py.
"""

import numpy as np
import pytest

import bilsh
from bilsh.datasets import digits, mnist
from support import clustered_codes

TARGETS = (0.90, 0.95, 0.99)
ALLOWED = 0.025


def recall_of(found, true):
    kept = [len(np.intersect1d(a, b)) / true.shape[1] for a, b in zip(found, true, strict=True)]
    return np.mean(kept)


def judged(index, codes, k=10):
    true = index.search(codes=codes, k=k, mode="hamming").ids
    return {target: recall_of(index.search(codes=codes, k=k, recall=target).ids, true) for target in TARGETS}


def split(codes, n_new, seed=0):
    order = np.random.default_rng(seed).permutation(len(codes))
    return codes[order[n_new:]], codes[order[:n_new]]


def test_digits():
    X = digits().X.astype(np.float32)
    codes = bilsh.KernelEncoder(n_bits=1024, random_state=0).fit(X).transform(X)
    kept, new = split(codes, 500)
    for target, found in judged(bilsh.Index(kept, cells=60), new).items():
        assert found > target - ALLOWED


@pytest.mark.parametrize("n_cells", [30, 200])
def test_clustered(n_cells):
    kept, new = split(clustered_codes(6000, 128, 3, n_groups=150, noise=0.15), 1000)
    for target, found in judged(bilsh.Index(kept, cells=n_cells), new).items():
        assert found > target - ALLOWED


def test_deletions_and_new_rows(tmp_path):
    kept, new = split(clustered_codes(7000, 128, 4, n_groups=150, noise=0.15), 1000)
    with bilsh.Store.create(tmp_path / "store", n_bits=1024) as store:
        store.add_codes(kept[:4500])
        store.build_cells(120)
        store.delete(np.arange(0, 4500, 5))
        store.add_codes(kept[4500:5300])
        for target, found in judged(store, new).items():
            assert found > target - ALLOWED


@pytest.mark.slow
@pytest.mark.parametrize("n_bits", [1024, 4096])
@pytest.mark.parametrize("encoder", [bilsh.KernelEncoder, bilsh.AngleEncoder])
def test_mnist(n_bits, encoder, mnist_folder):
    X = mnist(mnist_folder).X.astype(np.float32)
    codes = encoder(n_bits=n_bits, random_state=0).fit(X[:5000]).transform(X)
    kept, new = split(codes, 2000)
    index = bilsh.Index(kept, cells="auto")
    found = judged(index, new)
    print(n_bits, encoder.__name__, found)
    assert all(found[target] > target - 0.01 for target in TARGETS)
    assert index.search(codes=new[:200], k=10, recall=0.95).explain().promise.rows < 0.03
