"""Whatever a second writer, a stale one, a moved directory or a fork does, nothing acknowledged is lost."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from disks import SimulatedDisk
from makers import SEED, TORTURE, content, make_encoder, make_items

from bilsh import Batch, BilshError, CorruptStoreError, InvalidInputError, Store, StoreBusyError
from bilsh.store import files, writer
from bilsh.store.manifest import decode_manifest, encode_manifest, manifest_name

ENCODER = make_encoder()


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "store", ENCODER) as store:
        store.add(make_items(5))
        yield store


def test_a_change_within_a_change_is_refused(store):
    before = content(store)

    def greedy():
        for number in range(3):
            store.add(make_items(10, number), ids=range(100 * number + 100, 100 * number + 110))
        yield Batch(make_items(1))

    for call in (store.add, store.upsert):
        with pytest.raises(InvalidInputError, match="in this thread"):
            call(greedy())

    def spiteful():
        with suppress(BilshError):
            store.delete([0])
        with suppress(BilshError):
            store.compact()
        yield Batch(make_items(1, 9), [9])

    store.add(spiteful())
    assert sorted(content(store)) == sorted([*before, 9])
    assert content(Store.open(store.path)) == content(store)
    store.verify(deep=True)


def steal(path):
    """A second writer, after somebody removed the lock file."""
    (path / "lock").unlink()
    return Store.open(path, "a")


@pytest.mark.parametrize("ahead", [0, 1, 2, 5])
@pytest.mark.parametrize("remade", [False, True])
def test_a_writer_that_is_behind_is_refused_and_destroys_nothing(store, ahead, remade):
    other = steal(store.path)
    for number in range(ahead):
        other.add(make_items(2, number))
    expected = content(other)
    if remade:
        other.close()
        (store.path / "lock").unlink()
        (store.path / "lock").touch()
    for change in (
        lambda: store.add(make_items(1)),
        lambda: store.upsert(make_items(1), [0]),
        lambda: store.delete([0]),
        lambda: store.delete([0, 1, 2, 3]),
    ):
        with pytest.raises(StoreBusyError, match="Reopen the store"):
            change()
    assert content(Store.open(store.path)) == expected
    Store.open(store.path).verify(deep=True)
    other.close()
    store.close()
    with Store.open(store.path, "a") as again:
        again.add(make_items(1))
        assert len(again) == len(expected) + 1


def test_where_locks_are_not_shared_the_second_is_refused(tmp_path, monkeypatch):
    """As on a file system without flock: both writers get their lock, on the same file."""
    monkeypatch.setattr(files.fcntl, "flock", lambda fd, how: None)
    with Store.create(tmp_path / "store", ENCODER) as one:
        one.add(make_items(5))
        with Store.open(one.path, "a") as two:
            for number in range(4):
                two.add(make_items(2, number))
            expected = content(two)
            with pytest.raises(StoreBusyError, match="claimed by another writer"):
                one.add(make_items(1))
            assert content(Store.open(one.path)) == content(two) == expected
            two.add(make_items(1))
            two.verify(deep=True)


def test_two_writers_that_take_turns_lose_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(files.fcntl, "flock", lambda fd, how: None)
    where, acknowledged = tmp_path / "store", set()
    Store.create(where, ENCODER).close()
    writers = [Store.open(where, "a"), Store.open(where, "a")]
    for number in range(40):
        turn = number * 7 % 5 % 2
        try:
            writers[turn].add(make_items(1, number), ids=[number])
            acknowledged.add(number)
        except StoreBusyError:
            writers[turn].close()
            writers[turn] = Store.open(where, "a")
        assert acknowledged <= set(content(Store.open(where)))
    assert len(acknowledged) > 10
    Store.open(where).verify(deep=True)


def test_writers_without_any_lock_lose_nothing(tmp_path):
    """As on a file system that does not share flock, all at the same time."""
    script, changes = Path(__file__).with_name("unlocked.py"), 3000 if TORTURE else 40
    run = subprocess.run(
        [sys.executable, script, tmp_path / "store", "3", str(changes), str(SEED)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    print(f"seed {SEED}: {run.stdout}")
    result = json.loads(run.stdout)
    assert result["acknowledged"] > 0
    assert result["refused"] > 0


def test_tidying_spares_what_an_unknown_version_may_need(store):
    other = steal(store.path)
    for number in range(3):
        other.add(make_items(2, number))
    names = set(os.listdir(store.path))
    store._writer.tidy(store._now.manifest)
    assert set(os.listdir(store.path)) == names
    other.close()


def test_a_file_that_vanishes_before_its_commit_is_noticed(store, monkeypatch):
    before = content(store)
    sync = writer.Writer._sync_directory

    def vanish(self):
        sync(self)
        for path in store.path.glob("s-*"):
            if path.name in self._made:
                path.unlink()

    monkeypatch.setattr(writer.Writer, "_sync_directory", vanish)
    with pytest.raises(StoreBusyError, match="was removed while"):
        store.add(make_items(1))
    assert content(Store.open(store.path)) == before


@pytest.mark.parametrize("relative", [False, True])
def test_a_store_is_its_directory_not_its_path(tmp_path, relative, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = Path() if relative else tmp_path
    with Store.create(root / "store", ENCODER) as old, Store.create(root / "new", ENCODER) as new:
        old.add(make_items(20))
        new.add(make_items(30, 1))
        reader = Store.open(root / "store")
        os.rename(tmp_path / "store", tmp_path / "old")
        os.rename(tmp_path / "new", tmp_path / "store")
        if relative:
            (tmp_path / "elsewhere").mkdir()
            monkeypatch.chdir(tmp_path / "elsewhere")
        for number in range(4):
            old.add(make_items(1, number))
            old.delete([number])
        new.add(make_items(1, 7))
        expected = content(new)
        reader.refresh()
        assert content(reader) == content(old)
        assert old.verify(deep=True).version == old.version
    assert content(Store.open(tmp_path / "store")) == expected
    assert len(Store.open(tmp_path / "old")) == 20
    for name in ("store", "old"):
        Store.open(tmp_path / name).verify(deep=True)


def test_hard_linked_and_plain_copies_stay_readable(store, tmp_path):
    for number in range(6):
        for copy, link in (("linked", os.link), ("copied", shutil.copy2)):
            shutil.copytree(store.path, tmp_path / f"{copy}{number}", copy_function=link)
        kept = content(store)
        states = [kept]
        for change in (lambda n=number: store.add(make_items(2, n)), lambda n=number: store.delete([n])):
            change()
            states.append(content(store))
        for copy in ("linked", "copied"):
            where = tmp_path / f"{copy}{number}"
            found = content(Store.open(where))
            if copy == "linked":
                # It shares the log, so it may follow the store for a while, and the lock, which is taken.
                assert found in states
                continue
            assert found == kept
            with Store.open(where, "a") as other:
                other.add(make_items(1, 5), ids=[1000])
                assert len(other) == len(kept) + 1
    assert len(store) == 5 + 6 * 2 - 6
    store.verify(deep=True)


SPECIAL = {
    "link": lambda path: path.symlink_to(path.parent.parent / "victim"),
    "dangling link": lambda path: path.symlink_to(path.parent.parent / "nothing"),
    "pipe": os.mkfifo,
    "directory": lambda path: path.mkdir(),
    "device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("kind", SPECIAL)
def test_special_files_are_refused_not_followed_nor_waited_for(tmp_path, kind):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    with Store.create(tmp_path / "whole", ENCODER) as store:
        store.add(make_items(3))
        store.delete([1])
    names = [*os.listdir(tmp_path / "whole"), "recipe.json", manifest_name(9)]
    for name in names:
        where = tmp_path / "store"
        shutil.copytree(tmp_path / "whole", where)
        (where / name).unlink(missing_ok=True)
        SPECIAL[kind](where / name)
        for action in (
            lambda where=where: Store.open(where).verify(),
            lambda where=where: Store.open(where, "a").add(make_items(1)),
            lambda where=where: Store.versions(where),
            lambda where=where: Store.repair(where, 2),
            lambda where=where: Store.create(where, ENCODER),
        ):
            with suppress(BilshError, FileExistsError):
                action()
        if name == "lock":
            with pytest.raises(CorruptStoreError, match=r"lock in .* is a link, a pipe"):
                Store.open(where, "a")
        assert victim.read_bytes() == b"precious"
        assert not (tmp_path / "nothing").exists()
        shutil.rmtree(where)


def test_a_clock_before_1970(store, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: -5000.0)
    store.add(make_items(1))
    assert len(Store.open(store.path)) == 6
    assert Store.versions(store.path)[-1].time == 0


@pytest.mark.parametrize("clock", [253_402_300_800.0, 1e18, 2.0**70])
def test_a_clock_after_the_year_9999(store, clock, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: clock)
    store.add(make_items(1))
    assert len(Store.open(store.path)) == 6
    last = Store.versions(store.path)[-1].time
    assert time.gmtime(last).tm_year == 9999


def test_the_last_version_is_the_last(tmp_path):
    disk = SimulatedDisk()
    where = Path("/store")
    with Store.create(where, ENCODER, _disk=disk) as store:
        store.add(make_items(1))
    names = disk.folders[where].seen
    manifest = decode_manifest(bytes(names[manifest_name(2)].seen), manifest_name(2))
    last = 9_999_999_999
    raw = encode_manifest(replace(manifest, version=last))
    kept = {name: data for name, data in disk.files(where).items() if name[0] in "se"}
    disk = SimulatedDisk.holding(where, kept | {manifest_name(last): raw})
    with Store.open(where, "a", _disk=disk) as store:
        with pytest.raises(InvalidInputError, match="could not be read back"):
            store.add(make_items(1))
        assert len(store) == 1
    assert len(Store.open(where, _disk=disk)) == 1


def test_closing_gives_the_lock_back_while_a_child_lives(store):
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        store.close()
        Store.open(store.path, "a").close()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


FORKS = """
import os, sys
from bilsh import Store, StoreBusyError

store = Store.open(sys.argv[1], "a")
child = os.fork()
if child == 0:
    code = 1
    try:
        if len(store.get([0, 4])) == 2 and len(Store.open(store.path)) == 5:
            try:
                store.add_codes(store.get([0]).codes, ids=[5], fingerprint=store.fingerprint)
            except StoreBusyError:
                store.close()
                code = 0
    finally:
        os._exit(code)
assert os.waitpid(child, 0)[1] == 0, "the child did not read, or wrote"
print("waiting", flush=True)
sys.stdin.readline()
store.add_codes(store.get([0]).codes, ids=[5], fingerprint=store.fingerprint)
"""


def test_a_child_reads_but_does_not_write_and_leaves_the_lock(store):
    # In a process of its own: a fork of this one would take along the threads and locks of other tests.
    store.close()
    forking = subprocess.Popen(
        [sys.executable, "-c", FORKS, store.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert forking.stdout.readline() == "waiting\n"
    with pytest.raises(StoreBusyError):  # the child did not let go of its parent's lock
        Store.open(store.path, "a")
    forking.communicate("go on\n")
    assert forking.returncode == 0
    assert len(Store.open(store.path)) == 6
