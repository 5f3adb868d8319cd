"""Asymmetric scores: against float64 with their bound, and bit for bit on all levels, threads and slabs."""

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


def cut(codes, edges):
    return [np.ascontiguousarray(part) for part in np.split(codes, edges, axis=1)]


def error_bound(weights, bias, n_bytes):
    """What scores.h promises, to first order; twice that covers the higher orders."""
    return 2 * (133 + n_bytes / 64) * 2.0**-24 * (np.abs(bias) + np.abs(weights).sum(axis=1))[:, None]


@st.composite
def scorings(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_bits = draw(st.one_of(st.integers(1, 100), st.integers(101, 2400)))
    n = draw(st.one_of(st.integers(0, 40), st.integers(41, 300)))
    n_queries = draw(st.integers(0, 5))
    distinct = rng.random((draw(st.integers(1, 400)), n_bits)) < 0.5
    codes = np.packbits(distinct[rng.integers(0, len(distinct), n)], axis=1, bitorder="little")
    weights = rng.standard_normal((n_queries, n_bits), dtype=np.float32)
    bias = rng.standard_normal(n_queries, dtype=np.float32)
    edges = sorted(draw(st.lists(st.integers(0, codes.shape[1]), max_size=3)))
    return codes, weights, bias, edges, draw(st.integers(1, 3)), draw(st.sampled_from(LEVELS))


def one_by_one(codes, weights, bias):
    """The order of additions that scores.h fixes, in NumPy float32."""
    n_bits = 8 * codes.shape[1]
    padded = np.zeros((len(weights), n_bits), dtype=np.float32)
    padded[:, : weights.shape[1]] = weights
    bits = np.unpackbits(codes, axis=1, bitorder="little")[None].astype(np.float32)
    terms = (padded[:, None, :] * bits).reshape(len(weights), len(codes), n_bits // 4, 4)
    entries = (terms[..., 0] + terms[..., 1]) + (terms[..., 2] + terms[..., 3])
    total = np.zeros((len(weights), len(codes)), dtype=np.float32)
    for start in range(0, n_bits // 4, 128):
        partial = np.zeros_like(total)
        for entry in np.moveaxis(entries[..., start : start + 128], -1, 0):
            partial += entry
        total += partial
    return total + bias[:, None]


@given(scorings())
@settings(max_examples=150, deadline=None)
def test_scores_follow_the_stated_order_and_bound(scoring):
    codes, weights, bias, edges, n_jobs, level = scoring
    _native.force_level(level)
    found = _native.scores(weights, bias, cut(codes, edges), n_jobs)
    np.testing.assert_array_equal(found, one_by_one(codes, weights, bias))
    bits = np.unpackbits(codes, axis=1, bitorder="little", count=weights.shape[1]).astype(np.float64)
    exact = bias.astype(np.float64)[:, None] + weights.astype(np.float64) @ bits.T
    assert (np.abs(found - exact) <= error_bound(weights, bias, codes.shape[1])).all()


@given(scorings(), st.integers(0, 30), st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_top_k_is_the_head_of_the_sorted_scores(scoring, k, with_ids, with_deaths):
    codes, weights, bias, edges, n_jobs, level = scoring
    rng = np.random.default_rng(k)
    n = len(codes)
    ids = rng.permutation(n) * 2 - 9 if with_ids else None
    living = rng.random(n) < 0.5 if with_deaths else np.ones(n, dtype=bool)
    alive = np.packbits(living, bitorder="little") if with_deaths else None
    slabs = cut(codes, edges)
    every = _native.scores(weights, bias, slabs)
    _native.force_level(level)
    found_ids, found = _native.score_top_k(weights, bias, slabs, k, ids, alive, n_jobs)
    assert found.shape == found_ids.shape == (len(weights), min(k, living.sum()))
    names = np.arange(n) if ids is None else ids
    for row, values in enumerate(every):
        expected = np.lexsort((names, -values))
        expected = expected[living[expected]][:k]
        np.testing.assert_array_equal(found_ids[row], names[expected])
        np.testing.assert_array_equal(found[row], values[expected])


@given(scorings(), st.integers(0, 300))
@settings(max_examples=80, deadline=None)
def test_rows_asked_for_get_the_same_scores(scoring, per_query):
    codes, weights, bias, edges, n_jobs, level = scoring
    if len(codes) == 0:
        return
    slabs = cut(codes, edges)
    rows = np.random.default_rng(per_query).integers(0, len(codes), (len(weights), per_query))
    every = _native.scores(weights, bias, slabs)
    _native.force_level(level)
    found = _native.score_rows(weights, bias, slabs, rows, n_jobs)
    np.testing.assert_array_equal(found, np.take_along_axis(every, rows, axis=1))


def test_negative_scores_and_zeros_keep_their_order():
    codes = np.arange(4, dtype=np.uint8)[:, None]
    weights, bias = np.array([[-1.0, -2.0]], dtype=np.float32), np.zeros(1, dtype=np.float32)
    ids, found = _native.score_top_k(weights, bias, [codes], 4)
    assert ids.tolist() == [[0, 1, 2, 3]]
    assert found.tolist() == [[0.0, -1.0, -2.0, -3.0]]


@pytest.mark.parametrize("n_bits", [1, 8, 100, 4096])
def test_weights_of_turns_are_looked_up(n_bits):
    rng = np.random.default_rng(n_bits)
    turns = (rng.normal(size=(3, n_bits)) * 5).astype(np.float32)
    turns[0, 0] = np.float32(0.5) / 64  # between two bins: to the even one, as NumPy does
    tables = rng.normal(size=(5, 64, 2)).astype(np.float32)
    table = rng.integers(0, 5, n_bits).astype(np.uint8)
    weights, bias = _native.weights_of_turns(turns, tables, table)
    at = np.rint(turns * np.float32(64)).astype(np.int64) & 63
    np.testing.assert_array_equal(weights, tables[table, at, 0])
    # In double precision, so the order of the sum does not show in single.
    np.testing.assert_allclose(bias, tables[table, at, 1].sum(axis=1, dtype=np.float64), rtol=2**-23)


def test_tables_that_are_not_there_are_refused():
    turns, tables = np.zeros((1, 2), dtype=np.float32), np.zeros((2, 4, 2), dtype=np.float32)
    with pytest.raises(ValueError, match="table must name one of 2 tables; got 2"):
        _native.weights_of_turns(turns, tables, np.array([0, 2], dtype=np.uint8))
    with pytest.raises(ValueError, match="table must have one entry per bit, 2; got 1"):
        _native.weights_of_turns(turns, tables, np.zeros(1, dtype=np.uint8))
    with pytest.raises(ValueError, match="a power of two of pairs each; got 3 of 2"):
        _native.weights_of_turns(turns, tables[:, :3].copy(), np.zeros(2, dtype=np.uint8))


def test_mismatched_arguments_are_refused():
    codes = np.zeros((4, 2), dtype=np.uint8)
    weights, bias = np.zeros((3, 16), dtype=np.float32), np.zeros(3, dtype=np.float32)
    with pytest.raises(ValueError, match="bias must have one entry per query, 3; got 2"):
        _native.scores(weights, bias[:2], [codes])
    with pytest.raises(ValueError, match="2 bytes per code; the queries have 3"):
        _native.scores(np.zeros((3, 17), dtype=np.float32), bias, [codes])
    with pytest.raises(ValueError, match="one row per query, 3; got 1"):
        _native.score_rows(weights, bias, [codes], np.zeros((1, 2), dtype=np.int64))
    for row in (-1, 4):
        with pytest.raises(ValueError, match=f"rows must be from 0 to 4 - 1; got {row}"):
            _native.score_rows(weights, bias, [codes], np.full((3, 1), row))


def awkward(rng, kind, n_queries, n_bits):
    """Weights that make it hard to tell scores apart by small integers."""
    weights = rng.standard_normal((n_queries, n_bits), dtype=np.float32)
    if kind == "ties":
        return np.sign(weights)
    if kind == "one giant":
        weights[:, 0] = 1e6
    elif kind == "all but one zero":
        weights[:, 1:] = 0
    elif kind == "zero":
        weights[:] = 0
    elif kind == "tiny":
        weights *= np.float32(1e-39)
    elif kind == "huge":
        weights *= np.float32(1e34)
    return weights


KINDS = ["normal", "ties", "one giant", "all but one zero", "zero", "tiny", "huge"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("n", "n_bits", "edges"), [(2048, 64, []), (3001, 100, [3]), (2500, 8200, [100, 900]), (9000, 33, [])]
)
def test_many_rows_are_told_apart_as_if_all_were_scored(n, n_bits, edges, kind, level):
    """So many rows that they are first looked at by digits; the answer is that of the scores of all."""
    rng = np.random.default_rng(n)
    codes = np.packbits(rng.random((n, n_bits)) < 0.5, axis=1, bitorder="little")
    codes[n // 2 :: 3] = codes[n // 3]  # equal scores, told apart by id
    weights, bias = awkward(rng, kind, 3, n_bits), rng.standard_normal(3, dtype=np.float32)
    ids, living = rng.permutation(n) * 2 - 9, rng.random(n) < 0.9
    slabs, alive = cut(codes, edges), np.packbits(living, bitorder="little")
    _native.force_level(level)
    scores = _native.scores(weights, bias, slabs)
    for k, n_jobs in [(1, 1), (10, 2), (700, 3)]:
        found_ids, found = _native.score_top_k(weights, bias, slabs, k, ids, alive, n_jobs)
        for row, to_all in enumerate(scores):
            order = np.lexsort((ids, -to_all))
            order = order[living[order]][:k]
            np.testing.assert_array_equal(found_ids[row], ids[order])
            np.testing.assert_array_equal(found[row], to_all[order])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("n_bytes", "begin"), [(700, 0), (1024, 16), (1024, 3), (2048, 40), (5000, 16)])
def test_one_query_finds_the_largest_scores_of_long_rows(n_bytes, begin, level):
    """Long rows share tables, and rows a power of two apart are read from where a cache line begins."""
    rng = np.random.default_rng(n_bytes + begin)
    memory = np.zeros(2100 * n_bytes + 128, dtype=np.uint8)
    start = begin - memory.ctypes.data % 64 + 64
    codes = memory[start : start + 2100 * n_bytes].reshape(2100, n_bytes)
    codes[:] = rng.integers(0, 256, codes.shape)
    weights, bias = awkward(rng, "normal", 1, 8 * n_bytes), np.ones(1, dtype=np.float32)
    _native.force_level(level)
    ids, found = _native.score_top_k(weights, bias, [codes], 20)
    scores = _native.scores(weights, bias, [codes])[0]
    order = np.argsort(-scores, kind="stable")[:20]
    np.testing.assert_array_equal(ids[0], order)
    np.testing.assert_array_equal(found[0], scores[order])


def test_weights_that_are_no_numbers_are_left_to_the_scores():
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 256, (4000, 8), dtype=np.uint8)
    weights = rng.standard_normal((1, 64), dtype=np.float32)
    weights[0, 5] = np.inf
    scores = _native.scores(weights, np.zeros(1, np.float32), [codes])
    _, found = _native.score_top_k(weights, np.zeros(1, np.float32), [codes], 5)
    np.testing.assert_array_equal(found[0], -np.sort(-scores[0])[:5])
