"""Plans: terms fitted to measurements, scaled and said with what they assume."""

import os

import numpy as np
import pytest

import bilsh
from bilsh.errors import MissingPackageError
from bilsh.workflows import disturbance, planning, sampling
from bilsh.workflows.growth import Growth, rows_written
from bilsh.workflows.sampling import Rates
from cli.program import answer


@pytest.fixture
def small(monkeypatch, tmp_path):
    monkeypatch.setattr(sampling, "SAMPLES", {"cells": (640 << 10, 700 << 10)})
    monkeypatch.setattr(sampling, "SMALL", (32 << 10, 128 << 10))
    monkeypatch.setattr(sampling, "REPEATS", 1)
    monkeypatch.setattr(sampling, "SPENT", 0.0)
    monkeypatch.setattr(sampling, "TRIES", 2)
    monkeypatch.setattr(sampling, "MOST_TRIES", 2)
    monkeypatch.setattr(sampling, "BUILDING", 0.0001)
    monkeypatch.setattr(sampling, "ENCODED_BYTES", 1 << 16)
    monkeypatch.setattr(planning, "cache_folder", lambda: tmp_path / "cache")


def test_growth_goes_through_what_was_measured():
    grown = Growth.through([10, 20, 50], [3.0, 5.0, 7.0], ["once", "items"])
    assert [grown.at(items) for items in (10, 20, 50)] == pytest.approx([3.0, 5.0, 7.0])
    assert 3.0 < grown.at(15) < 5.0 < grown.at(35) < 7.0
    assert Growth.through([10, 20, 30], [3.0, 2.0, 4.0], ["items"]).values == (3.0, 3.0, 4.0)


@pytest.mark.parametrize(
    ("terms", "truth"),
    [
        (["once", "items"], lambda n: 2.0 + 3e-3 * n),
        (["once", "centres", "items"], lambda n: 5.0 + 0.25 * np.sqrt(n)),
        (["once", "items", "items x centres"], lambda n: 1e-3 * n + 1e-5 * n**1.5),
    ],
)
def test_growth_finds_the_terms(terms, truth):
    sizes = [1_000, 10_000, 100_000]
    grown = Growth.through(sizes, [truth(size) for size in sizes], terms)
    for items in (100, 30_000, 10**6, 10**9):
        assert grown.at(items) == pytest.approx(truth(items), rel=1e-6)


def test_growth_beyond_a_cache():
    """Twice the time per item outside of the cache: what lies beyond costs what the largest sample did."""
    sizes = [1_000, 100_000, 200_000]
    grown = Growth.through(sizes, [1.0, 200.0, 400.0], ["once", "items"])
    assert grown.at(10**6) == pytest.approx(2000.0, rel=0.01)


def test_rows_written_are_those_of_a_store(tmp_path):
    """The model counts the rows that a store writes, merges included."""
    from bilsh.store import merge

    written = []
    real = merge.write_segment

    def counting(directory, name, layout, sources):
        ref = real(directory, name, layout, sources)
        written.append(ref.rows)
        return ref

    batch, batches = 3_000, 40
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bilsh.store.change.write_segment", counting)
        with bilsh.Store.create(tmp_path / "s", n_bits=512) as store:
            for _ in range(batches):
                store.add_codes(np.zeros((batch, 64), np.uint8))
    assert sum(written) == batch * rows_written(batches) > batch * batches
    assert rows_written(10**6) > 10**6 * rows_written(10**4) / 10**4


def test_others_are_counted(monkeypatch, tmp_path):
    watch = disturbance.Watch()
    share = watch.others()
    assert share is None or share >= 0
    monkeypatch.setattr(disturbance, "STAT", tmp_path / "none")
    assert disturbance.Watch().others() is None


def test_what_is_measured_is_kept(small, tmp_path):
    rates, notes = planning.measure_all([f"store:{tmp_path}", f"faiss:{tmp_path}"], 512, 0.9)
    assert not notes
    assert [rate.engine for rate in rates] == ["store", "FAISS"]
    assert rates[0].disk.at(1e6) > 64e6
    assert all(getattr(rates[0], name).at(1e6) > 0 for name in sampling.GROWS)
    assert rates[0].load.terms == ("rows written",)
    assert rates[1].build is rates[1].progressive is None
    assert planning.saved_rates(512) == []
    planning.save_rates(rates)
    assert planning.saved_rates(512) == rates
    assert planning.saved_rates(1024) == []


def test_plans_scale(small):
    sizes = np.array([1_000, 10_000, 100_000])
    lines = [(0, 1e-6), (0.001, 1e-8), (0, 1e-9), (0, 520), (0, 512)]
    load, query, limited, disk, memory = (
        Growth.through(sizes.tolist(), base + slope * sizes, ["once", "items"]) for base, slope in lines
    )
    rate = Rates("store", "1", 4096, load, query, recall_query=limited, disk=disk, memory=memory)
    made = planning.plan(10**9, [rate], 1000.0 * os.cpu_count(), machine_bytes=64 * 2**30, cores=16)
    (need,) = made.needs
    assert need.machines == 8
    assert need.memory == pytest.approx(512e9)
    assert need.build_seconds is need.progressive_seconds is None
    assert need.query_seconds == pytest.approx(0.001 + 1.25)
    assert made.encode_seconds == pytest.approx(1e9 / 1000 / 16 / 8)
    assert any("64.0 GiB" in line for line in made.assumptions)
    with pytest.raises(bilsh.InvalidInputError, match="nothing was measured"):
        planning.plan(5, [], 1.0)


def test_the_command(small, monkeypatch):
    monkeypatch.setattr(sampling, "_resident", lambda place, asked: 1e6)
    real = planning.measure

    def measure(address, *settings):
        # Workers that later tests fork would not survive Lance in this process.
        if address.startswith("lance:"):
            raise MissingPackageError("no Lance here")
        return real(address, *settings)

    monkeypatch.setattr(planning, "measure", measure)
    told = answer("plan", "--items", "1e6", "--bits", "512", "--dimension", "32")
    assert told["items"] == 1_000_000
    assert told["needs"][0]["machines"] >= 1
    again = answer("plan", "--items", "2e6", "--bits", "512", "--dimension", "32")
    assert again["needs"][0]["load_seconds"] > told["needs"][0]["load_seconds"]


def test_sampled_codes_are_clustered():
    codes, queries = sampling.sample_codes(1000, 404)
    assert codes.shape == (1000, 51)
    assert not (codes[:, -1] >> 4).any()
    far = np.sort(bilsh.hamming(queries, codes), axis=1)
    assert (far[:, 0] < 0.8 * far[:, 500]).all()
    assert np.array_equal(sampling.sample_codes(50, 404)[1], queries), "the same queries for every size"
