"""Encoding on workers: the same store as by one process, whatever dies on the way."""

import contextlib
import json
import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import bilsh
from bilsh import distributed
from bilsh.distributed import encoding, stores, worker
from bilsh.distributed.plan import Plan, Receipt

ROWS = 3000


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).standard_normal((ROWS, 16)).astype(np.float32)


@pytest.fixture(scope="module")
def encoder(X):
    return bilsh.AngleEncoder(n_bits=600, random_state=0).fit(X)


@pytest.fixture
def source(tmp_path, X):
    np.save(tmp_path / "x.npy", X)
    return tmp_path / "x.npy"


class Here(Executor):
    """Runs blocks at once, in this thread."""

    def submit(self, function, /, *arguments, **more):
        future = Future()
        try:
            future.set_result(function(*arguments, **more))
        except BaseException as error:
            future.set_exception(error)
        return future


class Dying(Here):
    """Runs some blocks, then fails as a driver that is killed does: in the middle, leaving everything as it is."""

    def __init__(self, blocks):
        self.left = blocks

    def submit(self, function, /, *arguments, **more):
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        return super().submit(function, *arguments, **more)


def check(path, X, encoder, ids=None):
    with bilsh.Store.open(path) as store:
        assert store.verify(deep=True)
        assert len(store) == len(X)
        items = store.get(np.arange(len(X)) if ids is None else ids)
        assert (items.codes == encoder.transform(X)).all()
        return store.version


def segments(path):
    return {file.name: file.read_bytes() for file in path.glob("s-*.seg")}


def rows(start, stop):
    return np.random.default_rng(0).standard_normal((ROWS, 16)).astype(np.float32)[start:stop]


def test_one_and_two_workers_make_the_same_bytes(tmp_path, source, X, encoder):
    spawn = multiprocessing.get_context("spawn")
    for workers in (1, 2):
        with ProcessPoolExecutor(workers, mp_context=spawn) as pool:
            done = distributed.encode(source, encoder, tmp_path / f"s{workers}", pool, block=500)
        assert (done.items, done.blocks, done.encoded) == (ROWS, 6, 6)
        check(tmp_path / f"s{workers}", X, encoder)
    assert segments(tmp_path / "s1") == segments(tmp_path / "s2")
    assert not (tmp_path / "s1" / "staging").exists()


def test_running_it_again_does_nothing(tmp_path, source, X, encoder):
    for _ in range(2):
        done = distributed.encode(source, encoder, tmp_path / "s", Here(), block=1000)
    assert (done.items, done.encoded) == (ROWS, 0)
    assert check(tmp_path / "s", X, encoder) == 2


@pytest.mark.parametrize("blocks", [0, 1, 3])
def test_a_dead_driver_goes_on_from_the_disk(tmp_path, source, X, encoder, blocks):
    with pytest.raises(KeyboardInterrupt):
        distributed.encode(source, encoder, tmp_path / "s", Dying(blocks), block=700)
    with bilsh.Store.open(tmp_path / "s") as store:
        assert len(store) == 0
    done = distributed.encode(source, encoder, tmp_path / "s", Here(), block=700)
    assert done.encoded == 5 - blocks
    check(tmp_path / "s", X, encoder)


@pytest.mark.parametrize("moment", ["before", "after", "compacted"])
def test_a_driver_that_dies_around_the_commit(tmp_path, source, X, encoder, monkeypatch, moment):
    """Between the link of the manifest and its acknowledgement, and before it."""
    real = stores.adopt

    def dying(*arguments, **more):
        if moment != "before":
            real(*arguments, **more)
        raise KeyboardInterrupt

    monkeypatch.setattr(stores, "adopt", dying)
    with pytest.raises(KeyboardInterrupt):
        distributed.encode(source, encoder, tmp_path / "s", Here(), block=700)
    monkeypatch.setattr(stores, "adopt", real)
    if moment == "compacted":
        with bilsh.Store.open(tmp_path / "s", "a") as store:
            store.compact()
    done = distributed.encode(source, encoder, tmp_path / "s", Here(), block=700)
    assert (done.items, done.encoded) == (ROWS, 0)
    version = check(tmp_path / "s", X, encoder)
    assert version == {"before": 2, "after": 2, "compacted": 3}[moment]


def test_the_same_block_twice_at_once(tmp_path, source, X, encoder):
    with pytest.raises(KeyboardInterrupt):
        distributed.encode(source, encoder, tmp_path / "s", Dying(0), block=1500)
    (folder,) = (tmp_path / "s" / "staging").iterdir()
    barrier = threading.Barrier(4)

    def block(_):
        barrier.wait()
        return worker.encode_block(str(folder), 0)

    with ThreadPoolExecutor(4) as pool:
        receipts = list(pool.map(block, range(4)))
    assert len(set(receipts)) == 1
    assert len(list(folder.glob("s-*.seg"))) == 1
    assert not list(folder.glob("try-*"))
    distributed.encode(source, encoder, tmp_path / "s", Here(), block=1500)
    check(tmp_path / "s", X, encoder)


