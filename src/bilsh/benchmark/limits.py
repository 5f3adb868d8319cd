"""What the machine can do at best: multiply-adds (sgemm) and bytes read from memory, per second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.benchmark.measure import Contestant

PEAK = "sgemm peak"
BANDWIDTH = "bandwidth"


@cache
def _square(side: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((side, side)).astype(np.float32)


def sgemm(threads: int, sides: tuple[int, ...]) -> list[Contestant]:
    """NumPy's products of two square float32 matrices: what BLAS reaches, the limit for encoding.

    The best rate counts: large products come closest to the peak on a calm machine, on a busy one only short ones
    pass undisturbed.
    """
    return [_product(_square(side), threads) for side in sides]


def _product(a: NDArray[np.float32], threads: int) -> Contestant:
    out = np.empty_like(a)
    work = 2.0 * len(a) ** 3
    return Contestant(PEAK, lambda: np.matmul(a, a, out=out), threads, work, note=f"{len(a)} x {len(a)}")


def bandwidth(data: NDArray[np.uint8], numbers_of_threads: Sequence[int]) -> list[Contestant]:
    """Several ways to read every byte of `data` once; the quickest of them is the limit for a scan.

    They share one name: the report takes the best. ``dot`` reads a float copy of the same size, because random bytes
    seen as floats hold subnormal numbers, which are slow.
    """
    words = data.reshape(-1)[: data.size // 64 * 64].view(np.uint64)
    floats = np.ones(words.nbytes // 4, dtype=np.float32)
    ways: dict[str, tuple[Callable[[Any], Any], NDArray[Any]]] = {
        "sum of uint64": (np.add.reduce, words),
        "max of uint64": (np.max, words),
        "float32 dot": (lambda x: np.dot(x, x), floats),
    }
    return [
        Contestant(BANDWIDTH, _in_parts(read, array, threads), threads, work=float(array.nbytes), note=note)
        for threads in numbers_of_threads
        for note, (read, array) in ways.items()
    ]


def other_data(cache: int) -> Callable[[], Any]:
    """Return what reads so much of something else that a cache of this size keeps nothing of what was read before."""
    words = np.ones(4 * cache // 8, dtype=np.uint64)
    return lambda: np.add.reduce(words)


def _in_parts(read: Callable[[Any], Any], array: NDArray[Any], threads: int) -> Callable[[], Any]:
    """Read an array on several threads, each a part of its own; NumPy lets go of the interpreter meanwhile."""
    if threads == 1:
        return lambda: read(array)
    parts = np.array_split(array, threads)
    pool = ThreadPoolExecutor(threads)
    return lambda: list(pool.map(read, parts))
