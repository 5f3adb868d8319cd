"""Run experiments part by part, keep what is finished, and write records: tables with all that made them.

Every part (a repetition, a code length) is a small file in the cache under a key made of the configuration, the data's
checksums and the version; it appears whole or not at all. An interrupted run goes on where it stopped, a repeated one
only reads.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from bilsh import __version__, _native
from bilsh.experiments.base import Experiment, Part, Row, Rows, Tables
from bilsh.experiments.inputs import Inputs, Say
from bilsh.files import replace_file

PACKAGES = ("numpy", "scipy", "scikit-learn", "matplotlib", "opencv-python-headless", "faiss-cpu")

Record = dict[str, Any]


def machine() -> dict[str, Any]:
    """Describe what timings depend on: processor, cores, instruction set in use."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        name = lines[0].split(":", 1)[1].strip() if lines else name
    return {"processor": name, "cores": os.cpu_count(), "instructions": _native.level()}


def versions() -> dict[str, str]:
    """Versions of Python, bilsh and the packages that results may depend on, as far as they are installed."""
    found = {"python": platform.python_version(), "bilsh": __version__}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def run(
    experiment: Experiment, config: Any, inputs: Inputs, cache: Path, *, say: Say, refresh: bool = False
) -> Record:
    """Measure what the cache does not have; return the record of the figure.

    Parameters
    ----------
    experiment, config, inputs
        See :mod:`bilsh.experiments.base`.
    cache : Path
        Folder of finished parts.
    say : callable (str)
        Told of progress.
    refresh : bool
        Measure everything anew.

    Returns
    -------
    dict
        Tables with configuration, versions, machine and data: what :func:`write_record` writes.
    """
    data = {name: inputs.data(name) for name in dict.fromkeys(experiment.data(config))}
    base = {
        "figure": experiment.name,
        "revision": experiment.revision,
        "version": __version__,
        "config": asdict(config),
        "data": {name: found.checksum for name, found in data.items()},
        "machine": machine() if experiment.timed else None,
    }
    folder = cache / "parts" / experiment.name
    folder.mkdir(parents=True, exist_ok=True)
    done: dict[Part, Rows] = {}
    todo, seconds = list(experiment.parts(config)), 0.0
    for number, part in enumerate(todo, 1):
        # Later parts of a timed experiment use what the timing found, so it belongs to their key.
        file = folder / f"{_digest({**base, 'part': part, 'timing': done.get(('timing',))})}.json"
        label = f"{experiment.name} {number}/{len(todo)} ({', '.join(map(str, part))})"
        kept = None if refresh else _read_part(file)
        if kept is None:
            say(f"{label} ...")
            start = time.perf_counter()
            with threadpool_limits(inputs.jobs):
                rows = experiment.measure(config, part, inputs, done)
            kept = {"seconds": time.perf_counter() - start, "rows": rows}
            with replace_file(file) as target:
                target.write(json.dumps(kept).encode())
            # What was just measured is read back, so that a fresh and a resumed run see the same numbers.
            kept = _read_part(file) or kept
            say(f"{label} {kept['seconds']:.1f} s")
        done[part] = kept["rows"]
        seconds += kept["seconds"]
    return {
        "figure": experiment.name,
        "config": asdict(config),
        "versions": versions(),
        "machine": machine(),
        "data": [
            {"name": name, "checksum": found.checksum, "note": found.note} for name, found in data.items()
        ],
        "seconds": round(seconds, 1),
        "tables": experiment.combine(config, done),
    }


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def _read_part(file: Path) -> dict[str, Any] | None:
    """Read a finished part; None where there is none or it is damaged, so that it is measured again."""
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and {"rows", "seconds"} <= found.keys() else None


def write_record(record: Record, output: Path) -> list[Path]:
    """Write figure.json (everything) and one CSV file per table into output/tables; return the files."""
    folder = output / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    name = record["figure"]
    files = {folder / f"{name}.json": _compact(record)}
    files |= {folder / f"{name}-{table}.csv": to_csv(rows) for table, rows in record["tables"].items()}
    for file, text in files.items():
        with replace_file(file) as target:
            target.write(text.encode())
    return list(files)


def _compact(record: Record) -> str:
    """JSON of a record with tables by columns, which is a third of the size of rows."""
    tables = {}
    for name, rows in record["tables"].items():
        names = columns_of(rows)
        tables[name] = {"columns": names, "rows": [[row.get(column) for column in names] for row in rows]}
    return json.dumps({**record, "tables": tables}) + "\n"


def read_record(file: Path) -> Record:
    """Read what :func:`write_record` wrote."""
    record: Record = json.loads(file.read_bytes())
    tables: Tables = {
        name: [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        for name, table in record["tables"].items()
    }
    return {**record, "tables": tables}


def columns_of(rows: Rows) -> list[str]:
    """Names of all columns in the order of their first appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def to_csv(rows: Rows) -> str:
    """Return rows as CSV; floats with six significant digits, None as an empty field.

    Examples
    --------
    >>> print(to_csv([{"bits": 8, "p": 1 / 3}, {"bits": None, "p": 0.5}]), end="")
    bits,p
    8,0.333333
    ,0.5
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, columns_of(rows), lineterminator="\n")
    writer.writeheader()
    writer.writerows(_short(row) for row in rows)
    return text.getvalue()


def _short(row: Mapping[str, Any]) -> Row:
    return {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()}
