"""Cache, resume, files, report, command line."""

import json
import re

import pytest

from bilsh import errors
from bilsh.errors import DataNotFoundError, InvalidInputError
from bilsh.experiments import FIGURES, Inputs, peers, plots, reproduce
from bilsh.experiments.base import Experiment
from bilsh.experiments.beyond_shown import peer_findings
from bilsh.experiments.figures import explain, write_report
from bilsh.experiments.kept import publish, read_kept
from bilsh.experiments.runner import read_record, run, to_csv, write_record


class Counter:
    """An experiment of three parts that counts its measurements and can be interrupted."""

    def __init__(self, stop_at=None):
        self.measured, self.stop_at = [], stop_at

    def experiment(self, **settings):
        def measure(config, part, inputs, done):
            if part == self.stop_at:
                raise KeyboardInterrupt
            self.measured.append(part)
            return [{"part": part[0], "earlier": len(done)}]

        return Experiment(
            name="counter",
            title="",
            about="",
            errata=(),
            configs={},
            data=lambda config: ("digits",),
            parts=lambda config: [(0,), (1,), (2,)],
            measure=measure,
            combine=lambda config, done: {"all": [row for rows in done.values() for row in rows]},
            plot=lambda tables: None,
            findings=lambda tables: [],
            kept=("all",),
            **settings,
        )


def silent(message):
    pass


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, inputs, tiny):
    config = tiny["rff"]
    first = Counter(stop_at=(2,))
    with pytest.raises(KeyboardInterrupt):
        run(first.experiment(), config, inputs, tmp_path, say=silent)
    assert first.measured == [(0,), (1,)]
    second = Counter()
    record = run(second.experiment(), config, inputs, tmp_path, say=silent)
    assert second.measured == [(2,)]
    assert record["tables"]["all"] == [{"part": i, "earlier": i} for i in range(3)]
    assert record["data"][0]["checksum"] == inputs.data("digits").checksum


def test_the_cache_knows_configuration_revision_and_damage(tmp_path, inputs, tiny):
    def measured(config=tiny["rff"], **settings):
        counter = Counter()
        run(
            counter.experiment(**settings.pop("fields", {})), config, inputs, tmp_path, say=silent, **settings
        )
        return len(counter.measured)

    assert measured() == 3
    assert measured() == 0
    assert measured(config=tiny["mnist"]) == 3
    assert measured(fields={"revision": 2}) == 3
    assert measured(refresh=True) == 3
    part = next((tmp_path / "parts" / "counter").glob("*.json"))
    part.write_text(part.read_text()[:10])
    assert measured() + measured(config=tiny["mnist"]) + measured(fields={"revision": 2}) == 1


def test_records_come_back_as_they_were(tmp_path):
    record = {"figure": "x", "tables": {"t": [{"a": 1, "b": None}, {"a": 0.1, "b": "text"}]}, "config": {}}
    write_record(record, tmp_path)
    assert read_record(tmp_path / "tables" / "x.json") == record
    assert (tmp_path / "tables" / "x-t.csv").read_text() == "a,b\n1,\n0.1,text\n"
    assert to_csv([]) == "\n"


@pytest.fixture
def tiny_figures(monkeypatch, tiny):
    for name, config in tiny.items():
        monkeypatch.setitem(FIGURES[name].configs, "quick", config)


def test_reproduce_writes_one_self_contained_report(tiny_figures, tmp_path, cache):
    messages = []
    outcome = reproduce(["rff", "mnist"], "quick", tmp_path, cache=cache, progress=messages.append)
    assert outcome.failures == {}
    assert all(path.is_file() for path in outcome.files)
    assert any("mnist 4/4" in message for message in messages)
    html = outcome.report.read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "tables", "pictures"}
    for reference in re.findall(r'(?:src|href)="([^"]*)"', html):
        assert reference.startswith(("data:", "#"))
    assert "url(" not in html
    assert "<script" not in html
    assert "bilsh reproduce mnist --quick" in html
    assert Inputs(cache).data("digits").checksum in html
    sizes = [path.stat().st_size for path in (tmp_path / "pictures").glob("*.svg")]
    assert len(sizes) == 2
    assert max(sizes) < 400_000

    # A later run of another figure into the same folder keeps the first ones in the report.
    later = reproduce(["bounds"], "quick", tmp_path, cache=cache)
    assert {"rff", "bounds", "mnist"} <= set(re.findall(r'<section id="([^"]*)"', later.report.read_text()))


