"""One HTML file with all figures, numbers and verdicts: pictures inside, no script, no network."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from bilsh.experiments.base import Experiment, Finding, Rows
from bilsh.experiments.runner import Record, columns_of

MAX_ROWS = 60
"""Longer tables are only in the CSV files."""

TITLE = "Bilinear Random Projections for Locality-Sensitive Binary Codes: every figure, measured again"

INTRODUCTION = (
    "S. Kim and S. Choi, CVPR 2015, checked figure by figure. The paper's curves have no published numbers, so its "
    "claims stand here in words beside our measurements: which conclusion holds, which does not, and by how much."
)


def build(
    experiments: Mapping[str, Experiment],
    records: Mapping[str, Record],
    pictures: Path,
    missing: Mapping[str, str],
) -> str:
    """Make the report.

    Parameters
    ----------
    experiments : mapping
        All experiments by name, in the order of the report.
    records : mapping
        Records by name, see :func:`bilsh.experiments.runner.run`.
    pictures : Path
        Folder with name.svg of every record.
    missing : mapping
        Reasons for figures that could not be made.

    Returns
    -------
    str
        A whole HTML document.
    """
    sections = []
    for name, experiment in experiments.items():
        if name in records:
            sections.append(_section(experiment, records[name], pictures / f"{name}.svg"))
        elif name in missing:
            sections.append(
                f'<section id="{name}"><h2>{escape(experiment.title)}</h2>'
                f'<p class="missing">Not made: {escape(missing[name])}</p></section>'
            )
    listed = [name for name in experiments if name in records or name in missing]
    contents = "".join(f'<li><a href="#{n}">{escape(experiments[n].title)}</a></li>' for n in listed)
    style = (files("bilsh.experiments") / "report.css").read_text("utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>bilsh: the paper's figures</title><style>{style}</style></head><body><main>"
        f"<h1>{escape(TITLE)}</h1><p class=lead>{escape(INTRODUCTION)}</p>"
        f"{_overview(experiments, records)}<nav><ol>{contents}</ol></nav>{''.join(sections)}</main></body></html>\n"
    )


def _overview(experiments: Mapping[str, Experiment], records: Mapping[str, Record]) -> str:
    rows = []
    for name, record in records.items():
        for finding in experiments[name].findings(record["tables"]):
            if finding.verdict != "note":
                rows.append(
                    f'<tr><td><a href="#{name}">{name}</a></td><td>{escape(finding.claim)}</td>'
                    f"<td>{_badge(finding.verdict)}</td></tr>"
                )
    if not rows:
        return ""
    return f"<h2>At a glance</h2><table class=glance><tbody>{''.join(rows)}</tbody></table>"


def _section(experiment: Experiment, record: Record, picture: Path) -> str:
    uri = base64.b64encode(picture.read_bytes()).decode()
    tables = "".join(_table(experiment.name, name, rows) for name, rows in record["tables"].items())
    errata = "".join(f"<li>{escape(erratum)}</li>" for erratum in experiment.errata)
    return (
        f'<section id="{experiment.name}"><h2>{escape(experiment.title)}</h2><p>{escape(experiment.about)}</p>'
        f'<figure><img alt="{escape(experiment.title)}" src="data:image/svg+xml;base64,{uri}"></figure>'
        f"{_findings(experiment.findings(record['tables']))}"
        f"<h3>Errata and open points</h3><ul>{errata}</ul>{tables}{_provenance(record)}</section>"
    )


def _badge(verdict: str) -> str:
    return f'<span class="badge {verdict.replace(" ", "-")}">{escape(verdict)}</span>'


def _findings(findings: Sequence[Finding]) -> str:
    rows = "".join(
        f"<tr><td>{escape(f.claim)}</td><td>{escape(f.measured)}</td><td>{_badge(f.verdict)}</td></tr>"
        for f in findings
    )
    head = "<thead><tr><th>claim</th><th>measured</th><th></th></tr></thead>"
    return f"<table class=findings>{head}<tbody>{rows}</tbody></table>"


def _table(figure: str, name: str, rows: Rows) -> str:
    file = f"tables/{figure}-{name}.csv"
    if not rows:
        return ""
    if len(rows) > MAX_ROWS:
        return f"<p class=small>Table “{escape(name)}”: {len(rows):,} rows in <code>{file}</code>.</p>"
    names = columns_of(rows)
    head = "".join(f"<th>{escape(column.replace('_', ' '))}</th>" for column in names)
    body = "".join(
        "<tr>"
        + "".join(f"<td{_class(row.get(c))}>{escape(_shown(row.get(c)))}</td>" for c in names)
        + "</tr>"
        for row in rows
    )
    return (
        f"<details><summary>Table “{escape(name)}” ({len(rows)} rows, <code>{file}</code>)</summary>"
        f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>"
    )


def _class(value: Any) -> str:
    return " class=number" if isinstance(value, int | float) and not isinstance(value, bool) else ""


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _provenance(record: Record) -> str:
    data = "".join(
        f"<li>{escape(d['name'])}: {escape(d['note'])}; sha256 <code>{escape(d['checksum'])}</code></li>"
        for d in record["data"]
    )
    lines = {
        "command": record["command"],
        "size": record["size"],
        "configuration": record["config"],
        "versions": ", ".join(f"{k} {v}" for k, v in record["versions"].items()),
        "machine": ", ".join(f"{k} {v}" for k, v in record["machine"].items()),
        "measuring took": f"{record['seconds']:,} s in all",
    }
    items = "".join(f"<dt>{escape(k)}</dt><dd><code>{escape(str(v))}</code></dd>" for k, v in lines.items())
    checked = (
        f"<dt>data</dt><dd><ul>{data}</ul></dd>" if data else "<dt>data</dt><dd>generated, seed above</dd>"
    )
    return f"<details><summary>How this was made</summary><dl>{items}{checked}</dl></details>"
