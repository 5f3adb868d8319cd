"""Stores of codes that were made elsewhere: no encoder, any order of bits, a model's values as queries."""

import numpy as np
import pytest

import bilsh


def embeddings(n, d, seed=0):
    """Unit vectors in clusters, as a model gives them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, d))[rng.integers(40, size=n)] + 0.7 * rng.normal(size=(n, d))
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)


X = embeddings(3000, 1024)
CODES = np.packbits(X >= 0, axis=1, bitorder="little")
NAMES = [f"doc {i}" for i in range(len(X))]


def test_packed_bits_are_kept_found_and_given_back(tmp_path):
    with bilsh.Store.create(tmp_path / "s", n_bits=1024) as store:
        store.add_codes(CODES, ids=NAMES, metadata=[{"row": i} for i in range(len(X))])
    with bilsh.Store.open(tmp_path / "s") as store:
        np.testing.assert_array_equal(store.get(NAMES[5:8]).codes, CODES[5:8])
        np.testing.assert_array_equal(np.vstack([items.codes for items in store.batches(700)]), CODES)
        exact = bilsh.top_k(CODES[:20], CODES, 5)
        for mode in ("auto", "hamming", "progressive"):
            found = store.search(codes=CODES[:20], k=5, mode=mode, delta=0.0)
            assert [[NAMES.index(name) for name in row] for row in found.ids.tolist()] == exact.ids.tolist()
            np.testing.assert_array_equal(found.distances, exact.distances)
            assert found.similarity is None
        with pytest.raises(TypeError, match="made elsewhere"):
            _ = store.encoder
        with pytest.raises(TypeError, match="nothing to encode descriptors with"):
            store.search(X[:2])
        assert store.verify(deep=True).files


def test_values_of_a_model_rank_better_than_their_bits(tmp_path):
    queries = embeddings(3060, 1024)[3000:]
    truth = np.argsort(-(queries @ X.T), axis=1)[:, :10]

    def recall(found):
        return np.mean(
            [len(set(a) & set(b)) / 10 for a, b in zip(found.ids.tolist(), truth.tolist(), strict=True)]
        )

    with bilsh.Store.create(tmp_path / "s", n_bits=1024) as store:
        store.add_codes(CODES)
        bits = recall(store.search(codes=np.packbits(queries >= 0, axis=1, bitorder="little")))
        real = recall(store.search(query_values=queries))
        assert real > bits + 0.02
        assert recall(store.search(query_values=queries, mode="asymmetric")) > bits + 0.02
        with pytest.raises(ValueError, match=r"numbers \(q, 1024\)"):
            store.search(query_values=queries[:, :7])


def test_bits_that_are_signs_of_a_rotation_tell_angles(tmp_path):
    with bilsh.Store.create(tmp_path / "s", n_bits=1024, bits="sign of a rotation") as store:
        store.add(X[:2000])
        store.add_codes(CODES[2000:])
        np.testing.assert_array_equal(np.vstack([items.codes for items in store.batches()]), CODES)
        queries = embeddings(3050, 1024)[3000:]
        hits = store.search(queries, k=5)
        assert hits.quantity == "cosine"
        cosine = np.take_along_axis(queries @ X.T, hits.ids, axis=1)
        low, high = np.moveaxis(hits.interval, -1, 0)
        assert np.mean((low <= cosine) & (cosine <= high)) > 0.85
        assert "model alone" in hits.explain().notes[0]


@pytest.mark.parametrize("n_bits", [8, 13, 512, 513, 600])
def test_lengths_of_all_kinds(tmp_path, n_bits):
    bits = np.random.default_rng(0).random((50, n_bits)) < 0.5
    codes = bilsh.pack(bits)
    with bilsh.Store.create(tmp_path / "s", n_bits=n_bits) as store:
        store.add_codes(codes)
        np.testing.assert_array_equal(store.get(np.arange(50)).codes, codes)
        assert store.search(codes=codes[:9], k=1).ids[:, 0].tolist() == list(range(9))
        assert store.verify(deep=True).version == store.version


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p, e: bilsh.Store.create(p), "fitted encoder, or n_bits="),
        (lambda p, e: bilsh.Store.create(p, n_bits=0), "n_bits must be >= 1"),
        (lambda p, e: bilsh.Store.create(p, n_bits=64, bits="hash"), "bits must be None, 'sign'"),
        (lambda p, e: bilsh.Store.create(p, e, n_bits=64), "without an encoder"),
        (lambda p, e: bilsh.Index(CODES, e), "bytes; got 128"),
        (lambda p, e: bilsh.Index(CODES[:, :8], e, bits="sign"), "without an encoder"),
    ],
)
def test_wrong_ways_to_make_one(tmp_path, call, message):
    encoder = bilsh.AngleEncoder(64, random_state=0).fit(X[:50, :16])
    with pytest.raises(bilsh.BilshError, match=message):
        call(tmp_path / "s", encoder)


def test_codes_for_an_encoder_need_a_word_about_their_origin(tmp_path):
    encoder = bilsh.AngleEncoder(64, random_state=0).fit(X[:50, :16])
    codes = encoder.transform(X[:50, :16])
    with bilsh.Store.create(tmp_path / "s", encoder) as store:
        with pytest.raises(bilsh.IncompatibleCodesError, match="say who made these"):
            store.add_codes(codes)
        assert len(store) == 0
        store.add_codes(codes, fingerprint=encoder.fingerprint)
        store.add_codes(codes, ids=range(50, 100), fingerprint="unchecked")
        assert len(store) == 100


@pytest.mark.parametrize("n_bits", [256, 1024])
def test_codes_packed_highest_bit_first_are_asked_and_given_back_so(tmp_path, n_bits):
    values = X[:500, :n_bits]
    packed = np.packbits(values >= 0, axis=1)  # NumPy's default, and that of most models
    with bilsh.Store.create(tmp_path / "s", n_bits=n_bits, bits="sign", bitorder="big") as store:
        store.add_codes(packed[:300])
        store.add(values[300:])
    with bilsh.Store.open(tmp_path / "s") as store:
        np.testing.assert_array_equal(np.vstack([items.codes for items in store.batches()]), packed)
        for found in (store.search(codes=packed[::50], k=1), store.search(packed[::50], k=1)):
            assert found.ids[:, 0].tolist() == list(range(0, 500, 50))
            assert not found.distances.any()
        for found in (store.search(values[::50], k=1), store.search(query_values=values[::50], k=1)):
            assert found.ids[:, 0].tolist() == list(range(0, 500, 50))
            assert not found.distances.any()
    index = bilsh.Index(packed, bits="sign", bitorder="big")
    assert not index.search(values[:5], k=1).distances.any()
    assert not index.search(packed[:5], k=1).distances.any()


def test_an_order_of_bits_is_for_whole_bytes_without_an_encoder(tmp_path):
    with pytest.raises(ValueError, match="multiple of 8; got 12"):
        bilsh.Store.create(tmp_path / "s", n_bits=12, bitorder="big")
    with pytest.raises(ValueError, match="bitorder must be one of 'little', 'big'; got 'middle'"):
        bilsh.Index(CODES, bitorder="middle")
    encoder = bilsh.AngleEncoder(64, random_state=0).fit(X[:100])
    with pytest.raises(ValueError, match="the encoder knows"):
        bilsh.Store.create(tmp_path / "s", encoder, bitorder="big")
