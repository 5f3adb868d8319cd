"""Promise 2: what is stored survives power loss, at every operation and whatever the medium kept."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from disks import SimulatedDisk
from makers import TORTURE, content, make_encoder, make_items

from bilsh import BilshError, Store
from bilsh.store import log
from bilsh.store import writer as writing
from bilsh.store.manifest import encode_manifest, manifest_name
from bilsh.store.snapshot import hint

WHERE = Path("/store")
SAMPLES = None if TORTURE else 3
ENCODER = make_encoder(n_bits=35)
STEPS = (
    lambda store: store.add(make_items(3, 1), metadata=[{"a": 1}, None, [2]]),
    lambda store: store.add(make_items(4, 2), ids=[40, 30, 20, 10]),
    lambda store: store.delete([30, 1]),
    lambda store: store.upsert(make_items(2, 3), ids=[40, 77]),
    lambda store: store.add_codes(
        ENCODER.transform(make_items(2, 4)), vectors=make_items(2, 4), fingerprint="unchecked"
    ),
    lambda store: store.delete([2, 10]),
    lambda store: store.compact(),
    lambda store: store.delete([20]),
    lambda store: store.add(make_items(1, 5)),
    lambda store: store.build_cells(2),
    lambda store: store.delete([40]),
    lambda store: store.add(make_items(2, 7)),
    lambda store: store.compact(),
)


class Broken(AssertionError):
    """A crash left a store that is unreadable or has lost something."""


@pytest.fixture(params=["log", "no log"], autouse=True)
def logging(request, monkeypatch):
    """All small changes as records of a log, and none."""
    if request.param == "no log":
        monkeypatch.setattr(log, "MAX_RECORD", 0)
    return request.param


@cache
def states():
    """Content after each step, on a disk that never fails."""
    store = Store.create(WHERE, ENCODER, keep_vectors="float16", _disk=SimulatedDisk())
    found = [content(store)]
    for step in STEPS:
        step(store)
        found.append(content(store))
    return found


def life_of_a_store(seed):
    """Play all steps; after each operation open and compare what crashes could leave. Count those."""
    rng = np.random.default_rng(seed)
    disk = SimulatedDisk()
    allowed = [None, states()[0]]
    crashes = 0

    def check():
        nonlocal crashes
        for crashed in disk.outcomes(rng, SAMPLES):
            crashes += 1
            found = reopen(crashed)
            if found not in allowed:
                raise Broken("a stored change is lost, or half a change is there")
            if found is not None and crashes % 25 == 0:
                go_on(crashed, found)

    disk.done = check
    store = Store.create(WHERE, ENCODER, keep_vectors="float16", _disk=disk)
    for number, step in enumerate(STEPS):
        allowed[:] = states()[number : number + 2]
        step(store)
        del allowed[0]
        check()
    assert content(store) == states()[-1]
    return crashes


def reopen(disk):
    """Content after a crash; None where there is no store."""
    try:
        return content(Store.open(WHERE, _disk=disk))
    except FileNotFoundError:
        return None
    except BilshError as error:
        raise Broken("the store is unreadable") from error


def go_on(disk, found):
    """A writer can go on where the crash left the store."""
    with Store.open(WHERE, "a", _disk=disk) as store:
        store.add(make_items(1, 6), ids=[99])
        store.verify(deep=True)
    assert len(reopen(disk)) == len(found) + 1


@pytest.mark.parametrize("seed", range(3 if TORTURE else 1))
def test_every_crash_leaves_the_version_before_or_after(seed):
    assert life_of_a_store(seed) > 500


def skip_sync_of(prefix):
    return lambda disk, operation, path: operation == "sync" and path.name.startswith(prefix)


def skip_directory_sync(*, with_manifest):
    def skip(disk, operation, path):
        linked = (
            any(name.startswith("m-") for name, inode in disk.folder(path).waiting if inode)
            if path == WHERE
            else False
        )
        return operation == "sync_directory" and path == WHERE and linked == with_manifest

    return skip


FORGOTTEN_STEPS = {
    "sync of segments": skip_sync_of("s-"),
    "sync of bitmaps": skip_sync_of("d-"),
    "sync of the log": skip_sync_of("l-"),
    "sync of the encoder": skip_sync_of("e-"),
    "sync of the calibration": skip_sync_of("c-"),
    "sync of manifests": skip_sync_of("t-"),
    "directory sync before the manifest": skip_directory_sync(with_manifest=False),
    "directory sync after the link": skip_directory_sync(with_manifest=True),
    "sync of the parent directory": lambda disk, operation, path: (
        operation == "sync_directory" and path == Path("/")
    ),
    "link of manifests": lambda disk, operation, path: operation == "link",
    "header of files": lambda disk, operation, path: operation == "write_at",
}


@pytest.mark.parametrize("forgotten", FORGOTTEN_STEPS)
def test_a_store_that_forgets_one_step_is_caught(forgotten, monkeypatch, logging):
    if (logging, forgotten) in (("no log", "sync of the log"), ("log", "sync of bitmaps")):
        pytest.skip("there are no such files")
    skip, original = FORGOTTEN_STEPS[forgotten], SimulatedDisk.__init__

    def forgetful(disk):
        original(disk)
        disk.step = lambda operation, path: "skip" if skip(disk, operation, path) else None

    states()
    monkeypatch.setattr(SimulatedDisk, "__init__", forgetful)
    with pytest.raises((Broken, BilshError, FileNotFoundError)):
        life_of_a_store(0)


def write_manifest_in_place(writer, manifest, *, base):
    """No temporary name, no link: a crash finds half a manifest under the final name."""
    writer._sync_directory()
    with writer.directory.create(manifest_name(manifest.version)) as file:
        file.write(encode_manifest(manifest))
        file.sync()
    writer._sync_directory()
    writer._made = []


def note_too_early(writer, manifest, *, base, commit=writing.Writer.commit):
    """The hint runs ahead of the manifest."""
    writer._lock.note(hint(manifest.version, manifest.version, writer.directory.identity()))
    commit(writer, manifest, base=base)


def tidy_too_early(writer, manifest, *, base, commit=writing.Writer.commit):
    """Files of the version that is still the newest are removed before the next one stands."""
    for name in writer.directory.list():
        if name.startswith(("s-", "d-", "c-")) and name not in manifest.files():
            writer.directory.unlink(name)
    commit(writer, manifest, base=base)


def replace_old_version(writer, manifest, *, base, commit=writing.Writer.commit):
    """The old manifest goes before the new one has come."""
    writer.discard([manifest_name(manifest.version - 1)])
    commit(writer, manifest, base=base)


@pytest.mark.parametrize(
    "commit", [write_manifest_in_place, note_too_early, tidy_too_early, replace_old_version]
)
def test_a_store_that_commits_in_another_order_is_caught(commit, monkeypatch):
    states()
    monkeypatch.setattr(writing.Writer, "commit", commit)
    with pytest.raises((Broken, BilshError)):
        life_of_a_store(0)
