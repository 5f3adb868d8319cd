"""Readers and writers: round trips, memory maps, and headers that lie."""

import gzip
import struct
import sys
import zipfile

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bilsh import datasets
from bilsh.errors import DataNotFoundError, InvalidInputError, MissingPackageError


def is_mapped(array):
    while array is not None and not isinstance(array, np.memmap):
        array = array.base
    return array is not None


VECS = {"fvecs": np.float32, "bvecs": np.uint8, "ivecs": np.int32}


@pytest.mark.parametrize(("suffix", "dtype"), VECS.items())
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_vecs_round_trip(suffix, dtype, data, tmp_path_factory):
    X = data.draw(hnp.arrays(dtype, st.tuples(st.integers(1, 20), st.integers(1, 9))))
    path = tmp_path_factory.mktemp("vecs") / f"x.{suffix}"
    datasets.write_vecs(path, X)
    assert path.stat().st_size == len(X) * (4 + X.shape[1] * X.itemsize)
    again = datasets.load(path)
    assert again.dtype == dtype
    assert is_mapped(again)
    np.testing.assert_array_equal(again, X)


def test_fvecs_is_the_documented_layout(tmp_path):
    path = tmp_path / "x.fvecs"
    path.write_bytes(struct.pack("<i2f", 2, 1.5, -2.0) + struct.pack("<i2f", 2, 3.0, 4.0))
    np.testing.assert_array_equal(datasets.read_fvecs(path), [[1.5, -2.0], [3.0, 4.0]])


def test_fvecs_holds_what_float32_holds(tmp_path):
    path = tmp_path / "x.fvecs"
    for X in (
        [[2**24, -(2**62)]],
        [[np.inf, np.nan]],
        [[0.1, 3e38]],
        np.array([[2**63]], np.uint64),
        [[True]],
    ):
        datasets.write_vecs(path, X)
        np.testing.assert_array_equal(datasets.read_fvecs(path), np.asarray(X).astype(np.float32))


def test_empty_vecs_file_has_no_rows(tmp_path):
    datasets.write_vecs(tmp_path / "x.ivecs", np.empty((0, 3), np.int32))
    assert datasets.read_ivecs(tmp_path / "x.ivecs").shape == (0, 0)


@pytest.mark.parametrize(
    "content",
    [
        struct.pack("<i", 2**31 - 1) + b"x" * 8,
        struct.pack("<i", -4) + b"x" * 8,
        struct.pack("<i", 0) + b"x" * 8,
        struct.pack("<i", 2) + b"x" * 9,
        b"ab",
        struct.pack("<i2f", 2, 1, 2) + struct.pack("<i2f", 7, 1, 2),
    ],
)
def test_false_vecs_headers_are_refused(content, tmp_path):
    path = tmp_path / "x.fvecs"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"declares|has dimension"):
        datasets.read_fvecs(path)


@pytest.mark.parametrize(
    ("name", "X", "message"),
    [
        ("x.bvecs", [[256]], "whole numbers from 0 to 255"),
        ("x.bvecs", [[-1]], "whole numbers"),
        ("x.ivecs", [[0.5]], "whole numbers"),
        ("x.ivecs", [[np.nan]], "whole numbers"),
        ("x.fvecs", [1.0], "shape"),
        ("x.fvecs", [[0.0, 1e300]], "beyond float32"),
        ("x.fvecs", [[0, 2**24 + 1]], "integers that float32 cannot hold"),
        ("x.fvecs", [[2**63 - 1]], "integers that float32 cannot hold"),
        ("x.fvecs", np.array([[2**64 - 1]], np.uint64), "integers that float32 cannot hold"),
        ("x.fvecs", np.array([[2**31 - 1]], np.int32), "integers that float32 cannot hold"),
        ("x.txt", [[1.0]], "must end in"),
    ],
)
def test_write_vecs_refuses_what_the_format_cannot_hold(name, X, message, tmp_path):
    with pytest.raises(InvalidInputError, match=message):
        datasets.write_vecs(tmp_path / name, X)
    assert list(tmp_path.iterdir()) == []


def test_npy_is_mapped_and_objects_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(4, dtype=np.float16))
    X = datasets.load(tmp_path / "x.npy")
    assert is_mapped(X)
    np.testing.assert_array_equal(X, np.eye(4))
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidInputError, match=r"not a readable \.npy"):
        datasets.load(tmp_path / "o.npy")
    np.save(tmp_path / "s.npy", np.array(["a"]))
    with pytest.raises(InvalidInputError, match="real numbers"):
        datasets.load(tmp_path / "s.npy")


