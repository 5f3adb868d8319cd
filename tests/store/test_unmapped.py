"""A store that is not mapped is searched window by window, with the same answers."""

import numpy as np
import pytest
from makers import make_encoder

from bilsh import Store
from bilsh.store import segment


@pytest.fixture
def path(tmp_path):
    encoder = make_encoder(n_bits=700)
    rng = np.random.default_rng(3)
    with Store.create(tmp_path / "store", encoder, keep_vectors="float32") as store:
        for start in (0, 5000):
            store.add(rng.normal(size=(2500, *encoder.input_shape_)), ids=np.arange(start, start + 2500))
        store.delete(np.arange(0, 7500, 9))
    return tmp_path / "store"


@pytest.mark.parametrize(
    "settings",
    [
        {"mode": "hamming"},
        {"mode": "progressive", "delta": 0.0},
        {"mode": "asymmetric"},
        {"radius": 320},
        {"mode": "hamming", "rerank": True},
        {"mode": "hamming", "where": np.arange(100, 6000, 3)},
    ],
    ids=str,
)
def test_windows_give_the_answers_of_mapped_segments(path, settings, monkeypatch):
    monkeypatch.setattr(segment, "SEARCH_BYTES", 100_000)
    with Store.open(path) as mapped, Store.open(path, mmap=False) as plain:
        assert len(segment.unmapped(plain.segments[0])) > 3
        Q = np.random.default_rng(4).normal(size=(5, *mapped.encoder.input_shape_))
        expected, found = mapped.search(Q, k=7, **settings), plain.search(Q, k=7, **settings)
    # How far items lie on average is taken from sampled rows, which are others in windows.
    for name, atol in (("ids", 0), ("distances", 0), ("similarity", 1e-3)):
        for a, b in zip(getattr(expected, name), getattr(found, name), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=atol)
