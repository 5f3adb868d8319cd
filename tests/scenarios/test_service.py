"""A service: threads that ask one open store while another process of the same program adds to it.

The store is opened once; requests come on threads, each gets arrays and plain rows; a second handle writes. Readers see
a change after `refresh`, never half of one.
"""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import bilsh
from bilsh.datasets import clustered


@pytest.fixture
def catalogue(tmp_path):
    """Two thousand products with names and prices."""
    X, _ = clustered(2000, 32, n_clusters=50, spread=0.5, rng=0)
    encoder = bilsh.KernelEncoder(n_bits=512, random_state=0).fit(X)
    with bilsh.Store.create(tmp_path / "catalogue", encoder, keep_vectors="float32") as store:
        store.add(X, ids=[f"sku-{i}" for i in range(len(X))], metadata=[{"price": i} for i in range(len(X))])
    return tmp_path / "catalogue", X


def answer(store, vector):
    """What a handler gives back: rows that can be sent as JSON."""
    hits = store.search(vector[None], k=5)
    return [
        {"id": hit.id, "similarity": hit.similarity, "low": hit.interval[0], "price": notes["price"]}
        for hit, notes in zip(hits.hits(0), hits.metadata[0], strict=True)
    ]


def test_threads_ask_while_a_writer_adds(catalogue):
    path, X = catalogue
    stop = threading.Event()

    def write():
        with bilsh.Store.open(path, mode="a") as writer:
            for number in range(200):
                if stop.is_set():
                    return number
                writer.add(
                    X[number : number + 1] + 0.01, ids=[f"new-{number}"], metadata=[{"price": -number}]
                )
        return 200

    with bilsh.Store.open(path) as store, ThreadPoolExecutor(5) as pool:
        added = pool.submit(write)
        for rows in pool.map(lambda row: answer(store, X[row]), range(0, 2000, 50)):
            assert len({row["id"] for row in rows}) == 5
            assert rows[0]["low"] <= rows[0]["similarity"] <= 1
        stop.set()
        written = added.result()
        assert len(store) == 2000  # a reader keeps what it opened
        store.refresh()
        assert len(store) == 2000 + written
        assert answer(store, X[100])[0]["id"] == "sku-100"


def test_other_processes_get_the_same_version(catalogue):
    path, X = catalogue
    with bilsh.Store.open(path) as store:
        again = pickle.loads(pickle.dumps(store))
        with again:
            assert again.version == store.version
            np.testing.assert_array_equal(again.search(X[:3]).ids, store.search(X[:3]).ids)


def test_an_item_finds_its_like_and_tables_come_out(catalogue):
    path, _ = catalogue
    with bilsh.Store.open(path) as store:
        assert "sku-7" in store
        assert "sku-9999" not in store
        assert len(store.ids) == len(store)
        like = store.search(ids=["sku-7"], k=3, rerank=True)
        assert "sku-7" not in like.ids[0]
        assert (np.diff(like.exact[0]) >= 0).all()
        table = like.columns()
        assert table["id"] == like.ids[0].tolist()
        assert table["rank"] == [1, 2, 3]
