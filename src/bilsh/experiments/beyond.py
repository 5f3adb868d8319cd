"""What came after the paper: our variants at equal bits and at equal time, and peers at equal bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import bilsh
from bilsh.encoders.base import Encoder
from bilsh.evaluation import mean_average_precision
from bilsh.experiments import plots
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
    verdict,
)
from bilsh.experiments.duplicates import Candidate, duplicate_rows, exact_rows
from bilsh.experiments.flickr import draw_copies
from bilsh.experiments.inputs import Inputs
from bilsh.experiments.peers import NEEDS_FAISS, peer_rows
from bilsh.experiments.retrieval import FIT_ROWS, Protocol, best_seconds, fitted, ranked

DENSE, PAPER, OURS = (
    "dense, as in the paper",
    "bilinear m=1, as in the paper",
    "scrambled, orthogonal, zero thresholds",
)
SCRAMBLED, SIGN = "scrambled, orthogonal", "sign, scrambled, orthogonal"
BALANCED, RANDOM = "bilinear m=5, balanced design", "bilinear m=5, as in the paper"
HAMMING, ASYMMETRIC = "Hamming", "asymmetric"


@dataclass(frozen=True, slots=True)
class Config:
    """Protocol and lengths of our variants; bytes of the peers; copies of photographs."""

    protocol: Protocol = field(default_factory=lambda: Protocol("mnist-20000", repetitions=3))
    bits: tuple[int, ...] = (400, 784, 1600, 2500)
    time_bits: tuple[int, ...] = (64, 100, 196, 400, 784, 1225, 1600, 2500, 3600, 4900)
    reference_bits: int = 400
    n_items: int = 1000
    repeats: int = 5
    peers_data: str = "mnist"
    peer_bytes: tuple[int, ...] = (32, 64, 98, 128)
    peer_queries: int = 500
    copies_data: str = "photographs"
    n_copies: int = 300
    copy_bits: tuple[int, ...] = (256, 512, 1024)


def variants(bandwidth: float, jobs: int = 1) -> dict[str, Callable[[int, int], Encoder]]:
    """Return encoders by name, as functions of (bits, seed): the paper's, then one change after another."""

    def kernel(projection: Any, thresholds: str = "zero") -> Callable[[int, int], Encoder]:
        return lambda bits, seed: bilsh.KernelEncoder(
            bits,
            bandwidth=bandwidth,
            thresholds=thresholds,
            quadrature=False,
            projection=projection,
            random_state=seed,
            n_jobs=jobs,
        )

    def bilinear(m: int = 1, *, orthogonal: bool, scramble: bool, design: str = "grid") -> Any:
        return bilsh.Bilinear(m, design=design, orthogonal=orthogonal, scramble=scramble)

    plain: dict[str, Any] = {"orthogonal": False, "scramble": False}
    return {
        DENSE: kernel(bilsh.Dense(), "random"),
        PAPER: kernel(bilinear(**plain), "random"),
        RANDOM: kernel(bilinear(5, design="random", **plain), "random"),
        BALANCED: kernel(bilinear(5, design="balanced", **plain), "random"),
        "orthogonal": kernel(bilinear(orthogonal=True, scramble=False), "random"),
        "scrambled": kernel(bilinear(orthogonal=False, scramble=True), "random"),
        SCRAMBLED: kernel(bilinear(orthogonal=True, scramble=True), "random"),
        OURS: kernel(bilinear(orthogonal=True, scramble=True)),
        "dense, zero thresholds": kernel(bilsh.Dense()),
        "circulant, zero thresholds": kernel(bilsh.Circulant()),
        "Hadamard, zero thresholds": kernel(bilsh.Hadamard()),
        SIGN: lambda bits, seed: bilsh.AngleEncoder(bits, random_state=seed, n_jobs=jobs),
    }


def parts(config: Config) -> list[Part]:
    """Timing; every repetition at equal bits and at equal time; peers by bytes; copies of photographs."""
    repetitions = range(config.protocol.repetitions)
    return [
        ("timing",),
        *(("bits", r, bits) for r in repetitions for bits in config.bits),
        *(("time", r) for r in repetitions),
        *(("peers", size) for size in config.peer_bytes),
        ("copies",),
    ]


