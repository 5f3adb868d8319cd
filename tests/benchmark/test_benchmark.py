"""The benchmark compares like with like: contestants agree on the result, files are written, goals are judged right.

Nothing here asserts a time.
"""

import csv
import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from time import sleep

import numpy as np
import pytest

from bilsh.benchmark import benchmark, cells, limits, machine, plots, program, report, targets
from bilsh.benchmark import contestants_encode as enc
from bilsh.benchmark import contestants_hamming as ham
from bilsh.benchmark.measure import SHORTEST_SAMPLE, Contestant, Timing, race
from bilsh.benchmark.sizes import FULL, QUICK, SMOKE
from bilsh.benchmark.targets import Race
from bilsh.codes import unpack
from bilsh.errors import InvalidInputError
from bilsh.experiments import plots as pictures

CASES = [enc.EncodeCase((7, 9), 50, 1), enc.EncodeCase((7, 9), 36, 3), enc.EncodeCase((20, 6), 100, 2)]


def assert_same_bits(encoder, X, ours, theirs):
    """Equal wherever the cosine is farther from its threshold than rounding can move it."""
    margin = np.abs(np.cos(encoder.phases(X)) + encoder.thresholds_)
    clear = margin > 1e-4
    assert clear.mean() > 0.99
    k = encoder.n_bits
    assert (unpack(ours, k) == unpack(theirs, k))[clear].all()
    assert ours.shape == theirs.shape


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("peer", [enc.literal, enc.selected_pairs])
def test_numpy_versions_of_algorithm_1_give_our_bits(case, peer):
    X, encoder = enc.descriptors(case.shape, 9), enc.ours(case)
    ours = enc.run_encoder(encoder, X, threads=2)()
    assert_same_bits(encoder, X, ours, peer(encoder, X)())


def test_literal_in_blocks_of_items_equals_literal_at_once(monkeypatch):
    case = CASES[1]
    X, encoder = enc.descriptors(case.shape, 9), enc.ours(case)
    at_once = enc.literal(encoder, X)()
    monkeypatch.setattr(enc, "GRID_BYTES", 4 * 2 * case.k * case.m**2)
    assert_same_bits(encoder, X, at_once, enc.literal(encoder, X)())


@pytest.mark.parametrize("peer", [enc.dense, enc.rbf_sampler])
def test_dense_peers_give_our_bits(peer):
    encoder = enc.dense_encoder((7, 9), 70)
    X = enc.descriptors((7, 9), 9)
    assert_same_bits(encoder, X, enc.run_encoder(encoder, X, 1)(), peer(encoder, X)())


def test_large_dense_weights_are_timed_on_a_slice_and_say_so(monkeypatch):
    monkeypatch.setattr(enc, "DENSE_BYTES", 4 * 63 * 64)
    field = enc.dense_field(enc.EncodeCase((7, 9), 640), enc.descriptors((7, 9), 3), 1)
    assert {c.name for c in field} == {enc.DENSE, enc.RBF, enc.OUR_DENSE}
    assert all(c.scale == 10 and c.note == "extrapolated from 64 of 640 bits" for c in field)
    assert field[0].run().shape == (3, 8)


def test_circulant_codes_have_as_many_bits_as_asked():
    X = enc.descriptors((7, 9), 5)
    codes = enc.circulant_fft(X, 150, 8.0)()
    assert codes.shape == (5, 19)
    assert 0.3 < unpack(codes, 150).mean() < 0.7


def test_reduced_operations_count_the_selected_pairs_only():
    case = enc.EncodeCase((20, 6), 100, 2)
    left_first = 2 * (20 * 120 + 100 * 6)
    right_first = 2 * (20 * 120 + 100 * 20)
    assert enc.reduced_flops(enc.ours(case)) == min(left_first, right_first)


def test_faiss_encodes_small_shapes_and_declines_large_ones():
    pytest.importorskip("faiss")
    X = enc.descriptors((7, 9), 4)
    assert enc.faiss_field(enc.EncodeCase((7, 9), 40), X, 1).run().shape == (4, 5)
    large = enc.faiss_field(enc.EncodeCase((250, 256), 40), X, 1)
    assert large.run is None
    assert "O(max(d, k)^3)" in large.note


