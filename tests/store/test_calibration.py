"""A store measured on itself: intervals that cover whatever the encoder's sample said, kept beside the codes."""

import json
from dataclasses import replace

import numpy as np
import pytest
from disks import SimulatedDisk
from scipy import stats

import bilsh
from bilsh.errors import CorruptStoreError, InvalidInputError
from bilsh.store.calibration import CALIBRATION, Intervals
from bilsh.store.sealed import seal
from support import SEED

D = 24


def clustered(n, rng):
    """Points about many centres: neighbours of one centre, then a gap."""
    centres = np.random.default_rng(SEED).normal(size=(150, D))
    return (centres[rng.integers(150, size=n)] + 0.35 * rng.normal(size=(n, D))).astype(np.float32)


@pytest.fixture
def made(tmp_path):
    """A store of 1,500 clustered points whose encoder was fitted on other data: its sample tells wrong things."""
    rng = np.random.default_rng([SEED, 5])
    other = rng.normal(size=(800, D)).astype(np.float32) * np.linspace(0.2, 2, D, dtype=np.float32)
    encoder = bilsh.KernelEncoder(256, bandwidth=3.0, random_state=0).fit(other)
    store = bilsh.Store.create(tmp_path / "store", encoder, keep_vectors="float32")
    store.add(clustered(1500, rng))
    yield store
    store.close()


def shares(hits, Q, X):
    """How many truths lie in their intervals, at each rank."""
    truth = np.linalg.norm(Q[:, None] - X[hits.ids], axis=-1)
    ends = hits.estimate(of="distance").interval
    return ((ends[..., 0] <= truth) & (truth <= ends[..., 1])).sum(axis=0)


@pytest.mark.parametrize("mode", ["auto", "hamming"])
def test_calibrated_intervals_cover_new_queries(made, mode):
    """600 new queries: a coverage below 92 % or above 99 % fails; false failures below 1e-6 at 95-98 %."""
    X, Q = made.get(np.arange(1500)).vectors, clustered(600, np.random.default_rng([SEED, 6]))
    told = made.calibrate().intervals
    assert (told.queries, told.items, told.given) == (1000, 1500, False)
    assert all(0.92 < share < 0.995 for share in told.after)
    found = shares(made.search(Q, k=10, mode=mode), Q, X)
    low, high = stats.binom.ppf(5e-8, 600, 0.95), stats.binom.ppf(1 - 5e-8, 600, 0.98)
    assert np.all((low <= found) & (found <= high)), found / 600


def test_given_queries_decide(made):
    """Queries far from all items: the store's own items say little of them, they themselves do."""
    rng, X = np.random.default_rng([SEED, 7]), made.get(np.arange(1500)).vectors
    Q = rng.normal(size=(1200, D)).astype(np.float32) * 0.8
    told = made.calibrate(Q[:600]).intervals
    assert (told.queries, told.given) == (600, True)
    found = shares(made.search(Q[600:], k=10), Q[600:], X)
    assert np.all(found >= stats.binom.ppf(1e-7, 600, 0.95)), found / 600


def test_it_is_told_and_seen_by_readers(made):
    with bilsh.Store.open(made.path) as reader:
        assert "calibrated" not in str(reader.search(ids=[3]).explain())
        made.calibrate()
        assert "calibrated" not in str(reader.search(ids=[3]).explain())
        reader.refresh()
        assert "1,000 queries (of its items) among 1,500 items" in str(reader.search(ids=[3]).explain())
        np.testing.assert_allclose(
            reader.search(ids=[3]).interval, made.search(ids=[3]).interval, rtol=0, atol=1e-4
        )
        assert "calibrated" in str(reader.search(ids=[3], radius=40).explain())
    made.delete(np.arange(800))
    assert "calibrate it again" in str(made.search(ids=[900]).explain())


