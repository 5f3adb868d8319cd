"""Photographs: a folder becomes a store, a photograph finds itself, its copies and its like, on a page one can look at.

Real photographs are taken where there are any (BILSH_DATA/flickr); generated scenes always run.
"""

import shlex
import shutil

import numpy as np
import pytest

from cli.program import answer, bilsh

cv2 = pytest.importorskip("cv2")


def scene(seed):
    """Some coloured discs on a plain ground: enough for edges, colours and local features."""
    rng = np.random.default_rng(seed)
    image = np.full((180, 240, 3), rng.integers(0, 256, 3), dtype=np.uint8)
    for _ in range(12):
        centre = tuple(int(v) for v in rng.integers(0, (240, 180)))
        colour = tuple(int(v) for v in rng.integers(0, 256, 3))
        cv2.circle(image, centre, int(rng.integers(8, 40)), colour, -1)
    return cv2.GaussianBlur(image, (3, 3), 0)


@pytest.fixture
def photos(tmp_path):
    (tmp_path / "my photos").mkdir()
    for number in range(40):
        cv2.imwrite(str(tmp_path / "my photos" / f"{number:02}.jpg"), scene(number))
    return tmp_path


def ids(told):
    return [hit["id"] for hit in told["results"][0]["neighbors"]]


def test_copies_are_found(photos):
    done = bilsh("encode", "my photos", "-o", "store", "--bits", 2048, cwd=photos)
    assert "note: images by" in done.stderr  # what describes them, and what else there is
    for number in (3, 17, 31):
        image = scene(number)
        small = cv2.resize(image[10:170, 12:228], (160, 120), interpolation=cv2.INTER_AREA)
        cv2.imwrite(str(photos / "copy.jpg"), small, [cv2.IMWRITE_JPEG_QUALITY, 60])
        assert ids(answer("search", "store", "--query", "copy.jpg", cwd=photos))[0] == f"{number:02}.jpg"
    bilsh("search", "store", "--query", "copy.jpg", "--html", "found.html", cwd=photos)
    assert (photos / "found.html").read_text().count("data:image/webp;base64,") == 11


def test_an_export_knows_how_photographs_are_described(photos):
    bilsh(
        "encode", "my photos", "-o", "store", "--bits", 1024, "--describe", "vlad", "--centers", 8, cwd=photos
    )
    files = answer("export", "store", "--to", "npy", "-o", "out.npy", cwd=photos)["files"]
    assert {"out.recipe.json", "out.codebook.npy"} <= set(files)
    bilsh("import", "out.npy", "-o", "again", cwd=photos)
    photo = "my photos/05.jpg"
    first, again = (answer("search", s, "--query", photo, cwd=photos)["results"] for s in ("store", "again"))
    assert first == again
    assert first[0]["neighbors"][0]["id"] == "05.jpg"


def test_paths_with_spaces_can_be_pasted(photos):
    done = bilsh("encode", "my photos", "-o", "my store", "--bits", 256, "--describe", "hog", cwd=photos)
    then = done.stdout.splitlines()[-1]
    assert then == "next: bilsh search 'my store' --id 00.jpg"
    assert "rank" in bilsh(*shlex.split(then)[2:], cwd=photos).stdout


def test_real_photographs(data_folder, tmp_path):
    folder = data_folder("flickr")
    (tmp_path / "photos").mkdir()
    chosen = sorted(path for path in folder.rglob("*.jpg"))[:60]
    for path in chosen:
        shutil.copy(path, tmp_path / "photos")
    bilsh("encode", "photos", "-o", "store", "--bits", 4096, "--max-side", 400, cwd=tmp_path)
    for path in chosen[::20]:
        image = cv2.imread(str(path))
        height, width = image.shape[:2]
        part = image[height // 12 : 11 * height // 12, width // 12 : 11 * width // 12]
        cv2.imwrite(str(tmp_path / "copy.jpg"), part, [cv2.IMWRITE_JPEG_QUALITY, 70])
        assert path.name in ids(answer("search", "store", "--query", "copy.jpg", "-k", 3, cwd=tmp_path))