@pytest.mark.parametrize("name", list(ham.PEERS))
@pytest.mark.parametrize("bits", [128, 72])
@pytest.mark.parametrize("threads", [1, 2])
def test_all_scans_find_the_same_distances(name, bits, threads):
    ready, module, _ = ham.PEERS[name]
    pytest.importorskip(module)
    stored = ham.stored_codes(ham.HammingCase(300, bits))
    queries = ham.query_codes(stored, 5)
    full = np.bitwise_count(queries[:, None] ^ stored[None]).sum(axis=2)
    ids, distances = ready(stored)(queries, threads)()
    np.testing.assert_array_equal(distances, np.sort(full, axis=1)[:, : ham.NEAREST])
    np.testing.assert_array_equal(np.take_along_axis(full, ids.astype(np.int64), axis=1), distances)


def test_a_missing_peer_says_how_to_install_it(monkeypatch):
    for module in (enc, ham):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    stored = ham.stored_codes(ham.HammingCase(10, 64))
    row = ham.contestant(ham.USEARCH, ham.scans(stored)[ham.USEARCH], stored, stored, 1, 1.0)
    assert (row.run, row.note) == (None, "not installed: pip install usearch")
    assert "pip install faiss-cpu" in enc.faiss_field(CASES[0], enc.descriptors((7, 9), 1), 1).note


def test_a_race_lets_contestants_take_turns_and_scales_extrapolated_times():
    calls = []
    field = [
        Contestant(name, lambda name=name: calls.append(name), scale=s) for name, s in (("a", 1), ("b", 3))
    ]
    field.append(Contestant("absent", None, note="why"))
    a, b, absent = race("encode", "x", 2, field, budget=0.0)
    turns = [name for previous, name in zip([None, *calls], calls, strict=False) if name != previous]
    assert turns == ["a", "b"] * 3  # two untimed calls, then two samples each
    assert a.rounds == b.rounds == 2
    assert b.scale == 3
    assert absent.seconds is None
    assert absent.note == "why"


def test_what_goes_before_a_sample_goes_before_every_one_and_a_sample_is_one_call():
    calls = []
    field = [Contestant(name, lambda name=name: calls.append(name)) for name in "ab"]
    race("encode", "x", 1, field, budget=0.0, before=lambda: calls.append("-"))
    assert "".join(calls) == "aabb" + "-a-b" * 2


def test_a_slow_first_call_does_not_decide_how_often_a_quick_one_is_repeated():
    calls = []

    def run():
        calls.append(None)
        if len(calls) == 1:
            sleep(2 * SHORTEST_SAMPLE)

    race("encode", "x", 1, [Contestant("a", run)], budget=0.0)
    assert len(calls) > 4  # both samples are of many calls


def timing(name, seconds, threads=1, work=0.0):
    return Timing("encode", "c", 64, name, threads, seconds, 1.1 * seconds, 3, work, 1.0, "")


@pytest.fixture
def where_goals_were_set(monkeypatch):
    monkeypatch.setattr(targets.Target, "binds", property(lambda self: True))


@pytest.mark.usefixtures("where_goals_were_set")
def test_ratios_are_their_time_over_ours_and_our_rate_over_the_best_limit():
    where = Race("encode", "c", 64, d=64_000, k=62_500, m=5)
    timings = [
        timing(enc.OURS, 2.0, work=10.0),
        timing(enc.OURS, 1.0, threads=2, work=10.0),
        timing(enc.LITERAL, 17.0),
        timing(limits.PEAK, 1.0, work=5.0),
        timing(limits.PEAK, 1.0, work=6.0),
    ]
    found = {(c.against, c.threads): c for c in targets.ratios(where, timings)}
    assert found[enc.LITERAL, 1].value == 8.5
    assert (found[enc.LITERAL, 1].goal, found[enc.LITERAL, 1].met) == (9, False)
    assert found[limits.PEAK, 1].value == pytest.approx(5 / 6)
    assert found[limits.PEAK, 1].met is False
    assert found[targets.SPEEDUP, 2].value == 2.0
    assert found[targets.SPEEDUP, 2].met is True
    assert found[enc.LITERAL, 1].spread == pytest.approx(0.1)