def test_it_is_deterministic_and_travels(made, tmp_path):
    first = made.calibrate().intervals
    again = made.calibrate().intervals
    assert replace(again, time=0).to_plain() == replace(first, time=0).to_plain()
    back = Intervals.from_plain(json.loads(json.dumps(first.to_plain())))
    np.testing.assert_allclose(back.by_score.levels, first.by_score.levels, atol=1e-6)
    made.backup(tmp_path / "copy")
    with bilsh.Store.open(tmp_path / "copy") as copy:
        assert "calibrated on this store" in str(copy.search(ids=[3]).explain())


def test_damage_is_named_and_does_no_harm(made):
    expected = made.search(ids=[3, 4])
    made.calibrate()
    file = made.path / CALIBRATION
    whole = file.read_bytes()
    for at in (5, 100, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with bilsh.Store.open(made.path) as reader:
            found = reader.search(ids=[3, 4])
            np.testing.assert_array_equal(found.interval, expected.interval)
            assert "calibration.json is damaged" in str(found.explain())
            with pytest.raises(CorruptStoreError, match=r"calibration\.json is damaged"):
                reader.verify()
            with pytest.raises(CorruptStoreError, match=r"calibration\.json"):
                reader.backup(made.path.with_name(f"copy {at}"))
    made.calibrate()
    made.verify()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"format": 2}, "use a newer bilsh"),
        ({"fingerprint": "0" * 64}, "another encoder"),
        ({"intervals": {"queries": 1}}, "by_distance"),
        ({"intervals": []}, "list indices"),
        ({}, "intervals"),
    ],
)
def test_files_that_say_something_else(made, body, says):
    whole = {"format": 1, "fingerprint": made.fingerprint} | body
    (made.path / CALIBRATION).write_bytes(seal("calibration", whole))
    with pytest.raises(CorruptStoreError, match=says):
        made.verify()


def test_string_ids_deletes_and_float16(tmp_path):
    rng = np.random.default_rng([SEED, 8])
    X = clustered(400, rng)
    encoder = bilsh.AngleEncoder(128, random_state=0).fit(X)
    with bilsh.Store.create(tmp_path / "store", encoder, keep_vectors="float16") as store:
        for part in range(4):
            rows = slice(100 * part, 100 * part + 100)
            store.add(X[rows], ids=[f"item {row}" for row in range(400)[rows]])
        store.delete([f"item {row}" for row in range(0, 400, 3)])
        told = store.calibrate().intervals
        assert told.queries == told.items == len(store) == 266


def test_what_cannot_be_calibrated(tmp_path):
    X = clustered(150, np.random.default_rng(SEED))
    encoder = bilsh.AngleEncoder(64, random_state=0).fit(X)
    with bilsh.Store.create(tmp_path / "bare", encoder) as store:
        store.add(X)
        with pytest.raises(InvalidInputError, match="Intervals need vectors"):
            store.calibrate()
    with bilsh.Store.create(tmp_path / "small", encoder, keep_vectors="float32") as store:
        store.add(X[:90])
        with pytest.raises(InvalidInputError, match="at least 100 items"):
            store.calibrate()
        store.add(X[90:])
        with pytest.raises(InvalidInputError, match="150 and 20"):
            store.calibrate(X[:20])
    with (
        bilsh.Store.open(tmp_path / "small") as reader,
        pytest.raises(InvalidInputError, match="open for reading"),
    ):
        reader.calibrate()


def test_a_crash_leaves_the_old_calibration_or_the_new_one():
    """Power fails at every step of writing; the file is whole on every disk that could be found."""
    X = clustered(120, np.random.default_rng(SEED))
    encoder = bilsh.AngleEncoder(64, random_state=0).fit(X)
    disk = SimulatedDisk()
    with bilsh.Store.create("/store", encoder, keep_vectors="float32", _disk=disk) as store:
        store.add(X)
        store.calibrate()
        rng, found = np.random.default_rng(SEED), []
        disk.done = lambda: found.extend(disk.outcomes(rng, 2))
        store.calibrate(X[:110])
    kinds = set()
    for after in found:
        with bilsh.Store.open("/store", _disk=after) as store:
            store.search(ids=[3])
            measured, problem = store._measured.found
            assert problem is None
            kinds.add(measured.given)
    assert kinds == {False, True}