def measure(config: Config, part: Part, inputs: Inputs, done: Done) -> Rows:
    """Measure one part; see :func:`parts`."""
    match part:
        case ("timing",):
            return _timing(config, inputs)
        case ("bits", int(repetition), int(bits)):
            return _precisions(config, repetition, dict.fromkeys(variants(1.0), bits), inputs)
        case ("time", int(repetition)):
            affordable = _affordable(config, list(done[("timing",)]))
            return _precisions(config, repetition, affordable, inputs)
        case ("peers", int(size)):
            X = inputs.data(config.peers_data).X
            threshold = config.protocol.truth(inputs, 0).threshold
            return peer_rows(X, size, threshold, min(config.peer_queries, len(X) // 5), config.protocol.seed)
        case _:
            return _copies(config, inputs)


def _timing(config: Config, inputs: Inputs) -> Rows:
    X = np.asarray(inputs.data(config.protocol.data).X[: config.n_items], dtype=np.float32)
    rows = []
    for bits in config.time_bits:
        made = {name: fitted(make(bits, 0), X) for name, make in variants(1.0).items()}
        for name, seconds in zip(made, best_seconds(list(made.values()), X, config.repeats), strict=True):
            rows.append({"method": name, "bits": bits, "microseconds": 1e6 * seconds})
    return rows


def _affordable(config: Config, timing: Rows) -> dict[str, int]:
    """Most bits of each method that take no longer than the dense projection at the reference length.

    A method whose shortest code already takes longer is left out.
    """
    limit = select(timing, method=DENSE, bits=config.reference_bits)[0]["microseconds"]
    result = {}
    for method in distinct(timing, "method"):
        within = [row["bits"] for row in select(timing, method=method) if row["microseconds"] <= limit]
        if within:
            result[method] = max(within)
    return result


def _precisions(config: Config, repetition: int, lengths: dict[str, int], inputs: Inputs) -> Rows:
    X = inputs.data(config.protocol.data).X
    truth = config.protocol.truth(inputs, repetition)
    makers = variants(truth.threshold, inputs.jobs)
    rows: Rows = []
    for method, bits in lengths.items():
        encoder = makers[method](bits, config.protocol.seed + repetition)
        fitted(encoder, X, None if encoder.kind == "angle" else FIT_ROWS)
        codes = encoder.transform(X)
        for query in (HAMMING, ASYMMETRIC):
            ranking = ranked(encoder, X, codes, truth, asymmetric=query == ASYMMETRIC, jobs=inputs.jobs)
            labels = {"method": method, "query": query, "bits": bits}
            rows.append({**labels, "map": mean_average_precision(ranking)})
    return rows


def _copies(config: Config, inputs: Inputs) -> Rows:
    truth = inputs.truth(
        config.copies_data,
        n_queries=min(300, len(inputs.data(config.copies_data).X) // 5),
        neighbor=20,
        max_neighbors=5000,
        seed=config.protocol.seed,
    )
    makers = variants(truth.threshold, inputs.jobs)
    sign = makers[SIGN]
    candidates = [
        Candidate(PAPER, makers[PAPER]),
        Candidate("kernel: " + OURS, makers[OURS]),
        Candidate("kernel, asymmetric", makers[OURS], asymmetric=True),
        Candidate("sign", sign),
        Candidate("sign, asymmetric", sign, asymmetric=True),
    ]
    found = duplicate_rows(config.copies_data, config.n_copies, candidates, config.copy_bits, 0, inputs)
    return exact_rows(config.copies_data, config.n_copies, inputs) + found


def combine(config: Config, done: Done) -> Tables:
    """Equal bits with times, equal time, peers, copies."""

    def group(kind: str) -> Rows:
        return all_rows({part: rows for part, rows in done.items() if part[0] == kind})

    timing = list(done[("timing",)])
    microseconds = {(row["method"], row["bits"]): row["microseconds"] for row in timing}
    keys = ("method", "query", "bits")
    equal_bits = averaged(group("bits"), keys, ("map",))
    equal_time = averaged(group("time"), keys, ("map",))
    for row in (*equal_bits, *equal_time):
        row["microseconds"] = microseconds.get((row["method"], row["bits"]))
    copies = averaged(group("copies"), ("copy", "method", "bits"), ("recall_at_1",))
    return {
        "bits": equal_bits,
        "time": equal_time,
        "peers": sorted(group("peers"), key=lambda row: (row["method"], row["bytes"])),
        "copies": copies,
        "timing": timing,
    }


def plot(tables: Tables) -> Any:
    """Equal bits, equal time, peers, near-duplicates."""
    figure, axes = plots.panels(2, 2, width=5.6, height=4.4)
    _plot_bits(axes[0, 0], tables["bits"])
    _plot_time(axes[0, 1], tables["time"])
    _plot_peers(axes[1, 0], tables["peers"])
    kind = distinct(tables["copies"], "copy")[0]
    draw_copies(axes[1, 1], select(tables["copies"], copy=kind))
    axes[1, 1].legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)
    axes[1, 1].set(title=f"VLAD near-duplicates: {kind}")
    return figure


def _plot_bits(panel: Any, rows: Rows) -> None:
    shown = (
        (DENSE, HAMMING, {"color": plots.BLACK, "linestyle": "--"}),
        (PAPER, HAMMING, {"color": plots.BLUE, "linestyle": "--"}),
        (RANDOM, HAMMING, {"color": plots.RED, "linestyle": "--"}),
        (BALANCED, HAMMING, {"color": plots.ORANGE, "linestyle": "--"}),
        (SCRAMBLED, HAMMING, {"color": plots.SKY}),
        (OURS, HAMMING, {"color": plots.GREEN}),
        (OURS, ASYMMETRIC, {"color": plots.PURPLE}),
    )
    for method, query, style in shown:
        line = select(rows, method=method, query=query)
        label = method if query == HAMMING else "... + asymmetric query"
        panel.plot(column(line, "bits"), column(line, "map"), marker="o", markersize=4, label=label, **style)
    lengths = distinct(rows, "bits")
    panel.set(xscale="log", xlabel="bits", ylabel="mean average precision", title="Equal bits")
    panel.set_xticks(lengths, [f"{bits:,}" for bits in lengths])
    panel.minorticks_off()
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.11), ncols=2)


