"""Cells in a store: built, searched, grown, thinned out, copied, and given up by those who cannot have them."""

import time
from dataclasses import replace

import numpy as np
import pytest
from makers import content, make_encoder, make_items

import bilsh
from bilsh import CorruptStoreError, Store
from bilsh.search.cells import held_out
from bilsh.store import celled
from bilsh.store.reserve import Reserve

N_BYTES = 80
RNG = np.random.default_rng(0)
MIDDLES = RNG.integers(0, 2, size=(40, 8 * N_BYTES), dtype=np.uint8)


def codes_of(n, seed):
    rng = np.random.default_rng(seed)
    share = 0.12 * rng.uniform(0.3, 1.7, size=(n, 1))
    bits = MIDDLES[rng.integers(0, 40, size=n)] ^ (rng.random((n, 8 * N_BYTES)) < share)
    return np.packbits(bits, axis=1, bitorder="little")


QUERIES = codes_of(200, 99)


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "store", n_bits=8 * N_BYTES) as store:
        store.add_codes(codes_of(1800, 1))
        store.add_codes(codes_of(1200, 2))
        yield store


def recall(store, k=5, **options):
    found, truth = (
        store.search(codes=QUERIES, k=k, **options),
        store.search(codes=QUERIES, k=k, mode="hamming"),
    )
    kept = [len(np.intersect1d(a, b)) / k for a, b in zip(found.ids, truth.ids, strict=True)]
    return np.mean(kept), found.explain()


def celled_segments(store):
    return [(len(segment), segment.n_alive) for segment in store.segments if segment.has("cells")]


def test_building_keeps_all_items_and_orders_them(store):
    before = content(store)
    told = []
    assert store.build_cells(50, progress=lambda *step: told.append(step)) == store.n_cells == 50
    assert content(store) == before
    assert {what for what, _, _ in told} == {
        "learning centres",
        "assigning rows",
        "writing cells",
        "calibrating",
    }
    (segment,) = store.segments
    cells = segment.cells
    codes = np.hstack([np.asarray(slab) for slab in segment.slabs])
    far = bilsh.hamming(codes, cells.centres)
    assert np.array_equal(np.argmin(far, axis=1), cells.of_rows(np.arange(3000)))
    store.verify(deep=True)
    assert store._now.manifest.format == 3


def test_a_recall_is_kept_and_explained(store):
    store.build_cells(50)
    for target in (0.9, 0.95):
        found, told = recall(store, recall=target)
        assert found > target - 0.02
        assert told.promise.source == "items"
        assert told.bytes_read < 0.5 * 200 * 3000 * N_BYTES
    found, told = recall(store, recall=1)
    assert (found, told.promise) == (1, None)
    assert recall(store)[1].promise is None


def test_readers_see_cells_and_their_calibration(store, tmp_path):
    old = Store.open(tmp_path / "store")
    store.build_cells(50)
    assert old.n_cells == 0
    assert "there are no cells" in str(recall(old, recall=0.9)[1])
    old.refresh()
    assert old.n_cells == 50
    assert recall(old, recall=0.9)[1].promise is not None
    unmapped = Store.open(tmp_path / "store", mmap=False)
    found, told = recall(unmapped, recall=0.9)
    assert found == 1 or told.promise is None


def test_changes_after_building(store):
    store.build_cells(50)
    store.delete(np.arange(0, 3000, 7))
    store.add_codes(codes_of(300, 3))
    moved = np.arange(1, 400, 9)
    moved = moved[moved % 7 > 0]
    with Store.open(store.path) as reader:
        assert len(reader) == len(store)
    found, told = recall(store, recall=0.9)
    assert found > 0.88
    assert told.promise is not None
    assert celled_segments(store) == [(3000, 3000 - 429)]
    store.verify(deep=True)


def test_upserted_items_are_found_where_they_are_now(tmp_path):
    X = make_items(600, 1)
    encoder = make_encoder()
    with Store.create(tmp_path / "store", encoder, keep_vectors="float32") as store:
        store.add(X, metadata=[{"n": n} for n in range(600)])
        store.build_cells(12)
        store.upsert(-X[:50], ids=range(50), metadata=["moved"] * 50)
        found = store.search(-X[:50], k=1, recall=0.9)
        assert np.mean(found.ids[:, 0] == np.arange(50)) > 0.9
        again = store.search(X[:50], k=1, recall=0.9)
        assert not np.any(again.ids[:, 0] == np.arange(50))
        store.compact()
        assert store.n_cells == 12
        assert store.get([3, 77]).metadata == ["moved", {"n": 77}]
        np.testing.assert_array_equal(store.get([3, 77]).vectors, [-X[3], X[77]])
        assert store.search(X[100:101], k=3, recall=0.9, rerank=True).exact[0, 0] == 0


