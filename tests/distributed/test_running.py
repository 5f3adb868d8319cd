"""`bilsh encode --workers` and `--cluster`: the same store as without."""

import cv2
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scale_page import block, commands
from typer.testing import CliRunner

import bilsh
from bilsh.cli.commands import app
from bilsh.distributed.running import executor_for
from bilsh.errors import EngineError

X = np.random.default_rng(0).standard_normal((2500, 12)).astype(np.float32)


def run(*arguments):
    done = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def content(path):
    with bilsh.Store.open(path) as store:
        assert store.verify(deep=True)
        ids = np.sort(store.ids)
        return ids.tolist(), store.get(ids).codes.tobytes(), store.fingerprint


def test_workers_make_the_same_store(tmp_path):
    np.save(tmp_path / "x.npy", X)
    options = ("--bits", 300, "--method", "angle")
    run("encode", tmp_path / "x.npy", "-o", tmp_path / "a", *options)
    run("encode", tmp_path / "x.npy", "-o", tmp_path / "b", *options, "--workers", 2)
    assert content(tmp_path / "a") == content(tmp_path / "b")
    again = run("encode", tmp_path / "x.npy", "-o", tmp_path / "b", *options, "--workers", 2)
    assert "nothing left to do" in again
    run("add", tmp_path / "b", tmp_path / "x.npy")


def test_workers_describe_images(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    for number in range(30):
        cv2.imwrite(
            str(tmp_path / "photos" / f"{number}.png"), rng.integers(0, 255, (32, 32, 3), dtype=np.uint8)
        )
    (tmp_path / "photos" / "broken.png").write_bytes(b"no image")
    options = ("--bits", 256, "--describe", "pixels", "--side", 8, "--method", "angle")
    run("encode", tmp_path / "photos", "-o", tmp_path / "a", *options)
    told = run("encode", tmp_path / "photos", "-o", tmp_path / "b", *options, "--workers", 1)
    assert "skipped" in told
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_a_dask_cluster_makes_the_same_store(tmp_path):
    dask = pytest.importorskip("dask.distributed", reason="dask is not installed (make test-engines)")
    np.save(tmp_path / "x.npy", X)
    options = ("--bits", 300, "--method", "angle")
    run("encode", tmp_path / "x.npy", "-o", tmp_path / "a", *options)
    with dask.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address.replace("tcp://", "dask://")
        run("encode", tmp_path / "x.npy", "-o", tmp_path / "b", *options, "--cluster", address)
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_a_cluster_is_used_as_the_page_says(tmp_path, monkeypatch):
    dask = pytest.importorskip("dask.distributed", reason="dask is not installed (make test-engines)")
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    parquet.write_table(pa.table({"vector": list(X)}), "x.parquet")
    with dask.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        real = {"8": "2", "dask://scheduler:8786": cluster.scheduler_address.replace("tcp://", "dask://")}
        for number, arguments in enumerate(commands("--cluster")):
            place = f"store{number}/"
            run(*(place if argument == "store/" else real.get(argument, argument) for argument in arguments))
            assert len(bilsh.Store.open(place)) == len(X)
        encoder = bilsh.AngleEncoder(n_bits=128, random_state=0).fit(X)
        body = block("Client(").replace("tcp://scheduler:8786", cluster.scheduler_address)
        exec(body, {"distributed": bilsh.distributed, "encoder": encoder})  # noqa: S102  the page's own code
        with bilsh.Store.open("store") as store:
            np.testing.assert_array_equal(store.get(range(len(X))).codes, encoder.transform(X))


def test_clusters_that_are_not_there(monkeypatch):
    pytest.importorskip("dask.distributed", reason="dask is not installed (make test-engines)")
    monkeypatch.setattr("bilsh.distributed.running.SECONDS", 0.2)
    with (
        pytest.raises(EngineError, match="no Dask scheduler answers"),
        executor_for(None, "dask://127.0.0.1:1"),
    ):
        pass
    with pytest.raises(bilsh.InvalidInputError, match="dask://host:8786"), executor_for(None, "ray"):
        pass
