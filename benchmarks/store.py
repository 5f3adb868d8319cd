"""What the store costs: opening, checking on first touch, durable adds beside plain writes of the same bytes.

Run `python benchmarks/store.py [DIRECTORY]`; it needs 2.5 GB of space there. Minima of interleaved repetitions;
rates are by processor time, so that other work on the machine does not count.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import bilsh

N_BITS, ROWS = 4096, 10_000


def plain_write(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    os.write(fd, data)
    os.fsync(fd)
    os.close(fd)


def report(what: str, value: float, unit: str, goal: str, good: bool) -> None:
    print(f"{what:48} {value:8.2f} {unit:5} (goal {goal}) {'ok' if good else 'MISSED'}")


def main(directory: Path) -> None:
    rng = np.random.default_rng(0)
    encoder = bilsh.AngleEncoder(n_bits=N_BITS, projection="dense", random_state=0)
    encoder.fit(rng.standard_normal((50, 64)).astype(np.float32))
    codes = rng.integers(0, 256, (ROWS, N_BITS // 8), dtype=np.uint8)
    data = codes.tobytes() + bytes(8 * ROWS)

    ours, plain = [], []
    with bilsh.Store.create(directory / "adds", encoder) as store:
        for number in range(14):
            start = time.perf_counter()
            store.add_codes(codes)
            middle = time.perf_counter()
            plain_write(directory / f"plain{number}", data)
            ours.append(middle - start)
            plain.append(time.perf_counter() - middle)
    extra = 1e3 * (min(ours) - min(plain))
    report("durable add of 10,000 x 4,096 bits, beyond writing", extra, "ms", "< 50", extra < 50)

    with bilsh.Store.create(directory / "large", encoder) as store:
        store.add_codes(bilsh.Batch(codes) for _ in range(200))
    times = []
    for _ in range(10):
        start = time.perf_counter()
        store = bilsh.Store.open(directory / "large")
        times.append(time.perf_counter() - start)
    report("open 1 GB, worst of 10", 1e3 * max(times), "ms", "< 100", max(times) < 0.1)

    rates = []
    for _ in range(3):
        store = bilsh.Store.open(directory / "large")
        start = time.process_time()
        size = sum(slab.nbytes for segment in store.segments for slab in segment.slabs)
        rates.append(size / (time.process_time() - start) / 1e9)
    report("check on first touch", max(rates), "GB/s", "> 2", max(rates) > 2)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as where:
        main(Path(where))
