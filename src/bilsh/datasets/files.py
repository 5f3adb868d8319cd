"""Arrays in files: .npy, .npz, fvecs, bvecs, ivecs and idx; and what all readers share.

A header is a claim, not a fact: the size it declares is compared with the file before anything is allocated.
"""

import gzip
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh.errors import BilshError, DataNotFoundError, InvalidInputError
from bilsh.files import replace_file

PathLike = str | Path

# Deflate cannot shrink data more than this; a header that claims more than the file could hold is false.
MAX_DEFLATE = 1032
_IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def as_ids(values: NDArray[Any], source: str) -> NDArray[np.int64] | list[str]:
    """Return integers as int64, texts as strings; refuse anything else."""
    if values.ndim == 1 and values.dtype.kind in "iu":
        if values.size and values.dtype.kind == "u" and int(values.max()) > np.iinfo(np.int64).max:
            raise InvalidInputError(
                f"{source} has ids beyond 64 bits with sign: the largest is {values.max()}."
            )
        return values.astype(np.int64)
    if values.ndim == 1 and values.dtype.kind in "US":
        return [str(v) if isinstance(v, str) else v.decode("utf-8", "replace") for v in values.tolist()]
    raise InvalidInputError(
        f"{source} holds {values.dtype} values of shape {values.shape}; expected ids, integers or texts (n,)."
    )


def check_folder(path: Path) -> None:
    """Refuse a file to be written into a folder that does not exist."""
    if not path.parent.is_dir():
        raise DataNotFoundError(f"the folder {path.parent} does not exist. Make it first.")


def existing(path: PathLike) -> Path:
    """Return the path of a file that is there."""
    file = Path(path)
    if not file.is_file():
        raise DataNotFoundError(f"{file} does not exist or is not a file. Check the path.")
    return file


def numeric(array: NDArray[Any], source: str) -> NDArray[Any]:
    """Return an array of real numbers, refuse any other."""
    if array.dtype.kind not in "fiub":
        raise InvalidInputError(f"{source} holds {array.dtype} values; expected real numbers.")
    return array


@contextmanager
def parsing(file: Path, kind: str) -> Iterator[None]:
    """Turn whatever a parser raises on a damaged file into one kind of error that names the file."""
    try:
        yield
    except (BilshError, PermissionError, MemoryError):
        raise
    except Exception as error:
        raise InvalidInputError(
            f"{file} is not a readable {kind} file ({error}). Write or fetch it again."
        ) from error


def read_npy(path: PathLike) -> NDArray[Any]:
    """Memory-map a .npy file (read-only). Files with Python objects inside are refused, not unpickled."""
    file = existing(path)
    with parsing(file, ".npy"):
        with file.open("rb") as stream:
            # NumPy would take anything else for a pickle, and advise to trust it.
            if stream.read(6) != b"\x93NUMPY":
                raise ValueError("it does not begin as one")
        try:
            return numeric(np.load(file, mmap_mode="r", allow_pickle=False), str(file))
        except ValueError as error:
            if "Python objects" not in str(error):
                raise
            raise ValueError("it holds Python objects, which are never unpickled") from error


def read_npz(
    path: PathLike, key: str | None = None, *, ids: str | None = None, numbers: bool = True
) -> NDArray[Any]:
    """Read one member of an .npz archive; the only one (besides ``ids``) when ``key`` is left out."""
    file = existing(path)
    with parsing(file, ".npz"), zipfile.ZipFile(file) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        info = members[choose(key, [name for name in members if name != ids], file)]
        if info.file_size > MAX_DEFLATE * (info.compress_size + 1):
            raise ValueError(f"member {info.filename} declares an impossible size")
        with archive.open(info) as member:
            version = np.lib.format.read_magic(member)
            old = version == (1, 0)
            header = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
            shape, _, dtype = header(member)
        if prod(shape) * dtype.itemsize > info.file_size:
            raise ValueError(f"member {info.filename} is too short for shape {shape} of {dtype}")
        with archive.open(info) as member:
            array = np.asarray(np.lib.format.read_array(member, allow_pickle=False))
        return numeric(array, f"{info.filename} of {file}") if numbers else array


def choose(key: str | None, names: Sequence[str], file: Path, preferred: str | None = None) -> str:
    """Return the array that is asked for, the preferred or the only one; refuse to guess."""
    if key is None:
        if len(names) == 1:
            return names[0]
        if preferred in names:
            return str(preferred)
    if key is None or key not in names:
        wanted = "several arrays" if key is None and names else "no array" + (f" {key!r}" if key else "")
        raise InvalidInputError(f"{file} holds {wanted}; choose by key among {', '.join(names) or 'none'}.")
    return key


def _vecs(path: PathLike, item: str) -> NDArray[Any]:
    """Map rows of (int32 dimension, dimension values) as an (n, d) array."""
    file = existing(path)
    size, width = file.stat().st_size, np.dtype(item).itemsize
    if size == 0:
        return np.empty((0, 0), dtype=item)
    with file.open("rb") as stream:
        d = int.from_bytes(stream.read(4), "little", signed=True)
    row = 4 + d * width
    if d < 1 or size < row or size % row:
        raise InvalidInputError(
            f"{file} has {size} bytes, no whole number of rows of the dimension {d} that row 0 declares. "
            f"The file is cut short or not a {file.suffix} file."
        )
    raw = np.memmap(file, dtype=np.uint8, mode="r").reshape(-1, row)
    # A sample of the rows: reading every row's dimension would read the whole file.
    sample = np.unique(np.linspace(0, len(raw) - 1, 1000).astype(np.int64))
    dimensions = np.ascontiguousarray(raw[sample, :4]).view("<i4").ravel()
    if (dimensions != d).any():
        wrong = int(np.flatnonzero(dimensions != d)[0])
        raise InvalidInputError(
            f"{file}: row {sample[wrong]} has dimension {dimensions[wrong]}, row 0 has {d}. "
            "The file is damaged or holds rows of different lengths."
        )
    return raw[:, 4:].view(item)


