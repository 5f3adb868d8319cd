"""Small pictures of items: of the photographs they were made from, or of their descriptors as heat maps."""

from __future__ import annotations

from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.datasets.images import SUFFIXES, SkippedImage, decode_image
from bilsh.datasets.images import images as images_of
from bilsh.errors import DataNotFoundError, optional
from bilsh.workflows.collection import Collection

# Blue, white, orange: distinguishable with any colour vision; zero is white. Values in OpenCV's order.
_NEGATIVE, _ZERO, _POSITIVE = np.array([178, 114, 0]), np.array([255, 255, 255]), np.array([0, 94, 213])
QUALITY = 70


class Pictures:
    """Where the pictures of a collection's items are.

    Parameters
    ----------
    items : Collection
    folder : path, optional
        Folder of images; by default the one that the store was made from. Text ids are paths in it; whole numbers
        count its images in the order of their names.
    """

    def __init__(self, items: Collection, folder: Path | None = None) -> None:
        self._items = items
        if folder is None and items.recipe is not None:
            made_from = Path(items.recipe.source["path"])
            folder = made_from if made_from.is_dir() else None
        elif folder is not None and not folder.is_dir():
            raise DataNotFoundError(f"{folder} is not a folder. Give the folder that holds the images.")
        self.folder = folder
        self._listed: list[Path] | None = None

    def path(self, row: int) -> Path | None:
        """Photograph of an item; None where there is none inside the folder."""
        if self.folder is None:
            return None
        if not self._items.strings:
            return self._numbered(int(self._items.ids[row]))
        root = self.folder.resolve()
        try:
            found = (root / self._items.name(row)).resolve()
            inside = found.is_relative_to(root) and found.suffix.lower() in SUFFIXES and found.is_file()
        except (OSError, ValueError):  # names that no file can have
            return None
        return found if inside else None

    def _numbered(self, number: int) -> Path | None:
        if self._listed is None:
            self._listed = images_of(self.folder).paths if self.folder is not None else []
        return self._listed[number] if 0 <= number < len(self._listed) else None

    def kind(self, row: int) -> str:
        """What there is to show: "photo", "heat map" or "none"."""
        if self.path(row) is not None:
            return "photo"
        return "none" if self._items.vectors is None else "heat map"

    def thumbnail(self, row: int, side: int) -> bytes | None:
        """Picture of an item as WebP, at most `side` pixels wide and high; None where there is nothing to show."""
        path = self.path(row)
        if path is not None:
            try:
                made = thumbnail(np.fromfile(path, dtype=np.uint8), side)
            except OSError:
                made = None
            if made is not None:
                return made
        return None if self._items.vectors is None else heat_map(self._items.items([row])[0], side)


def thumbnail(data: NDArray[np.uint8], side: int) -> bytes | None:
    """Shrink an image file's content to WebP of at most `side` pixels; None where it cannot be read."""
    image = decode_image(data, Path("image"), side, color=True)
    return None if isinstance(image, SkippedImage) else _webp(image[..., ::-1])


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
    return _webp(pixels.round().astype(np.uint8), lossless=True)


def _as_grid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Matrices whose sides are within 1 : 8 as they are; everything else wrapped into about as many rows as columns."""
    if values.ndim == 2 and max(values.shape) <= 8 * min(values.shape):
        return values
    flat = values.reshape(-1)
    columns = max(1, isqrt(max(len(flat) - 1, 0)) + 1)
    filled = np.zeros(-(-len(flat) // columns) * columns)
    filled[: len(flat)] = flat
    return filled.reshape(-1, columns)


def _webp(pixels: NDArray[Any], *, lossless: bool = False) -> bytes:
    cv2 = optional("cv2", "Thumbnails")
    quality = 101 if lossless else QUALITY  # above 100 nothing is lost
    made = cv2.imencode(".webp", np.ascontiguousarray(pixels), [cv2.IMWRITE_WEBP_QUALITY, quality])[1]
    return bytes(made.tobytes())
