"""Stores that live long: bytes that change later, disks that fill up, formats that come after."""

import errno
import hashlib
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from disks import SimulatedDisk
from makers import content, make_encoder, make_items

from bilsh import CorruptStoreError, InvalidInputError, Store
from bilsh.store import files, segment
from bilsh.store.manifest import READERS, decode_manifest

ENCODER = make_encoder()
FORMATS = Path(__file__).parents[1] / "formats"


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "store", ENCODER) as store:
        store.add(make_items(300))
        store.add(make_items(3, 1))
        store.delete([5])
        yield store


def spoil(store):
    """Overwrite a byte of the largest segment in place, as a broken disk or another program would."""
    path = max(store.path.glob("s-*"), key=lambda path: path.stat().st_size)
    with path.open("r+b") as file:
        file.seek(4096 + 76 * 100)
        byte = file.read(1)[0]
        file.seek(4096 + 76 * 100)
        file.write(bytes([byte ^ 16]))
    return path.name


def test_scrubbing_finds_what_changed_after_it_was_read(store):
    with Store.open(store.path) as reader:
        query = make_items(1)
        reader.search(query, 5, mode="hamming")
        before = reader.scrub()
        assert before.deep
        assert before.bytes > 300 * 76
        name = spoil(store)
        reader.search(query, 5, mode="hamming")
        with pytest.raises(CorruptStoreError, match=f"{name} block 0"):
            reader.scrub()


def test_scrubbing_is_as_slow_as_asked_and_can_be_stopped(store):
    with Store.open(store.path) as reader:
        stop = threading.Event()
        found = []
        thread = threading.Thread(target=lambda: found.append(reader.scrub(rate=1000.0, stop=stop)))
        thread.start()
        assert len(reader.get([7])) == 1
        stop.set()
        thread.join()
        assert not found[0].deep, "at 1,000 bytes a second it would have taken half a minute"
        for rate in (0, -1, "fast"):
            with pytest.raises((InvalidInputError, TypeError)):
                reader.scrub(rate=rate)


@pytest.mark.parametrize("mmap", [True, False])
def test_rechecking_sees_it_at_once(store, mmap):
    query = make_items(1)
    careful = Store.open(store.path, recheck=True, mmap=mmap)
    careless = Store.open(store.path, mmap=True)
    expected = careful.search(query, 5, mode="hamming").distances.tolist()
    assert careless.search(query, 5, mode="hamming").distances.tolist() == expected
    spoil(store)
    careless.search(query, 5, mode="hamming")
    for action in (
        lambda: careful.search(query, 5, mode="hamming"),
        lambda: careful.get([100]),
        lambda: list(careful.batches()),
    ):
        with pytest.raises(CorruptStoreError):
            action()


def test_rechecking_looks_at_the_order_of_ids_too(tmp_path):
    n = 150_000  # so many that the order has a block of its own
    ids = np.random.default_rng(0).permutation(n)
    with Store.create(tmp_path / "store", n_bits=64) as writer:
        writer.add_codes(np.zeros((n, 8), dtype=np.uint8), ids=ids)
    careful = Store.open(tmp_path / "store", recheck=True)
    assert n - 1 in careful
    [path] = (tmp_path / "store").glob("s-*")
    section = careful.segments[0].file.sections["order"]
    with path.open("r+b") as file:
        file.seek(section.offset + section.length - 8)
        file.write(bytes(8))
    for action in (lambda: n - 1 in careful, lambda: careful.get([n - 1, 7])):
        with pytest.raises(CorruptStoreError, match="is damaged"):
            action()


