"""How much it takes to keep and search so many codes: from rates measured on this machine, and scaling that is stated.

Each engine is filled with three samples, from small to large, and asked. Times and bytes are taken to grow straight
between and beyond them; everything else that is assumed is part of the answer.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from bilsh.codes import Codes
from bilsh.datasets.named import cache_folder
from bilsh.engines import Address, Collection, create
from bilsh.errors import InvalidInputError, MissingPackageError
from bilsh.files import replace_file
from bilsh.types import Progress
from bilsh.validation import check_integer

SAMPLES = dict.fromkeys(("store", "faiss"), (6 << 20, 96 << 20, 224 << 20))
SAMPLES["lance"] = 6 << 20, 32 << 20, 96 << 20
SMALL = 1 << 20, 8 << 20, 24 << 20
"""Bytes of codes in the samples: from within the processor's caches to where codes are read at the speed of memory."""

FILES = ("store", "faiss", "lance")
QUERIES = 3
TRIES, REPEATS, SPENT = 3, 5, 0.2
"""How often files are filled; how many queries each time, and seconds of them, at least."""

BATCH_BYTES = 4 << 20
CLUSTER = 50
ENCODED = 512
RATES = "plan-rates.json"


@dataclass(frozen=True, slots=True)
class Growth:
    """A quantity that grows with the number of items, as it was measured at some sizes.

    Between them it is taken to be straight, and beyond them along the line from the smallest to the largest: a small
    sample tells what every call costs, a large one what every item does.

    Attributes
    ----------
    sizes : tuple of int, ascending
    values : tuple of float, ascending
    """

    sizes: tuple[int, ...]
    values: tuple[float, ...]

    @classmethod
    def through(cls, sizes: Sequence[int], values: Sequence[float]) -> Growth:
        """Measurements as they are; one that was less than that of fewer items was so by chance."""
        return cls(tuple(sizes), tuple(np.maximum.accumulate(values).tolist()))

    def at(self, items: float) -> float:
        """Value for so many items."""
        sizes, values = self.sizes, self.values
        if items > sizes[-1]:
            # Where nothing grew, chance hid it: everything is taken to be the items' own.
            slope = (values[-1] - values[0]) / (sizes[-1] - sizes[0]) or values[-1] / sizes[-1]
            return values[-1] + slope * (items - sizes[-1])
        if items >= sizes[0]:
            return float(np.interp(items, sizes, values))
        slope = (values[1] - values[0]) / (sizes[1] - sizes[0])
        # What is measured cannot cost less than nothing without items.
        return values[0] - min(slope, values[0] / sizes[0]) * (sizes[0] - items)


@dataclass(frozen=True, slots=True)
class Rates:
    """What was measured of one engine, for codes of one length.

    Attributes
    ----------
    engine, version : str
    bits : int
    load : Growth
        Seconds to write and flush.
    query : Growth
        Seconds of one exact query, one thread.
    recall_query : Growth or None
        Of one with the promised recall; None where the engine only answers exactly.
    disk : Growth or None
        Bytes on disk; None where they cannot be seen from here.
    resident : float
        Bytes of memory per byte of code that quick answers need.
    """

    engine: str
    version: str
    bits: int
    load: Growth
    query: Growth
    recall_query: Growth | None
    disk: Growth | None
    resident: float


@dataclass(frozen=True, slots=True)
class Need:
    """What one engine needs for a plan."""

    engine: str
    memory: float
    disk: float | None
    machines: int
    load_seconds: float
    query_seconds: float
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


