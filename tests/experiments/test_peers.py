"""Peers at equal bytes: no code is longer than it says, and OPQ begins as it should."""

import numpy as np
import pytest

from bilsh.experiments import peers


@pytest.mark.parametrize("size", [16, 64])
def test_codes_of_faiss_have_at_most_so_many_bytes(size):
    pytest.importorskip("faiss")
    made = {name: method((1000, 128), size, 1.0) for name, method in peers.METHODS.items()}
    sizes = {name: peer.index.sa_code_size() for name, peer in made.items() if isinstance(peer, peers._Faiss)}
    assert {"PQ", "OPQ", "OPQ from components", "RaBitQ", "RaBitQ of random directions"} <= set(sizes)
    assert max(sizes.values()) <= size


def test_components_are_dealt_out_to_parts_of_one_product():
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(4000, 32)) * np.arange(1, 33) ** -1.0).astype(np.float32)
    start = peers.balanced_components(X, 4, 24)
    np.testing.assert_allclose(start @ start.T, np.eye(24), atol=1e-5)
    products = np.log((X @ start.T).var(axis=0)).reshape(4, 6).sum(axis=1)
    assert np.ptp(products) < 0.5  # the first 24 in order differ by 10 and more
    leading = np.linalg.eigvalsh(np.cov(X.T))[-24:].sum()
    np.testing.assert_allclose((X @ start.T).var(axis=0, ddof=1).sum(), leading, rtol=1e-4)
