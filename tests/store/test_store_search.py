"""Searching a store: the same answers as searching its codes in memory, whatever its segments and deletes."""

import pickle
import shutil

import numpy as np
import pytest
from sklearn.datasets import load_digits

import bilsh

DIGITS = load_digits().images.astype(np.float32)


@pytest.fixture
def encoder():
    return bilsh.KernelEncoder(n_bits=700, random_state=0).fit(DIGITS)


def fill(path, encoder, ids, **settings):
    """Three segments; every seventh item deleted; returns the rows that live."""
    with bilsh.Store.create(path, encoder, **settings) as store:
        for rows in np.array_split(np.arange(600), 3):
            store.add(DIGITS[rows], ids=ids[rows])
        store.delete(ids[:600:7])
    return np.flatnonzero(np.arange(600) % 7)


@pytest.mark.parametrize("mode", ["hamming", "progressive", "asymmetric"])
def test_a_store_answers_as_its_codes_in_memory(tmp_path, encoder, mode):
    ids = np.random.default_rng(0).permutation(5000)[:600]
    rows = fill(tmp_path / "store", encoder, ids)
    index = bilsh.Index(encoder.transform(DIGITS[rows]), encoder, ids=ids[rows])
    with bilsh.Store.open(tmp_path / "store") as store:
        found, expected = (place.search(DIGITS[600:605], 8, mode=mode) for place in (store, index))
        assert found.explain().n_items == len(store) + 86
    for name in ("ids", "distances"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    # How far items lie on average is taken from sampled rows, which are others here and there.
    for name in ("similarity", "interval"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-3)


def test_filters_radius_and_reranking(tmp_path, encoder):
    ids = np.arange(600) + 1000
    rows = fill(tmp_path / "store", encoder, ids, keep_vectors="float32")
    with bilsh.Store.open(tmp_path / "store") as store:
        only = store.search(DIGITS[:3], 5, where=ids[:50])
        assert set(only.ids.ravel()) <= set(ids[rows[rows < 50]])
        masked = store.search(DIGITS[:3], 5, where=rows < 50)
        np.testing.assert_array_equal(masked.ids, only.ids)
        near = store.search(DIGITS[1:2], radius=0)
        assert near.ids[0].tolist() == [1001]
        exact = store.search(DIGITS[600:603], 4, candidates=600, rerank=True)
        far = np.linalg.norm(DIGITS[600:603].reshape(3, 1, 64) - DIGITS[rows].reshape(1, -1, 64), axis=2)
        np.testing.assert_allclose(exact.exact, np.sort(far, axis=1)[:, :4], rtol=1e-6)


def test_string_ids_come_back_as_strings(tmp_path, encoder):
    ids = np.array([f"image {row}" for row in range(600)])
    fill(tmp_path / "store", encoder, ids)
    with bilsh.Store.open(tmp_path / "store") as store:
        found = store.search(DIGITS[[1, 599]], 2)
        assert found.ids[:, 0].tolist() == ["image 1", "image 599"]
        only = store.search(DIGITS[1:2], 9, where=["image 5", "image 9", "image 0", "nothing"])
        assert sorted(only.ids[0].tolist()) == ["image 5", "image 9"]
        assert store.search(DIGITS[1:2], radius=0).ids[0].tolist() == ["image 1"]
        with pytest.raises(bilsh.InvalidInputError, match="string ids"):
            store.search(DIGITS[:1], rerank=DIGITS)


def test_an_empty_store_finds_nothing(tmp_path, encoder):
    with bilsh.Store.create(tmp_path / "store", encoder) as store:
        found = store.search(DIGITS[:2], 5)
        assert found.ids.shape == (2, 0)
        assert found.similarity.shape == (2, 0)
        assert store.search(DIGITS[:2], 5, mode="asymmetric").ids.shape == (2, 0)
        assert [len(row) for row in store.search(DIGITS[:2], radius=9).ids] == [0, 0]


def test_reranking_for_no_queries(tmp_path, encoder):
    with bilsh.Store.create(tmp_path / "store", encoder, keep_vectors="float32") as store:
        store.add(DIGITS[:5])
        assert store.search(DIGITS[:0], 3, rerank=True).ids.shape == (0, 3)


@pytest.mark.parametrize("way", [{}, {"radius": 30}], ids=["k", "radius"])
@pytest.mark.parametrize("names", [None, "string"])
def test_hits_travel_between_processes_with_their_metadata(tmp_path, way, names):
    X = np.random.default_rng(0).normal(size=(50, 16)).astype(np.float32)
    ids = None if names is None else [f"item {i}" for i in range(50)]
    with bilsh.Store.create(tmp_path / "store", bilsh.AngleEncoder(64, random_state=0).fit(X)) as store:
        store.add(X, ids, metadata=[{"row": i} for i in range(50)])
    hits = bilsh.Store.open(tmp_path / "store").search(X[:3], k=4, **way)
    back = pickle.loads(pickle.dumps(hits))
    shutil.rmtree(tmp_path / "store")
    assert back.metadata == hits.metadata
    assert back.metadata[0][0] == {"row": 0}
    assert [list(row) for row in back.ids] == [list(row) for row in hits.ids]
    assert [np.asarray(one).tolist() for one in back.interval] == [
        np.asarray(one).tolist() for one in hits.interval
    ]
    assert back.columns() == hits.columns()
