"""All figures by name, and the one function that makes them: tables, pictures, report."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bilsh.datasets.named import cache_folder
from bilsh.errors import BilshError, InvalidInputError, optional
from bilsh.experiments import beyond, bounds, cost, covariance, equal_time, flickr, mnist, plots, report, rff
from bilsh.experiments.base import Experiment
from bilsh.experiments.inputs import Inputs
from bilsh.experiments.runner import Record, read_record, run, write_record
from bilsh.files import replace_file

FIGURES: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (rff, bounds, covariance, mnist, flickr, cost, equal_time, beyond)
}
"""Experiments by name, in the paper's order."""

SIZES = ("quick", "full")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What :func:`reproduce` made.

    Attributes
    ----------
    report : Path
        The HTML file.
    files : tuple of Path
        Tables and pictures.
    failures : dict
        Reasons by figure for those that could not be made; each is one sentence that says what to do.
    """

    report: Path
    files: tuple[Path, ...]
    failures: dict[str, str]


def reproduce(
    figures: Sequence[str],
    size: str = "quick",
    output: str | Path = "results",
    *,
    mnist: str | Path | None = None,
    images: str | Path | None = None,
    codebook: str | Path | None = None,
    cache: str | Path | None = None,
    jobs: int = 1,
    refresh: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Outcome:
    """Make figures of the paper.

    Parameters
    ----------
    figures : sequence of str
        Names from `FIGURES`, or "all".
    size : {"quick", "full"}
        Small offline stand-ins, or the paper's sizes.
    output : path
        Gets report.html, tables/ (CSV and JSON) and pictures/ (SVG). The report shows every figure whose table is in
        the folder, so that several runs may fill it.
    mnist, images, codebook : path, optional
        MNIST's folder, a folder of photographs, VLAD centres as .npy; see :class:`Inputs`.
    cache : path, optional
        Folder for finished parts and descriptors; by default in the user's cache folder. Safe to delete.
    jobs : int
        Threads for encoding, processes for descriptors. Timings always use one thread.
    refresh : bool
        Measure everything anew.
    progress : callable (str), optional
        Told of progress.

    Returns
    -------
    Outcome
        A figure that fails (missing package, wrong path, full disk) does not stop the others.
    """
    names = list(FIGURES) if "all" in figures else list(dict.fromkeys(figures))
    if unknown := [name for name in names if name not in FIGURES]:
        raise InvalidInputError(
            f"No figure is called {unknown[0]!r}; choose from {', '.join(FIGURES)}, or all."
        )
    if not names or size not in SIZES:
        raise InvalidInputError(f"Give figures and a size of {' or '.join(SIZES)}; got {names} and {size!r}.")
    optional("matplotlib", "Drawing pictures")
    say = progress or (lambda message: None)
    target = Path(output)
    home = cache_folder() / "experiments" if cache is None else Path(cache)
    (target / "pictures").mkdir(parents=True, exist_ok=True)
    inputs = Inputs(home, mnist=mnist, images=images, codebook=codebook, jobs=jobs, progress=say)
    given = {"--mnist PATH": mnist, "--images FOLDER": images, "--codebook FILE": codebook}
    options = "".join(f" {option}" for option, value in given.items() if value is not None)
    written: list[Path] = []
    failures: dict[str, str] = {}
    for name in names:
        experiment = FIGURES[name]
        try:
            record = run(experiment, experiment.configs[size], inputs, home, say=say, refresh=refresh)
            record |= {"size": size, "command": f"bilsh reproduce {name} --{size}{options}"}
            written += write_record(record, target)
            written += plots.save(experiment.plot(record["tables"]), target / "pictures" / name)
        except (BilshError, OSError, MemoryError) as error:
            failures[name] = explain(error)
            say(f"{name}: {failures[name]}")
    report_file = write_report(target, failures)
    return Outcome(report_file, tuple(written), failures)


def write_report(output: Path, missing: dict[str, str]) -> Path:
    """Write output/report.html from the tables and pictures that are in the folder."""
    records: dict[str, Record] = {}
    for name in FIGURES:
        table, picture = output / "tables" / f"{name}.json", output / "pictures" / f"{name}.svg"
        if table.is_file() and picture.is_file() and name not in missing:
            records[name] = read_record(table)
    file = output / "report.html"
    with replace_file(file) as content:
        content.write(report.build(FIGURES, records, output / "pictures", missing).encode())
    return file


def explain(error: BaseException) -> str:
    """Say in one sentence what went wrong and what to do."""
    if isinstance(error, MemoryError):
        return "Out of memory. Close other programs or use --quick; finished parts are kept."
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"The disk is full ({error.filename or 'no file named'}). Free some space; finished parts are kept."
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EROFS):
        return f"{error.filename} cannot be written. Choose another folder with --output or --cache."
    return " ".join(str(error).split())
