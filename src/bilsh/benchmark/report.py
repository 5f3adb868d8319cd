"""What a run prints and writes: lines while it runs, JSON, CSV and Markdown tables at the end."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bilsh.benchmark import contestants_encode as enc
from bilsh.benchmark import contestants_hamming as ham
from bilsh.benchmark import targets
from bilsh.benchmark.limits import BANDWIDTH, PEAK
from bilsh.benchmark.measure import Timing
from bilsh.benchmark.targets import MEMORY, SPEEDUP, Check, Race

if TYPE_CHECKING:
    from bilsh.benchmark.program import Results

PEERS = ("FAISS BinaryIVF", "FAISS BinaryHNSW", "usearch HNSW")
FACTS = tuple(
    f"{what}, {name}"
    for what in ("recall", "per cent of rows read", "build seconds", "megabytes")
    for name in ("cells", *PEERS)
)
TOTALS = tuple(f"{targets.TOTAL}, {name}" for name in PEERS)
COLUMNS = {
    targets.ENCODE: (
        enc.LITERAL,
        enc.SELECTED,
        enc.DENSE,
        enc.RBF,
        enc.OUR_DENSE,
        enc.FAISS_LSH,
        PEAK,
        SPEEDUP,
    ),
    targets.WAYS: (
        "bilinear m=5",
        enc.DEFAULT,
        enc.HADAMARD,
        enc.CIRCULANT,
        enc.FFT,
        enc.OUR_DENSE,
        enc.DENSE,
    ),
    targets.HAMMING: (ham.FAISS, ham.USEARCH, ham.NUMKONG, ham.NUMPY, BANDWIDTH, SPEEDUP),
    targets.PROGRESSIVE: (targets.RECALL, targets.FULL_SCAN, ham.FAISS),
    targets.CELLS: (targets.CELLS_RECALL, targets.FULL_SCAN, targets.PROGRESSIVE, *PEERS, *TOTALS, *FACTS),
}

TITLES = {
    targets.ENCODE: (
        "Encoding",
        "Time of the others over the time of `blsh_sik` on the same descriptors; *sgemm peak* is the fraction of the "
        "rate of a BLAS product that our counted operations reach; *two threads* is our time with one thread over "
        "our time with two.",
    ),
    targets.WAYS: (
        "Projections",
        "Time of the bilinear projection with m = 1 over the time of the others: above 1 they are faster.",
    ),
    targets.HAMMING: (
        "Hamming scan, 50 nearest",
        "Time of the others over ours; *bandwidth* is the number of bytes compared per second over the bytes per "
        "second that can be read (above 1 with many queries, because each byte read serves several of them).",
    ),
    targets.CELLS: (
        "Cells",
        "Time of others over that of cells at the recall that was promised; others are set to that recall. Then what "
        "building and 10,000 queries in batches take together, over the same for cells; and for each the measured "
        "recall, processor seconds to build it, and megabytes by which the process grew (memory that is used again "
        "does not show; for stores, those of a process that opens and searches, beside the mapped file).",
    ),
    targets.PROGRESSIVE: (
        "Progressive search, 10 nearest",
        "Time of the others over the time of progressive search on the same codes, one thread, delta = 0.01.",
    ),
}


RESTLESS = 0.25
"""A check with a larger spread than this is no evidence."""


def number(value: float) -> str:
    """Three significant digits, whole numbers from 100 on."""
    if isnan(value):
        return "-"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f}"


def verdict(check: Check) -> str:
    """Value with its goal and whether it is met."""
    text = number(check.value)
    if check.goal is None:
        return text
    return f"{text} (goal {check.goal:g}) {'met' if check.met else 'NOT MET'}"


def heading(machine: dict[str, Any], size: str) -> str:
    """Say what is measured on what."""
    return (
        f"bilsh {machine['versions']['bilsh']} ({machine['commit']}), {size} benchmark, {machine['processor']}, "
        f"{machine['cores']} cores, {machine['instruction_set']}, load {machine['load']} before. "
        f"Ratios within this run; times are minima by the {machine['clock']} clock."
    )


def lines(race: Race, timings: Sequence[Timing], checks: Sequence[Check]) -> Iterator[str]:
    """One line per number of threads."""
    asks = race.section in (targets.HAMMING, targets.PROGRESSIVE, targets.CELLS)
    unit = "queries" if asks else "items"
    for threads in sorted({c.threads for c in checks}):
        own = [c for c in checks if c.threads == threads]
        ours = (enc.OURS, targets.CELLS if race.section == targets.CELLS else targets.PROGRESSIVE)
        spread = max(t.spread for t in timings if t.contestant in ours and t.threads == threads)
        start = f"{race.section} {race.case}, {race.items} {unit}, {threads} thread{'s' * (threads > 1)}"
        parts = [f"{c.against} {verdict(c)}" for c in own]
        yield "   ".join([f"{start:<52}", "ours 1.00", *parts, f"spread {_percent(spread)}"])


def absent(timings: Sequence[Timing]) -> list[str]:
    """Say who did not take part, and why."""
    return [f"  {t.contestant}: {t.note}" for t in timings if t.seconds is None and t.threads == 1]


def memory_line(race: Race, name: str, check: Check) -> str:
    """Growth of one child process."""
    return f"memory {race.case}, {race.items} items: {name} +{verdict(check)} MB"


def store_line(race: Race, check: Check) -> str:
    """One cost of the store, or of the page."""
    return f"{race.section}, {race.case}: {verdict(check)} {check.against}"


def scaling_line(timings: Sequence[Timing]) -> str:
    """Microseconds per item of every contestant at one point of a curve."""
    first = timings[0]
    parts = [f"{t.contestant} {number(1e6 * t.seconds / t.items)}" for t in timings if t.seconds is not None]
    return f"{first.section} {first.case}, us per item:   " + "   ".join(parts)


def summary(checks: Sequence[Check]) -> str:
    """All goals, met or not."""
    judged = [c for c in checks if c.met is not None]
    head = f"\nTargets: {sum(bool(c.met) for c in judged)} of {len(judged)} met"
    missed = [
        f"  not met: {c.what}: {c.case}, {c.items}: {number(c.value)}, goal {c.goal:g}, spread {_percent(c.spread)}"
        for c in judged
        if not c.met
    ]
    restless = sum(c.spread > RESTLESS for c in judged)
    advice = [
        f"  {restless} of these have a spread above {_percent(RESTLESS)}: the machine was busy; repeat the run."
    ]
    return "\n".join([head, *missed, *(advice if restless else [])])


# -- files -------------------------------------------------------------------------------------------


def write_json(results: Results, path: Path) -> None:
    """Write everything, for programs."""
    content = {
        "size": results.size,
        "machine": results.machine,
        "timings": [{**asdict(t), "spread": _finite(t.spread)} for t in results.timings],
        "checks": [{**asdict(c), "spread": _finite(c.spread), "met": c.met} for c in results.checks],
    }
    path.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")


def write_csv(results: Results, path: Path) -> None:
    """Write the timings, a row each, with the machine in every row so that files can be joined."""
    names = [f.name for f in fields(Timing)]
    place = {key: results.machine[key] for key in ("commit", "processor", "cores", "instruction_set")}
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*names, *place])
        writer.writeheader()
        writer.writerows({**_short(asdict(t)), **place} for t in results.timings)


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """Floats with five digits: more than a clock can promise."""
    return {name: f"{value:.5g}" if isinstance(value, float) else value for name, value in row.items()}


def _finite(value: float) -> float | None:
    return None if isnan(value) else value


def markdown(results: Results, picture: str | None = None) -> str:
    """Tables for the documentation, with a link to the picture of the curves."""
    m = results.machine
    versions = ", ".join(f"{name} {version}" for name, version in m["versions"].items())
    parts = [
        "<!-- Written by bilsh bench; do not edit. -->",
        "# Measured",
        f"{results.size} benchmark of {m['date']}, commit {m['commit']}, on {m['processor']}, {m['cores']} cores, "
        f"{m['instruction_set']}, load {m['load']} when it began, {m['clock']} clock, "
        f"{m['system']}, Python {m['python']}, {', '.join(m['blas'])}; {versions}.",
        "## Targets",
        _table(
            ("target", "case", "goal", "measured", "spread", ""),
            (
                (c.what, f"{c.case}, {c.items}", f"{c.goal:g}", number(c.value), _percent(c.spread), _met(c))
                for c in results.checks
                if c.goal is not None
            ),
        ),
    ]
    for section, (title, text) in TITLES.items():
        rows = list(_rows(results.checks, section))
        if rows:
            header = ("case", "items", "threads", *COLUMNS[section], "spread")
            parts += [f"## {title}", text, _table(header, rows)]
            parts += [f"- {note}" for note in _notes(results.timings, section)]
    grown = [c for c in results.checks if c.section == targets.MEMORY_SECTION]
    if grown:
        rows = [
            (c.case, c.against.removeprefix(f"{MEMORY}, ").replace(MEMORY, enc.OURS), verdict(c))
            for c in grown
        ]
        parts += ["## Memory", "Growth of a process while it encodes 64 descriptors, in MB."]
        parts.append(_table(("case", "encoder", "MB"), rows))
    stored = [c for c in results.checks if c.section == targets.STORE]
    if stored:
        parts += ["## Store", _table(("case", "cost", ""), [(c.case, c.against, verdict(c)) for c in stored])]
    if picture:
        parts += [
            "## Scaling",
            f"![Time per item against k, d, batch size and number of stored codes]({picture})",
        ]
    return "\n\n".join(parts) + "\n"


def _rows(checks: Iterable[Check], section: str) -> Iterator[tuple[str, ...]]:
    table: dict[tuple[str, int, int], dict[str, Check]] = {}
    for c in checks:
        if c.section == section:
            table.setdefault((c.case, c.items, c.threads), {})[c.against] = c
    for (case, items, threads), row in table.items():
        cells = [verdict(row[name]) if name in row else "" for name in COLUMNS[section]]
        spread = _percent(max(c.spread for c in row.values()))
        yield case, str(items), str(threads), *cells, spread


def _notes(timings: Iterable[Timing], section: str) -> list[str]:
    """Remarks on contestants, each once; how a limit was reached is in the raw results."""
    notes = (f"{t.contestant}: {t.note}" for t in timings if t.section == section and t.note)
    return [note for note in dict.fromkeys(notes) if not note.startswith((BANDWIDTH, PEAK))]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(["| " + " | ".join(header) + " |", "|---" * len(header) + "|", *body])


def _percent(value: float) -> str:
    return "-" if isnan(value) else f"{100 * value:.0f} %"


def _met(check: Check) -> str:
    return "met" if check.met else "not met"
