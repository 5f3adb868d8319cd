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
        rest = K - T
        into = here * (L - c) / rest
        tail += into
        if tail <= alpha:
            here *= (T + 1) / (T + 1 - c) * ((rest - L + c) / rest)
        else:
            # P_{T+1}[c + 1]: the new bit falls into the prefix, or c + 1 were there and it does not.
            here = into + here * (T - c) / (c + 1) * ((L - c) / rest)
            tail = max(tail - here, 0.0)
            c += 1
        limits.append(c)
    return limits
