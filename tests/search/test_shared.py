"""One index, one store and one encoder that many threads use at once, each call with threads of its own.

Every answer is compared with the one that was found alone. `make sanitize-threads` runs this under ThreadSanitizer.
"""

import random
import threading

import numpy as np
import pytest

import bilsh
from bilsh import _native
from bilsh.datasets import clustered

TURNS = 25


@pytest.fixture(autouse=True)
def _all_threads_work():
    _native.set_least_share(0)
    yield
    _native.set_least_share(1e5)


def calls(tmp_path):
    """Things to ask of shared objects; a fresh one each, so that what they remember is made by all threads at once."""
    X, _ = clustered(1500, 32, n_clusters=20, spread=0.5, rng=0)
    angle = bilsh.AngleEncoder(n_bits=1024, projection="dense", random_state=0).fit(X)
    kernel = bilsh.KernelEncoder(n_bits=512, random_state=0).fit(X)
    codes = angle.transform(X)
    index = bilsh.Index(codes, angle)
    celled = bilsh.Index(codes, angle, cells=16)
    with bilsh.Store.create(tmp_path / "store", kernel, keep_vectors="float32") as writer:
        writer.add(X[:1000])
        writer.add(X[1000:])
        writer.delete(range(0, 1500, 7))
    store = bilsh.Store.open(tmp_path / "store")
    return [
        *(lambda mode=mode: index.search(X[:40], 5, mode=mode, n_jobs=2) for mode in ("auto", "hamming")),
        lambda: index.search(X[3:4], 5, n_jobs=2),
        lambda: index.search(X[:20], 5, mode="asymmetric", n_jobs=2),
        lambda: celled.search(X[:30], 5, recall=0.9, n_jobs=2),
        lambda: store.search(X[:30], 5, n_jobs=2),
        lambda: store.search(X[:10], 5, rerank=True, n_jobs=2),
        lambda: angle.coder_.encode(X, n_jobs=2),
        lambda: kernel.coder_.encode(X, n_jobs=2),
        lambda: bilsh.hamming(codes[:50], codes),
    ]


def told(answer):
    """All numbers of an answer."""
    if isinstance(answer, np.ndarray):
        return [answer]
    return [answer.ids, answer.distances, answer.similarity, answer.interval]


def test_threads_find_what_one_finds_alone(tmp_path):
    alone = [told(ask()) for ask in calls(tmp_path)]
    (tmp_path / "again").mkdir()
    asked, failures = calls(tmp_path / "again"), []

    def work(seed):
        rng = random.Random(seed)
        try:
            for _ in range(TURNS):
                which = rng.randrange(len(asked))
                for found, expected in zip(told(asked[which]()), alone[which], strict=True):
                    np.testing.assert_array_equal(found, expected)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
