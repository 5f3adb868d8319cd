"""Pictures of the scaling curves."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from bilsh.benchmark.measure import Timing

AXES = {
    "scaling-k": "bits k",
    "scaling-d": "dimension d",
    "scaling-n": "descriptors in a batch",
    "scaling-codes": "stored codes of 512 bits",
}

CELLS_STYLE = {
    "cells": ("#009E73", "-"),
    "progressive": ("#0072B2", "-"),
    "full scan": ("#222222", "-"),
    "FAISS BinaryIVF": ("#D55E00", "--"),
    "FAISS BinaryHNSW": ("#E69F00", "--"),
    "usearch HNSW": ("#CC79A7", "--"),
}
"""Colours of :mod:`bilsh.experiments.plots`, which a test compares; ours solid."""


def draw(timings: Sequence[Timing], path: Path) -> bool:
    """Draw time per item against k, d, n and the number of stored codes, ours solid; say whether it was possible.

    Without matplotlib, or without the curves, nothing is drawn.
    """
    drawn = [section for section in AXES if any(t.section == section for t in timings)]
    if not drawn or find_spec("matplotlib") is None:
        return False
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 8), layout="constrained")
    for section, axes in zip(drawn, figure.subplots(2, 2).flat, strict=False):
        own = [t for t in timings if t.section == section and t.seconds is not None]
        for contestant in dict.fromkeys(t.contestant for t in own):
            points = [
                (int(t.case), 1e6 * (t.seconds or 0) / t.items) for t in own if t.contestant == contestant
            ]
            solid = contestant.startswith(("ours", "bilinear", "Hadamard"))
            axes.plot(
                *zip(*points, strict=True), marker="o", label=contestant, linestyle="-" if solid else "--"
            )
        axes.set(xscale="log", yscale="log", xlabel=AXES[section], ylabel="microseconds per item")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=100)
    return True


def growing(timings: Sequence[Timing]) -> dict[int, list[Timing]]:
    """Timings by number of items: of shifted images at recall .95, by the codes that have most such numbers."""
    sizes: dict[str, dict[int, list[Timing]]] = {}
    for t in timings:
        if t.section == "cells" and t.seconds is not None and t.case.startswith("shifted"):
            kind, bits, recall = t.case.split(", ")
            if recall == "recall 0.95":
                sizes.setdefault(bits, {}).setdefault(int(kind.split()[1]), []).append(t)
    return max(sizes.values(), key=len, default={})


def draw_cells(timings: Sequence[Timing], path: Path) -> bool:
    """Draw time per query against the number of items, alone and in batches; say whether it was possible."""
    by_n = growing(timings)
    if not by_n or find_spec("matplotlib") is None:
        return False
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    for items, axes in zip(
        sorted({t.items for some in by_n.values() for t in some}),
        figure.subplots(1, 2, sharey=True).flat,
        strict=False,
    ):
        for contestant, (colour, line) in CELLS_STYLE.items():
            points = [
                (n, 1e3 * (t.seconds or 0) / items)
                for n, some in sorted(by_n.items())
                for t in some
                if t.contestant == contestant and t.items == items
            ]
            if points:
                axes.plot(
                    *zip(*points, strict=True), marker="o", label=contestant, color=colour, linestyle=line
                )
        title = "one query at a time" if items == 1 else f"{items} queries together"
        axes.set(xscale="log", yscale="log", xlabel="items", title=title)
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("ms per query")
    figure.axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=100)
    return True
