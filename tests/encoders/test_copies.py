"""Copies among items that are nearly equidistant, as VLAD of photographs is: a stand-in that always runs."""

import numpy as np
import pytest

import bilsh
from bilsh import _native, datasets
from bilsh.encoders import copies, fitting
from bilsh.encoders.fitting import Sample

KEPT = 0.45
"""Cosine of copies and originals."""
SHAPE = (24, 40)


def unit(X):
    """Rows of length 1."""
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def photographs():
    """Matrices of length 1, nearly equidistant, a few of which hold nothing in the leading directions; and copies."""
    rng = np.random.default_rng(0)
    spread = np.multiply.outer(np.arange(1, 25) ** -0.1, np.arange(1, 41) ** -0.1).ravel()
    made = rng.normal(size=(1_500, spread.size)) * spread
    blank = np.argsort(-spread)[:280]
    made[np.ix_(np.arange(0, 1_000, 200), blank)] *= 0.02
    X, noise = unit(made[:1_000]), unit(made[1_000:])
    originals = rng.permutation(len(X))[: len(noise)]
    Q = KEPT * X[originals] + np.sqrt(1 - KEPT**2) * noise
    return X.reshape(-1, *SHAPE), Q.astype(np.float32).reshape(-1, *SHAPE), originals


def found_first(encoder, X, Q, originals):
    """Share of copies whose original comes first."""
    hits = bilsh.Index(encoder.transform(X), encoder).search(Q, k=1, mode="asymmetric")
    return (np.asarray(hits.ids)[:, 0] == originals).mean()


@pytest.mark.parametrize("n_bytes", [16, 32, 64])
def test_copies_are_found_as_often_as_by_sign_codes(photographs, n_bytes):
    """Codes are those of AngleEncoder or find as many within .01: no draw decides."""
    X, Q, originals = photographs
    encoder = bilsh.EuclideanEncoder(n_bytes, random_state=0).fit(X)
    sign = bilsh.AngleEncoder(8 * n_bytes, random_state=0).fit(X)
    assert found_first(encoder, X, Q, originals) >= found_first(sign, X, Q, originals) - 0.01
    if encoder.transform_ == "sign":
        assert encoder.fingerprint == sign.fingerprint
        assert encoder.copies_found_["sign"] > encoder.copies_found_["learned"]


def test_one_item_of_small_scale_does_not_blur_all_others(photographs, monkeypatch):
    """The added number of such an item is large at scale 1; with steps as wide as that, copies were lost.

    Means of 500 draws of a share: a difference of .1 is beyond four standard errors.
    """
    X, Q, originals = photographs
    fine = bilsh.EuclideanEncoder(32, transform="klt", random_state=0).fit(X)
    assert fine.coder_.transform.absolute
    monkeypatch.setattr(fitting, "MUCH_FINER", 0.0)
    coarse = bilsh.EuclideanEncoder(32, transform="klt", random_state=0).fit(X)
    assert not coarse.coder_.transform.absolute
    assert found_first(fine, X, Q, originals) > found_first(coarse, X, Q, originals) + 0.1


def test_the_choice_is_told_kept_and_repeated(photographs, tmp_path):
    X = photographs[0]
    encoder = bilsh.EuclideanEncoder(16, random_state=0).fit(X)
    assert encoder.transform_ == "sign"
    assert encoder.n_centres_ == 1
    assert set(encoder.copies_found_) == {"learned", "sign"}
    assert bilsh.EuclideanEncoder(16, random_state=0).fit(X).fingerprint == encoder.fingerprint
    encoder.save(tmp_path / "e")
    again = bilsh.load_encoder(tmp_path / "e")
    assert isinstance(again, bilsh.AngleEncoder)
    assert (again.transform(X) == encoder.transform(X)).all()
    assert (encoder.truncated(8).transform(X) == encoder.transform(X)[:, :8]).all()
    with pytest.raises(bilsh.InvalidInputError, match="transform='klt'"):
        encoder.inverse_transform(encoder.transform(X))
    # Asked for by name, learned codes are what one gets.
    assert bilsh.EuclideanEncoder(16, transform="klt", random_state=0).fit(X).transform_ == "klt"
    assert bilsh.EuclideanEncoder(16, centres=1, random_state=0).fit(X).transform_ == "pca"
    assert bilsh.EuclideanEncoder(16, random_state=0).fit(X[:, :4, :4]).copies_found_ is None


def test_estimates_with_an_absolute_number_are_what_the_layout_says(photographs):
    X, Q, _ = photographs
    encoder = bilsh.EuclideanEncoder(32, transform="klt", random_state=0).fit(X)
    coder, t = encoder.coder_, encoder.coder_.transform
    flat, asked = X.reshape(len(X), -1), Q[:5].reshape(5, -1)
    codes = coder.encode(X)
    stands = coder.decode(codes).reshape(len(X), -1)
    added = t.add_least + t.add_step * codes[:, 2].astype(np.float64)
    moved = (asked - t.centres[0]).astype(np.float64)
    expected = np.square(moved).sum(axis=1)[:, None] - 2 * moved @ (stands - t.centres[0]).T + added
    rows = np.tile(np.arange(len(X)), (5, 1))
    assert np.abs(coder.compiled.rows(asked, [codes], rows) - expected).max() < 1e-4
    # That number is |x_hat - centre|^2 and a share of the squared error, within a step.
    error = np.square(flat - stands).sum(axis=1)
    told = np.square(stands - t.centres[0]).sum(axis=1) + t.share * error
    assert np.abs(np.clip(told, t.add_least, t.add_least + 255 * t.add_step) - added).max() < t.add_step


def test_levels_agree_on_estimates_with_an_absolute_number(photographs):
    X, Q, _ = photographs
    plan = bilsh.EuclideanEncoder(64, transform="klt", random_state=0).fit(X).coder_.compiled
    codes = plan.encode(np.concatenate([X, Q]).reshape(-1, 960))
    asked = np.ascontiguousarray(Q[:9].reshape(9, -1))
    rows = np.tile(np.arange(len(codes)), (9, 1))
    every = plan.rows(asked, [codes], rows)
    _native.set_least_share(0)
    for level in _native.levels():
        _native.force_level(level)
        np.testing.assert_array_equal(plan.encode(np.concatenate([X, Q]).reshape(-1, 960)), codes)
        np.testing.assert_array_equal(plan.rows(asked, [codes], rows), every)
        for jobs in (1, 2):
            ids, estimates = plan.top_k(asked, [codes], 10, None, None, jobs)
            np.testing.assert_array_equal(estimates, np.sort(every, axis=1)[:, :10])
            np.testing.assert_array_equal(np.take_along_axis(every, ids, axis=1), estimates)


def test_neighbours_that_tell_something_are_not_taken_for_equidistant():
    flat = datasets.digits().X.reshape(1_797, -1).astype(np.float32)
    assert not copies.are_all_far(Sample(flat[200:], flat[200:], flat[:200], None))