def test_many_new_rows_are_merged_into_cells(store, monkeypatch):
    store.build_cells(50)
    monkeypatch.setattr(celled, "MERGE_LEAST", 500)
    store.add_codes(codes_of(700, 3))
    assert celled_segments(store) == [(3000, 3000)]
    store.add_codes(codes_of(100, 4))
    assert celled_segments(store) == [(3800, 3800)]
    assert len(store.segments) == 1
    assert store.n_cells == 50
    assert recall(store, recall=0.9)[0] > 0.88


def test_centres_are_learned_anew_when_the_store_has_doubled(store):
    store.build_cells(50)
    first = store.segments[0].cells.centres.tobytes()
    store.add_codes(codes_of(2900, 5))
    assert store.segments[0].cells.centres.tobytes() == first
    store.add_codes(codes_of(1500, 6))
    assert celled_segments(store) == [(7400, 7400)]
    assert store.segments[0].cells.centres.tobytes() != first
    assert store.n_cells == 50


def test_many_deletions_rewrite_the_cells(store):
    store.build_cells(50)
    store.delete(np.arange(0, 3000, 3))
    assert celled_segments(store) == [(2000, 2000)]
    assert recall(store, recall=0.9)[0] > 0.88
    store.delete(np.arange(3000))
    assert (len(store), store.n_cells) == (0, 0)
    assert store._now.manifest.format < 3
    assert store._now.manifest.calibration is None


def test_string_ids_and_metadata_follow_their_rows(tmp_path):
    names = [f"item {n} {'x' * (n % 13)}" for n in range(400)]
    with Store.create(tmp_path / "store", make_encoder()) as store:
        store.add(make_items(250, 1), ids=names[:250], metadata=[{"n": n} for n in range(250)])
        store.add(make_items(150, 2), ids=names[250:])
        store.delete(names[10:20])
        before = content(store)
        store.build_cells(9)
        assert content(store) == before
        assert store.get([names[200]]).metadata == [{"n": 200}]
        store.verify(deep=True)
        hits = store.search(make_items(250, 1)[30:33], k=1, recall=0.9)
        assert hits.ids[:, 0].tolist() == names[30:33]


def test_small_changes_go_through_the_log(store):
    store.build_cells(50)
    for number in range(4):
        store.add_codes(codes_of(1, 100 + number), ids=[90_000 + number])
        store.delete([number])
    assert store._now.tail is not None
    with Store.open(store.path) as reader:
        assert reader.n_cells == 50
        assert reader.search(codes=codes_of(1, 102), k=1, recall=0.9).ids.tolist() == [[90_002]]
        assert recall(reader, recall=0.9)[1].promise is not None


def test_calibrating_with_queries_of_ones_own(store):
    with pytest.raises(ValueError, match="needs cells"):
        store.calibrate()
    store.build_cells(50)
    random = np.random.default_rng(7).integers(0, 256, size=(500, N_BYTES), dtype=np.uint8)
    with pytest.raises(ValueError, match="at least 100"):
        store.calibrate(random[:50])
    first = recall(store, recall=0.9)[1].promise
    made = store.calibrate(codes_of(400, 11)).recall
    assert (made.n_queries, made.source) == (400, "given")
    assert recall(store, recall=0.9)[1].promise.n_queries == 400
    assert recall(Store.open(store.path), recall=0.9)[1].promise.source == "given"
    # The queries stay when the cells are made anew; items take their places when asked for.
    store.delete(np.arange(0, 3000, 3))
    assert recall(store, recall=0.9)[1].promise.source == "given"
    assert store.calibrate().recall.source == "items"
    assert 300 < recall(store, recall=0.9)[1].promise.n_queries < first.n_queries
    store.verify(deep=True)


