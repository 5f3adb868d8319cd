"""Each guard is needed: with it an attack fails, without it the same attack destroys or falsifies something."""

import os
import shutil
import signal
from contextlib import suppress
from dataclasses import replace
from itertools import count

import pytest
from disks import SimulatedDisk
from literal_log import LiteralLog
from makers import content, make_encoder, make_items
from test_damage import WHERE, answers, build, judge

from bilsh import Batch, BilshError, CorruptStoreError, InvalidInputError, Store, StoreBusyError
from bilsh.store import backup, change, files, log, snapshot, store, writer

ENCODER = make_encoder()


def acknowledged(where, items):
    """Whether a store can be read and holds all of these."""
    with Store.open(where) as reader:
        reader.verify(deep=True)
        missing = set(items) - set(content(reader))
        assert not missing, f"{missing} were acknowledged"


def nest(tmp_path):
    kept = []
    with Store.create(tmp_path / "store", ENCODER) as s:

        def greedy():
            for number in range(3):
                with suppress(BilshError):
                    s.add(make_items(300, number), ids=range(1000 * number, 1000 * number + 300))
                    kept.extend(range(1000 * number, 1000 * number + 300))
            yield Batch(make_items(1), [5000])

        with suppress(BilshError, RuntimeError):
            s.add(greedy())
            kept.append(5000)
    acknowledged(tmp_path / "store", kept)


def steal_the_lock(tmp_path, *, small=True):
    kept = []
    one = Store.create(tmp_path / "store", ENCODER)
    for number in range(4 if small else 1):
        one.add(make_items(1, number), ids=[number])
        kept.append(number)
    (tmp_path / "store" / "lock").unlink()
    two = Store.open(tmp_path / "store", "a")
    for number in range(10, 14):
        two.add(make_items(1, number), ids=[number])
        kept.append(number)
    for number in range(20, 24):
        with suppress(StoreBusyError, OSError):
            one.add(make_items(1, number), ids=[number])
            kept.append(number)
    one.close()
    two.close()
    acknowledged(tmp_path / "store", kept)


def share_no_lock(tmp_path, *, turns="1122121"):
    """Writers of a file system without flock take turns; each small change may be a record of a log."""
    kept = []
    Store.create(tmp_path / "store", ENCODER).close()
    writers = {turn: Store.open(tmp_path / "store", "a") for turn in "12"}
    for number, turn in enumerate(turns):
        for item in (10 * number, 10 * number + 1, 10 * number + 2):
            try:
                writers[turn].add(make_items(1, item), ids=[item])
                kept.append(item)
            except StoreBusyError:
                writers[turn].close()
                writers[turn] = Store.open(tmp_path / "store", "a")
    acknowledged(tmp_path / "store", kept)


def grow_a_log(tmp_path):
    """Two writers see the same log; the one that made it appends, then the other commits."""
    kept = []
    one = Store.create(tmp_path / "store", ENCODER)
    for number in range(4):
        one.add(make_items(1, number), ids=[number])
        kept.append(number)
    two = Store.open(tmp_path / "store", "a")
    for number, s in ((10, one), (11, two), (12, one)):
        with suppress(StoreBusyError, OSError):
            s.add(make_items(1, number), ids=[number])
            kept.append(number)
    acknowledged(tmp_path / "store", kept)


def come_between(tmp_path):
    """Another writer takes over while a record is written."""
    kept = []
    one = Store.create(tmp_path / "store", ENCODER)
    for number in range(4):
        one.add(make_items(1, number), ids=[number])
        kept.append(number)
    append = log.LogWriter.append

    def slow(self, record):
        log.LogWriter.append = append
        (tmp_path / "store" / "lock").unlink()
        with Store.open(tmp_path / "store", "a") as two:
            two.add(make_items(1, 50), ids=[50])
            kept.append(50)
        append(self, record)

    log.LogWriter.append = slow
    try:
        with suppress(StoreBusyError):
            one.add(make_items(1, 51), ids=[51])
            kept.append(51)
    finally:
        log.LogWriter.append = append
    acknowledged(tmp_path / "store", kept)


def overtake(tmp_path):
    """Others commit so much while a manifest is about to get its name that the name is free again."""
    kept = []
    Store.create(tmp_path / "store", ENCODER).close()
    one = Store.open(tmp_path / "store", "a", log=False)
    one.add(make_items(1), ids=[0])
    link = files.Directory.link

    def slow(self, source, target):
        files.Directory.link = link
        made = {name: (tmp_path / "store" / name).read_bytes() for name in one._writer._made}
        with Store.open(tmp_path / "store", "a", log=False) as two:
            for number in range(1, 5):
                two.add(make_items(1, number), ids=[number])
                kept.append(number)
        for name, data in made.items():
            (tmp_path / "store" / name).write_bytes(data)
        link(self, source, target)

    files.Directory.link = slow
    try:
        with suppress(StoreBusyError):
            one.add(make_items(1, 9), ids=[9])
            kept.append(9)
    finally:
        files.Directory.link = link
    acknowledged(tmp_path / "store", kept)


