"""Files appear whole, durably and with the user's permissions, or not at all."""

import os

import pytest

import bilsh
from bilsh.datasets.files import write_vecs
from bilsh.files import replace_file


@pytest.fixture(params=[0o022, 0o077, 0o002])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_permissions_are_the_users(tmp_path, umask):
    with replace_file(tmp_path / "file") as file:
        file.write(b"x")
    write_vecs(tmp_path / "x.fvecs", [[1.0, 2.0]])
    encoder = bilsh.AngleEncoder(n_bits=8, random_state=0).fit([[1.0, 2.0], [0.5, 3.0]])
    encoder.save(tmp_path / "encoder")
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o666 & ~umask}


def test_an_error_leaves_what_was_there(tmp_path):
    (tmp_path / "file").write_bytes(b"old")

    def interrupted():
        with replace_file(tmp_path / "file") as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (tmp_path / "file").read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def test_file_and_name_are_synced(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_ino))
    with replace_file(tmp_path / "file") as file:
        file.write(b"x")
    assert synced == [(tmp_path / "file").stat().st_ino, tmp_path.stat().st_ino]
