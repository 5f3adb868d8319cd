"""The plain descriptor, functions of users, and the look at a folder that chooses between descriptors."""

import pickle

import cv2
import numpy as np
import pytest

from bilsh import descriptors
from bilsh.datasets.images import SkippedImage, images, read_color, read_gray
from bilsh.descriptors import HogColor, UserFunction, choose_descriptor, named_descriptor
from bilsh.errors import InvalidInputError


def picture(seed, size=(60, 80)):
    """Draw coloured blobs and bars, the same for the same seed."""
    rng = np.random.default_rng(seed)
    image = np.full((*size, 3), 90, np.uint8)
    for _ in range(12):
        x, y, r = int(rng.integers(size[1])), int(rng.integers(size[0])), int(rng.integers(3, 12))
        color = [int(v) for v in rng.integers(0, 256, 3)]
        if rng.random() < 0.5:
            cv2.circle(image, (x, y), r, color, -1)
        else:
            cv2.rectangle(image, (x, y), (x + r, y + 2 * r), color, -1)
    return image


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "photos"
    root.mkdir()
    for i in range(12):
        cv2.imwrite(str(root / f"{i:02}.png"), picture(i))
    return root


def test_colours_are_read_red_first(tmp_path):
    cv2.imwrite(str(tmp_path / "red.png"), np.full((40, 80, 3), (0, 0, 255), np.uint8))
    image = read_color(tmp_path / "red.png", 20)
    assert image.shape == (10, 20, 3)
    assert image[0, 0].tolist() == [255, 0, 0]
    assert read_gray(tmp_path / "red.png").shape == (40, 80)
    (tmp_path / "no.png").write_bytes(b"no image")
    assert isinstance(read_color(tmp_path / "no.png"), SkippedImage)


def test_edges_and_colours_have_their_lengths():
    X = HogColor(color_weight=0.5).compute(picture(0))
    assert X.shape == HogColor().shape == (76, 12)
    assert X.dtype == np.float32
    colors = X[:64, 9:]
    assert np.linalg.norm(colors) == pytest.approx(0.5, abs=1e-5)
    assert np.linalg.norm(X) ** 2 - 0.25 == pytest.approx(1, abs=1e-5)
    assert not HogColor(color_weight=0).compute(picture(0))[:64, 9:].any()