def test_goals_of_one_processor_are_not_judged_on_others(monkeypatch):
    monkeypatch.setattr(machine, "processor", lambda: "Intel(R) Xeon(R) 6 family 6")
    monkeypatch.setattr(machine._native, "level", lambda: "amx")
    where = Race("encode", "c", 64, d=64_000, k=62_500, m=5)
    assert targets.check(where, limits.PEAK, 0.5, 0.0).met is None
    assert targets.check(where, enc.LITERAL, 8.5, 0.0).goal == 1  # never slower: everywhere


def test_memory_must_stay_below_its_goal():
    where = Race("memory", "c", 64, d=64_000, k=62_500, m=5)
    assert targets.check(where, targets.MEMORY, 31.0, 0.0).met is True
    assert targets.check(where, targets.MEMORY, 33.0, 0.0).met is False
    assert targets.check(replace(where, m=1), targets.MEMORY, 33.0, 0.0).met is None


@pytest.mark.parametrize("size", [FULL, QUICK])
def test_every_target_speaks_of_a_race_that_is_run(size):
    encode = [Race("encode", "", n, d=c.d, k=c.k, m=c.m) for c, batches in size.encode for n in batches]
    ways = [Race("ways", "", n, d=c.d, k=c.k, m=c.m) for c, n in size.ways]
    hamming = [Race("hamming", "", n, bits=c.bits) for c, batches in size.hamming for n in batches]
    memory = [Race("memory", "", 64, d=c.d, k=c.k, m=c.m) for c in size.memory]
    asked = [Race("progressive", case, n) for case in ("MNIST", "clustered", "random") for n in (1, 100)]
    asked += [
        Race("cells", f"{kind} {n}, 1024 bits, recall 0.95", items, n=n)
        for kind, n in (("MNIST", 68_000), ("shifted", 1_000_000))
        for items in (1, 100)
    ]
    for target in targets.TARGETS:
        assert any(
            map(
                target.where,
                [*encode, *ways, *hamming, *memory, *asked, Race("store", "", 1), Race("page", "", 1)],
            )
        ), target.what


def test_machine_tells_no_names_or_places():
    described = machine.describe()
    assert described["versions"]["bilsh"]
    assert described["instruction_set"] in machine.WAYS
    assert set(described) == {
        *(
            "date",
            "commit",
            "processor",
            "cores",
            "load",
            "instruction_set",
            "system",
            "python",
            "blas",
            "versions",
        )
    }
    assert str(Path.cwd()) not in json.dumps(described)


def test_without_curves_there_is_no_picture(tmp_path, capsys):
    files = benchmark("smoke", tmp_path, only=["hamming"], cpu=True)
    assert [path.name for path in files] == ["smoke-cpu.json", "smoke-cpu.csv"]
    printed = capsys.readouterr().out
    assert "pip install matplotlib" in printed
    assert "by the cpu clock" in printed
    assert "2 threads" not in printed
    assert {path.parent for path in files} == {tmp_path / machine.folder_name()}


def test_cells_are_drawn_in_the_colours_of_all_pictures():
    ours = (cells.CELLS, cells.PREFIXES, cells.SCAN)
    assert set(plots.CELLS_STYLE) == {*ours, cells.IVF, cells.FAISS_HNSW, cells.USEARCH}
    known = {value for value in vars(pictures).values() if isinstance(value, str) and value.startswith("#")}
    assert {colour for colour, _ in plots.CELLS_STYLE.values()} <= known


