"""Bad input: one sentence, the right exit code, no traceback, no harm."""

import os
import resource
import shutil
import subprocess
import sys

import numpy as np
import pytest

from bilsh import Store
from cli.program import COMMAND, answer, bilsh, complaint, plain


def test_wrong_usage_is_2(place):
    bilsh("search", "store", cwd=place, code=2)
    bilsh("encode", "x.npy", cwd=place, code=2)
    bilsh("encode", "x.npy", "-o", "s", "--method", "magic", cwd=place, code=2)
    bilsh("nonsense", code=2)


def test_missing_files(place):
    assert "nowhere.npy does not exist" in complaint("encode", "nowhere.npy", "-o", "s", cwd=place)
    assert "nowhere" in complaint("info", "nowhere", cwd=place)
    assert "nowhere" in complaint("search", "nowhere", "--id", 1, cwd=place)
    assert "q.jpg" in complaint("search", "store", "--query", "q.jpg", cwd=place)
    assert "id 5000 is not in the store" in complaint("search", "store", "--id", 5000, cwd=place)
    assert "integers" in complaint("search", "store", "--id", "seven", cwd=place)


def test_wrong_dimension_names_both(place):
    np.save(place / "wide.npy", np.zeros((2, 25), np.float32))
    for sentence in (
        complaint("add", "store", "wide.npy", cwd=place),
        complaint("search", "store", "--query", "wide.npy", cwd=place),
    ):
        assert "(25,)" in sentence
        assert "(24,)" in sentence
    assert answer("info", "store", cwd=place)["items"] == 300


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinite")])
def test_nan_is_named_by_file_row_and_column(place, vectors, value, word):
    bad = vectors.copy()
    bad[217, 5] = value
    np.save(place / "bad.npy", bad)
    for arguments in (("encode", "bad.npy", "-o", "s"), ("add", "store", "bad.npy")):
        sentence = complaint(*arguments, cwd=place)
        assert "bad.npy: row 217, column 5" in sentence
        assert word in sentence


def test_damage_is_3(place):
    with Store.open(place / "store") as store:
        segment = store.path / store.segments[0].ref.file
    whole = segment.read_bytes()
    data = bytearray(whole)
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    assert segment.name in complaint("verify", "store", cwd=place, code=3)
    segment.write_bytes(data[:100])
    assert segment.name in complaint("search", "store", "--id", 1, cwd=place, code=3)
    segment.write_bytes(whole)
    recipe = place / "store" / "recipe.json"
    recipe.write_text(recipe.read_text().replace('"bits": 200', '"bits": 201'))
    assert "recipe.json is damaged" in complaint("info", "store", cwd=place, code=3)


def test_other_settings_or_a_changed_source_do_not_mix(place):
    assert "--bits 200" in complaint("encode", "x.npy", "-o", "store", "--bits", 64, cwd=place)
    same = ("encode", "x.npy", "-o", "store", "--bits", 200, "--batch", 64, "--keep-vectors")
    assert answer(*same, cwd=place)["added"] == 0
    os.utime(place / "x.npy", (1, 1))
    assert "has changed" in complaint(*same, cwd=place)


def test_codes_of_unknown_origin_are_refused(place):
    bilsh("encode", "x.npy", "-o", "bare", "--bits", 200, cwd=place)
    np.save(place / "codes.npy", np.zeros((3, 25), np.uint8))
    assert "nothing says which encoder made" in complaint("import", "codes.npy", "-o", "bare", cwd=place)
    np.save(place / "floats.npy", np.zeros((3, 25)))
    assert "uint8" in complaint("import", "floats.npy", "-o", "store", cwd=place)


def test_a_full_disk_is_told_and_harmless(place):
    """A tmpfs in a mount namespace of its own where that is allowed, else a limit on the size of files."""
    disk = place / "disk"
    disk.mkdir()
    encode = [*COMMAND, "encode", "x.npy", "-o", "disk/s", "--bits", "4096", "--batch", "50"]
    script = f'mount -t tmpfs -o size=256k none "{disk}" && cd "{place}" && exec "$@"'
    namespace = ["unshare", "--mount", "sh", "-c", script, "sh"]
    allowed = (
        shutil.which("unshare") and not subprocess.run([*namespace, "true"], capture_output=True).returncode
    )
    done = subprocess.run(
        [*(namespace if allowed else []), *encode],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        env=plain(),
        preexec_fn=None if allowed else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
    )
    assert done.returncode == 1
    assert ("No space left" if allowed else "too large") in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    assert answer("encode", "x.npy", "-o", "disk/s", "--bits", 4096, "--batch", 50, cwd=place)["items"] == 300


def test_a_store_that_could_not_be_begun_is_begun_again(place):
    """Of a first version that did not fit on the disk its lock is left, which is not in the way."""
    encode = [*COMMAND, "encode", "x.npy", "-o", "s", "--bits", "4096"]
    done = subprocess.run(
        encode, cwd=place, capture_output=True, text=True, check=False, env=plain(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
    )  # fmt: skip
    assert (done.returncode, [path.name for path in (place / "s").iterdir()]) == (1, ["lock"])
    assert answer("encode", "x.npy", "-o", "s", "--bits", 4096, cwd=place)["items"] == 300
    (place / "other").mkdir()
    (place / "other" / "letter.txt").touch()
    assert "is no store" in complaint("encode", "x.npy", "-o", "other", cwd=place)
    assert [path.name for path in (place / "other").iterdir()] == ["letter.txt"]


def test_debug_shows_the_traceback(place):
    done = subprocess.run(
        [sys.executable, "-m", "bilsh.cli", "info", "nowhere", "--debug"],
        cwd=place, capture_output=True, text=True, check=False, env=plain(),
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" in done.stderr
