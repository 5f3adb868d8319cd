"""Sources that are read piece by piece give the same rows as the whole."""

import re

import numpy as np
import pytest

from bilsh.datasets import open_rows
from bilsh.errors import InvalidInputError
from bilsh.workflows.ingest import Settings, encode
from bilsh.workflows.sources import ArraySource

X = np.random.default_rng(0).normal(size=(103, 6)).astype(np.float32)


def parquet(path, columns, **options):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as files

    files.write_table(pyarrow.table(columns), path, **options)
    return path


def rows_of(source):
    step = 17
    return np.concatenate(
        [source.read(at, min(at + step, source.rows)).X for at in range(0, source.rows, step)]
    )


def check(source):
    assert (source.rows, source.item_shape) == (103, (6,))
    np.testing.assert_array_equal(rows_of(source), X)
    np.testing.assert_array_equal(source.sample(1000), X)
    assert len(source.sample(10)) <= 10


def test_parquet_row_groups(tmp_path):
    path = parquet(tmp_path / "x.parquet", {"id": np.arange(103), "v": list(X)}, row_group_size=20)
    check(ArraySource(path))
    check(ArraySource(path, "v"))
    assert open_rows(path)[18:43].shape == (25, 6)
    flat = parquet(tmp_path / "flat.parquet", {f"c{i}": X[:, i] for i in range(6)}, row_group_size=50)
    check(ArraySource(flat))


def test_parquet_with_uneven_lists(tmp_path):
    lists = [[1.0, 2.0], [1.0, 2.0, 3.0], [1.0]]
    path = parquet(tmp_path / "x.parquet", {"v": lists})
    with pytest.raises(InvalidInputError, match="different lengths"):
        ArraySource(path)


@pytest.mark.parametrize("chunks", [None, (10, 6)])
def test_hdf5_chunks(tmp_path, chunks):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file.create_dataset("train", data=X, chunks=chunks)
        file.create_dataset("test", data=X[:3])
    check(ArraySource(tmp_path / "x.hdf5"))
    assert ArraySource(tmp_path / "x.hdf5", "test").rows == 3


def test_shapes_that_hold_no_items(tmp_path):
    for array in (np.zeros(3), np.zeros((0, 3)), np.zeros((3, 0)), np.zeros((2, 2, 2, 2))):
        np.save(tmp_path / "x.npy", array)
        with pytest.raises(InvalidInputError, match="shape"):
            ArraySource(tmp_path / "x.npy")


def test_settings_that_do_not_belong_to_the_method(tmp_path):
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(InvalidInputError, match="oversampling"):
        encode(tmp_path / "x.npy", tmp_path / "s", Settings(method="lsh-sik", oversampling=5))


@pytest.mark.parametrize("method", ["blsh-sik", "lsh-sik", "lsh-angle", "circulant-sik", "hadamard-kernel"])
def test_methods_by_name(tmp_path, method):
    np.save(tmp_path / "x.npy", X)
    m = 2 if method == "blsh-sik" else None
    done = encode(tmp_path / "x.npy", tmp_path / "s", Settings(bits=20, method=method, oversampling=m))
    assert done.encoder == ("angle" if "angle" in method else "kernel")
    assert done.items == 103


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"describe": "hog"}, "x.npy is an array file; --describe, --codebook"),
        ({"max_side": 100}, "x.npy is an array file; --describe, --codebook"),
        ({"key": "v", "folder": True}, "is a folder of images; --key is for array files"),
        (
            {"describe": "hog", "centers": 8, "folder": True},
            "--centers belongs to --describe vlad; got 'hog'",
        ),
        ({"describe": "vlad", "side": 8, "folder": True}, "--side belongs to hog-color, hog and pixels"),
    ],
)
def test_settings_that_would_be_ignored_are_refused(tmp_path, settings, message):
    np.save(tmp_path / "x.npy", X)
    source = tmp_path if settings.pop("folder", False) else tmp_path / "x.npy"
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        encode(source, tmp_path / "s", Settings(bits=32, **settings))
    assert not (tmp_path / "s").exists()
