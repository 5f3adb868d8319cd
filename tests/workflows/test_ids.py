"""Items by the ids that people have: files, columns, integers in text, replacing, going on."""

import numpy as np
import pytest

from bilsh import Store
from bilsh.errors import DataNotFoundError, InvalidInputError
from bilsh.workflows import ingest
from bilsh.workflows.ingest import Settings, add, encode
from bilsh.workflows.queries import as_new_ids, parse_ids, read_ids

SETTINGS = Settings(bits=64, batch=20)


def ids_of(path):
    with Store.open(path) as store:
        return [item for part in store.batches() for item in part.ids]


def parquet(path, **columns):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pyarrow.table(columns), path)


def source(tmp_path, X, form, ids):
    """Write items with their ids in one file; return its path and the name of the ids."""
    path = tmp_path / f"x.{form}"
    if form == "parquet":
        parquet(path, sku=ids, v=list(X))
    elif form == "csv":
        rows = [f"{item},{','.join(map(repr, row.tolist()))}" for item, row in zip(ids, X, strict=True)]
        header = ",".join(["sku", *(f"c{i}" for i in range(X.shape[1]))])
        path.write_text("\n".join([header, *rows]) + "\n")
    elif form == "npz":
        np.savez(path, sku=np.array(ids), v=X)
    else:
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file["group/v"], file["group/sku"] = X, ids
        return path, "group/sku"
    return path, "sku"


@pytest.mark.parametrize("form", ["parquet", "csv", "npz", "h5"])
@pytest.mark.parametrize("kind", [int, str])
def test_ids_of_a_column(tmp_path, X, form, kind):
    ids = [1000 - i for i in range(300)] if kind is int else [f"sku-{i}" for i in range(300)]
    path, name = source(tmp_path, X, form, ids)
    done = encode(path, tmp_path / "store", SETTINGS, id_column=name)
    assert done.items == 300
    assert sorted(ids_of(tmp_path / "store")) == sorted(ids)
    with Store.open(tmp_path / "store") as store:
        code = store.get([ids[7]]).codes
        np.testing.assert_array_equal(code, store.encoder.transform(X[7:8]))
    again = add(tmp_path / "store", path, id_column=name, upsert=True)
    assert (again.added, again.written) == (0, 300)


@pytest.mark.parametrize("kind", ["integers", "names"])
def test_a_run_with_own_ids_goes_on(tmp_path, X, kind):
    ids = np.random.default_rng(1).permutation(10_000)[:300]
    lines = [str(i) if kind == "integers" else f"n{i}" for i in ids]
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "ids.txt").write_text("\n".join(lines) + "\n")
    arguments = (tmp_path / "x.npy", tmp_path / "store", SETTINGS)

    class StopError(Exception):
        pass

    for limit in (20, 60, 260):

        def stop(what, done, total, limit=limit):
            if what == "encoding" and done >= limit:
                raise StopError

        with pytest.raises(StopError):
            encode(*arguments, ids=tmp_path / "ids.txt", progress=stop)
        assert len(ids_of(tmp_path / "store")) == limit
    with pytest.raises(InvalidInputError, match=r"is not what .* was begun with"):
        encode(*arguments)
    done = encode(*arguments, ids=tmp_path / "ids.txt")
    assert (done.resumed_at, done.items) == (260, 300)
    wanted = ids.tolist() if kind == "integers" else lines
    assert sorted(ids_of(tmp_path / "store")) == sorted(wanted)


def test_upsert_replaces(named, tmp_path, X):
    np.save(tmp_path / "new.npy", X[::-1][:3])
    (tmp_path / "ids.txt").write_text("item 4\nitem 5\nnew\n")
    with pytest.raises(InvalidInputError, match="item 4"):
        add(named, tmp_path / "new.npy", ids=tmp_path / "ids.txt")
    done = add(named, tmp_path / "new.npy", ids=tmp_path / "ids.txt", upsert=True)
    assert (done.added, done.written, done.items) == (1, 3, 301)
    with Store.open(named) as store:
        np.testing.assert_array_equal(
            store.get(["item 4", "item 5", "new"]).codes, store.encoder.transform(X[::-1][:3])
        )
    with pytest.raises(InvalidInputError, match="give --ids FILE"):
        add(named, tmp_path / "new.npy", upsert=True)


def test_add_turns_text_into_the_kind_of_the_store(store, named, tmp_path, X):
    np.save(tmp_path / "new.npy", X[:2])
    (tmp_path / "ids.txt").write_text("1001\n1002\n")
    assert add(store, tmp_path / "new.npy", ids=tmp_path / "ids.txt").items == 302
    assert add(named, tmp_path / "new.npy", ids=tmp_path / "ids.txt").items == 302
    assert {1001, 1002} <= set(ids_of(store))
    assert {"1001", "1002"} <= set(ids_of(named))
    (tmp_path / "ids.txt").write_text("1003\nx\n")
    with pytest.raises(InvalidInputError, match="are integers; got 'x'"):
        add(store, tmp_path / "new.npy", ids=tmp_path / "ids.txt")
    with pytest.raises(InvalidInputError, match="have names; give one name per row"):
        add(named, tmp_path / "new.npy")


def test_wrong_ids_are_refused(tmp_path, X):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "ids.txt").write_text("1\n2\n")
    where = (tmp_path / "x.npy", tmp_path / "store", SETTINGS)
    with pytest.raises(InvalidInputError, match="has 300 rows; 2 ids were given"):
        encode(*where, ids=tmp_path / "ids.txt")
    with pytest.raises(InvalidInputError, match="not both"):
        encode(*where, ids=tmp_path / "ids.txt", id_column="a")
    with pytest.raises(InvalidInputError, match="holds a single array"):
        encode(*where, id_column="a")
    with pytest.raises(DataNotFoundError, match=r"nowhere\.txt"):
        encode(*where, ids=tmp_path / "nowhere.txt")
    with pytest.raises(InvalidInputError, match="images go by their path"):
        encode(tmp_path, tmp_path / "store", SETTINGS, id_column="a")
    assert not (tmp_path / "store").exists()


def test_integers_and_names_in_text(tmp_path, store):
    path = tmp_path / "ids.txt"
    for text, ids in (("3\n-4\n0\n", [3, -4, 0]), ("3\n04\n", ["3", "04"]), ("a\n\nb\n", ["a", "b"])):
        path.write_text(text)
        assert as_new_ids(read_ids(path)) == ids
    np.save(tmp_path / "ids.npy", np.arange(3))
    assert read_ids(tmp_path / "ids.npy") == [0, 1, 2]
    np.save(tmp_path / "ids.npy", np.arange(3.0))
    with pytest.raises(InvalidInputError, match="expected integers"):
        read_ids(tmp_path / "ids.npy")
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInputError, match="is not a text of ids"):
        read_ids(path)
    with pytest.raises(InvalidInputError, match="64 bits"):
        as_new_ids(["9" * 30])
    with Store.open(store) as opened, pytest.raises(InvalidInputError, match=r"got '1\.5'"):
        parse_ids(opened, ["1.5"])


def test_a_place_that_is_taken_is_refused(tmp_path, X):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "note").write_text("mine")
    for place in ("taken", "x.npy"):
        with pytest.raises(InvalidInputError, match="exists and is no store"):
            ingest.encode(tmp_path / "x.npy", tmp_path / place, SETTINGS)
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["note"]
