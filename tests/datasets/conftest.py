"""Where the real MNIST may lie: BILSH_MNIST, or a shared folder beside the repository."""

import os
from pathlib import Path

import pytest

# Read before any test changes the environment.
PLACES = [
    os.environ.get("BILSH_MNIST"),
    *(parent / "shared" / "data" / "mnist" for parent in Path(__file__).resolve().parents[2:4]),
]


@pytest.fixture
def real_mnist():
    for place in PLACES:
        if place and (Path(place) / "train-images-idx3-ubyte.gz").is_file():
            return Path(place)
    pytest.skip("MNIST is not here; set BILSH_MNIST to the folder with its four files to run this test")