def test_a_straggler_after_the_commit_changes_nothing(tmp_path, source, X, encoder, monkeypatch):
    late = []
    real = worker._staged

    def slow(plan, folder, number, parts, coder):
        late.append((plan, folder, number, parts, coder))
        return real(plan, folder, number, parts, coder)

    monkeypatch.setattr(worker, "_staged", slow)
    distributed.encode(source, encoder, tmp_path / "s", Here(), block=1500)
    before = sorted(file.name for file in (tmp_path / "s").iterdir())
    with pytest.raises(FileNotFoundError):
        real(*late[0])
    with pytest.raises(worker.JobEnded, match="has ended"):
        worker.encode_block(str(late[0][1]), 0)
    assert sorted(file.name for file in (tmp_path / "s").iterdir()) == before
    check(tmp_path / "s", X, encoder)


@pytest.mark.parametrize("harm", ["truncated", "flipped", "gone", "receipt"])
def test_damaged_staging_is_made_again(tmp_path, source, X, encoder, harm):
    with pytest.raises(KeyboardInterrupt):
        distributed.encode(source, encoder, tmp_path / "s", Dying(2), block=700)
    (folder,) = (tmp_path / "s" / "staging").iterdir()
    file = sorted(folder.glob("s-*.seg"))[0]
    data = file.read_bytes()
    if harm == "receipt":
        next(folder.glob("b-*.json")).write_text('{"block": 0, "st')
    elif harm == "gone":
        file.unlink()
    else:
        file.write_bytes(
            data[: len(data) // 2] if harm == "truncated" else data[:9000] + b"\xff\x00" + data[9002:]
        )
    distributed.encode(source, encoder, tmp_path / "s", Here(), block=700)
    check(tmp_path / "s", X, encoder)


def test_a_source_that_changes_is_refused(tmp_path, source, X, encoder):
    with pytest.raises(KeyboardInterrupt):
        distributed.encode(source, encoder, tmp_path / "s", Dying(2), block=700)
    (folder,) = (tmp_path / "s" / "staging").iterdir()
    time.sleep(0.01)
    np.save(source, X[::-1])
    with pytest.raises(bilsh.InvalidInputError, match="has changed since"):
        worker.encode_block(str(folder), 4)
    assert distributed.encode(source, encoder, tmp_path / "s", Here(), block=700).encoded == 5
    check(tmp_path / "s", X[::-1], encoder)


def test_a_source_that_changes_while_it_is_encoded(tmp_path, source, X, encoder, monkeypatch):
    real = encoding._whole

    def later(plan, folder):
        np.save(source, X + 1)
        return real(plan, folder)

    monkeypatch.setattr(encoding, "_whole", later)
    with pytest.raises(bilsh.InvalidInputError, match="Nothing was committed"):
        distributed.encode(source, encoder, tmp_path / "s", Here(), block=700)
    with bilsh.Store.open(tmp_path / "s") as store:
        assert len(store) == 0


def test_another_writer_in_between(tmp_path, source, X, encoder):
    with pytest.raises(KeyboardInterrupt):
        distributed.encode(source, encoder, tmp_path / "s", Dying(2), block=700)
    with bilsh.Store.open(tmp_path / "s", "a") as store:
        store.add(X[:10] + 1)
    with pytest.raises(bilsh.StoreBusyError, match="planned on version 1"):
        distributed.encode(source, encoder, tmp_path / "s", Here(), block=700)
    with bilsh.Store.open(tmp_path / "s") as store:
        assert len(store) == 10


def test_a_full_disk(tmp_path, source, X, encoder, monkeypatch):
    real, calls = worker.write_segment, []

    def full(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        return real(*arguments)

    monkeypatch.setattr(worker, "write_segment", full)
    with pytest.raises(OSError, match="No space left"):
        distributed.encode(source, encoder, tmp_path / "s", Here(), block=700)
    (folder,) = (tmp_path / "s" / "staging").iterdir()
    assert not list(folder.glob("try-*"))
    done = distributed.encode(source, encoder, tmp_path / "s", Here(), block=700)
    assert done.encoded < 5
    check(tmp_path / "s", X, encoder)


def test_a_killed_worker(tmp_path, source, X, encoder):
    """The pool is broken then; what was done is on disk."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        victim = pool.submit(os.getpid).result()
        killer = threading.Thread(target=kill_after_a_receipt, args=(victim, tmp_path / "s"))
        killer.start()
        with pytest.raises(bilsh.BilshError, match="a worker died"):
            distributed.encode(source, encoder, tmp_path / "s", pool, block=10)
        killer.join()
    done = distributed.encode(source, encoder, tmp_path / "s", Here(), block=10)
    assert 0 < done.encoded < 300
    check(tmp_path / "s", X, encoder)


def kill_after_a_receipt(victim, store):
    end = time.monotonic() + 60
    while not list(store.glob("staging/*/b-*.json")) and time.monotonic() < end:
        time.sleep(0.001)
    os.kill(victim, signal.SIGKILL)


def test_a_driver_killed_at_random_moments(tmp_path, source, X, encoder):
    """kill -9 at forty moments of jobs that end with exactly the right rows."""
    took = []
    for number in range(3):
        start = time.monotonic()
        distributed.encode(source, encoder, tmp_path / f"whole{number}", Here(), block=100)
        took.append(time.monotonic() - start)
    rng, kills = np.random.default_rng(1), 0
    # A job that got through cannot be killed any more: the next round has a store of its own.
    for number in range(400):
        if kills >= 40:
            break
        path = tmp_path / f"s{number}"
        for moment in rng.uniform(0, min(0.3, *took), 10):
            child = os.fork()
            if not child:
                with contextlib.suppress(BaseException):
                    distributed.encode(source, encoder, path, Here(), block=100)
                os._exit(0)
            time.sleep(moment)
            os.kill(child, signal.SIGKILL)
            if os.waitpid(child, 0)[1] != signal.SIGKILL:
                break  # it got through
            kills += 1
        distributed.encode(source, encoder, path, Here(), block=100)
        check(path, X, encoder)
        assert not (path / "staging").exists()
    assert kills >= 40


def test_sources_of_all_kinds(tmp_path, X, encoder):
    import h5py
    import pyarrow
    import pyarrow.parquet

    names = [f"item {row}" for row in range(ROWS)]
    table = pyarrow.table({"name": names, "x": list(X)})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet", row_group_size=500)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = X
    distributed.encode(
        tmp_path / "x.parquet", encoder, tmp_path / "p", Here(), key="x", id_column="name", block=999
    )
    check(tmp_path / "p", X, encoder, ids=names)
    distributed.encode(tmp_path / "x.h5", encoder, tmp_path / "h", Here(), key="x", block=999)
    check(tmp_path / "h", X, encoder)
    distributed.encode(distributed.Generated(rows, ROWS), encoder, tmp_path / "g", Here(), block=999)
    check(tmp_path / "g", X, encoder)
    np.save(tmp_path / "y.npy", X)
    own = np.random.default_rng(0).permutation(10 * ROWS)[:ROWS]
    distributed.encode(tmp_path / "y.npy", encoder, tmp_path / "i", Here(), ids=own, block=999)
    check(tmp_path / "i", X, encoder, ids=own)
    with bilsh.Store.open(tmp_path / "i", "a") as store:
        assert store.next_id == own.max() + 1
        store.add(X[:3])
        assert len(store) == ROWS + 3


def test_vectors_are_kept_and_more_is_added(tmp_path, source, X, encoder):
    distributed.encode(source, encoder, tmp_path / "s", Here(), keep_vectors="float32", block=1024)
    with bilsh.Store.open(tmp_path / "s") as store:
        assert (store.get([5]).vectors == X[5]).all()
    np.save(tmp_path / "more.npy", X[:50])
    distributed.encode(tmp_path / "more.npy", encoder, tmp_path / "s", Here())
    with bilsh.Store.open(tmp_path / "s") as store:
        assert len(store) == ROWS + 50
        assert (store.get(np.arange(ROWS, ROWS + 50)).vectors == X[:50]).all()


def test_what_cannot_be(tmp_path, source, X, encoder):
    other = bilsh.AngleEncoder(n_bits=600, random_state=1).fit(X)
    distributed.encode(source, encoder, tmp_path / "s", Here())
    with pytest.raises(bilsh.IncompatibleCodesError, match="holds codes of encoder"):
        distributed.encode(source, other, tmp_path / "s", Here())
    with pytest.raises(bilsh.InvalidInputError, match="ids of one's own go into a new store"):
        distributed.encode(source, encoder, tmp_path / "s", Here(), ids=np.arange(ROWS), block=17)
    with pytest.raises(FileNotFoundError):
        distributed.encode(tmp_path / "nothing.npy", encoder, tmp_path / "t", Here())
    with pytest.raises(bilsh.InvalidInputError, match="one writer"):
        distributed.encode(source, encoder, f"faiss:{tmp_path}/f", Here())
    with pytest.raises(bilsh.InvalidInputError, match="unique"):
        distributed.encode(source, encoder, tmp_path / "u", Here(), ids=np.zeros(ROWS, int))
    with pytest.raises(bilsh.InvalidInputError, match="gave 1 items"):
        distributed.encode(
            distributed.Generated(lambda start, stop: X[:1], ROWS), encoder, tmp_path / "v", Here(), block=100
        )


def test_plans_and_receipts_survive_their_files(tmp_path):
    plan = Plan("0" * 16, {"kind": "generated"}, {"path": "x"}, 0, 10, 4, "f" * 64, "s", 1, 0, False, None)
    plan.write(tmp_path)
    assert Plan.read(tmp_path) == plan
    assert [plan.range(i) for i in range(plan.n_blocks)] == [(0, 4), (4, 8), (8, 10)]
    receipt = Receipt(1, 4, 8, 4, "4", "7", "abc", None, (("a.jpg", "bad"),))
    receipt.write(tmp_path)
    assert Receipt.read(tmp_path, 1) == receipt
    assert Receipt.read(tmp_path, 0) is None
    assert json.loads(Path(tmp_path / "plan.json").read_text())["format"] == 1
