"""Combined intervals, the default ones of pairs: they cover near and far pairs, also where the law's error rules."""

from dataclasses import replace

import numpy as np
import pytest

import bilsh
from bilsh import datasets
from bilsh.errors import InvalidInputError
from bilsh.theory.sign_covariance import sign_moments
from bilsh.theory.spread import SignSpread, SpectrumSpread
from hit_coverage import cell, load, summary
from pair_coverage import PRESETS, covered, pairs
from support import SEED

DIGITS = datasets.digits().X.astype(np.float64)


def often(preset, n_bits):
    """Whether a case runs each time: codes that share vectors, and the default one where only its spread counts."""
    return (n_bits <= 512 and preset.startswith(("bilinear", "blsh"))) or (preset, n_bits) == (
        "AngleEncoder",
        8192,
    )


@pytest.mark.parametrize(
    ("preset", "n_bits"),
    [
        pytest.param(preset, n_bits, marks=[] if often(preset, n_bits) else [pytest.mark.slow])
        for preset in PRESETS
        for n_bits in (64, 512, 8192)
    ],
)
def test_pairs_are_covered_near_and_far(preset, n_bits):
    """12 encoders, 150 pairs a stratum. Shares of encoders vary by .06 at most: 3 errors of the mean are 5 points.

    Those of KernelEncoder vary by up to .12, since all of its pairs share one gain: 48 encoders.
    """
    seeds = range(100 * SEED, 100 * SEED + (48 if preset == "KernelEncoder" else 12))
    shares = covered(DIGITS, preset, n_bits, seeds, np.random.default_rng([SEED, n_bits])).mean(axis=0)
    assert np.all(np.abs(shares[:2] - 0.955) < 0.05), shares


@pytest.mark.slow
@pytest.mark.parametrize("n_bits", [512, 2048, 8192])
@pytest.mark.parametrize("preset", [preset for preset in PRESETS if preset != "KernelEncoder"])
def test_pairs_are_covered_on_mnist(preset, n_bits, mnist_folder):
    """As above with 6 encoders: 3 errors of the mean are 7 points; what was there before is 20 to 80 off."""
    seeds = range(100 * SEED, 100 * SEED + 6)
    X = load("MNIST").astype(np.float64)
    shares = covered(X, preset, n_bits, seeds, np.random.default_rng([SEED, n_bits])).mean(axis=0)
    assert np.all(np.abs(shares[:2] - 0.955) < 0.07), shares


@pytest.mark.slow
@pytest.mark.parametrize("n_bits", [64, 512, 2048, 8192])
@pytest.mark.parametrize("kind", ["bilinear-angle", "blsh-sik", "blsh-sik-5"])
@pytest.mark.parametrize("data", ["digits", "MNIST"])
def test_hits_of_presets_are_covered(data, kind, n_bits, data_folder):
    """Ranks 1 and 10 of 400 queries, two encoders: 93 to 99 % give or take 3 points, the error of two samples."""
    if data == "MNIST":
        data_folder("mnist")
    n_items = 1000 if data == "digits" else 20_000
    cells = [cell(load(data), kind, n_bits, "hamming", n_items, 10 * SEED + i) for i in range(2)]
    wide = summary(cells)[0]
    assert np.all((wide > 93 - 3) & (wide < 99 + 0.9)), wide


def test_bits_needed_keeps_its_word_for_bilinear_signs():
    """All of 200 pairs within .1 for each of 12 encoders: the bound errs once in 20 encoders, far less in truth."""
    a, near, far = pairs(DIGITS, 100, np.random.default_rng([SEED, 5]))
    first, second = DIGITS[np.concatenate([a, a])], DIGITS[np.concatenate([near, far])]
    n_bits = bilsh.bits_needed(0.1, 0.95, 200, encoder=bilsh.bilinear_angle(256, random_state=0).fit(DIGITS))
    assert n_bits > 2 * bilsh.bits_needed(0.1, 0.95, 200)  # what independent bits would need
    seen = []
    for seed in range(12):
        encoder = bilsh.bilinear_angle(n_bits, random_state=100 * SEED + seed).fit(DIGITS[:100])
        mismatch = encoder.transform(first) ^ encoder.transform(second)
        seen.append(np.bitwise_count(mismatch).sum(axis=1) / n_bits)
    deviation = np.abs(np.array(seen) - np.mean(seen, axis=0)).max(axis=1)
    assert (deviation > 0.1).sum() <= 1, deviation


@pytest.mark.parametrize("kind", [bilsh.AngleEncoder, bilsh.KernelEncoder])
def test_the_spread_of_default_codes_widens_pairs_and_leaves_hits_alone(kind, monkeypatch, tmp_path):
    """It is drawn beside what a fit samples for hits, and kept in the encoder's file."""
    encoder = kind(512, random_state=SEED).fit(DIGITS[:300])
    monkeypatch.setattr("bilsh.encoders.estimators.SMALL", 0)
    without = kind(512, random_state=SEED).fit(DIGITS[:300])
    np.testing.assert_array_equal(encoder.coder_.hits.to_array(), without.coder_.hits.to_array())
    codes = encoder.transform(DIGITS[:50])
    told, plain = (bilsh.estimate(codes[:1], codes[1:], one) for one in (encoder, without))
    np.testing.assert_array_equal(told.sampling_interval, plain.sampling_interval)
    assert np.all(np.diff(told.interval) > np.diff(plain.interval))
    encoder.save(tmp_path / "encoder.npz")
    again = bilsh.load_encoder(tmp_path / "encoder.npz")
    np.testing.assert_array_equal(bilsh.estimate(codes[:1], codes[1:], again).interval, told.interval)


def test_old_encoder_files_get_the_union():
    """Without a sample of spectra nothing is known of them: from flat to rank one, wider."""
    encoder = bilsh.blsh_sik(512, random_state=0).fit(DIGITS)
    codes = encoder.transform(DIGITS[:40])
    known = bilsh.estimate(codes[:20], codes[20:], encoder)
    unknown = bilsh.estimate(codes[:20], codes[20:], replace(encoder.coder_, spread=None))
    wider = unknown.interval[:, 1] - unknown.interval[:, 0] >= known.interval[:, 1] - known.interval[:, 0]
    assert (wider | np.isinf(known.interval[:, 1])).all()
    identified = unknown.identification_interval
    assert (unknown.interval[:, 0] <= identified[:, 0]).all()
    assert (unknown.interval[:, 1] >= identified[:, 1]).all()


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
