"""Small stores that workflow tests start from."""

import numpy as np
import pytest

from bilsh.workflows.ingest import Settings, encode


@pytest.fixture(scope="session")
def X():
    rng = np.random.default_rng(0)
    return (rng.normal(size=(6, 24)).repeat(50, axis=0) + 0.1 * rng.normal(size=(300, 24))).astype(np.float32)


@pytest.fixture
def store(tmp_path, X):
    """A store of 300 vectors that keeps them, made from x.npy beside it."""
    np.save(tmp_path / "x.npy", X)
    encode(tmp_path / "x.npy", tmp_path / "store", Settings(bits=200, batch=64, keep_vectors="float32"))
    return tmp_path / "store"


@pytest.fixture
def named(tmp_path, X):
    """The same with names for ids, without vectors."""
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "names.txt").write_text("".join(f"item {i}\n" for i in range(300)))
    encode(tmp_path / "x.npy", tmp_path / "named", Settings(bits=200, batch=64), ids=tmp_path / "names.txt")
    return tmp_path / "named"