def read_fvecs(path: PathLike) -> NDArray[np.float32]:
    """Memory-map an fvecs file, float32 (n, d), read-only."""
    return _vecs(path, "<f4")


def read_bvecs(path: PathLike) -> NDArray[np.uint8]:
    """Memory-map a bvecs file, uint8 (n, d), read-only."""
    return _vecs(path, "u1")


def read_ivecs(path: PathLike) -> NDArray[np.int32]:
    """Memory-map an ivecs file (neighbour lists, for example), int32 (n, d), read-only."""
    return _vecs(path, "<i4")


def write_vecs(path: PathLike, X: ArrayLike) -> None:
    """Write (n, d) numbers as .fvecs (float32), .bvecs (uint8) or .ivecs (int32), by the suffix.

    Values that the format cannot hold are refused rather than changed; only fractions are rounded, to float32.

    Parameters
    ----------
    path : path
    X : array (n, d)
        Written in blocks, so it may be memory-mapped. The format keeps d with every row: an array without rows
        makes an empty file, which is read as (0, 0).
    """
    file = Path(path)
    items = {".fvecs": "<f4", ".bvecs": "u1", ".ivecs": "<i4"}
    if file.suffix.lower() not in items:
        raise InvalidInputError(f"{file} must end in {', '.join(items)}.")
    item = np.dtype(items[file.suffix.lower()])
    data = X if isinstance(X, np.ndarray) else np.asarray(X)
    if data.ndim != 2 or data.shape[1] < 1 or data.dtype.kind not in "fiub":
        raise InvalidInputError(f"X must be numbers of shape (n, d), d >= 1; got {data.dtype} {data.shape}.")
    step = max(1, (1 << 24) // data.shape[1])
    with replace_file(file) as out:
        for start in range(0, len(data), step):
            block = data[start : start + step]
            values = _as_floats(block, item) if item.kind == "f" else _as_integers(block, item)
            rows = np.empty((len(block), 4 + data.shape[1] * item.itemsize), dtype=np.uint8)
            rows[:, :4] = np.frombuffer(np.array(data.shape[1], dtype="<i4").tobytes(), dtype=np.uint8)
            rows[:, 4:] = values.view(np.uint8)
            out.write(rows.tobytes())


def _as_floats(block: NDArray[Any], item: np.dtype[Any]) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(block, dtype=item)
    if block.dtype.kind in "iu":
        # Compared as integers: floats could not tell 2^53 from 2^53 + 1. The largest ones may round up to a
        # value beyond their own type, which must not be cast back.
        limits = np.iinfo(block.dtype)
        inside = (values >= limits.min) & (values < np.float64(limits.max) + 1)
        if not (inside.all() and (values.astype(block.dtype) == block).all()):
            raise InvalidInputError(
                "X has integers that float32 cannot hold: all up to 2^24 = 16777216 can be. "
                "Write them as .ivecs, or round them to float32 first."
            )
    elif not (np.isfinite(values) | ~np.isfinite(block)).all():
        raise InvalidInputError(
            f"X has values beyond float32, which ends at {np.finfo(item).max:.3g}. Scale the data first."
        )
    return values


def _as_integers(block: NDArray[Any], item: np.dtype[Any]) -> NDArray[Any]:
    limits = np.iinfo(item)
    if not ((block >= limits.min) & (block <= limits.max) & (np.floor(block) == block)).all():
        raise InvalidInputError(f"X has values that are not whole numbers from {limits.min} to {limits.max}.")
    return np.ascontiguousarray(block.astype(item))


def read_idx(path: PathLike) -> NDArray[Any]:
    """Read an idx file (MNIST's format): memory-mapped when plain, into memory when it ends in .gz."""
    file = existing(path)
    packed = file.suffix == ".gz"
    size = file.stat().st_size
    with parsing(file, "idx"), gzip.open(file) if packed else file.open("rb") as stream:
        magic = stream.read(4)
        if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _IDX_TYPES or not magic[3]:
            raise ValueError("it does not begin as one")
        dtype = np.dtype(_IDX_TYPES[magic[2]])
        shape = tuple(np.frombuffer(stream.read(4 * magic[3]), dtype=">u4").tolist())
        wanted = prod(shape) * dtype.itemsize
        offset = 4 + 4 * magic[3]
        if len(shape) != magic[3] or (wanted > MAX_DEFLATE * size if packed else wanted + offset != size):
            raise ValueError(f"it declares shape {shape} of {dtype}, which its {size} bytes cannot hold")
        if not packed and wanted:
            return np.asarray(np.memmap(file, dtype=dtype, mode="r", offset=offset, shape=shape))
        content = stream.read(wanted + 1)
        if len(content) != wanted:
            raise ValueError(f"it declares shape {shape} of {dtype} but does not hold {wanted} bytes")
        return np.frombuffer(content, dtype=dtype).reshape(shape)
