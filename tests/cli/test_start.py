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
