"""The band of unrelated pairs, and which hits stand out from it."""

import numpy as np
import pytest

import bilsh
from bilsh.errors import InvalidInputError
from bilsh.search.background import Background


def unrelated(n, d=64, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def index_of(X, n_bits=1024, seed=0):
    encoder = bilsh.AngleEncoder(n_bits=n_bits, random_state=seed).fit(X)
    return bilsh.Index(encoder.transform(X), encoder, vectors=X)


@pytest.mark.parametrize("n_bits", [128, 1024, 8192])
def test_the_band_is_that_of_true_similarities_whatever_the_length(n_bits):
    """Without taking out the noise the band of 128 bits would be 1.6 times as wide (cosines spread by .125)."""
    X = unrelated(1500)
    centred = X - X.mean(axis=0)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    cosines = (unit @ unit.T)[np.triu_indices(len(X), 1)]
    low, high = np.quantile(cosines, [0.05, 0.95])
    band = index_of(X, n_bits).background()
    assert band.quantity == "cosine"
    assert band.low == pytest.approx(low, abs=0.03)
    assert band.high == pytest.approx(high, abs=0.03)
    assert abs(band.median) < 0.02
    assert str(band).startswith("90% of random pairs have cosine -0.2")


def test_kernel_codes_have_a_band_too():
    X = unrelated(800)
    encoder = bilsh.KernelEncoder(n_bits=4096, bandwidth=10.0, projection="dense", random_state=0).fit(X)
    band = bilsh.Index(encoder.transform(X), encoder).background()
    true = np.exp(-np.square(X[:400] - X[400:]).sum(axis=1) / 200)
    assert band.quantity == "kernel"
    assert band.low <= np.quantile(true, 0.15)
    assert np.quantile(true, 0.85) <= band.high
    assert 0 <= band.low < band.median < band.high < 1


def test_a_wider_share_is_a_wider_band_and_seeds_matter_little():
    index = index_of(unrelated(1000))
    narrow, wide = index.background(share=0.5), index.background(share=0.99)
    assert wide.low < narrow.low < narrow.high < wide.high
    other = index.background(seed=1)
    assert other != index.background() == index.background()
    assert other.high == pytest.approx(index.background().high, abs=0.02)


def test_related_items_stand_out_and_others_do_not():
    X = unrelated(1000)
    X[1:4] = X[0] + 0.2 * X[1:4]
    index = index_of(X)
    band = index.background(share=0.999)
    hits = index.search(ids=[0, 500], k=6)
    assert band.stands_out(hits).tolist() == [[True] * 3 + [False] * 3, [False] * 6]
    matches = index.search(ids=[0], radius=500)
    assert band.stands_out(matches)[0].sum() == 3


def test_short_codes_cannot_tell_the_nearest_from_random_pairs():
    """A twentieth of all items lies above the band; 64 bits do not say which."""
    X = unrelated(1000)
    marks = [index_of(X, n_bits).background().stands_out(index_of(X, n_bits).search(ids=[500], k=10)).sum()
             for n_bits in (64, 4096)]  # fmt: skip
    assert marks[0] == 0
    assert marks[1] == 10


def test_a_store_has_the_same_band_with_deleted_items_left_out(tmp_path):
    X = unrelated(400)
    X[200:] = X[0]  # these would make half of the pairs alike
    encoder = bilsh.AngleEncoder(n_bits=512, random_state=0).fit(X)
    with bilsh.Store.create(tmp_path / "s", encoder) as store:
        store.add(X[:300])
        store.add(X[300:])
        assert store.background().high > 0.9
        store.delete(range(200, 400))
        assert store.background().high < 0.5
        assert store.background(pairs=100).n_pairs == 100


def test_codes_without_a_meaning_have_a_band_of_bits():
    codes = np.random.default_rng(0).integers(0, 256, size=(500, 64), dtype=np.uint8)
    index = bilsh.Index(codes)
    band = index.background()
    assert band.quantity is band.low is band.high is None
    assert 0.45 < band.fractions[0] < 0.5 < band.fractions[1] < 0.55
    assert band.stands_out(index.search(ids=[0], k=3)) is None
    assert "bits" in str(band)


def test_identical_items_have_a_band_without_width():
    band = index_of(np.ones((10, 8), dtype=np.float32) + np.eye(10, 8, dtype=np.float32) * 0).background()
    assert band.low == band.high


def test_wrong_use_is_refused():
    index = index_of(unrelated(50))
    with pytest.raises(InvalidInputError, match="at least 2 items"):
        index_of(unrelated(1)).background()
    with pytest.raises(InvalidInputError, match="share"):
        index.background(share=1.5)
    with pytest.raises(InvalidInputError, match="pairs"):
        index.background(pairs=0)
    foreign = Background("kernel", 0.0, 0.1, 0.2, (0.4, 0.5), 0.9, 10, 64)
    with pytest.raises(InvalidInputError, match="tell cosine"):
        foreign.stands_out(index.search(ids=[0], k=3))
