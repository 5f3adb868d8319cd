"""Folders of images, as a user has them."""

import numpy as np
import pytest

from cli.program import answer, bilsh, complaint

cv2 = pytest.importorskip("cv2")


@pytest.fixture
def photos(tmp_path):
    rng = np.random.default_rng(2)
    folder = tmp_path / "photos"
    (folder / "trip").mkdir(parents=True)
    for number in range(8):
        image = cv2.resize(rng.integers(0, 255, (12, 12), np.uint8), (96, 96), interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(str(folder / ("trip" if number % 2 else ".") / f"{number}.png"), image)
    (folder / "broken.jpg").write_bytes(b"this is text")
    return tmp_path


def test_photographs_by_vlad(photos):
    done = bilsh("encode", "photos", "-o", "store", "--bits", 512, "--centers", 6, "--batch", 3, cwd=photos)
    assert "skipped photos/broken.jpg: not an image" in done.stderr
    assert "8 items added" in done.stdout
    told = answer("info", "store", cwd=photos)
    assert (told["ids"], told["described_by"], told["input_shape"]) == ("str", "vlad", [3, 256])
    hits = answer("search", "store", "--query", "photos/trip/3.png", cwd=photos)["results"][0]["neighbors"]
    assert hits[0]["id"] == "trip/3.png"
    assert hits[0]["distance"] == 0
    assert answer("delete", "store", "trip/3.png", cwd=photos)["deleted"] == 1
    assert "trip/3.png" not in bilsh("search", "store", "--query", "photos/trip/3.png", cwd=photos).stdout
    assert answer("add", "store", "photos/trip/3.png", cwd=photos)["items"] == 8
    again = answer("search", "store", "--query", "photos/trip/3.png", "-k", 1, cwd=photos)["results"][0]
    assert [(hit["id"], hit["distance"]) for hit in again["neighbors"]] == [("3.png", 0)]
    like = answer("search", "store", "--id", "3.png", cwd=photos)["results"][0]["neighbors"]
    assert len(like) == 7
    assert "3.png" not in {hit["id"] for hit in like}
    assert "not an image" in complaint("search", "store", "--query", "photos/broken.jpg", cwd=photos)
    (photos / "store" / "codebook.npy").write_bytes(b"damaged")
    assert "codebook.npy" in complaint("verify", "store", cwd=photos, code=3)


def test_too_few_features_for_the_codebook(photos):
    sentence = complaint("encode", "photos", "-o", "store", "--centers", 100000, cwd=photos)
    assert "--centers" in sentence


def test_images_need_a_store_of_images(photos):
    np.save(photos / "x.npy", np.eye(4))
    bilsh("encode", "x.npy", "-o", "arrays", "--bits", 32, cwd=photos)
    assert "was not made from images" in complaint("search", "arrays", "--query", "photos/0.png", cwd=photos)
    assert "not made from images" in complaint("add", "arrays", "photos", cwd=photos)
