"""A backup is one version, whole and checked, however busy the writer is; made again it copies what is new."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from disks import SimulatedDisk
from makers import TORTURE, content, make_encoder, make_items
from test_power_loss import STEPS, Broken

from bilsh import BilshError, CorruptStoreError, InvalidInputError, Store, StoreBusyError
from bilsh.store.recipe import Recipe, Settings, read_recipe, write_recipe

ENCODER = make_encoder()


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "store", ENCODER, keep_vectors="float16") as store:
        store.add(make_items(50), metadata=[{"n": n} for n in range(50)])
        store.delete(range(0, 20, 3))
        yield store


def test_a_backup_holds_what_the_store_holds(store, tmp_path):
    for number in range(5):
        store.add(make_items(1, number))
    store.upsert(make_items(2, 9), ids=[1, 52])
    assert store._now.tail.count > 3
    done = store.backup(tmp_path / "copy")
    with Store.open(tmp_path / "copy", "a") as copy:
        assert content(copy) == content(store)
        assert (done.version, done.items) == (copy.version, len(copy)) == (store.version, len(store))
        assert copy.next_id == store.next_id
        assert copy.encoder_data == store.encoder_data
        copy.verify(deep=True)
        copy.add(make_items(1))
    store.add(make_items(1))
    store.verify(deep=True)


def test_made_again_it_copies_only_what_is_new(store, tmp_path):
    first = store.backup(tmp_path / "copy")
    assert first.bytes_copied > 10_000
    again = store.backup(tmp_path / "copy")
    assert (again.files_copied, again.version) == (0, first.version)
    store.add(make_items(400, 1))
    second = store.backup(tmp_path / "copy")
    assert second.files_copied == 1
    store.delete([5])
    assert store.backup(tmp_path / "copy").bytes_copied < first.bytes_copied
    with Store.open(tmp_path / "copy") as copy:
        assert content(copy) == content(store)
        copy.verify(deep=True)
    assert [v.problem for v in Store.versions(tmp_path / "copy")] == [None, None]


def test_a_first_backup_that_was_cut_off_is_begun_again_though_the_store_has_changed(
    store, tmp_path, monkeypatch
):
    def cut_off(*_, **__):
        raise OSError("cut off")

    with monkeypatch.context() as cut:
        cut.setattr("bilsh.store.backup.Change", cut_off)
        with pytest.raises(OSError, match="cut off"):
            store.backup(tmp_path / "copy")
    assert list((tmp_path / "copy").glob("s-*"))
    store.upsert(make_items(50, 1), ids=range(50))
    store.compact()
    store.backup(tmp_path / "copy")
    with Store.open(tmp_path / "copy") as copy:
        assert content(copy) == content(store)
        copy.verify(deep=True)
    kept = {path.name[0] for path in (tmp_path / "copy").iterdir()}
    assert "b" not in kept, "the sign of a backup that has begun is gone"


def test_links_share_files_until_the_store_lets_go_of_them(store, tmp_path):
    store.backup(tmp_path / "copy", link=True)
    shared = [p for p in (tmp_path / "copy").glob("s-*") if (store.path / p.name).exists()]
    assert shared
    assert all(os.path.samefile(path, store.path / path.name) for path in shared)
    kept = content(store)
    for number in range(4):
        store.upsert(make_items(50, number), ids=range(50))
        store.compact()
    with Store.open(tmp_path / "copy", "a") as copy:
        assert content(copy) == kept
        copy.verify(deep=True)
        copy.compact()
    store.verify(deep=True)


def test_a_reader_backs_up_the_version_it_sees(store, tmp_path):
    reader = Store.open(store.path)
    seen = content(reader)
    for number in range(4):
        store.upsert(make_items(50, number), ids=range(50))
        store.compact()
    reader.backup(tmp_path / "copy")
    assert content(Store.open(tmp_path / "copy")) == seen != content(store)


def test_the_recipe_comes_along(store, tmp_path):
    book = np.ones((2, 128), np.float32)
    write_recipe(store.path, Recipe(Settings(bits=603), {"path": "x"}, 3, True, book))
    store.backup(tmp_path / "copy")
    assert read_recipe(tmp_path / "copy").settings == Settings(bits=603)
    np.testing.assert_array_equal(read_recipe(tmp_path / "copy").codebook, book)
    Store.open(tmp_path / "copy").verify()


def test_other_directories_are_refused(store, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "x.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty"):
        store.backup(tmp_path / "notes")
    Store.create(tmp_path / "other", ENCODER).close()
    with pytest.raises(InvalidInputError, match="holds another store"):
        store.backup(tmp_path / "other")
    store.backup(tmp_path / "copy")
    with Store.open(tmp_path / "copy", "a") as copy:
        copy.add(make_items(3, 1))
        with pytest.raises(StoreBusyError):
            store.backup(tmp_path / "copy")
        kept = content(copy)
    store.add(make_items(1))
    with pytest.raises(StoreBusyError):
        store.backup(store.path)
    reader = Store.open(store.path, version=store.version - 1)
    with pytest.raises((InvalidInputError, StoreBusyError)):
        reader.backup(tmp_path / "copy")
    assert content(Store.open(tmp_path / "copy")) == kept


def test_damage_is_not_copied(store, tmp_path):
    path = max(store.path.glob("s-*"), key=lambda path: path.stat().st_size)
    data = bytearray(path.read_bytes())
    data[4500] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptStoreError, match=path.name):
        Store.open(store.path).backup(tmp_path / "copy")
    assert not Store.exists(tmp_path / "copy")


@pytest.mark.parametrize("lost", ["add", "add one", "delete"])
def test_a_version_that_was_lost_is_not_taken_for_its_successor(store, tmp_path, lost):
    """A reader backs up what is not yet on the medium, power fails, and the next writer makes that version anew."""
    for number in range(3):
        store.add(make_items(1, number))
    store.close()
    shutil.copytree(store.path, tmp_path / "before")
    with Store.open(store.path, "a") as store:
        for number in range(3):
            if lost == "delete":
                store.delete([40 + number])
            else:
                store.add(make_items(300 if lost == "add" else 1, number))
        store.backup(tmp_path / "copy")
        version = store.version
        assert store.backup(tmp_path / "copy").files_copied == 0
    with Store.open(tmp_path / "before", "a") as again:
        for number in range(3):
            again.add(make_items(1, 100 + number))
        assert again.version == version
        with pytest.raises(InvalidInputError, match="another version"):
            again.backup(tmp_path / "copy")


def test_hot_backups_beside_a_committing_writer(tmp_path):
    backups = 1000 if TORTURE else 8
    script = Path(__file__).with_name("busy_writer.py")
    Store.create(tmp_path / "store", ENCODER).close()
    writer = subprocess.Popen(
        [sys.executable, script, tmp_path / "store", "30"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert writer.stdout.readline() == "ready\n", writer.communicate()[1]
    seen = set()
    for number in range(backups):
        where = tmp_path / ("again" if number % 2 else f"fresh{number}")
        with Store.open(tmp_path / "store") as reader:
            reader.backup(where, link=number % 3 == 0)
        with Store.open(where) as copy:
            copy.verify(deep=True)
            found = content(copy)
        notes = {note for _, _, note in found.values()}
        assert len(found) == 30
        assert len(notes) == 1
        generation = json.loads(notes.pop())["generation"]
        codes = ENCODER.transform(make_items(30, generation))
        assert [found[i][0] for i in range(30)] == [code.tobytes() for code in codes]
        seen.add(generation)
        if number % 2 == 0:
            shutil.rmtree(where)
    _, errors = writer.communicate("stop\n")
    assert writer.returncode == 0, errors
    assert len(seen) > 1


def test_power_loss_during_a_backup():
    """At every operation, and whatever the medium kept: no backup, the earlier one, or the new one."""
    source, target = Path("/store"), Path("/copy")
    disk, rng = SimulatedDisk(), np.random.default_rng(0)
    store = Store.create(source, make_encoder(n_bits=35), keep_vectors="float16", _disk=disk)
    allowed = [None]

    def check():
        for crashed in disk.outcomes(rng, None if TORTURE else 2):
            try:
                found = content(Store.open(target, _disk=crashed))
            except FileNotFoundError:
                found = None
            except BilshError as error:
                raise Broken("the backup is unreadable") from error
            if found not in allowed:
                raise Broken("the backup holds something else")
            assert content(Store.open(source, _disk=crashed)) == content(store)

    for step in STEPS:
        step(store)
        allowed.append(content(store))
        disk.done = check
        store.backup(target)
        allowed[:] = allowed[-1:]
        check()
        disk.done = lambda: None
