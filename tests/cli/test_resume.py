"""A run that was interrupted or killed goes on and ends with the same store, bit for bit."""

import hashlib
import signal
import subprocess
import time

import numpy as np
import pytest

from bilsh import Store
from bilsh.workflows import ingest
from cli.program import COMMAND, answer, plain


def contents(path):
    """All that a store is made of: encoder, segments in order, recipe.

    The first 4,096 bytes of a file are left out: they repeat its random name.
    """
    with Store.open(path) as store:
        store.verify(deep=True)
        files = [store._now.manifest.encoder.file, *(segment.ref.file for segment in store.segments)]
        counts = [segment.ref.rows for segment in store.segments]
    data = [(path / name).read_bytes()[4096:] for name in files] + [(path / "recipe.json").read_bytes()]
    assert all(data)
    return counts, [hashlib.sha256(piece).hexdigest() for piece in data]


def test_interrupted_and_killed_runs_go_on(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(12_800, 16)).astype(np.float32))
    options = ["encode", "x.npy", "--bits", "96", "--batch", "40", "--seed", "3"]
    answer(*options, "-o", "whole", cwd=tmp_path)

    sizes = []
    for number, ending in enumerate((signal.SIGINT, signal.SIGKILL), 1):
        process = subprocess.Popen(
            [*COMMAND, *options, "-o", "parts"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=plain(), preexec_fn=attentive,
        )  # fmt: skip
        # A batch is one version; the run has 320 of them, so it is caught early even on a busy machine.
        while process.poll() is None and newest(tmp_path / "parts") < 20 * number:
            time.sleep(0.002)
        process.send_signal(ending)
        _, said = process.communicate()
        if ending == signal.SIGINT:
            assert process.returncode == 130
            assert b"run the same command again to go on" in said
            assert b"Traceback" not in said
        else:
            assert process.returncode == -signal.SIGKILL
        with Store.open(tmp_path / "parts") as store:
            store.verify(deep=True)
            sizes.append(len(store))
    assert 0 < sizes[0] < sizes[1] < 12_800
    told = answer(*options, "-o", "parts", cwd=tmp_path)
    assert told["resumed_at"] == sizes[1]
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def attentive():
    """Let the program hear SIGINT even where the tests themselves were started in the background, without it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def newest(store):
    return max((int(path.stem[2:]) for path in store.glob("m-*.json")), default=0)


class StopNow(BaseException):
    pass


@pytest.mark.parametrize("after", [1, 2, 5, 7])
def test_images_go_on_behind_unreadable_ones(tmp_path, after):
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(1)
    (tmp_path / "photos").mkdir()
    for number in range(14):
        cv2.imwrite(str(tmp_path / "photos" / f"{number:02}.png"), rng.integers(0, 255, (12, 12), np.uint8))
    for number in (3, 4, 5, 11):
        (tmp_path / "photos" / f"{number:02}.png").write_bytes(b"no image")
    settings = ingest.Settings(bits=32, batch=2, describe="pixels", side=8)
    whole = ingest.encode(tmp_path / "photos", tmp_path / "whole", settings)
    assert [path[-6:] for path, _ in whole.skipped] == ["03.png", "04.png", "05.png", "11.png"]

    calls = 0

    def stop(what, done, total):
        nonlocal calls
        calls += what == "encoding"
        if calls > after:
            raise StopNow

    with pytest.raises(StopNow):
        ingest.encode(tmp_path / "photos", tmp_path / "parts", settings, progress=stop)
    ingest.encode(tmp_path / "photos", tmp_path / "parts", settings)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def test_a_run_cut_off_before_its_recipe(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(50, 8)))
    settings = ingest.Settings(bits=64)

    def stop(*arguments):
        raise StopNow

    with monkeypatch.context() as patch:
        patch.setattr(ingest, "write_recipe", stop)
        with pytest.raises(StopNow):
            ingest.encode(tmp_path / "x.npy", tmp_path / "store", settings)
    assert ingest.encode(tmp_path / "x.npy", tmp_path / "store", settings).items == 50
