"""Promise 3: damage is an error that names the file, or harmless; never a wrong answer, a crash or a hang."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from disks import SimulatedDisk
from makers import TORTURE, content, make_encoder, make_items, make_learned

from bilsh import CorruptStoreError, Store

WHERE = Path("/store")
KINDS = ("int", "str", "int log", "str log", "int cells", "str cells", "int learned cells")


def build(disk, where, kind):
    """A store of two segments, deleted rows, vectors and metadata, and an earlier version beside it."""

    def names(*numbers):
        return [f"key {n}" for n in numbers] if kind.startswith("str") else list(numbers)

    changes = [
        lambda s: s.add(
            make_items(12, 1), ids=names(*range(12, 0, -1)), metadata=[{"n": i} for i in range(12)]
        ),
        lambda s: s.add(make_items(5, 2), ids=names(*range(20, 25))),
        lambda s: s.delete(names(3, 21)),
    ]
    encoder = make_learned() if "learned" in kind else make_encoder(n_bits=603)
    store = Store.create(where, encoder, keep_vectors="float32", _disk=disk)
    for change in changes:
        if not kind.endswith("log"):
            store.close()
            store = Store.open(where, "a", _disk=disk)
        change(store)
    if kind.endswith("log"):
        store.upsert(make_items(2, 3), ids=names(21, 40), metadata=[1, None])
        store.add(make_items(1, 4), ids=names(41))
        assert store._now.tail.count == 3
    if kind.endswith("cells"):
        store.build_cells(3)
        store.add(make_items(2, 3), ids=names(50, 51))
        store.delete(names(22))
    store.close()


def answers(disk, where=WHERE, **options):
    """All a store says, also by way of its lookups."""
    with Store.open(where, _disk=disk, **options) as store:
        found = content(store)
        items = store.get(list(found))
        known = [np.empty(0, np.int64), *(segment.ids for segment in store.segments)]
        ids = store.external_ids(np.concatenate(known))
        slabs = [slab.tobytes() for segment in store.segments for slab in segment.slabs]
        again = [items.codes.tobytes(), items.vectors.tobytes(), items.metadata]
        view = store._view()
        trial = view.estimated_trial if view.trial is None else view.trial
        cells = [
            (c.centres.tobytes(), c.offsets.tolist()) for s in store.segments if (c := s.cells) is not None
        ]
        for p in [s.places for s in store.segments if s.places is not None]:
            where_ = p.places
            cells.append(
                (where_.centres.tobytes(), where_.axes.tobytes(), where_.owners.tobytes(), p.offsets.tolist())
            )
        tried = None
        if trial is not None:
            asked = [trial.codes] if hasattr(trial, "codes") else [trial.vectors, trial.far]
            tried = [a.tobytes() for a in asked], trial.near.tolist(), trial.own.tolist(), trial.time
        return found, again, ids.tolist(), slabs, cells, tried, store.encoder.fingerprint


@pytest.fixture(params=KINDS)
def healthy(request):
    disk = SimulatedDisk()
    build(disk, WHERE, request.param)
    return disk.files(WHERE), answers(disk)


def judge(files, expected, damaged):
    """True when the damage is reported with the name of a damaged file, False when it does no harm."""
    try:
        found = answers(SimulatedDisk.holding(WHERE, files))
    except CorruptStoreError as error:
        report = str(error)
    else:
        report = None
    if report is not None:
        assert any(name in report for name in damaged), f"{report} does not name {damaged}"
        return True
    assert found == expected, f"damage of {damaged} changed the answers"
    return False


def newest(files):
    """Names of the files that the newest version consists of."""
    manifest = max(name for name in files if name.startswith("m-"))
    return {manifest} | {name for name in files if name[0] in "sdelc" and name.encode() in files[manifest]}


def used(name, data):
    """Length of the part of a file that says something: a log ends in zeros."""
    return len(data.rstrip(b"\0")) if name.startswith("l-") else len(data)


def test_flipped_bytes(healthy):
    files, expected = healthy
    rng = np.random.default_rng(0)
    places = [
        (name, place)
        for name, data in files.items()
        for place in (
            range(used(name, data))
            if TORTURE
            else rng.choice(used(name, data), min(used(name, data), 120), replace=False)
        )
    ]
    for name, place in places:
        data = bytearray(files[name])
        data[place] ^= 1 << rng.integers(8)
        reported = judge(files | {name: bytes(data)}, expected, {name})
        assert reported == (name in newest(files))


def test_bytes_behind_the_end_of_a_log_do_no_harm():
    disk = SimulatedDisk()
    build(disk, WHERE, "int log")
    files, expected = disk.files(WHERE), answers(disk)
    (name,) = (name for name in files if name.startswith("l-"))
    rng = np.random.default_rng(0)
    free = range(used(name, files[name]), len(files[name]))
    for place in [*free[:40], *rng.choice(free, 400 if TORTURE else 40).tolist()]:
        data = bytearray(files[name])
        data[place] = rng.integers(1, 256)
        judge(files | {name: bytes(data)}, expected, {name})


def test_cut_and_lengthened_files(healthy):
    files, expected = healthy
    rng = np.random.default_rng(1)
    for name, data in files.items():
        lengths = (
            range(0, len(data), 1 if len(data) < 20_000 else 97)
            if TORTURE
            else {0, 1, len(data) - 1, *rng.integers(0, len(data), 8).tolist()}
        )
        damages = [data[:length] for length in lengths] + [data + b"\0", data + bytes(4096), data + data]
        for damage in damages:
            assert judge(files | {name: damage}, expected, {name}) == (name in newest(files))


def test_missing_files(healthy):
    files, expected = healthy
    for name in files:
        rest = {other: data for other, data in files.items() if other != name}
        assert judge(rest, expected, {name}) == (name in newest(files))


def test_swapped_and_copied_files(healthy):
    files, expected = healthy
    for one, other in combinations(files, 2):
        swapped = files | {one: files[other], other: files[one]}
        assert judge(swapped, expected, {one, other}) == bool({one, other} & newest(files))
        assert judge(files | {one: files[other]}, expected, {one}) == (one in newest(files))


def test_an_old_manifest_cannot_pose_as_a_new_one(healthy):
    files, expected = healthy
    last = max(name for name in files if name.startswith("m-"))
    forged = f"m-{int(last[2:12]) + 1:010d}.json"
    assert judge(files | {forged: files[last]}, expected, {forged})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mmap", [True, False])
def test_flipped_bytes_on_a_real_disk(tmp_path, kind, mmap):
    build(None, tmp_path / "store", kind)
    paths = sorted((tmp_path / "store").iterdir())
    expected = answers(None, tmp_path / "store", mmap=mmap)
    rng = np.random.default_rng(2)
    for path in paths:
        whole = path.read_bytes()
        for place in rng.choice(len(whole), min(len(whole), 200 if TORTURE else 12), replace=False):
            data = bytearray(whole)
            data[place] ^= 1 << rng.integers(8)
            path.write_bytes(data)
            report = None
            try:
                found = answers(None, tmp_path / "store", mmap=mmap)
            except CorruptStoreError as error:
                report = str(error)
            assert path.name in report if report else found == expected
        path.write_bytes(whole)
    assert answers(None, tmp_path / "store", mmap=mmap) == expected


def test_verify_finds_what_has_not_been_touched_yet(tmp_path):
    build(None, tmp_path / "store", "int")
    segment = max((tmp_path / "store").glob("s-*"), key=lambda path: path.stat().st_size)
    data = bytearray(segment.read_bytes())
    data[5000] ^= 1
    segment.write_bytes(data)
    with Store.open(tmp_path / "store") as store:
        store.verify()
        with pytest.raises(CorruptStoreError, match=f"{segment.name} block 0"):
            store.verify(deep=True)


def test_repair_goes_back_to_the_version_before(tmp_path):
    where = tmp_path / "store"
    build(None, where, "int")
    with Store.open(where, version=3) as store:
        earlier = content(store)
    (where / "m-0000000004.json").write_bytes(b"{}")
    with pytest.raises(CorruptStoreError, match=r"m-0000000004\.json"):
        Store.open(where, "a")
    assert [(v.version, v.items, v.problem is None) for v in Store.versions(where)] == [
        (3, 17, True),
        (4, None, False),
    ]
    assert Store.repair(where, 3) == 5
    with Store.open(where, "a") as store:
        assert content(store) == earlier
        store.verify(deep=True)
        store.delete([1])
    assert [v.version for v in Store.versions(where)] == [5, 6]


def test_repair_after_the_newest_manifest_vanished(tmp_path):
    where = tmp_path / "store"
    build(None, where, "str")
    (where / "m-0000000004.json").unlink()
    with pytest.raises(CorruptStoreError, match=r"m-0000000004\.json is missing"):
        Store.open(where)
    assert Store.repair(where, 3) == 5
    assert len(Store.open(where)) == 17


def test_repair_refuses_a_damaged_version(tmp_path):
    where = tmp_path / "store"
    build(None, where, "int")
    for path in where.glob("s-*"):
        data = bytearray(path.read_bytes())
        data[-100] ^= 1
        path.write_bytes(data)
    with pytest.raises(CorruptStoreError, match="damaged too"):
        Store.repair(where, 3)
