"""What the tables of "beyond the paper" say: their picture and their findings."""

from __future__ import annotations

from typing import Any

from bilsh.experiments import plots
from bilsh.experiments.base import (
    NOTE,
    Estimate,
    Finding,
    Row,
    Rows,
    Tables,
    column,
    difference,
    distinct,
    select,
    verdict,
)
from bilsh.experiments.flickr import copy_text, draw_copies
from bilsh.experiments.peers import NEEDS_FAISS, counts_hamming
from bilsh.experiments.variants import (
    ASYMMETRIC,
    BALANCED,
    DENSE,
    HAMMING,
    OURS,
    PAPER,
    RANDOM,
    SCRAMBLED,
)


def plot(tables: Tables) -> Any:
    """Equal bits, equal time, peers by both kinds of queries, near-duplicates; each title says what the panel shows."""
    figure, axes = plots.panels(3, 2, width=6.4, height=4.3)
    _plot_bits(axes[0, 0], tables["bits"])
    _plot_time(axes[0, 1], tables["time"])
    for panel, hamming in ((axes[1, 0], False), (axes[1, 1], True)):
        _plot_peers(
            panel, [row for row in tables["peers"] if counts_hamming(row["method"]) == hamming], hamming
        )
    kind = distinct(tables["copies"], "copy")[0]
    rows = select(tables["copies"], copy=kind)
    draw_copies(axes[2, 0], rows)
    axes[2, 0].get_legend().remove()
    axes[2, 1].set_axis_off()
    axes[2, 1].legend(*axes[2, 0].get_legend_handles_labels(), loc="center left")
    shortest = min(bits for bits in column(rows, "bits") if bits is not None)
    best = max(select(rows, bits=shortest), key=lambda row: row["recall_at_1"])
    axes[2, 0].set(
        title=f"Near-duplicates ({kind}), {shortest} bits:\n{best['method']} finds {best['recall_at_1']:.0%}"
    )
    return figure


def _plot_bits(panel: Any, rows: Rows) -> None:
    shown = (
        *((method, HAMMING) for method in (DENSE, PAPER, RANDOM, BALANCED, SCRAMBLED, OURS)),
        (OURS, ASYMMETRIC),
    )
    lengths = distinct(rows, "bits")
    panel.set(xscale="log", xlabel="bits", ylabel="mean average precision ± std")
    panel.set_xlim(0.9 * lengths[0], 5 * lengths[-1])
    panel.set_xticks(lengths, [f"{bits:,}" for bits in lengths])
    panel.minorticks_off()
    for method, query in shown:
        line = select(rows, method=method, query=query)
        label = method if query == HAMMING else f"{method}, asymmetric"
        plots.line_with_error(panel, line, "bits", "map", column(line, "map_std"), label)
    panel.get_figure().canvas.draw()
    plots.label_lines(panel)
    middle = lengths[len(lengths) // 2]
    gain = _gain(rows, (OURS, HAMMING), (DENSE, HAMMING), middle)
    panel.set(title=f"Equal bits: our default {gain}\nagainst dense at {middle:,} bits")


def _plot_time(panel: Any, rows: Rows) -> None:
    methods = distinct(rows, "method")[::-1]
    for query, shift, colour in ((HAMMING, 0.2, plots.BLUE), (ASYMMETRIC, -0.2, plots.SKY)):
        line = [select(rows, method=method, query=query)[0] for method in methods]
        places = [i + shift for i in range(len(methods))]
        panel.barh(
            places, column(line, "map"), xerr=column(line, "map_std"), height=0.36, color=colour, label=query,
            capsize=2, error_kw={"elinewidth": 1},
        )  # fmt: skip
    labels = []
    for method in methods:
        row = select(rows, method=method)[0]
        labels.append(f"{method}\n{row['bits']:,} bits, {row['microseconds']:.1f} µs")
    panel.set_yticks(range(len(methods)), labels, fontsize=7)
    panel.grid(axis="y", visible=False)
    limit = rows[0]["reference_microseconds"]
    best = max(select(rows, query=HAMMING), key=lambda row: row["map"])
    title = f"At most {limit:.1f} µs per item:\n{best['method']} leads with {best['map']:.2f}"
    panel.set(xlabel="mean average precision ± std", title=title, xlim=(0, 1))
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.11), ncols=2)


def _plot_peers(panel: Any, rows: Rows, hamming: bool) -> None:
    sizes = sorted(distinct(rows, "bytes"))
    lowest = min(column(rows, "recall_at_10"))
    panel.set(xscale="log", xlabel="bytes per item", ylabel="recall@10 ± two standard errors")
    panel.set_ylim(max(0.0, lowest - 0.05), min(1.02, max(column(rows, "recall_at_10")) + 0.05))
    panel.set_xlim(0.9 * sizes[0], 2.6 * sizes[-1])
    panel.set_xticks(sizes, [str(size) for size in sizes])
    panel.minorticks_off()
    for method in distinct(rows, "method"):
        line = select(rows, method=method)
        error = [2 * value for value in column(line, "standard_error")]
        plots.line_with_error(panel, line, "bytes", "recall_at_10", error, method)
    panel.get_figure().canvas.draw()
    plots.label_lines(panel)
    best = max(select(rows, bytes=sizes[0]), key=lambda row: row["recall_at_10"])
    kind = "Hamming distance" if hamming else "real-valued queries"
    panel.set(
        title=f"Equal bytes, {kind}:\n{best['method']} finds most at {sizes[0]} B ({best['recall_at_10']:.2f})"
    )


