"""Rates of engines on this machine: each is filled with samples of some sizes, and asked."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from bilsh.codes import Codes
from bilsh.engines import Address, Collection, create, open_collection
from bilsh.types import Progress
from bilsh.workflows.growth import Growth

SAMPLES = dict.fromkeys(("store", "faiss"), (6 << 20, 96 << 20, 224 << 20))
SAMPLES["lance"] = 6 << 20, 32 << 20, 96 << 20
SAMPLES["milvus"] = 512 << 10, 2 << 20, 8 << 20
SAMPLES["cells"] = 3 << 20, 12 << 20, 48 << 20
SMALL = 1 << 20, 8 << 20, 24 << 20
"""Bytes of codes in the samples: from within the processor's caches to where codes are read at the speed of memory."""

FILES = ("store", "faiss", "lance")
QUERIES, SCANS = 20, 5
"""Queries that cells are asked, and those that read everything."""

TRIES, MOST_TRIES, LOADING, BUILDING = 3, 9, 1.0, 5.0
"""How often files are filled: at least, at most, and for how many seconds; and the seconds of building cells."""

REPEATS, SPENT = 3, 0.2
"""How often each query is asked, and seconds of all, at least."""

BATCH_BYTES = 4 << 20
CLUSTERS, DIMENSION, SPREAD = 2000, 16, 0.5
ENCODED_BYTES = 128 << 20

GROWS: dict[str, tuple[str, ...]] = {
    "load": ("once", "items"),
    "query": ("once", "items"),
    "progressive": ("once", "items"),
    "build": ("once", "items", "items x centres"),
    "recall_query": ("once", "centres", "items"),
    "disk": ("once", "items"),
    "memory": ("once", "items"),
}
"""The terms of :mod:`bilsh.workflows.growth` that each quantity is a sum of; a store's load is one of rows written."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of an engine with so many items; None for what it has not or what cannot be seen from here.

    Attributes
    ----------
    engine, version : str
    load : float
        Seconds to write and flush.
    query : float
        Seconds of one exact query, one thread.
    progressive : float or None
        Of one by prefixes, the default of a store.
    build : float or None
        Seconds to put the items into cells, all cores.
    recall_query : float or None
        Seconds of a query of the promised recall by cells, one thread.
    disk : float or None
        Bytes in files, or that a server says it has.
    memory : float or None
        Bytes that a process holds that has opened the files and searched them.
    """

    engine: str
    version: str
    load: float
    query: float
    progressive: float | None = None
    build: float | None = None
    recall_query: float | None = None
    disk: float | None = None
    memory: float | None = None


@dataclass(frozen=True, slots=True)
class Rates:
    """What was measured of one engine, for codes of one length; the other names are those of :class:`Seen`."""

    engine: str
    version: str
    bits: int
    load: Growth
    query: Growth
    progressive: Growth | None = None
    build: Growth | None = None
    recall_query: Growth | None = None
    disk: Growth | None = None
    memory: Growth | None = None


def sample_codes(rows: int, n_bits: int, seed: int = 0) -> tuple[Codes, Codes]:
    """Codes of vectors in 2,000 clusters of 16 dimensions, and of queries from the same clusters."""
    from bilsh.encoders.estimators import AngleEncoder

    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((CLUSTERS, DIMENSION), dtype=np.float32)
    encoder = AngleEncoder(n_bits=n_bits, random_state=seed).fit(centres)

    def drawn(count: int) -> Codes:
        X = centres[rng.integers(0, CLUSTERS, count)]
        X += SPREAD * rng.standard_normal(X.shape, dtype=np.float32)
        made: Codes = encoder.transform(X)
        return made

    # The queries first: they are the same whatever the size, and with them how often an engine must complete ties.
    asked = drawn(QUERIES)
    codes = np.empty((rows, asked.shape[1]), dtype=np.uint8)
    for start in range(0, rows, 1 << 16):
        codes[start : start + (1 << 16)] = drawn(min(1 << 16, rows - start))
    return codes, asked


@contextmanager
def _made(address: str, n_bits: int) -> Iterator[tuple[Collection, str]]:
    """An empty collection for a measurement, and where it is; files are gone afterwards."""
    scheme = Address.of(address).scheme
    if scheme not in FILES:
        with create(address, n_bits=n_bits) as there:
            yield there, address
        return
    with tempfile.TemporaryDirectory(dir=Address.of(address).rest or None) as folder:
        place = f"{folder}/codes" if scheme == "store" else f"{scheme}:{folder}/codes"
        with create(place, n_bits=n_bits) as there:
            yield there, place


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
    seen: list[Seen] = []
    # The largest first: what only the first call pays for would be much of what the smallest takes.
    for number, rows in enumerate(reversed(sizes)):
        say(f"measuring {scheme}", number, len(sizes))
        seen.insert(0, fill(address if scheme in FILES else f"{address}_{number}", rows, n_bits))
    grown = {name: _growth(scheme, name, sizes, seen, n_bytes) for name in GROWS}
    if scheme == "store":
        grown["build"], grown["recall_query"] = measure_cells(address, n_bits, recall, progress)
    say(f"measuring {scheme}", len(sizes), len(sizes))
    return Rates(seen[0].engine, seen[0].version, n_bits, **grown)  # type: ignore[arg-type]


