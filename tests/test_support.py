"""The statistical helpers do what they promise: they fail for wrong means, and for tests that cannot fail."""

import numpy as np
import pytest

from bilsh.theory import spectrum_of
from support import assert_mean, assert_proportion, pair_with_spectrum, rng_from


def test_mean_is_accepted_and_refused():
    samples = rng_from(0).normal(0.3, 0.1, size=10_000)
    assert_mean(samples, 0.3, detects=0.01)
    with pytest.raises(AssertionError, match="off by"):
        assert_mean(samples, 0.31, detects=0.01)


def test_a_test_without_power_fails_itself():
    samples = rng_from(0).normal(size=1000)
    with pytest.raises(AssertionError, match="use more samples"):
        assert_mean(samples, 0.0, detects=0.01)
    with pytest.raises(AssertionError, match="miss an effect"):
        assert_proportion(500, 1000, 0.5, detects=0.01)
    with pytest.raises(AssertionError, match="too few"):
        assert_mean(samples[:10], 0.0, detects=10)


def test_proportion_is_accepted_and_refused():
    assert_proportion(30_100, 100_000, 0.3, detects=0.02)
    with pytest.raises(AssertionError, match="outside"):
        assert_proportion(31_000, 100_000, 0.3, detects=0.02)


def test_pair_has_its_spectrum():
    X, Y = pair_with_spectrum([0.9, 0.4, 0.1], shape=(5, 4), rng=1)
    np.testing.assert_allclose(spectrum_of(X, Y)[:3], [0.9, 0.4, 0.1], rtol=1e-12)
    with pytest.raises(ValueError, match="at most 2"):
        pair_with_spectrum([1, 1, 1], shape=(2, 9))
