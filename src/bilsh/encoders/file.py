"""Encoder files: the parameters themselves, checksummed, versioned, without pickle.

Layout (all integers little-endian)::

    offset  bytes  content
    0       8      magic "BILSHENC"
    8       4      format version, 1
    12      4      length J of the header
    16      J      header: JSON (UTF-8), with a table of arrays: name, dtype, shape, offset
    ...            arrays, C order, each at a multiple of 64 bytes from the start of the file
    end-32  32     SHA-256 of everything before

Nothing is allocated before its size has been compared with the size of the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from math import prod
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import CorruptEncoderError
from bilsh.files import replace_file
from bilsh.projections import MAPS, PROJECTIONS

if TYPE_CHECKING:
    from bilsh.encoders.coder import Coder
    from bilsh.encoders.estimators import Encoder

MAGIC = b"BILSHENC"
VERSION = 1
ALIGNMENT = 64
MAX_HEADER = 1 << 20
DTYPES = ("<f4", "<f8", "<i4", "|i1")
PREFIX = "projection."

Arrays = dict[str, NDArray[Any]]


def _code_arrays(encoder: Coder) -> Arrays:
    """Return the arrays that determine the codes."""
    arrays: Arrays = {PREFIX + name: array for name, array in encoder.projection_.arrays().items()}
    arrays["outputs"], arrays["offsets"] = encoder.outputs_, encoder._offsets
    if encoder._tau is not None:
        arrays["tau"] = encoder._tau
    return arrays


def _code_settings(encoder: Coder) -> dict[str, Any]:
    """Return the plain values that determine the codes."""
    return {
        "encoder": encoder.kind,
        "input_shape": list(encoder.input_shape_),
        "scale": encoder._scale,
        "projection": {"kind": encoder.projection_.kind, **encoder.projection_.settings()},
    }


def fingerprint(encoder: Coder) -> str:
    """SHA-256 over all that determines the codes of an encoder: settings first, then every array by name."""
    digest = hashlib.sha256(_dump(_code_settings(encoder)))
    for name, array in sorted(_code_arrays(encoder).items()):
        little = _little_endian(array)
        digest.update(f"{name} {little.dtype.str} {little.shape}\n".encode())
        digest.update(little.data)
    return digest.hexdigest()


def _little_endian(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))


def _dump(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _chunks(encoder: Encoder) -> Iterator[bytes | memoryview]:
    """Yield the content of the file up to its checksum."""
    arrays = {name: _little_endian(array) for name, array in _all_arrays(encoder).items()}
    table: list[dict[str, Any]] = []
    header: dict[str, Any] = {
        "params": _params(encoder),
        "fitted": _fitted(encoder),
        **_code_settings(encoder),
    }
    header["arrays"] = table
    # Offsets count from the end of the header, so that they do not depend on its length.
    end = 0
    for name, array in arrays.items():
        end = _aligned(end)
        table.append({"name": name, "dtype": array.dtype.str, "shape": list(array.shape), "offset": end})
        end += array.nbytes
    text = _dump(header)
    text += b" " * (_aligned(16 + len(text)) - 16 - len(text))
    yield MAGIC + VERSION.to_bytes(4, "little") + len(text).to_bytes(4, "little") + text
    position = 0
    for entry, array in zip(table, arrays.values(), strict=True):
        yield bytes(entry["offset"] - position)
        yield array.data.cast("B") if array.size else b""
        position = entry["offset"] + array.nbytes


def _aligned(position: int) -> int:
    return -(-position // ALIGNMENT) * ALIGNMENT


def _all_arrays(encoder: Encoder) -> Arrays:
    arrays = _code_arrays(encoder)
    for name in ("mean_", "difference_spectrum_"):
        value = getattr(encoder, name, None)
        if value is not None:
            arrays[name] = value
    return arrays


def _params(encoder: Encoder) -> dict[str, Any]:
    """Return the constructor's arguments as plain values; a random state that is an object is not kept."""
    params = encoder.get_params(deep=False)
    if not isinstance(params["projection"], str):
        projection = params["projection"]
        params["projection"] = {
            "name": type(projection).__name__.lower(),
            **projection.get_params(deep=False),
        }
    if not isinstance(params["random_state"], int | np.integer):
        params["random_state"] = None
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in params.items()}


def _fitted(encoder: Encoder) -> dict[str, Any]:
    values = {name: getattr(encoder, name) for name in encoder.FITTED}
    names = getattr(encoder, "feature_names_in_", None)
    return values | ({} if names is None else {"feature_names_in_": list(names)})


def to_bytes(encoder: Encoder) -> bytes:
    """Return the whole content of an encoder file."""
    content = b"".join(_chunks(encoder))
    return content + hashlib.sha256(content).digest()


def save(encoder: Encoder, path: str | PathLike[str]) -> None:
    """Write an encoder file; it appears under its name only when it is complete and on the disk."""
    digest = hashlib.sha256()
    with replace_file(path) as file:
        for chunk in _chunks(encoder):
            digest.update(chunk)
            file.write(chunk)
        file.write(digest.digest())


def load_encoder(path: str | PathLike[str]) -> Encoder:
    """Read an encoder that was saved with :meth:`Encoder.save`.

    Raises
    ------
    CorruptEncoderError
        If the file is damaged, cut short, of a newer format, or no encoder file.
    """
    return encoder_from_bytes(Path(path).read_bytes(), source=str(path))


