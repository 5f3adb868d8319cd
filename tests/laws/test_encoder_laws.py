"""The encoders' own output obeys the theorems: replicated over independent encoders, with stated error rates.

Each check fails by chance with probability 1e-6 and would notice an effect of the stated size; see tests/support.py.
"""

import numpy as np
import pytest

import bilsh
from bilsh import theory
from bilsh.theory import BitSharing
from support import SEED, assert_mean, pair_with_spectrum, random_spectrum, rng_from

N_ENCODERS = 400
PLAIN = {"orthogonal": False, "scramble": False}


def mismatch_fractions(make, X, Y, n_encoders=N_ENCODERS, prefix=None):
    """Fraction of differing bits of X and Y under independent encoders."""
    pair = np.stack([X, Y])
    fractions = []
    for i in range(n_encoders):
        encoder = make(1000 * SEED + i).fit(pair)
        codes = encoder.transform(pair)
        bits = encoder.n_bits if prefix is None else prefix
        if prefix is not None:
            codes = bilsh.prefix(codes, prefix)
        fractions.append(bilsh.hamming(codes[0], codes[1]) / bits)
    return np.array(fractions)


def kernel_encoder(projection, thresholds, n_bits=256, **settings):
    def make(seed):
        return bilsh.KernelEncoder(
            n_bits, bandwidth=1.0, thresholds=thresholds, projection=projection, random_state=seed, **settings
        )

    return make


@pytest.mark.parametrize("thresholds", ["random", "zero"])
@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize("oversampling", [1, 4])
def test_bilinear_mismatch_follows_lemma_2(thresholds, orthogonal, oversampling):
    """Orthogonal factors and oversampling leave the expectation exactly as it is."""
    spectrum = [0.9, 0.4, 0.1]
    X, Y = pair_with_spectrum(spectrum, shape=(6, 5), rng=SEED)
    projection = bilsh.Bilinear(oversampling, "random", orthogonal, scramble=False)
    fractions = mismatch_fractions(kernel_encoder(projection, thresholds, quadrature=False), X, Y)
    assert_mean(fractions, theory.expected_hamming(spectrum, thresholds=thresholds), detects=0.03)


@pytest.mark.parametrize("rank", [1, 3, 20])
def test_bilinear_mismatch_for_random_spectra(rank):
    spectrum = random_spectrum(rank, distance=1.2, rng=SEED + rank)
    X, Y = pair_with_spectrum(spectrum, shape=(22, 21), rng=SEED)
    fractions = mismatch_fractions(kernel_encoder(bilsh.Bilinear(**PLAIN), "random"), X, Y)
    assert_mean(fractions, theory.expected_hamming(spectrum), detects=0.03)


def test_scrambling_changes_the_spectrum_not_the_distance():
    """Averaged over scrambles, the mismatch lies between the rank-1 and the Gaussian value of that distance."""
    X, Y = pair_with_spectrum([1.5], shape=(8, 8), rng=SEED)
    fractions = mismatch_fractions(kernel_encoder(bilsh.Bilinear(), "zero", 60), X, Y, 200)
    rank_one = theory.expected_hamming([1.5], thresholds="zero")
    gaussian = theory.expected_hamming(np.sqrt(1.5), kernel="gaussian", thresholds="zero")
    spread = 6 * fractions.std() / np.sqrt(len(fractions))
    assert rank_one + spread < fractions.mean() < gaussian + spread


@pytest.mark.parametrize("thresholds", ["random", "zero"])
@pytest.mark.parametrize("projection", ["dense", "circulant"])
def test_gaussian_mismatch_of_linear_projections(projection, thresholds):
    rng = rng_from(SEED)
    X, Y = rng.normal(size=(2, 40)) * 0.2
    fractions = mismatch_fractions(kernel_encoder(projection, thresholds, 128), X, Y)
    expected = theory.expected_hamming(np.linalg.norm(X - Y), kernel="gaussian", thresholds=thresholds)
    assert_mean(fractions, expected, detects=0.03)


def test_hadamard_mismatch_is_nearly_gaussian():
    """(HD)^3 only imitates Gaussian rows: agreement to 0.01 at 256 dimensions, which the check resolves."""
    rng = rng_from(SEED)
    X, Y = rng.normal(size=(2, 256)) * 0.07
    fractions = mismatch_fractions(kernel_encoder("hadamard", "zero"), X, Y)
    expected = theory.expected_hamming(np.linalg.norm(X - Y), kernel="gaussian", thresholds="zero")
    assert abs(fractions.mean() - expected) < 0.01


