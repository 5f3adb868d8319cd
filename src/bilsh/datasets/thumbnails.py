"""Small pictures: photographs made smaller, numbers as heat maps; both as WebP."""

from __future__ import annotations

from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.datasets.images import SkippedImage, decode_image
from bilsh.errors import optional

# Blue, white, orange: distinguishable with any colour vision; zero is white. Values in OpenCV's order.
_NEGATIVE, _ZERO, _POSITIVE = np.array([178, 114, 0]), np.array([255, 255, 255]), np.array([0, 94, 213])
QUALITY = 70


def thumbnail(data: NDArray[np.uint8], side: int) -> bytes | None:
    """Shrink an image file's content to WebP of at most `side` pixels; None where it cannot be read."""
    image = decode_image(data, Path("image"), side, color=True)
    return None if isinstance(image, SkippedImage) else webp(image[..., ::-1])


def heat_map(values: NDArray[Any], side: int) -> bytes:
    """Draw a descriptor as WebP: black to white where no value is negative, else blue, white, orange.

    Parameters
    ----------
    values : array (d,) or (d_w, d_v)
        A vector is wrapped into rows.
    side : int
        Longest side in pixels; small matrices get blocks of whole pixels.
    """
    cv2 = optional("cv2", "Drawing heat maps")
    grid = _as_grid(np.asarray(values, dtype=np.float64))
    most = max(float(np.abs(grid).max(initial=0.0)), 1e-12)
    if grid.min(initial=0.0) >= 0:
        pixels: NDArray[Any] = np.repeat((255 * (1 - grid / most))[..., None], 3, axis=2)
    else:
        share = (np.abs(grid) / most)[..., None]
        pixels = _ZERO + share * (np.where(grid[..., None] < 0, _NEGATIVE, _POSITIVE) - _ZERO)
    height, width = grid.shape
    longest = max(height, width)
    if longest < side:
        scale = max(1, side // longest)
        pixels = np.kron(pixels, np.ones((scale, scale, 1)))
    else:
        size = max(1, round(width * side / longest)), max(1, round(height * side / longest))
        pixels = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    return webp(pixels.round().astype(np.uint8), lossless=True)


def _as_grid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Matrices whose sides are within 1 : 8 as they are; everything else wrapped into about as many rows as columns."""
    if values.ndim == 2 and max(values.shape) <= 8 * min(values.shape):
        return values
    flat = values.reshape(-1)
    columns = max(1, isqrt(max(len(flat) - 1, 0)) + 1)
    filled = np.zeros(-(-len(flat) // columns) * columns)
    filled[: len(flat)] = flat
    return filled.reshape(-1, columns)


def webp(pixels: NDArray[Any], *, lossless: bool = False) -> bytes:
    """Encode pixels (height, width) or (height, width, 3), blue first, as WebP."""
    cv2 = optional("cv2", "Thumbnails")
    quality = 101 if lossless else QUALITY  # above 100 nothing is lost
    made = cv2.imencode(".webp", np.ascontiguousarray(pixels), [cv2.IMWRITE_WEBP_QUALITY, quality])[1]
    return bytes(made.tobytes())
