"""Generated data have the spectrum and the clusters that were asked for."""

import numpy as np
import pytest

from bilsh import datasets
from bilsh.errors import InvalidInputError


def spectra(D):
    return np.linalg.eigvalsh(D @ D.transpose(0, 2, 1))[:, ::-1]


@pytest.mark.parametrize("shape", [(5, 7), (7, 5), (3, 3)])
@pytest.mark.parametrize("spectrum", [[0.8], [0.5, 0.3, 0.1], [0.2, 0.2, 0.2]])
def test_pairs_have_exactly_the_spectrum(shape, spectrum):
    X, Y = datasets.synthetic_pairs(6, shape, spectrum, rng=0)
    wanted = np.zeros(shape[0])
    wanted[: len(spectrum)] = spectrum
    np.testing.assert_allclose(spectra(X - Y), np.tile(wanted, (6, 1)), atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_matrices_differ_by_the_spectrum_on_average(seed):
    spectrum = np.array([0.9, 0.4, 0.1])
    X = datasets.synthetic_matrices(20_000, (6, 9), spectrum, rng=seed).astype(np.float64)
    D = X[::2] - X[1::2]
    assert np.linalg.matrix_rank(D[:50], tol=1e-5).max() == 3
    # Mean of 10,000 values lambda_j * chi-square(1): relative standard error sqrt(2 / 10,000) = 0.0142.
    # Bounds at 5.1 standard errors fail wrongly less than once in a million and detect errors of 10 %.
    mean = np.linalg.eigvalsh(np.einsum("npq,nrq->pr", D, D) / len(D))[::-1]
    np.testing.assert_allclose(mean[:3], spectrum, rtol=5.1 * 0.0142)
    np.testing.assert_allclose(mean[3:], 0, atol=1e-6)


def test_same_seed_same_data():
    for make in (
        lambda rng: datasets.synthetic_matrices(3, (4, 4), [1.0], rng),
        lambda rng: datasets.synthetic_pairs(3, (4, 4), [1.0], rng)[1],
        lambda rng: datasets.clustered(9, 3, rng=rng)[0],
    ):
        np.testing.assert_array_equal(make(1), make(1))
        assert not np.array_equal(make(1), make(2))


def test_clustered_vectors_lie_near_their_own_centre():
    X, labels = datasets.clustered(400, 32, n_clusters=4, spread=0.1, rng=0)
    assert X.dtype == np.float32
    centres = np.stack([X[labels == c].mean(axis=0) for c in range(4)])
    nearest = np.linalg.norm(X[:, None] - centres, axis=2).argmin(axis=1)
    np.testing.assert_array_equal(nearest, labels)


@pytest.mark.parametrize(
    "call",
    [
        lambda: datasets.synthetic_matrices(0, (3, 3), [1.0]),
        lambda: datasets.synthetic_matrices(2, (3,), [1.0]),
        lambda: datasets.synthetic_matrices(2, (3, 3), [1.0] * 4),
        lambda: datasets.synthetic_matrices(2, (3, 3), []),
        lambda: datasets.synthetic_pairs(2, (3, 3), [-1.0]),
        lambda: datasets.synthetic_pairs(2, (3, 3), [np.nan]),
        lambda: datasets.clustered(5, 0),
        lambda: datasets.clustered(5, 2, spread=float("nan")),
    ],
)
def test_impossible_requests_are_refused(call):
    with pytest.raises(InvalidInputError, match=r"[Nn]eed|spectrum must"):
        call()
