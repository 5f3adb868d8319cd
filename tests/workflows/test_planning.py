"""Plans: lines through two measurements, scaled and said with what they assume."""

import numpy as np
import pytest

import bilsh
from bilsh.workflows import planning
from bilsh.workflows.planning import Growth, Rates
from cli.program import answer


@pytest.fixture
def small(monkeypatch, tmp_path):
    monkeypatch.setattr(planning, "SAMPLES", {})
    monkeypatch.setattr(planning, "SMALL", (32 << 10, 64 << 10, 128 << 10))
    monkeypatch.setattr(planning, "REPEATS", 1)
    monkeypatch.setattr(planning, "SPENT", 0.0)
    monkeypatch.setattr(planning, "TRIES", 2)
    monkeypatch.setattr(planning, "ENCODED", 16)
    monkeypatch.setattr(planning, "cache_folder", lambda: tmp_path / "cache")


def test_growth():
    grown = Growth.through([10, 20, 50], [3.0, 5.0, 7.0])
    assert [grown.at(items) for items in (10, 15, 20, 35, 50)] == [3.0, 4.0, 5.0, 6.0, 7.0]
    assert grown.at(450) == pytest.approx(47.0), "beyond, along the line from the smallest to the largest"
    assert grown.at(5) == pytest.approx(2.0)
    steep = Growth.through([10, 20, 30], [1.0, 5.0, 6.0])
    assert steep.at(5) == pytest.approx(0.5), "nothing costs less than nothing"
    assert Growth.through([10, 20, 30], [3.0, 2.0, 4.0]).values == (3.0, 3.0, 4.0)
    assert Growth.through([10, 20, 30], [3.0, 2.0, 1.0]).at(60) == pytest.approx(6.0)


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
    sizes = np.array([1_000, 10_000, 100_000])
    lines = [(0, 1e-6), (0.001, 1e-8), (0, 1e-9), (0, 520)]
    load, query, limited, disk = (
        Growth.through(sizes.tolist(), base + slope * sizes) for base, slope in lines
    )
    rate = Rates("store", "1", 4096, load, query, limited, disk, 1.0)
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
