"""Descriptors of one image, and the codebook that VLAD needs."""

from dataclasses import dataclass
from math import prod, sqrt
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh.datasets.images import ImageFolder, images
from bilsh.errors import InvalidInputError, optional
from bilsh.types import Progress, silent

Matrix = NDArray[np.float32]
_ROUNDS = 10
"""How often k-means looks at all local descriptors."""
SIFT_PIXELS = 16_000_000
"""Images are shrunk to so many pixels: SIFT takes some 200 bytes for each."""


class Descriptor(Protocol):
    """What :func:`describe` needs of a descriptor."""

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (d_w, d_v) of every matrix."""
        ...

    def compute(self, image: NDArray[np.uint8]) -> Matrix | None:
        """Describe gray values (height, width); None where there is nothing to describe."""
        ...


def sift(image: NDArray[np.uint8], n_features: int = 1000) -> Matrix:
    """SIFT descriptors of the strongest keypoints, float32 (m, 128), m about ``n_features`` at most.

    Images of more than 16 million pixels are shrunk to that many.
    """
    cv2 = optional("cv2", "SIFT")
    if image.size > SIFT_PIXELS:
        scale = sqrt(SIFT_PIXELS / image.size)
        height, width = (max(1, int(scale * side)) for side in image.shape)
        # An image of one row is shrunk along it only.
        size = max(1, min(width, SIFT_PIXELS // height)), max(1, min(height, SIFT_PIXELS // width))
        image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    found = cv2.SIFT_create(nfeatures=n_features).detectAndCompute(image, None)[1]
    return np.empty((0, 128), np.float32) if found is None else np.asarray(found, dtype=np.float32)


def vlad(local: ArrayLike, codebook: ArrayLike, power: float = 1.0) -> Matrix | None:
    r"""Aggregate local descriptors into one VLAD vector of unit length (Jegou et al., 2010).

    .. math:: v_c = \sum_{x : c(x) = c} (x - \mu_c), \qquad v \leftarrow \operatorname{sign}(v) |v|^p,
              \qquad v \leftarrow v / \lVert v \rVert_2

    where c(x) is the centre nearest to x.

    Parameters
    ----------
    local : array (m, d)
        Local descriptors of one image, finite; their scale does not matter if the codebook shares it.
    codebook : array (c, d)
        Centres mu_c, c >= 1.
    power : float
        Exponent p of the power normalisation, 0 < p <= 1; 1 leaves it out (as the paper does), 0.5 is the usual
        choice.

    Returns
    -------
    float32 (c, d) or None
        None where nothing is left to normalise, e.g. for m = 0.
    """
    X, centres = np.asarray(local, dtype=np.float64), np.asarray(codebook, dtype=np.float64)
    if X.ndim != 2 or centres.ndim != 2 or X.shape[1] != centres.shape[1] or not centres.size:
        raise InvalidInputError(
            f"Local descriptors (m, d) and codebook (c, d) must share d, with c, d >= 1; got {X.shape} and "
            f"{centres.shape}."
        )
    if not (np.isfinite(X).all() and np.isfinite(centres).all()):
        raise InvalidInputError(
            "Local descriptors or codebook have NaN or inf values. Remove such rows first."
        )
    if not 0 < power <= 1:
        raise InvalidInputError(f"power must be > 0 and <= 1; got {power}. 1 leaves the normalisation out.")
    if not len(X):
        return None
    X, centres = _unit_scale(X, centres)
    nearest = (np.square(centres).sum(axis=1) - 2.0 * (X @ centres.T)).argmin(axis=1)
    members = np.zeros((len(centres), len(X)))
    members[nearest, np.arange(len(X))] = 1.0
    (v,) = _unit_scale(members @ X - members.sum(axis=1)[:, None] * centres)
    if power != 1.0:
        v = np.sign(v) * np.abs(v) ** power
    length = np.linalg.norm(v)
    return np.asarray(v / length, dtype=np.float32) if length > 0 else None


def _unit_scale(*arrays: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Scale by one power of two, which rounds nothing, so that no square over- or underflows."""
    exponent = np.frexp(max(np.abs(array).max() for array in arrays))[1]
    return tuple(np.ldexp(array, -exponent) for array in arrays)