def measure_cells(
    address: str, n_bits: int, recall: float, progress: Progress | None = None
) -> tuple[Growth, Growth]:
    """Put samples in a store into cells and ask them: seconds to build, and of a query of the promised recall."""
    sizes = [max(200, total // -(-n_bits // 8)) for total in SAMPLES.get("cells", SMALL)]
    seen: list[tuple[float, float]] = []
    for number, rows in enumerate(reversed(sizes)):
        if progress:
            progress("measuring cells", number, len(sizes))
        seen.insert(0, fill_cells(address, rows, n_bits, recall))
    build, asked = zip(*seen, strict=True)
    return Growth.through(sizes, build, GROWS["build"]), Growth.through(sizes, asked, GROWS["recall_query"])


def _growth(scheme: str, name: str, sizes: list[int], seen: list[Seen], n_bytes: int) -> Growth | None:
    values = [getattr(one, name) for one in seen]
    if None in values:
        return None
    terms = ("rows written",) if (scheme, name) == ("store", "load") else GROWS[name]
    return Growth.through(sizes, values, terms, max(1, BATCH_BYTES // n_bytes))


def fill(address: str, rows: int, n_bits: int) -> Seen:
    """Fill an engine with so many codes and ask it, see :func:`measure`; of files the quickest of some times counts."""
    scheme = Address.of(address).scheme
    codes, asked = sample_codes(rows, n_bits)
    loads, queries, prefixes = [], [], []
    last, memory = scheme not in FILES, None
    while True:
        with _made(address, n_bits) as (there, place):
            loads.append(_loaded(there, codes))
            queries.append(_asked(there, asked[:SCANS], mode="hamming"))
            if scheme == "store":
                prefixes.append(_asked(there, asked[:SCANS]))
            able = there.capabilities
            last = last or len(loads) >= MOST_TRIES or (len(loads) >= TRIES and sum(loads) > LOADING)
            disk = there.stored_bytes()
            if last and scheme in FILES:
                disk = _bytes_in(Path(Address.of(place).rest))
                memory = _resident(place, asked[:1])
                if scheme == "lance" and memory is not None:
                    memory += disk  # It reads its files at every search, from the system's cache.
        if last:
            break
    return Seen(
        able.engine, able.version, min(loads), min(queries), min(prefixes, default=None), disk=disk, memory=memory
    )  # fmt: skip


def fill_cells(address: str, rows: int, n_bits: int, recall: float) -> tuple[float, float]:
    """Put so many codes of a store into cells; seconds of that, and of a query of the promised recall."""
    codes, asked = sample_codes(rows, n_bits)
    with _made(address, n_bits) as (there, place):
        _loaded(there, codes)
        there.close()
        return _asked_cells(place, asked, recall)


def _asked_cells(place: str, asked: Codes, recall: float) -> tuple[float, float]:
    """Seconds to put the items of a store into cells; and of a query, the mean of some, each at its quickest."""
    builds: list[float] = []
    while len(builds) < TRIES and sum(builds) < BUILDING:
        # By a process of its own, as a user would: one that has built cells before has its memory at hand.
        builds.append(float(_answer(BUILD, place)))
    with open_collection(place, "r") as there:
        return min(builds), _asked(there, asked, recall=recall)


def _loaded(there: Collection, codes: Codes) -> float:
    step = max(1, BATCH_BYTES // codes.shape[1])
    start = perf_counter()
    for first in range(0, len(codes), step):
        part = codes[first : first + step]
        there.upsert(np.arange(first, first + len(part)), part)
    there.flush()
    return perf_counter() - start


def _asked(there: Collection, codes: Codes, **settings: Any) -> float:
    """Seconds of a query on one thread: the mean of some, each at its quickest."""
    asks = [partial(there.search, codes=codes[row : row + 1], k=10, **settings) for row in range(len(codes))]
    with threadpool_limits(1):
        return float(np.mean([_quickest(ask, SPENT / len(asks)) for ask in asks]))


def _quickest(ask: Callable[[], Any], spent: float) -> float:
    """Seconds of the quickest of some calls, after one that warms up."""
    times: list[float] = []
    ask()
    while len(times) < REPEATS or sum(times) < spent:
        start = perf_counter()
        ask()
        times.append(perf_counter() - start)
    return min(times)


def _bytes_in(place: Path) -> int:
    return sum(file.stat().st_size for file in (place, *place.rglob("*")) if file.is_file())


ASK = """
import json, os, sys
import numpy as np
import bilsh

def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

place, code = json.loads(sys.argv[1])
before = held()
with bilsh.open(place) as there:
    there.search(codes=np.array([code], np.uint8), k=10, mode="hamming")
    print(held() - before)
"""


BUILD = """
import json, sys, time
import bilsh

with bilsh.Store.open(json.loads(sys.argv[1]), "a") as store:
    start = time.perf_counter()
    store.build_cells(n_jobs=-1)
    print(time.perf_counter() - start)
"""


def _answer(program: str, given: Any) -> str:
    """What a program prints in a process of its own."""
    command = [sys.executable, "-P", "-c", program, json.dumps(given)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603


def _resident(place: str, asked: Codes) -> float | None:
    """Bytes that another process holds when it has opened a collection and searched it; None where none can tell."""
    if not Path("/proc/self/statm").exists():
        return None
    return float(_answer(ASK, [place, asked[0].tolist()]))


def encode_rate(n_bits: int, dimension: int, encoder: Any = None) -> float:
    """Items per second that the default encoder, or this one, encodes on all cores of this machine."""
    from bilsh.encoders.estimators import AngleEncoder

    rng = np.random.default_rng(0)
    if encoder is None:
        X: NDArray[Any] = rng.standard_normal((512, dimension), dtype=np.float32)
        encoder = AngleEncoder(n_bits=n_bits, random_state=0).fit(X)
    shape = encoder.coder_.input_shape
    # More than the caches hold: encoding reads its input once, from memory.
    rows = max(512, ENCODED_BYTES // (4 * int(np.prod(shape))))
    X = rng.standard_normal((rows, *shape), dtype=np.float32)
    return rows / _quickest(lambda: encoder.coder_.encode(X, n_jobs=-1), SPENT)