@pytest.mark.parametrize(
    ("kernel", "nu"), [("laplacian", None), ("cauchy", None), ("matern", 0.5), ("matern", 2.5)]
)
@pytest.mark.parametrize("thresholds", ["random", "zero"])
def test_other_kernels_follow_their_spectral_distributions(kernel, nu, thresholds):
    rng = rng_from(SEED + 1)
    X, Y = rng.normal(size=(2, 6)) * 0.3
    make = kernel_encoder("dense", thresholds, 512, kernel=kernel, nu=nu, quadrature=False)
    D = X - Y
    argument = {"laplacian": np.abs(D).sum(), "cauchy": D, "matern": np.linalg.norm(D)}[kernel]
    expected = theory.expected_hamming(argument, kernel=kernel, thresholds=thresholds, nu=nu)
    assert_mean(mismatch_fractions(make, X, Y, 200), expected, detects=0.02)


@pytest.mark.parametrize("projection", ["dense", "circulant"])
def test_angle_codes_collide_with_the_angle(projection):
    """Eq. 2: the expected fraction is theta / pi (data centred on the mean of a symmetric sample)."""
    rng = rng_from(SEED)
    X, Y = rng.normal(size=(2, 30))
    symmetric = np.stack([X, Y, -X, -Y])
    theta = np.arccos(X @ Y / np.linalg.norm(X) / np.linalg.norm(Y))
    fractions = []
    for i in range(N_ENCODERS):
        encoder = bilsh.AngleEncoder(128, projection=projection, random_state=1000 * SEED + i).fit(symmetric)
        codes = encoder.transform(symmetric[:2])
        fractions.append(bilsh.hamming(codes[0], codes[1]) / 128)
    assert_mean(fractions, theta / np.pi, detects=0.03)


SPECTRUM = [0.8, 0.3, 0.1]


def assert_variance(fractions, expected):
    """Two-sided check of a variance from independent samples, via the mean of squared deviations."""
    mean = fractions.mean()
    assert_mean(
        (fractions - mean) ** 2 * len(fractions) / (len(fractions) - 1), expected, detects=0.35 * expected
    )


@pytest.mark.parametrize(
    ("oversampling", "design"),
    [(1, "grid"), (3, "random"), (3, "balanced")],
    ids=["grid", "random", "balanced"],
)
def test_variance_of_a_code_is_the_exact_one(oversampling, design):
    X, Y = pair_with_spectrum(SPECTRUM, shape=(4, 4), rng=SEED)
    projection = bilsh.Bilinear(oversampling, design, **PLAIN)
    fractions = mismatch_fractions(kernel_encoder(projection, "zero", 100, quadrature=False), X, Y, 1200)
    sharing = BitSharing.from_design(100, design=design, oversampling=oversampling)
    assert_variance(fractions, float(theory.code_variance(SPECTRUM, sharing, thresholds="zero")))


def test_variance_of_a_prefix_is_that_of_a_random_subset():
    """The first 100 bits of a 30 x 30 grid vary as Algorithm 1's subset at m = 3, not as a 10 x 10 grid."""
    X, Y = pair_with_spectrum(SPECTRUM, shape=(4, 4), rng=SEED)
    make = kernel_encoder(bilsh.Bilinear(**PLAIN), "zero", 900, quadrature=False)
    fractions = mismatch_fractions(make, X, Y, 1200, prefix=100)
    subset = theory.code_variance(
        SPECTRUM, BitSharing.from_design(100, oversampling=3, design="random"), thresholds="zero"
    )
    grid = theory.code_variance(SPECTRUM, BitSharing.from_design(100), thresholds="zero")
    assert grid > 1.4 * subset
    assert_variance(fractions, float(subset))


def test_quadrature_pairs_vary_as_computed():
    X, Y = pair_with_spectrum(SPECTRUM, shape=(4, 4), rng=SEED)
    make = kernel_encoder(bilsh.Bilinear(**PLAIN), "zero", 128, quadrature=True)
    fractions = mismatch_fractions(make, X, Y, 1200)
    sharing = BitSharing.from_degrees([8] * 8, [8] * 8, quadrature=True)
    assert_variance(fractions, float(theory.code_variance(SPECTRUM, sharing, thresholds="zero")))


def test_orthogonal_factors_lower_the_variance():
    X, Y = pair_with_spectrum([0.4] * 4, shape=(8, 8), rng=SEED)
    plain = mismatch_fractions(kernel_encoder(bilsh.Bilinear(**PLAIN), "zero", 64), X, Y, 600)
    orthogonal = mismatch_fractions(kernel_encoder(bilsh.Bilinear(scramble=False), "zero", 64), X, Y, 600)
    assert orthogonal.var() < 0.8 * plain.var()
