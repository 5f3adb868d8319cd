"""Learned codes: their layout by a plain translation, their bound, prefixes, files, and scikit-learn's contract."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import bilsh
from bilsh.encoders import fitting, hit_angles
from bilsh.encoders.learning import DISTORTIONS, ITSELF, STEPS, allocate, counts_of
from bilsh.evaluation import exact_neighbors, recall_of_ids
from bilsh.theory.error_angles import WIDENING

TRANSFORMS = ("klt", "pca")


@pytest.fixture(scope="module")
def digits():
    return load_digits().images.astype(np.float32)


@pytest.fixture(scope="module", params=[("klt", 1), ("klt", 4), ("pca", 1), ("pca", 4)], ids=str)
def fitted(request, digits):
    transform, centres = request.param
    return bilsh.EuclideanEncoder(20, transform=transform, centres=centres, random_state=0).fit(digits)


def written_out(encoder, x):
    """A code, and what it stands for, step by step as native/transform.h says, in float64."""
    t = encoder.coder_.transform
    x = x.ravel().astype(np.float64)
    centre = int(np.argmin([np.square(x - c).sum() for c in t.centres.astype(np.float64)]))
    span = t.spans()[centre]
    if t.pairs is None:
        directions = t.basis[span].astype(np.float64)
    else:
        left, right = t.left[centre].astype(np.float64), t.right[centre].astype(np.float64)
        directions = np.stack([np.outer(left[i], right[j]).ravel() for i, j in t.pairs[span]])
    v = directions @ (x - t.centres[centre])
    length = np.sqrt(np.square(x - t.centres[centre]).sum())
    half = 2.0 ** (t.depths[span] - 1)
    scales = t.scales.astype(np.float64)
    tried = [
        length,
        *(scales[np.argmin(np.abs(scales - length / f))] for f in t.stretches.astype(np.float64)),
    ]
    best = None
    for divisor in tried:
        u = np.clip(np.floor(v / divisor / t.steps[span]) + half, 0, 2 * half - 1).astype(int)
        r = t.steps[span] * (u + 0.5 - half)
        wanted = v @ r / (r @ r)
        level = int(np.argmin(np.abs(scales - wanted)))
        scale = scales[level]
        stands = t.centres[centre] + scale * directions.T @ r
        error = np.sqrt(np.square(x - stands).sum())
        add = (r @ r + t.share * (error / scale) ** 2 - t.add_least) / t.add_step
        missed = scale**2 * t.add_step * (np.clip(np.rint(add), 0, 255) - add)
        loss = error**2 + 20 * (scale - wanted) ** 2 * (r @ r) + 75 * (missed / length) ** 2
        if best is None or loss < best[0]:
            best = loss, u, stands, error, add, level
    _, u, stands, error, add, level = best
    left_bits, bits = t.depths[span].copy(), []
    for i in t.coordinates[centre]:
        if i < 0:
            bits.append(0)
            continue
        left_bits[i] -= 1
        bits.append(u[i] >> left_bits[i] & 1)
    return centre, bits, stands, error, add, level


def test_codes_are_what_the_layout_says(fitted, digits):
    items = digits[:150]
    codes = fitted.transform(items)
    decoded = fitted.inverse_transform(codes).reshape(len(items), -1)
    bounds = fitted.coder_.errors(codes)
    differing = 0
    for x, code, stands, bound in zip(items, codes, decoded, bounds, strict=True):
        centre, bits, expected, error, add, level = written_out(fitted, x)
        assert code[0] == centre
        # A value on the border of a cell may fall to either side: float32 here, float64 there.
        differing += int((np.unpackbits(code[4:], bitorder="little") != bits).sum())
        assert (
            np.abs(stands - expected).max() < 1e-3
            or (np.unpackbits(code[4:], bitorder="little") != bits).any()
        )
        assert error <= bound <= 1.1 * error + 1e-3
        assert abs(int(code[1]) - level) <= 1
        assert abs(int(code[2]) - add) < 2 or (np.unpackbits(code[4:], bitorder="little") != bits).any()
    assert differing <= 3


def test_the_error_is_a_hard_bound_on_distances(fitted, digits):
    codes = fitted.transform(digits)
    stands = fitted.inverse_transform(codes).reshape(len(digits), -1)
    flat, bounds = digits.reshape(len(digits), -1).astype(np.float64), fitted.coder_.errors(codes)
    rng = np.random.default_rng(0)
    queries = np.concatenate([flat[::9], rng.normal(size=(20, 64)), 100 * rng.normal(size=(20, 64))])
    for query in queries:
        true = np.sqrt(np.square(flat - query).sum(axis=1))
        told = np.sqrt(np.square(stands - query).sum(axis=1))
        assert (np.abs(true - told) <= bounds).all()


def test_the_hard_bound_holds_in_ten_million_pairs(fitted, digits):
    """Two and a half million of each of four encoders: near, far and shifted queries."""
    codes = fitted.transform(digits)
    stands = fitted.inverse_transform(codes).reshape(len(digits), -1)
    flat, bounds = digits.reshape(len(digits), -1).astype(np.float64), fitted.coder_.errors(codes)
    rng = np.random.default_rng(1)
    near = flat[rng.integers(len(flat), size=700)] + rng.normal(size=(700, 64)) * rng.choice(
        [0.0, 0.1, 3.0], (700, 1)
    )
    towards = rng.integers(len(flat), size=700)
    # Beyond an item, on the line from what its code stands for: there the bound is met.
    beyond = flat[towards] + (flat[towards] - stands[towards]) * rng.uniform(0, 50, size=(700, 1))
    queries = np.concatenate([near, beyond])
    pairs = 0
    for query in queries:
        true = np.sqrt(np.square(flat - query).sum(axis=1))
        told = np.sqrt(np.square(stands - query).sum(axis=1))
        assert (np.abs(true - told) <= bounds).all()
        pairs += len(true)
    assert pairs > 2_500_000


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_what_most_items_have_is_taken_off_before_anything_else(transform, digits, tmp_path):
    """Centred images: what was 0 at their edges is another number in each column, and 0 again from the origin."""
    X = digits - digits.mean(axis=0)
    encoder = bilsh.EuclideanEncoder(20, transform=transform, centres=4, random_state=0).fit(X)
    origin = encoder.coder_.transform.origin
    mostly = (digits == 0).mean(axis=0).ravel() > 0.55  # what more than half of a sample have too
    np.testing.assert_array_equal(origin[mostly], X.min(axis=0).ravel()[mostly])
    codes = encoder.transform(X)
    np.testing.assert_array_equal(np.concatenate([encoder.transform(x[None]) for x in X[:50]]), codes[:50])
    flat, bounds = X.reshape(len(X), -1).astype(np.float64), encoder.coder_.errors(codes)
    stands = encoder.inverse_transform(codes).reshape(len(X), -1)
    assert (np.sqrt(np.square(flat - stands).sum(axis=1)) <= bounds).all()
    found = bilsh.Index(codes, encoder).search(X[:200], k=1).ids[:, 0]
    assert (found == np.arange(200)).mean() > 0.9
    path = tmp_path / "centred.encoder"
    encoder.save(path)
    assert path.read_bytes()[8:12] == (2).to_bytes(
        4, "little"
    )  # older versions must not leave the origin out
    np.testing.assert_array_equal(bilsh.load_encoder(path).transform(X[:9]), codes[:9])
    assert encoder.truncated(10).coder_.transform.origin is origin


def test_items_with_nothing_in_common_have_no_origin(digits, tmp_path):
    """Zeros of images as they come are zeros already."""
    few = digits[:15] - digits[:15].mean(axis=0)  # too few to tell
    for X in (digits, few, np.random.default_rng(0).normal(size=(200, 30))):
        encoder = bilsh.EuclideanEncoder(20, random_state=0).fit(X)
        assert encoder.coder_.transform.origin is None
        encoder.save(tmp_path / "plain.encoder")
        assert (tmp_path / "plain.encoder").read_bytes()[8:12] == (1).to_bytes(4, "little")


def test_items_far_from_all_that_was_seen_have_no_bound(digits):
    encoder = bilsh.EuclideanEncoder(16, random_state=0).fit(digits)
    codes = encoder.transform(1e4 * digits[:3])
    assert np.isinf(encoder.coder_.errors(codes)).all()
    hits = bilsh.Index(codes, encoder).search(digits[:2], k=2)
    told = hits.estimate(of="distance")
    assert (told.interval[..., 0] == 0).all()
    assert np.isinf(told.interval[..., 1]).all()


def test_prefixes_of_codes_are_codes(fitted, digits):
    short = fitted.truncated(9)
    codes = fitted.transform(digits[:50])
    np.testing.assert_array_equal(short.transform(digits[:50]), codes[:, :9])
    np.testing.assert_array_equal(bilsh.prefix(codes, 72), codes[:, :9])
    assert short.n_bytes == 9
    assert short.fingerprint != fitted.fingerprint
    # Their bound counts what the missing bits could have told.
    stands = short.inverse_transform(codes[:, :9])
    error = np.sqrt(np.square(digits[:50] - stands).sum(axis=(1, 2)))
    assert (error <= short.coder_.errors(codes[:, :9])).all()


def test_longer_codes_err_less(digits):
    encoder = bilsh.EuclideanEncoder(40, random_state=0).fit(digits)
    sizes = (5, 8, 16, 40)
    left = []
    for size in sizes:
        short = encoder.truncated(size)
        left.append(np.square(digits - short.inverse_transform(short.transform(digits))).sum())
    assert left == sorted(left, reverse=True)
    assert left[-1] < 0.05 * left[0]


def test_files_bring_back_the_same_encoder(fitted, digits, tmp_path):
    fitted.save(tmp_path / "x.encoder")
    back = bilsh.load_encoder(tmp_path / "x.encoder")
    assert back.get_params() == fitted.get_params()
    assert back.fingerprint == fitted.fingerprint
    assert back.to_bytes() == fitted.to_bytes()
    assert back.coder_.angles.widening == fitted.coder_.angles.widening
    assert (fitted.n_centres_ == 1) == (back.coder_.angles.widening == WIDENING)
    np.testing.assert_array_equal(back.transform(digits[:99]), fitted.transform(digits[:99]))
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(digits[:9]), fitted.transform(digits[:9]))
    short = bilsh.encoder_from_bytes(fitted.truncated(8).to_bytes())
    np.testing.assert_array_equal(short.transform(digits[:9]), fitted.transform(digits[:9])[:, :8])


def test_shape_dtype_batch_and_threads_do_not_matter(fitted, digits):
    codes = fitted.transform(digits)
    np.testing.assert_array_equal(fitted.transform(digits.reshape(len(digits), -1)), codes)
    np.testing.assert_array_equal(fitted.transform(digits.astype(np.float64)), codes)
    np.testing.assert_array_equal(clone(fitted).set_params(n_jobs=2).fit(digits).transform(digits), codes)
    np.testing.assert_array_equal(np.vstack([fitted.transform(x[None]) for x in digits[:70]]), codes[:70])
    assert fitted.transform(digits[:0]).shape == (0, 20)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_scikit_learn_agrees(transform):
    check_estimator(bilsh.EuclideanEncoder(12, transform=transform, random_state=0), on_skip=None)


def test_settings_and_method_share_a_name(digits):
    encoder = bilsh.EuclideanEncoder(12, transform="pca", random_state=0)
    assert encoder.get_params()["transform"] == "pca"
    assert "transform='pca'" in repr(encoder)
    encoder.set_params(transform="klt")
    assert encoder.fit(digits).transform_ == "klt"
    assert encoder.transform(digits).shape == (1797, 12)
    pipeline = make_pipeline(StandardScaler(), bilsh.EuclideanEncoder(12, random_state=0))
    assert pipeline.fit_transform(digits.reshape(1797, -1)).dtype == np.uint8


def test_auto_takes_rotations_for_vectors_and_both_sides_for_what_is_separable():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(800, 40)) @ rng.normal(size=(40, 40))
    assert bilsh.EuclideanEncoder(16, random_state=0).fit(vectors).transform_ == "pca"
    left, right = np.diag(np.linspace(3, 0.1, 8)), np.diag(np.linspace(2, 0.2, 9))
    separable = left @ rng.normal(size=(800, 8, 9)) @ right
    assert bilsh.EuclideanEncoder(16, random_state=0).fit(separable).transform_ == "klt"


def test_centres_are_as_many_as_pay():
    rng = np.random.default_rng(0)
    clusters = 20 * rng.normal(size=(16, 32))[rng.integers(16, size=4000)] + rng.normal(size=(4000, 32))
    assert bilsh.EuclideanEncoder(10, random_state=0).fit(clusters).n_centres_ > 1
    assert bilsh.EuclideanEncoder(10, random_state=0).fit(clusters[:300]).n_centres_ == 1


def test_centres_may_take_as_much_memory_as_they_do_not_as_much_as_their_bits_could(monkeypatch):
    rng = np.random.default_rng(0)
    spread = np.linspace(1, 0.01, 32)
    clusters = 20 * rng.normal(size=(16, 32))[rng.integers(16, size=4000)] + spread * rng.normal(
        size=(4000, 32)
    )
    encoder = bilsh.EuclideanEncoder(12, random_state=0).fit(clusters)
    transform = encoder.coder_.transform
    taken = transform.centres.nbytes + transform.basis.nbytes
    # As many directions as there are numbers would take more: 64 bits could tell of them all.
    assert encoder.n_centres_ == 16
    assert taken < 16 * 32 * 32 * 4
    monkeypatch.setattr(fitting, "PARAMETER_BYTES", 16 * 32 * 32 * 4)
    assert encoder.fit(clusters).n_centres_ == 16
    monkeypatch.setattr(fitting, "PARAMETER_BYTES", taken // 2)
    assert encoder.fit(clusters).n_centres_ == 1


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"n_bytes": 4}, "n_bytes"),
        ({"n_bytes": 2**20}, "at most"),
        ({"transform": "dct"}, "transform must be one of"),
        ({"centres": "many"}, "centres must be one of"),
        ({"centres": 300}, "at most 256"),
    ],
)
def test_settings_are_checked(settings, wrong, digits):
    with pytest.raises(bilsh.InvalidInputError, match=wrong):
        bilsh.EuclideanEncoder(**settings).fit(digits)


def test_sparse_input_and_phases_are_refused(digits):
    flat = digits.reshape(1797, -1)
    with pytest.raises(bilsh.InvalidTypeError, match="dense input only"):
        bilsh.EuclideanEncoder(12).fit(sp.csr_array(flat))
    encoder = bilsh.EuclideanEncoder(12, random_state=0).fit(flat)
    with pytest.raises(bilsh.InvalidTypeError, match="not compared by Hamming"):
        bilsh.estimate(encoder.transform(flat[:1]), encoder.transform(flat[1:2]), encoder=encoder)
    with pytest.raises(bilsh.InvalidInputError, match="whole bytes"):
        encoder.truncated(13)


@pytest.mark.parametrize(
    "X",
    [np.ones((3, 5)), np.zeros((200, 4)), np.eye(6), np.arange(10.0)[:, None], np.ones((1, 3, 3))],
    ids=["alike", "zeros", "few", "one number", "one row"],
)
def test_poor_data_give_codes(X):
    encoder = bilsh.EuclideanEncoder(8, random_state=0).fit(X)
    codes = encoder.transform(X)
    found = bilsh.Index(codes, encoder).search(X[:1], k=1)
    assert found.distances[0, 0] == pytest.approx(0, abs=0.1 * max(1, np.abs(X).max()))


def test_bits_go_where_they_take_the_most_distortion_away():
    made = allocate(np.array([4.0, 1.0, 0.1]), 5)
    assert made.used.tolist() == [0, 1]
    assert made.depths.tolist() == [4, 1]
    assert made.order.tolist() == [0, 0, 0, 1, 0]
    variances = np.array([16.0, 1.0])
    assert made.distortion == pytest.approx((variances * DISTORTIONS[[4, 1]]).sum() + 0.01)


def test_what_errors_count_for_grows_with_how_much_neighbours_differ():
    counts = np.square(counts_of(np.array([2.0, 1.0, 0.0])))
    assert counts == pytest.approx(np.array([4.0, 1.0, 0.0]) / (5 / 3) + ITSELF)
    assert counts_of(np.zeros(3)).tolist() == [1.0, 1.0, 1.0]  # all rows have copies


def test_bits_go_where_neighbours_differ(monkeypatch):
    rng = np.random.default_rng(0)
    # Groups of 48 rows share the wide coordinates: only the narrow ones tell neighbours apart.
    wide, narrow = np.repeat(rng.normal(size=(50, 8)), 48, axis=0), rng.normal(size=(2400, 8))
    X = np.hstack([wide, 0.5 * narrow])[rng.permutation(2400)]
    encoder = bilsh.EuclideanEncoder(12, centres=1, random_state=0)

    def told_and_found():
        transform = encoder.fit(X[:2000]).coder_.transform
        bits = (transform.depths[:, None] * np.square(transform.basis[:, 8:])).sum()
        index = bilsh.Index(encoder.transform(X[:2000]), encoder)
        near = exact_neighbors(X[2000:], X[:2000], 10)[0]
        return bits, recall_of_ids(index.search(X[2000:], k=10).ids, near)

    bits, recall = told_and_found()
    monkeypatch.setattr(fitting, "counts_of", np.ones_like)
    without = told_and_found()
    assert bits > without[0] + 2
    assert recall > without[1] + 0.01


@pytest.mark.parametrize("transform", ["pca", "klt"])
def test_rows_of_rotations_are_orthonormal(transform, digits):
    made = (
        bilsh.EuclideanEncoder(24, transform=transform, centres=4, random_state=0)
        .fit(digits)
        .coder_.transform
    )
    frames = [made.basis[span] for span in made.spans()] if transform == "pca" else [*made.left, *made.right]
    for rows in frames:
        assert np.abs(rows.astype(np.float64) @ rows.T - np.eye(len(rows))).max() < 1e-6


@pytest.mark.parametrize("n", [1, 2, 3, 11, 60])
@pytest.mark.parametrize("centres", [1, 16])
def test_few_rows_are_enough(n, centres):
    X = np.random.default_rng(n).normal(size=(n, 80)).astype(np.float32)
    for rows in (X, np.repeat(X, 15, axis=0)):  # the second have no differences between neighbours
        encoder = bilsh.EuclideanEncoder(24, centres=centres, random_state=0).fit(rows)
        codes = encoder.transform(rows)
        assert (codes == clone(encoder).fit(rows).transform(rows)).all()
        left = np.linalg.norm(rows - encoder.inverse_transform(codes), axis=1)
        assert (left <= encoder.coder_.errors(codes)).all()


def test_the_quantisers_are_the_best_uniform_ones():
    z = np.random.default_rng(0).normal(size=200_000)
    for bits in range(1, 9):
        half = 2.0 ** (bits - 1)

        def error(step, half=half):
            return np.square(z - step * (np.clip(np.floor(z / step), -half, half - 1) + 0.5)).mean()

        own = error(STEPS[bits])
        assert own == pytest.approx(DISTORTIONS[bits], rel=0.03)
        assert own <= 1.002 * min(error(0.97 * STEPS[bits]), error(1.03 * STEPS[bits]))


def test_angles_of_errors_do_not_depend_on_how_many_hits_are_looked_at_together(digits, monkeypatch):
    encoder = bilsh.EuclideanEncoder(16, transform="klt", centres=4, random_state=0)
    together = encoder.fit(digits[:400]).coder_.angles.to_array()
    monkeypatch.setattr(
        hit_angles, "BLOCK", 3 * 64 * hit_angles.HITS
    )  # three queries; the last block has fewer
    np.testing.assert_allclose(encoder.fit(digits[:400]).coder_.angles.to_array(), together, rtol=1e-9)
