"""What a stored bit says about the distance, given the query's phase."""

import numpy as np
import pytest

import bilsh
from bilsh.encoders.likelihood import BitLikelihood
from bilsh.projections.kernels import GAUSSIAN


def likelihood_of(encoder):
    return encoder.coder_.calibration._likelihood


@pytest.mark.parametrize("thresholds", ["zero", "random"])
def test_bits_follow_the_probabilities_that_scores_are_made_of(thresholds):
    """P[h = 1 | u] against simulated differences of a known length, in 20,000 bits: within 4 standard errors."""
    rng = np.random.default_rng(0)
    X = np.zeros((1, 6))
    encoder = bilsh.KernelEncoder(
        n_bits=20_000,
        bandwidth=1.0,
        quadrature=False,
        thresholds=thresholds,
        projection="dense",
        random_state=0,
    ).fit(np.vstack([X, X + 1]))
    D = rng.normal(size=6)
    bits = bilsh.unpack(encoder.transform(D / np.linalg.norm(D)[None] * 1.3 + X), 20_000)[0]
    alpha = np.arccos(-encoder.thresholds_)
    p = likelihood_of(encoder)._probability(encoder.phases(X)[0].astype(float), alpha, None, 1.3)
    for low, high in ((0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1)):
        inside = (p >= low) & (p < high)
        if inside.sum() > 100:
            error = np.sqrt((p * (1 - p))[inside].sum()) / inside.sum()
            assert abs(bits[inside].mean() - p[inside].mean()) < 6 * error


@pytest.mark.parametrize("thresholds", ["zero", "random"])
def test_bits_of_bilinear_codes_follow_the_lengths_of_their_vectors(thresholds):
    """20,000 bits of two items, 28 for each left vector: the lengths explain them by more than 5 standard errors."""
    rng = np.random.default_rng(0)
    X = np.zeros((1, 24, 24))
    encoder = bilsh.KernelEncoder(
        n_bits=20_000,
        bandwidth=1.0,
        quadrature=False,
        thresholds=thresholds,
        projection=bilsh.Bilinear(oversampling=5),
        random_state=0,
    ).fit(np.concatenate([X, X + 1]))
    D = rng.normal(size=X.shape)
    bits = bilsh.unpack(encoder.transform(1.3 * D / np.linalg.norm(D)), 20_000)[0]
    alpha = np.arccos(-encoder.thresholds_)
    u = encoder.phases(X)[0].astype(float)
    lengths = encoder.projection_.lengths(encoder.outputs_)
    assert np.mean(np.square(lengths)) == pytest.approx(1, rel=0.05)
    known, unknown = (likelihood_of(encoder)._probability(u, alpha, s, 1.3) for s in (lengths, None))
    likelihoods = [np.log(np.where(bits, p, 1 - p)) for p in (known, unknown)]
    gain = likelihoods[0] - likelihoods[1]
    assert gain.mean() > 5 * gain.std() / np.sqrt(len(gain))


def test_lengths_are_used_only_where_they_tell_the_phase():
    X = np.random.default_rng(0).normal(size=(50, 6, 6))
    scrambled, paper = (
        bilsh.KernelEncoder(36, random_state=0).fit(X),
        bilsh.blsh_sik(36, random_state=0).fit(X),
    )
    assert likelihood_of(scrambled)._lengths is not None
    assert likelihood_of(paper)._lengths is None
    assert paper.projection_.lengths(paper.outputs_) is not None
    dense = bilsh.AngleEncoder(36, projection="dense", random_state=0).fit(X)
    assert dense.projection_.lengths(dense.outputs_) is None


def test_weights_of_a_prefix_are_those_of_angle_codes():
    X = np.random.default_rng(0).normal(size=(50, 6, 6))
    encoder = bilsh.AngleEncoder(36, random_state=0).fit(X)
    short = encoder.truncated(10)
    weights, prefix = (
        e.coder_.calibration.score_weights(e.coder_.values(X[:3]))[0] for e in (encoder, short)
    )
    np.testing.assert_allclose(prefix, weights[:, :10], rtol=1e-5)


def test_bits_without_lengths_share_one_curve():
    level, curves = BitLikelihood(GAUSSIAN, np.full(5, np.pi / 2), None)._levels()
    assert level.tolist() == [0] * 5
    assert curves == [None]


def test_bits_are_grouped_by_length():
    level, curves = BitLikelihood(GAUSSIAN, np.full(3, np.pi / 2), np.array([2.0, 1.0, 3.0]))._levels()
    assert level.tolist() == [1, 0, 2]
    assert curves == [1.0, 2.0, 3.0]
    lengths = np.random.default_rng(0).uniform(0.5, 2, 1000)
    level, curves = BitLikelihood(GAUSSIAN, np.full(1000, np.pi / 2), lengths)._levels()
    assert np.abs(np.array(curves)[level] - lengths).max() < 1.5 / 16
