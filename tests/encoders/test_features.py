"""Random Fourier features: eq. 3 and 9 number by number, and Lemma 1 for their mean product."""

import numpy as np
import pytest

import bilsh
from bilsh import theory
from reference import bilinear_form, dot, random_fourier_feature
from support import SEED, assert_mean, pair_with_spectrum

PAPER_BILINEAR = bilsh.Bilinear(orthogonal=False, scramble=False)


@pytest.mark.parametrize("projection", ["dense", PAPER_BILINEAR], ids=["dense", "bilinear"])
def test_features_are_the_papers_features(projection):
    X = np.random.default_rng(0).normal(size=(6, 4, 5))
    features = bilsh.RandomFourierFeatures(30, bandwidth=2.0, projection=projection, random_state=0).fit(X)
    encoder = features.encoder_
    found = features.transform(X)
    assert found.dtype == np.float32
    for row, x in enumerate(X):
        for r in range(30):
            if projection == "dense":
                u = dot(encoder.weights_[:, r], x.reshape(-1) / 2.0)
            else:
                i, j = encoder.pairs_[r]
                u = bilinear_form(encoder.left_weights_[:, i], x / 2.0, encoder.right_weights_[:, j])
            assert found[row, r] == pytest.approx(random_fourier_feature(u, encoder.offsets_[r]), abs=1e-4)


def test_mean_product_of_bilinear_features_is_kappa_b():
    """Lemma 1 over 400 independent draws of 100 features; notices an effect of 0.05."""
    spectrum = [0.7, 0.3]
    pair = np.stack(pair_with_spectrum(spectrum, shape=(5, 4), rng=SEED))
    products = []
    for i in range(400):
        features = bilsh.RandomFourierFeatures(
            100, bandwidth=1.0, projection=PAPER_BILINEAR, random_state=1000 * SEED + i
        )
        a, b = features.fit_transform(pair).astype(np.float64)
        products.append((a * b).mean())
    assert_mean(products, theory.bilinear_kernel(spectrum), detects=0.07)


def test_names_and_frames():
    X = np.random.default_rng(0).normal(size=(20, 6))
    features = bilsh.RandomFourierFeatures(3, random_state=0).set_output(transform="pandas").fit(X)
    assert list(features.transform(X).columns) == [f"randomfourierfeatures{i}" for i in range(3)]
