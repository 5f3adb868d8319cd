"""Promise 4: files from anywhere are safe to open, also when all their checksums are right.

Flipped bytes are caught by checksums (test_damage.py). Here the liar computes good checksums over bad content: what
comes out may be anything, but only typed errors are raised, nothing is allocated that the files do not pay for, and
nothing hangs.
"""

import hashlib
import json
import struct
import zlib
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from disks import SimulatedDisk
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from literal_log import LiteralLog
from makers import TORTURE
from test_damage import answers, build

from bilsh import BilshError, CorruptStoreError, Store, _native
from bilsh.store import log
from bilsh.store.manifest import decode_manifest
from bilsh.store.sections import HEADER, FileRef, SectionFile

# A failure prints all files of its store; that this is much text must not hide it.
pytestmark = pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")

WHERE = Path("/store")
LITERAL = LiteralLog()
MANY = settings(
    max_examples=10_000 if TORTURE else 60,
    deadline=None,
    database=None,
    derandomize=not TORTURE,
    suppress_health_check=list(HealthCheck),
)


@contextmanager
def little_memory():
    """256 MiB more than the process has by now, test tools included: a file of some KiB that asks for GiB must fail."""
    resource = pytest.importorskip("resource")
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.fixture(scope="module", params=["int", "str"])
def files(request):
    disk = SimulatedDisk()
    build(disk, WHERE, request.param)
    return disk.files(WHERE)


def newest_manifest(files):
    return max(name for name in files if name.startswith("m-"))


def body_of(files):
    return json.loads(files[newest_manifest(files)])["manifest"]


def sealed(body):
    """A manifest whose checksum is right, whatever it says."""
    text = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
    return b'{"sha256":"' + hashlib.sha256(text).hexdigest().encode() + b'","manifest":' + text + b"}\n"


def resealed(files, name, data):
    """All files, with one replaced and every checksum above it made right again."""
    data = bytearray(data)
    end, blocks = struct.unpack_from("<QI", data, 80)
    if HEADER <= end <= len(data) and blocks <= (len(data) - end) // 4:
        for block in range(blocks):
            start = HEADER + (block << 20)
            struct.pack_into(
                "<I", data, end + 4 * block, zlib.crc32(data[start : min(start + (1 << 20), end)])
            )
        struct.pack_into("<I", data, 92, zlib.crc32(data[end : end + 4 * blocks]))
    struct.pack_into("<I", data, HEADER - 4, zlib.crc32(data[: HEADER - 4]))
    body = body_of(files)
    for ref in (*body["segments"], body["encoder"], body["deletes"]):
        if ref["file"] == name:
            ref["size"], ref["header"] = len(data), hashlib.sha256(data[:HEADER]).hexdigest()
    return files | {name: bytes(data), newest_manifest(files): sealed(body)}


def survives(files):
    """Open, read, verify, rewrite; errors are the library's own (an id that a false lookup cannot find is one)."""
    disk = SimulatedDisk.holding(WHERE, files)
    for action in (
        lambda: answers(disk),
        lambda: answers(disk, mmap=False),
        lambda: Store.open(WHERE, _disk=disk).verify(deep=True),
        lambda: Store.open(WHERE, "a", _disk=disk).compact(),
    ):
        try:
            with little_memory():
                action()
        except BilshError:
            disk.locked.clear()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
odd_numbers = st.sampled_from([-1, 0, 1, 7, 8, 255, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1]) | st.integers(
    0, 2**64 - 1
)


@MANY
@given(data=st.binary(max_size=300))
def test_any_bytes_as_manifest(data):
    for text in (data, sealed(data)):
        with pytest.raises(CorruptStoreError), little_memory():
            decode_manifest(text, "m-0000000001.json")


@MANY
@given(data=st.data())
def test_manifests_that_lie(files, data):
    body = body_of(files)
    where = data.draw(st.sampled_from([body, *body["segments"], body["encoder"], body["deletes"]]))
    key = data.draw(st.sampled_from(sorted(where)))
    where[key] = data.draw(
        json_values | odd_numbers | st.sampled_from(["../../etc/passwd", "s-/../../../etc.seg"])
    )
    survives(files | {newest_manifest(files): sealed(body)})


@MANY
@given(data=st.data())
def test_headers_that_lie(files, data):
    name = data.draw(
        st.sampled_from(
            sorted(n for n in files if n[0] in "sde" and n.encode() in files[newest_manifest(files)])
        )
    )
    content = bytearray(files[name])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, 128 + 48 * 12).map(lambda place: place & ~3))
        size = data.draw(st.sampled_from([4, 8]))
        content[place : place + size] = (data.draw(odd_numbers) & (2 ** (8 * size) - 1)).to_bytes(
            size, "little"
        )
    survives(resealed(files, name, content))


@MANY
@given(data=st.data())
def test_sections_that_lie(files, data):
    name = data.draw(
        st.sampled_from(
            sorted(n for n in files if n[0] in "sd" and n.encode() in files[newest_manifest(files)])
        )
    )
    content = bytearray(files[name])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(HEADER, len(content) - 12))
        content[place : place + 8] = data.draw(
            st.binary(min_size=8, max_size=8) | odd_numbers.map(lambda n: (n % 2**64).to_bytes(8, "little"))
        )
    survives(resealed(files, name, content))


