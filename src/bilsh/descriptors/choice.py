"""Which descriptor suits a folder of images: a quick look at some of them, and plain names for all there are."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bilsh.datasets.images import ImageFolder, images, read_color
from bilsh.descriptors.kinds import Descriptor, Hog, Matrix, Pixels, Vlad, learn_codebook
from bilsh.descriptors.layout import HogColor
from bilsh.descriptors.user import UserFunction
from bilsh.errors import InvalidInputError, optional
from bilsh.types import Progress, silent

DESCRIPTORS = {
    "hog-color": "edges and colours of 8 x 8 cells: images of like layout; fast, the plain choice",
    "hog": "edges of 8 x 8 pixels: centred objects, digits, where colour means nothing",
    "vlad": "SIFT aggregated by VLAD: the same object or place, also cut out or moved; slow",
    "pixels": "gray values: small aligned images",
    "module:function": "a function of your own, from an image to numbers",
}
"""What images can be described by, and what for."""

LOOK_IMAGES = 160
CODEBOOK_IMAGES = 500
SMALL_FOLDER = 10_000
LEVEL = 0.02
"""A faster descriptor is taken where it finds at most this much less."""

"""Called with what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True, slots=True, eq=False)
class DescriptorChoice:
    """How the images of a folder are described, and why.

    Attributes
    ----------
    name : str
        One of DESCRIPTORS, or module:function.
    descriptor : Descriptor
    reason : str
        What was looked at.
    precision : dict
        What each candidate found at rank 1, by name; empty where the descriptor was named.
    images : int
        Images of the folder.
    """

    name: str
    descriptor: Descriptor
    reason: str
    precision: dict[str, float]
    images: int

    @property
    def centers(self) -> int | None:
        """VLAD centres; None for others."""
        return len(self.descriptor.codebook) if isinstance(self.descriptor, Vlad) else None

    @property
    def side(self) -> int | None:
        """Pixels per side that images are resized to; None where they are not."""
        return getattr(self.descriptor, "side", None)

    @property
    def codebook(self) -> Matrix | None:
        """VLAD centres (c, 128), learned on images of the folder."""
        return self.descriptor.codebook if isinstance(self.descriptor, Vlad) else None

    @property
    def options(self) -> str:
        """The choice as options of `bilsh encode`."""
        size = f" --centers {self.centers}" if self.centers else f" --side {self.side}" if self.side else ""
        return f"--describe {self.name}{size}"

    def lines(self) -> list[str]:
        """Say what was chosen and what else there is, for a terminal."""
        others = [f"{name} ({use})" for name, use in DESCRIPTORS.items() if name != self.name]
        size = f" of {self.centers} centres" if self.centers else f" of side {self.side}" if self.side else ""
        return [
            f"images by    {self.name}{size}: {self.reason}",
            f"             else --describe {'; '.join(others)}",
        ]


def named_descriptor(name: str, *, side: int | None = None, codebook: Matrix | None = None) -> Descriptor:
    """Return the descriptor of a name in DESCRIPTORS, or of module:function.

    Parameters
    ----------
    name : str
        A module:function is imported: pass only names that the user gave.
    side : int, optional
        Pixels per side, of hog, hog-color and pixels.
    codebook : float32 (c, 128), optional
        VLAD centres, which vlad needs.
    """
    if name == "vlad" and codebook is not None:
        return Vlad(codebook)
    if name == "hog-color":
        return HogColor(side or 64)
    if name == "hog":
        return Hog(side or 128)
    if name == "pixels":
        return Pixels(side or 32, side or 32)
    if ":" in name and name not in DESCRIPTORS:
        return UserFunction(name)
    raise InvalidInputError(
        f"describe must be hog-color, hog, pixels, vlad (with a codebook) or module:function; got {name!r}."
    )


