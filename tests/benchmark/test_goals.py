"""Rows that must hold on any processor: each has a goal, a value and a spread that a script can read. No times here."""

import json

import pytest

from bilsh import _native
from bilsh.benchmark import goals, machine
from bilsh.benchmark.goals import Row, Scale

TINY = Scale(small=1000, seconds=0.001)


def test_rows_are_lines_of_json_and_kept_in_the_processors_folder(tmp_path):
    lines = []
    path = goals.hold(tmp_path, only=("one-query", "asymmetric"), scale=TINY, say=lines.append)
    rows = [json.loads(line) for line in lines]
    assert path == tmp_path / machine.folder_name() / "goals.json"
    assert json.loads(path.read_text())["rows"] == rows
    for row in rows:
        assert {"name", "goal", "value", "spread", "sense", "met"} <= set(row)
        assert row["value"] > 0
        assert row["met"] in (True, False)


def test_one_group_leaves_what_is_kept_of_the_others(tmp_path):
    first = goals.hold(tmp_path, only=("calls",), scale=TINY, say=lambda _: None)
    kept = json.loads(first.read_text())["rows"]
    path = goals.hold(tmp_path, only=("asymmetric",), scale=TINY, say=lambda _: None)
    rows = json.loads(path.read_text())["rows"]
    assert rows[: len(kept)] == kept
    assert len(rows) > len(kept)


@pytest.mark.parametrize(
    ("sense", "value", "met"), [(">=", 0.9, False), (">=", 1.0, True), ("<=", 1.1, False)]
)
def test_a_row_is_met_by_its_sense(sense, value, met):
    assert Row("x", 1.0, sense, value, 0.0).met is met
    assert Row("x", 1.0, ">=", 0.98, 0.0, tolerance=0.03).met is True


def test_a_forced_instruction_set_is_left_afterwards():
    before = _native.level()
    assert goals.at_level("portable", _native.level)() in ("portable", "neon")
    assert _native.level() == before


def test_what_the_machine_runs_is_told():
    told = machine.told()
    assert told["scans"] == machine.WAYS[told["instruction_set"]]
    assert told["instruction_set"] in told["instruction_sets"]
    assert all(size > 0 for size in told["cache_bytes"].values())
