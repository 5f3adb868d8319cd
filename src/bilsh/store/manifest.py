"""The manifest: a small checksummed JSON file that says which files make up one version of the store.

A version exists from the moment its manifest has its final name, `m-<version>.json`. The file is sealed, see
:mod:`bilsh.store.sealed`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from bilsh.errors import CorruptStoreError
from bilsh.store.sealed import BrokenSealError, seal, unseal
from bilsh.store.sections import FileRef

MAX_BYTES = 16 << 20
MAX_VERSION = 9_999_999_999
"""The largest that ten digits name."""
_VERSION_NAME = re.compile(r"m-([0-9]{10})\.json")  # digits of other scripts are digits too, to \d and to int
_OWN_NAME = re.compile(
    r"(?:s-[0-9a-f]{16}\.seg|d-[0-9a-f]{16}\.del|e-[0-9a-f]{16}\.enc|l-[0-9a-f]{16}\.log|c-[0-9a-f]{16}\.cal|"
    r"b-[0-9a-f]{16}\.bak|t-[0-9a-f]{16}\.tmp)"
)
_HEX64 = re.compile(r"[0-9a-f]{64}")

IdKind = Literal["int", "str"]
VectorKind = Literal["float32", "float16"]


@dataclass(frozen=True, slots=True)
class SegmentRef(FileRef):
    """A segment of a version: its file, its rows, how many are dead, and where their bitmap begins."""

    rows: int
    dead: int
    bitmap: int | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that one version consists of."""

    format: int
    version: int
    time: int
    fingerprint: str
    n_bits: int
    n_features: int
    id_kind: IdKind | None
    next_id: int
    keep_vectors: VectorKind | None
    encoder: FileRef
    segments: tuple[SegmentRef, ...]
    deletes: FileRef | None
    repaired_from: int | None
    log: FileRef | None = None
    calibration: FileRef | None = None

    def files(self) -> set[str]:
        """Names of all files this version needs."""
        others = {ref.file for ref in (self.deletes, self.log, self.calibration) if ref}
        return {self.encoder.file, *(segment.file for segment in self.segments)} | others


def manifest_name(version: int) -> str:
    """Name of a version's manifest."""
    return f"m-{version:010d}.json"


def version_of(name: str) -> int | None:
    """Version that a file name stands for, None for other files."""
    match = _VERSION_NAME.fullmatch(name)
    return int(match[1]) if match else None


def is_own_file(name: str) -> bool:
    """Whether the store made a file of this name (manifests and lock aside)."""
    return _OWN_NAME.fullmatch(name) is not None


def encode_manifest(manifest: Manifest) -> bytes:
    """Bytes of the manifest's file."""
    left_out = _ADDED[manifest.format - 1 :]
    raw = {name: getattr(manifest, name) for name in _NAMES if name not in left_out}
    raw |= {name: _raw(ref) for name, ref in raw.items() if isinstance(ref, FileRef)}
    return seal("manifest", raw | {"segments": [_raw(ref) for ref in manifest.segments]})


def _raw(ref: FileRef) -> dict[str, Any]:
    names = _SEGMENT_NAMES if isinstance(ref, SegmentRef) else _FILE_NAMES
    return {name: getattr(ref, name) for name in names}


def decode_manifest(data: bytes, name: str) -> Manifest:
    """Read a manifest back; CorruptStoreError when any byte of it is not as written."""
    try:
        return _checked(unseal("manifest", data), version_of(name))
    except BrokenSealError as error:
        raise CorruptStoreError(f"{name} is damaged: {error}. See Store.versions and Store.repair.") from None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorruptStoreError(f"{name} is not a manifest this bilsh can read: {error}") from None


def _checked(raw: Any, version: int | None) -> Manifest:
    """Turn parsed JSON into a Manifest, by the reader of its format; ValueError says what is wrong."""
    _want(isinstance(raw, dict), "it is no JSON object")
    number = raw.get("format")
    if type(number) is not int or number not in READERS:
        known = ", ".join(map(str, READERS))
        raise ValueError(f"it has format {number!r}, this version knows {known}; use a newer bilsh")
    return READERS[number](raw, version)


