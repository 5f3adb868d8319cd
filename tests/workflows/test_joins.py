"""A store against itself: graphs and pairs, exact or promised, cut off and gone on with."""

import numpy as np
import pytest

import bilsh
from bilsh import Store
from bilsh.workflows import joins
from bilsh.workflows.parts import Parts


def items(n, seed=0):
    rng = np.random.default_rng(seed)
    middles = np.random.default_rng(1).normal(size=(12, 20))
    return (3 * middles[rng.integers(0, 12, n)] + rng.normal(size=(n, 20))).astype(np.float32)


@pytest.fixture(params=["int", "str"])
def store(request, tmp_path):
    encoder = bilsh.AngleEncoder(n_bits=700, projection="dense", random_state=0).fit(items(100))
    with Store.create(tmp_path / "store", encoder) as store:
        names = [f"key {n}" for n in range(700)] if request.param == "str" else list(range(700, 0, -1))
        store.add(items(600), ids=names[:600])
        store.build_cells(20)
        store.add(items(100, 3), ids=names[600:])
        store.delete(names[5:50:7])
    with Store.open(tmp_path / "store") as store:
        yield store


def truth(store):
    found = store.get(store.ids)
    far = bilsh.hamming(found.codes, found.codes)
    return found.ids, far


def read(path):
    if path.suffix == ".npz":
        with np.load(path) as found:
            return {name: found[name].tolist() for name in found.files}
    return pytest.importorskip("pyarrow.parquet").read_table(path).to_pydict()


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_a_graph_is_exact(store, tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(joins, "ITEMS", 128)
    path = tmp_path / f"graph{suffix}"
    done = joins.graph(store, path, k=4)
    assert (done.rows, done.resumed_at, done.notes) == (len(store), 0, ())
    ids, far = truth(store)
    place = {item: number for number, item in enumerate(ids.tolist())}
    found = read(path)
    assert set(found["ids"]) == set(place)
    for item, near, distances in zip(found["ids"], found["neighbors"], found["distances"], strict=True):
        own = place[item]
        others = np.sort(np.delete(far[own], own))[:4]
        assert list(distances) == others.tolist()
        assert item not in near
        assert [far[own, place[other]] for other in near] == others.tolist()
    assert not (tmp_path / f"{path.name}.parts").exists()


def test_a_graph_with_a_promise(store, tmp_path):
    exact, near = tmp_path / "exact.npz", tmp_path / "near.npz"
    joins.graph(store, exact, k=4)
    done = joins.graph(store, near, k=4, recall=0.9)
    assert done.rows == len(store)
    one, other = read(exact), read(near)
    kept = [len(set(a) & set(b)) / 4 for a, b in zip(one["neighbors"], other["neighbors"], strict=True)]
    assert np.mean(kept) > 0.85


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_a_graph_of_learned_codes(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(joins, "ITEMS", 128)
    encoder = bilsh.EuclideanEncoder(n_bytes=16, random_state=0).fit(items(300))
    with Store.create(tmp_path / "store", encoder) as store:
        store.add(items(600), ids=[f"key {n}" for n in range(600)])
        store.build_cells(20)
        store.add(items(100, 3), ids=[f"key {n}" for n in range(600, 700)])
        store.delete(["key 7"])
        joins.graph(store, tmp_path / f"exact{suffix}", k=4)
        promised = joins.graph(store, tmp_path / f"near{suffix}", k=4, recall=0.9)
        found, near = read(tmp_path / f"exact{suffix}"), read(tmp_path / f"near{suffix}")
        wanted = store.search(codes=store.get(found["ids"]).codes, k=5)
    assert len(found["ids"]) == promised.rows == 699
    assert any("promised recall 0.9" in note for note in promised.notes)
    for row, item in enumerate(found["ids"]):
        others = np.flatnonzero(wanted.ids[row] != item)[:4]
        assert found["neighbors"][row] == wanted.ids[row][others].tolist()
        np.testing.assert_allclose(found["distances"][row], wanted.distances[row][others], rtol=1e-6)
    kept = [len(set(a) & set(b)) / 4 for a, b in zip(found["neighbors"], near["neighbors"], strict=True)]
    assert np.mean(kept) > 0.85
    with pytest.raises(bilsh.InvalidInputError, match="no radii in bits"):
        joins.duplicates(Store.open(tmp_path / "store"), tmp_path / "pairs.npz", radius=5)


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_pairs_are_exact(store, tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(joins, "BLOCKS", 1)
    path = tmp_path / f"pairs{suffix}"
    ids, far = truth(store)
    done = joins.duplicates(store, path, radius=90)
    one, other = np.nonzero(np.triu(far <= 90, 1))
    expected = {frozenset((ids[a], ids[b])): far[a, b] for a, b in zip(one, other, strict=True)}
    found = read(path)
    assert done.rows == len(found["a"]) == len(expected) > 100
    pairs = zip(found["a"], found["b"], found["distances"], strict=True)
    assert {frozenset((a, b)): d for a, b, d in pairs} == expected


def test_pairs_by_similarity(store, tmp_path):
    done = joins.duplicates(store, tmp_path / "pairs.npz", similarity=0.9)
    least = joins.radius_for(store.coder, 0.9, 0.95)
    assert done.radius == least
    code = np.zeros((1, 88), dtype=np.uint8)
    other = np.packbits(np.arange(704) < least, bitorder="little")
    told = bilsh.estimate(code[0], other, encoder=store.encoder, of=store.coder.calibration.similarity)
    assert told.interval[0] >= 0.9
    with pytest.raises(ValueError, match="cannot tell"):
        joins.radius_for(store.coder, 1.5, 0.95)
    with pytest.raises(ValueError, match="tell no similarity"):
        joins.radius_for(bilsh.Index(np.zeros((3, 8), dtype=np.uint8)).coder, 0.9, 0.95)
    with pytest.raises(ValueError, match="either a radius"):
        joins.duplicates(store, tmp_path / "other.npz")
    with pytest.raises(ValueError, match="from 0 to 700"):
        joins.duplicates(store, tmp_path / "other.npz", radius=701)


def test_nothing_found_is_an_empty_file(tmp_path):
    with Store.create(tmp_path / "store", n_bits=64) as store:
        store.add_codes(np.array([[0] * 8, [255] * 8], dtype=np.uint8))
        done = joins.duplicates(store, tmp_path / "pairs.npz", radius=3)
        assert (done.rows, read(tmp_path / "pairs.npz")["a"]) == (0, [])
        assert joins.graph(store, tmp_path / "graph.npz", k=10).rows == 2
        assert read(tmp_path / "graph.npz")["distances"] == [[64], [64]]
        store.delete([0])
        with pytest.raises(ValueError, match="two items"):
            joins.graph(store, tmp_path / "again.npz")


def test_a_run_that_was_cut_off_goes_on(store, tmp_path, monkeypatch):
    monkeypatch.setattr(joins, "ITEMS", 100)
    whole, path = tmp_path / "whole.npz", tmp_path / "graph.npz"
    joins.graph(store, whole, k=3)

    def cut(what, done, total):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        joins.graph(store, path, k=3, progress=cut)
    assert not path.exists()
    with pytest.raises(ValueError, match="parts of other work"):
        joins.graph(store, path, k=2)
    assert joins.graph(store, path, k=3).resumed_at == 4
    assert read(path) == read(whole)
    with pytest.raises(ValueError, match="exists already"):
        joins.graph(store, path, k=3)
    assert joins.graph(store, path, k=3, overwrite=True).rows == len(store)


def test_outputs_that_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\.npz or \.parquet"):
        Parts(tmp_path / "graph.csv", {})
    with pytest.raises(OSError, match="does not exist"):
        Parts(tmp_path / "nowhere" / "graph.npz", {})
