"""Codes that somebody else made: a model's bits, with names, asked by bits and by values, and given back.

Models for text ship their embeddings as packed bits (`ubinary`): bit r is [value r > 0], eight to a byte, the first of
them highest, as numpy.packbits has it. Here a random rotation of clustered vectors stands in for the model.
"""

import json

import numpy as np
import pytest

import bilsh
from bilsh.datasets import clustered
from cli.program import answer, complaint
from cli.program import bilsh as run

N, D = 2000, 256


@pytest.fixture(scope="module")
def values():
    """Embeddings of 2,000 texts, and of 20 questions that are near the first 20 of them."""
    X, _ = clustered(N, D, n_clusters=40, spread=0.6, rng=1)
    rotation = np.linalg.qr(np.random.default_rng(2).normal(size=(D, D)))[0]
    texts = (X @ rotation).astype(np.float32)
    noise = 0.1 * np.random.default_rng(3).normal(size=(20, D)).astype(np.float32)
    return texts, texts[:20] + noise


@pytest.fixture
def place(tmp_path, values):
    texts, questions = values
    np.save(tmp_path / "bits.npy", np.packbits(texts > 0, axis=1))
    np.save(tmp_path / "questions.npy", questions)
    np.save(tmp_path / "question_bits.npy", np.packbits(questions > 0, axis=1))
    (tmp_path / "ids.txt").write_text("".join(f"text {i}\n" for i in range(N)))
    return tmp_path


def found(told):
    return [[hit["id"] for hit in result["neighbors"]] for result in told["results"]]


def test_bits_of_unknown_meaning(place, values):
    done = run("import", "bits.npy", "-o", "store", "--ids", "ids.txt", cwd=place)
    assert "2,000 codes of 256 bits added to store" in done.stdout
    assert "not checked" in done.stderr
    about = answer("info", "store", cwd=place)
    assert (about["encoder"], about["bits"], about["ids"]) == ("foreign", 256, "str")
    assert "none: codes made elsewhere" in run("info", "store", cwd=place).stdout
    told = answer("search", "store", "--query", "question_bits.npy", "-k", 3, cwd=place)
    texts, questions = values
    codes, asked = np.packbits(texts > 0, axis=1), np.packbits(questions > 0, axis=1)
    true = bilsh.top_k(asked, codes, 3)
    assert found(told) == [[f"text {i}" for i in row] for row in true.ids.tolist()]
    assert told["quantity"] is None
    assert told["results"][0]["neighbors"][0]["similarity"] is None
    assert "text 7" not in found(answer("search", "store", "--id", "text 7", cwd=place))[0]
    sentence = complaint("search", "store", "--query", "questions.npy", cwd=place)
    assert sentence.endswith("Ask with codes, or import with --meaning sign.\n")


def test_bits_that_are_signs_are_asked_by_values(place, values):
    run(
        "import", "bits.npy", "-o", "store", "--ids", "ids.txt", "--meaning", "rotation", "--highest-first",
        cwd=place,
    )  # fmt: skip
    told = answer("search", "store", "--query", "questions.npy", "-k", 1, cwd=place)
    assert told["quantity"] == "cosine"
    texts, questions = values
    for number, result in enumerate(told["results"]):
        hit = result["neighbors"][0]
        assert hit["id"] == f"text {number}"
        cosine = texts[number] @ questions[number]
        cosine /= np.linalg.norm(texts[number]) * np.linalg.norm(questions[number])
        # 256 bits tell an angle to about .1; a wrong order of bits would be off by 1.
        assert abs(hit["similarity"] - cosine) < 0.25
    by_bits = answer("search", "store", "--query", "question_bits.npy", "-k", 1, cwd=place)
    assert found(by_bits) == [[f"text {i}"] for i in range(20)]  # asked as they were imported


@pytest.mark.parametrize("packing", [[], ["--highest-first"]])
def test_they_go_out_as_they_came_in(place, packing):
    run("import", "bits.npy", "-o", "store", "--ids", "ids.txt", *packing, cwd=place)
    for form in ("npy", "parquet"):
        run("export", "store", "--to", form, "-o", f"out.{form}", cwd=place)
        told = answer("import", f"out.{form}", "-o", f"again_{form}", cwd=place)
        assert told["checked"]
        with bilsh.Store.open(place / f"again_{form}") as store:
            assert store.coder.kind == "foreign"
            np.testing.assert_array_equal(
                store.get([f"text {i}" for i in range(N)]).codes, np.load(place / "bits.npy")
            )
        for name in ("out.encoder", "out.export.json", "out.ids.txt"):
            (place / name).unlink(missing_ok=True)


def test_in_cells_they_are_found_as_promised_and_go_out_under_their_names(place, values):
    run("import", "bits.npy", "-o", "store", "--ids", "ids.txt", "--highest-first", cwd=place)
    assert "2,000 items in 40 cells" in run("index", "store", "--cells", 40, cwd=place).stdout
    told = answer("search", "store", "--query", "question_bits.npy", "-k", 5, "--recall", 0.9, cwd=place)
    assert (told["promise"]["target"], told["promise"]["source"]) == (0.9, "items")
    codes, asked = np.load(place / "bits.npy"), np.load(place / "question_bits.npy")
    true = [{f"text {i}" for i in row} for row in bilsh.top_k(asked, codes, 5).ids.tolist()]
    shares = [len(wanted & set(row)) / 5 for wanted, row in zip(true, found(told), strict=True)]
    assert np.mean(shares) > 0.75  # 100 neighbours of 20 questions: four errors below .9
    run("export", "store", "--to", "npy", "-o", "out.npy", cwd=place)
    names = [json.loads(line) for line in (place / "out.ids.txt").read_text().splitlines()]
    rows = [int(name.removeprefix("text ")) for name in names]
    np.testing.assert_array_equal(np.load(place / "out.npy"), codes[rows])
    assert sorted(rows) == list(range(N))


def test_codes_of_another_origin_do_not_mix(place, values):
    np.save(place / "x.npy", values[0])
    run("encode", "x.npy", "-o", "own", "--bits", 256, cwd=place)
    sentence = complaint("import", "bits.npy", "-o", "own", cwd=place)
    assert "nothing says which encoder made bits.npy" in sentence
    assert answer("import", "bits.npy", "-o", "own", "--trust", cwd=place)["items"] == N
    sentence = complaint("import", "bits.npy", "-o", "short", "--bits", 200, cwd=place)
    assert "codes of 200 bits have 25 bytes; those of bits.npy have 32" in sentence
    assert not (place / "short").exists()
