"""A folder of photographs, read one by one; files that cannot be read are named and skipped."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bilsh.datasets.dimensions import MAX_PIXELS, image_size
from bilsh.errors import DataNotFoundError, InvalidInputError, optional

SUFFIXES = frozenset({".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"})


@dataclass(frozen=True, slots=True)
class SkippedImage:
    """A file that could not be read as an image, and why."""

    path: Path
    reason: str


def read_gray(path: Path, max_side: int | None = None) -> NDArray[np.uint8] | SkippedImage:
    """Read one image as gray values (height, width), or say why that is not possible.

    Parameters
    ----------
    path : Path
    max_side : int, optional
        Shrink so that the longer side has at most this many pixels.
    """
    return _read(path, max_side, color=False)


def read_color(path: Path, max_side: int | None = None) -> NDArray[np.uint8] | SkippedImage:
    """Read one image as red, green and blue (height, width, 3), or say why that is not possible.

    Parameters
    ----------
    path, max_side
        As in :func:`read_gray`.
    """
    return _read(path, max_side, color=True)


def _read(path: Path, max_side: int | None, *, color: bool) -> NDArray[np.uint8] | SkippedImage:
    try:
        # Decoding from memory works for any file name and tells an unreadable file from a broken image.
        data = np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        return SkippedImage(path, error.strerror or str(error))
    return decode_image(data, path, max_side, color=color)


def decode_image(
    data: NDArray[np.uint8],
    path: Path,
    max_side: int | None = None,
    *,
    color: bool,
    max_pixels: int = MAX_PIXELS,
) -> NDArray[np.uint8] | SkippedImage:
    """Decode the content of an image file, or say why that is not possible; its size is looked at first.

    Parameters
    ----------
    data : uint8 array
        Content of the file.
    path : Path
        Where it came from, for messages.
    max_side : int, optional
        Shrink so that the longer side has at most this many pixels.
    color : bool
        Red, green and blue (height, width, 3), else gray values (height, width).
    max_pixels : int
        Images that declare more are not decoded.
    """
    cv2 = optional("cv2", "Reading images")
    if not data.size:
        return SkippedImage(path, "empty file")
    width, height = image_size(data.tobytes()) or (0, 0)
    if not width * height:
        return SkippedImage(path, "not an image of a known kind")
    if width * height > max_pixels:
        return SkippedImage(
            path, f"{width:,} x {height:,} pixels; at most {max_pixels // 10**6} million are decoded"
        )
    try:
        image = cv2.imdecode(data, cv2.IMREAD_COLOR if color else cv2.IMREAD_GRAYSCALE)
    except cv2.error as error:
        return SkippedImage(path, f"OpenCV: {error.err}")
    if image is None:
        return SkippedImage(path, "not an image that OpenCV can decode")
    longest = max(image.shape[:2])
    if max_side is not None and longest > max_side:
        height, width = (max(1, round(side * max_side / longest)) for side in image.shape[:2])
        image = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
    # OpenCV keeps blue first.
    return np.ascontiguousarray(image[..., ::-1] if color else image, dtype=np.uint8)


@dataclass(slots=True)
class ImageFolder:
    """Images of a folder, read while iterating: yields (path, gray values (height, width) uint8).

    Attributes
    ----------
    paths : list of Path
        All image files, sorted by name.
    skipped : list of SkippedImage
        Filled by the latest iteration.
    """

    paths: list[Path]
    max_side: int | None = None
    skipped: list[SkippedImage] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[tuple[Path, NDArray[np.uint8]]]:
        self.skipped = []
        for path in self.paths:
            image = read_gray(path, self.max_side)
            if isinstance(image, SkippedImage):
                self.skipped.append(image)
            else:
                yield path, image


def images(folder: str | Path, *, max_side: int | None = None, recursive: bool = True) -> ImageFolder:
    """Open a folder of images.

    Parameters
    ----------
    folder : path
    max_side : int, optional
        Shrink larger images so that their longer side has this many pixels.
    recursive : bool
        Include sub-folders.

    Returns
    -------
    ImageFolder
        Iterate over it for (path, gray values); ``skipped`` then names the files that could not be read.
    """
    root = Path(folder)
    if not root.is_dir():
        raise DataNotFoundError(f"{root} is not a folder. Give the folder that holds the images.")
    if max_side is not None and max_side < 1:
        raise InvalidInputError(f"max_side must be at least 1 pixel; got {max_side}.")
    found = root.rglob("*") if recursive else root.glob("*")
    paths = sorted(path for path in found if path.suffix.lower() in SUFFIXES and path.is_file())
    if not paths:
        raise DataNotFoundError(f"{root} holds no images ({', '.join(sorted(SUFFIXES))}).")
    return ImageFolder(paths, max_side)


def is_image(path: Path) -> bool:
    """Tell by its suffix whether a file is an image."""
    return path.suffix.lower() in SUFFIXES