def test_rechecking_looks_at_cells_too(tmp_path):
    n = 100_000  # so many that the cells have a block of their own
    codes = np.random.default_rng(0).integers(0, 256, (n, 8), dtype=np.uint8)
    with Store.create(tmp_path / "store", n_bits=64) as writer:
        writer.add_codes(codes)
        writer.build_cells(50)
    careful = Store.open(tmp_path / "store", recheck=True)
    careful.search(codes=codes[:1], k=5, recall=0.9)
    celled = careful.segments[0].file
    section = celled.sections["cells"]
    with (tmp_path / "store" / celled.name).open("r+b") as file:
        file.seek(section.offset + section.length // 2)
        file.write(b"\xff" * 8)
    with pytest.raises(CorruptStoreError, match="is damaged"):
        careful.search(codes=codes[:1], k=5, recall=0.9)


def test_a_calibration_that_was_read_stays_as_it_was(tmp_path):
    codes = np.random.default_rng(0).integers(0, 256, (3000, 8), dtype=np.uint8)
    with Store.create(tmp_path / "store", n_bits=64) as writer:
        writer.add_codes(codes)
        writer.build_cells(50)
    reader, later = Store.open(tmp_path / "store"), Store.open(tmp_path / "store")
    expected = later.search(codes=codes[:9], k=5, recall=0.9)
    reader.search(codes=codes[:1], k=2, recall=0.5)
    [path] = (tmp_path / "store").glob("c-*.cal")
    path.write_bytes(b"\x77" * path.stat().st_size)
    found = reader.search(codes=codes[:9], k=5, recall=0.9)
    assert found.ids.tolist() == expected.ids.tolist()


def test_spans_that_would_overflow_are_refused(store):
    store.upsert(make_items(2), ids=[0, 1], metadata=[1, 2])
    store.compact()
    part = store.segments[0]
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    for starts, ends in (
        ([low], [high]),
        ([high], [low]),
        ([0], [low]),
        ([low], [0]),
        ([-1], [0]),
        ([0], [high]),
    ):
        with pytest.raises(CorruptStoreError, match="points outside"):
            part.check_spans("meta", np.array(starts), np.array(ends))
    part.check_spans("meta", np.array([0]), np.array([1]))
    assert segment.MAX_METADATA_BYTES == 1 << 14


@pytest.fixture
def small_disk(tmp_path):
    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", mount]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield mount
    subprocess.run(["umount", "-l", mount], check=True)


def fill_up(mount):
    """Leave not a page."""
    number = 0
    for size in (1 << 16, 4096):
        while True:
            try:
                (mount / f"junk{number}").write_bytes(bytes(size))
            except OSError:
                (mount / f"junk{number}").unlink(missing_ok=True)
                break
            number += 1


@pytest.mark.parametrize("log", [True, False])
def test_a_full_disk_can_be_made_room_on(small_disk, log):
    where = small_disk / "store"
    Store.create(where, ENCODER, keep_vectors="float32").close()
    with Store.open(where, "a", log=log) as store:
        for number in range(8):
            store.add(make_items(800, number))
        fill_up(small_disk)
        with pytest.raises(OSError, match="No space"):
            store.add(make_items(800))
        assert store.delete(range(0, 6400, 5)) == 1280
        assert len(Store.open(where)) == 5120
        fill_up(small_disk)
        assert store.delete(range(1, 900)) > 700
        left = len(store)
        store.compact()
        assert len(store) == left
        assert sum(len(part) for part in store.segments) < left + 1280
        store.verify(deep=True)
        store.add(make_items(100, 99))
    with Store.open(where) as reader:
        assert len(reader) == left + 100
        reader.verify(deep=True)


def delete_until_it_compacts(store, there, rng):
    """Rewriting what lives needs room for it; deleting needs none."""
    while there:
        dying = rng.choice(sorted(there), -(-len(there) // 3), replace=False).tolist()
        assert store.delete(dying) == len(dying)
        there.difference_update(dying)
        try:
            return store.compact()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    return store.compact()


@pytest.mark.parametrize("seed", range(2))
def test_what_fills_a_disk_can_be_deleted_from_it(small_disk, seed):
    """Also again and again, with changes of all sizes and nothing but the store on it."""
    rng, where, there = np.random.default_rng(seed), small_disk / "store", set()
    (small_disk / "junk").write_bytes(bytes(1_400_000))
    with Store.create(where, ENCODER) as store:
        full = 0
        for number in range(200):
            new = range(1000 * number, 1000 * number + int(rng.choice([1, 1, 5, 50, 400, 1000])))
            try:
                store.add(make_items(len(new), number), ids=new)
                there.update(new)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                full += 1
                delete_until_it_compacts(store, there, rng)
        assert full > 5
    with Store.open(where) as reader:
        assert set(reader.ids.tolist()) == there
        reader.verify(deep=True)


def test_without_any_room_deleting_fails_cleanly():
    disk, where = SimulatedDisk(), Path("/store")
    with Store.create(where, ENCODER, _disk=disk) as store:
        store.add(make_items(3))
        kept = content(store)

        def full(operation, path):
            if operation in ("write", "create"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

        disk.step = full
        for change in (lambda: store.delete([0]), lambda: store.delete([0, 1, 2])):
            with pytest.raises(OSError, match="No space"):
                change()
        assert content(store) == kept
        disk.step = lambda operation, path: None
        assert store.delete([0]) == 1


@pytest.mark.parametrize("kind", ["int", "str"])
def test_format_1_becomes_2_and_1_again(tmp_path, kind):
    """A manifest has the lowest format that can say what it says: 2 only while it names a log."""
    where = tmp_path / "store"
    shutil.copytree(FORMATS / "v1" / f"store-{kind}", where)

    def formats():
        return [
            decode_manifest(path.read_bytes(), path.name).format for path in sorted(where.glob("m-*.json"))
        ]

    with Store.open(where) as store:
        model = content(store)
        shape = store.encoder.input_shape_
    assert set(formats()) == {1}
    with Store.open(where, "a") as store:
        for number in range(6):
            item = f"new {number}" if kind == "str" else 1000 + number
            X = np.random.default_rng(number).standard_normal((1, *shape)).astype(np.float32)
            store.add(X, ids=[item], metadata=[{"number": number}])
            model[item] = content(store)[item]
        assert formats()[-1] == 2
        assert content(store) == model
    with Store.open(where) as store:
        assert content(store) == model
        store.verify(deep=True)
    with Store.open(where, "a") as store:
        store.compact()
        assert formats()[-1] == 1
        assert content(store) == model
        store.verify(deep=True)


@pytest.mark.parametrize("kind", ["int", "str"])
def test_a_store_of_format_2_opens(kind):
    expected = json.loads((FORMATS / "v2" / f"store-{kind}.json").read_text())
    with Store.open(FORMATS / "v2" / f"store-{kind}") as store:
        assert store._now.manifest.format == 2
        assert store.version == expected["version"]
        assert store.next_id == expected["next_id"]
        items = store.get(expected["ids"])
        assert len(store) == len(expected["ids"])
        assert [code.hex() for code in map(bytes, items.codes)] == expected["codes"]
        assert items.metadata == expected["metadata"]
        store.verify(deep=True)


def test_a_later_format_is_refused_by_its_number(store):
    assert sorted(READERS) == [1, 2, 3]
    path = max(store.path.glob("m-*.json"))
    store.close()
    body = json.loads(path.read_text())["manifest"]
    body["format"] = 4
    text = json.dumps(body, separators=(",", ":")).encode()
    digest = hashlib.sha256(text).hexdigest().encode()
    path.write_bytes(b'{"sha256":"' + digest + b'","manifest":' + text + b"}\n")
    with pytest.raises(CorruptStoreError, match=r"format 4, this version knows 1, 2, 3; use a newer bilsh"):
        Store.open(store.path)


def test_only_what_was_synced_whole_is_synced_without_its_length(tmp_path, monkeypatch):
    """A log has its full size from the start, so a record needs no more than its bytes on the medium."""
    whole, bytes_only = {}, []

    def flush(fd):
        found = os.fstat(fd)
        whole[found.st_ino] = found.st_size
        os.fsync(fd)

    def flush_data(fd):
        found = os.fstat(fd)
        bytes_only.append((found.st_ino, found.st_size))
        os.fdatasync(fd)

    monkeypatch.setattr(files, "flush", flush)
    monkeypatch.setattr(files, "flush_data", flush_data)
    with Store.create(tmp_path / "store", ENCODER) as store:
        for number in range(5):
            store.add(make_items(1, number))
        store.build_cells(2)
        store.delete([0])
    assert len(bytes_only) == 3
    assert all(whole[inode] == size for inode, size in bytes_only)


@pytest.mark.parametrize("kind", ["int", "str"])
def test_what_a_log_says_is_the_same_for_its_writer_and_a_reader(tmp_path, kind):
    """Rows with and without metadata, deleted and put in again, one at a time and several."""
    rng = np.random.default_rng(3)
    with Store.create(tmp_path / "store", ENCODER, keep_vectors="float16") as store:
        many = np.arange(100, 200)
        store.add(make_items(100), ids=many.astype(str).tolist() if kind == "str" else many)
        for turn in range(40):
            numbers = np.unique(rng.integers(0, 12, rng.integers(1, 4)))
            ids = [f"item {'x' * number}" for number in numbers] if kind == "str" else numbers
            if turn % 5 == 4:
                store.delete(ids)
            else:
                noted = [{"turn": turn}] * len(ids) if turn % 3 else None
                store.upsert(make_items(len(ids), turn), ids=ids, metadata=noted)
            with Store.open(store.path) as reader:
                assert content(reader) == content(store)
                assert len(reader) == len(store)
                assert reader.version == store.version
                assert reader.next_id == store.next_id
        reader = Store.open(store.path)
        reader.verify(deep=True)
        assert reader._now.tail.count > 30
