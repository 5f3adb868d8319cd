"""One small store that most tests start from a copy of."""

import shutil

import numpy as np
import pytest

from cli.program import answer


@pytest.fixture(scope="session")
def vectors():
    rng = np.random.default_rng(0)
    return (rng.normal(size=(6, 24)).repeat(50, axis=0) + 0.1 * rng.normal(size=(300, 24))).astype(np.float32)


@pytest.fixture(scope="session")
def made(tmp_path_factory, vectors):
    """A folder with x.npy and the store that `bilsh encode` makes of it in several batches."""
    folder = tmp_path_factory.mktemp("made")
    np.save(folder / "x.npy", vectors)
    told = answer(
        "encode", "x.npy", "-o", "store", "--bits", 200, "--batch", 64, "--keep-vectors", cwd=folder
    )
    assert told["added"] == told["items"] == 300
    return folder


@pytest.fixture
def place(made, tmp_path):
    shutil.copytree(made, tmp_path / "place", copy_function=shutil.copy2)
    return tmp_path / "place"