def encoder_from_bytes(data: bytes, source: str = "the encoder data") -> Encoder:
    """Rebuild an encoder from the content of an encoder file; see :func:`load_encoder`."""
    from bilsh.encoders.estimators import AngleEncoder, KernelEncoder

    encoder: Encoder = _read(data, source, {"angle": AngleEncoder, "kernel": KernelEncoder}, _construct)
    return encoder


def coder_from_bytes(data: bytes, source: str = "the encoder data") -> Coder:
    """Rebuild what encodes, without the scikit-learn estimator around it; same checks, same codes."""
    from bilsh.encoders.coder import AngleCoder, KernelCoder

    coder: Coder = _read(data, source, {"angle": AngleCoder, "kernel": KernelCoder}, _bare)
    return coder


def _read(
    data: bytes, source: str, classes: dict[str, type[Any]], make: Callable[[type[Any], dict[str, Any]], Any]
) -> Any:
    header, body = _checked_header(data, source)
    try:
        encoder = make(classes[header["encoder"]], header)
        return _restore(encoder, header, _read_arrays(header["arrays"], body))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise CorruptEncoderError(
            f"{source} has a correct checksum but content that does not fit together: {error}."
        ) from error


def _checked_header(data: bytes, source: str) -> tuple[dict[str, Any], memoryview]:
    if data[:8] != MAGIC:
        raise CorruptEncoderError(
            f"{source} is not an encoder file: it does not start with {MAGIC.decode()}."
        )
    version = int.from_bytes(data[8:12], "little")
    if len(data) >= 12 and version != VERSION:
        raise CorruptEncoderError(
            f"{source} has format version {version}; this version of bilsh reads {VERSION}. It is damaged, or was "
            "written by a newer bilsh."
        )
    view = memoryview(data)
    if len(data) < 48 or hashlib.sha256(view[:-32]).digest() != bytes(view[-32:]):
        raise CorruptEncoderError(
            f"{source} is damaged: its checksum does not match. Restore it from a copy."
        )
    length = int.from_bytes(data[12:16], "little")
    if length > min(MAX_HEADER, len(data) - 48):
        raise CorruptEncoderError(f"{source} claims a header of {length} bytes in a file of {len(data)}.")
    try:
        header = json.loads(data[16 : 16 + length])
    except (ValueError, RecursionError) as error:
        raise CorruptEncoderError(f"{source} has a header that is not JSON: {error}.") from error
    if not isinstance(header, dict):
        raise CorruptEncoderError(f"{source} has a header that is not a JSON object.")
    return header, view[16 + length : -32]


def _read_arrays(table: list[dict[str, Any]], body: memoryview) -> Arrays:
    arrays: Arrays = {}
    for entry in table:
        dtype, shape, offset = (
            str(entry["dtype"]),
            [int(size) for size in entry["shape"]],
            int(entry["offset"]),
        )
        if dtype not in DTYPES or min(shape, default=0) < 0 or len(shape) > 4:
            raise ValueError(f"array {entry['name']!r} has dtype {dtype!r} and shape {shape}")
        n_bytes = prod(shape) * np.dtype(dtype).itemsize
        if not 0 <= offset <= len(body) - n_bytes:
            raise ValueError(f"array {entry['name']!r} does not lie within the file")
        flat = np.frombuffer(body[offset : offset + n_bytes], dtype=dtype)
        arrays[str(entry["name"])] = flat.astype(flat.dtype.newbyteorder("=")).reshape(shape)
    return arrays


def _construct(kind: type[Any], header: dict[str, Any]) -> Any:
    """Make the unfitted estimator of the saved parameters."""
    params = dict(header["params"])
    if isinstance(params["projection"], dict):
        settings: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in params["projection"].items()
        }
        params["projection"] = PROJECTIONS[settings.pop("name")](**settings)
    return kind(**params)


def _bare(kind: type[Any], header: dict[str, Any]) -> Any:
    """Make a coder with those parameters that say what its bits mean."""
    coder = kind()
    for name in ("n_bits", "kernel", "nu", "thresholds"):
        if name in header["params"]:
            setattr(coder, name, header["params"][name])
    return coder


def _restore(encoder: Any, header: dict[str, Any], arrays: Arrays) -> Any:
    for name in encoder.FITTED:
        setattr(encoder, name, header["fitted"][name])
    encoder.input_shape_ = tuple(int(size) for size in header["input_shape"])
    encoder.n_features_in_ = prod(encoder.input_shape_)
    names = header["fitted"].get("feature_names_in_")
    if names is not None:
        encoder.feature_names_in_ = np.array(names, dtype=object)
    projection = dict(header["projection"])
    map_class = MAPS[projection.pop("kind")]
    drawn = {name.removeprefix(PREFIX): a for name, a in arrays.items() if name.startswith(PREFIX)}
    encoder.projection_ = map_class.restore(projection, drawn)
    encoder.outputs_, encoder._offsets, encoder._tau = arrays["outputs"], arrays["offsets"], arrays.get("tau")
    if encoder.kind == "angle":
        encoder.mean_ = arrays["mean_"]
    else:
        encoder.difference_spectrum_ = arrays.get("difference_spectrum_")
    if encoder._scale != header["scale"] or len(encoder.outputs_) != encoder.n_bits:
        raise ValueError("the number of bits or the scale contradict the arrays")
    encoder._plan = encoder._compile()
    return encoder
