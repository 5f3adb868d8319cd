"""A folder of images: order, shrinking, and files that cannot be read."""

import sys

import cv2
import numpy as np
import pytest

from bilsh import datasets
from bilsh.errors import DataNotFoundError, InvalidInputError, MissingPackageError


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "sub").mkdir()
    for name, shape in {"b.png": (20, 30), "a.PNG": (40, 10), "sub/ünïcode c.jpg": (16, 16, 3)}.items():
        ok, data = cv2.imencode(".png", rng.integers(0, 256, shape, dtype=np.uint8))
        assert ok
        (tmp_path / name).write_bytes(data.tobytes())
    (tmp_path / "broken.jpg").write_bytes(b"not an image")
    (tmp_path / "empty.jpg").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("no image")
    return tmp_path


def test_images_come_sorted_and_bad_ones_are_named(folder):
    found = datasets.images(folder)
    assert len(found) == 5
    assert [(p.name, im.shape) for p, im in found] == [
        ("a.PNG", (40, 10)),
        ("b.png", (20, 30)),
        ("ünïcode c.jpg", (16, 16)),
    ]
    assert {s.path.name: s.reason for s in found.skipped} == {
        "broken.jpg": "not an image of a known kind",
        "empty.jpg": "empty file",
    }
    assert len(list(found)) == 3
    assert len(found.skipped) == 2


def test_larger_images_are_shrunk(folder):
    shapes = [im.shape for _, im in datasets.images(folder, max_side=20, recursive=False)]
    assert shapes == [(20, 5), (13, 20)]


def test_a_file_that_vanished_is_skipped(folder):
    found = datasets.images(folder)
    (folder / "b.png").unlink()
    assert len(list(found)) == 2
    assert "No such file" in {s.path.name: s.reason for s in found.skipped}["b.png"]


def test_wrong_folders_are_explained(tmp_path):
    with pytest.raises(DataNotFoundError, match="is not a folder"):
        datasets.images(tmp_path / "none")
    with pytest.raises(DataNotFoundError, match="holds no images"):
        datasets.images(tmp_path)
    with pytest.raises(InvalidInputError, match="at least 1 pixel"):
        datasets.images(tmp_path, max_side=0)


def test_missing_opencv_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(MissingPackageError, match=r"opencv-python-headless.*bilsh\[images\]"):
        list(datasets.images(folder))
