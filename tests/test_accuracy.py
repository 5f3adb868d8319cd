"""Retrieval accuracy: the reproduction lands where a correct one lands, and the defaults beat the paper's codes."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import bilsh
from bilsh import datasets, evaluation


def precision(encoder, images, truth):
    codes = encoder.fit(images).transform(images)
    ranking = evaluation.rank_codes(codes[truth.queries], codes[truth.database], truth.neighbors)
    return evaluation.mean_average_precision(ranking)


def mean_precision(make, images, repetitions, n_queries=300):
    values = []
    for seed in range(repetitions):
        truth = evaluation.ground_truth(images, n_queries=n_queries, rng=seed)
        values.append(precision(make(truth.threshold, seed), images, truth))
    return float(np.mean(values))


def test_the_order_of_methods_on_digits():
    """The paper's order, and ours above it. Gaps on digits at 128 bits are .07 or more, spreads about .01."""
    images = load_digits().images

    def measured(make):
        return mean_precision(make, images, repetitions=3, n_queries=100)

    bilinear = measured(lambda b, s: bilsh.blsh_sik(128, bandwidth=b, random_state=s))
    oversampled = measured(lambda b, s: bilsh.blsh_sik(128, oversampling=5, bandwidth=b, random_state=s))
    dense = measured(lambda b, s: bilsh.lsh_sik(128, bandwidth=b, random_state=s))
    ours = measured(lambda b, s: bilsh.KernelEncoder(128, bandwidth=b, random_state=s))
    assert bilinear < oversampled < dense < ours


@pytest.fixture(scope="module")
def mnist(mnist_folder):
    return datasets.mnist(mnist_folder).X.astype(np.float32)


PUBLISHED = {
    "dense": (0.652, 0.808, 0.880, 0.915),
    1: (0.510, 0.673, 0.763, 0.809),
    2: (0.553, 0.715, 0.801, 0.849),
    5: (0.579, 0.746, 0.830, 0.873),
    10: (0.605, 0.762, 0.840, 0.890),
}
"""Mean average precision on all of MNIST by the paper's protocol, at 400, 900, 1,600 and 2,500 bits."""


@pytest.mark.slow
@pytest.mark.parametrize("method", PUBLISHED)
def test_the_papers_methods_on_mnist(method, mnist):
    """Within 0.03 of known good values; the standard deviation over repetitions is about 0.01."""
    for n_bits, expected in zip((400, 900, 1600, 2500), PUBLISHED[method], strict=True):

        def make(bandwidth, seed, n_bits=n_bits):
            settings = {"bandwidth": bandwidth, "random_state": seed, "n_jobs": -1}
            if method == "dense":
                return bilsh.lsh_sik(n_bits, **settings)
            return bilsh.blsh_sik(n_bits, oversampling=method, **settings)

        assert mean_precision(make, mnist, repetitions=3) == pytest.approx(expected, abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(("n_bits", "expected", "dense"), [(400, 0.753, 0.659), (1600, 0.923, 0.888)])
def test_the_default_beats_dense_lsh_sik_on_mnist(n_bits, expected, dense, mnist):
    """Scrambled + orthogonal + zero thresholds on 20,000 images, within 0.02 of the known value."""
    subset = mnist[np.random.default_rng(0).choice(len(mnist), 20_000, replace=False)]
    ours = mean_precision(
        lambda b, s: bilsh.KernelEncoder(n_bits, bandwidth=b, quadrature=False, random_state=s), subset, 3
    )
    assert ours == pytest.approx(expected, abs=0.02)
    assert (
        mean_precision(lambda b, s: bilsh.KernelEncoder(n_bits, bandwidth=b, random_state=s), subset, 3)
        > dense
    )


ASYMMETRIC = {
    32: (0.546, 0.558),
    64: (0.684, 0.684),
    98: (0.755, 0.750),
    128: (0.778, 0.791),
    200: (0.821, 0.856),
}
"""Recall@10 of asymmetric queries on all of MNIST by bytes per code: one bit per projection, and quadrature."""


@pytest.mark.slow
@pytest.mark.parametrize("quadrature", [False, True])
@pytest.mark.parametrize("n_bytes", ASYMMETRIC)
def test_asymmetric_recall_on_mnist(n_bytes, quadrature, mnist):
    """Mean of three encoders and query sets, not more than 0.01 below the known value; its standard error is 0.004."""
    values = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(mnist))
        queries, items = mnist[order[:500]], mnist[order[500:]]
        encoder = bilsh.KernelEncoder(8 * n_bytes, quadrature=quadrature, random_state=seed, n_jobs=-1).fit(
            items
        )
        index = bilsh.Index(encoder.transform(items), encoder)
        found = index.search(queries, k=10, mode="asymmetric", n_jobs=-1).ids
        values.append(evaluation.recall_of_ids(found, evaluation.exact_neighbors(queries, items, 10)[0]))
    assert np.mean(values) > ASYMMETRIC[n_bytes][quadrature] - 0.01