def remove_what_was_listed(tmp_path):
    """A writer comes and commits while another is about to remove the files it has listed."""
    kept, listed = [], []
    one = Store.create(tmp_path / "store", ENCODER)
    one.add(make_items(1), ids=[0])
    two = Store.open(tmp_path / "store", "a")

    def stream():
        yield Batch(make_items(20), range(1, 21))
        listed.extend(os.listdir(tmp_path / "store"))

    two.add(stream())
    kept.extend(range(1, 21))
    one._writer._discard_listed(listed, [], one._now.manifest.files())
    acknowledged(tmp_path / "store", kept)


def remove_late(tmp_path):
    """A writer comes between the look and the link of another, whose new files it lists as leftovers, and is slow."""
    kept, late = list(range(5)), []
    one = Store.create(tmp_path / "store", ENCODER)
    one.add(make_items(5))
    link, discard = files.Directory.link, writer.Writer.discard

    def slow(self, source, target):
        files.Directory.link = link
        writer.Writer.discard = lambda self, names: late.extend(names)
        try:
            Store.open(tmp_path / "store", "a").close()
        finally:
            writer.Writer.discard = discard
        link(self, source, target)

    files.Directory.link = slow
    try:
        with suppress(StoreBusyError):
            one.add(make_items(400, 1), ids=range(10, 410))
            kept.extend(range(10, 410))
    finally:
        files.Directory.link = link
    for name in late:
        (tmp_path / "store" / name).unlink(missing_ok=True)
    with Store.open(tmp_path / "store", "a") as two:
        two.add(make_items(1, 9), ids=[9])
    acknowledged(tmp_path / "store", [*kept, 9])


def back_up_what_was_lost(tmp_path):
    """A backup is made of a version that a loss of power takes back; the next writer makes it anew."""
    with Store.create(tmp_path / "store", ENCODER) as s:
        s.add(make_items(5))
    shutil.copytree(tmp_path / "store", tmp_path / "after")
    for where, item in (("store", 7), ("after", 8)):
        with Store.open(tmp_path / where, "a") as s:
            s.add(make_items(1, item), ids=[item])
            with suppress(InvalidInputError):
                s.backup(tmp_path / "copy")
                kept = content(s)
    acknowledged(tmp_path / "copy", kept)


def name_a_foreign_file_lock(tmp_path):
    (tmp_path / "victim").write_bytes(b"precious" * 20)
    with Store.create(tmp_path / "store", ENCODER) as s:
        s.add(make_items(1))
    (tmp_path / "store" / "lock").unlink()
    os.link(tmp_path / "victim", tmp_path / "store" / "lock")
    with Store.open(tmp_path / "store", "a") as s:
        s.add(make_items(1))
    assert (tmp_path / "victim").read_bytes() == b"precious" * 20


def link_the_lock(tmp_path):
    (tmp_path / "victim").write_bytes(b"precious" * 20)
    with Store.create(tmp_path / "store", ENCODER) as s:
        s.add(make_items(1))
    (tmp_path / "store" / "lock").unlink()
    (tmp_path / "store" / "lock").symlink_to(tmp_path / "victim")
    with suppress(CorruptStoreError), Store.open(tmp_path / "store", "a") as s:
        s.add(make_items(1))
    assert (tmp_path / "victim").read_bytes() == b"precious" * 20


def copy_the_store(tmp_path):
    with Store.create(tmp_path / "store", ENCODER) as s:
        s.add(make_items(1), ids=[0])
        shutil.copytree(tmp_path / "store", tmp_path / "copy", copy_function=os.link)
        s.add(make_items(400), ids=range(1, 401))
    acknowledged(tmp_path / "copy", [0])


def fork_and_close(tmp_path):
    s = Store.create(tmp_path / "store", ENCODER)
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        s.close()
        Store.open(tmp_path / "store", "a").close()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def turn_back_the_clock(tmp_path):
    with Store.create(tmp_path / "store", ENCODER) as s:
        manifest = s._now.manifest
        with suppress(BilshError), s._writer.change():
            s._writer.commit(replace(manifest, version=2, time=-5), base=1)
    acknowledged(tmp_path / "store", [])


def flip_a_record(tmp_path):
    """Every bit of the last record of a log, one by one."""
    disk = SimulatedDisk()
    build(disk, WHERE, "int log")
    whole, expected = disk.files(WHERE), answers(disk)
    whole.pop("lock")
    (name,) = (name for name in whole if name.startswith("l-"))
    end = len(whole[name].rstrip(b"\0"))
    for place in range(end - 60, end):
        for bit in range(8):
            data = bytearray(whole[name])
            data[place] ^= 1 << bit
            assert judge(whole | {name: bytes(data)}, expected, {name})


def zero_a_record(tmp_path):
    """A record in the middle of a log loses a byte: what follows must not be forgotten."""
    disk = SimulatedDisk()
    build(disk, WHERE, "int log")
    whole, expected = disk.files(WHERE), answers(disk)
    whole.pop("lock")
    (name,) = (name for name in whole if name.startswith("l-"))
    data = bytearray(whole[name])
    data[128 + 20] = 0
    assert judge(whole | {name: bytes(data)}, expected, {name})


