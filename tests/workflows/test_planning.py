"""Plans: lines through two measurements, scaled and said with what they assume."""

import numpy as np
import pytest

import bilsh
from bilsh.workflows import planning
from bilsh.workflows.planning import Line, Rates
from cli.program import answer


@pytest.fixture
def small(monkeypatch, tmp_path):
    monkeypatch.setattr(planning, "SAMPLES", {})
    monkeypatch.setattr(planning, "SMALL", (64 << 10, 128 << 10))
    monkeypatch.setattr(planning, "REPEATS", 1)
    monkeypatch.setattr(planning, "ENCODED", 16)
    monkeypatch.setattr(planning, "cache_folder", lambda: tmp_path / "cache")


def test_lines():
    line = Line.through([10, 20], [3.0, 5.0])
    assert (line.base, line.slope) == (1.0, 0.2)
    assert line.at(100) == 21.0
    assert Line.through([10, 20], [3.0, 2.0]) == Line(0.0, 0.1)


def test_what_is_measured_is_kept(small, tmp_path):
    rates, notes = planning.measure_all([f"store:{tmp_path}", f"faiss:{tmp_path}"], 512, 0.9)
    assert not notes
    assert [rate.engine for rate in rates] == ["store", "FAISS"]
    assert rates[0].disk.at(1e6) > 64e6
    assert rates[0].recall_query is not None
    assert planning.saved_rates(512) == []
    planning.save_rates(rates)
    assert planning.saved_rates(512) == rates
    assert planning.saved_rates(1024) == []


def test_plans_scale(small):
    rate = Rates("store", "1", 4096, Line(0, 1e-6), Line(0.001, 1e-8), Line(0, 1e-9), Line(0, 520), 1.0)
    made = planning.plan(10**9, [rate], 1000.0, machine_bytes=64 * 2**30, cores=16)
    (need,) = made.needs
    assert need.machines == 8
    assert need.memory == 512e9
    assert need.query_seconds == pytest.approx(0.001 + 1.25)
    assert made.encode_seconds == pytest.approx(1e9 / 1000 / 16 / 8)
    assert any("64.0 GiB" in line for line in made.assumptions)
    with pytest.raises(bilsh.InvalidInputError, match="nothing was measured"):
        planning.plan(5, [], 1.0)


def test_the_command(small):
    told = answer("plan", "--items", "1e6", "--bits", "512", "--dimension", "32")
    assert told["items"] == 1_000_000
    assert told["needs"][0]["machines"] >= 1
    again = answer("plan", "--items", "2e6", "--bits", "512", "--dimension", "32")
    assert again["needs"][0]["load_seconds"] > told["needs"][0]["load_seconds"]


def test_sampled_codes_are_clustered():
    codes, queries = planning.sample_codes(1000, 404)
    assert codes.shape == (1000, 51)
    assert not (codes[:, -1] >> 4).any()
    far = np.sort(bilsh.hamming(queries[:1], codes)[0])
    assert far[1] < 0.42 * 404 < far[500]