def _gain(rows: Rows, better: tuple[str, str], worse: tuple[str, str], bits: int) -> Estimate:
    a, b = (select(rows, method=m, query=q, bits=bits)[0] for m, q in (better, worse))
    return difference(a, b, "map")


STEPS = (
    (
        "Scrambling and orthogonal factors at m = 1 match the dense projection (within 0.02).",
        (SCRAMBLED, HAMMING),
        (DENSE, HAMMING),
        -0.02,
    ),
    (
        "Zero thresholds find neighbours better than random ones.",
        (OURS, HAMMING),
        (SCRAMBLED, HAMMING),
        0.0,
    ),
    ("An asymmetric query improves the same stored bits.", (OURS, ASYMMETRIC), (OURS, HAMMING), 0.0),
    (
        "A balanced design is at least as good as Algorithm 1's random subset (within 0.02).",
        (BALANCED, HAMMING),
        (RANDOM, HAMMING),
        -0.02,
    ),
)
"""Claim, better and worse (method, query), and the gain that it must exceed."""


def findings(tables: Tables) -> list[Finding]:
    """What each change brings, what wins at equal time, and where peers win."""
    lengths = distinct(tables["bits"], "bits")
    result = []
    for claim, better, worse, least in STEPS:
        gains = [_gain(tables["bits"], better, worse, bits) for bits in lengths]
        told = "; ".join(f"{gain} at {bits:,} bits" for gain, bits in zip(gains, lengths, strict=True))
        result.append(
            Finding(claim, f"Mean average precision: {told}.", verdict([gain.above(least) for gain in gains]))
        )
    result += [_time_finding(tables["time"]), *peer_findings(tables["peers"])]
    longest = max(bits for bits in column(tables["copies"], "bits") if bits is not None)
    kind = distinct(tables["copies"], "copy")[0]
    found = sorted(select(tables["copies"], copy=kind, bits=longest), key=lambda row: -row["recall_at_1"])
    named = {row["method"]: row for row in found}
    lead = difference(named["sign, asymmetric"], named["kernel, asymmetric"], "recall_at_1")
    result.append(
        Finding(
            "On unit-norm VLAD, sign codes with asymmetric queries find near-duplicates better than kernel codes.",
            f"Recall at rank 1 with {longest:,} bits: "
            + "; ".join(map(copy_text, found))
            + f". Sign minus kernel, both asymmetric: {lead}.",
            verdict([lead.above(0.0)]),
        )
    )
    return result


def _time_finding(rows: Rows) -> Finding:
    hamming = select(rows, query=HAMMING)
    dense: Row = select(hamming, method=DENSE)[0]
    best = sorted(hamming, key=lambda row: -row["map"])[:3]
    gains = [difference(row, dense, "map") for row in best if row is not dense]
    return Finding(
        "In the time of the dense projection, structured projections find more.",
        f"Best by Hamming distance in at most {dense['reference_microseconds']:.1f} µs per item: "
        + "; ".join(
            f"{r['method']} ({r['bits']:,} bits, {r['microseconds']:.1f} µs) {r['map']:.3f}" for r in best
        )
        + f"; dense as in the paper ({dense['bits']:,} bits) {dense['map']:.3f}.",
        verdict([gain.above(0.0) for gain in gains] if gains else [False]),
    )


def peer_findings(rows: Rows) -> list[Finding]:
    """Where our best code wins against each peer, and where it loses, beyond two standard errors.

    Hamming distances are compared with Hamming distances, real-valued queries with real-valued queries.
    """
    ours = [m for m in distinct(rows, "method") if m.startswith("ours")]
    theirs = [m for m in distinct(rows, "method") if not m.startswith("ours")]
    texts = []
    for peer in theirs:
        words: dict[bool | None, list[str]] = {True: [], False: [], None: []}
        for row in select(rows, method=peer):
            alike = [m for m in ours if counts_hamming(m) == counts_hamming(peer)]
            own = [r for m in alike for r in select(rows, method=m, bytes=row["bytes"])]
            best = max(own, key=lambda r: r["recall_at_10"])
            error = 2 * (best["standard_error"] ** 2 + row["standard_error"] ** 2) ** 0.5
            lead = Estimate(best["recall_at_10"] - row["recall_at_10"], error)
            words[lead.above(0.0)].append(
                f"{row['bytes']} B ({best['recall_at_10']:.3f} against {row['recall_at_10']:.3f})"
            )
        phrases = {True: "our best code wins at", False: "loses at", None: "is level at"}
        told = [f"{phrases[key]} {', '.join(found)}" for key, found in words.items() if found]
        texts.append(f"{peer}: {' and '.join(told)}")
    missing = "" if "PQ" in theirs else f" {NEEDS_FAISS}"
    return [
        Finding(
            "Against peers with equal bytes, recall@10 of exact neighbours, no re-ranking.",
            ". ".join(texts) + "." + missing,
            NOTE,
        )
    ]