def unshared(monkeypatch):
    monkeypatch.setattr(files.fcntl, "flock", lambda fd, how: None)


def unclaimed(monkeypatch):
    """Neither locks nor claims."""
    unshared(monkeypatch)
    monkeypatch.setattr(files.Lock, "is_held", lambda self: True)


def flushing(monkeypatch):
    """No locks; rows are written before their change ends."""
    unshared(monkeypatch)
    monkeypatch.setattr(change, "FLUSH_BYTES", 1)


def believing(monkeypatch):
    """Files that were listed are removed, whoever has come meanwhile."""
    flushing(monkeypatch)
    monkeypatch.setattr(files.Lock, "is_held", lambda self: True)


def keeping_versions(monkeypatch):
    """No locks; a manifest keeps its name."""
    unshared(monkeypatch)
    discard = writer.Writer.discard
    monkeypatch.setattr(
        writer.Writer,
        "discard",
        lambda self, names: discard(self, [name for name in names if not name.startswith("m-")]),
    )


def unchecked_newest(monkeypatch):
    unclaimed(monkeypatch)
    monkeypatch.setattr(writer.Writer, "_check_base", lambda self, base, needed=(): None)


def unchecked_lock(monkeypatch):
    monkeypatch.setattr(files.Lock, "is_held", lambda self: True)
    monkeypatch.setattr(writer, "versions_among", lambda names: snapshot.versions_among(names)[:1])
    monkeypatch.setattr(
        files.Directory, "newest", lambda self: min(snapshot.versions_among(self.list()), default=0)
    )


def unnested(monkeypatch):
    class Patient:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

    begin = store.Store.__init__

    def careless(self, *args, **options):
        begin(self, *args, **options)
        self._changing = Patient()

    monkeypatch.setattr(store.Store, "__init__", careless)
    monkeypatch.setattr(store.threading, "get_ident", count(1).__next__)
    monkeypatch.setattr(writer.Writer, "_check_base", lambda self, base, needed=(): None)


def open_anything(monkeypatch):
    monkeypatch.setattr(files.os, "O_NOFOLLOW", 0)


def note_of_no_place(monkeypatch):
    monkeypatch.setattr(files.Directory, "identity", lambda self: 7)


def close_only(monkeypatch):
    monkeypatch.setattr(files.Lock, "_flock", staticmethod(lambda fd, how: None))


def write_anything(monkeypatch):
    def believe(data, name):
        class Same:
            def __eq__(self, other):
                return True

            __hash__ = None

        return Same()

    monkeypatch.setattr(writer, "decode_manifest", believe)


def plain_bytes(monkeypatch):
    """Seven bits to a byte, but zero is zero: a flipped bit may look like a byte that was never written."""
    monkeypatch.setattr(log, "_native", LiteralLog(range(128)))


MUTANTS = {
    "changes nest": (unnested, nest, None),
    "the base is not checked": (unchecked_newest, share_no_lock, unclaimed),
    "claims are not looked at": (unclaimed, grow_a_log, unshared),
    "nobody looks again after a manifest": (
        lambda m: (unshared(m), m.setattr(writer.Writer, "_confirm", lambda self, newest, files=(): None)),
        overtake,
        unshared,
    ),
    "a version stays that was not acknowledged": (keeping_versions, remove_late, unshared),
    "a backup is known by its version": (
        lambda m: m.setattr(backup, "_refuse_another", lambda *found: None),
        back_up_what_was_lost,
        None,
    ),
    "files are removed without a look at the claim": (believing, remove_what_was_listed, flushing),
    "a lock file is written to whatever it is": (
        lambda m: m.setattr(files, "_is_ours", lambda fd, found: True),
        name_a_foreign_file_lock,
        None,
    ),
    "the lock is not looked at again": (unchecked_lock, steal_the_lock, None),
    "nobody looks again after a record": (
        lambda m: m.setattr(writer.Writer, "_confirm", lambda self, newest, files=(): None),
        come_between,
        None,
    ),
    "links are followed": (open_anything, link_the_lock, None),
    "notes hold for copies": (note_of_no_place, copy_the_store, None),
    "a closed lock is not released": (close_only, fork_and_close, None),
    "manifests are not read back": (write_anything, turn_back_the_clock, None),
    "records have plain bytes": (plain_bytes, flip_a_record, None),
    "a torn record may be followed by others": (
        lambda m: m.setattr(log, "_native", LiteralLog(nothing_follows=False)),
        zero_a_record,
        None,
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_with_its_guard_a_store_withstands(name, tmp_path, monkeypatch):
    _, attack, setting = MUTANTS[name]
    if setting:
        setting(monkeypatch)
    attack(tmp_path)


@pytest.mark.parametrize("name", MUTANTS)
def test_without_its_guard_the_attack_succeeds(name, tmp_path, monkeypatch):
    disarm, attack, _ = MUTANTS[name]
    disarm(monkeypatch)
    with pytest.raises((AssertionError, BilshError, OSError)):
        attack(tmp_path)
