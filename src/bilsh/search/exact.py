"""Exact scans of plain arrays of codes: the nearest k, and all within a radius."""

from __future__ import annotations

from itertools import pairwise

from numpy.typing import ArrayLike

from bilsh import _native
from bilsh.codes import as_codes, check_widths
from bilsh.search.results import Matches, Neighbors
from bilsh.validation import check_integer, thread_count


def top_k(queries: ArrayLike, codes: ArrayLike, k: int, *, n_jobs: int | None = None) -> Neighbors:
    """Nearest k codes of each query by Hamming distance: an exact scan.

    Parameters
    ----------
    queries : uint8 array (q, n_bytes)
    codes : uint8 array (n, n_bytes)
    k : int
        At least 1; where it exceeds n, all n codes are returned in order.
    n_jobs : int, optional
        Threads, as in scikit-learn: None is 1, -1 all cores. One query, too, is spread over the threads.

    Returns
    -------
    Neighbors
        ids (q, min(k, n)) are row numbers of `codes`; sorted by distance, ties by row number.

    Examples
    --------
    >>> from bilsh import pack
    >>> codes = pack([[0, 0, 0], [1, 1, 1], [0, 0, 1]])
    >>> found = top_k(codes[:1], codes, k=2)
    >>> found.ids.tolist(), found.distances.tolist()
    ([[0, 2]], [[0, 1]])
    """
    asked, stored = as_codes(queries, "queries"), as_codes(codes, "codes")
    check_widths(asked, stored, "queries", "codes")
    # More than all is all; zero codes still need a k that the scan accepts.
    k = min(check_integer("k", k, minimum=1), max(1, len(stored)))
    ids, distances = _native.hamming_top_k(asked, [stored], k, None, None, thread_count(n_jobs))
    return Neighbors(ids, distances)


def within(queries: ArrayLike, codes: ArrayLike, radius: int, *, n_jobs: int | None = None) -> Matches:
    """All codes within a Hamming radius of each query: an exact scan.

    Parameters
    ----------
    queries : uint8 array (q, n_bytes)
    codes : uint8 array (n, n_bytes)
    radius : int
        Largest distance that counts, from 0.
    n_jobs : int, optional
        Threads, as in scikit-learn: None is 1, -1 all cores.

    Returns
    -------
    Matches
        ids and distances are lists of q arrays, one per query, each sorted by distance, ties by row number.

    Examples
    --------
    >>> from bilsh import pack
    >>> codes = pack([[0, 0, 0], [1, 1, 1], [0, 0, 1]])
    >>> [ids.tolist() for ids in within(codes[:2], codes, radius=1).ids]
    [[0, 2], [1]]
    """
    asked, stored = as_codes(queries, "queries"), as_codes(codes, "codes")
    check_widths(asked, stored, "queries", "codes")
    radius = min(check_integer("radius", radius, minimum=0), 8 * asked.shape[1])
    offsets, ids, distances = _native.hamming_within(asked, [stored], radius, n_jobs=thread_count(n_jobs))
    spans = [slice(start, stop) for start, stop in pairwise(offsets.tolist())]
    return Matches([ids[span] for span in spans], [distances[span] for span in spans])