def lying_npy(shape):
    """Return the bytes of an .npy that declares far more than it holds."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + b"\0" * 16


def test_false_npy_sizes_are_refused(tmp_path):
    (tmp_path / "x.npy").write_bytes(lying_npy((2**40, 3)))
    with pytest.raises(InvalidInputError, match=r"not a readable \.npy"):
        datasets.load(tmp_path / "x.npy")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("a.npy", lying_npy((2**40, 3)))
    with pytest.raises(InvalidInputError, match="too short for shape"):
        datasets.load(tmp_path / "x.npz")
    (tmp_path / "y.npz").write_bytes(b"no zip")
    with pytest.raises(InvalidInputError, match=r"not a readable \.npz"):
        datasets.load(tmp_path / "y.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_members_by_name(save, tmp_path):
    save(tmp_path / "x.npz", a=np.arange(6).reshape(2, 3), b=np.ones(2), o=np.array(["text"]))
    np.testing.assert_array_equal(datasets.load(tmp_path / "x.npz", key="a"), [[0, 1, 2], [3, 4, 5]])
    with pytest.raises(InvalidInputError, match="several arrays; choose by key among a, b, o"):
        datasets.load(tmp_path / "x.npz")
    with pytest.raises(InvalidInputError, match="no array 'c'"):
        datasets.load(tmp_path / "x.npz", key="c")
    with pytest.raises(InvalidInputError, match="real numbers"):
        datasets.load(tmp_path / "x.npz", key="o")
    save(tmp_path / "one.npz", only=np.zeros((2, 2)))
    assert datasets.load(tmp_path / "one.npz").shape == (2, 2)


def idx(array, code=8):
    return struct.pack(f">4B{array.ndim}I", 0, 0, code, array.ndim, *array.shape) + array.tobytes()


@pytest.mark.parametrize(
    ("code", "dtype"), [(8, "u1"), (9, "i1"), (11, ">i2"), (12, ">i4"), (13, ">f4"), (14, ">f8")]
)
def test_idx_plain_is_mapped_and_packed_is_equal(code, dtype, tmp_path):
    X = np.arange(24).reshape(2, 3, 4).astype(dtype)
    (tmp_path / "x-idx3-ubyte").write_bytes(idx(X, code))
    (tmp_path / "x-idx3-ubyte.gz").write_bytes(gzip.compress(idx(X, code)))
    for name in ("x-idx3-ubyte", "x-idx3-ubyte.gz"):
        np.testing.assert_array_equal(datasets.load(tmp_path / name), X)
    assert is_mapped(datasets.load(tmp_path / "x-idx3-ubyte"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\0\x07\x01\0\0\0\1x",
        b"\1\0\x08\x01\0\0\0\1x",
        b"\0\0\x08\x03" + b"\xff" * 12,
        b"\0\0\x08\x02\0\0\0",
        b"\0\0\x08\x01\0\0\0\5abc",
        b"\0\0\x08\x01\0\0\0\2abc",
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_false_idx_headers_are_refused(content, packed, tmp_path):
    path = tmp_path / ("x-idx.gz" if packed else "x-idx")
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(InvalidInputError, match="not a readable idx file"):
        datasets.load(path)


def test_broken_gzip_is_refused(tmp_path):
    whole = gzip.compress(idx(np.arange(200, dtype=np.uint8)))
    for content in (b"no gzip", whole[:-30]):
        (tmp_path / "x-idx.gz").write_bytes(content)
        with pytest.raises(InvalidInputError, match="not a readable idx file"):
            datasets.load(tmp_path / "x-idx.gz")


def test_parquet_lists_and_plain_columns(tmp_path):
    X = np.arange(12, dtype=np.float32).reshape(4, 3)
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 3)
    pq.write_table(pa.table({"id": [1, 2, 3, 4], "v": fixed}), tmp_path / "fixed.parquet")
    pq.write_table(pa.table({"v": X.tolist(), "w": (X + 1).tolist()}), tmp_path / "lists.parquet")
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1]}), tmp_path / "wide.parquet")
    np.testing.assert_array_equal(datasets.load(tmp_path / "fixed.parquet"), X)
    assert datasets.load(tmp_path / "fixed.parquet").dtype == np.float32
    np.testing.assert_array_equal(datasets.load(tmp_path / "lists.parquet", key="w"), X + 1)
    np.testing.assert_array_equal(datasets.load(tmp_path / "wide.parquet"), X[:, :2])
    with pytest.raises(InvalidInputError, match="among v, w"):
        datasets.load(tmp_path / "lists.parquet")


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([[1.0, 2.0], [3.0]], "different lengths"),
        ([[1.0], None], "missing lists"),
        ([["a"], ["b"]], "real numbers"),
        (["a", "b"], "real numbers"),
    ],
)
def test_parquet_without_equal_number_lists_is_refused(column, message, tmp_path):
    pq.write_table(pa.table({"v": column}), tmp_path / "x.parquet")
    with pytest.raises(InvalidInputError, match=message):
        datasets.load(tmp_path / "x.parquet")


def test_broken_parquet_and_hdf5_are_refused(tmp_path):
    for name in ("x.parquet", "x.h5"):
        (tmp_path / name).write_bytes(b"neither this nor that")
        with pytest.raises(InvalidInputError, match="not a readable"):
            datasets.load(tmp_path / name)


def test_ann_benchmarks_layout(tmp_path):
    rng = np.random.default_rng(0)
    train, test = rng.normal(size=(20, 3)).astype(np.float32), rng.normal(size=(2, 3)).astype(np.float32)
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file["train"], file["neighbors"] = train, np.zeros((2, 5), np.int32)
        file.create_dataset("test", data=test, chunks=(1, 3), compression="gzip")
        file["distances"] = np.zeros((2, 5))
        file.attrs["distance"] = "angular"
    problem = datasets.ann_benchmarks(tmp_path / "x.hdf5")
    np.testing.assert_array_equal(problem.database, train)
    np.testing.assert_array_equal(problem.queries, test)
    assert problem.neighbors.shape == (2, 5)
    assert problem.metric == "angular"
    assert is_mapped(problem.database)
    np.testing.assert_array_equal(datasets.load(tmp_path / "x.hdf5"), train)
    np.testing.assert_array_equal(datasets.load(tmp_path / "x.hdf5", key="test"), test)


def test_hdf5_that_lies_or_points_elsewhere_is_refused(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.ones(3)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("huge", shape=(2**40,), dtype="f8", chunks=(1024,))
        file.create_dataset("text", data="text")
        file["link"] = h5py.ExternalLink("other.h5", "x")
        file.create_dataset("outside", (4,), "u1", external=[("other.h5", 0, 4)])
    for key, message in {
        "huge": "not fully written",
        "text": "real numbers",
        "link": "no array 'link'",
        "outside": "points to other files",
    }.items():
        with pytest.raises(InvalidInputError, match=message):
            datasets.load(tmp_path / "x.h5", key=key)


def test_ann_benchmarks_file_must_fit_together(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["train"], file["test"], file["neighbors"] = np.ones((4, 3)), np.ones((2, 2)), np.ones((2, 1))
    with pytest.raises(InvalidInputError, match="does not fit together"):
        datasets.ann_benchmarks(tmp_path / "x.h5")


@pytest.fixture(scope="module")
def valid_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("valid")
    X = np.random.default_rng(0).integers(0, 4, (20, 6)).astype(np.float32)
    np.save(folder / "x.npy", X)
    np.savez(folder / "x.npz", x=X)
    np.savez_compressed(folder / "packed.npz", x=X)
    datasets.write_vecs(folder / "x.fvecs", X)
    datasets.write_vecs(folder / "x.bvecs", X)
    (folder / "x-idx").write_bytes(idx(X.astype(np.uint8)))
    (folder / "x-idx.gz").write_bytes(gzip.compress(idx(X.astype(np.uint8))))
    pq.write_table(pa.table({"v": X.tolist()}), folder / "x.parquet")
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("train", data=X, chunks=(5, 6), compression="gzip")
    return sorted(folder.iterdir())


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_a_damaged_file_gives_numbers_or_our_error_never_another(data, valid_files, tmp_path_factory):
    source = data.draw(st.sampled_from(valid_files))
    content = bytearray(source.read_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(len(content) // 2, len(content))) :]
    damaged = tmp_path_factory.getbasetemp() / source.name
    damaged.write_bytes(content)
    try:
        array = datasets.load(damaged)
    except InvalidInputError as error:
        assert str(damaged) in str(error)  # noqa: PT017
    else:
        assert array.dtype.kind in "fiub"


def test_load_explains_unknown_names(tmp_path):
    with pytest.raises(DataNotFoundError, match="does not exist"):
        datasets.load(tmp_path / "x.npy")
    (tmp_path / "x.mat").write_bytes(b"")
    with pytest.raises(InvalidInputError, match=r"known suffixes \.npy, \.fvecs"):
        datasets.load(tmp_path / "x.mat")
    np.save(tmp_path / "x.npy", np.eye(2))
    with pytest.raises(InvalidInputError, match="single array"):
        datasets.load(tmp_path / "x.npy", key="a")


@pytest.mark.parametrize(("module", "name"), [("h5py", "x.h5"), ("pyarrow.parquet", "x.parquet")])
def test_a_missing_package_is_named_with_its_extra(module, name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(MissingPackageError, match=r"pip install 'bilsh\[data\]'"):
        datasets.load(tmp_path / name)
