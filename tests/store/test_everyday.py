"""Everyday calls: is an id there, all ids, metadata of hits, tables, readers in other processes."""

import pickle
from multiprocessing import get_context

import numpy as np
import pytest
from sklearn.datasets import load_digits

import bilsh

DIGITS = load_digits().images[:300]
ENCODER = bilsh.AngleEncoder(64, random_state=0).fit(DIGITS)


@pytest.fixture(params=["int", "str"])
def store(request, tmp_path):
    ids = np.arange(300) * 3 if request.param == "int" else [f"digit {i}" for i in range(300)]
    with bilsh.Store.create(tmp_path / "s", ENCODER) as store:
        store.add(DIGITS, ids=ids, metadata=[{"row": i} if i % 2 else None for i in range(300)])
        store.delete(ids[7:9])
    with bilsh.Store.open(tmp_path / "s") as store:
        yield store


def test_ids_and_membership(store):
    ids = store.ids
    assert len(ids) == len(store) == 298
    first = ids[0]
    assert first in store
    assert ids.tolist() == [i for items in store.batches(7) for i in items.ids.tolist()]
    gone = "digit 7" if store.id_kind == "str" else 21
    for item in (gone, "", True, None, 2.0, ("a",), "nobody" if store.id_kind == "str" else 10**6):
        assert item not in store
    assert (3 if store.id_kind == "str" else "3") not in store


def test_hits_as_tables_with_metadata(store):
    hits = store.search(DIGITS[:2], k=4)
    assert hits.metadata[0] == store.get(hits.ids[0]).metadata
    frame = hits.to_pandas()
    assert frame.columns.tolist() == ["query", "rank", "id", "distance", "similarity", "low", "high", "exact"]
    assert len(frame) == 8
    assert frame.id.tolist() == hits.ids.ravel().tolist()
    np.testing.assert_allclose(frame.similarity, hits.similarity.ravel())
    assert hits.to_arrow().num_rows == 8
    near = store.search(DIGITS[:2], radius=12)
    assert [len(row) for row in near.metadata] == [len(ids) for ids in near.ids]
    assert near.to_arrow().num_rows == sum(len(ids) for ids in near.ids)
    assert bilsh.Index(ENCODER.transform(DIGITS), ENCODER).search(DIGITS[:1]).metadata is None


def _ask(store):
    return store.version, store.search(DIGITS[:3], k=2).ids.tolist()


def test_readers_travel_between_processes(store):
    with get_context("spawn").Pool(1) as pool:
        assert pool.apply(_ask, (store,)) == _ask(store)


def test_writers_stay(tmp_path):
    with (
        bilsh.Store.create(tmp_path / "w", ENCODER) as store,
        pytest.raises(TypeError, match="open for writing"),
    ):
        pickle.dumps(store)
