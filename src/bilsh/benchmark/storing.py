"""What the store costs: opening, checking on first touch, durable adds beside plain writes of the same bytes.

One durable row is compared with appending its bytes to an open file and `fsync`, in turns. Otherwise minima of
interleaved repetitions; rates are by processor time, so that other work on the machine does not count. The full size
needs 2.5 GB of space.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import bilsh
from bilsh.benchmark import targets
from bilsh.benchmark.sizes import Size
from bilsh.benchmark.targets import Check, Race

N_BITS = 4096
ITEM_VALUES, ITEM_BITS = 256, 512


def checks(size: Size, directory: Path) -> Iterator[tuple[Race, Check]]:
    """Measure in a folder of its own below `directory`, which is gone afterwards."""
    small = size.name.startswith("smoke")
    rows, segments = (100, 2) if small else (10_000, 200)
    case = f"{rows:,} x {N_BITS:,} bits"
    with tempfile.TemporaryDirectory(dir=directory) as where:
        folder = Path(where)
        rng = np.random.default_rng(0)
        encoder = bilsh.AngleEncoder(n_bits=N_BITS, projection="dense", random_state=0)
        encoder.fit(rng.standard_normal((50, 64)).astype(np.float32))
        codes = rng.integers(0, 256, (rows, N_BITS // 8), dtype=np.uint8)
        yield _check(f"add of {case}", targets.ADD, _extra_milliseconds(folder, encoder, codes))
        yield from _one_row(folder, encoder, rng, 20 if small else 400)
        with bilsh.Store.create(folder / "large", encoder) as store:
            for _ in range(segments):
                store.add_codes(codes, fingerprint="unchecked")
        stored = f"{segments * codes.nbytes / 1e9:.2g} GB"
        times = [_seconds_to_open(folder / "large") for _ in range(10)]
        yield _check(f"store of {stored}", targets.OPEN, 1e3 * max(times))
        yield _check(f"store of {stored}", targets.TOUCH, max(_rate(folder / "large") for _ in range(3)))


def _check(case: str, against: str, value: float) -> tuple[Race, Check]:
    where = Race(targets.STORE, case, 1)
    return where, targets.check(where, against, value, float("nan"))


def _extra_milliseconds(folder: Path, encoder: bilsh.AngleEncoder, codes: bilsh.codes.Codes) -> float:
    """Least time of a durable add minus least time of writing and syncing the same bytes."""
    data = codes.tobytes() + bytes(8 * len(codes))
    ours, plain = [], []
    with bilsh.Store.create(folder / "adds", encoder) as store:
        for number in range(14):
            start = time.perf_counter()
            store.add_codes(codes, fingerprint="unchecked")
            middle = time.perf_counter()
            _plain_write(folder / f"plain{number}", data)
            ours.append(middle - start)
            plain.append(time.perf_counter() - middle)
    return 1e3 * (min(ours) - min(plain))


def _one_row(
    folder: Path, encoder: bilsh.AngleEncoder, rng: np.random.Generator, repeats: int
) -> Iterator[tuple[Race, Check]]:
    """One durable row over a write and fsync of its bytes: codes, and items added, replaced, deleted."""
    X = rng.standard_normal((repeats, ITEM_VALUES)).astype(np.float32)
    short = bilsh.AngleEncoder(n_bits=ITEM_BITS, projection="dense", random_state=0).fit(X)
    codes = rng.integers(0, 256, (repeats, N_BITS // 8), dtype=np.uint8)
    with (
        bilsh.Store.create(folder / "codes", encoder) as store,
        bilsh.Store.create(folder / "items", short) as other,
    ):

        def add_code(i: int) -> None:
            store.add_codes(codes[i : i + 1], fingerprint="unchecked")

        def add_item(i: int) -> None:
            other.add(X[i : i + 1])

        def replace_item(i: int) -> None:
            other.upsert(X[i : i + 1], ids=[i])

        def delete_item(i: int) -> None:
            other.delete([repeats + i])

        other.add(np.tile(X, (20, 1)))  # so many that none of this makes a merge due
        item = f"one row of {ITEM_BITS} bits, encoded from {ITEM_VALUES} values"
        for case, n_bits, change in (
            (f"one row of {N_BITS:,} bits, ready", N_BITS, add_code),
            (item, ITEM_BITS, add_item),
            (f"{item}, replaced in a segment", ITEM_BITS, replace_item),
            (f"one row of {ITEM_BITS} bits, deleted of a segment", ITEM_BITS, delete_item),
        ):
            # Each to a new file: bytes that are there already are overwritten at less cost.
            plainly = folder / f"plain-{change.__name__}"
            ours, plain = _in_turns(plainly, bytes(n_bits // 8 + 8), change, repeats)
            yield _check(case, targets.ROW, float(np.median(ours) / np.median(plain)))
            yield _check(case, targets.ROW_LEAST, min(ours) / min(plain))


def _in_turns(
    path: Path, data: bytes, change: Callable[[int], None], repeats: int
) -> tuple[list[float], list[float]]:
    """Seconds of changing a row, and of appending as many bytes to an open file and syncing it."""
    ours, plain = [], []
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    for i in range(repeats):
        start = time.perf_counter()
        change(i)
        middle = time.perf_counter()
        os.write(fd, data)
        os.fsync(fd)
        ours.append(middle - start)
        plain.append(time.perf_counter() - middle)
    os.close(fd)
    return ours, plain


def _plain_write(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    os.write(fd, data)
    os.fsync(fd)
    os.close(fd)


def _seconds_to_open(path: Path) -> float:
    start = time.perf_counter()
    with bilsh.Store.open(path):
        return time.perf_counter() - start


def _rate(path: Path) -> float:
    """Gigabytes per second of processor time when every code is read, and so checked, for the first time."""
    with bilsh.Store.open(path) as store:
        start = time.process_time()
        size = sum(slab.nbytes for segment in store.segments for slab in segment.slabs)
        return size / max(time.process_time() - start, 1e-9) / 1e9
