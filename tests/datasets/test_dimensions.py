"""Sizes of images from their headers agree with the decoder; bombs are not decoded."""

import struct
import zlib

import cv2
import numpy as np
import pytest

from bilsh.datasets.dimensions import MAX_PIXELS, image_size
from bilsh.datasets.images import SkippedImage, read_gray

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".bmp", ".webp", ".tiff", ".pgm", ".ppm"])
@pytest.mark.parametrize("shape", [(1, 1), (17, 300), (480, 64)])
def test_headers_tell_what_the_decoder_gives(suffix, shape, tmp_path):
    image = RNG.integers(0, 256, (*shape, 3), dtype=np.uint8)
    if suffix == ".pgm":
        image = image[..., 0]
    ok, data = cv2.imencode(suffix, image)
    assert ok
    assert image_size(data.tobytes()) == shape[::-1]
    (tmp_path / f"x{suffix}").write_bytes(data.tobytes())
    assert read_gray(tmp_path / f"x{suffix}").shape == shape


@pytest.mark.parametrize("options", [[cv2.IMWRITE_WEBP_QUALITY, 101], [cv2.IMWRITE_WEBP_QUALITY, 50]])
def test_both_kinds_of_webp(options):
    image = RNG.integers(0, 256, (33, 70, 3), dtype=np.uint8)
    assert image_size(cv2.imencode(".webp", image, options)[1].tobytes()) == (70, 33)
    with_alpha = RNG.integers(0, 256, (33, 70, 4), dtype=np.uint8)
    assert image_size(cv2.imencode(".webp", with_alpha, options)[1].tobytes()) == (70, 33)


def test_progressive_jpeg_and_pnm_comments():
    image = RNG.integers(0, 256, (33, 70, 3), dtype=np.uint8)
    data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])[1].tobytes()
    assert image_size(data) == (70, 33)
    assert image_size(b"P5\n# made by hand\n70 # wide\n33\n255\n") == (70, 33)


@pytest.mark.parametrize(
    "data", [b"", b"BM", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"II*\0", b"P5 ", b"GIF89a", b"RIFFxxxxWAVE"]
)
def test_headers_that_are_none(data):
    assert image_size(data) is None or 0 in image_size(data)


def png_bomb(side):
    """A PNG of side x side black pixels, well-formed and tiny for what it declares."""

    def chunk(kind, content):
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    row = b"\0" * (1 + side // 8)
    squeeze = zlib.compressobj(9)
    body = b"".join(squeeze.compress(row) for _ in range(side)) + squeeze.flush()
    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def test_a_bomb_is_named_and_not_decoded(tmp_path, monkeypatch):
    path = tmp_path / "bomb.png"
    path.write_bytes(png_bomb(16_000))
    assert MAX_PIXELS < 16_000**2
    assert path.stat().st_size < 200_000

    def decode(*arguments):
        raise AssertionError("decoded")

    monkeypatch.setattr(cv2, "imdecode", decode)
    found = read_gray(path)
    assert isinstance(found, SkippedImage)
    assert found.reason == "16,000 x 16,000 pixels; at most 200 million are decoded"
