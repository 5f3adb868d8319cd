"""When a progressive search may drop an item: limits on the distance over a prefix.

Bits of a code stand in uniformly random order, so of T differing bits among K a prefix of L bits holds a
hypergeometric number. An item among the k nearest has at most T differing bits, T the k-th best full distance
known so far; it is dropped after a prefix with probability at most delta / stages if only larger numbers than

    c(T) = min{ c : P[Hypergeom(K, T, L) > c] <= delta / stages }

are dropped, whatever the data. Over all stages an item that belongs to the answer is lost with probability <= delta.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

SLAB_BYTES = (64, 192, 768, 3072)


def slab_widths(n_bytes: int) -> tuple[int, ...]:
    """Bytes of each slab of a code: 512, 1536, 6144, 24576 bits and the rest, as far as the code reaches.

    Examples
    --------
    >>> slab_widths(512), slab_widths(7)
    ((64, 192, 256), (7,))
    """
    widths = []
    for width in SLAB_BYTES:
        if n_bytes > 0:
            widths.append(min(width, n_bytes))
            n_bytes -= width
    return (*widths, n_bytes) if n_bytes > 0 else tuple(widths)


@lru_cache(maxsize=32)
def prefix_limits(n_bits: int, prefixes: tuple[int, ...], delta: float) -> NDArray[np.int32]:
    """Limits c_s(T) of every pruning stage.

    Parameters
    ----------
    n_bits : int
        K, without padding.
    prefixes : tuple of int
        Bits L_s read after each stage but the last.
    delta : float
        Probability with which an item of the answer may be lost; 0 drops only what is certainly too far.

    Returns
    -------
    int32 array (len(prefixes), K // 2 + 2)
        Column T; the last one stands for all T beyond K / 2, where nothing is dropped. Read-only, shared.

    Examples
    --------
    >>> prefix_limits(4096, (512,), 0.01)[0, [0, 100, 1000]]
    array([  0,  21, 146], dtype=int32)
    """
    columns = n_bits // 2 + 2
    table = np.empty((len(prefixes), columns), dtype=np.int32)
    for row, length in zip(table, prefixes, strict=True):
        if delta <= 0:
            row[:] = np.minimum(np.arange(columns), length)
        else:
            row[:] = _quantiles(n_bits, length, columns, delta / len(prefixes))
        row[-1] = length
    table.flags.writeable = False
    return table


def _quantiles(K: int, L: int, columns: int, alpha: float) -> list[int]:
    """c(T) for T = 0, 1, ...: from one T to the next, c stays or grows by one.

    One more differing bit falls into the prefix with probability (L - c) / (K - T) when c of T did:
    P_{T+1}[> c] = P_T[> c] + P_T[c] (L - c) / (K - T). Only sums of positive terms of the size of alpha occur, and
    one subtraction for each step of c.
    """
    alpha *= 1 - 1e-9
    limits = [0]
    c, tail, here = 0, 0.0, 1.0  # c, P[> c], P[c] at T = 0
    for T in range(columns - 1):
        tail += here * (L - c) / (K - T)
        here *= (T + 1) / (T + 1 - c) * ((K - T - L + c) / (K - T))
        if tail > alpha:
            here *= (T + 1 - c) / (c + 1) * ((L - c) / (K - T - L + c))
            tail = max(tail - here, 0.0)
            c += 1
        limits.append(c)
    return limits
