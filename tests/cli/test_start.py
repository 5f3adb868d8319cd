"""What the program loads before it answers: imports are most of the time of a query."""

import subprocess
import sys

import pytest

from cli.program import plain

HEAVY = ("sklearn", "scipy", "joblib", "pandas", "matplotlib", "pyarrow", "h5py", "faiss", "rich")


@pytest.mark.parametrize(
    "arguments", [["search", "store", "--id", "7"], ["info", "store"], ["delete", "store", "7"]]
)
def test_quick_commands_load_nothing_heavy(place, arguments):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "bilsh.cli", *arguments],
        cwd=place, capture_output=True, text=True, check=True, env=plain(),
    )  # fmt: skip
    loaded = {
        line.rsplit("|", 1)[1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line
    }
    assert "numpy" in loaded
    assert not loaded & set(HEAVY)


WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("sklearn", "scipy", "joblib", "threadpoolctl"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import numpy as np
import bilsh

X = np.load("x.npy")
with bilsh.Store.open("store", mode="a") as store:
    store.add(X[:3])
    for mode in ("auto", "hamming", "progressive", "asymmetric"):
        assert store.search(X[:2], k=2, mode=mode).interval.shape == (2, 2, 2)
    assert store.search(ids=[5], k=2, rerank=True).ids.shape == (1, 2)
    store.delete([1])
    store.compact()
    store.verify(deep=True)
    codes = store.coder.encode(X)
    assert bilsh.Index(codes, store.coder).search(X[:2], k=1).ids.tolist() == [[0], [1]]
"""


def test_searching_and_adding_work_where_scikit_learn_and_scipy_are_not_installed(place):
    subprocess.run([sys.executable, "-c", WITHOUT], cwd=place, check=True)
