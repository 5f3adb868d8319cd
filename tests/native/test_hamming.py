"""The compiled scans against NumPy, on every instruction set this machine has."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bilsh import _native

LEVELS = _native.levels()


@pytest.fixture(autouse=True)
def _best_level_afterwards():
    yield
    _native.force_level("auto")


def distances_of(a, b):
    return np.bitwise_count(a[:, None, :] ^ b[None, :, :]).sum(axis=2, dtype=np.int32)


def random_codes(rng, n, n_bytes, n_distinct=None):
    """Random codes; with few distinct ones, ties are everywhere."""
    codes = rng.integers(0, 256, (n_distinct or n, n_bytes), dtype=np.uint8)
    return codes if n_distinct is None else codes[rng.integers(0, n_distinct, n)]


def cut(codes, edges):
    return [np.ascontiguousarray(part) for part in np.split(codes, edges, axis=1)]


def order_of(distances, ids, alive):
    """Rows of living items by (distance, id)."""
    rows = np.lexsort((ids, distances))
    return rows[alive[rows]]


@st.composite
def searches(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_bytes = draw(st.one_of(st.integers(1, 70), st.integers(71, 300)))
    n = draw(st.one_of(st.integers(0, 20), st.integers(21, 1500)))
    n_queries = draw(st.integers(0, 11))
    n_distinct = draw(st.sampled_from([None, 1, 3]))
    codes = random_codes(rng, n, n_bytes, n_distinct)
    if n and draw(st.booleans()):
        queries = codes[rng.integers(0, n, n_queries)] ^ np.uint8(draw(st.integers(0, 255)))
    else:
        queries = random_codes(rng, n_queries, n_bytes)
    edges = sorted(draw(st.lists(st.integers(0, n_bytes), max_size=3)))
    ids = rng.permutation(n) * 7 - 3 if draw(st.booleans()) else None
    alive = rng.random(n) < draw(st.sampled_from([0.0, 0.1, 0.9])) if draw(st.booleans()) else None
    return codes, queries, edges, ids, alive, draw(st.sampled_from([1, 2, 3])), draw(st.sampled_from(LEVELS))


def prepared(search):
    codes, queries, edges, ids, alive, _, level = search
    _native.force_level(level)
    n = len(codes)
    all_ids = np.arange(n) if ids is None else ids
    living = np.ones(n, dtype=bool) if alive is None else alive
    bitmap = None if alive is None else np.packbits(alive, bitorder="little")
    return cut(codes, edges), distances_of(queries, codes), all_ids, living, bitmap


@given(searches())
@settings(max_examples=150, deadline=None)
def test_matrix_is_the_number_of_differing_bits(search):
    codes, queries, *_, n_jobs, level = search
    _native.force_level(level)
    np.testing.assert_array_equal(
        _native.hamming_matrix(queries, codes, n_jobs), distances_of(queries, codes)
    )


@given(searches(), st.one_of(st.integers(0, 30), st.just(5000)))
@settings(max_examples=300, deadline=None)
def test_top_k_is_the_head_of_the_sorted_list(search, k):
    slabs, distances, ids, alive, bitmap = prepared(search)
    _, queries, _, given_ids, _, n_jobs, _ = search
    found_ids, found_distances = _native.hamming_top_k(queries, slabs, k, given_ids, bitmap, n_jobs)
    assert found_ids.dtype == np.int64
    assert found_distances.dtype == np.int32
    assert found_ids.shape == found_distances.shape == (len(queries), min(k, alive.sum()))
    for row, to_all in enumerate(distances):
        expected = order_of(to_all, ids, alive)[:k]
        np.testing.assert_array_equal(found_ids[row], ids[expected])
        np.testing.assert_array_equal(found_distances[row], to_all[expected])


@given(searches(), st.integers(0, 30), st.integers(0, 1500))
@settings(max_examples=150, deadline=None)
def test_top_k_after_another_set_is_the_top_k_of_both(search, k, edge):
    slabs, distances, ids, alive, _ = prepared(search)
    _, queries, *_, n_jobs, _ = search
    before, edge = None, min(edge, len(ids))
    for part in (slice(0, edge), slice(edge, None)):
        bitmap = np.packbits(alive[part], bitorder="little")
        mine = [np.ascontiguousarray(slab[part]) for slab in slabs]
        before = _native.hamming_top_k(queries, mine, k, ids[part].astype(np.int64), bitmap, n_jobs, before)
    for row, to_all in enumerate(distances):
        expected = order_of(to_all, ids, alive)[:k]
        np.testing.assert_array_equal(before[0][row], ids[expected])
        np.testing.assert_array_equal(before[1][row], to_all[expected])


@given(searches(), st.integers(-1, 1300))
@settings(max_examples=150, deadline=None)
def test_within_finds_all_and_only_the_close_ones(search, radius):
    slabs, distances, ids, alive, bitmap = prepared(search)
    _, queries, _, given_ids, _, n_jobs, _ = search
    offsets, found_ids, found = _native.hamming_within(queries, slabs, radius, given_ids, bitmap, n_jobs)
    assert offsets.shape == (len(queries) + 1,)
    assert offsets[-1] == len(found_ids) == len(found)
    for row, to_all in enumerate(distances):
        expected = order_of(to_all, ids, alive)
        expected = expected[to_all[expected] <= radius]
        np.testing.assert_array_equal(found_ids[offsets[row] : offsets[row + 1]], ids[expected])
        np.testing.assert_array_equal(found[offsets[row] : offsets[row + 1]], to_all[expected])


MANY_QUERIES = [(1024, 128, 64, []), (1100, 131, 7, [3]), (1537, 300, 200, [64, 190]), (2051, 700, 33, [0]),
                (333, 61, 2100, [64, 900])]  # fmt: skip


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(("n", "n_queries", "n_bytes", "edges"), MANY_QUERIES)
def test_many_queries_at_once(n, n_queries, n_bytes, edges, n_jobs, level):
    """So many that products of matrices pay, where the machine has them."""
    _native.force_level(level)
    rng = np.random.default_rng(n)
    codes, queries = random_codes(rng, n, n_bytes), random_codes(rng, n_queries, n_bytes)
    ids, alive = rng.permutation(n) * 7 - 3, rng.random(n) < 0.8
    bitmap, slabs = np.packbits(alive, bitorder="little"), cut(codes, edges)
    bits, asked = (np.unpackbits(c, axis=1).astype(np.float32) for c in (codes, queries))
    distances = (asked.sum(1)[:, None] + bits.sum(1) - 2 * asked @ bits.T).astype(np.int32)
    np.testing.assert_array_equal(_native.hamming_matrix(queries, codes, n_jobs), distances)
    found_ids, found = _native.hamming_top_k(queries, slabs, 9, ids, bitmap, n_jobs)
    radius = int(np.quantile(distances, 0.01))
    offsets, within_ids, within = _native.hamming_within(queries, slabs, radius, ids, bitmap, n_jobs)
    for row, to_all in enumerate(distances):
        expected = order_of(to_all, ids, alive)
        np.testing.assert_array_equal(found_ids[row], ids[expected[:9]])
        np.testing.assert_array_equal(found[row], to_all[expected[:9]])
        close = expected[to_all[expected] <= radius]
        np.testing.assert_array_equal(within_ids[offsets[row] : offsets[row + 1]], ids[close])
        np.testing.assert_array_equal(within[offsets[row] : offsets[row + 1]], to_all[close])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    ("n", "n_queries", "n_bytes", "edges"),
    [(65_700, 26, 64, []), (8_300, 30, 513, [5]), (4_200, 500, 1_030, [600])],
)
def test_many_queries_over_many_codes(n, n_queries, n_bytes, edges, n_jobs, level):
    """So many of both that rows by bit pay on every level; distances row by row are the oracle."""
    _native.force_level(level)
    rng = np.random.default_rng(n)
    codes = random_codes(rng, n, n_bytes)
    queries = codes[rng.integers(0, n, n_queries)] ^ random_codes(rng, n_queries, n_bytes, 3) % 16
    queries[:3] = np.array([0, 255, 15])[:, None]
    ids, alive = rng.permutation(n) * 7 - 3, rng.random(n) < 0.8
    bitmap, slabs = np.packbits(alive, bitorder="little"), cut(codes, edges)
    found_ids, found = _native.hamming_top_k(queries, slabs, 9, ids, bitmap, n_jobs)
    some = queries[:5]  # too few for rows by bit
    radius = int(np.quantile(_native.hamming_matrix(some, codes), 0.1))
    offsets, within_ids, within = _native.hamming_within(queries, slabs, radius, ids, bitmap, n_jobs)
    _native.force_level(LEVELS[-1])
    for row, query in enumerate(queries):
        to_all = _native.hamming_matrix(query[None], codes)[0]
        expected = order_of(to_all, ids, alive)
        np.testing.assert_array_equal(found_ids[row], ids[expected[:9]])
        np.testing.assert_array_equal(found[row], to_all[expected[:9]])
        close = expected[to_all[expected] <= radius]
        np.testing.assert_array_equal(within_ids[offsets[row] : offsets[row + 1]], ids[close])
        np.testing.assert_array_equal(within[offsets[row] : offsets[row + 1]], to_all[close])


@pytest.mark.parametrize("level", LEVELS[-2:])
def test_many_long_queries_in_several_batches(level):
    _native.force_level(level)
    rng = np.random.default_rng(0)
    codes, queries = random_codes(rng, 1024, 30_001), random_codes(rng, 300, 30_001)
    some = np.arange(0, 1024, 60)
    distances = _native.hamming_matrix(queries, codes, 2)[:, some]
    for query, to_some in zip(queries, distances, strict=True):
        np.testing.assert_array_equal(np.bitwise_count(query ^ codes[some]).sum(axis=1), to_some)
    nearest = _native.hamming_top_k(queries, [codes], 1)[1]
    _native.force_level("portable")
    np.testing.assert_array_equal(
        nearest, _native.hamming_matrix(queries, codes, 2).min(axis=1, keepdims=True)
    )


@pytest.mark.parametrize("level", LEVELS)
def test_long_codes_do_not_overflow_any_counter(level):
    _native.force_level(level)
    ones, zeros = np.full((5, 40_003), 255, dtype=np.uint8), np.zeros((6, 40_003), dtype=np.uint8)
    assert (_native.hamming_matrix(ones, zeros) == 8 * 40_003).all()


def test_mismatched_arguments_are_refused():
    codes = np.zeros((4, 3), dtype=np.uint8)
    with pytest.raises(ValueError, match="a has 3 bytes per code, b has 2"):
        _native.hamming_matrix(codes, codes[:, :2].copy())
    with pytest.raises(ValueError, match="at least one"):
        _native.hamming_top_k(codes, [], 1)
    with pytest.raises(ValueError, match="as many rows as the first, 4; got 3"):
        _native.hamming_top_k(codes, [codes, codes[:3]], 1)
    with pytest.raises(ValueError, match="6 bytes per code; the queries have 3"):
        _native.hamming_top_k(codes, [codes, codes], 1)
    with pytest.raises(ValueError, match="ids must have one entry per row, 4; got 3"):
        _native.hamming_top_k(codes, [codes], 1, np.arange(3))
    with pytest.raises(ValueError, match="alive must have one bit per row, 1 bytes; got 2"):
        _native.hamming_top_k(codes, [codes], 1, None, np.zeros(2, dtype=np.uint8))
    with pytest.raises(TypeError):
        _native.hamming_matrix(codes.astype(np.int32), codes)
    far = np.zeros((4, 2), dtype=np.int32)
    with pytest.raises(ValueError, match=r"one row per query, 4; got shapes \(4, 2\) and \(3, 2\)"):
        _native.hamming_top_k(codes, [codes], 1, before=(far.astype(np.int64), far[:3]))
    for ids, distances in (([7, 8], [2, 1]), ([8, 7], [2, 2]), ([7, 7], [2, 2])):
        with pytest.raises(ValueError, match="sorted by distance, then id"):
            _native.hamming_top_k(codes, [codes], 1, before=(far + np.int64(ids), far + np.int32(distances)))


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("n_bytes", [32, 600])
def test_many_equal_distances_are_told_apart_by_ids_in_any_order(n_bytes, n_jobs):
    """More ties than are kept at once, and smaller ids that come later."""
    codes = np.zeros((5000, n_bytes), dtype=np.uint8)
    codes[::7, 0] = 1
    ids = np.arange(5000)[::-1].copy()
    found, distances = _native.hamming_top_k(codes[:1] & 0, [codes], 20, ids, None, n_jobs)
    expected = np.sort(ids[codes[:, 0] == 0])[:20]
    np.testing.assert_array_equal(found[0], expected)
    assert not distances.any()


@pytest.mark.parametrize("n_bytes", [2, 8, 160])
@pytest.mark.parametrize("order", ["rows", "ascending", "descending", "any"])
def test_many_queries_find_many_neighbours_whatever_the_order_of_ids(order, n_bytes):
    """Where ids ascend, of equal distances the first stays; each distance is shared by many here."""
    rng = np.random.default_rng(n_bytes)
    codes, queries = (rng.integers(0, 4, (n, n_bytes), dtype=np.uint8) for n in (3000, 40))
    orders = {
        "ascending": np.arange(3000) * 3,
        "descending": np.arange(3000)[::-1],
        "any": rng.permutation(3000),
    }
    ids = np.arange(3000) if order == "rows" else orders[order].copy()
    distances = distances_of(queries, codes)
    expected = np.lexsort((np.broadcast_to(ids, distances.shape), distances), axis=1)
    for n_jobs in (1, 2):
        for k in (1, 101, 700):
            found, far = _native.hamming_top_k(
                queries, [codes], k, None if order == "rows" else ids, None, n_jobs
            )
            np.testing.assert_array_equal(found, ids[expected[:, :k]])
            np.testing.assert_array_equal(far, np.take_along_axis(distances, expected[:, :k], axis=1))