def sample_codes(rows: int, n_bits: int, seed: int = 0) -> tuple[Codes, Codes]:
    """Codes in clusters, and queries near some of them: neither all alike nor all unrelated."""
    rng = np.random.default_rng(seed)
    n_bytes = -(-n_bits // 8)
    centres = rng.integers(0, 256, (max(1, rows // CLUSTER), n_bytes), dtype=np.uint8)
    mine = rng.integers(0, len(centres), rows + QUERIES)
    codes = np.empty((rows + QUERIES, n_bytes), dtype=np.uint8)
    step = max(1, BATCH_BYTES // n_bytes)
    for start in range(0, len(codes), step):
        part = mine[start : start + step]
        # The conjunction of two random bytes flips a quarter of the bits.
        flips = rng.integers(0, 256, (2, len(part), n_bytes), dtype=np.uint8)
        codes[start : start + step] = centres[part] ^ (flips[0] & flips[1])
    if n_bits % 8:
        codes[:, -1] &= (1 << n_bits % 8) - 1
    return codes[:rows], codes[rows:]


@contextmanager
def _made(address: str, n_bits: int) -> Iterator[tuple[Collection, str]]:
    """An empty collection for a measurement, gone afterwards."""
    scheme = Address.of(address).scheme
    if scheme in FILES:
        with tempfile.TemporaryDirectory(dir=Address.of(address).rest or None) as folder:
            place = f"{folder}/codes" if scheme == "store" else f"{scheme}:{folder}/codes"
            with create(place, n_bits=n_bits) as there:
                yield there, folder
        return
    with create(address, n_bits=n_bits) as there:
        yield there, ""


def measure(address: str, n_bits: int, recall: float, progress: Progress | None = None) -> Rates:
    """Fill an engine with samples and ask it.

    Parameters
    ----------
    address : str
        ``store:DIR``, ``faiss:DIR``, ``lance:DIR`` with a directory for temporary files; or the address of a collection
        that does not exist yet, which is left behind for inspection.
    n_bits : int
    recall : float
        Promised recall that is measured besides, where the engine has it.
    progress : callable (what, done, total), optional
    """
    say = progress or (lambda what, done, total: None)
    scheme = Address.of(address).scheme
    n_bytes = -(-n_bits // 8)
    sizes = [max(200, total // n_bytes) for total in SAMPLES.get(scheme, SMALL)]
    seen: list[Filled] = []
    # The largest first: what only the first call pays for would be much of what the smallest takes.
    for number, rows in enumerate(reversed(sizes)):
        say(f"measuring {scheme}", number, len(sizes))
        seen.insert(0, fill(address if scheme in FILES else f"{address}_{number}", rows, n_bits, recall))
    say(f"measuring {scheme}", len(sizes), len(sizes))

    def growth(name: str) -> Growth | None:
        values = [getattr(one, name) for one in seen]
        return None if None in values else Growth.through(sizes, values)

    load, query = (cast(Growth, growth(name)) for name in ("load", "query"))
    return Rates(
        seen[0].engine, seen[0].version, n_bits, load, query, growth("recall_query"), growth("disk"),
        2.0 if scheme == "faiss" else 1.0,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Filled:
    """What was seen of an engine with so many items; the names are those of :class:`Rates`."""

    engine: str
    version: str
    load: float
    query: float
    recall_query: float | None
    disk: float | None


def fill(address: str, rows: int, n_bits: int, recall: float) -> Filled:
    """Fill an engine with so many codes and ask it, see :func:`measure`; of files the quickest of some times counts."""
    scheme = Address.of(address).scheme
    codes, asked = sample_codes(rows, n_bits)
    loads, queries, limited = [], [], []
    for _ in range(TRIES if scheme in FILES else 1):
        with _made(address, n_bits) as (there, folder):
            loads.append(_loaded(there, codes))
            queries.append(_quickest(partial(there.search, codes=asked[:1], k=10, mode="hamming")))
            if scheme == "store":
                limited.append(_quickest(partial(there.search, codes=asked[:1], k=10, recall=recall)))
            able = there.capabilities
            disk = float(_bytes_in(Path(folder))) if folder else None
    return Filled(able.engine, able.version, min(loads), min(queries), min(limited, default=None), disk)


def _loaded(there: Collection, codes: Codes) -> float:
    step = max(1, BATCH_BYTES // codes.shape[1])
    start = perf_counter()
    for first in range(0, len(codes), step):
        part = codes[first : first + step]
        there.upsert(np.arange(first, first + len(part)), part)
    there.flush()
    return perf_counter() - start


def _quickest(ask: Callable[[], Any]) -> float:
    """Seconds of the quickest of some calls on one thread, after one that warms up."""
    times: list[float] = []
    with threadpool_limits(1):
        ask()
        while len(times) < REPEATS or sum(times) < SPENT:
            start = perf_counter()
            ask()
            times.append(perf_counter() - start)
    return min(times)


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def encode_rate(n_bits: int, dimension: int, encoder: Any = None) -> float:
    """Items per second and core that the default encoder, or this one, encodes."""
    from bilsh.encoders.estimators import AngleEncoder

    rng = np.random.default_rng(0)
    if encoder is None:
        X: NDArray[Any] = rng.standard_normal((ENCODED, dimension)).astype(np.float32)
        encoder = AngleEncoder(n_bits=n_bits, random_state=0).fit(X)
    X = rng.standard_normal((ENCODED, *encoder.coder_.input_shape)).astype(np.float32)
    return ENCODED / _quickest(lambda: encoder.coder_.encode(X))


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
        Items encoded per second and core.
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
    cores = cores or os.cpu_count() or 1
    bits = rates[0].bits
    needs = []
    for rate in rates:
        memory = rate.resident * items * -(-bits // 8)
        machines = max(1, -int(-memory // room))
        each = items / machines
        needs.append(
            Need(
                f"{rate.engine} {rate.version}",
                memory,
                None if rate.disk is None else rate.disk.at(items),
                machines,
                rate.load.at(each),
                rate.query.at(each),
                None if rate.recall_query is None else rate.recall_query.at(each),
            )
        )
    seconds = items / (per_second * cores * needs[0].machines)
    return PlanMade(
        items, bits, recall, seconds, tuple(needs), _assumptions(rates, room, cores, recall, dimension)
    )


def _assumptions(
    rates: Sequence[Rates], room: float, cores: int, recall: float, dimension: int | None
) -> tuple[str, ...]:
    return (
        "times and bytes grow straight between three measured sizes and beyond; codes stay in memory",
        f"a machine has {room / 2**30:.1f} GiB for codes and {cores} cores, and is as fast as this one when measured",
        "shards on several machines are asked at the same time and wait for each other; the network is not counted",
        "query times: one query, one thread, the quickest of some; exact unless a recall is named",
        f"recall {recall:g}: measured on codes in clusters, where a quarter of the bits differ; yours may differ",
        f"encoding: {'items of ' + str(dimension) + ' numbers, ' if dimension else ''}all cores, reading not counted",
        *(f"{rate.engine}: load by one connection" for rate in rates if rate.disk is None),
    )


def saved_rates(n_bits: int) -> list[Rates]:
    """Rates that were measured on this machine before, for codes of this length."""
    try:
        raw = json.loads((cache_folder() / RATES).read_bytes())
    except (FileNotFoundError, ValueError):
        return []
    return [_rates(one) for one in raw.get(str(n_bits), [])]


def _rates(raw: dict[str, Any]) -> Rates:
    lines = {
        name: raw[name] and Growth(*map(tuple, raw[name].values()))
        for name in ("load", "query", "recall_query", "disk")
    }
    return Rates(**{**raw, **lines})


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