def test_a_vertical_edge_has_one_direction():
    image = np.zeros((64, 64, 3), np.uint8)
    image[:, 32:] = 255
    X = HogColor().compute(image)
    fine, coarse = X[:64, :9], X[64:].reshape(16, 9)
    for grid, side in ((fine, 8), (coarse, 4)):
        assert grid[:, 0].sum() > 0
        np.testing.assert_array_equal(grid[:, 1:], 0)
        rows = grid[:, 0].reshape(side, side)
        np.testing.assert_allclose(rows, np.broadcast_to(rows[0], rows.shape), rtol=1e-5)
        assert rows[0].argmax() in (side // 2 - 1, side // 2)


def test_size_and_contrast_change_little_and_other_pictures_much():
    X = [HogColor().compute(picture(i)).ravel() for i in range(5)]
    larger = HogColor().compute(cv2.resize(picture(0), None, fx=2, fy=2)).ravel()
    darker = HogColor().compute((picture(0) * 0.6).astype(np.uint8)).ravel()
    others = min(np.linalg.norm(X[0] - x) for x in X[1:])
    assert np.linalg.norm(X[0] - larger) < others / 2
    assert np.linalg.norm(X[0] - darker) < others / 2
    assert np.isfinite(HogColor().compute(np.zeros((5, 9, 3), np.uint8))).all()


@pytest.mark.parametrize("wrong", [{"side": 8}, {"side": 40}, {"color_weight": -1.0}])
def test_wrong_sizes_are_refused(wrong):
    with pytest.raises(InvalidInputError, match="must be a"):
        HogColor(**wrong)


def test_a_function_of_the_user_describes_colours(folder, tmp_path, monkeypatch):
    (tmp_path / "ownnet.py").write_text(
        "import numpy as np\n"
        "def means(image):\n"
        "    return None if image.max() < 5 else image.reshape(-1, 3).mean(axis=0)\n"
        "def grid(image):\n"
        "    return np.zeros((2, 5))\n"
        "def words(image):\n"
        "    return ['a']\n"
        "def hole(image):\n"
        "    return [np.nan]\n"
        "def any_size(image):\n"
        "    return image[0, :, 0]\n"
        "number = 7\n"
    )
    monkeypatch.chdir(tmp_path)
    descriptor = UserFunction("ownnet:means")
    assert descriptor.shape == (1, 3)
    assert UserFunction("ownnet:grid").shape == (2, 5)
    assert pickle.loads(pickle.dumps(descriptor)) == descriptor  # worker processes get it by name
    result = descriptors.describe(folder, descriptor)
    means = [picture(i)[..., ::-1].reshape(-1, 3).mean(axis=0) for i in range(12)]
    np.testing.assert_allclose(result.X[:, 0], means, rtol=1e-5)
    assert descriptor.compute(np.zeros((4, 4, 3), np.uint8)) is None
    for name, message in {
        "ownnet": "named as module:function",
        "ownnet:": "named as module:function",
        "ownnet:nothing": "has no function nothing",
        "ownnet:number": "has no function number",
        "no_such_module:f": "must be installed, or lie in the current folder",
        "ownnet:words": "must return numbers",
        "ownnet:hole": "NaN",
    }.items():
        with pytest.raises(InvalidInputError, match=message):
            UserFunction(name)
    with pytest.raises(InvalidInputError, match="as many for every image"):
        UserFunction("ownnet:any_size").compute(picture(0))


def test_descriptors_by_name():
    assert named_descriptor("hog-color") == HogColor()
    assert named_descriptor("hog", side=32) == descriptors.Hog(32)
    assert named_descriptor("hog") == descriptors.Hog(128)  # as stores without a side were made
    assert named_descriptor("pixels", side=8) == descriptors.Pixels(8, 8)
    book = np.zeros((4, 128), np.float32)
    assert isinstance(named_descriptor("vlad", codebook=book), descriptors.Vlad)
    for name in ("vlad", "gist", "module:function"):
        with pytest.raises(InvalidInputError, match="describe must be"):
            named_descriptor(name)


def test_copies_decide_where_there_are_no_classes(folder):
    seen = []
    choice = choose_descriptor(folder, progress=lambda *at: seen.append(at))
    assert choice.name in ("hog-color", "hog", "vlad")
    assert choice.precision[choice.name] >= max(choice.precision.values()) - 0.02
    assert choice.images == 12
    assert "a cut copy finds its original" in choice.reason
    assert "else --describe" in choice.lines()[1]
    assert {"learning the codebook", "looking at descriptors"} <= {what for what, _, _ in seen}
    again = choose_descriptor(folder)
    assert (again.name, again.precision) == (choice.name, choice.precision)


def test_sub_folders_are_classes(tmp_path):
    # Two classes that differ in where the edges are, not in colour.
    for i in range(16):
        kind = "upright" if i % 2 else "level"
        (tmp_path / kind).mkdir(exist_ok=True)
        image = np.random.default_rng(i).integers(0, 60, (64, 64, 3), dtype=np.uint8)
        at = 20 + i
        image[(slice(None), slice(at, at + 6)) if i % 2 else (slice(at, at + 6), slice(None))] = 255
        cv2.imwrite(str(tmp_path / kind / f"{i}.png"), image)
    choice = choose_descriptor(tmp_path)
    assert "same sub-folder" in choice.reason
    assert choice.precision["hog-color"] == 1
    assert (choice.name, choice.options, choice.side) == ("hog-color", "--describe hog-color --side 64", 64)
    assert choice.centers is None
    assert choice.codebook is None


def test_a_named_descriptor_is_not_questioned(folder):
    choice = choose_descriptor(folder, "vlad", centers=4)
    assert (choice.reason, choice.precision) == ("asked for", {})
    assert choice.centers == 4
    assert choice.codebook.shape == (4, 128)
    assert choice.options == "--describe vlad --centers 4"
    assert choose_descriptor(images(folder), "pixels").options == "--describe pixels"


def test_few_images_and_images_without_features(tmp_path):
    for i in range(3):
        cv2.imwrite(str(tmp_path / f"{i}.png"), picture(i))
    assert choose_descriptor(tmp_path).reason == "too few images to compare"
    for i in range(6):
        cv2.imwrite(str(tmp_path / f"{i}.png"), np.full((40, 40, 3), 40 * i, np.uint8))
    assert "vlad" not in choose_descriptor(tmp_path).precision
