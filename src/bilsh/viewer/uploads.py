"""Queries that were dropped on the page: in memory only, the last few of them."""

from __future__ import annotations

import io
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock, Semaphore
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.datasets.images import SkippedImage
from bilsh.datasets.thumbnails import heat_map, thumbnail
from bilsh.descriptors.folder import describe_data
from bilsh.errors import InvalidInputError
from bilsh.workflows.collection import Collection
from bilsh.workflows.describing import make_descriptor

MAX_BYTES = 20_000_000
MAX_PIXELS = 50_000_000
KEPT = 16
_NPY = b"\x93NUMPY"


@dataclass(frozen=True, slots=True)
class Upload:
    """A query from outside: its descriptor, its picture (and whether that is a heat map), and what to say about it."""

    name: str
    vector: NDArray[np.float32]
    picture: bytes | None
    heat_map: bool
    note: str | None


class Uploads:
    """The last uploads, by a name that cannot be guessed."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Upload] = OrderedDict()
        self._lock = Lock()
        # Two pictures decoded at a time bound the memory that uploads can take.
        self._turns = Semaphore(2)

    def add(self, data: bytes, name: str, items: Collection) -> str:
        """Read an image or .npy, keep its descriptor, and return the name to ask for it."""
        with self._turns:
            upload = read_upload(data, name, items)
        key = secrets.token_urlsafe(9)
        with self._lock:
            self._kept[key] = upload
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return key

    def get(self, key: str) -> Upload:
        """Return an upload, or say that it is gone."""
        with self._lock:
            found = self._kept.get(key)
        if found is None:
            raise InvalidInputError(
                f"this query is gone: the last {KEPT} are kept, while the server runs. Drop the file again."
            )
        return found


def read_upload(data: bytes, name: str, items: Collection) -> Upload:
    """Turn the content of a file into a descriptor like the collection's; nothing touches the disk."""
    if not data:
        raise InvalidInputError("the file is empty. Drop an image or an .npy file.")
    if data.startswith(_NPY):
        return _array(data, name, items)
    recipe = items.recipe
    if recipe is None:
        raise InvalidInputError(
            "this store was not made from images, so an image cannot be described alike. Drop an .npy file of "
            f"shape {items.coder.input_shape}."
        )
    pixels = np.frombuffer(data, dtype=np.uint8)
    descriptor = make_descriptor(recipe.settings, recipe.codebook)
    found = describe_data(
        pixels, descriptor, recipe.settings.max_side, max_pixels=MAX_PIXELS, name=name or "the image"
    )
    if isinstance(found, SkippedImage):
        raise InvalidInputError(f"{name or 'the file'}: {found.reason}. Drop an image or an .npy file.")
    return Upload(name, np.asarray(found, dtype=np.float32), thumbnail(pixels, 640), False, None)


def _array(data: bytes, name: str, items: Collection) -> Upload:
    if items.coder.kind == "foreign":
        raise InvalidInputError(
            "the codes of this store were made elsewhere; queries from outside are for `bilsh search`."
        )
    rows = _read_npy(data)
    shape = items.coder.input_shape
    size = items.coder.n_features
    one = rows.shape in (shape, (size,))
    if not one and (rows.ndim < 2 or not len(rows) or int(np.prod(rows.shape[1:])) != size):
        raise InvalidInputError(
            f"the array has shape {rows.shape}; expected {shape}, or (n, {', '.join(map(str, shape))}) of which the "
            "first is taken."
        )
    vector = (rows if one else rows[0]).astype(np.float32).reshape(shape)
    if not np.isfinite(vector).all():
        raise InvalidInputError("the array holds NaN or infinity. Remove or impute such values first.")
    note = None if one or len(rows) == 1 else f"the first of {len(rows):,} rows"
    return Upload(name, vector, heat_map(vector, 640), True, note)


def _read_npy(data: bytes) -> NDArray[Any]:
    """Read .npy without pickle, and without believing a header that claims more than there is."""
    buffer = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(buffer)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, by_columns, dtype = read[version](buffer)
    except Exception:  # a false header makes NumPy raise errors of many kinds
        raise InvalidInputError("the .npy file is damaged. Save it again with numpy.save.") from None
    if dtype.hasobject or dtype.kind not in "fiub":
        raise InvalidInputError(f"the array holds {dtype.kind!r} values; expected real numbers.")
    count = 1
    for length in shape:
        count *= length
    if count * dtype.itemsize != len(data) - buffer.tell() or not count:
        raise InvalidInputError(f"the .npy file is cut short or empty: it claims shape {shape}.")
    flat = np.frombuffer(data, dtype, count=count, offset=buffer.tell())
    return flat.reshape(shape, order="F" if by_columns else "C")
