"""What every experiment is made of: a configuration, parts that are measured one by one, tables, findings.

An experiment is a pure function configuration -> tables. It is cut into parts (a repetition, a number of bits) so that
an interrupted run goes on where it stopped; :func:`tables_of` runs them all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bilsh.experiments.inputs import Inputs

Row = dict[str, Any]
Rows = list[Row]
Tables = dict[str, Rows]
Part = tuple[str | int, ...]
Done = Mapping[Part, Rows]

HOLDS, IN_PART, FAILS, UNDECIDED, NOTE = (
    "holds",
    "holds in part",
    "does not hold",
    "undecided",
    "note",
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One claim beside our numbers.

    Attributes
    ----------
    claim : str
        The paper's claim in words, or our own where the paper has none.
    measured : str
        What we found, with numbers.
    verdict : str
        "holds", "holds in part", "does not hold", "undecided" where the error is larger than the effect, or "note"
        where there is nothing to decide. Always computed from the numbers.
    """

    claim: str
    measured: str
    verdict: str


@dataclass(frozen=True, slots=True)
class Experiment:
    """A figure of the paper, or of ours.

    Attributes
    ----------
    name, title, about : str
        Name on the command line, heading, and what is shown.
    errata : tuple of str
        What the paper says wrongly or leaves open, as far as it touches this figure.
    configs : mapping
        Configuration (a frozen dataclass) per size: "quick", "full".
    data : callable (config) -> names
        Data sets that the experiment reads; their checksums go into the cache key and the report.
    parts : callable (config) -> parts
        What is measured one by one, in order.
    measure : callable (config, part, inputs, done) -> rows
        Measures one part; `done` has the rows of earlier parts.
    combine : callable (config, done) -> tables
        Tables by name from the rows of all parts.
    plot : callable (tables) -> figure
        Reads nothing but the tables.
    findings : callable (tables) -> findings
        Reads nothing but the tables named in `kept`.
    kept : tuple of str
        Tables that are small and say all: the one file per figure that a repository keeps.
    timed : bool
        Whether the numbers depend on the machine.
    revision : int
        Raised when the measuring changes, so that older caches are not taken for new values.
    """

    name: str
    title: str
    about: str
    errata: tuple[str, ...]
    configs: Mapping[str, Any]
    data: Callable[[Any], Sequence[str]]
    parts: Callable[[Any], Sequence[Part]]
    measure: Callable[[Any, Part, Inputs, Done], Rows]
    combine: Callable[[Any, Done], Tables]
    plot: Callable[[Tables], Any]
    findings: Callable[[Tables], Sequence[Finding]]
    kept: tuple[str, ...]
    timed: bool = False
    revision: int = 1


def tables_of(experiment: Experiment, config: Any, inputs: Inputs) -> Tables:
    """Run an experiment without any cache: configuration -> tables."""
    done: dict[Part, Rows] = {}
    for part in experiment.parts(config):
        done[part] = experiment.measure(config, part, inputs, done)
    return experiment.combine(config, done)


def all_rows(done: Done) -> Rows:
    """Rows of all parts, one after another."""
    return [row for rows in done.values() for row in rows]


def select(rows: Rows, **values: Any) -> Rows:
    """Rows whose columns have the given values.

    Examples
    --------
    >>> select([{"bits": 8, "p": 0.1}, {"bits": 9, "p": 0.2}], bits=9)
    [{'bits': 9, 'p': 0.2}]
    """
    return [row for row in rows if all(row[key] == value for key, value in values.items())]


def column(rows: Rows, name: str) -> list[Any]:
    """One column of rows."""
    return [row[name] for row in rows]


def distinct(rows: Rows, name: str) -> list[Any]:
    """Values of a column, each once, in the order of their first appearance."""
    return list(dict.fromkeys(row[name] for row in rows))


def averaged(rows: Rows, keys: Sequence[str], values: Sequence[str]) -> Rows:
    """Mean and standard deviation (divisor n - 1; 0 for one row) of `values` over rows that agree in `keys`.

    Examples
    --------
    >>> averaged([{"bits": 8, "p": 0.25}, {"bits": 8, "p": 0.75}], ["bits"], ["p"])
    [{'bits': 8, 'p': 0.5, 'p_std': 0.3535533905932738, 'repetitions': 2}]
    """
    groups: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    result = []
    for group, members in groups.items():
        summary: Row = dict(zip(keys, group, strict=True))
        for value in values:
            numbers = [float(member[value]) for member in members]
            mean = sum(numbers) / len(numbers)
            spread = sum((number - mean) ** 2 for number in numbers) / max(1, len(numbers) - 1)
            summary |= {value: mean, f"{value}_std": spread**0.5}
        result.append(summary | {"repetitions": len(members)})
    return result


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with the half width of its 95 % interval.

    Examples
    --------
    >>> print(Estimate(0.0731, 0.0124), Estimate(-0.0004, 0.002))
    +0.073 ± 0.012 -0.000 ± 0.002
    """

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:+.3f} ± {self.error:.3f}"

    def above(self, least: float) -> bool | None:
        """Whether the number is above `least`; None where the error does not let us say."""
        return None if abs(self.value - least) <= self.error else self.value > least


def difference(a: Row, b: Row, name: str) -> Estimate:
    """Difference of two averaged rows (see :func:`averaged`) with Student's 95 % interval of independent means.

    Examples
    --------
    >>> row = {"p": 0.5, "p_std": 0.1, "repetitions": 5}
    >>> print(difference(row | {"p": 0.9}, row, "p"))
    +0.400 ± 0.146
    """
    n, m = a["repetitions"], b["repetitions"]
    error = (a[f"{name}_std"] ** 2 / n + b[f"{name}_std"] ** 2 / m) ** 0.5
    return Estimate(a[name] - b[name], student(n + m - 2) * error)


def student(freedom: int) -> float:
    """Two-sided 95 % point of Student's t; infinite without any degree of freedom.

    Examples
    --------
    >>> round(student(8), 3), student(0)
    (2.306, inf)
    """
    if freedom < 1:
        return inf
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))


def verdict(holds: Sequence[bool | None]) -> str:
    """Judge a claim that was checked several times; None is a check that its error leaves open.

    Examples
    --------
    >>> verdict([True, True]), verdict([True, False]), verdict([False])
    ('holds', 'holds in part', 'does not hold')
    >>> verdict([True, None]), verdict([None, None]), verdict([False, None])
    ('holds in part', 'undecided', 'does not hold')
    """
    if all(holds):
        return HOLDS
    if any(holds):
        return IN_PART
    return FAILS if False in holds else UNDECIDED
