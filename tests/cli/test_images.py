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
    done = bilsh(
        "encode",
        "photos",
        "-o",
        "store",
        "--bits",
        512,
        "--describe",
        "vlad",
        "--centers",
        6,
        "--batch",
        3,
        cwd=photos,
    )
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
    sentence = complaint(
        "encode", "photos", "-o", "store", "--describe", "vlad", "--centers", 100000, cwd=photos
    )
    assert "--centers" in sentence


def test_images_need_a_store_of_images(photos):
    np.save(photos / "x.npy", np.eye(4))
    bilsh("encode", "x.npy", "-o", "arrays", "--bits", 32, cwd=photos)
    assert "was not made from images" in complaint("search", "arrays", "--query", "photos/0.png", cwd=photos)
    assert "not made from images" in complaint("add", "arrays", "photos", cwd=photos)


def test_the_descriptor_is_chosen_and_told(photos):
    done = bilsh("encode", "photos", "-o", "store", "--bits", 256, cwd=photos)
    assert "note: images by hog" in done.stderr
    told = answer("info", "store", cwd=photos)
    assert told["described_by"] in ("hog-color", "hog", "vlad")
    again = bilsh("encode", "photos", "-o", "store", "--bits", 256, cwd=photos)
    assert again.stdout.startswith("nothing left to do")
    assert "--side 64, now 128 is asked for" in complaint(
        "encode", "photos", "-o", "store", "--bits", 256, "--side", 128, cwd=photos
    )
    hits = answer("search", "store", "--query", "photos/trip/3.png", cwd=photos)["results"][0]["neighbors"]
    assert (hits[0]["id"], hits[0]["distance"]) == ("trip/3.png", 0)


def test_a_function_of_ones_own(photos, monkeypatch):
    (photos / "mynet.py").write_text(
        "import numpy as np\n\n\ndef embed(image):\n    return np.asarray(image.mean(axis=1)[:8], float).ravel()\n"
    )
    monkeypatch.syspath_prepend(str(photos))
    bilsh("encode", "photos", "-o", "store", "--bits", 256, "--describe", "mynet:embed", cwd=photos)
    # A store that came from elsewhere must not say what runs here.
    sentence = complaint("search", "store", "--query", "photos/0.png", cwd=photos)
    assert "Say --describe mynet:embed if you trust it" in sentence
    found = answer("search", "store", "--query", "photos/0.png", "--describe", "mynet:embed", cwd=photos)
    assert found["results"][0]["neighbors"][0]["id"] == "0.png"
    (photos / "badnet.py").write_text("def embed(image):\n    raise RuntimeError('no such layer')\n")
    sentence = complaint("encode", "photos", "-o", "other", "--describe", "badnet:embed", cwd=photos)
    assert (
        sentence
        == "error: badnet:embed failed on an image of shape (224, 224, 3): RuntimeError: no such layer\n"
    )


def test_a_page_with_thumbnails(photos):
    bilsh("encode", "photos", "-o", "store", "--bits", 256, "--describe", "hog", cwd=photos)
    (photos / "photos" / "2.png").unlink()  # a picture that is gone leaves an empty place
    done = bilsh("search", "store", "--query", "photos/0.png", "--html", "out.html", cwd=photos)
    assert done.stdout.splitlines()[-1] == "page: out.html"
    page = (photos / "out.html").read_text()
    assert page.count("data:image/webp;base64,") == 8
    assert page.count('class="none"') == 1
    assert "trip/3.png" in page
    assert "http" not in page
    like = answer("search", "store", "--id", "0.png", "-k", 2, "--html", "like.html", cwd=photos)
    assert like["html"] == "like.html"
    assert (photos / "like.html").read_text().count("<figure>") == 3


def test_a_bomb_is_skipped(photos):
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (60_000).to_bytes(4, "big") * 2 + b"\x08\0\0\0\0"
    (photos / "photos" / "bomb.png").write_bytes(head)
    done = bilsh("encode", "photos", "-o", "store", "--bits", 256, "--describe", "hog", cwd=photos)
    assert "bomb.png: 60,000 x 60,000 pixels; at most 200 million are decoded" in done.stderr
    assert "8 items added" in done.stdout
