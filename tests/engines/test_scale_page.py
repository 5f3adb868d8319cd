"""docs/scale.md with real servers."""

import numpy as np
from scale_page import block, commands

import bilsh
from cli.program import bilsh as run

POSTGRES, MILVUS = "postgresql://me@db.example/photos?table=codes", "milvus://localhost:19530/photos"


def test_engines_are_used_as_the_page_says(tmp_path, monkeypatch, postgres, milvus):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(500, 16)).astype(np.float32)
    np.save("x.npy", X)
    np.save("q.npy", X[:2])
    places = {POSTGRES: f"{postgres}&table=scale_page", MILVUS: f"{milvus}/scale_page"}
    run("encode", "x.npy", "-o", "store/", "--bits", 128, "--method", "angle")
    run("copy", "store/", places[MILVUS])
    for arguments in commands("bilsh copy"):
        run(*(places.get(argument, argument) for argument in arguments))
    names = {"bilsh": bilsh, "X": X}
    exec(block("bilsh.open").replace(POSTGRES, places[POSTGRES]), names)  # noqa: S102  the page's own code
    np.testing.assert_array_equal(names["hits"].ids[:, 0], np.arange(5))
    assert names["hits"].interval.shape == (5, 10, 2)
    names["there"].close()
