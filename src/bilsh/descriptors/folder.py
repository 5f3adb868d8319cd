"""Descriptors of a whole folder: several processes, progress, and a cache that survives interrupts."""

import hashlib
import json
import shutil
import zipfile
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass, fields
from math import prod
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bilsh.datasets.files import read_npy
from bilsh.datasets.images import ImageFolder, SkippedImage, decode_image, images, read_color, read_gray
from bilsh.descriptors.kinds import Descriptor, Matrix
from bilsh.errors import BilshError, InvalidInputError, optional
from bilsh.files import replace_file
from bilsh.types import Progress, silent

_CHUNK = 16
# Raise it when a descriptor's values change, so that older caches are not taken for the new values.
_REVISION = 1


@dataclass(frozen=True, slots=True)
class Described:
    """Matrices of a folder of images.

    Attributes
    ----------
    X : array (n, d_w, d_v)
        Memory-mapped where a cache was given.
    paths : tuple of Path
        The image of each matrix.
    skipped : tuple of SkippedImage
        Images without a matrix, and why.
    """

    X: NDArray[Any]
    paths: tuple[Path, ...]
    skipped: tuple[SkippedImage, ...]


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Matrices of a few images: rows that worked, and the reason for each that did not (else empty)."""

    X: NDArray[Any]
    reasons: list[str]


@dataclass(frozen=True, slots=True)
class _Task:
    """Work on one chunk; travels to the worker processes, which must not depend on global state."""

    descriptor: Descriptor
    max_side: int | None
    dtype: np.dtype[Any]

    def __call__(self, paths: list[Path]) -> _Chunk:
        rows, reasons = [], []
        for path in paths:
            found = describe_image(path, self.descriptor, self.max_side)
            if isinstance(found, SkippedImage):
                reasons.append(found.reason)
            else:
                rows.append(found.astype(self.dtype, copy=False))
                reasons.append("")
        return _Chunk(np.stack(rows) if rows else np.empty((0, *self.descriptor.shape), self.dtype), reasons)


def describe_image(path: Path, descriptor: Descriptor, max_side: int | None = None) -> Matrix | SkippedImage:
    """Describe one image, or say why that is not possible.

    Parameters
    ----------
    path : Path
    descriptor : Descriptor
        Receives gray values, or red, green and blue where its attribute `color` is true.
    max_side : int, optional
        Shrink larger images first.
    """
    read = read_color if getattr(descriptor, "color", False) else read_gray
    return _computed_matrix(read(path, max_side), path, descriptor)


def describe_data(
    data: NDArray[np.uint8],
    descriptor: Descriptor,
    max_side: int | None = None,
    *,
    max_pixels: int,
    name: str = "the image",
) -> Matrix | SkippedImage:
    """Describe the content of an image file as :func:`describe_image` does a file.

    Parameters
    ----------
    data : uint8 array
    descriptor, max_side
        As there.
    max_pixels : int
        Images that declare more are not decoded.
    name : str
        What a reason that it cannot be described calls it.
    """
    path, color = Path(name), bool(getattr(descriptor, "color", False))
    image = decode_image(data, path, max_side, color=color, max_pixels=max_pixels)
    return _computed_matrix(image, path, descriptor)


def _computed_matrix(
    image: NDArray[np.uint8] | SkippedImage, path: Path, descriptor: Descriptor
) -> Matrix | SkippedImage:
    if isinstance(image, SkippedImage):
        return image
    matrix = descriptor.compute(image)
    return SkippedImage(path, "no local features") if matrix is None else matrix


def describe(
    folder: ImageFolder | str | Path,
    descriptor: Descriptor,
    *,
    n_jobs: int = 1,
    cache: str | Path | None = None,
    dtype: DTypeLike = np.float32,
    progress: Progress = silent,
) -> Described:
    """Describe every image of a folder; files that cannot be read or described are named and skipped.

    Parameters
    ----------
    folder : ImageFolder or path
        See :func:`bilsh.datasets.images`, which can also shrink large photographs.
    descriptor : Vlad, Hog, Pixels, or any other Descriptor
    n_jobs : int
        Worker processes. They are spawned, so a script that asks for several must guard its main part with
        ``if __name__ == "__main__":``.
    cache : path, optional
        Folder for finished parts and the result, under a key made of the descriptor, the files (name, size,
        time of change) and the OpenCV version. An interrupted run goes on where it stopped, a repeated one
        only opens the result. Safe to delete at any time.
    dtype : float32 or float16
        float16 halves the 256 kB of a 64,000-dimensional matrix.
    progress : callable (what, done, total), optional
        Called after each chunk of images, with images found in the cache counted as done.

    Returns
    -------
    Described
    """
    source = folder if isinstance(folder, ImageFolder) else images(folder)
    kind = np.dtype(dtype)
    if kind not in (np.float32, np.float16):
        raise InvalidInputError(f"dtype must be float32 or float16; got {kind}.")
    if n_jobs < 1:
        raise InvalidInputError(f"n_jobs must be at least 1 process; got {n_jobs}.")
    task = _Task(descriptor, source.max_side, kind)
    if cache is not None:
        return _describe_cached(task, source.paths, n_jobs, Path(cache), progress)
    X = np.empty((len(source), *descriptor.shape), kind)
    reasons: list[str] = []
    filled = 0
    with closing(_computed(task, _groups(source.paths), n_jobs, progress, 0, len(source))) as chunks:
        for chunk in chunks:
            X[filled : filled + len(chunk.X)] = chunk.X
            filled += len(chunk.X)
            reasons += chunk.reasons
    return _described(X[:filled], source.paths, reasons)


def _describe_cached(
    task: _Task, paths: list[Path], n_jobs: int, home: Path, progress: Progress
) -> Described:
    home.mkdir(parents=True, exist_ok=True)
    key = _key(task, paths)
    result, notes, parts = home / f"{key}.npy", home / f"{key}.json", home / f"{key}.parts"
    if result.is_file() and notes.is_file():
        progress("describing images", len(paths), len(paths))
        return _described(read_npy(result), paths, json.loads(notes.read_bytes()))
    # Parts and result stand side by side for a moment.
    needed = 2 * len(paths) * prod(task.descriptor.shape) * task.dtype.itemsize
    if (free := shutil.disk_usage(home).free) < needed:
        raise OSError(
            f"{home} has {free / 1e9:.1f} GB free, {len(paths)} images need {needed / 1e9:.1f} GB. "
            "Free some space, choose another cache folder, or use dtype=float16."
        )
    parts.mkdir(exist_ok=True)
    groups = _groups(paths)
    reasons = [_finished(_part(parts, i)) for i in range(len(groups))]
    missing = [i for i, found in enumerate(reasons) if found is None]
    done = len(paths) - sum(len(groups[i]) for i in missing)
    if done:
        progress("describing images", done, len(paths))
    work = [groups[i] for i in missing]
    with closing(_computed(task, work, n_jobs, progress, done, len(paths))) as fresh:
        for chunk, i in zip(fresh, missing, strict=True):
            with replace_file(_part(parts, i)) as file:
                np.savez(file, X=chunk.X, reasons=np.array(chunk.reasons, dtype=np.str_))
            reasons[i] = chunk.reasons
    flat = [reason for group in reasons for reason in group or ()]
    with replace_file(notes) as file:
        file.write(json.dumps(flat).encode())
    _join(
        [_part(parts, i) for i in range(len(groups))],
        result,
        (flat.count(""), *task.descriptor.shape),
        task.dtype,
    )
    shutil.rmtree(parts)
    return _described(read_npy(result), paths, flat)


def _groups(paths: list[Path]) -> list[list[Path]]:
    return [paths[start : start + _CHUNK] for start in range(0, len(paths), _CHUNK)]


def _described(X: NDArray[Any], paths: list[Path], reasons: list[str]) -> Described:
    pairs = list(zip(paths, reasons, strict=True))
    return Described(
        X,
        tuple(path for path, reason in pairs if not reason),
        tuple(SkippedImage(path, reason) for path, reason in pairs if reason),
    )


def _key(task: _Task, paths: list[Path]) -> str:
    """Fingerprint of everything that the result depends on."""
    digest = hashlib.sha256()

    def add(*values: object) -> None:
        digest.update(json.dumps([str(value) for value in values]).encode())

    kind: Any = type(task.descriptor)
    add(
        _REVISION, optional("cv2", "Reading images").__version__, kind.__qualname__, task.max_side, task.dtype
    )
    for field in fields(kind):
        value = getattr(task.descriptor, field.name)
        is_array = isinstance(value, np.ndarray)
        add(field.name, hashlib.sha256(value.tobytes()).hexdigest() if is_array else repr(value))
    for path in paths:
        try:
            state = path.stat()
        except OSError:
            add(path.resolve(), "missing")
        else:
            add(path.resolve(), state.st_size, state.st_mtime_ns)
    return digest.hexdigest()[:32]


def _part(parts: Path, number: int) -> Path:
    return parts / f"{number:06d}.npz"


def _finished(path: Path) -> list[str] | None:
    """Reasons of a finished part; None where it is missing or damaged, so that it is computed again."""
    try:
        # Reading a member compares its checksum, so a part that was cut short or overwritten shows here.
        with np.load(path, allow_pickle=False) as part:
            reasons: list[str] = part["reasons"].tolist()
            return reasons if len(part["X"]) == reasons.count("") else None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _join(parts: list[Path], result: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Write the parts' rows into one .npy file, one part in memory at a time."""
    with replace_file(result) as file:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for path in parts:
            with np.load(path, allow_pickle=False) as part:
                file.write(part["X"].tobytes())


