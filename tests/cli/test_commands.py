"""Every command as a user runs it, on arrays."""

import re
from typing import get_args

import numpy as np
import pytest
from sklearn.datasets import load_digits
from typer.main import get_command
from typer.testing import CliRunner

from bilsh import Store, load_encoder
from bilsh.cli.commands import COMMANDS, app
from bilsh.cli.program import sentence
from bilsh.cli.store_commands import Method
from bilsh.encoders.presets import METHODS
from bilsh.experiments import demo
from bilsh.workflows.ingest import DEFAULT
from cli.program import answer, bilsh, complaint


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_every_command_has_an_example_and_the_common_options(name):
    text = CliRunner().invoke(app, [name, "--help"]).output
    examples = text[text.index("Example") : text.index("Options:")]
    assert f"\n    bilsh {name} " in examples or f"\n    bilsh {name}\n" in examples
    for option in ("--json", "--quiet", "--debug"):
        assert option in text


@pytest.mark.parametrize("name", [None, *COMMANDS])
def test_help_fits_a_terminal_and_speaks_no_python(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = CliRunner().invoke(app, [*([name] if name else []), "--help"]).output
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"--\S+ <(?:str|int|float|path|list)", text)
    assert "..." not in text.partition("Commands:")[2]  # no summary is cut


def test_commands_are_those_of_the_documentation():
    assert list(COMMANDS) == [
        "encode", "add", "search", "delete", "info", "verify", "compact", "backup", "repair", "export", "import",
        "copy", "plan", "index", "graph", "duplicates", "advise", "datasets", "demo", "reproduce", "bench", "view",
    ]  # fmt: skip


def test_life_of_a_store(place, vectors):
    told = answer("info", "store", cwd=place)
    assert (told["items"], told["bits"], told["finished"], told["keep_vectors"]) == (
        300,
        200,
        True,
        "float32",
    )

    np.save(place / "q.npy", np.load(place / "x.npy")[[7]])
    for mode in ("asymmetric", "hamming", "progressive"):
        found = answer("search", "store", "--query", "q.npy", "-k", 3, "--mode", mode, cwd=place)
        hits = found["results"][0]["neighbors"]
        assert [hit["rank"] for hit in hits] == [1, 2, 3]
        assert hits[0]["id"] == 7
        assert hits[0]["distance"] == 0
        assert hits[0]["interval"][0] <= hits[0]["similarity"] <= hits[0]["interval"][1]
    exact = answer("search", "store", "--query", "q.npy", "-k", 3, "--rerank", cwd=place)
    assert exact["results"][0]["neighbors"][0]["exact_distance"] == 0
    for question in (["--id", 7], ["--query", "q.npy", "--radius", 80]):
        exact = answer("search", "store", *question, "--rerank", cwd=place)["results"][0]["neighbors"]
        true = [float(np.linalg.norm(vectors[hit["id"]] - vectors[7])) for hit in exact]
        assert true == sorted(true)
        np.testing.assert_allclose([hit["exact_distance"] for hit in exact], true, rtol=1e-5, atol=1e-6)
    text = bilsh("search", "store", "--id", 7, "-k", 2, cwd=place).stdout.splitlines()
    assert text[0].split()[:3] == ["rank", "id", "bits"]
    assert [line.split()[0] for line in text[1:]] == ["1", "2"]
    assert "7" not in {line.split()[1] for line in text[1:]}  # an item is not its own neighbour
    near = answer("search", "store", "--id", 7, "--radius", 60, cwd=place)["results"][0]["neighbors"]
    assert all(hit["distance"] <= 60 for hit in near)
    assert len(near) >= 49

    assert answer("delete", "store", 7, 8, 999, cwd=place) == {"deleted": 2, "asked": 3, "items": 298}
    assert bilsh("delete", "store", 7, cwd=place, code=1).stdout.startswith("0 items deleted")
    assert answer("compact", "store", cwd=place)["items"] == 298
    assert answer("verify", "store", cwd=place)["ok"]
    assert answer("backup", "store", "-o", "copy", cwd=place)["items"] == 298
    assert answer("backup", "store", "-o", "copy", cwd=place)["files_copied"] == 0
    assert answer("verify", "copy", "--quick", cwd=place)["quick"]
    assert answer("add", "store", "q.npy", cwd=place)["items"] == 299
    versions = answer("repair", "store", cwd=place)["versions"]
    back = answer("repair", "store", "--to-version", versions[0]["version"], cwd=place)
    assert back["version"] > versions[-1]["version"]
    assert answer("info", "store", cwd=place)["items"] == 298


@pytest.mark.parametrize("form", ["npy", "parquet", "faiss"])
def test_codes_come_back_as_they_went(place, form):
    if form == "faiss":
        pytest.importorskip("faiss")
    files = answer("export", "store", "--to", form, "-o", f"out.{form}", cwd=place)["files"]
    assert f"out.{form}" in files
    assert answer("import", f"out.{form}", "-o", "again", cwd=place)["items"] == 300
    with Store.open(place / "store") as old, Store.open(place / "again") as new:
        assert new.fingerprint == old.fingerprint == load_encoder(place / "out.encoder").fingerprint
        np.testing.assert_array_equal(new.get(range(300)).codes, old.get(range(300)).codes)


