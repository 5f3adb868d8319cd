"""Encoder files: the parameters themselves, checksummed, versioned, without pickle.

Layout (all integers little-endian)::

    offset  bytes  content
    0       8      magic "BILSHENC"
    8       4      format version: 2 where a transform has an origin, which older versions do not know, else 1
    12      4      length J of the header
    16      J      header: JSON (UTF-8), with a table of arrays: name, dtype, shape, offset
    ...            arrays, C order, each at a multiple of 64 bytes from the start of the file
    end-32  32     SHA-256 of everything before

Nothing is allocated before its size has been compared with the size of the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from math import prod
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import CorruptEncoderError
from bilsh.files import replace_file
from bilsh.projections import MAPS
from bilsh.theory.hit_sample import HitSample

if TYPE_CHECKING:
    from bilsh.encoders.coder import Coder

MAGIC = b"BILSHENC"
VERSIONS = (1, 2)
ALIGNMENT = 64
MAX_HEADER = 1 << 20
DTYPES = ("<f4", "<f8", "<i4", "|i1")
PREFIX = "projection."

Arrays = dict[str, NDArray[Any]]


def code_arrays(coder: Coder) -> Arrays:
    """Return the arrays that determine the codes."""
    arrays: Arrays = {PREFIX + name: array for name, array in coder.projection.arrays().items()}
    arrays["outputs"], arrays["offsets"] = coder.outputs, coder.offsets
    if coder.tau is not None:
        arrays["tau"] = coder.tau
    return arrays


def _code_settings(coder: Coder) -> dict[str, Any]:
    """Return the plain values that determine the codes."""
    return {
        "encoder": coder.kind,
        "input_shape": list(coder.input_shape),
        "scale": coder.scale,
        "projection": {"kind": coder.projection.kind, **coder.projection.settings()},
    }


def fingerprint(coder: Coder) -> str:
    """SHA-256 over all that determines the codes of an encoder: settings first, then every array by name."""
    digest = hashlib.sha256(_dump(_code_settings(coder)))
    for name, array in sorted(code_arrays(coder).items()):
        little = _little_endian(array)
        digest.update(f"{name} {little.dtype.str} {little.shape}\n".encode())
        digest.update(little.data)
    return digest.hexdigest()


def _little_endian(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))


def _dump(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _chunks(coder: Coder) -> Iterator[bytes | memoryview]:
    """Yield the content of the file up to its checksum."""
    learned, more = coder.learned()
    samples = {"hits_": coder.hits, "score_hits_": coder.score_hits}
    more |= {name: sample.to_array() for name, sample in samples.items() if sample is not None}
    arrays = {name: _little_endian(array) for name, array in (code_arrays(coder) | more).items()}
    fitted = {"input_shape_": list(coder.input_shape), "norm_ratio_": coder.norm_ratio, **learned}
    if coder.feature_names is not None:
        fitted["feature_names_in_"] = list(coder.feature_names)
    table: list[dict[str, Any]] = []
    header: dict[str, Any] = {"params": dict(coder.params), "fitted": fitted, **_code_settings(coder)}
    header["arrays"] = table
    # Offsets count from the end of the header, so that they do not depend on its length.
    end = 0
    for name, array in arrays.items():
        end = _aligned(end)
        table.append({"name": name, "dtype": array.dtype.str, "shape": list(array.shape), "offset": end})
        end += array.nbytes
    text = _dump(header)
    text += b" " * (_aligned(16 + len(text)) - 16 - len(text))
    version = VERSIONS[PREFIX + "origin" in arrays]
    yield MAGIC + version.to_bytes(4, "little") + len(text).to_bytes(4, "little") + text
    position = 0
    for entry, array in zip(table, arrays.values(), strict=True):
        yield bytes(entry["offset"] - position)
        yield array.data.cast("B") if array.size else b""
        position = entry["offset"] + array.nbytes


def _aligned(position: int) -> int:
    return -(-position // ALIGNMENT) * ALIGNMENT


def to_bytes(coder: Coder) -> bytes:
    """Return the whole content of an encoder file."""
    content = b"".join(_chunks(coder))
    return content + hashlib.sha256(content).digest()


def save(coder: Coder, path: str | PathLike[str]) -> None:
    """Write an encoder file; it appears under its name only when it is complete and on the disk."""
    digest = hashlib.sha256()
    with replace_file(path) as file:
        for chunk in _chunks(coder):
            digest.update(chunk)
            file.write(chunk)
        file.write(digest.digest())


def from_bytes(data: bytes, source: str, coders: Mapping[str, type[Coder]]) -> Coder:
    """Rebuild a coder of one of the kinds that `coders` names."""
    header, body = _checked_header(data, source)
    try:
        return _restore(coders, header, _read_arrays(header["arrays"], body))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise CorruptEncoderError(
            f"{source} has a correct checksum but content that does not fit together: {error}."
        ) from error


def kind_of(data: bytes, source: str) -> str:
    """Which kind of coder the content of an encoder file holds, without making one."""
    return str(_checked_header(data, source)[0].get("encoder"))


def _restore(coders: Mapping[str, type[Coder]], header: dict[str, Any], arrays: Arrays) -> Coder:
    fitted, settings = header["fitted"], dict(header["projection"])
    drawn = {name.removeprefix(PREFIX): a for name, a in arrays.items() if name.startswith(PREFIX)}
    names = fitted.get("feature_names_in_")
    common = {
        "projection": MAPS[settings.pop("kind")].restore(settings, drawn),
        "outputs": arrays["outputs"],
        "offsets": arrays["offsets"],
        "tau": arrays.get("tau"),
        "input_shape": tuple(int(size) for size in header["input_shape"]),
        "norm_ratio": float(fitted["norm_ratio_"]),
        "params": header["params"],
        "feature_names": None if names is None else tuple(str(name) for name in names),
        "hits": HitSample.from_array(arrays["hits_"]) if "hits_" in arrays else None,
        "score_hits": HitSample.from_array(arrays["score_hits_"]) if "score_hits_" in arrays else None,
    }
    coder = coders[header["encoder"]].restore(common, fitted, arrays)
    params = header["params"]
    n_bits = params["n_bits"] if "n_bits" in params else 8 * params["n_bytes"]
    if coder.scale != header["scale"] or coder.n_bits != n_bits:
        raise ValueError("the number of bits or the scale contradict the arrays")
    plan = coder.plan  # the compiled core checks that shapes fit together
    d, signs = coder.n_features, getattr(plan, "signs", None)
    if min(coder.input_shape, default=0) < 1 or (signs is not None and signs.shape[-1] != d):
        raise ValueError(f"descriptors of shape {coder.input_shape} contradict the arrays")
    plan.encode(np.empty((0, d), dtype=np.float32))
    return coder


def _checked_header(data: bytes, source: str) -> tuple[dict[str, Any], memoryview]:
    if data[:8] != MAGIC:
        raise CorruptEncoderError(
            f"{source} is not an encoder file: it does not start with {MAGIC.decode()}."
        )
    version = int.from_bytes(data[8:12], "little")
    if len(data) >= 12 and version not in VERSIONS:
        raise CorruptEncoderError(
            f"{source} has format version {version}; this version of bilsh reads {VERSIONS[0]} and "
            f"{VERSIONS[1]}. It is damaged, or was "
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
