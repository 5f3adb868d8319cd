"""index, search --recall, graph and duplicates, as typed."""

import signal
import subprocess
import sys

import numpy as np
import pytest

from bilsh import Store
from cli.program import answer, bilsh, plain
from support import clustered_codes


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


@pytest.fixture
def large(tmp_path):
    """A store of 20,000 codes, which joins take in at least three parts."""
    with Store.create(tmp_path / "store", n_bits=256) as store:
        store.add_codes(clustered_codes(20_000, 32, 0, n_groups=300))
    return tmp_path


# The command, which kills itself right before it does `event` to a file of that name: the same moment on every machine.
KILLED = """
import fnmatch, os, runpy, signal, sys
event, name = sys.argv[1:3]
del sys.argv[1:3]
def look(what, about):
    if what == event and any(isinstance(part, str) and fnmatch.fnmatch(part, name) for part in about):
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(look)
runpy.run_module("bilsh.cli", run_name="__main__")
"""


def killed(folder, arguments, event, name):
    command = [sys.executable, "-c", KILLED, event, name, *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=plain(), capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize(
    "command", [("graph", "-k", 3), ("duplicates", "--within", 25)], ids=["graph", "pairs"]
)
def test_joins_that_were_killed_go_on(large, command):
    bilsh("index", "store", "--cells", 60, cwd=large)
    bilsh(command[0], "store", *command[1:], "-o", "whole.npz", cwd=large)
    arguments = (command[0], "store", *command[1:], "-o", "again.npz")

    for number in (1, 2):
        killed(large, arguments, "os.rename", f"*/{number:08}.npz")
        assert not (large / "again.npz").exists()
        assert len(list((large / "again.npz.parts").glob("0*.npz"))) == number
    assert answer(*arguments, cwd=large)["resumed_at"] == 2
    with np.load(large / "whole.npz") as one, np.load(large / "again.npz") as other:
        assert sorted(one.files) == sorted(other.files)
        assert all(np.array_equal(one[name], other[name]) for name in one.files)
    assert not (large / "again.npz.parts").exists()


@pytest.mark.parametrize(("event", "name"), [("open", "c-*.cal"), ("os.link", "m-*.json")])
def test_an_index_that_was_killed_is_made_again(large, event, name):
    before = answer("info", "store", cwd=large)
    files = set((large / "store").iterdir())
    killed(large, ("index", "store", "--cells", 60), event, name)
    assert set((large / "store").iterdir()) - files
    bilsh("verify", "store", cwd=large)
    after = answer("info", "store", cwd=large)
    assert (after["items"], after["cells"], after["version"]) == (before["items"], 0, before["version"])
    assert answer("index", "store", "--cells", 60, cwd=large)["cells"] == 60
    bilsh("verify", "store", cwd=large)
    assert answer("info", "store", cwd=large)["items"] == 20_000
