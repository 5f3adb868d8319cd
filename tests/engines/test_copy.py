"""Copies between engines: complete, resumable, compared at the end; and the commands on any address."""

import json

import numpy as np
import pytest
from test_conformance import fitted, near
from typer.testing import CliRunner

import bilsh
from bilsh import engines
from bilsh.cli.commands import app
from bilsh.workflows.copying import copy


def run(*arguments):
    done = CliRunner().invoke(app, [*map(str, arguments), "--json"], catch_exceptions=False)
    return done.exit_code, json.loads(done.stdout) if done.exit_code == 0 and done.stdout else done.output


@pytest.mark.parametrize("ids", ["int", "str"])
def test_there_and_back_again(place, tmp_path, ids):
    codes = near(150, 4096)
    names = np.arange(150) if ids == "int" else [f"photo {row}'s \" ☃" for row in range(150)]
    notes = [{"row": row} if row % 3 else None for row in range(150)]
    with bilsh.Store.create(tmp_path / "store", n_bits=4096) as store:
        store.add_codes(codes, ids=names, metadata=notes)
    there = copy(str(tmp_path / "store"), place(), batch=40)
    assert (there.items, there.written, there.resumed) == (150, 150, False)
    back = copy(place(), str(tmp_path / "back"), batch=64)
    assert back.sha256 == there.sha256
    again = copy(str(tmp_path / "store"), place(), batch=40)
    assert (again.written, again.resumed, again.sha256) == (0, True, there.sha256)
    with bilsh.Store.open(tmp_path / "back") as store:
        items = store.get(names)
        assert (items.codes == codes).all()
        assert items.metadata == notes


def test_the_encoder_goes_along_and_commands_take_any_address(place, tmp_path):
    X, encoder = fitted("angle")
    with bilsh.Store.create(tmp_path / "store", encoder) as store:
        store.add(X[:300])
        true = store.search(X[400:402], k=4, delta=0.0)
    np.save(tmp_path / "q.npy", X[400:402])
    code, done = run("copy", tmp_path / "store", place())
    assert code == 0
    assert done["items"] == 300
    code, told = run("info", place())
    assert (code, told["items"], told["bits"], told["fingerprint"]) == (0, 300, 1024, encoder.fingerprint)
    code, found = run("search", place(), "--query", tmp_path / "q.npy", "-k", 4)
    assert code == 0
    for answer, ids, low in zip(found["results"], true.ids, true.interval[..., 0], strict=True):
        assert [hit["id"] for hit in answer["neighbors"]] == ids.tolist()
        np.testing.assert_allclose([hit["interval"][0] for hit in answer["neighbors"]], low, rtol=1e-6)
    code, found = run("search", place(), "--id", 17, "-k", 2)
    assert code == 0
    assert len(found["results"][0]["neighbors"]) == 2
    code, told = run("verify", place())
    assert (code, told["ok"]) == (0, True)
    code, told = run("delete", place(), 3, 4, 999)
    assert (code, told["deleted"], told["items"]) == (0, 2, 298)
    code, told = run("delete", place(), 3)
    assert code == 1


def test_copies_that_cannot_be(place, tmp_path):
    codes = near(30, 400)
    with bilsh.Store.create(tmp_path / "store", n_bits=400) as store:
        store.add_codes(codes)
    with engines.create(place(), n_bits=400) as there:
        there.upsert([1], codes[:1])
    with pytest.raises(bilsh.InvalidInputError, match="not begun by a copy"):
        copy(str(tmp_path / "store"), place())
    with engines.create(place("b"), n_bits=408):
        pass
    with pytest.raises(bilsh.IncompatibleCodesError, match="Copy to another place"):
        copy(str(tmp_path / "store"), place("b"))
    with pytest.raises(bilsh.InvalidInputError, match="to itself"):
        copy(place(), place())
    with pytest.raises(FileNotFoundError, match="there is no"):
        copy(place("nothing"), str(tmp_path / "new"))


def test_a_source_that_changed_is_noticed(place, tmp_path):
    codes = near(30, 400)
    with bilsh.Store.create(tmp_path / "store", n_bits=400) as store:
        store.add_codes(codes)
        copy(str(tmp_path / "store"), place())
        store.delete([5])
    with pytest.raises(bilsh.BilshError, match="30 items instead of 29"):
        copy(str(tmp_path / "store"), place())
