"""Numbers of docs/intervals.md: rows of its tables, made again by the tools that made them."""

import os
import re
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from claim import Claim

import hit_conditions
import hit_copies
import hit_picture
import pair_coverage
from bilsh import datasets
from hit_coverage import FIRST, cells_of, load, summary

PAGE = "docs/intervals.md"
POINTS = 1.6
"""Rounding, and what another processor's rounding changes of two encoders."""


@cache
def coverage(data, n_items, kind, n_bits):
    """Rows of Hamming and asymmetric ranking."""
    modes = "hamming", "asymmetric"
    made = [cells_of(load(data), kind, n_bits, modes, n_items, FIRST + seed) for seed in range(2)]
    return {
        mode: np.hstack(summary(cells)) for mode, cells in zip(modes, zip(*made, strict=True), strict=True)
    }


def row(data, n_items, kind, n_bits, mode, slow):
    name = f"{data} {n_items:,} {kind} {n_bits:,} {mode}"
    return Claim(
        PAGE,
        rf"\| {name} \| ([^\n]*) % \|",
        lambda: coverage(data, n_items, kind, n_bits)[mode],
        tolerance=POINTS,
        slow=slow,
    )


def condition(name, kind):
    """Shares and biases of a line of the second table."""

    def compute():
        data = datasets.mnist(Path(os.environ["BILSH_DATA"]) / "mnist")
        with warnings.catch_warnings(action="ignore"):
            runs = [
                hit_conditions.CONDITIONS[name](np.asarray(data.X, np.float32), data.labels, kind, 30 + seed)
                for seed in range(2)
            ]
        line = hit_conditions.line(name, kind, runs).split(f"| {kind} |")[1]
        return [float(number) for number in re.findall(r"[-+]?\d+(?:\.\d+)?", line)]

    return Claim(
        PAGE,
        rf"\| {re.escape(name)} \| {kind} \| (.*?) % \|\n".replace("\\ ", " "),
        compute,
        tolerance=POINTS,
        slow=True,
    )


def pairs(data, preset, n_bits, n_encoders, slow):
    def compute():
        X, rng = load(data).astype(np.float64), np.random.default_rng(n_bits)
        seeds = range(500, 500 + n_encoders)
        return 100 * pair_coverage.covered(X, preset, n_bits, seeds, rng).mean(axis=0)

    return Claim(
        PAGE, rf"\| `{preset}`, {data} \| {n_bits:,} \| (.*?) \|\n", compute, tolerance=POINTS, slow=slow
    )


@cache
def near_duplicates(data, n_items, kind, n_bits):
    """Rows of Hamming and asymmetric ranking."""
    if data == "words" and not (Path(os.environ["BILSH_DATA"]) / "glove.npy").exists():
        pytest.skip("words are not in BILSH_DATA (make text-data)")
    modes, seeds = ("hamming", "asymmetric"), range(hit_copies.FIRST, hit_copies.FIRST + 3)
    runs = [hit_copies.copies_of(load(data), kind, n_bits, modes, n_items, seed) for seed in seeds]
    return dict(zip(modes, 100 * np.mean(runs, axis=0), strict=True))


def copies(data, n_items, kind, n_bits, mode, slow):
    return Claim(
        PAGE,
        rf"\| {data} {n_items:,} {kind} {n_bits:,} {mode} \| ([\d /]*) \|\n",
        lambda: near_duplicates(data, n_items, kind, n_bits)[mode],
        tolerance=POINTS,
        slow=slow,
    )


def in_the_picture():
    """Queries that are shown, and how many intervals of pairs and of hits hold the truth."""
    truth, *intervals = hit_picture.measured()
    return [len(truth), *(hit_picture.held(truth, one).sum() for one in intervals)]


CLAIMS = [
    Claim(
        PAGE,
        r"the first (\d+) queries .*? exact angle of (\d+) best hits, the hit's of (\d+)",
        in_the_picture,
        tolerance=1,
        slow=True,
    ),
    Claim(
        PAGE,
        r"it covers (\d+) % instead of 95 for angle codes of 64 bits",
        lambda: coverage("MNIST", 20_000, "angle", 64)["hamming"][6:7],
        tolerance=POINTS,
        slow=True,
    ),
    row("digits", 1000, "angle", 64, "hamming", slow=False),
    row("digits", 1000, "angle", 64, "asymmetric", slow=False),
    *(
        row(data, n_items, kind, n_bits, mode, slow=True)
        for data, n_items, kind, n_bits in (
            ("MNIST", 1000, "kernel", 256),
            ("MNIST", 20_000, "angle", 64),
            ("MNIST", 60_000, "kernel", 64),
        )
        for mode in ("hamming", "asymmetric")
    ),
    *(copies("digits", 1000, "kernel", 1024, mode, slow=False) for mode in ("hamming", "asymmetric")),
    *(copies("words", 20_000, "kernel", 64, mode, slow=True) for mode in ("hamming", "asymmetric")),
    condition("plain", "kernel"),
    condition("filter: one class", "angle"),
    condition("prefix of 1,024 bits", "kernel"),
    condition("calibrated on the store", "kernel"),
    pairs("digits", "blsh_sik, m = 1", 512, 6, slow=False),
    pairs("digits", "AngleEncoder", 8192, 6, slow=True),
    pairs("MNIST", "bilinear_angle", 512, 3, slow=True),
]
