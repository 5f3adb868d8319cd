"""Data of the experiments by name: digits, MNIST, VLAD of a folder of photographs or of generated pictures.

Everything is loaded when it is first asked for, kept for the run, and has a checksum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh import datasets
from bilsh.datasets.images import ImageFolder
from bilsh.descriptors import Vlad, describe, learn_codebook, sift, vlad
from bilsh.errors import DataNotFoundError, InvalidInputError, optional
from bilsh.evaluation import GroundTruth, ground_truth
from bilsh.experiments.pictures import N_PICTURES, write_pictures
from bilsh.files import replace_file

COPIES = {"half size": (0.5, 1.0), "central crop": (1.0, 0.75)}
"""Near-duplicates of a photograph: (scale, share of either side that is kept)."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Data:
    """Matrices to encode.

    Attributes
    ----------
    X : array (n, d_w, d_v)
        May be memory-mapped.
    checksum : str
        SHA-256 of what determines X.
    note : str
        Where it comes from, and what was left out.
    """

    X: NDArray[Any]
    checksum: str
    note: str


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """VLAD of a rescaled or cropped copy of each photograph; a Descriptor for :func:`bilsh.descriptors.describe`."""

    codebook: NDArray[np.float32]
    scale: float
    keep: float

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (d_w, d_v) of every matrix."""
        return Vlad(self.codebook).shape

    def compute(self, image: NDArray[np.uint8]) -> NDArray[np.float32] | None:
        """Describe the copy of gray values (height, width)."""
        height, width = image.shape
        top, left = (round(side * (1 - self.keep) / 2) for side in (height, width))
        copy = np.ascontiguousarray(image[top : height - top, left : width - left])
        if self.scale != 1.0:
            cv2 = optional("cv2", "Rescaling images")
            copy = cv2.resize(copy, None, fx=self.scale, fy=self.scale, interpolation=cv2.INTER_AREA)
        v = vlad(sift(copy), self.codebook)
        return None if v is None else v.reshape(self.shape)


class Inputs:
    """Where the data lie, and what was loaded of them.

    Parameters
    ----------
    mnist : path, optional
        Folder with MNIST's idx files; see :func:`bilsh.datasets.mnist`.
    images : path, optional
        Folder of photographs for the Flickr experiments.
    codebook : path, optional
        VLAD centres (c, 128) as .npy; learned from the photographs if not given.
    cache : path
        Folder for descriptors and generated pictures.
    jobs : int
        Threads for encoding, processes for descriptors.
    n_pictures : int
        How many pictures are generated where no photographs are asked for.
    progress : callable (str), optional
        Told what takes long.
    """

    def __init__(
        self,
        cache: str | Path,
        *,
        mnist: str | Path | None = None,
        images: str | Path | None = None,
        codebook: str | Path | None = None,
        jobs: int = 1,
        n_pictures: int = N_PICTURES,
        progress: Say | None = None,
    ) -> None:
        if jobs < 1:
            raise InvalidInputError(f"jobs must be at least 1; got {jobs}.")
        self.cache = Path(cache)
        self.jobs = jobs
        self._n_pictures = n_pictures
        self._mnist = mnist
        self._images = None if images is None else Path(images)
        self._codebook = None if codebook is None else Path(codebook)
        self._say = progress or (lambda message: None)
        self._loaded: dict[str, Data] = {}
        self._paths: dict[str, tuple[Path, ...]] = {}
        self._books: dict[str, NDArray[np.float32]] = {}
        self._truths: dict[tuple[Any, ...], GroundTruth] = {}

    def data(self, name: str) -> Data:
        """Return data by name: "digits", "mnist", "mnist-N" (a random subset), "photographs" or "generated"."""
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def _load(self, name: str) -> Data:
        if name == "digits":
            digits = datasets.digits()
            return Data(digits.X, digits.checksum(), "1,797 handwritten digits of 8 x 8, from scikit-learn")
        if name == "mnist":
            mnist = datasets.mnist(self._mnist)
            return Data(mnist.X, mnist.checksum(), "MNIST, 70,000 handwritten digits of 28 x 28, md5 checked")
        if name.startswith("mnist-"):
            whole, n = self.data("mnist"), int(name.removeprefix("mnist-"))
            rows = np.sort(np.random.default_rng(0).choice(len(whole.X), n, replace=False))
            return Data(whole.X[rows], f"{whole.checksum}, {n} rows", f"{n:,} random images of MNIST")
        if name in ("photographs", "generated"):
            return self._load_vlad(name)
        raise InvalidInputError(f"No data called {name!r}.")

    def _load_vlad(self, name: str) -> Data:
        folder, book = self._folder(name), self._book(name)
        described = describe(
            folder,
            Vlad(book),
            n_jobs=self.jobs,
            cache=self.cache / "descriptors",
            progress=lambda what, done, total: self._say(f"{what}: {done} of {total}"),
        )
        self._paths[name] = described.paths
        note = f"VLAD ({len(book)} x 128) of {len(described.paths):,} " + (
            "photographs" if name == "photographs" else "generated pictures"
        )
        if described.skipped:
            first = described.skipped[0]
            note += (
                f"; {len(described.skipped)} could not be described, e.g. {first.path.name} ({first.reason})"
            )
        digest = hashlib.sha256(book.tobytes())
        for row in described.X:
            digest.update(np.ascontiguousarray(row).data)
        return Data(described.X, digest.hexdigest(), note)

    def _folder(self, name: str) -> ImageFolder:
        if name == "generated":
            return datasets.images(write_pictures(self.cache / "pictures", self._n_pictures))
        if self._images is None:
            raise DataNotFoundError(
                "This experiment needs photographs: give a folder with --images FOLDER (about 1,000 or more), "
                "or use --quick, which generates pictures."
            )
        return datasets.images(self._images)

    def _book(self, name: str) -> NDArray[np.float32]:
        if name in self._books:
            return self._books[name]
        if name == "photographs" and self._codebook is not None:
            book = np.asarray(datasets.read_npy(self._codebook), dtype=np.float32)
        else:
            centres = 500 if name == "photographs" else 32
            kept = self.cache / "codebooks" / f"{self._book_key(name, centres)}.npy"
            if kept.is_file():
                book = np.array(datasets.read_npy(kept))
            else:
                self._say(f"learning a codebook of {centres} centres")
                limit = 200_000 if name == "photographs" else 8_000
                book = learn_codebook(self._folder(name), centres, max_descriptors=limit, rng=0)
                kept.parent.mkdir(parents=True, exist_ok=True)
                with replace_file(kept) as file:
                    np.save(file, book, allow_pickle=False)
        self._books[name] = book
        return book

    def _book_key(self, name: str, centres: int) -> str:
        stats = [
            (str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns)
            for path in self._folder(name).paths
        ]
        return hashlib.sha256(repr((stats, centres)).encode()).hexdigest()[:32]

    def truth(
        self, name: str, *, n_queries: int, neighbor: int, max_neighbors: int, seed: int
    ) -> GroundTruth:
        """Ground truth by the paper's protocol, computed once per run."""
        key = (name, n_queries, neighbor, max_neighbors, seed)
        if key not in self._truths:
            self._truths[key] = ground_truth(
                self.data(name).X,
                n_queries=n_queries,
                neighbor=neighbor,
                max_neighbors=max_neighbors,
                rng=seed,
            )
        return self._truths[key]

    def copies(self, name: str, kind: str, n: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Near-duplicates of up to n random items.

        Parameters
        ----------
        name : str
            "photographs" or "generated".
        kind : str
            A key of `COPIES`.
        n : int

        Returns
        -------
        originals : int64 (q,)
            Rows of ``data(name).X``.
        X : float32 (q, d_w, d_v)
            Descriptors of the copies; copies without any local feature are left out.
        """
        self.data(name)
        paths = self._paths[name]
        rows = np.sort(np.random.default_rng(0).choice(len(paths), min(n, len(paths)), replace=False))
        place = {paths[row]: row for row in rows.tolist()}
        described = describe(
            ImageFolder(list(place)),
            Copy(self._book(name), *COPIES[kind]),
            n_jobs=self.jobs,
            cache=self.cache / "descriptors",
        )
        return np.array([place[path] for path in described.paths], dtype=np.int64), described.X
