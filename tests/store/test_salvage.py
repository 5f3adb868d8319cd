"""Segments whose manifests are gone are not thrown away, and can be saved."""

import os

import pytest
from makers import content, make_encoder, make_items

from bilsh import CorruptStoreError, Store

ENCODER = make_encoder()


def lose_manifests(where):
    for path in [*where.glob("m-*"), where / "lock"]:
        path.unlink(missing_ok=True)


@pytest.fixture(params=["int", "str"])
def store(tmp_path, request):
    name = str if request.param == "str" else int
    changes = (
        lambda s: s.add(
            make_items(20), ids=list(map(name, range(20))), metadata=[{"n": n} for n in range(20)]
        ),
        lambda s: s.upsert(make_items(3, 1), ids=list(map(name, [30, 4, 5]))),
        lambda s: s.add(make_items(4, 2), ids=list(map(name, range(40, 44)))),
    )
    Store.create(tmp_path / "store", ENCODER, keep_vectors="float16").close()
    for change in changes:
        with Store.open(tmp_path / "store", "a") as store:  # anew each time, lest small changes go to the log
            change(store)
    return store.path, content(Store.open(store.path))


def test_creating_over_loose_segments_is_refused(store):
    where, _ = store
    lose_manifests(where)
    before = {path.name: path.read_bytes() for path in where.iterdir()}
    with pytest.raises(FileExistsError, match=r"manifests are gone\. Store\.salvage"):
        Store.create(where, ENCODER)
    assert before.items() <= {path.name: path.read_bytes() for path in where.iterdir()}.items()


def test_loose_segments_make_a_store_again(store, tmp_path):
    where, expected = store
    lose_manifests(where)
    before = {path.name: path.read_bytes() for path in where.iterdir()}
    saved = Store.salvage(where, tmp_path / "saved")
    assert {path.name: path.read_bytes() for path in where.iterdir()} == before, "the source is only read"
    with Store.open(tmp_path / "saved", "a") as again:
        assert content(again) == expected
        assert saved.items == len(expected)
        assert len(saved.segments) == 3
        assert saved.skipped == ()
        assert again.fingerprint == ENCODER.fingerprint
        again.verify(deep=True)
        again.delete(again.get(list(expected)).ids[:2])


def test_damaged_segments_are_left_out_and_named(store, tmp_path):
    where, expected = store
    lose_manifests(where)
    oldest, *_, newest = sorted(where.glob("s-*"), key=lambda path: path.stat().st_mtime_ns)
    times = newest.stat()
    data = bytearray(newest.read_bytes())
    data[4200] ^= 4
    newest.write_bytes(data)
    os.utime(newest, ns=(times.st_atime_ns, times.st_mtime_ns))
    (where / "s-0123456789abcdef.seg").write_bytes(oldest.read_bytes())
    (where / "s-1123456789abcdef.seg").mkdir()
    saved = Store.salvage(where, tmp_path / "saved")
    assert sorted(name for name, _ in saved.skipped) == sorted(
        [newest.name, "s-0123456789abcdef.seg", "s-1123456789abcdef.seg"]
    )
    kind = str if isinstance(next(iter(expected)), str) else int
    assert content(Store.open(tmp_path / "saved")) == {
        key: item for key, item in expected.items() if key not in map(kind, range(40, 44))
    }


def test_without_an_encoder_nothing_can_be_saved(store, tmp_path):
    where, _ = store
    lose_manifests(where)
    for path in where.glob("e-*"):
        path.write_bytes(b"")
    with pytest.raises(CorruptStoreError, match="no whole encoder"):
        Store.salvage(where, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_rows_of_the_log_are_saved_too(store, tmp_path):
    where, before = store
    kind = type(next(iter(before)))
    with Store.open(where, "a") as writer:
        for number in range(50, 56):
            writer.add(make_items(1, number), ids=[kind(number)])
        writer.upsert(make_items(1, 9), ids=[kind(0)])
        writer.delete([kind(51), kind(7)])
        assert writer._now.tail.count > 3
        expected = content(writer)
    lose_manifests(where)
    saved = Store.salvage(where, tmp_path / "saved")
    assert content(Store.open(tmp_path / "saved")) == expected
    assert any(name.startswith("l-") for name in saved.segments)
