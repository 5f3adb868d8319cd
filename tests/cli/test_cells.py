"""index, search --recall, graph and duplicates, as typed."""

import numpy as np
import pytest

from cli.program import answer, bilsh


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells")
    rng = np.random.default_rng(0)
    X = 3 * rng.normal(size=(10, 30))[rng.integers(0, 10, 500)] + rng.normal(size=(500, 30))
    np.save(folder / "x.npy", X.astype(np.float32))
    np.save(folder / "q.npy", X[:3].astype(np.float32))
    bilsh("encode", folder / "x.npy", "-o", folder / "store", "--bits", 1024)
    return folder


def test_cells_from_the_command_line(place):
    store = place / "store"
    assert "too few for cells" in bilsh("index", store).stdout
    assert answer("index", store)["cells"] == 0
    made = answer("index", store, "--cells", 15)
    assert (made["cells"], made["items"]) == (15, 500)
    assert answer("info", store)["cells"] == 15
    found = answer("search", store, "--query", place / "q.npy", "-k", 2, "--recall", "0.9")
    assert [one["neighbors"][0]["id"] for one in found["results"]] == [0, 1, 2]
    assert found["promise"] is None or found["promise"]["target"] == 0.9
    assert answer("search", store, "--query", place / "q.npy")["promise"] is None
    wrong = bilsh("search", store, "--query", place / "q.npy", "--recall", "1.5", code=1)
    assert "recall must be" in wrong.stderr


def test_joins_from_the_command_line(place):
    store = place / "store"
    done = answer("graph", store, "-k", 3, "-o", place / "graph.npz")
    assert (done["items"], done["k"], done["resumed_at"]) == (500, 3, 0)
    with np.load(place / "graph.npz") as found:
        assert found["neighbors"].shape == (500, 3)
    done = answer("duplicates", store, "--within", 200, "-o", place / "pairs.npz")
    with np.load(place / "pairs.npz") as found:
        assert len(found["a"]) == done["pairs"] > 0
        assert found["distances"].max() <= done["within"] == 200
    assert "exists already" in bilsh("graph", store, "-o", place / "graph.npz", code=1).stderr
    bilsh("graph", store, "-o", place / "graph.npz", "--force", "--recall", "0.9")
    assert "either --within" in bilsh("duplicates", store, "-o", place / "other.npz", code=2).stderr