def test_vectors_go_out_as_fvecs_if_they_are_kept(place, vectors):
    bilsh("export", "store", "--to", "fvecs", "-o", "v.fvecs", cwd=place)
    from bilsh.datasets import read_fvecs

    np.testing.assert_array_equal(read_fvecs(place / "v.fvecs"), vectors)
    with Store.open(place / "store") as store:
        Store.create(place / "bare", store.encoder).close()
    assert "keeps none" in complaint("export", "bare", "--to", "fvecs", cwd=place)


def test_advice_names_the_shortest_code_and_what_was_measured(place, monkeypatch):
    monkeypatch.setenv("BILSH_CACHE", str(place / "cache"))
    told = answer("advise", "x.npy", "--error", 0.1, "--pairs", 100, cwd=place)
    assert told["pick"]["n_bits"] <= 8 * told["item_bytes"]
    assert told["pick"] in told["curve"]["points"]
    assert 0 <= told["assumptions"]["lemma_1"] <= 1
    lines = CliRunner().invoke(app, ["advise", str(place / "x.npy"), "--error", "0.1"]).output
    assert f"advice       {told['pick']['encoder']} codes of {told['pick']['n_bits']:,} bits" in lines


def test_datasets(tmp_path):
    assert "digits" in bilsh("datasets").stdout
    assert answer("datasets", "digits", "-o", tmp_path / "d.npy")["files"][0] == str(tmp_path / "d.npy")
    assert np.load(tmp_path / "d.npy").shape == (1797, 8, 8)


def test_demo_tells_the_story(tmp_path):
    text = bilsh("demo", "--quick", "-o", "demo", cwd=tmp_path).stdout
    assert "BLSH-SIK, m = 5" in text
    assert "try next:" in text
    page = (tmp_path / "demo" / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 2
    assert "http" not in page


def test_demo_without_pictures_says_what_an_extra_adds(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    monkeypatch.setattr(
        demo, "measure", lambda images, n_bits, repetitions: [demo.Row("m", True, n_bits, 1, 1.0, 1.0, 1.0)]
    )
    text = bilsh("demo", "--quick", "-o", "my demo", cwd=tmp_path).stdout
    assert "no pictures: they need matplotlib, pip install 'bilsh[plot]'." in text
    assert "bilsh info 'my demo/store'" in text
    assert "pip install" in (tmp_path / "my demo" / "report.html").read_text()


def test_learned_codes_tell_distances(tmp_path):
    digits = load_digits().images.astype(np.float32)
    np.save(tmp_path / "digits.npy", digits)
    made = answer("encode", "digits.npy", "-o", "store", "--method", "learned", "--bits", 128, cwd=tmp_path)
    assert (made["encoder"], made["bits"], made["items"]) == ("euclidean", 128, len(digits))
    told = answer("search", "store", "--id", 7, "-k", 3, cwd=tmp_path)
    hits = told["results"][0]["neighbors"]
    assert told["quantity"] == "distance"
    for hit in hits:
        low, high = hit["interval"]
        assert hit["similarity"] is None
        assert low < np.linalg.norm(digits[hit["id"]] - digits[7]) < high
    text = bilsh("search", "store", "--id", 7, "-k", 3, "--html", "page.html", cwd=tmp_path).stdout
    assert text.splitlines()[0].split() == ["rank", "id", "distance", "95", "%", "interval"]
    assert f"distance {hits[0]['distance']:.3f} (" in (tmp_path / "page.html").read_text()
    bilsh("index", "store", "--cells", 20, cwd=tmp_path)
    assert (
        answer("search", "store", "--id", 7, "-k", 3, "--recall", 1, cwd=tmp_path)["results"]
        == told["results"]
    )
    for command in (("view", "store", "--no-browser"), ("duplicates", "store", "--within", 3, "-o", "p.npz")):
        assert "not compared by Hamming distance" in complaint(*command, cwd=tmp_path)
    assert "bilsh graph" in complaint("duplicates", "store", "--similarity", 0.9, "-o", "p.npz", cwd=tmp_path)
    odd = bilsh(
        "encode", "digits.npy", "-o", "odd", "--method", "learned", "--bits", 100, cwd=tmp_path, code=1
    )
    assert "learned codes are whole bytes: bits must be a multiple of 8; got 100." in odd.stderr


def test_a_package_that_is_missing_is_named():
    assert sentence(ModuleNotFoundError("No module named 'h5py'", name="h5py")) == (
        "this needs the package h5py, which is not installed: pip install h5py."
    )
    assert sentence(ModuleNotFoundError("No module", name="sklearn.utils")).endswith("install scikit-learn.")


def test_methods_of_the_command_line_are_those_of_the_library():
    assert get_args(Method) == (DEFAULT, *METHODS)


def test_completion_and_version(monkeypatch):
    # Typer asks the processes above which shell this is; the test asks for bash whoever started it.
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert "bilsh" in bilsh("--show-completion", "bash").stdout
    assert bilsh("--version").stdout.startswith("bilsh ")


def test_quiet_prints_nothing_but_errors(place):
    done = bilsh("verify", "store", "--quiet", cwd=place)
    assert (done.stdout, done.stderr) == ("", "")
    assert "does not exist" in complaint("encode", "nowhere.npy", "-o", "s", "--quiet", cwd=place)


@pytest.mark.parametrize("width", [60, 80])
def test_help_cuts_no_description_short(width):
    text = CliRunner().invoke(app, ["--help"], terminal_width=width).output
    listed = text.partition("Commands:")[2]
    assert "..." not in listed
    assert max(map(len, listed.splitlines())) <= width
    listed = "".join(listed.split())
    for name, command in get_command(app).commands.items():
        assert name + command.help.splitlines()[0].replace(" ", "") in listed
