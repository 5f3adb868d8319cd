"""What a store does when nothing goes wrong: the same as a dictionary, only durable."""

from pathlib import Path

import numpy as np
import pytest
from disks import SimulatedDisk
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from makers import N_FEATURES, content, make_encoder, make_items

from bilsh import AngleEncoder, Batch, Store
from bilsh.codes import slab_widths
from bilsh.store import change, inputs
from bilsh.store.manifest import SegmentRef
from bilsh.store.merge import to_merge

ENCODER = make_encoder()


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "store", ENCODER) as store:
        yield store


def test_a_new_store_is_empty_and_knows_its_encoder(store, tmp_path):
    assert len(store) == 0
    assert list(store.batches()) == []
    reader = Store.open(tmp_path / "store")
    assert reader.encoder.to_bytes() == ENCODER.to_bytes()
    assert reader.n_bits == ENCODER.n_bits
    assert reader.id_kind is None
    assert "0 items" in repr(reader)


def test_items_come_back_as_they_were_given(store, tmp_path):
    X = make_items(7)
    assert (
        store.add(X, ids=[5, 3, -1, 2**62, 0, 8, 9], metadata=[{"a": [1, "ü"]}, None, "x", 0, False, 1.5, []])
        == 7
    )
    items = Store.open(tmp_path / "store").get([9, -1, 5])
    assert items.ids.tolist() == [9, -1, 5]
    np.testing.assert_array_equal(items.codes, ENCODER.transform(X)[[6, 2, 0]])
    assert items.metadata == [[], "x", {"a": [1, "ü"]}]
    assert items.vectors is None


def test_left_out_ids_are_the_next_integers(store):
    store.add(make_items(2))
    store.add(make_items(1), ids=[10])
    store.add(make_items(2))
    store.delete([12])
    store.add(make_items(1))
    assert sorted(content(store)) == [0, 1, 10, 11, 13]
    assert store.next_id == 14


def test_string_ids_keep_their_order_of_insertion(store):
    keys = ["b", "a", "\U0001f600", "nul\0", "ä" * 512]
    store.add(make_items(5), ids=keys)
    store.upsert(make_items(1, 1), ids=["a"])
    store.add(make_items(1, 2), ids=np.array(["c"]))
    store.compact()
    (segment,) = store.segments
    order = store.external_ids(np.sort(segment.ids))
    assert order.tolist() == ["b", "\U0001f600", "nul\0", "ä" * 512, "a", "c"]
    np.testing.assert_array_equal(store.get(["a"]).codes, ENCODER.transform(make_items(1, 1)))


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_vectors_are_kept(tmp_path, kind):
    X = make_items(6).reshape(6, 3, 4)
    encoder = AngleEncoder(n_bits=16, random_state=0).fit(X)
    with Store.create(tmp_path / "store", encoder, keep_vectors=kind) as store:
        store.add(X[:4])
        store.add_codes(encoder.transform(X[4:]), vectors=X[4:], fingerprint=encoder.fingerprint)
        expected = X.reshape(6, N_FEATURES).astype(kind)
        np.testing.assert_array_equal(store.get(range(6)).vectors, expected)
        np.testing.assert_array_equal(np.vstack([segment.vectors for segment in store.segments]), expected)


def test_streams_and_arrays_store_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(change, "FLUSH_BYTES", 2000)
    monkeypatch.setattr(inputs, "CHUNK_BYTES", 500)
    X, ids = make_items(100), np.arange(100)[::-1] * 3
    notes = [{"row": i} for i in range(100)]
    np.save(tmp_path / "X.npy", X)
    parts = [slice(0, 0), slice(0, 33), slice(33, 34), slice(34, 100)]
    ways = [
        lambda s: s.add(X, ids, metadata=notes),
        lambda s: s.add(np.load(tmp_path / "X.npy", mmap_mode="r"), ids.tolist(), metadata=notes),
        lambda s: s.add(Batch(X[p], ids[p], notes[p]) for p in parts),
        lambda s: s.add([Batch(X[p].tolist(), ids[p].tolist(), notes[p]) for p in parts[1:]], n_jobs=2),
        lambda s: s.add_codes(
            (Batch(ENCODER.transform(X[p]), ids[p], notes[p]) for p in parts[1:]),
            fingerprint=ENCODER.fingerprint,
        ),
        lambda s: s.upsert((Batch(X[p], ids[p], notes[p]) for p in parts), n_jobs=2),
    ]
    found = []
    for number, way in enumerate(ways):
        with Store.create(tmp_path / str(number), ENCODER) as store:
            assert way(store) == 100
            assert store.version == 2, "one call is one version"
            store.verify(deep=True)
            found.append(content(store))
    assert all(one == found[0] for one in found)
    assert len(found[0]) == 100


