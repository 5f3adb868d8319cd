"""Which (i, j) pairs of projection vectors a bilinear code uses, and in which order.

A design is a list of distinct pairs in random order; its prefix of length k is what Algorithm 1 calls the subset
I. Only the degrees (how often each vector is used) matter for the variance of a code: see theory.covariance.
"""

from __future__ import annotations

from math import ceil, isqrt

import numpy as np
from numpy.typing import NDArray

Pairs = NDArray[np.int32]

DESIGNS = ("grid", "random", "balanced")


def near_square_factors(d: int, max_aspect: float = 2.0) -> tuple[int, int]:
    """Most square (d_w, d_v) with d_w * d_v = d, or of the next larger number that has one near to square.

    Examples
    --------
    >>> near_square_factors(784), near_square_factors(64_000), near_square_factors(13)
    ((28, 28), (250, 256), (3, 5))
    """
    while True:
        d_w = next(p for p in range(isqrt(d), 0, -1) if d % p == 0)
        if d <= max_aspect * d_w * d_w:
            return d_w, d // d_w
        d += 1


def grid_shape(n_pairs: int, max_rows: int | None = None, max_columns: int | None = None) -> tuple[int, int]:
    """Smallest nearly square (rows, columns) with rows * columns >= n_pairs, within the given limits.

    Examples
    --------
    >>> grid_shape(6400), grid_shape(6397), grid_shape(6400, max_rows=28)
    ((80, 80), (80, 80), (28, 229))
    """
    rows = isqrt(n_pairs - 1) + 1
    columns = ceil(n_pairs / rows)
    rows, columns = sorted((rows, columns))
    if max_rows is not None and rows > max_rows:
        rows, columns = max_rows, ceil(n_pairs / max_rows)
    if max_columns is not None and columns > max_columns:
        rows, columns = ceil(n_pairs / max_columns), max_columns
    return rows, columns


def stacked_grids(n_pairs: int, d_w: int, d_v: int) -> list[tuple[int, int]]:
    """Shapes of the independent grids, none larger than d_w x d_v, that together hold at least n_pairs pairs.

    As many complete grids as fit, then one for the rest: the products of two orthogonal bases see all of a
    difference, those of parts of them only some of it.

    Examples
    --------
    >>> stacked_grids(900, 28, 28), stacked_grids(60, 8, 8)
    ([(28, 28), (11, 11)], [(8, 8)])
    """
    complete, rest = divmod(n_pairs, d_w * d_v)
    return [(d_w, d_v)] * complete + ([grid_shape(rest, d_w, d_v)] if rest else [])


def stacked_pairs(shapes: list[tuple[int, int]], n_pairs: int, rng: np.random.Generator) -> Pairs:
    """First ``n_pairs`` of all pairs within each of the stacked grids, in uniformly random order."""
    blocks = []
    row, column = 0, 0
    for rows, columns in shapes:
        i, j = np.divmod(np.arange(rows * columns), columns)
        blocks.append(np.stack([i + row, j + column], axis=1))
        row, column = row + rows, column + columns
    return rng.permutation(np.concatenate(blocks))[:n_pairs].astype(np.int32)


def random_pairs(side: int, n_pairs: int, rng: np.random.Generator) -> Pairs:
    """Algorithm 1: n_pairs distinct pairs of a side x side grid, uniformly at random, in random order."""
    chosen = rng.choice(side * side, n_pairs, replace=False)
    return np.stack(np.divmod(chosen, side), axis=1).astype(np.int32)


def balanced_pairs(side: int, n_pairs: int, rng: np.random.Generator) -> Pairs:
    """Distinct pairs of a side x side grid, in random order, whose degrees differ by at most one on either side.

    Whole generalised diagonals {(i, i + s)} are taken one after another, the last one in part; rows and columns
    are then renamed at random.
    """
    step, i = np.divmod(np.arange(n_pairs), side)
    shift = rng.permutation(side)[step]
    rename_rows, rename_columns = rng.permutation(side), rng.permutation(side)
    pairs = np.stack([rename_rows[i], rename_columns[(i + shift) % side]], axis=1)
    return rng.permutation(pairs).astype(np.int32)