@dataclass(frozen=True, slots=True, eq=False)
class Vlad:
    """SIFT descriptors aggregated by VLAD and reshaped into a matrix.

    With 500 centres: 500 x 128 = 64,000 values of unit length, as a 250 x 256 matrix as in the paper.

    Parameters
    ----------
    codebook : float32 (c, 128)
        Centres, see :func:`learn_codebook`.
    matrix_shape : (d_w, d_v), optional
        Any shape of c * 128 values; by default (c / 2, 256), or (c, 128) for odd c.
    power : float
        Power normalisation, see :func:`vlad`.
    n_features : int
        Strongest SIFT keypoints per image.
    """

    codebook: Matrix
    matrix_shape: tuple[int, int] | None = None
    power: float = 1.0
    n_features: int = 1000

    def __post_init__(self) -> None:
        book = np.ascontiguousarray(self.codebook, dtype=np.float32)
        if book.ndim != 2 or not len(book) or book.shape[1] != 128 or not np.isfinite(book).all():
            raise InvalidInputError(f"codebook must be finite numbers of shape (c, 128); got {book.shape}.")
        if prod(self.matrix_shape or (book.size,)) != book.size:
            raise InvalidInputError(
                f"matrix_shape {self.matrix_shape} does not hold the {len(book)} x 128 = {book.size} values."
            )
        if not 0 < self.power <= 1 or self.n_features < 1:
            raise InvalidInputError(
                f"Need 0 < power <= 1 and n_features >= 1; got {self.power} and {self.n_features}."
            )
        object.__setattr__(self, "codebook", book)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (d_w, d_v) of every matrix."""
        c = len(self.codebook)
        return self.matrix_shape or ((c // 2, 256) if c % 2 == 0 else (c, 128))

    def compute(self, image: NDArray[np.uint8]) -> Matrix | None:
        """Describe gray values (height, width); None where SIFT finds nothing."""
        v = vlad(sift(image, self.n_features), self.codebook, self.power)
        return None if v is None else v.reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Hog:
    """Histograms of oriented gradients (Dalal and Triggs, 2005): one row of 36 values per 16 x 16 block.

    Gradients are central differences. Each pixel votes with its magnitude for the two nearest of 9 directions
    between 0 and 180 degrees, in its cell of 8 x 8 pixels. Each block of 2 x 2 cells is normalised to unit
    length, clipped at 0.2 and normalised again; blocks overlap by one cell.

    Parameters
    ----------
    side : int
        Images are resized to side x side pixels, a multiple of 8.
    """

    side: int = 128

    def __post_init__(self) -> None:
        if self.side < 16 or self.side % 8:
            raise InvalidInputError(f"side must be a multiple of 8, at least 16; got {self.side}.")

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (blocks, 36) of every matrix."""
        return (self.side // 8 - 1) ** 2, 36

    def compute(self, image: NDArray[np.uint8]) -> Matrix:
        """Describe gray values (height, width)."""
        cv2 = optional("cv2", "Resizing images")
        small = cv2.resize(image, (self.side, self.side), interpolation=cv2.INTER_AREA).astype(np.float32)
        padded = np.pad(small, 1, mode="edge")
        dx, dy = padded[1:-1, 2:] - padded[1:-1, :-2], padded[2:, 1:-1] - padded[:-2, 1:-1]
        magnitude, direction = np.hypot(dx, dy), np.arctan2(dy, dx) * (9 / np.pi)
        below = np.floor(direction)
        share = direction - below
        # One histogram per cell, all at once: the flat index counts cells in rows of 9 directions.
        cells = self.side // 8
        row, column = np.indices(small.shape) // 8
        cell = (row * cells + column) * 9
        votes = np.zeros(cells * cells * 9)
        for step, weight in ((0, 1 - share), (1, share)):
            index = cell + (below.astype(np.int64) + step) % 9
            votes += np.bincount(index.ravel(), (magnitude * weight).ravel(), minlength=votes.size)
        grid = votes.reshape(cells, cells, 9)
        blocks = np.concatenate([grid[:-1, :-1], grid[:-1, 1:], grid[1:, :-1], grid[1:, 1:]], axis=2)
        for limit in (0.2, 1.0):
            length = np.sqrt(np.square(blocks).sum(axis=2, keepdims=True))
            blocks = np.minimum(blocks / np.maximum(length, 1e-6), limit)
        return blocks.reshape(self.shape).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Pixels:
    """Gray values in [0, 1] of the image resized to (height, width)."""

    height: int = 32
    width: int = 32

    def __post_init__(self) -> None:
        if min(self.height, self.width) < 1:
            raise InvalidInputError(f"Need at least 1 x 1 pixels; got {self.height} x {self.width}.")

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (height, width) of every matrix."""
        return self.height, self.width

    def compute(self, image: NDArray[np.uint8]) -> Matrix:
        """Describe gray values (height, width)."""
        cv2 = optional("cv2", "Resizing images")
        small = cv2.resize(image, (self.width, self.height), interpolation=cv2.INTER_AREA)
        return np.asarray(small, dtype=np.float32) / np.float32(255)


def learn_codebook(
    folder: ImageFolder | str | Path,
    n_centers: int = 500,
    *,
    n_features: int = 1000,
    max_descriptors: int = 200_000,
    rng: int | np.random.Generator | None = None,
    progress: Progress = silent,
) -> Matrix:
    """Learn VLAD centres by mini-batch k-means on SIFT descriptors.

    Learn on other photographs than those to be searched, or accept that the codebook has seen them.

    Parameters
    ----------
    folder : ImageFolder or path
        Unreadable images are skipped.
    n_centers : int
        500 in the paper.
    n_features : int
        Strongest SIFT keypoints per image.
    max_descriptors : int
        At most about this many descriptors, an equal share of every image.
    rng : int or numpy.random.Generator, optional
    progress : callable (what, done, total), optional
        Called after each image, then after each of ten rounds of k-means.

    Returns
    -------
    float32 (n_centers, 128)
    """
    from sklearn.cluster import MiniBatchKMeans

    source = folder if isinstance(folder, ImageFolder) else images(folder)
    if n_centers < 1 or max_descriptors < n_centers:
        raise InvalidInputError(
            f"Need 1 <= n_centers <= max_descriptors; got {n_centers} and {max_descriptors}."
        )
    generator = np.random.default_rng(rng)
    share = -(-max_descriptors // len(source))
    samples = []
    steps = len(source) + _ROUNDS
    for done, (_, image) in enumerate(source, 1):
        local = sift(image, n_features)
        samples.append(local[generator.permutation(len(local))[:share]])
        progress("learning the codebook", done, steps)
    progress("learning the codebook", len(source), steps)
    X = np.concatenate([np.empty((0, 128), np.float32), *samples])
    if len(X) < n_centers:
        raise InvalidInputError(
            f"{len(source)} images gave {len(X)} SIFT descriptors; {n_centers} centres need as many or more. "
            "Give more images or ask for fewer centres."
        )
    means = MiniBatchKMeans(n_centers, n_init=1, random_state=int(generator.integers(2**31)))
    # Batches of at least 4,096 keep k-means from reassigning starved centres at every step.
    size = max(4096, n_centers)
    for finished in range(len(source) + 1, steps + 1):
        order = generator.permutation(len(X))
        for start in range(0, max(1, len(X) - size + 1), size):
            means.partial_fit(X[order[start : start + size]])
        progress("learning the codebook", finished, steps)
    return np.asarray(means.cluster_centers_, dtype=np.float32)
