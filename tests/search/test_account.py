"""What hits tell is worked out when asked for, and is about the search that found them, whatever happened since."""

import gc
import pickle
import weakref
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import bilsh
from support import clustered_codes as clustered

WAYS = [{}, {"mode": "hamming"}, {"recall": 0.9}, {"radius": 400}]


def made(n=2500, cells=40):
    rng = np.random.default_rng(0)
    X = 4 * rng.normal(size=(20, 6, 6))[rng.integers(0, 20, size=n)] + rng.normal(size=(n, 6, 6))
    encoder = bilsh.AngleEncoder(n_bits=1024, random_state=0).fit(X)
    return bilsh.Index(encoder.transform(X), encoder, cells=cells), encoder.transform(X[:7])


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_queries_and_hits_may_change_before_intervals_are_asked_for(way):
    index, codes = made()
    hits, again = index.search(codes=codes, k=4, **way), index.search(codes=codes.copy(), k=4, **way)
    codes[:] = ~codes
    for ids, distances in zip(hits.ids, hits.distances, strict=True):
        ids[:], distances[:] = 0, 0
    for one, other in zip(hits.interval, again.interval, strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(hits.similarity, again.similarity, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("way", [{}, {"recall": 0.9}, {"rerank": True}], ids=str)
def test_queries_of_learned_codes_may_change_before_distances_are_asked_for(way):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 24)).astype(np.float32)
    encoder = bilsh.EuclideanEncoder(random_state=0).fit(X)
    index = bilsh.Index(encoder.transform(X), encoder, vectors=X, cells=20)
    queries = X[:5].copy()
    hits, again = index.search(queries, k=4, **way), index.search(X[:5], k=4, **way)
    queries[:] = 9
    hits.ids[:], hits.distances[:] = 0, 0
    np.testing.assert_array_equal(hits.interval, again.interval)


def test_an_explanation_is_of_its_own_search():
    index, codes = made()
    hits = index.search(codes=codes, k=4, recall=0.9)
    index.calibrate(np.random.default_rng(1).normal(size=(600, 6, 6)))
    later = index.search(codes=codes[:2], k=4, recall=0.9).explain()
    told = hits.explain()
    assert (told.n_queries, told.n_items, later.n_queries) == (7, 2500, 2)
    assert told.promise.source == "items"
    assert told.work["cells: centres"][0] == 7 * 40
    assert [len(read) for _, read in told.visits] == [7]
    assert "of 40 cells read per query" in str(told)
    assert hits.explain() is told
    assert hits.evidence is hits.evidence


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_hits_do_not_keep_the_index_alive(way):
    index, codes = made()
    hits, known = index.search(codes=codes, k=4, **way), weakref.ref(index)
    del index
    gc.collect()
    assert known() is None
    assert len(hits.interval) == len(hits.similarity) == hits.explain().n_queries == 7


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_explanations_travel_between_processes(way):
    index, codes = made()
    hits = index.search(codes=codes, k=4, **way)
    back = pickle.loads(pickle.dumps(hits))
    assert str(back.explain()) == str(hits.explain())
    assert back.confidence == hits.confidence


def test_hits_are_not_changed_in_place():
    hits = bilsh.Index(clustered(100, 16, 0)).search(clustered(2, 16, 0), k=3)
    with pytest.raises(FrozenInstanceError):
        hits.confidence = 0.5
    assert hits.evidence is None
    assert hits.explain().n_items == 100
    assert bilsh.top_k(clustered(2, 16, 0), clustered(100, 16, 0), 3).explain() is None