def _plot_time(panel: Any, rows: Rows) -> None:
    methods = distinct(rows, "method")[::-1]
    for query, shift, colour in ((HAMMING, 0.2, plots.BLUE), (ASYMMETRIC, -0.2, plots.PURPLE)):
        line = [select(rows, method=method, query=query)[0] for method in methods]
        places = [i + shift for i in range(len(methods))]
        panel.barh(places, column(line, "map"), height=0.36, color=colour, label=query, alpha=0.85)
    labels = [f"{method}\n{select(rows, method=method)[0]['bits']:,} bits" for method in methods]
    panel.set_yticks(range(len(methods)), labels, fontsize=7)
    panel.grid(axis="y", visible=False)
    panel.set(xlabel="mean average precision", title="Equal encoding time", xlim=(0, 1))
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.11), ncols=2)


def _plot_peers(panel: Any, rows: Rows) -> None:
    methods = distinct(rows, "method")
    for i, method in enumerate(methods):
        line = select(rows, method=method)
        ours = method.startswith("ours")
        panel.plot(
            column(line, "bytes"), column(line, "recall_at_10"),
            marker="o" if len(line) > 1 else "D", markersize=4, color=plots.CYCLE[i % len(plots.CYCLE)],
            linestyle="-" if ours else "--", label=method,
        )  # fmt: skip
    sizes = sorted(distinct(rows, "bytes"))
    panel.set(
        xscale="log",
        xlabel="bytes per item",
        ylabel="recall@10",
        title="Peers at equal bytes",
        ylim=(0, 1.02),
    )
    panel.set_xticks(sizes, [str(size) for size in sizes])
    panel.minorticks_off()
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3)


