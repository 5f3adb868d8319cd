"""Settings of all tests: Hypothesis without time limits (machines differ) and without a database on disk; real data.

Real data lie in the folder that the variable BILSH_DATA names (`make` takes ../shared/data where there is one): mnist/
with its four files, flickr/ with photographs, vlad_codebook500.npy. Tests that need them skip where they are not.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("bilsh", deadline=None, database=None)
settings.load_profile("bilsh")

# Read before any test changes the environment.
DATA = os.environ.get("BILSH_DATA")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """Keep what is remembered between runs out of the user's cache; child processes get it too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BILSH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def data_folder():
    """Find a file or folder among the real data, or skip."""

    def find(name):
        if DATA and (Path(DATA) / name).exists():
            return Path(DATA) / name
        return pytest.skip(f"{name} is not here; set BILSH_DATA to the folder that holds it to run this test")

    return find


@pytest.fixture(scope="session")
def mnist_folder(data_folder):
    return data_folder("mnist")
