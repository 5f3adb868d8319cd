"""Progressive search against the full scan: equal where pruning is exact, rarely missing where it is not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, hypergeom

from bilsh import _native

LEVELS = _native.levels()


@pytest.fixture(autouse=True)
def _best_level_afterwards():
    yield
    _native.force_level("auto")


def exact_limits(n_slabs, n_bits):
    return np.tile(np.arange(n_bits + 1, dtype=np.int32), (n_slabs - 1, 1))


def hypergeometric_limits(slabs, delta):
    """c_s(T) = min{c : P[Hypergeom(K, T, L_s) > c] <= delta / stages}."""
    lengths = 8 * np.cumsum([slab.shape[1] for slab in slabs])
    T = np.arange(lengths[-1] + 1)
    stages = len(slabs) - 1
    rows = [hypergeom.isf(delta / stages, lengths[-1], T, length) for length in lengths[:-1]]
    return np.asarray(rows).astype(np.int32)


def proportional_limits(slabs):
    """Keep what is no further than its share of T: quick to make, and wrong about half of the time."""
    lengths = 8 * np.cumsum([slab.shape[1] for slab in slabs])
    return (lengths[:-1, None] * np.arange(lengths[-1] + 1) // lengths[-1]).astype(np.int32)


def clustered(rng, n_clusters, per_cluster, n_bytes, flip):
    """Cluster centres with bits flipped independently: all bits are alike, so any order is a random one."""
    centres = rng.integers(0, 2, (n_clusters, 8 * n_bytes), dtype=np.uint8)
    bits = np.repeat(centres, per_cluster, axis=0)
    bits ^= rng.random(bits.shape, dtype=np.float32) < flip
    return np.packbits(bits, axis=1, bitorder="little")


def cut(codes, edges):
    return [np.ascontiguousarray(part) for part in np.split(codes, edges, axis=1)]


@st.composite
def searches(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_bytes = draw(st.integers(1, 150))
    if draw(st.booleans()):
        codes = clustered(rng, draw(st.integers(1, 40)), draw(st.integers(1, 120)), n_bytes, 0.1)
    else:
        distinct = rng.integers(0, 256, (draw(st.integers(1, 4)), n_bytes), dtype=np.uint8)
        codes = distinct[rng.integers(0, len(distinct), draw(st.integers(0, 3000)))]
    n = len(codes)
    n_queries = draw(st.integers(0, 9) | st.integers(128, 140))
    queries = rng.integers(0, 256, (n_queries, n_bytes), dtype=np.uint8)
    if n and draw(st.booleans()):
        queries = codes[rng.integers(0, n, n_queries)]
    slabs = cut(codes, sorted(draw(st.lists(st.integers(0, n_bytes), max_size=3))))
    ids = rng.permutation(n) * 3 - 5 if draw(st.booleans()) else None
    living = rng.random(n) < draw(st.sampled_from([0.0, 0.05, 0.9])) if draw(st.booleans()) else None
    alive = None if living is None else np.packbits(living, bitorder="little")
    return queries, slabs, ids, alive


@given(
    searches(), st.integers(0, 40), st.integers(0, 60), st.sampled_from([1, 2, 3]), st.sampled_from(LEVELS)
)
@settings(max_examples=250, deadline=None)
def test_exact_pruning_equals_the_full_scan(search, k, seeds, n_jobs, level):
    queries, slabs, ids, alive = search
    _native.force_level(level)
    limits = exact_limits(len(slabs), 8 * queries.shape[1])
    found = _native.progressive_top_k(queries, slabs, k, limits, seeds, ids, alive, n_jobs)
    expected = _native.hamming_top_k(queries, slabs, k, ids, alive)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


@given(searches(), st.integers(1, 20), st.sampled_from(LEVELS))
@settings(max_examples=60, deadline=None)
def test_answers_and_counters_do_not_depend_on_threads_or_level(search, k, level):
    queries, slabs, ids, alive = search
    limits = proportional_limits(slabs)
    first = _native.progressive_top_k(queries, slabs, k, limits, 2 * k, ids, alive, 1)
    _native.force_level(level)
    again = _native.progressive_top_k(queries, slabs, k, limits, 2 * k, ids, alive, 3)
    _native.force_level("auto")
    for one, other in zip(first[:2], again[:2], strict=True):
        np.testing.assert_array_equal(one, other)
    for name in ("survivors", "bytes"):
        np.testing.assert_array_equal(first[2][name], again[2][name])


MANY = [
    (lambda rng: clustered(rng, 60, 100, 40, 0.1), 10, hypergeometric_limits),
    (lambda rng: clustered(rng, 60, 100, 40, 0.3), 10, hypergeometric_limits),
    (lambda rng: rng.integers(0, 256, (5000, 32), dtype=np.uint8), 400, proportional_limits),
    (
        lambda rng: np.repeat(rng.integers(0, 256, (7, 24), dtype=np.uint8), 800, axis=0),
        20,
        proportional_limits,
    ),
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize(("make", "k", "rule"), MANY)
def test_a_query_is_answered_alone_as_in_a_batch(make, k, rule, n_jobs, level):
    """Batches are too large to keep the distances over the first slab (more than 2**20), single queries are not."""
    rng = np.random.default_rng(0)
    codes = make(rng)
    alive = np.packbits(rng.random(len(codes)) < 0.9, bitorder="little")
    queries = np.concatenate([codes[::50], rng.integers(0, 256, (140, codes.shape[1]), dtype=np.uint8)])
    assert len(queries) * len(codes) > 2**20
    slabs = cut(codes, [8, 20])
    limits = rule(slabs, 0.05) if rule is hypergeometric_limits else rule(slabs)
    _native.force_level(level)
    together = _native.progressive_top_k(queries, slabs, k, limits, 2 * k, None, alive, n_jobs)
    for number in range(0, len(queries), 7):
        alone = _native.progressive_top_k(
            queries[number : number + 1], slabs, k, limits, 2 * k, None, alive, n_jobs
        )
        np.testing.assert_array_equal(alone[0][0], together[0][number])
        np.testing.assert_array_equal(alone[1][0], together[1][number])


@pytest.mark.parametrize("seed", range(3))
def test_misses_stay_below_delta(seed):
    """Each of the nearest codes is lost with probability at most delta, whatever the data (hypergeometric rule).

    Losses of one query's neighbours share their bits, so one neighbour per query counts, with codes of its
    own: 500 independent trials. Fails by chance with probability below 1e-6 where the rule just holds, and is
    sure (1e-6) to notice misses of 4 delta.
    """
    rng = np.random.default_rng(seed)
    delta, trials, n_bytes = 0.05, 500, 64
    allowed = int(binom.isf(1e-6, trials, delta))
    assert binom.cdf(allowed, trials, 4 * delta) < 1e-6
    limits = None
    lost = 0
    for _ in range(trials):
        codes = rng.integers(0, 256, (300, n_bytes), dtype=np.uint8)
        query = rng.integers(0, 256, (1, n_bytes), dtype=np.uint8)
        slabs = cut(codes, [8, 24])
        if limits is None:
            limits = hypergeometric_limits(slabs, delta)
        wanted = _native.hamming_top_k(query, slabs, 5)[0][0, rng.integers(5)]
        found = _native.progressive_top_k(query, slabs, 5, limits, 10)[0]
        lost += wanted not in found
    assert lost <= allowed


def test_clusters_are_pruned_and_counted():
    codes = clustered(np.random.default_rng(0), 60, 50, 128, 0.1)
    slabs = cut(codes, [16, 48])
    queries = codes[::100].copy()
    found = _native.progressive_top_k(queries, slabs, 10, hypergeometric_limits(slabs, 0.01), 40)
    expected = _native.hamming_top_k(queries, slabs, 10)
    assert np.mean(found[0] == expected[0]) > 0.95
    counters = found[2]
    pairs = len(queries) * len(codes)
    assert counters["survivors"][0] == pairs
    assert counters["bytes"][0] == 16 * pairs
    assert counters["survivors"][1] < pairs / 20
    assert counters["survivors"][2] <= counters["survivors"][1]
    assert counters["bytes"][1:].sum() < 112 * pairs / 10
    assert (counters["seconds"] >= 0).all()


def test_a_table_of_the_wrong_shape_is_refused():
    codes = np.zeros((4, 3), dtype=np.uint8)
    with pytest.raises(ValueError, match=r"every slab but the last, 1.*got shape \(2, 5\)"):
        _native.progressive_top_k(codes, cut(codes, [1]), 1, np.zeros((2, 5), dtype=np.int32), 1)
