"""Shapes whose product no memory holds, or no size_t: an error, not a crash. Arrays without columns cost nothing."""

import numpy as np
import pytest

import bilsh
from bilsh import _native

HUGE = 2**32
NO_BYTES = np.empty((HUGE, 0), np.uint8)


def test_distances_of_more_pairs_than_there_are_numbers():
    with pytest.raises(MemoryError, match=r"shape \(4294967296, 4294967296\)"):
        bilsh.hamming(NO_BYTES, NO_BYTES)
    with pytest.raises(MemoryError, match="shape"):
        _native.hamming_matrix(NO_BYTES, NO_BYTES)


def test_distances_of_more_pairs_than_memory_holds():
    codes = np.zeros((HUGE, 1), np.uint8)  # never touched, so never there
    with pytest.raises(MemoryError, match="fewer rows"):
        _native.hamming_matrix(codes, codes)


@pytest.mark.parametrize("queries", [2**44, 2**61])
def test_answers_to_more_queries_than_memory_holds(queries):
    asked = np.empty((queries, 0), np.uint8)
    stored = [np.empty((2**31, 0), np.uint8)]
    with pytest.raises(MemoryError, match="shape"):
        _native.hamming_top_k(asked, stored, 2**31)
    with pytest.raises(MemoryError, match="shape"):
        _native.progressive_top_k(asked, stored * 2, 2**31, np.zeros((1, 1), np.int32), 1)


def test_a_set_of_codes_has_fewer_than_2_32_rows():
    with pytest.raises(ValueError, match="fewer than 2\\^32 rows"):
        _native.hamming_top_k(np.empty((1, 0), np.uint8), [NO_BYTES], 1)


def test_values_without_columns_are_codes_without_bytes():
    assert _native.quantize(np.empty((2**60, 0), np.float32), None).shape == (2**60, 0)


def test_weights_wider_than_their_counter():
    scale = np.ones(2, np.float32)
    for d in (2**32, 2**62, 2**64 - 1):
        with pytest.raises(ValueError, match="d must be below 2\\^32"):
            _native.dense_weights(0, "gaussian", scale, d, 0, 2)


def test_matrices_too_wide_for_a_plan():
    wide = np.empty((0, HUGE), np.float32)
    offsets = np.zeros(1, np.float32)
    pairs = np.zeros((1, 2), np.int32)
    with pytest.raises(ValueError, match="must be below 2\\^31"):
        _native.BilinearPlan(wide, wide, pairs, offsets, None, 1, None, None, True)
    signs = np.empty((0, 3, HUGE), np.float32)
    with pytest.raises(ValueError, match=r"2\^31|outputs"):
        _native.HadamardPlan(signs, np.zeros(1, np.int32), 1, 1.0, offsets, None)


def test_more_threads_and_seeds_than_of_use():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (50, 4), dtype=np.uint8)
    expected = _native.hamming_top_k(codes, [codes], 3)
    for n_jobs in (-5, 0, 2**31 - 1):
        found = _native.hamming_top_k(codes, [codes], 3, n_jobs=n_jobs)
        np.testing.assert_array_equal(found[0], expected[0])
    slabs = [np.ascontiguousarray(codes[:, :2]), np.ascontiguousarray(codes[:, 2:])]
    limits = np.arange(33, dtype=np.int32)[None]
    found = _native.progressive_top_k(codes, slabs, 2**64 - 1, limits, 2**64 - 1)
    assert found[0].shape == (50, 50)
