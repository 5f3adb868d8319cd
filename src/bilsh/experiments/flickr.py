"""Precision-recall of the paper's codes on VLAD of photographs, and near-duplicate retrieval: Figure 6."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bilsh.experiments import mnist, plots
from bilsh.experiments.base import (
    NOTE,
    Done,
    Estimate,
    Experiment,
    Finding,
    Part,
    Row,
    Rows,
    Tables,
    all_rows,
    averaged,
    column,
    distinct,
    select,
    student,
    verdict,
)
from bilsh.experiments.duplicates import Candidate, duplicate_rows, exact_rows
from bilsh.experiments.inputs import Inputs
from bilsh.experiments.retrieval import DENSE, Protocol, bilinear_name, paper_encoder


@dataclass(frozen=True, slots=True)
class Config:
    """Protocol, lengths, oversamplings; copies of photographs and the lengths they are searched with."""

    protocol: Protocol = field(default_factory=lambda: Protocol("photographs"))
    bits: tuple[int, ...] = (4900, 6400)
    oversamplings: tuple[int, ...] = (1, 2, 5, 10)
    n_copies: int = 300
    copy_bits: tuple[int, ...] = (256, 1024, 4096)
    copy_repetitions: int = 5

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

    methods = (DENSE, bilinear_name(1), bilinear_name(5))
    candidates = [Candidate(method, partial(make, method)) for method in methods]
    return duplicate_rows(data, config.n_copies, candidates, config.copy_bits, seed, inputs)


def combine(config: Config, done: Done) -> Tables:
    """Curves as on MNIST, and the table of near-duplicates."""
    retrieval = {part: rows for part, rows in done.items() if part[0] != "copies"}
    copies = all_rows({part: rows for part, rows in done.items() if part[0] == "copies"})
    tables = mnist.combine(config.retrieval, retrieval)
    return tables | {"copies": averaged(copies, ("copy", "method", "bits"), ("recall_at_1",))}


def plot(tables: Tables) -> Any:
    """Recall of near-duplicates against bits, then precision-recall panels."""
    lengths = distinct(tables["curves"], "bits")
    kinds = distinct(tables["copies"], "copy")
    figure, axes = plots.panels(1, len(lengths) + len(kinds))
    for panel, kind in zip(axes[0], kinds, strict=False):
        draw_copies(panel, select(tables["copies"], copy=kind))
        longest = max(bits for bits in column(tables["copies"], "bits") if bits is not None)
        best = max(select(tables["copies"], copy=kind, bits=longest), key=lambda row: row["recall_at_1"])
        panel.set(title=f"copies, {kind}: {best['recall_at_1']:.0%}\nfound first with {longest:,} bits")
    for panel, bits in zip(axes[0, len(kinds) :], lengths, strict=True):
        rows = select(tables["curves"], bits=bits)
        plots.precision_recall_panel(panel, rows, mnist.panel_title(tables["map"], bits), legend=False)
    axes[0, len(kinds)].set(ylabel="precision")
    axes[0, len(kinds)].legend(loc="upper right")
    return figure


def draw_copies(panel: Any, rows: Rows) -> None:
    """Recall at rank 1 against bits; exact distance as a level line."""
    methods = [method for method in distinct(rows, "method") if method != "exact distance"]
    for row in select(rows, method="exact distance"):
        panel.axhline(row["recall_at_1"], color="gray", linestyle=":", label="exact distance")
    for method in methods:
        line = select(rows, method=method)
        style = plots.method_style(method)
        panel.errorbar(
            column(line, "bits"), column(line, "recall_at_1"), column(line, "recall_at_1_std"),
            marker="o", markersize=4, capsize=3, label=method, **style,
        )  # fmt: skip
    panel.set(xscale="log", xlabel="bits", ylabel="recall at rank 1", ylim=(0, 1.03))
    lengths = [bits for bits in distinct(rows, "bits") if bits is not None]
    panel.set_xticks(lengths, [f"{bits:,}" for bits in lengths])
    panel.minorticks_off()
    panel.legend(loc="lower right")


def findings(tables: Tables) -> list[Finding]:
    """The paper's conclusions as on MNIST, and what the ground truth is worth here."""
    best = max(tables["map"], key=lambda row: row["map"])
    exact = {row["copy"]: row["recall_at_1"] for row in select(tables["copies"], method="exact distance")}
    longest = max(bits for bits in column(tables["copies"], "bits") if bits is not None)
    found = select(tables["copies"], bits=longest)
    return [
        *mnist.findings(tables),
        Finding(
            "What a true neighbour is worth here (the paper is silent).",
            f"The best mean average precision of all codes is {best['map']:.3f} ({best['method']}, {best['bits']:,} "
            "bits): under the rule “closer than the mean distance to the 50th neighbour”, hardly any photograph has "
            "neighbours that a code could tell from the rest."
            if best["map"] < 0.5
            else f"The best mean average precision of all codes is {best['map']:.3f} ({best['method']}, "
            f"{best['bits']:,} bits).",
            NOTE,
        ),
        Finding(
            "A copy finds its original first, as it does by exact distance (within 0.02).",
            f"Recall at rank 1 with {longest:,} bits: "
            + "; ".join(map(copy_text, found))
            + ". By exact distance: "
            + "; ".join(f"{kind} {recall:.3f}" for kind, recall in exact.items())
            + ".",
            verdict([copy_estimate(row).above(exact[row["copy"]] - 0.02) for row in found]),
        ),
    ]


def copy_estimate(row: Row) -> Estimate:
    """Recall of copies with its error over repetitions."""
    n = row["repetitions"]
    return Estimate(row["recall_at_1"], student(n - 1) * row["recall_at_1_std"] / n**0.5)


def copy_text(row: Row) -> str:
    """Recall of copies in words."""
    found = copy_estimate(row)
    return f"{row['copy']}, {row['method']} {found.value:.3f} ± {found.error:.3f}"


EXPERIMENT = Experiment(
    name="flickr",
    title="Precision-recall on VLAD of photographs",
    about="Figure 6 of the paper: VLAD descriptors as matrices (500 centres: 250 x 256). First, a copy of a "
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
    kept=("map", "copies", "protocol"),
    revision=3,
)