def _computed(
    task: _Task, groups: list[list[Path]], n_jobs: int, progress: Progress, done: int, total: int
) -> Generator[_Chunk, None, None]:
    """Yield the chunks in order; progress is told of a chunk once the caller has taken care of it."""
    with closing(_map(task, groups, n_jobs)) as chunks:
        for group, chunk in zip(groups, chunks, strict=True):
            yield chunk
            done += len(group)
            progress("describing images", done, total)


def _one_thread_each() -> None:
    """Start a worker: its parallelism is the number of processes."""
    from threadpoolctl import threadpool_limits

    optional("cv2", "Reading images").setNumThreads(1)
    threadpool_limits(1)


def _map(task: _Task, groups: list[list[Path]], n_jobs: int) -> Generator[_Chunk, None, None]:
    if n_jobs == 1 or len(groups) < 2:
        yield from map(task, groups)
        return
    # Spawned, not forked: a forked copy of a process with running threads may never wake up.
    pool = ProcessPoolExecutor(n_jobs, mp_context=get_context("spawn"), initializer=_one_thread_each)
    try:
        yield from pool.map(task, groups)
    except BrokenProcessPool as error:
        raise BilshError(
            "A worker process died, often for lack of memory or because the script has no "
            "'if __name__ == \"__main__\":' guard. Add the guard, or use fewer processes (n_jobs=1)."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)
