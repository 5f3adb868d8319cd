"""What a repository keeps of a run: one small table and one picture per figure, and a page with the verdicts.

``bilsh reproduce`` writes much more (raw records, every curve, one report); all of that can be made again. The page is
written from the kept tables alone, so that a test can hold it against them.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bilsh.errors import DataNotFoundError
from bilsh.experiments import plots
from bilsh.experiments.base import Experiment, Tables
from bilsh.experiments.runner import columns_of, read_record, to_csv
from bilsh.files import replace_file

PAGE = "README.md"

INTRODUCTION = """\
# Every figure of the paper, at its sizes

Written by `make results` from the tables beside it; do not edit. `bilsh reproduce` makes the tables again, with every
curve, raw records and one report that opens without a network ([how](../reproduce.md)). A verdict is computed from the
numbers: a claim holds where it holds beyond the error (± is a 95 % interval over repetitions), and is undecided where
the error is larger than the effect. No photograph is in this folder. The photographs (4,046 from Flickr) are not the
paper's 45,000, whose curves have no published numbers; claims are compared in words.
"""


def publish(run: str | Path, target: str | Path, experiments: Mapping[str, Experiment]) -> list[Path]:
    """Keep of a run what a repository should hold.

    Parameters
    ----------
    run : path
        Folder that :func:`bilsh.experiments.reproduce` wrote.
    target : path
        Gets FIGURE.csv and FIGURE.png of every figure in `run`, and the page of all figures that are in `target` then.
    experiments : mapping
        By name.

    Returns
    -------
    list of Path
        The files that were written.
    """
    source, folder = Path(run) / "tables", Path(target)
    names = [name for name in experiments if (source / f"{name}.json").is_file()]
    if not names:
        raise DataNotFoundError(
            f"{run} holds no tables; run `bilsh reproduce` with this folder as --output first."
        )
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name in names:
        record, experiment = read_record(source / f"{name}.json"), experiments[name]
        written.append(folder / f"{name}.csv")
        with replace_file(written[-1]) as file:
            file.write(kept_csv(record["tables"], experiment, _provenance(record)).encode())
        written += plots.save(experiment.plot(record["tables"]), folder / name, formats=("png",))
    written.append(folder / PAGE)
    with replace_file(written[-1]) as file:
        file.write(page(folder, experiments).encode())
    return written


def _provenance(record: Mapping[str, Any]) -> str:
    machine = record["machine"]
    return json.dumps(
        {
            "command": record["command"],
            "processor": f"{machine['processor']}, {machine['cores']} cores, {machine['instructions']}",
            "versions": record["versions"],
            "data": {item["name"]: item["checksum"] for item in record["data"]},
        }
    )


def kept_csv(tables: Tables, experiment: Experiment, provenance: str = "{}") -> str:
    """Return the kept tables as one CSV: a comment line of provenance, then rows under their table's name."""
    rows = [{"table": name, **row} for name in experiment.kept for row in tables[name]]
    return f"# {provenance}\n{to_csv(rows)}"


def read_kept(file: Path) -> tuple[Tables, dict[str, Any]]:
    """Read what :func:`kept_csv` wrote: tables (empty fields left out as None) and provenance."""
    first, _, rest = file.read_text("utf-8").partition("\n")
    tables: Tables = {}
    for row in csv.DictReader(io.StringIO(rest)):
        values = {name: _value(text) for name, text in row.items() if name != "table"}
        tables.setdefault(row["table"], []).append(values)
    # A column that another table brought along is empty in every row; one that is None in some rows is kept.
    for name, rows in tables.items():
        used = [column for column in columns_of(rows) if any(row[column] is not None for row in rows)]
        tables[name] = [{column: row[column] for column in used} for row in rows]
    return tables, dict(json.loads(first.removeprefix("# ")))


def _value(text: str) -> Any:
    if text in ("", "True", "False"):
        return {"": None, "True": True, "False": False}[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def page(folder: Path, experiments: Mapping[str, Experiment]) -> str:
    """Return the page of all figures whose kept table is in the folder."""
    parts = [INTRODUCTION]
    for name, experiment in experiments.items():
        file = folder / f"{name}.csv"
        if not file.is_file():
            continue
        tables, provenance = read_kept(file)
        rows = "\n".join(
            f"| {_cell(f.claim)} | {_cell(f.measured)} | {f.verdict} |" for f in experiment.findings(tables)
        )
        parts.append(
            f"## {experiment.title}\n\n{experiment.about}\n\n![{experiment.title}]({name}.png)\n\n"
            f"| claim | measured | |\n|---|---|---|\n{rows}\n\n"
            f"[{name}.csv]({name}.csv), made by `{provenance['command']}` on {provenance['processor']}.\n"
        )
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