@MANY
@given(data=st.binary(max_size=5000))
def test_any_bytes_as_sections(data):
    disk = SimulatedDisk.holding(WHERE, {"s-0123456789abcdef.seg": data})
    ref = FileRef("s-0123456789abcdef.seg", len(data), hashlib.sha256(data[:HEADER]).hexdigest())
    with pytest.raises(CorruptStoreError), little_memory():
        SectionFile(disk.directory(WHERE).open(ref.file), ref, b"SEGM", "0" * 64, True)


def test_deep_json_is_refused():
    deep = b"[" * 100_000 + b"]" * 100_000
    with pytest.raises(CorruptStoreError), little_memory():
        decode_manifest(sealed(deep), "m-0000000001.json")


def test_huge_manifests_are_not_read(files):
    with pytest.raises(CorruptStoreError, match="at most"), little_memory():
        answers(SimulatedDisk.holding(WHERE, files | {newest_manifest(files): bytes(17 << 20)}))


def test_rows_are_never_taken_from_outside(files):
    """A lookup that points outside its segment is refused before it is used."""
    body = body_of(files)
    name = body["segments"][0]["file"]
    content = np.frombuffer(files[name], np.uint8).copy()
    disk = SimulatedDisk.holding(WHERE, files)
    sections = Store.open(WHERE, _disk=disk).segments[0].file.sections
    section = sections.get("order") or sections["hash_rows"]
    content[section.offset : section.offset + 8] = np.frombuffer(np.int64(10**6).tobytes(), np.uint8)
    with pytest.raises(CorruptStoreError, match="points outside"):
        answers(SimulatedDisk.holding(WHERE, resealed(files, name, content.tobytes())))


@pytest.fixture(scope="module", params=["int log", "str log"])
def logged(request):
    disk = SimulatedDisk()
    build(disk, WHERE, request.param)
    return disk.files(WHERE)


def log_of(files):
    (name,) = (name for name in files if name.startswith("l-"))
    return name, files[name]


def payloads(data):
    """Bytes of all records of a log, in plain bytes."""
    return LITERAL.records(data, 128, zlib.crc32(data[:128]), log.MAX_RECORD)[0]


def relogged(data, records):
    """A log with these records, every checksum right, whatever they say."""
    seed, parts = zlib.crc32(data[:128]), [data[:128]]
    for record in records:
        parts.append(LITERAL.pack_record(record, sum(map(len, parts)), seed))
    return b"".join(parts).ljust(len(data), b"\0")[: len(data)]


def unpacked(reader, data):
    """What a reader of records finds in a log, None where it refuses."""
    try:
        plain, starts, end = reader.unpack_records(data, 128, 5, zlib.crc32(data[:128]), 100)
    except ValueError:
        return None
    return plain.tobytes(), starts.tolist(), end


@MANY
@given(data=st.data())
def test_records_are_read_as_the_format_says(data):
    """Whole records, torn ones, damaged ones: the compiled core and the literal reader agree."""
    records = data.draw(st.lists(st.binary(max_size=80), max_size=4))
    content = bytes(range(128)).ljust(128 + data.draw(st.integers(0, 600)), b"\0")
    content = bytearray(relogged(content, records))
    seed = zlib.crc32(content[:128])
    for record in records:
        assert _native.pack_record(record, 128, seed) == LITERAL.pack_record(record, 128, seed)
    for _ in range(data.draw(st.integers(0, 2)) if len(content) > 128 else 0):
        place = data.draw(st.integers(128, len(content) - 1))
        content[place] = data.draw(st.sampled_from([0, 0x7F, 0x80, 0x81, 0xFF, content[place] ^ 4]))
    assert unpacked(_native, bytes(content)) == unpacked(LITERAL, bytes(content))


@MANY
@given(data=st.data())
def test_records_that_lie(logged, data):
    name, content = log_of(logged)
    records = payloads(content)
    assert relogged(content, records) == content
    number = data.draw(st.integers(0, len(records) - 1))
    record = bytearray(records[number])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(record) - 1))
        size = data.draw(st.sampled_from([1, 4, 8]))
        record[place : place + size] = (data.draw(odd_numbers) & (2 ** (8 * size) - 1)).to_bytes(
            size, "little"
        )
    cut = data.draw(st.integers(0, len(record)))
    records[number] = bytes(record[:cut]) if data.draw(st.booleans()) else bytes(record)
    survives(logged | {name: relogged(content, records)})


@MANY
@given(data=st.data())
def test_any_bytes_as_records(logged, data):
    name, content = log_of(logged)
    junk = data.draw(st.binary(max_size=300))
    at = data.draw(st.sampled_from([128, len(content.rstrip(b"\0")), 200]))
    survives(logged | {name: (content[:at] + junk).ljust(len(content), b"\0")})


CORPUS = json.loads((Path(__file__).parent / "corpus" / "records.json").read_text())


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case["name"])
def test_what_was_thought_of_once_is_tried_for_ever(logged, case):
    name, content = log_of(logged)
    records = payloads(content)
    record = bytearray(records[case["record"]])
    if case["at"] + struct.calcsize(case["format"]) > len(record):
        pytest.skip("integers have no keys")
    struct.pack_into(case["format"], record, case["at"], case["value"])
    records[case["record"]] = bytes(record)
    survives(logged | {name: relogged(content, records)})