def choose_descriptor(
    folder: ImageFolder | str | Path,
    name: str | None = None,
    *,
    side: int | None = None,
    centers: int | None = None,
    codebook: Matrix | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> DescriptorChoice:
    """Choose the descriptor by a quick look at up to 160 images, or take the one that is named.

    Where images lie in sub-folders, these are taken for classes: the better descriptor is the one whose nearest image
    is more often of the same class. Elsewhere a copy of each image, cut to four fifths and half its size, looks for
    its original. The fastest of those that are level is taken. VLAD gets 64 centres, in folders of more than
    10,000 images 256: with few images, many centres find less.

    Parameters
    ----------
    folder : ImageFolder or path
    name : str, optional
        Name of a descriptor, which is then not questioned.
    side, centers : int, optional
        Size of the descriptor; by default it is chosen.
    codebook : float32 (c, 128), optional
        VLAD centres; by default they are learned from at most 500 of the images.
    seed : int
        Of the codebook and the copies.
    progress : callable (what, done, total), optional

    Returns
    -------
    DescriptorChoice
    """
    source = folder if isinstance(folder, ImageFolder) else images(folder)
    wanted = centers or (64 if len(source) <= SMALL_FOLDER else 256)
    if name is not None:
        if name == "vlad" and codebook is None:
            codebook = _learned(source, wanted, CODEBOOK_IMAGES, seed, progress)
        descriptor = named_descriptor(name, side=side, codebook=codebook)
        return DescriptorChoice(name, descriptor, "asked for", {}, len(source))
    few = ImageFolder(source.paths[:: -(-len(source) // LOOK_IMAGES)], source.max_side)
    shown, classes = _look(few)
    if len(shown) < 4:
        descriptor = named_descriptor("hog-color", side=side)
        return DescriptorChoice("hog-color", descriptor, "too few images to compare", {}, len(source))
    candidates: dict[str, Descriptor] = {"hog-color": HogColor(side or 64), "hog": Hog(side or 64)}
    try:
        book = codebook if codebook is not None else _learned(few, min(wanted, 64), len(few), seed, progress)
        candidates["vlad"] = Vlad(book)
    except InvalidInputError:
        pass  # images without local features: the candidate is out
    queries = shown if classes is not None else [_copy(image, seed + i) for i, image in enumerate(shown)]
    precision = {}
    for number, (candidate, descriptor) in enumerate(candidates.items()):
        progress("looking at descriptors", number, len(candidates))
        precision[candidate] = _precision(descriptor, shown, queries, classes)
    progress("looking at descriptors", len(candidates), len(candidates))
    best = next(c for c in candidates if precision[c] >= max(precision.values()) - LEVEL)
    if best == "vlad" and codebook is None:
        candidates["vlad"] = Vlad(_learned(source, wanted, CODEBOOK_IMAGES, seed, progress))
    what = (
        "the nearest image is of the same sub-folder"
        if classes is not None
        else "a cut copy finds its original"
    )
    told = ", ".join(f"{candidate} {value:.2f}" for candidate, value in precision.items())
    reason = f"{what} with {told} (of {len(shown)} images; the fastest of the level ones)"
    return DescriptorChoice(best, candidates[best], reason, precision, len(source))


def _learned(folder: ImageFolder, centers: int, most: int, seed: int, progress: Progress) -> Matrix:
    some = ImageFolder(folder.paths[:: -(-len(folder) // most)], folder.max_side)
    return learn_codebook(
        some,
        centers,
        rng=seed,
        max_descriptors=max(20_000, 200 * centers),
        progress=progress,
    )


def _look(folder: ImageFolder) -> tuple[list[NDArray[np.uint8]], NDArray[np.int64] | None]:
    """Read the images; and the class of each where sub-folders tell it (nearly all have company)."""
    read = [(path, read_color(path, folder.max_side)) for path in folder.paths]
    found = [(path, image) for path, image in read if isinstance(image, np.ndarray)]
    shown = [image for _, image in found]
    parents, number, count = np.unique(
        [str(path.parent) for path, _ in found], return_inverse=True, return_counts=True
    )
    several = len(parents) > 1 and np.mean(count[number] > 1) > 0.9
    return shown, number.astype(np.int64) if several else None


def _copy(image: NDArray[np.uint8], seed: int) -> NDArray[np.uint8]:
    """Cut to four fifths somewhere, at half the size."""
    cv2 = optional("cv2", "Resizing images")
    height, width = image.shape[:2]
    y, x = (int(v) for v in np.random.default_rng(seed).integers(0, (height // 5 + 1, width // 5 + 1)))
    part = image[y : y + max(1, 4 * height // 5), x : x + max(1, 4 * width // 5)]
    size = max(1, part.shape[1] // 2), max(1, part.shape[0] // 2)
    return np.asarray(cv2.resize(part, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)


def _precision(
    descriptor: Descriptor,
    shown: list[NDArray[np.uint8]],
    queries: list[NDArray[np.uint8]],
    classes: NDArray[np.int64] | None,
) -> float:
    """Share of queries whose nearest image is right; one that cannot be described is wrong."""
    X = _described(descriptor, shown)
    Q = X if queries is shown else _described(descriptor, queries)
    squares = np.square(Q).sum(axis=1)[:, None] - 2 * (Q @ X.T) + np.square(X).sum(axis=1)
    squares[np.isnan(squares)] = np.inf
    right = np.arange(len(X))
    if classes is not None:
        np.fill_diagonal(squares, np.inf)
        right = classes
    nearest = squares.argmin(axis=1)
    return float(np.mean((right[nearest] == right) & np.isfinite(squares.min(axis=1))))


def _described(descriptor: Descriptor, shown: list[NDArray[np.uint8]]) -> Matrix:
    """Rows of numbers, NaN where an image shows nothing to describe."""
    cv2 = optional("cv2", "Converting images")
    color = getattr(descriptor, "color", False)
    rows = np.full((len(shown), int(np.prod(descriptor.shape))), np.nan, dtype=np.float32)
    for row, image in zip(rows, shown, strict=True):
        found = descriptor.compute(image if color else cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))
        if found is not None:
            row[:] = found.ravel()
    return rows
