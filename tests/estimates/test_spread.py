"""Combined intervals of bilinear codes: they cover near and far pairs, at lengths where the law's error rules."""

from dataclasses import replace

import numpy as np
import pytest

import bilsh
from bilsh import datasets
from bilsh.errors import InvalidInputError
from bilsh.theory.sign_covariance import sign_moments
from bilsh.theory.spread import SignSpread, SpectrumSpread
from support import SEED

DIGITS = datasets.digits().X.astype(np.float64)


def pairs(n, rng):
    """Near pairs (the closest of 300) and far ones (any)."""
    a, others = rng.integers(len(DIGITS), size=n), rng.integers(len(DIGITS), size=(n, 300))
    distance = np.linalg.norm(DIGITS[a][:, None] - DIGITS[others], axis=(2, 3))
    distance[distance == 0] = np.inf
    return a, others[np.arange(n), distance.argmin(axis=1)], others[:, 0]


PRESETS = {"bilinear angle": bilsh.bilinear_angle, "blsh sik": bilsh.blsh_sik}


@pytest.mark.parametrize("n_bits", [64, 512, pytest.param(8192, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", PRESETS)
def test_pairs_are_covered_near_and_far(name, n_bits):
    """12 encoders, 150 pairs a stratum. Shares of encoders vary by .06 at most: 3 errors of the mean are 5 points."""
    a, near, far = pairs(150, np.random.default_rng([SEED, n_bits]))
    shares = []
    for seed in range(12):
        encoder = PRESETS[name](n_bits, random_state=100 * SEED + seed).fit(DIGITS)
        codes, row = encoder.transform(DIGITS), []
        for b in (near, far):
            truth = np.array(
                [encoder.coder_.exact(DIGITS[[i]], DIGITS[[j]])[0, 0] for i, j in zip(a, b, strict=True)]
            )
            low, high = bilsh.estimate(codes[a], codes[b], encoder).interval.T
            row.append(((low <= truth) & (truth <= high))[truth > 1e-6].mean())
        shares.append(row)
    assert np.all(np.abs(np.mean(shares, axis=0) - 0.955) < 0.05), np.mean(shares, axis=0)


def test_old_encoder_files_get_the_union():
    """Without a sample of spectra nothing is known of them: from flat to rank one, wider."""
    encoder = bilsh.blsh_sik(512, random_state=0).fit(DIGITS)
    codes = encoder.transform(DIGITS[:40])
    known = bilsh.estimate(codes[:20], codes[20:], encoder)
    unknown = bilsh.estimate(codes[:20], codes[20:], replace(encoder.coder_, spread=None))
    assert (unknown.interval[:, 0] < known.interval[:, 0]).all()
    assert (unknown.interval[:, 1] > known.interval[:, 1]).all()


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
