"""Packing, prefixes and the Python face of the scans."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import bilsh
from bilsh import codes as bc
from bilsh.errors import InvalidInputError, InvalidTypeError

bit_matrices = st.tuples(st.integers(0, 6), st.integers(1, 40)).flatmap(lambda shape: arrays(np.bool_, shape))
code_matrices = st.tuples(st.integers(0, 9), st.integers(1, 20)).flatmap(
    lambda shape: arrays(np.uint8, shape)
)


def random_codes(seed, *shape):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@given(bit_matrices)
@settings(deadline=None)
def test_unpack_undoes_pack(bits):
    packed = bc.pack(bits)
    assert packed.shape == (len(bits), -(-bits.shape[1] // 8))
    np.testing.assert_array_equal(bc.unpack(packed, bits.shape[1]), bits)
    np.testing.assert_array_equal(bc.pack(bits.astype(np.int64)), packed)
    assert not bc.unpack(packed)[:, bits.shape[1] :].any()


def test_bits_lie_in_little_order():
    bits = np.arange(20) % 3 == 0
    code = bc.pack(bits)
    for r, bit in enumerate(bits):
        assert (code[r // 8] >> (r % 8)) & 1 == bit


@given(bit_matrices, st.data())
@settings(deadline=None)
def test_a_prefix_is_the_code_of_the_first_bits(bits, data):
    n_bits = data.draw(st.integers(1, bits.shape[1]))
    packed = bc.pack(bits)
    np.testing.assert_array_equal(bc.prefix(packed, n_bits), bc.pack(bits[:, :n_bits]))
    assert not np.shares_memory(bc.prefix(packed, n_bits), packed)


@given(code_matrices)
@settings(deadline=None)
def test_distances_are_a_metric(codes):
    d = bc.hamming(codes, codes)
    assert d.dtype == np.int32
    assert (np.diag(d) == 0).all()
    np.testing.assert_array_equal(d, d.T)
    assert (d[:, :, None] <= d[:, None, :] + d.T[None, :, :]).all()
    np.testing.assert_array_equal(d == 0, (codes[:, None] == codes[None]).all(axis=2))


@given(code_matrices, st.integers(1, 12), st.sampled_from([None, 1, 2, -1]))
@settings(deadline=None)
def test_top_k_sorts_all_distances(codes, k, n_jobs):
    found = bilsh.top_k(codes[:3], codes, k, n_jobs=n_jobs)
    distances = bc.hamming(codes[:3], codes)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(found.ids, order)
    np.testing.assert_array_equal(found.distances, np.take_along_axis(distances, order, axis=1))
    assert found.similarity is None
    assert found.interval is None


@given(code_matrices, st.integers(0, 200))
@settings(deadline=None)
def test_within_lists_the_close_ones(codes, radius):
    found = bilsh.within(codes[:3], codes, radius)
    distances = bc.hamming(codes[:3], codes)
    assert len(found.ids) == len(found.distances) == len(distances)
    for ids, near, to_all in zip(found.ids, found.distances, distances, strict=True):
        order = np.argsort(to_all, kind="stable")
        order = order[to_all[order] <= radius]
        np.testing.assert_array_equal(ids, order)
        np.testing.assert_array_equal(near, to_all[order])


def test_any_integer_radius_is_fine():
    codes = random_codes(0, 5, 3)
    assert [len(ids) for ids in bilsh.within(codes, codes, 10**12).ids] == [5] * 5


def test_single_codes_lose_their_axis():
    a, b = random_codes(0, 3, 9), random_codes(1, 4, 9)
    full = bc.hamming(a, b)
    np.testing.assert_array_equal(bc.hamming(a[0], b), full[0])
    np.testing.assert_array_equal(bc.hamming(a, b[1]), full[:, 1])
    assert bc.hamming(a[2], b[3]).shape == ()
    assert bc.hamming(a[2], b[3]) == full[2, 3]


def test_strided_fortran_and_read_only_input_give_the_same():
    codes = random_codes(0, 40, 30)
    view = codes[::2, 3:20]
    plain = view.copy()
    plain.flags.writeable = False
    expected = bc.hamming(plain, plain)
    np.testing.assert_array_equal(bc.hamming(view, np.asfortranarray(view)), expected)
    np.testing.assert_array_equal(
        bilsh.top_k(view, view[::-1], 3).distances, bilsh.top_k(plain, plain, 3).distances
    )


def test_no_codes_no_neighbours():
    none, some = random_codes(0, 0, 4), random_codes(0, 3, 4)
    assert bc.hamming(none, some).shape == (0, 3)
    assert bilsh.top_k(some, none, 5).ids.shape == (3, 0)
    assert bilsh.top_k(none, some, 5).ids.shape == (0, 3)
    assert [len(ids) for ids in bilsh.within(some, none, 5).ids] == [0, 0, 0]
    assert bilsh.within(none, some, 5).ids == []


def test_neighbors_are_frozen():
    found = bilsh.top_k(random_codes(0, 1, 4), random_codes(1, 3, 4), 1)
    with pytest.raises(AttributeError):
        found.ids = None


CODES = random_codes(0, 3, 4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: bc.pack([0.5]), InvalidTypeError, r"dtype float64.*pack\(values >= 0\)"),
        (lambda: bc.pack([0, 2]), InvalidInputError, "0 or 1; got values from 0 to 2"),
        (lambda: bc.pack([]), InvalidInputError, r"at least one bit per code; got shape \(0,\)"),
        (lambda: bc.pack(True), InvalidInputError, "at least one axis"),
        (lambda: bc.unpack(CODES, 33), InvalidInputError, "at most 32, the bits of these codes; got 33"),
        (lambda: bc.unpack(CODES, 0), InvalidInputError, "n_bits must be >= 1; got 0"),
        (lambda: bc.prefix(CODES, 8.0), InvalidTypeError, "n_bits must be a whole number >= 1; got 8.0"),
        (
            lambda: bc.prefix(CODES.astype(int), 8),
            InvalidTypeError,
            "dtype uint8; got dtype int64. Pack",
        ),
        (lambda: bc.unpack(np.uint8(3)), InvalidInputError, "got a single number"),
        (lambda: bc.hamming(CODES, CODES[:, :3]), InvalidInputError, "equal length; got 4 and 3 bytes"),
        (lambda: bc.hamming(CODES[None], CODES), InvalidInputError, r"got shape \(1, 3, 4\)"),
        (lambda: bilsh.top_k(CODES, CODES, 0), InvalidInputError, "k must be >= 1; got 0"),
        (
            lambda: bilsh.top_k(CODES, CODES, True),
            InvalidTypeError,
            "k must be a whole number >= 1; got True",
        ),
        (lambda: bilsh.top_k(CODES[0], CODES, 1), InvalidInputError, r"pass queries\[None, :\]"),
        (lambda: bilsh.top_k(CODES, CODES[:, 1:], 1), InvalidInputError, "got 4 and 3 bytes"),
        (lambda: bilsh.top_k(CODES, CODES, 1, n_jobs=0), InvalidInputError, "n_jobs must not be 0"),
        (
            lambda: bilsh.top_k(CODES, CODES, 1, n_jobs=1.5),
            InvalidTypeError,
            "must be an integer or None",
        ),
        (lambda: bilsh.within(CODES, CODES, -1), InvalidInputError, "radius must be >= 0; got -1"),
        (
            lambda: bilsh.within(CODES, [["a"]], 1),
            InvalidTypeError,
            "codes must be packed codes of dtype uint8",
        ),
    ],
)
def test_bad_arguments_are_told_what_to_do(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_more_than_all_is_all():
    found = bilsh.top_k(CODES, CODES, 10**20)
    assert found.ids.shape == (3, 3)
    assert bilsh.top_k(CODES, CODES[:0], 10**20).ids.shape == (3, 0)