def findings(tables: Tables) -> list[Finding]:
    """What each change brings, what wins at equal time, and where peers win."""
    table = {(r["method"], r["query"], r["bits"]): r["map"] for r in tables["bits"]}
    lengths = distinct(tables["bits"], "bits")

    def gain(better: tuple[str, str], worse: tuple[str, str]) -> list[float]:
        return [table[*better, bits] - table[*worse, bits] for bits in lengths]

    def told(gains: list[float]) -> str:
        return "; ".join(f"{g:+.3f} at {b:,} bits" for g, b in zip(gains, lengths, strict=True))

    steps = (
        (
            "Scrambling and orthogonal factors at m = 1 match the dense projection (within 0.02).",
            (SCRAMBLED, HAMMING),
            (DENSE, HAMMING),
            -0.02,
        ),
        (
            "Zero thresholds carry more information per bit than random ones.",
            (OURS, HAMMING),
            (SCRAMBLED, HAMMING),
            0.0,
        ),
        ("An asymmetric query improves the same stored bits.", (OURS, ASYMMETRIC), (OURS, HAMMING), 0.0),
        (
            "A balanced design is at least as good as Algorithm 1's random subset (within 0.01).",
            (BALANCED, HAMMING),
            (RANDOM, HAMMING),
            -0.01,
        ),
    )
    result = []
    for claim, better, worse, least in steps:
        gains = gain(better, worse)
        result.append(
            Finding(claim, f"Mean average precision: {told(gains)}.", verdict([g > least for g in gains]))
        )
    best = sorted(select(tables["time"], query=HAMMING), key=lambda row: -row["map"])[:3]
    result.append(
        Finding(
            "At equal encoding time the structured projections win.",
            "Best by Hamming distance in the time of the dense projection: "
            + "; ".join(f"{r['method']} ({r['bits']:,} bits) {r['map']:.3f}" for r in best)
            + f"; dense as in the paper {select(tables['time'], method=DENSE, query=HAMMING)[0]['map']:.3f}.",
            NOTE,
        )
    )
    result += peer_findings(tables["peers"])
    longest = max(bits for bits in column(tables["copies"], "bits") if bits is not None)
    kind = distinct(tables["copies"], "copy")[0]
    found = sorted(select(tables["copies"], copy=kind, bits=longest), key=lambda row: -row["recall_at_1"])
    result.append(
        Finding(
            "On unit-norm VLAD, sign codes with asymmetric queries find near-duplicates better than kernel codes.",
            f"Recall at rank 1 with {longest:,} bits, {kind}: "
            + "; ".join(f"{r['method']} {r['recall_at_1']:.3f}" for r in found)
            + ".",
            verdict([found[0]["method"].startswith("sign")]),
        )
    )
    return result


def peer_findings(rows: Rows) -> list[Finding]:
    """Where our best code wins against each peer, and where it loses."""
    ours = [m for m in distinct(rows, "method") if m.startswith("ours")]
    theirs = [m for m in distinct(rows, "method") if not m.startswith("ours")]
    texts = []
    for peer in theirs:
        wins: list[str] = []
        losses: list[str] = []
        for row in select(rows, method=peer):
            best = max(select(rows, method=m, bytes=row["bytes"])[0]["recall_at_10"] for m in ours)
            (wins if best > row["recall_at_10"] else losses).append(
                f"{row['bytes']} B ({best:.3f} against {row['recall_at_10']:.3f})"
            )
        won = f"our best code wins at {', '.join(wins)}" if wins else ""
        lost = f"loses at {', '.join(losses)}" if losses else ""
        texts.append(f"{peer}: {' and '.join(text for text in (won, lost) if text)}")
    missing = "" if "PQ" in theirs else f" {NEEDS_FAISS}"
    return [
        Finding(
            "Against peers with equal bytes, recall@10 of exact neighbours, no re-ranking.",
            ". ".join(texts) + "." + missing,
            NOTE,
        )
    ]


EXPERIMENT = Experiment(
    name="beyond",
    title="Beyond the paper",
    about="What was learned since, by the paper's protocol: scrambling, orthogonal factors, zero thresholds, "
    "asymmetric queries, other projections and designs, at equal bits and at equal encoding time. Then peers at equal "
    "bytes (all factors counted), and near-duplicates of VLAD descriptors.",
    errata=(
        "The natural matrix structure, which the paper keeps, costs accuracy: differences of images have low effective "
        "rank. Scrambling the entries first is free and removes the loss.",
        "Bilinear angle codes do not collide with probability 1 - theta/pi; they do only approximately.",
    ),
    configs={
        "quick": Config(
            Protocol("digits", n_queries=150, repetitions=2),
            bits=(64, 128, 256, 512),
            time_bits=(16, 32, 64, 128, 256, 512, 1024),
            reference_bits=128,
            repeats=3,
            peers_data="digits",
            peer_bytes=(8, 16, 32),
            peer_queries=150,
            copies_data="generated",
            n_copies=60,
            copy_bits=(64, 256, 1024),
        ),
        "full": Config(),
    },
    data=lambda config: (config.protocol.data, config.peers_data, config.copies_data),
    parts=parts,
    measure=measure,
    combine=combine,
    plot=plot,
    findings=findings,
    timed=True,
    revision=2,
)