def _read_1(raw: dict[str, Any], version: int | None) -> Manifest:
    _want(set(raw) == _FIELDS_1, "its fields are not those of its format")
    _want(raw["version"] == _count(raw["version"], 1) == version, "it carries another version than its name")
    _want(raw["id_kind"] in (None, "int", "str"), "unknown kind of ids")
    _want(raw["keep_vectors"] in (None, "float32", "float16"), "unknown kind of vectors")
    _want(_is_hash(raw["fingerprint"]), "fingerprint is not a SHA-256")
    _want(type(raw["next_id"]) is int and 0 <= raw["next_id"] <= 1 << 63, "next id out of range")
    _want(isinstance(raw["segments"], list), "segments is not a list")
    segments = tuple(_segment(item) for item in raw["segments"])
    _want(raw["deletes"] is not None or not any(s.dead for s in segments), "deleted rows without bitmaps")
    _want(bool(raw["id_kind"]) or not segments, "segments without a kind of ids")
    _want(len({s.file for s in segments}) == len(segments), "a segment is listed twice")
    return Manifest(
        format=1,
        version=raw["version"],
        time=_count(raw["time"]),
        fingerprint=raw["fingerprint"],
        n_bits=_count(raw["n_bits"], 1),
        n_features=_count(raw["n_features"], 1),
        id_kind=raw["id_kind"],
        next_id=raw["next_id"],
        keep_vectors=raw["keep_vectors"],
        encoder=_file(raw["encoder"], "e-", ".enc"),
        segments=segments,
        deletes=None if raw["deletes"] is None else _file(raw["deletes"], "d-", ".del"),
        repaired_from=None if raw["repaired_from"] is None else _count(raw["repaired_from"], 1),
    )


def _segment(raw: Any) -> SegmentRef:
    _want(
        isinstance(raw, dict) and set(raw) == set(_SEGMENT_NAMES),
        "bad segment",
    )
    ref = _file({key: raw[key] for key in _FILE_NAMES}, "s-", ".seg")
    rows, dead = _count(raw["rows"], 1), _count(raw["dead"])
    _want(dead <= rows, "more dead rows than rows")
    _want((raw["bitmap"] is None) == (dead == 0), "a bitmap without dead rows, or the reverse")
    bitmap = None if raw["bitmap"] is None else _count(raw["bitmap"])
    return SegmentRef(ref.file, ref.size, ref.header, rows, dead, bitmap)


def _file(raw: Any, prefix: str, suffix: str) -> FileRef:
    _want(isinstance(raw, dict) and set(raw) == set(_FILE_NAMES), "bad file entry")
    name = raw["file"]
    good = isinstance(name, str) and is_own_file(name) and name.startswith(prefix) and name.endswith(suffix)
    _want(good, f"{name!r} is no file name of a store")
    _want(_is_hash(raw["header"]), "header checksum is not a SHA-256")
    return FileRef(name, _count(raw["size"]), raw["header"])


def _count(value: Any, least: int = 0) -> int:
    if type(value) is not int or not least <= value <= 1 << 62:
        raise ValueError(f"{value!r} is not a count of at least {least}")
    return value


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and _HEX64.fullmatch(value) is not None


def _want(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)


def _read_2(raw: dict[str, Any], version: int | None) -> Manifest:
    """Format 2 is format 1 with a log."""
    _want("log" in raw, "it names no log")
    log = _file(raw["log"], "l-", ".log")
    first = _read_1({key: value for key, value in raw.items() if key != "log"}, version)
    _want(first.id_kind is not None, "a log without a kind of ids")
    return replace(first, format=2, log=log)


def _read_3(raw: dict[str, Any], version: int | None) -> Manifest:
    """Format 3 is for stores with cells: there may be a log, and a calibration of the cells."""
    _want(set(_ADDED) <= set(raw), "its fields are not those of its format")
    calibration = None if raw["calibration"] is None else _file(raw["calibration"], "c-", ".cal")
    before = {key: value for key, value in raw.items() if key != "calibration"}
    if raw["log"] is None:
        del before["log"]
        earlier = _read_1(before, version)
    else:
        earlier = _read_2(before, version)
    return replace(earlier, format=3, calibration=calibration)


_ADDED = ("log", "calibration")
"""Fields that formats after the first added, one each."""
_NAMES, _FILE_NAMES, _SEGMENT_NAMES = (
    tuple(field.name for field in fields(kind)) for kind in (Manifest, FileRef, SegmentRef)
)
_FIELDS_1 = set(_NAMES).difference(_ADDED)
READERS: dict[int, Callable[[dict[str, Any], int | None], Manifest]] = {1: _read_1, 2: _read_2, 3: _read_3}
"""What reads the body of each format, believing nothing. A manifest has the lowest format that can say it."""
