"""The presets are the paper's methods: the distributions, the sizes and Algorithm 1 as printed."""

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_digits

import bilsh
from reference import algorithm_1

X = load_digits().images


@pytest.mark.parametrize("oversampling", [1, 3])
def test_blsh_sik_is_algorithm_1(oversampling):
    encoder = bilsh.blsh_sik(36, oversampling=oversampling, bandwidth=30.0, random_state=0).fit(X)
    side = 6 * oversampling
    assert encoder.left_weights_.shape == (8, side)
    assert encoder.right_weights_.shape == (8, side)
    assert len({tuple(pair) for pair in encoder.pairs_}) == 36
    assert encoder.offsets_.shape == encoder.thresholds_.shape == (36,)
    bits = bilsh.unpack(encoder.transform(X[:3]), 36)
    for x, code in zip(X[:3], bits, strict=True):
        values = algorithm_1(
            x / 30.0,
            encoder.left_weights_,
            encoder.right_weights_,
            encoder.offsets_,
            encoder.thresholds_,
            encoder.pairs_,
        )
        for bit, value in zip(code, values, strict=True):
            assert abs(value) < 1e-4 or bit == (value >= 0)


def test_the_papers_distributions():
    """Kolmogorov-Smirnov against N(0, 1), U[0, 2 pi] and U[-1, 1]; each fails by chance with probability 1e-6."""
    encoder = bilsh.blsh_sik(4096, oversampling=4, bandwidth=1.0, random_state=0).fit(X)
    assert stats.kstest(encoder.left_weights_.ravel(), "norm").pvalue > 1e-6
    assert stats.kstest(encoder.right_weights_.ravel(), "norm").pvalue > 1e-6
    assert stats.kstest(encoder.offsets_, stats.uniform(0, 2 * np.pi).cdf).pvalue > 1e-6
    assert stats.kstest(encoder.thresholds_, stats.uniform(-1, 2).cdf).pvalue > 1e-6
    dense = bilsh.lsh_sik(512, bandwidth=1.0, random_state=0).fit(X)
    assert stats.kstest(dense.weights_.ravel(), "norm").pvalue > 1e-6


def test_orthogonal_factors_are_still_gaussian_one_by_one():
    """The first entry of the first left vector over 2,000 encoders; fails by chance with probability 1e-6."""
    rng = np.random.default_rng(0)
    entries = [bilsh.projections.bilinear.orthogonal_factor(8, 8, rng)[3, 2] for _ in range(2000)]
    assert stats.kstest(entries, "norm").pvalue > 1e-6


@pytest.mark.parametrize(
    ("preset", "projection"),
    [
        (bilsh.lsh_angle, bilsh.Dense),
        (bilsh.lsh_sik, bilsh.Dense),
        (bilsh.bilinear_angle, bilsh.Bilinear),
        (bilsh.blsh_sik, bilsh.Bilinear),
        (bilsh.circulant_angle, bilsh.Circulant),
        (bilsh.circulant_sik, bilsh.Circulant),
    ],
)
def test_presets_encode_and_take_the_seed(preset, projection):
    encoder = preset(49, random_state=3)
    assert isinstance(encoder.projection, projection)
    codes = encoder.fit(X).transform(X[:10])
    np.testing.assert_array_equal(codes, preset(49, random_state=3, n_jobs=2).fit(X).transform(X[:10]))
    if isinstance(encoder, bilsh.KernelEncoder):
        assert encoder.thresholds == "random"
        assert not encoder.quadrature_
        assert preset(49, bandwidth=5.0).fit(X).bandwidth_ == 5.0
