"""Combined intervals of bilinear codes: they cover near and far pairs, at lengths where the law's error rules."""

import numpy as np
import pytest

import bilsh
from bilsh import datasets
from bilsh.errors import InvalidInputError
from bilsh.estimates.calibration import calibration_of
from bilsh.estimates.intervals import wilson
from bilsh.estimates.spread import SignSpread, SpectrumSpread, combined_bits
from bilsh.theory.sign_covariance import sign_moments
from support import SEED

pytestmark = pytest.mark.filterwarnings("ignore::bilsh.EncoderAdvice")

DIGITS = datasets.digits().X.astype(np.float64)


def pairs(n, rng):
    """Near pairs (the closest of 300) and far ones (any)."""
    a, others = rng.integers(len(DIGITS), size=n), rng.integers(len(DIGITS), size=(n, 300))
    distance = np.linalg.norm(DIGITS[a][:, None] - DIGITS[others], axis=(2, 3))
    distance[distance == 0] = np.inf
    return a, others[np.arange(n), distance.argmin(axis=1)], others[:, 0]


def differing(encoder, a, b):
    codes = encoder.transform(DIGITS)
    return np.bitwise_count(codes[a] ^ codes[b]).sum(axis=1) / encoder.n_bits


@pytest.mark.parametrize("n_bits", [64, 512, pytest.param(8192, marks=pytest.mark.slow)])
def test_bilinear_angle(n_bits):
    """24 encoders, 150 pairs a stratum. Shares of encoders vary by .06 at most: 4 errors of the mean are 5 points."""
    rng = np.random.default_rng([SEED, n_bits])
    (a, near, far), shares = pairs(150, rng), []
    first, second, third = pairs(100, rng)
    for seed in range(24):
        encoder = bilsh.bilinear_angle(n_bits, random_state=100 * SEED + seed).fit(DIGITS)
        X = DIGITS - encoder.mean_
        if seed == 0:
            moments = sign_moments(X[np.r_[first, first]], X[np.r_[second, third]], n_draws=256)
            spread = SignSpread.of(moments, 256)
        row = []
        for b in (near, far):
            cosine = (X[a] * X[b]).sum(axis=(1, 2)) / np.linalg.norm(X[a], axis=(1, 2))
            angle = np.arccos(np.clip(cosine / np.linalg.norm(X[b], axis=(1, 2)), -1, 1))
            keep, f = angle > 0, differing(encoder, a, b)
            bits = combined_bits(f, spread.effective_bits(f, encoder.pairs_), spread.spread_at(f))
            low, high = wilson(f, bits, 1.96)
            inside = (spread.angle_at(low) <= angle) & (angle <= spread.angle_at(high))
            row.append(inside[keep].mean())
        shares.append(row)
    assert np.all(np.abs(np.mean(shares, axis=0) - 0.955) < 0.05), np.mean(shares, axis=0)


@pytest.mark.parametrize("n_bits", [512, pytest.param(8192, marks=pytest.mark.slow)])
def test_blsh_sik(n_bits):
    """16 encoders, near and far pairs apart; as above."""
    rng = np.random.default_rng([SEED, n_bits])
    (a, near, far), shares = pairs(150, rng), []
    first, second, third = pairs(100, rng)
    D = np.concatenate([DIGITS[first] - DIGITS[second], DIGITS[first] - DIGITS[third]])
    spectra = np.square(np.linalg.svd(D, compute_uv=False))
    for seed in range(16):
        encoder = bilsh.blsh_sik(n_bits, random_state=100 * SEED + seed).fit(DIGITS)
        calibration = calibration_of(encoder)
        if seed == 0:
            distances = np.sqrt(spectra.sum(axis=1)) / calibration.bandwidth
            spread = SpectrumSpread.of(
                spectra / np.maximum(spectra.sum(axis=1, keepdims=True), 1e-12),
                distances,
                calibration.shape,
                "random",
            )
        row = []
        for b in (near, far):
            f, distance = differing(encoder, a, b), np.linalg.norm(DIGITS[a] - DIGITS[b], axis=(1, 2))
            total = n_bits * f * (1 - f) + calibration.sharing.one * spread.covariance_at(f)
            bits = np.divide(
                n_bits**2 * f * (1 - f), total, out=np.full(f.shape, float(n_bits)), where=total > 0
            )
            low, high = wilson(f, combined_bits(f, bits, spread.spread_at(f)), 1.96)
            inside = (calibration.primary(low) <= distance) & (distance <= calibration.primary(high))
            row.append(inside[distance > 0].mean())
        shares.append(row)
    assert np.all(np.abs(np.mean(shares, axis=0) - 0.955) < 0.05), np.mean(shares, axis=0)


def test_law_of_sign_spread_inverts_and_is_symmetric():
    X = DIGITS[:200] - DIGITS.mean(axis=0)
    spread = SignSpread.of(sign_moments(X[:100], X[100:], n_draws=64), 64)
    fraction = np.linspace(0.01, 0.99, 50)
    np.testing.assert_allclose(spread.fraction_at(spread.angle_at(fraction)), fraction, atol=1e-3)
    np.testing.assert_allclose(spread.spread_at(fraction), spread.spread_at(fraction)[::-1], atol=1e-3)


def test_too_few_pairs():
    X = DIGITS[:8] - DIGITS.mean(axis=0)
    with pytest.raises(InvalidInputError, match="at least 16 pairs"):
        SignSpread.of(sign_moments(X[:4], X[4:], n_draws=16), 16)
    with pytest.raises(InvalidInputError, match="at least 16 pairs"):
        SpectrumSpread.of(np.ones((4, 2)) / 2, np.ones(4), np.ones(2) / 2, "zero")
