"""Encoders against the paper loop by loop, at the door, and as scikit-learn estimators."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import bilsh
from bilsh import _native
from bilsh.projections import BilinearMap, CirculantMap, DenseMap, HadamardMap
from reference import (
    angle_bit_value,
    bilinear_form,
    circulant_product,
    dot,
    hadamard_product,
    kernel_bit_value,
)

PROJECTIONS = {
    "dense": bilsh.Dense(),
    "dense streamed": bilsh.Dense(memory_budget=0),
    "bilinear": bilsh.Bilinear(),
    "bilinear as in the paper": bilsh.Bilinear(orthogonal=False, scramble=False),
    "bilinear random": bilsh.Bilinear(oversampling=3, design="random"),
    "bilinear balanced": bilsh.Bilinear(oversampling=2, design="balanced", scramble=False),
    "circulant": bilsh.Circulant(),
    "hadamard": bilsh.Hadamard(),
}


@pytest.fixture(scope="module")
def matrices():
    return np.random.default_rng(5).normal(size=(40, 6, 7)) + 0.5


@pytest.fixture(scope="module")
def digits():
    return load_digits().images


def encoders(n_bits):
    found = []
    for projection in PROJECTIONS.values():
        found.append(bilsh.AngleEncoder(n_bits, projection=projection, random_state=3))
        for thresholds in ("zero", "random"):
            found.append(
                bilsh.KernelEncoder(n_bits, projection=projection, thresholds=thresholds, random_state=3)
            )
    return found


def name_of(encoder):
    return f"{type(encoder).__name__} {encoder.projection} {getattr(encoder, 'thresholds', '')}"


def reference_outputs(projection, x):
    """All outputs of a drawn projection for one descriptor, by the loops of the reference."""
    if isinstance(projection, DenseMap):
        return [dot(w, x) for w in projection.rows(0, projection.n_outputs)]
    if isinstance(projection, BilinearMap):
        X = projection.matrices(np.asarray(x, dtype=np.float64)[None])[0]
        return [bilinear_form(projection.left[i], X, projection.right[j]) for i, j in projection.pairs]
    if isinstance(projection, CirculantMap):
        d = projection.columns.shape[1]
        blocks = [
            circulant_product(r, s, x) for r, s in zip(projection.columns, projection.signs, strict=True)
        ]
        return [blocks[o // d][o % d] for o in projection.selected]
    assert isinstance(projection, HadamardMap)
    D = projection.signs.shape[2]
    blocks = [hadamard_product(signs, x) for signs in projection.signs]
    return [blocks[o // D][o % D] for o in projection.selected]


@pytest.mark.parametrize("encoder", encoders(50), ids=name_of)
@pytest.mark.parametrize("vectors", [False, True], ids=["matrices", "vectors"])
def test_bits_are_the_papers_bits(encoder, vectors, matrices):
    X = matrices.reshape(len(matrices), -1)[:, :41] if vectors else matrices
    encoder = clone(encoder).fit(X)
    bits = bilsh.unpack(encoder.transform(X[:4]), 50)
    phases = encoder.phases(X[:4])
    far_from_threshold = 0
    for row, x in enumerate(X[:4]):
        flat = x.reshape(-1).astype(np.float32).astype(np.float64)
        if isinstance(encoder, bilsh.AngleEncoder):
            flat = flat - encoder.mean_.reshape(-1).astype(np.float64)
        outputs = reference_outputs(encoder.projection_, flat)
        for r in range(50):
            output = outputs[encoder.outputs_[r]]
            if isinstance(encoder, bilsh.AngleEncoder):
                value = angle_bit_value([1.0], [output])
                assert phases[row, r] == pytest.approx(value, abs=1e-4)
            else:
                u = output / encoder.bandwidth_
                value = kernel_bit_value(u, encoder.offsets_[r], encoder.thresholds_[r])
                assert phases[row, r] == pytest.approx(u + encoder.offsets_[r], abs=1e-4)
            if abs(value) > 1e-4:
                far_from_threshold += 1
                assert bits[row, r] == (value >= 0)
    assert far_from_threshold > 190


@pytest.mark.parametrize("encoder", encoders(45), ids=name_of)
def test_codes_do_not_depend_on_batch_threads_or_instruction_set(encoder, digits):
    encoder = clone(encoder).fit(digits)
    codes = encoder.transform(digits[:150])
    single = np.concatenate([encoder.transform(digits[i : i + 1]) for i in range(20)])
    np.testing.assert_array_equal(codes[:20], single)
    np.testing.assert_array_equal(codes[:23], encoder.transform(digits[:23]))
    np.testing.assert_array_equal(codes, encoder.set_params(n_jobs=2).transform(digits[:150]))
    try:
        for level in _native.levels():
            _native.force_level(level)
            np.testing.assert_array_equal(codes[:40], encoder.transform(digits[:40]))
    finally:
        _native.force_level("auto")


@pytest.mark.parametrize("encoder", [*encoders(45), *encoders(150)], ids=name_of)
def test_a_truncated_encoder_gives_the_prefix(encoder, digits):
    encoder = clone(encoder).fit(digits)
    codes = encoder.transform(digits[:60])
    for n_bits in (1, 7, 8, 30, 45):
        short = encoder.truncated(n_bits)
        np.testing.assert_array_equal(short.transform(digits[:60]), bilsh.prefix(codes, n_bits))
        assert short.n_bits == n_bits
        assert short.parameter_bytes_ <= encoder.parameter_bytes_
        np.testing.assert_array_equal(short.phases(digits[:5]), encoder.phases(digits[:5])[:, :n_bits])


@pytest.mark.parametrize("n_bits", [1, 2, 3, 7, 31, 64, 65, 127, 200])
@pytest.mark.parametrize("name", PROJECTIONS)
def test_any_number_of_bits_works(n_bits, name, digits):
    for encoder in (bilsh.AngleEncoder(n_bits), bilsh.KernelEncoder(n_bits)):
        encoder.set_params(projection=PROJECTIONS[name], random_state=0).fit(digits)
        codes = encoder.transform(digits[:9])
        assert codes.shape == (9, -(-n_bits // 8))
        assert codes.dtype == np.uint8
        padding = -n_bits % 8
        assert not (codes[:, -1] >> (8 - padding)).any() or padding == 0


def test_streamed_weights_give_the_same_codes_as_kept_ones(digits):
    kept = bilsh.KernelEncoder(100, projection=bilsh.Dense(), random_state=1).fit(digits)
    streamed = bilsh.KernelEncoder(100, projection=bilsh.Dense(memory_budget=100), random_state=1).fit(digits)
    assert kept.projection_.weights is not None
    assert streamed.projection_.weights is None
    np.testing.assert_array_equal(kept.weights_, streamed.weights_)
    np.testing.assert_array_equal(kept.transform(digits), streamed.transform(digits))


def test_quadrature_adds_the_bit_a_quarter_turn_back(digits):
    encoder = bilsh.KernelEncoder(64, quadrature=True, bandwidth=20.0, random_state=0).fit(digits)
    assert encoder.quadrature_
    assert encoder.projection_.n_outputs == 32
    assert sorted(np.bincount(encoder.outputs_)) == [2] * 32
    for output in range(32):
        first, second = encoder.offsets_[encoder.outputs_ == output]
        quarter = (first - second) % (2 * np.pi)
        assert min(abs(quarter - np.pi / 2), abs(quarter - 3 * np.pi / 2)) < 1e-5


def test_quadrature_is_automatic_beyond_the_dimension(digits):
    assert not bilsh.KernelEncoder(64, random_state=0).fit(digits).quadrature_
    assert bilsh.KernelEncoder(65, random_state=0).fit(digits).quadrature_
    assert not bilsh.KernelEncoder(65, thresholds="random", random_state=0).fit(digits).quadrature_


def test_beyond_one_orthogonal_grid_further_grids_are_stacked(digits):
    encoder = bilsh.AngleEncoder(200, random_state=0).fit(digits)
    assert encoder.grid_shapes_ == ((8, 8), (8, 8), (8, 8), (3, 3))
    assert encoder.left_weights_.shape == (8, 27)


def test_orthogonal_factors_are_orthogonal_blocks(digits):
    encoder = bilsh.AngleEncoder(900, projection=bilsh.Bilinear(oversampling=2), random_state=0).fit(digits)
    W = encoder.left_weights_.astype(np.float64)
    assert W.shape == (8, 60)
    block = W[:, 8:16]
    gram = block.T @ block
    np.testing.assert_allclose(gram - np.diag(np.diag(gram)), 0, atol=1e-5)


def test_the_cheaper_side_goes_first():
    X = np.random.default_rng(0).normal(size=(30, 4, 50))
    wide = bilsh.AngleEncoder(100, random_state=0).fit(X)
    tall = bilsh.AngleEncoder(100, random_state=0).fit(X.transpose(0, 2, 1))
    costs = {True: 0, False: 0}
    for encoder in (wide, tall):
        drawn = encoder.projection_
        d_w, d_v = drawn.matrix_shape
        costs[True] = len(drawn.left) * d_w * d_v + 100 * d_v
        costs[False] = len(drawn.right) * d_w * d_v + 100 * d_w
        assert costs[drawn.left_first] == min(costs.values())


def test_vectors_are_padded_to_a_nearly_square_matrix():
    X = np.random.default_rng(0).normal(size=(30, 13))
    encoder = bilsh.KernelEncoder(20, random_state=0).fit(X)
    assert encoder.matrix_shape_ == (3, 5)
    assert encoder.n_features_in_ == 13
    reshaped = bilsh.KernelEncoder(20, projection=bilsh.Bilinear(matrix_shape=(2, 7)), random_state=0).fit(X)
    assert reshaped.matrix_shape_ == (2, 7)
    with pytest.raises(bilsh.InvalidInputError, match=r"\(2, 5\) holds 10 numbers, a descriptor has 13"):
        bilsh.KernelEncoder(20, projection=bilsh.Bilinear(matrix_shape=(2, 5))).fit(X)


def test_the_mean_lands_on_zero(digits):
    encoder = bilsh.AngleEncoder(100, random_state=0).fit(digits)
    assert (encoder.phases(encoder.mean_[None]) == 0).all()


def test_memory_layout_and_number_type_do_not_matter(digits):
    encoder = bilsh.KernelEncoder(100, random_state=0).fit(digits)
    codes = encoder.transform(digits)
    for variant in (
        digits.astype(np.float32),
        digits.astype(np.int64),
        digits.astype(np.uint8),
        np.asfortranarray(digits),
        np.repeat(digits, 2, axis=2)[:, :, ::2],
        digits.tolist(),
        digits.reshape(len(digits), -1),
    ):
        np.testing.assert_array_equal(codes, encoder.transform(variant))
    assert encoder.transform(digits[:0]).shape == (0, 13)
    assert encoder.phases(digits[:0]).shape == (0, 100)


def test_sparse_rows_pass_the_dense_projection_only(digits):
    X = digits.reshape(len(digits), -1)
    encoder = bilsh.AngleEncoder(64, projection="dense", random_state=0).fit(sp.csr_array(X))
    np.testing.assert_array_equal(encoder.transform(sp.coo_array(X)), encoder.transform(X))
    with pytest.raises(bilsh.InvalidTypeError, match="sparse"):
        bilsh.AngleEncoder(64).fit(sp.csr_array(X))


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "cauchy", "matern"])
def test_every_kernel_works_with_dense_projections(kernel, digits):
    encoder = bilsh.KernelEncoder(64, kernel=kernel, projection="dense", random_state=0).fit(digits)
    assert encoder.transform(digits[:5]).shape == (5, 8)
    if kernel != "gaussian":
        with pytest.raises(bilsh.InvalidInputError, match="projection='dense'"):
            bilsh.KernelEncoder(64, kernel=kernel).fit(digits)


BAD_SETTINGS = [
    ({"n_bits": 0}, "n_bits must be >= 1; got 0"),
    ({"n_bits": -5}, "n_bits must be >= 1"),
    ({"n_bits": 8.5}, "n_bits must be a whole number"),
    ({"n_bits": True}, "n_bits must be a whole number"),
    ({"random_state": -1}, "random_state must be >= 0"),
    ({"random_state": "x"}, "random_state must be a whole number"),
    ({"projection": "sparse"}, "projection must be one of 'dense', 'bilinear'"),
    ({"projection": 3}, "projection must be a name or a projection object"),
    ({"projection": bilsh.Bilinear(oversampling=0)}, "oversampling must be >= 1"),
    ({"projection": bilsh.Bilinear(design="square")}, "design must be one of"),
    ({"projection": bilsh.Bilinear(matrix_shape=5)}, "matrix_shape must be two whole numbers"),
    ({"projection": bilsh.Dense(memory_budget=-1)}, "memory_budget must be >= 0"),
]
BAD_KERNEL_SETTINGS = [
    ({"kernel": "rbf"}, "kernel must be one of 'gaussian'"),
    ({"bandwidth": 0}, "bandwidth must be finite and > 0; got 0"),
    ({"bandwidth": np.inf}, "bandwidth must be finite"),
    ({"bandwidth": "wide"}, "bandwidth must be a number > 0 or 'auto'"),
    ({"bandwidth": None}, "bandwidth must be a number > 0"),
    ({"thresholds": 0}, "thresholds must be one of 'zero', 'random'"),
    ({"quadrature": "yes"}, "quadrature must be True, False or 'auto'"),
    ({"quadrature": True, "thresholds": "random"}, "quadrature=True needs thresholds='zero'"),
    ({"nu": 1.5}, "nu belongs to kernel='matern'"),
    ({"kernel": "matern", "nu": -1, "projection": "dense"}, "nu must be finite and > 0"),
]


@pytest.mark.parametrize(("settings", "message"), BAD_SETTINGS, ids=str)
def test_bad_settings_are_refused(settings, message, digits):
    for encoder in (bilsh.AngleEncoder(), bilsh.KernelEncoder()):
        with pytest.raises(bilsh.BilshError, match=message) as caught:
            encoder.set_params(**settings).fit(digits)
        assert isinstance(caught.value, ValueError | TypeError)


@pytest.mark.parametrize(("settings", "message"), BAD_KERNEL_SETTINGS, ids=str)
def test_bad_kernel_settings_are_refused(settings, message, digits):
    with pytest.raises(bilsh.BilshError, match=message):
        bilsh.KernelEncoder().set_params(**settings).fit(digits)


def bad(value, dtype=np.float64):
    X = np.ones((10, 3, 4), dtype=dtype)
    X[7, 1, 2] = value
    return X


BAD_DATA = [
    (bad(np.nan), r"X\[7, 1, 2\] is NaN .* 1 have NaN"),
    (bad(np.inf), r"X\[7, 1, 2\] is infinity"),
    (bad(-np.inf, np.float32), r"X\[7, 1, 2\] is infinity"),
    (bad(1e39), r"X\[7, 1, 2\] is .*1e\+39.* overflows float32"),
    (bad(np.nan).reshape(10, 12), r"X\[7, 6\] is NaN .*axis=1"),
    (np.ones((10, 3, 4), dtype=complex), "Complex data not supported"),
    (np.ones(12), r"got shape \(12,\).*Reshape"),
    (np.ones((2, 2, 2, 2)), r"got shape \(2, 2, 2, 2\)"),
    (np.ones((10, 0)), r"0 feature\(s\)"),
    (np.ones((10, 3, 0)), r"0 feature\(s\)"),
    (np.array([["a", "b"]]), "X must hold real numbers"),
    ([[1, 2], [3]], "rectangular"),
]


@pytest.mark.parametrize(("X", "message"), BAD_DATA, ids=[message for _, message in BAD_DATA])
@pytest.mark.parametrize("kind", [bilsh.AngleEncoder, bilsh.KernelEncoder])
def test_bad_data_are_refused_at_fit_and_transform(kind, X, message):
    with pytest.raises(bilsh.BilshError, match=message):
        kind(16).fit(X)
    fitted = kind(16, random_state=0).fit(np.random.default_rng(0).normal(size=(10, 3, 4)))
    for method in (fitted.transform, fitted.phases):
        with pytest.raises(bilsh.BilshError, match=message):
            method(X)


def test_other_shapes_than_fitted_are_refused(digits):
    fitted = bilsh.AngleEncoder(16, random_state=0).fit(digits)
    with pytest.raises(ValueError, match=r"matrix shape \(8, 7\); this encoder was fitted on matrices"):
        fitted.transform(digits[:, :, :7])
    with pytest.raises(ValueError, match="X has 63 features, but AngleEncoder is expecting 64"):
        fitted.transform(digits.reshape(-1, 64)[:, :63])
    on_vectors = bilsh.AngleEncoder(16, random_state=0).fit(digits.reshape(-1, 64))
    with pytest.raises(ValueError, match="fitted on vectors of shape"):
        on_vectors.transform(digits)


def test_no_rows_to_fit(digits):
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        bilsh.KernelEncoder().fit(digits[:0])


def test_truncation_beyond_the_code_is_refused(digits):
    with pytest.raises(ValueError, match="n_bits must be at most 16"):
        bilsh.AngleEncoder(16).fit(digits).truncated(17)


def test_attributes_of_another_projection_are_explained(digits):
    encoder = bilsh.AngleEncoder(16, projection="hadamard").fit(digits)
    for name in ("pairs_", "left_weights_", "right_weights_", "weights_"):
        with pytest.raises(AttributeError, match="projections only"):
            getattr(encoder, name)
    assert encoder.matrix_shape_ is None


def test_auto_bandwidth_is_the_papers_rule(digits):
    X = digits.reshape(len(digits), -1)
    distances = np.sort(np.linalg.norm(X[:, None] - X[None, :400], axis=2), axis=0)[50]
    encoder = bilsh.KernelEncoder(16, random_state=0).fit(digits)
    assert encoder.bandwidth_ == pytest.approx(distances.mean(), rel=0.03)


def test_data_without_spread_get_bandwidth_one():
    encoder = bilsh.KernelEncoder(16).fit(np.ones((20, 3)))
    assert encoder.bandwidth_ == 1.0
    assert bilsh.KernelEncoder(16).fit(np.ones((1, 3))).bandwidth_ == 1.0


def test_the_norm_ratio_tells_spread_from_clusters():
    rng = np.random.default_rng(0)
    spread = rng.normal(size=(500, 200))
    clustered = 10 * rng.normal(size=(20, 200)).repeat(25, axis=0) + rng.normal(size=(500, 200))
    assert (
        bilsh.KernelEncoder(8).fit(spread).norm_ratio_
        < 1.7
        < bilsh.AngleEncoder(8).fit(clustered).norm_ratio_
    )


def test_the_seed_decides_and_every_kind_of_random_state_is_taken(digits):
    def codes(random_state):
        return bilsh.KernelEncoder(64, random_state=random_state).fit(digits).transform(digits[:50])

    np.testing.assert_array_equal(codes(7), codes(np.int64(7)))
    np.testing.assert_array_equal(codes(np.random.RandomState(1)), codes(np.random.RandomState(1)))
    np.testing.assert_array_equal(codes(np.random.default_rng(1)), codes(np.random.default_rng(1)))
    assert (codes(7) != codes(8)).any()
    assert (codes(None) != codes(None)).any()


ESTIMATORS = [
    *(bilsh.AngleEncoder(40, projection=name, random_state=0) for name in bilsh.projections.PROJECTIONS),
    *(bilsh.KernelEncoder(40, projection=name, random_state=0) for name in bilsh.projections.PROJECTIONS),
    bilsh.RandomFourierFeatures(40, random_state=0),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_scikit_learns_own_checks_pass(estimator):
    check_estimator(estimator, on_skip=None)


def test_pipeline_clone_names_and_pandas_output(digits):
    X = digits.reshape(len(digits), -1)
    pipeline = make_pipeline(bilsh.AngleEncoder(256, random_state=0), KNeighborsClassifier(metric="hamming"))
    labels = load_digits().target
    assert pipeline.fit(X[:1000], labels[:1000]).score(X[1000:], labels[1000:]) > 0.8
    copy = clone(pipeline[0]).set_params(projection=bilsh.Bilinear(), projection__oversampling=4)
    assert copy.projection.oversampling == 4
    names = copy.fit(X).get_feature_names_out()
    assert names[0] == "angleencoder0"
    assert len(names) == 32
    frame = copy.set_output(transform="pandas").transform(X[:3])
    assert list(frame.columns) == list(names)


@pytest.mark.parametrize("encoder", encoders(40), ids=name_of)
def test_rows_that_fit_still_go_into_the_container_that_was_asked_for(encoder, digits):
    X = digits.reshape(len(digits), -1).astype(np.float32)
    encoder = clone(encoder).fit(X)
    codes = encoder.transform(X[:1])
    assert type(codes) is np.ndarray
    with sklearn.config_context(transform_output="pandas"):
        frame = encoder.transform(X[:1])
    assert list(frame.columns) == list(encoder.get_feature_names_out())
    np.testing.assert_array_equal(frame, codes)
    encoder.set_output(transform="pandas")
    np.testing.assert_array_equal(encoder.transform(X[:1]).columns, frame.columns)
    with sklearn.config_context(transform_output="pandas"):
        assert type(encoder.set_output(transform="default").transform(X[:1])) is np.ndarray


@pytest.mark.parametrize("encoder", encoders(40), ids=name_of)
def test_encoders_survive_pickling(encoder, digits):
    encoder = clone(encoder).fit(digits)
    copy = pickle.loads(pickle.dumps(encoder))
    np.testing.assert_array_equal(copy.transform(digits[:9]), encoder.transform(digits[:9]))
    assert copy.fingerprint == encoder.fingerprint


@pytest.mark.parametrize("spread", [1e-2, 1e-5, 0.0])
def test_tight_clusters_do_not_drown_in_rounding(spread):
    rng = np.random.default_rng(1)
    X = (rng.normal(size=(5, 64)).repeat(80, axis=0) + spread * rng.normal(size=(400, 64))).astype(np.float32)
    encoder = bilsh.KernelEncoder(16, random_state=0).fit(X)
    distances = np.linalg.norm(X.astype(np.float64)[:, None] - X.astype(np.float64), axis=2)
    expected = np.sort(distances, axis=1)[:, 50].mean()
    assert encoder.bandwidth_ == pytest.approx(expected if spread else 1.0, rel=0.01)


@pytest.mark.parametrize("scale", [1e-30, 1e20])
def test_the_scale_of_the_data_does_not_matter(scale, digits):
    plain = bilsh.KernelEncoder(16, random_state=0).fit(digits)
    scaled = bilsh.KernelEncoder(16, random_state=0).fit(digits * scale)
    assert scaled.bandwidth_ == pytest.approx(plain.bandwidth_ * scale, rel=1e-4)
    assert scaled.norm_ratio_ == pytest.approx(plain.norm_ratio_, rel=1e-4)


@pytest.mark.parametrize("projection", ["dense", "bilinear", "circulant", "hadamard"])
def test_items_whose_phase_is_lost_are_refused(projection, digits):
    encoder = bilsh.KernelEncoder(64, projection=projection, random_state=0).fit(digits)
    with pytest.raises(bilsh.InvalidInputError, match="phase is lost"):
        encoder.transform(digits[:40] * 1e9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_bits": 10**20}, "n_bits must be at most"),
        ({"projection": bilsh.Bilinear(oversampling=10**9)}, "vectors on either side"),
        ({"projection": bilsh.Bilinear(scramble="no")}, "scramble must be True or False"),
        ({"projection": bilsh.Bilinear(orthogonal=1)}, "orthogonal must be True or False"),
    ],
)
def test_slips_of_the_pen_are_refused_at_once(settings, message, digits):
    with pytest.raises(bilsh.BilshError, match=message):
        bilsh.AngleEncoder(16).set_params(**settings).fit(digits)