def test_pictures_and_findings_need_only_the_tables(tiny_figures, tmp_path, cache):
    reproduce(["rff"], "quick", tmp_path, cache=cache)
    before = (tmp_path / "pictures" / "rff.svg").read_bytes()
    record = read_record(tmp_path / "tables" / "rff.json")
    plots.save(FIGURES["rff"].plot(record["tables"]), tmp_path / "pictures" / "rff")
    assert (tmp_path / "pictures" / "rff.svg").read_bytes() == before


def test_a_figure_that_fails_does_not_stop_the_others(tiny_figures, tmp_path, cache):
    outcome = reproduce(["flickr", "rff"], "full", tmp_path, cache=cache)
    assert "--images FOLDER" in outcome.failures["flickr"]
    assert "Not made: This experiment needs photographs" in outcome.report.read_text()
    assert (tmp_path / "tables" / "rff.json").is_file()
    assert reproduce(["rff"], "quick", tmp_path, cache=cache).report == tmp_path / "report.html"


def test_mistakes_get_one_sentence(tmp_path, cache):
    with pytest.raises(InvalidInputError, match="No figure is called 'figure9'; choose from rff"):
        reproduce(["figure9"], cache=cache)
    with pytest.raises(InvalidInputError, match="jobs must be at least 1"):
        reproduce(["rff"], output=tmp_path, jobs=0, cache=cache)
    outcome = reproduce(["flickr"], "full", tmp_path, images=tmp_path / "no", cache=cache)
    assert "is not a folder" in outcome.failures["flickr"]
    full = OSError(28, "No space left on device", "some/file")
    assert explain(full) == "The disk is full (some/file). Free some space; finished parts are kept."
    assert "cannot be written" in explain(PermissionError(13, "Permission denied", "some/file"))
    assert "Out of memory" in explain(MemoryError())


def test_without_faiss_its_rows_are_left_out_and_the_report_says_how_to_get_it(inputs, monkeypatch):
    def without_faiss(module):
        raise ImportError(module)

    monkeypatch.setattr(errors, "import_module", without_faiss)
    rows = peers.peer_rows(inputs.data("digits").X, 8, 20.0, 20, 0)
    assert {row["method"] for row in rows} == {
        "ours: kernel, Hamming",
        "ours: kernel, asymmetric",
        "ours: sign, Hamming",
        "ours: sign, asymmetric",
        "ours: learned, asymmetric",
        "sign of centred values",
    }
    assert "pip install 'bilsh[bench]'" in peer_findings(rows)[0].measured


def test_a_report_of_nothing_is_a_valid_page(tmp_path):
    page = write_report(tmp_path, {"rff": "because <of> that"}).read_text()
    assert "because &lt;of&gt; that" in page


def test_part_files_are_plain_json(tmp_path, inputs, tiny):
    run(Counter().experiment(), tiny["rff"], inputs, tmp_path, say=silent)
    for part in (tmp_path / "parts" / "counter").iterdir():
        assert set(json.loads(part.read_text())) == {"seconds", "rows"}


def test_a_repository_keeps_one_table_and_one_picture_per_figure(tiny_figures, tmp_path, cache):
    reproduce(["rff", "mnist", "flickr"], "quick", tmp_path / "run", cache=cache)
    publish(tmp_path / "run", tmp_path / "kept", FIGURES)
    kept = {path.name for path in (tmp_path / "kept").iterdir()}
    assert kept == {
        "README.md",
        *(f"{n}.{kind}" for n in ("rff", "mnist", "flickr") for kind in ("csv", "png")),
    }
    for name in ("rff", "mnist", "flickr"):
        record = read_record(tmp_path / "run" / "tables" / f"{name}.json")
        tables, provenance = read_kept(tmp_path / "kept" / f"{name}.csv")
        assert tuple(tables) == FIGURES[name].kept
        assert provenance["command"] == record["command"]
        whole = FIGURES[name].findings(record["tables"])
        assert [f.verdict for f in FIGURES[name].findings(tables)] == [f.verdict for f in whole]
    text = (tmp_path / "kept" / "README.md").read_text()
    assert "![Precision-recall on MNIST](mnist.png)" in text
    with pytest.raises(DataNotFoundError, match="holds no tables"):
        publish(tmp_path / "kept", tmp_path / "other", FIGURES)