def test_cells_are_drawn_of_the_codes_with_most_numbers_of_items():
    def timing(case, seconds=1.0):
        return Timing("cells", case, 1, "cells", 1, seconds, seconds, 1, 0.0, 1.0, "")

    longer = [timing(f"shifted {n}, 1024 bits, recall 0.95") for n in (100_000, 1_000_000)]
    others = [timing("shifted 100000, 1024 bits, recall 0.99"), timing("MNIST 68000, 1024 bits, recall 0.95")]
    absent = [timing("shifted 10000000", None)]
    assert sorted(plots.growing([*others, *absent, *longer])) == [100_000, 1_000_000]
    short = [timing(f"shifted {n}, 512 bits, recall 0.95") for n in (10**5, 10**6, 10**7)]
    assert plots.growing([*longer, *short, *others]) == {
        10**5: short[:1],
        10**6: short[1:2],
        10**7: short[2:],
    }
    assert plots.growing(others) == {}


def test_the_program_writes_lines_tables_results_and_plots(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(program.memory, "growth", lambda name, case: 1.5)  # children are slow to start
    tables = tmp_path / "tables.md"
    assert tables in benchmark("smoke", tmp_path, tables=tables)
    printed = capsys.readouterr().out
    assert "encode 6x7 k=36 m=2, 3 items, 1 thread" in printed
    assert "Targets:" in printed
    folder = tmp_path / machine.folder_name()
    content = json.loads((folder / "smoke.json").read_text())
    assert {t["section"] for t in content["timings"]} >= {"encode", "ways", "hamming", "scaling-d"}
    assert content["machine"]["versions"]["numpy"] == np.__version__
    assert all(t["seconds"] is None or t["seconds"] > 0 for t in content["timings"])
    with (folder / "smoke.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(content["timings"])
    assert {"contestant", "threads", "seconds", "commit", "processor"} <= set(rows[0])
    text = tables.read_text()
    assert "## Encoding" in text
    assert "## Memory" in text
    for block in text.split("\n\n"):  # every table is rectangular
        if block.startswith("|"):
            assert len({line.count("|") for line in block.splitlines()}) == 1
    assert f"]({folder.name}/smoke-scaling.png)" in text
    assert (folder / "smoke-scaling.png").stat().st_size > 1000


def test_parts_on_request_say_their_goals(tmp_path):
    lines = []
    files = benchmark(
        "smoke",
        tmp_path,
        only=["progressive", "store", "cells", "cells-growth", "cells-store"],
        tables=tmp_path / "t.md",
        say=lines.append,
    )
    told = "\n".join(lines)
    assert "progressive digits, KernelEncoder, 1,024 bits, 1 queries" in told
    assert "measured recall beyond the promised one" in told
    assert ("build and 10,000 queries, usearch HNSW" in told) == (find_spec("usearch") is not None)
    assert "cells shifted 1000, 512 bits, recall 0.95, 100 queries" in told
    assert "cells stored shifted 1000, 512 bits, recall 0.95, 100 queries" in told
    assert "per cent of rows read, cells" in told
    assert "recall of the full scan" in told
    assert "(goal 0.99) met" in told
    assert "ms beyond a plain write" in told
    assert "## Progressive search" in (tmp_path / "t.md").read_text()
    assert "## Store" in (tmp_path / "t.md").read_text()
    assert "## Cells" in (tmp_path / "t.md").read_text()
    assert len(list(files[0].parent.iterdir())) == 3  # the store that was measured is gone
    with pytest.raises(InvalidInputError, match="No part is called 'speed'; choose from encode"):
        benchmark("smoke", tmp_path, only=["speed"])


def test_the_page_has_a_budget(tmp_path, monkeypatch):
    monkeypatch.setattr("bilsh.benchmark.paging.CHROMIUM", str(tmp_path / "none"))
    lines = []
    benchmark("smoke", tmp_path, only=["page"], say=lines.append)
    told = "\n".join(lines)
    assert "page, 300 x 256 bits, 10 items" in told
    assert "ms of an answer, p95" in told
    assert "(goal 50) " in told
    assert "(goal 150) " in told
    assert "ms of an uploaded query, p95" in told


def test_a_child_process_reports_its_growth():
    assert 0 <= program.memory.growth(enc.OURS, SMOKE.memory[0]) < 100


def test_numbers_are_short():
    assert [report.number(x) for x in (0.856, 9.61, 61.2, 1234.5, float("nan"))] == [
        "0.856", "9.61", "61.2", "1,234", "-",
    ]  # fmt: skip
