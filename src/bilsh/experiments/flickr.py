"""Precision-recall of the paper's codes on VLAD of photographs, and near-duplicate retrieval: Figure 6."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bilsh.experiments import mnist, plots
from bilsh.experiments.base import (
    NOTE,
    Done,
    Experiment,
    Finding,
    Part,
    Rows,
    Tables,
    all_rows,
    averaged,
    column,
    distinct,
    select,
)
from bilsh.experiments.duplicates import Candidate, duplicate_rows, exact_rows
from bilsh.experiments.inputs import Inputs
from bilsh.experiments.retrieval import SINGLE, Protocol, bilinear_name, paper_encoder


@dataclass(frozen=True, slots=True)
class Config:
    """Protocol, lengths, oversamplings; copies of photographs and the lengths they are searched with."""

    protocol: Protocol = field(default_factory=lambda: Protocol("photographs"))
    bits: tuple[int, ...] = (4900, 6400)
    oversamplings: tuple[int, ...] = (1, 2, 5, 10)
    n_copies: int = 300
    copy_bits: tuple[int, ...] = (256, 1024, 4096)
    copy_repetitions: int = 2

    @property
    def retrieval(self) -> mnist.Config:
        """The part that is the same as on MNIST."""
        return mnist.Config(self.protocol, self.bits, self.oversamplings)


def parts(config: Config) -> list[Part]:
    """Near-duplicates first (they are cheap), then one part per repetition and code length."""
    copies: list[Part] = [("copies", "exact")]
    copies += [("copies", r) for r in range(config.copy_repetitions)]
    return [*copies, *mnist.parts(config.retrieval)]


def measure(config: Config, part: Part, inputs: Inputs, done: Done) -> Rows:
    """Curves at one code length in one repetition, or one repetition of near-duplicate retrieval."""
    if part[0] != "copies":
        return mnist.measure(config.retrieval, part, inputs, done)
    data = config.protocol.data
    if part[1] == "exact":
        return exact_rows(data, config.n_copies, inputs)
    seed = config.protocol.seed + int(part[1])
    bandwidth = config.protocol.truth(inputs, 0).threshold

    def make(method: str, n_bits: int, seed: int) -> Any:
        return paper_encoder(method, n_bits, bandwidth, seed, inputs.jobs)

    methods = (SINGLE, bilinear_name(1), bilinear_name(5))
    candidates = [Candidate(method, partial(make, method)) for method in methods]
    return duplicate_rows(data, config.n_copies, candidates, config.copy_bits, seed, inputs)


def combine(config: Config, done: Done) -> Tables:
    """Curves as on MNIST, and the table of near-duplicates."""
    retrieval = {part: rows for part, rows in done.items() if part[0] != "copies"}
    copies = all_rows({part: rows for part, rows in done.items() if part[0] == "copies"})
    tables = mnist.combine(config.retrieval, retrieval)
    return tables | {"copies": averaged(copies, ("copy", "method", "bits"), ("recall_at_1",))}


def plot(tables: Tables) -> Any:
    """Precision-recall panels, then recall of near-duplicates against bits."""
    lengths = distinct(tables["curves"], "bits")
    kinds = distinct(tables["copies"], "copy")
    figure, axes = plots.panels(1, len(lengths) + len(kinds))
    for i, bits in enumerate(lengths):
        rows = select(tables["curves"], bits=bits)
        plots.precision_recall_panel(axes[0, i], rows, f"{bits:,} bits", legend=False)
    axes[0, 0].set(ylabel="precision")
    axes[0, 0].legend(loc="upper right")
    for panel, kind in zip(axes[0, len(lengths) :], kinds, strict=True):
        draw_copies(panel, select(tables["copies"], copy=kind))
        panel.set(title=f"near-duplicates: {kind}")
    return figure


def draw_copies(panel: Any, rows: Rows) -> None:
    """Recall at rank 1 against bits; exact distance as a level line."""
    methods = [method for method in distinct(rows, "method") if method != "exact distance"]
    for row in select(rows, method="exact distance"):
        panel.axhline(row["recall_at_1"], color="gray", linestyle=":", label="exact distance")
    for method in methods:
        line = select(rows, method=method)
        style = plots.method_style(method, methods)
        panel.errorbar(
            column(line, "bits"), column(line, "recall_at_1"), column(line, "recall_at_1_std"),
            marker="o", markersize=4, label=method, **style,
        )  # fmt: skip
    panel.set(xscale="log", xlabel="bits", ylabel="recall at rank 1", ylim=(0, 1.03))
    lengths = [bits for bits in distinct(rows, "bits") if bits is not None]
    panel.set_xticks(lengths, [f"{bits:,}" for bits in lengths])
    panel.minorticks_off()
    panel.legend(loc="lower right")


def findings(tables: Tables) -> list[Finding]:
    """The paper's conclusions as on MNIST, and what the ground truth is worth here."""
    best = max(tables["map"], key=lambda row: row["map"])
    exact = select(tables["copies"], method="exact distance")
    longest = max(bits for bits in column(tables["copies"], "bits") if bits is not None)
    found = [row for row in tables["copies"] if row["bits"] == longest]
    return [
        *mnist.findings(tables),
        Finding(
            "What a true neighbour is worth here (the paper is silent).",
            "Unrelated photographs are nearly equidistant in VLAD space, so under the rule “closer than the mean "
            "distance to the 50th neighbour” precision is low for any hash; "
            f"the best mean average precision is {best['map']:.3f} "
            f"({best['method']}, {best['bits']:,} bits). Read these curves with that in mind.",
            NOTE,
        ),
        Finding(
            "Near-duplicates are the sane test: a copy should find its original first.",
            f"Recall at rank 1 with {longest:,} bits: "
            + "; ".join(f"{row['copy']}, {row['method']} {row['recall_at_1']:.3f}" for row in found)
            + ". By exact distance: "
            + "; ".join(f"{row['copy']} {row['recall_at_1']:.3f}" for row in exact)
            + ".",
            NOTE,
        ),
    ]


EXPERIMENT = Experiment(
    name="flickr",
    title="Precision-recall on VLAD of photographs",
    about="Figure 6 of the paper: VLAD descriptors as matrices (500 centres: 250 x 256). Right: a copy of a "
    "photograph, at half size or cropped, searches its original among all.",
    errata=(
        *mnist.ERRATA[:2],
        "The paper's 45,000 photographs are not published as such; any folder serves. Curves depend on the collection.",
    ),
    configs={
        "quick": Config(
            Protocol("generated", n_queries=60, neighbor=20, repetitions=2),
            bits=(900, 1600),
            n_copies=60,
            copy_bits=(64, 256, 1024),
        ),
        "full": Config(),
    },
    data=lambda config: (config.protocol.data,),
    parts=parts,
    measure=measure,
    combine=combine,
    plot=plot,
    findings=findings,
)