def test_too_few_items_have_no_cells(tmp_path):
    with Store.create(tmp_path / "store", n_bits=8 * N_BYTES) as store:
        assert store.build_cells() == 0
        store.add_codes(codes_of(1, 1))
        assert store.build_cells(5) == 0
        store.add_codes(codes_of(60, 2))
        version = store.version
        assert store.build_cells() == 0
        assert store.version == version
        # Some of the items are not learned from, and these are the trial queries: too few to promise 0.995.
        assert store.build_cells(500) == 61 - held_out(np.arange(61)).sum()
        assert "asks for all cells" in str(recall(store, k=1, recall=0.995)[1])
    with pytest.raises(ValueError, match="open for reading"):
        Store.open(tmp_path / "store").build_cells(3)


@pytest.mark.parametrize("clock", [-5000.0, 253_402_300_800.0, 2.0**60])
def test_cells_are_made_whatever_the_clock_says(store, clock, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: clock)
    store.build_cells(50)
    store.calibrate()
    monkeypatch.undo()
    made = recall(Store.open(store.path), recall=0.9)[1]
    assert made.promise is not None
    assert str(made)
    store.verify(deep=True)


def test_cells_of_which_one_item_is_left(tmp_path):
    """A single item has no neighbours to learn from: it is kept as in any store."""
    with Store.create(tmp_path / "store", n_bits=8 * N_BYTES) as store:
        store.add_codes(codes_of(9, 1))
        for last in range(8, 0, -1):
            store.build_cells(3)
            assert store.delete([last]) == 1
            store.compact()
            assert sorted(content(store)) == list(range(last))
        assert store.n_cells == 0
        store.add_codes(codes_of(8, 2))
        assert store.build_cells(3) == 3
        store.verify(deep=True)


@pytest.mark.parametrize("calibrated", [False, True])
def test_one_item_left_of_cells_on_a_full_disk(tmp_path, calibrated, monkeypatch):
    """Where there is no room for a merge, the dead stay beside it; measuring and compacting must cope with that."""
    with Store.create(tmp_path / "store", n_bits=8 * N_BYTES) as store:
        store.add_codes(codes_of(9, 1))
        store.build_cells(3)
        monkeypatch.setattr(Reserve, "given_up", True)
        store.delete(range(8))
        assert celled_segments(store) == [(9, 1)]
        if calibrated:
            store.calibrate()
        assert store.search(codes=QUERIES[:1], k=3, recall=0.9).ids.tolist() == [[8]]
        store.verify(deep=True)


@pytest.mark.parametrize("wrong", [0, -1, "some", None, 2.5, True])
def test_numbers_of_cells_that_are_refused(store, wrong):
    with pytest.raises((ValueError, TypeError), match="cells must be"):
        store.build_cells(wrong)


def test_backup_and_salvage(store, tmp_path):
    store.build_cells(50)
    store.backup(tmp_path / "copy")
    with Store.open(tmp_path / "copy", "a") as copy:
        assert (copy.n_cells, content(copy)) == (50, content(store))
        assert recall(copy, recall=0.9)[1].promise is not None
        copy.verify(deep=True)
        copy.add_codes(codes_of(5, 9))
    for manifest in (tmp_path / "copy").glob("m-*"):
        manifest.unlink()
    saved = Store.salvage(tmp_path / "copy", tmp_path / "saved")
    assert saved.items == 3005
    with Store.open(tmp_path / "saved", "a") as again:
        assert again.n_cells == 0
        assert again.build_cells(50) == 50


def test_going_back_to_a_version_before_cells_and_after(store, tmp_path):
    version = store.version
    store.build_cells(50)
    store.close()
    where = tmp_path / "store"
    Store.repair(where, version)
    with Store.open(where) as old:
        assert old.n_cells == 0
    Store.repair(where, version + 1)
    with Store.open(where) as new:
        assert new.n_cells == 50
        assert recall(new, recall=0.9)[1].promise is not None


def test_files_that_lie_about_cells_are_refused(store):
    store.build_cells(50)
    (segment,) = store.segments
    file = segment.file
    honest = dict(file.sections)
    for name, change in [
        ("cells", {"length": honest["cells"].length - 8}),
        ("centres", {"columns": 50}),
        ("learned", {"length": 8}),
    ]:
        file.sections = honest | {name: replace(honest[name], **change)}
        with pytest.raises(CorruptStoreError, match="sections"):
            type(segment)(file, segment.ref, segment.layout, None)
    file.sections = {name: section for name, section in honest.items() if name != "learned"}
    with pytest.raises(CorruptStoreError, match="sections"):
        type(segment)(file, segment.ref, segment.layout, None)
