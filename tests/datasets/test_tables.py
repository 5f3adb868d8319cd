"""Tables and groups: CSV, columns of Parquet files, datasets in groups of HDF5 files; nothing is guessed."""

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bilsh import datasets
from bilsh.errors import InvalidInputError

X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)


def write(path, text):
    path.write_text(text)
    return path


def test_csv_with_and_without_names(tmp_path):
    plain = write(tmp_path / "a.csv", "1,2,3\n4,5,6\n")
    np.testing.assert_array_equal(datasets.load(plain), [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(datasets.load(plain, key="2,0"), [[3, 1], [6, 4]])
    named = write(tmp_path / "b.csv", '\ufeff"name, full",a,b\n"x, y",1,2\nz,3,4e0\n\n')
    np.testing.assert_array_equal(datasets.load(named, key="a,b"), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(datasets.open_rows(named, ids="name, full"), [[1, 2], [3, 4]])
    assert datasets.read_column(named, "name, full") == ["x, y", "z"]
    np.testing.assert_array_equal(datasets.read_column(named, "a"), [1, 3])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no lines"),
        ("a,b\n1,2\n3\n", "line 3 has 1 cells, the first line has 2"),
        ("a,b\n1,two\n", "line 2, column b is 'two'; expected a number"),
        ("a,b\n1,\n", "line 2, column b is ''"),
        ("a,a\n1,2\n", "two columns of the same name"),
    ],
)
def test_csv_that_is_no_table_of_numbers(tmp_path, text, message):
    with pytest.raises(InvalidInputError, match=message):
        datasets.load(write(tmp_path / "x.csv", text))


def test_csv_columns_that_are_not_there(tmp_path):
    path = write(tmp_path / "x.csv", "a,b\n1,2\n")
    with pytest.raises(InvalidInputError, match="no array 'c'; choose by key among a, b"):
        datasets.load(path, key="a,c")
    (tmp_path / "x.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInputError, match="not a readable CSV"):
        datasets.load(path)


def test_scalar_columns_of_parquet(tmp_path):
    columns = {"sku": [f"s{i}" for i in range(20)], "a": X[:, 0], "b": X[:, 1], "v": list(X)}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet", row_group_size=7)
    np.testing.assert_array_equal(datasets.load(tmp_path / "x.parquet"), X)  # the only column of lists
    np.testing.assert_array_equal(datasets.load(tmp_path / "x.parquet", key="a,b"), X[:, :2])
    np.testing.assert_array_equal(datasets.load(tmp_path / "x.parquet", key="b"), X[:, 1:2])
    assert datasets.read_column(tmp_path / "x.parquet", "sku")[:2] == ["s0", "s1"]
    del columns["v"]
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    with pytest.raises(InvalidInputError, match=r"column sku of .* holds string values; .*by key"):
        datasets.load(tmp_path / "x.parquet")
    np.testing.assert_array_equal(datasets.open_rows(tmp_path / "x.parquet", ids="sku")[:], X[:, :2])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1, None]}, "column a of .* has 1 missing values"),
        ({"a": [[1.0, None], [1.0, 2.0]]}, "column a of .* has 1 missing values"),
        ({"a": [[1.0], None]}, "missing lists"),
        ({"a": [{"x": 1}]}, "struct"),
    ],
)
def test_missing_values_of_parquet(tmp_path, columns, message):
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    with pytest.raises(InvalidInputError, match=message):
        datasets.load(tmp_path / "x.parquet")


def test_parquet_ids_that_are_none(tmp_path):
    pq.write_table(pa.table({"a": [1.5, 2.0], "b": [1, None], "c": [1.0, 2.0]}), tmp_path / "x.parquet")
    with pytest.raises(InvalidInputError, match="holds double values; expected ids"):
        datasets.read_column(tmp_path / "x.parquet", "a")
    with pytest.raises(InvalidInputError, match="every item needs an id"):
        datasets.read_column(tmp_path / "x.parquet", "b")


def test_groups_of_hdf5_are_walked_and_nothing_is_guessed(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["train"] = X
        file["other/train"] = X + 1
    with pytest.raises(InvalidInputError, match="several arrays; choose by key among other/train, train"):
        datasets.load(path)
    for key in ("other/train", "/other/train"):
        np.testing.assert_array_equal(datasets.load(path, key=key), X + 1)
    np.testing.assert_array_equal(datasets.load(path, key="train"), X)
    with pytest.raises(InvalidInputError, match="no array 'other'"):
        datasets.load(path, key="other")
    with h5py.File(path, "w") as file:
        file["deep/er/v"] = X
    np.testing.assert_array_equal(datasets.load(path), X)  # the only one
    with h5py.File(path, "w") as file:
        file.create_group("empty")
    with pytest.raises(InvalidInputError, match="no array; choose by key among none"):
        datasets.load(path)


def test_damaged_chunks_of_hdf5_are_told(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("v", data=X, chunks=(5, 3), compression="gzip")
        place = made.id.get_chunk_info(2).byte_offset
    data = bytearray(path.read_bytes())
    data[place : place + 8] = b"\0" * 8
    path.write_bytes(data)
    rows = datasets.open_rows(path)
    np.testing.assert_array_equal(rows[:5], X[:5])
    with pytest.raises(InvalidInputError, match="not a readable HDF5 file"):
        rows[10:15]


def test_hdf5_ids(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["v"], file["names"], file["floats"] = X, [f"n{i}" for i in range(20)], X[:, 0]
    assert datasets.read_column(tmp_path / "x.h5", "names")[3] == "n3"
    with pytest.raises(InvalidInputError, match=r"not a readable HDF5|expected ids"):
        datasets.read_column(tmp_path / "x.h5", "floats")
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(InvalidInputError, match="has no columns"):
        datasets.read_column(tmp_path / "x.npy", "a")
