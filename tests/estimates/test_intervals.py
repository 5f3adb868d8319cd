"""Estimates: exact at their limits, monotone, and calibrated on real data."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_digits

import bilsh
from bilsh import datasets, theory
from bilsh.estimates import intervals as estimates
from bilsh.theory.orthogonality import OrthogonalPairs, linear_covariance
from support import SEED, assert_mean

DIGITS = load_digits().images

ENCODERS = {
    "bilinear": lambda seed: bilsh.KernelEncoder(n_bits=64, random_state=seed),
    "quadrature": lambda seed: bilsh.KernelEncoder(n_bits=512, random_state=seed),
    "paper": lambda seed: bilsh.blsh_sik(n_bits=256, oversampling=5, random_state=seed),
    "grid": lambda seed: bilsh.blsh_sik(n_bits=256, random_state=seed),
    "dense": lambda seed: bilsh.KernelEncoder(n_bits=256, projection="dense", random_state=seed),
    "hadamard": lambda seed: bilsh.KernelEncoder(n_bits=256, projection="hadamard", random_state=seed),
    "circulant": lambda seed: bilsh.KernelEncoder(n_bits=256, projection="circulant", random_state=seed),
    "angle": lambda seed: bilsh.AngleEncoder(n_bits=256, random_state=seed),
    "angle dense": lambda seed: bilsh.AngleEncoder(n_bits=256, projection="dense", random_state=seed),
    "angle hadamard": lambda seed: bilsh.AngleEncoder(n_bits=256, projection="hadamard", random_state=seed),
}


def pairs_of(images, n, rng):
    """Half random pairs, half near ones (the closest of 30), no item with itself or a copy."""
    flat = images.reshape(len(images), -1).astype(np.float64)
    a = rng.integers(len(flat), size=n)
    others = rng.integers(len(flat), size=(n, 30))
    far = np.linalg.norm(flat[a, None] - flat[others], axis=2)
    far[far == 0] = np.inf
    b = np.where(np.arange(n) < n // 2, others[np.arange(n), far.argmin(axis=1)], others[:, 0])
    keep = np.linalg.norm(flat[a] - flat[b], axis=1) > 0
    return a[keep], b[keep]


def truth_of(encoder, images, a, b):
    flat = images.reshape(len(images), -1).astype(np.float64)
    if isinstance(encoder, bilsh.KernelEncoder):
        return np.linalg.norm(flat[a] - flat[b], axis=1)
    centred = flat - encoder.mean_.ravel()
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    return np.arccos(np.clip((centred[a] * centred[b]).sum(axis=1), -1, 1))


def coverage(make, images, n_encoders, seed):
    """Share of pairs whose true distance (angle) is in the 95 % interval, per encoder."""
    a, b = pairs_of(images, 400, np.random.default_rng([seed, 1]))
    shares = []
    for number in range(n_encoders):
        encoder = make(1000 * seed + number).fit(images)
        codes = encoder.transform(images)
        truth = truth_of(encoder, images, a, b)
        low, high = bilsh.estimate(codes[a], codes[b], encoder).sampling_interval.T
        shares.append(np.mean((low <= truth) & (truth <= high)))
    return np.array(shares)


def assert_covers(shares, false_fail=1e-6):
    """93 % to 97 %, give or take the error of the mean: fails by chance with probability below `false_fail`."""
    error = stats.t.isf(false_fail, len(shares) - 1) * shares.std(ddof=1) / np.sqrt(len(shares))
    assert 0.93 - error <= shares.mean() <= 0.97 + error
    assert error < 0.06, "too few encoders to notice a coverage of 87 %"


@pytest.mark.parametrize("name", ["bilinear", "dense", "angle", "angle dense"])
def test_intervals_cover_on_digits(name):
    assert_covers(coverage(ENCODERS[name], DIGITS[:600], 60 if name == "bilinear" else 30, SEED))


@pytest.mark.slow
@pytest.mark.parametrize("name", ENCODERS)
def test_intervals_of_every_code_cover_on_digits(name):
    assert_covers(coverage(ENCODERS[name], DIGITS, 200, SEED))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bilinear", "quadrature", "dense", "angle"])
def test_intervals_cover_on_mnist(name, mnist_folder):
    images = datasets.mnist(mnist_folder).X[:4000] / np.float32(255)
    assert_covers(coverage(ENCODERS[name], images.reshape(-1, 28, 28), 100, SEED))


def test_orthogonal_factors_vary_as_the_correction_says():
    """Variance of whole codes over 800 independent encoders against the effective bits; detects 1.3 times."""
    spectrum = np.array([0.5, 0.3, 0.1, 0.06, 0.04])
    D = np.diag(np.sqrt(1.5 * spectrum))
    X = np.stack([np.zeros((5, 5)), D])
    fractions = []
    for seed in range(800):
        encoder = bilsh.KernelEncoder(
            n_bits=25,
            bandwidth=1.0,
            quadrature=False,
            projection=bilsh.Bilinear(scramble=False),
            random_state=1000 * SEED + seed,
        ).fit(X)
        codes = encoder.transform(X)
        fractions.append(int(bilsh.hamming(codes[0], codes[1])) / 25)
    p = float(theory.expected_hamming(1.5 * spectrum, thresholds="zero"))
    calibration = replace(encoder.coder_, spectrum=spectrum).calibration
    expected = p * (1 - p) / float(calibration.effective_bits(np.array(p)))
    assert_mean(np.square(np.array(fractions) - p), expected, detects=0.4 * expected)


def test_the_linear_share_of_the_covariance_is_a_share():
    spectra = np.random.default_rng(0).exponential(size=(20, 30)) * np.geomspace(1e-3, 1, 20)[:, None]
    for thresholds in ("zero", "random"):
        share = linear_covariance(spectra, thresholds) / theory.bit_covariance(spectra, thresholds=thresholds)
        assert (share < 1.02).all()
        assert (share[:10] > 0.9).all(), "close items: nearly all of it is linear"
        assert (share > 0).all()


def test_the_correction_is_exact_for_squares():
    """Sums of (w_i^T D v_j)^2 over a grid with two left blocks, 40,000 draws: detects 1.15 times the variance."""
    rng = np.random.default_rng(SEED)
    spectrum = np.array([0.6, 0.3, 0.1])
    n, d_w, d_v = 40_000, 3, 4
    left, right = (
        np.concatenate(
            [
                np.linalg.qr(rng.normal(size=(n, d, d)))[0].transpose(0, 2, 1)[:, :rows]
                * np.sqrt(rng.chisquare(d, size=(n, rows, 1)))
                for rows in blocks
            ],
            axis=1,
        )
        for d, blocks in ((d_w, (3, 2)), (d_v, (3,)))
    )
    values = np.square(np.einsum("nip,p,njp->nij", left, np.sqrt(spectrum), right[..., :3])).sum(axis=(1, 2))
    grid = np.stack(np.divmod(np.arange(15), 3), axis=1)
    pairs = OrthogonalPairs.of(left[0].astype(np.float32), right[0].astype(np.float32), grid)
    assert (pairs.shared_left, pairs.shared_right, pairs.both) == (30, 24, 48)
    assert (pairs.left, pairs.right) == (0, 72)
    rank = float(theory.effective_rank(spectrum))
    independent = 15 * (2 + 6 / rank) + (30 + 60) * 2 / rank
    expected = independent + float(pairs.correction(np.array(2 / rank), np.array(rank)))
    assert_mean(np.square(values - 15), expected, detects=0.15 * expected)


@pytest.mark.parametrize("name", ENCODERS)
def test_tables_are_monotone_and_exact_at_zero(name):
    encoder = ENCODERS[name](0).fit(DIGITS)
    told = estimates.estimate_distances(np.arange(encoder.n_bits + 1), encoder)
    assert told.value[0] == 0
    assert (np.diff(told.value[np.isfinite(told.value)]) > 0).all()
    low, high = told.sampling_interval.T
    assert (low <= told.value).all()
    assert (told.value <= high).all()
    assert (told.effective_bits > 0).all()
    if told.identification_interval is not None:
        flat, rank_one = told.identification_interval.T
        assert (flat <= told.value).all()
        assert (told.value <= rank_one).all()
    wide = estimates.estimate_distances(np.arange(encoder.n_bits + 1), encoder, 0.999)
    assert (wide.sampling_interval[:, 0] <= low).all()
    assert (wide.sampling_interval[:, 1] >= high).all()


def test_the_point_estimate_inverts_the_expected_fraction():
    encoder = bilsh.KernelEncoder(n_bits=1000, projection="dense", bandwidth=7.0, random_state=0).fit(DIGITS)
    told = estimates.estimate_distances(np.array([100, 250, 400]), encoder)
    p = theory.expected_hamming(told.distance / 7.0, kernel="gaussian", thresholds="zero")
    np.testing.assert_allclose(p, [0.1, 0.25, 0.4], rtol=1e-8)
    np.testing.assert_allclose(told.kernel, np.exp(-0.5 * (told.distance / 7.0) ** 2), rtol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "nu"), [("gaussian", None), ("laplacian", None), ("cauchy", None), ("matern", 1.5)]
)
def test_asymmetric_scores_give_back_distances(kernel, nu):
    """Means over independent encoders: (pi/2) E cos(u)(2h - 1) is the kernel; detects an error of 0.03."""
    X = np.array([[0.0, 0.0], [0.7, 0.4]])
    values = []
    for seed in range(400):
        encoder = bilsh.KernelEncoder(
            n_bits=64,
            kernel=kernel,
            nu=nu,
            bandwidth=1.0,
            projection="dense",
            random_state=1000 * SEED + seed,
        ).fit(X)
        bits = 2.0 * bilsh.unpack(encoder.transform(X[1:]), 64) - 1
        values.append(np.mean(np.cos(encoder.phases(X[:1])) * bits) * np.pi / 2)
    expected = {
        "gaussian": np.exp(-0.65 / 2),
        "laplacian": np.exp(-1.1),
        "cauchy": 1 / (1.49 * 1.16),
        "matern": (1 + np.sqrt(3 * 0.65)) * np.exp(-np.sqrt(3 * 0.65)),
    }[kernel]
    assert_mean(values, expected, detects=0.06)


def test_shapes_broadcast_and_quantities_convert():
    encoder = bilsh.KernelEncoder(n_bits=100, random_state=0).fit(DIGITS)
    codes = encoder.transform(DIGITS[:5])
    one = bilsh.estimate(codes[0], codes[1], encoder=encoder)
    many = bilsh.estimate(codes[0], codes, encoder, of="kernel")
    assert one.distance.shape == ()
    assert one.sampling_interval.shape == (2,)
    assert many.kernel.shape == (5,)
    assert many.kernel[1] == one.kernel
    assert many.identification_interval.shape == (5, 2)
    np.testing.assert_array_equal(many.value, many.kernel)
    assert many.angle is None
    angles = bilsh.AngleEncoder(n_bits=100, random_state=0).fit(DIGITS)
    told = bilsh.estimate(angles.transform(DIGITS[:3]), angles.transform(DIGITS[3:6]), angles, of="cosine")
    np.testing.assert_allclose(told.value, np.cos(told.angle))
    assert told.distance is None


def test_a_refitted_encoder_gets_a_new_calibration():
    encoder = bilsh.KernelEncoder(n_bits=64, projection="dense", bandwidth=1.0, random_state=0).fit(DIGITS)
    before = estimates.estimate_distances(np.array([10]), encoder).distance
    encoder.set_params(bandwidth=2.0).fit(DIGITS)
    np.testing.assert_allclose(estimates.estimate_distances(np.array([10]), encoder).distance, 2 * before)


def test_truncated_encoders_estimate_from_prefixes():
    encoder = bilsh.KernelEncoder(n_bits=512, random_state=0).fit(DIGITS)
    codes = bilsh.prefix(encoder.transform(DIGITS[:2]), 100)
    told = bilsh.estimate(codes[0], codes[1], encoder.truncated(100))
    assert np.isfinite(told.sampling_interval[0])
    with pytest.raises(bilsh.InvalidInputError, match="truncated"):
        bilsh.estimate(codes[0], codes[1], encoder)


def test_bits_needed_keeps_its_word_for_independent_bits():
    """Exact binomial tails at the answer: the union bound over 1000 pairs holds at every p."""
    k = bilsh.bits_needed(0.05, 0.9, 1000)
    p = np.linspace(0.01, 0.5, 50)
    tails = stats.binom.sf(np.floor(k * (p + 0.05)), k, p) + stats.binom.cdf(
        np.ceil(k * (p - 0.05)) - 1, k, p
    )
    assert 1000 * tails.max() <= 0.1
    assert bilsh.bits_needed(0.025, 0.9, 1000) == pytest.approx(4 * k, rel=0.01)


def test_bits_needed_grows_with_sharing():
    free = bilsh.bits_needed(0.05, 0.95, 100)
    dense, stacked, grid = (
        bilsh.bits_needed(0.05, 0.95, 100, encoder=ENCODERS[name](0).fit(DIGITS))
        for name in ("angle dense", "quadrature", "grid")
    )
    assert dense == free
    assert free < stacked < grid


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e, c: bilsh.estimate(c[0], c[1], "encoder"), "must be a fitted"),
        (lambda e, c: bilsh.estimate(c[0], c[1], bilsh.AngleEncoder()), "not fitted"),
        (lambda e, c: bilsh.estimate(c[0], c[1], e, confidence=1.0), "between 0 and 1"),
        (lambda e, c: bilsh.estimate(c[0], c[1], e, of="angle"), "distance or kernel"),
        (lambda e, c: bilsh.estimate(c[0], c[1, :3], e), "equal length"),
        (lambda e, c: bilsh.estimate(c[:3], c[:2], e), "row by row"),
        (lambda e, c: estimates.estimate_distances([0.5], e), "integers"),
        (lambda e, c: estimates.estimate_distances([101], e), "from 0 to 100"),
        (lambda e, c: bilsh.bits_needed(0.0), "error must be"),
        (lambda e, c: bilsh.bits_needed(0.1, n_pairs=0), "n_pairs"),
    ],
)
def test_errors_say_what_to_do(call, message):
    encoder = bilsh.KernelEncoder(n_bits=100, random_state=0).fit(DIGITS)
    with pytest.raises(bilsh.BilshError, match=message):
        call(encoder, encoder.transform(DIGITS[:4]))
