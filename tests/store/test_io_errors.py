"""Promise 6: when the disk refuses, the error is clear, earlier data readable, and nothing half done."""

import errno
import os
import subprocess
from pathlib import Path

import pytest
from disks import SimulatedDisk
from makers import TORTURE, content, make_encoder, make_items
from test_power_loss import STEPS

from bilsh import Store, StoreBusyError
from bilsh.store import log
from bilsh.store.manifest import version_of

WHERE = Path("/store")
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES)
ENCODER = make_encoder(n_bits=35)


def create(disk):
    return Store.create(WHERE, ENCODER, keep_vectors="float16", _disk=disk)


class Fault:
    """Fails the n-th operation of a disk, once."""

    def __init__(self, disk, number, code):
        self.number, self.code, self.count = number, code, 0
        self.operation = None
        disk.step = self

    def disarm(self):
        self.number = -1

    def __call__(self, operation, path):
        self.count += 1
        if self.count - 1 == self.number:
            self.operation = operation
            raise OSError(self.code, os.strerror(self.code), str(path))


def raised_by(action):
    """Number of the OSError that an action raises, None for none."""
    try:
        action()
    except OSError as error:
        return error.errno
    return None


@pytest.mark.parametrize("code", ERRORS)
def test_failed_creation_can_be_repeated(code):
    number = 0
    while True:
        disk = SimulatedDisk()
        fault = Fault(disk, number, code)
        assert raised_by(lambda disk=disk: create(disk).close()) in (None, code)
        if fault.operation is None:
            break
        if WHERE not in disk.folders or not any(version_of(name) for name in disk.files(WHERE)):
            create(disk).close()
        assert content(Store.open(WHERE, _disk=disk)) == {}
        number += 1
    assert number > 10


@pytest.mark.parametrize("turn", range(len(ERRORS)) if TORTURE else [0])
@pytest.mark.parametrize("step", range(len(STEPS)))
@pytest.mark.parametrize("logged", [False, True])
def test_failed_change_leaves_all_as_it_was(step, turn, logged, monkeypatch):
    """Every operation fails once, with each error in turn; in torture with all of them."""
    if not logged:
        monkeypatch.setattr(log, "MAX_RECORD", 0)

    def begin(disk):
        store = create(disk)
        for earlier in STEPS[:step]:
            earlier(store)
        return store

    with begin(SimulatedDisk()) as store:
        before = content(store)
        STEPS[step](store)
        after = content(store)
    number = 0
    while True:
        disk = SimulatedDisk()
        store = begin(disk)
        fault = Fault(disk, number, ERRORS[(number + step + turn) % len(ERRORS)])
        try:
            STEPS[step](store)
        except OSError as error:
            fault.disarm()
            check_refusal(store, disk, step, error, fault, before, after)
        else:
            fault.disarm()
            assert content(store) == after
        if fault.operation is None:
            break
        store.close()
        with Store.open(WHERE, "a", _disk=disk) as store:
            assert content(store) in (before, after)
            store.add(make_items(1, 9), ids=[999])
            store.verify(deep=True)
            assert_tidy(disk)
        number += 1
    assert number > (3 if logged else 10)


def check_refusal(store, disk, step, error, fault, before, after):
    assert error.errno == fault.code
    assert error.__notes__
    assert content(store) == before, "the failed change shows"
    # What was written of a record, or whether another writer has come, shows when it is read.
    unsure = fault.operation in ("sync", "sync_directory", "link") or store._writer._failed is not None
    assert content(Store.open(WHERE, _disk=disk)) in ((before, after) if unsure else (before,))
    if unsure:
        with pytest.raises(OSError, match="reopen the store"):
            STEPS[step](store)
    else:
        STEPS[step](store)
        assert content(store) == after


def assert_tidy(disk):
    """Only the last two versions and what they need are there."""
    files = disk.files(WHERE)
    manifests = sorted(name for name in files if version_of(name))
    needed = {n for n in files if n[0] in "sdelc" and any(n.encode() in files[m] for m in manifests)}
    assert len(manifests) == 2
    assert set(files) - {"reserve"} == {*manifests, *needed, "lock"}


@pytest.mark.parametrize("code", ERRORS)
def test_failed_reading_is_an_error_and_can_be_repeated(code):
    disk = SimulatedDisk()
    with create(disk) as store:
        for step in STEPS[:6]:
            step(store)
    expected = content(Store.open(WHERE, _disk=disk))
    number = 0
    while True:
        fault = Fault(disk, number, code)
        found = []
        code_raised = raised_by(lambda found=found: found.append(content(Store.open(WHERE, _disk=disk))))
        assert found == [expected] if code_raised is None else code_raised == code
        if fault.operation is None:
            break
        number += 1
    assert number > 10


def test_a_writer_that_lost_the_race_is_told(monkeypatch):
    disk = SimulatedDisk()
    store = create(disk)
    store.add(make_items(1))
    disk.locked.clear()
    with Store.open(WHERE, "a", _disk=disk) as other:
        other.add(make_items(1))
    with pytest.raises(StoreBusyError, match="first"):
        store.add(make_items(1))
    assert len(Store.open(WHERE, _disk=disk)) == 2


def test_a_full_file_system(tmp_path):
    mount = tmp_path / "small"
    mount.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount], capture_output=True
    ).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        store = Store.create(mount / "store", make_encoder(), keep_vectors="float32")
        added = 0
        while raised_by(lambda: store.add(make_items(200))) is None:
            added += 200
        assert added > 400
        with pytest.raises(OSError, match="No space"):
            store.add(make_items(200))
        with Store.open(mount / "store") as reader:
            assert len(reader) == len(store) == added
            reader.verify(deep=True)
        store.close()
    finally:
        subprocess.run(["umount", "-l", mount], check=True)