def test_a_stream_may_use_one_buffer_again(store):
    codes = ENCODER.transform(make_items(9))

    def stream():
        buffer = np.empty_like(codes[:3])
        for start in (0, 3, 6):
            buffer[:] = codes[start : start + 3]
            yield Batch(buffer)
        buffer[:] = 0

    store.add_codes(stream(), fingerprint="unchecked")
    np.testing.assert_array_equal(store.get(range(9)).codes, codes)


@pytest.mark.parametrize("kind", ["int", "str"])
def test_callers_may_use_their_arrays_again(tmp_path, kind):
    """Small changes wait in the log, and what was handed over is overwritten meanwhile."""
    codes, vectors = ENCODER.transform(make_items(12)), make_items(12).reshape(12, -1)
    code, vector, name, note = codes[:1].copy(), vectors[:1].copy(), np.zeros(1, np.int64), [{}]
    with Store.create(tmp_path / "store", ENCODER, keep_vectors="float32") as store:
        for number in range(12):
            code[:], vector[:], name[:], note[0]["n"] = codes[number], vectors[number], number, number
            ids = name if kind == "int" else name.astype(str)
            store.add_codes(code, ids=ids, vectors=vector, metadata=note, fingerprint="unchecked")
        code[:], vector[:], name[:], note[0]["n"] = 0, 0, 0, None
        ids = np.arange(12) if kind == "int" else np.arange(12).astype(str)
        for _ in ("in the log", "in a segment"):
            items = store.get(ids)
            np.testing.assert_array_equal(items.codes, codes)
            np.testing.assert_array_equal(items.vectors, vectors)
            assert items.metadata == [{"n": number} for number in range(12)]
            store.compact()


def test_a_forgotten_writer_gives_the_lock_back(tmp_path):
    Store.create(tmp_path / "store", ENCODER)
    Store.open(tmp_path / "store", "a").close()


def test_no_rows_are_no_version(store):
    assert store.add(np.empty((0, N_FEATURES))) == 0
    assert store.add(iter(())) == 0
    assert store.delete([]) == 0
    assert store.delete([4]) == 0
    store.compact()
    assert store.version == 1
    assert len(store.get([])) == 0


def test_segments_show_what_search_needs(store):
    X = make_items(20)
    store.add(X)
    store.delete([3, 19])
    (segment,) = store.segments
    assert [slab.shape for slab in segment.slabs] == [(20, 64), (20, 12)]
    assert all(slab.ctypes.data % 64 == 0 and slab.flags.c_contiguous for slab in segment.slabs)
    assert not segment.slabs[0].flags.writeable
    np.testing.assert_array_equal(np.hstack(segment.slabs), ENCODER.transform(X))
    alive = np.unpackbits(segment.alive, bitorder="little")
    assert np.flatnonzero(alive == 0).tolist() == [3, 19, 20, 21, 22, 23]
    assert (len(segment), segment.n_alive) == (20, 18)
    part = segment.part(2, 20)
    np.testing.assert_array_equal(np.hstack(part.slabs), ENCODER.transform(X[2:]))
    assert np.flatnonzero(np.unpackbits(part.alive, bitorder="little")[:18] == 0).tolist() == [1, 17]
    assert part.ids.tolist() == list(range(2, 20))


