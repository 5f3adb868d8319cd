"""The smallest of each row: what a stable sort gives, whatever ties there are."""

import numpy as np
import pytest

from bilsh import _native
from support import SEED


@pytest.mark.parametrize("n", [1, 7, 255, 256, 600, 5000])
@pytest.mark.parametrize("kind", ["real", "ties", "equal", "ascending", "descending", "not numbers"])
def test_places_are_those_of_a_stable_sort(n, kind):
    rng = np.random.default_rng([SEED, n])
    values = {
        "real": rng.normal(size=(5, n)),
        "ties": rng.integers(0, 4, size=(5, n)).astype(np.float64),
        "equal": np.zeros((5, n)),
        "ascending": np.sort(rng.normal(size=(5, n)), axis=1),
        "descending": -np.sort(rng.normal(size=(5, n)), axis=1),
        "not numbers": np.where(rng.random((5, n)) < 0.5, np.nan, rng.normal(size=(5, n))),
    }[kind]
    expected = np.argsort(values, axis=1, kind="stable")
    for k in {0, 1, min(10, n), n // 2, n}:
        np.testing.assert_array_equal(_native.smallest(values, k), expected[:, :k])


def test_more_than_there_are():
    with pytest.raises(ValueError, match="k must be at most the number of columns, 3; got 4"):
        _native.smallest(np.zeros((2, 3)), 4)
