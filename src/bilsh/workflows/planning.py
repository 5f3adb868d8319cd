"""How much it takes to keep and search so many codes: from rates measured on this machine, and scaling that is stated.

:mod:`bilsh.workflows.sampling` measures, :mod:`bilsh.workflows.growth` says how it goes on; everything else that is
assumed is part of the answer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bilsh.datasets.named import cache_folder
from bilsh.errors import InvalidInputError, MissingPackageError
from bilsh.files import replace_file
from bilsh.types import Progress
from bilsh.validation import check_integer
from bilsh.workflows.growth import Growth
from bilsh.workflows.sampling import GROWS, Rates, measure

RATES = "plan-rates-2.json"


@dataclass(frozen=True, slots=True)
class Need:
    """What one engine needs for a plan; seconds and bytes are those of :class:`bilsh.workflows.sampling.Seen`."""

    engine: str
    memory: float
    disk: float | None
    machines: int
    load_seconds: float
    query_seconds: float
    progressive_seconds: float | None
    build_seconds: float | None
    recall_seconds: float | None


@dataclass(frozen=True, slots=True)
class PlanMade:
    """The answer.

    Attributes
    ----------
    items, bits : int
    recall : float
    encode_seconds : float
        On all cores of all machines of the first engine.
    needs : tuple of Need
    assumptions : tuple of str
    """

    items: int
    bits: int
    recall: float
    encode_seconds: float
    needs: tuple[Need, ...]
    assumptions: tuple[str, ...]


def plan(
    items: int,
    rates: Sequence[Rates],
    per_second: float,
    *,
    recall: float = 0.95,
    machine_bytes: float | None = None,
    cores: int | None = None,
    dimension: int | None = None,
) -> PlanMade:
    """Scale measured rates to so many items.

    Parameters
    ----------
    items : int
    rates : sequence of Rates
        Of all engines, for codes of the same length.
    per_second : float
        Items encoded per second on all cores of this machine, see :func:`bilsh.workflows.sampling.encode_rate`.
    recall : float
    machine_bytes : float, optional
        Memory of a machine for codes; by default three quarters of this one's.
    cores : int, optional
        Of a machine; by default this one's.
    dimension : int, optional
        Numbers in an item, for the assumptions.
    """
    items = check_integer("items", items, minimum=1)
    if not rates:
        raise InvalidInputError("nothing was measured, so there is nothing to plan with.")
    room = machine_bytes or 0.75 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    here = os.cpu_count() or 1
    cores = cores or here
    bits = rates[0].bits
    needs = []
    for rate in rates:
        memory = float(items * -(-bits // 8)) if rate.memory is None else rate.memory.at(items)
        machines = max(1, -int(-memory // room))
        each = items / machines
        needs.append(
            Need(
                f"{rate.engine} {rate.version}",
                memory,
                _at(rate.disk, items),
                machines,
                rate.load.at(each),
                rate.query.at(each),
                _at(rate.progressive, each),
                _at(rate.build, each),
                _at(rate.recall_query, each),
            )
        )
    seconds = items / (per_second * cores / here * needs[0].machines)
    return PlanMade(
        items, bits, recall, seconds, tuple(needs), _assumptions(rates, room, cores, recall, dimension)
    )


def _at(growth: Growth | None, items: float) -> float | None:
    return None if growth is None else growth.at(items)


def _assumptions(
    rates: Sequence[Rates], room: float, cores: int, recall: float, dimension: int | None
) -> tuple[str, ...]:
    names = [rate.engine for rate in rates if rate.memory is None]
    return (
        "beyond the largest sample times and bytes grow as a sum of terms whose weights were fitted:",
        "  per call, per item; cells: items x centres to build, centres to search (there are 4 sqrt(items));",
        "  a store's load: per row written, which merges of segments repeat",
        "codes stay in memory: what the process holds, or reads from files, after a search",
        f"a machine has {room / 2**30:.1f} GiB for codes and {cores} cores, and is as fast as this one when measured",
        "shards on several machines are asked at the same time and wait for each other; the network is not counted",
        "query times: one query, one thread, the quickest of some; cells are built on all cores of this machine",
        f"recall {recall:g}: by cells, codes of clusters in 16 dimensions; yours may differ",
        f"encoding: {'items of ' + str(dimension) + ' numbers, ' if dimension else ''}all cores, reading not counted",
        *(
            f"{name}: load by one connection; memory: the codes once, which was not measured"
            for name in names
        ),
    )


def saved_rates(n_bits: int) -> list[Rates]:
    """Rates that were measured on this machine before, for codes of this length."""
    try:
        raw = json.loads((cache_folder() / RATES).read_bytes())
    except (FileNotFoundError, ValueError):
        return []
    return [_rates(one) for one in raw.get(str(n_bits), [])]


def _rates(raw: dict[str, Any]) -> Rates:
    grown = {name: raw[name] and _growth(raw[name]) for name in GROWS}
    return Rates(**{**raw, **grown})


def _growth(raw: dict[str, Any]) -> Growth:
    return Growth(tuple(raw["sizes"]), tuple(raw["values"]), tuple(raw["terms"]), raw["batch"])


def save_rates(rates: Sequence[Rates]) -> Path:
    """Keep rates for the next plan."""
    path = cache_folder() / RATES
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        known = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        known = {}
    known[str(rates[0].bits)] = [asdict(rate) for rate in rates]
    with replace_file(path) as file:
        file.write(json.dumps(known, indent=1).encode())
    return path


def measure_all(
    addresses: Sequence[str], n_bits: int, recall: float, progress: Progress | None = None
) -> tuple[list[Rates], list[str]]:
    """Measure every engine that is installed; and what to say of those that are not."""
    found, notes = [], []
    for address in addresses:
        try:
            found.append(measure(address, n_bits, recall, progress))
        except MissingPackageError as error:
            notes.append(str(error))
    return found, notes