def test_slabs_follow_the_length_of_the_code():
    assert slab_widths(1) == (1,)
    assert slab_widths(64) == (64,)
    assert slab_widths(65) == (64, 1)
    assert slab_widths(62500 // 8 + 1) == (64, 192, 768, 3072, 3717)


def test_thresholds_keep_a_store_in_order(store):
    for number in range(60):
        store.add(make_items(3, number))
        assert len(store.segments) <= 16
    store.delete(range(50))
    assert sum(segment.ref.dead for segment in store.segments) <= 0.25 * sum(map(len, store.segments))
    assert sorted(content(store)) == list(range(50, 180))
    store.delete(range(180))
    assert len(store) == 0
    assert store.segments == ()
    store.add(make_items(1))
    assert list(content(store)) == [180]


def test_merging_rewrites_each_row_seldom():
    def refs(sizes):
        return [SegmentRef(f"{i}", 0, "", size, 0, None) for i, size in enumerate(sizes)]

    sizes, written = [], 0
    for _ in range(5000):
        sizes.append(1)
        chosen = to_merge(refs(sizes))
        if chosen:
            merged = sum(sizes[i] for i in chosen)
            written += merged
            sizes = [size for i, size in enumerate(sizes) if i not in chosen] + [merged]
        assert len(sizes) <= 16
    assert written < 5000 * np.log(5000) / np.log(1.5)
    assert to_merge(refs([10**6, *[1] * 16])) == list(range(1, 17))


def test_space_is_given_back_one_change_later(store):
    store.add(make_items(3000))
    store.delete(range(2000))
    store.delete([2500])
    size = sum(path.stat().st_size for path in store.path.iterdir())
    assert size < 2.5 * 1000 * 84 + 200_000


def test_leftovers_of_a_crash_are_removed_and_other_files_are_not(store, tmp_path):
    store.add(make_items(1))
    store.close()
    ours = [tmp_path / "store" / name for name in ("s-0123456789abcdef.seg", "t-0123456789abcdef.tmp")]
    theirs = [tmp_path / "store" / name for name in ("notes.txt", "s-1.seg")]
    for path in ours + theirs:
        path.write_bytes(b"x")
    Store.open(tmp_path / "store").close()
    assert all(path.exists() for path in ours)
    Store.open(tmp_path / "store", "a").close()
    assert not any(path.exists() for path in ours)
    assert all(path.exists() for path in theirs)


class AgainstADictionary(RuleBasedStateMachine):
    """Random calls in random order; the store must hold what a dictionary would."""

    path = Path("/store")
    number = 0

    def __init__(self):
        super().__init__()
        type(self).number += 1
        self.disk = SimulatedDisk()
        self.store = Store.create(self.path, ENCODER, mmap=self.number % 2 == 0, _disk=self.disk)
        self.model = {}
        self.seed = 0
        self.name = str if self.number % 3 == 0 else int

    ids = st.sets(st.integers(0, 30), min_size=1, max_size=8)

    def items(self, ids):
        self.seed += 1
        X = make_items(len(ids), self.seed)
        codes = ENCODER.transform(X)
        return X, {
            i: (code.tobytes(), None, f'{{"v": {self.seed}}}') for i, code in zip(ids, codes, strict=True)
        }

    @rule(ids=ids)
    def upsert(self, ids):
        ids = [self.name(i) for i in ids]
        X, new = self.items(ids)
        assert self.store.upsert(X, ids, metadata=[{"v": self.seed}] * len(ids)) == len(ids)
        self.model |= new

    @rule(ids=ids)
    def add(self, ids):
        ids = [self.name(i) for i in ids if self.name(i) not in self.model]
        X, new = self.items(ids)
        assert self.store.add(X, ids, metadata=[{"v": self.seed}] * len(ids)) == len(ids)
        self.model |= new

    @rule(ids=ids)
    def delete(self, ids):
        if self.store.id_kind:
            ids = [self.name(i) for i in ids]
            assert self.store.delete(ids) == sum(self.model.pop(i, None) is not None for i in ids)

    @rule()
    def compact(self):
        self.store.compact()

    @rule()
    def reopen(self):
        self.store.close()
        self.store = Store.open(self.path, "a", mmap=self.seed % 2 == 0, _disk=self.disk)

    @invariant()
    def same(self):
        assert len(self.store) == len(self.model)
        assert content(self.store) == self.model
        if self.model:
            items = self.store.get(list(self.model))
            assert [code.tobytes() for code in items.codes] == [code for code, _, _ in self.model.values()]

    def teardown(self):
        self.store.verify(deep=True)
        self.store.close()


def test_a_store_is_a_dictionary():
    quick = settings(
        max_examples=40, stateful_step_count=25, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(AgainstADictionary, settings=quick)


@pytest.mark.parametrize("ids", [[7, 8, 9], ["a", "b", "c"]])
def test_deleting_counts_items_not_mentions(store, ids):
    store.add(make_items(3), ids=ids)
    first, second, third = ids
    assert store.delete([first, first, second, first]) == 2
    assert store.delete([first, third, third]) == 1
    assert len(store) == 0
