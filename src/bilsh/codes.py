"""Packed binary codes: packing, prefixes, Hamming distances, nearest codes.

A code of k bits is ceil(k / 8) bytes in little bit order: bit r is ``(code[r // 8] >> (r % 8)) & 1``; the
padding bits of the last byte are zero. Encoders put bits in random order, so the first bits of a code are a
(shorter) code.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh import _native
from bilsh.errors import InvalidInputError, InvalidTypeError
from bilsh.search.results import Explanation
from bilsh.validation import check_integer, thread_count

__all__ = ["Neighbors", "hamming", "pack", "prefix", "top_k", "unpack", "within"]

Codes = NDArray[np.uint8]

SLAB_BYTES = (64, 192, 768, 3072)


@dataclass(frozen=True, slots=True)
class Neighbors:
    """What a search found, nearest first, ties by id.

    Attributes
    ----------
    ids : int64 array (q, k)
        Row numbers, or the ids a store gave to its items.
    distances : int32 array (q, k)
        Hamming distances: numbers of differing bits. After re-ranking, exact Euclidean distances (float64).
    similarity : float array (q, k), optional
        The similarity estimated from the distances, where it was asked for.
    interval : float array (q, k, 2), optional
        Lower and upper end of the similarity's interval.
    explanation : Explanation, optional
        See :meth:`explain`.

    Notes
    -----
    :func:`within` finds a different number for each query: its ids and distances are lists of q arrays.
    """

    ids: Any
    distances: Any
    similarity: Any = None
    interval: Any = None
    explanation: Explanation | None = None

    def explain(self) -> Explanation | None:
        """How the search went: mode and why, survivors, bytes and time of each stage. None for plain scans."""
        return self.explanation


def pack(bits: ArrayLike) -> Codes:
    """Pack bits into codes.

    Parameters
    ----------
    bits : array (..., k)
        Booleans, or integers that are 0 or 1.

    Returns
    -------
    uint8 array (..., ceil(k / 8))

    Examples
    --------
    >>> pack([[1, 0, 0, 0, 0, 0, 0, 0, 1, 1]])
    array([[1, 3]], dtype=uint8)
    """
    array = np.asarray(bits)
    if array.ndim and not array.shape[-1]:
        raise InvalidInputError(f"bits must have at least one bit per code; got shape {array.shape}.")
    if array.dtype != np.bool_ and not np.issubdtype(array.dtype, np.integer):
        raise InvalidTypeError(
            f"bits must be booleans or integers 0 and 1; got dtype {array.dtype}. "
            "Compare first, e.g. pack(values >= 0)."
        )
    if array.ndim == 0:
        raise InvalidInputError("bits must have at least one axis, the bits of a code; got a single number.")
    if array.dtype != np.bool_ and array.size and (array.min() < 0 or array.max() > 1):
        raise InvalidInputError(f"bits must be 0 or 1; got values from {array.min()} to {array.max()}.")
    return np.packbits(array.astype(np.bool_, copy=False), axis=-1, bitorder="little")


def unpack(codes: ArrayLike, n_bits: int | None = None) -> NDArray[np.uint8]:
    """Bits of packed codes, as 0 and 1.

    Parameters
    ----------
    codes : uint8 array (..., n_bytes)
    n_bits : int, optional
        How many bits of each code to return; all 8 * n_bytes by default, padding included.

    Returns
    -------
    uint8 array (..., n_bits)

    Examples
    --------
    >>> unpack(pack([1, 0, 1, 1]), 4)
    array([1, 0, 1, 1], dtype=uint8)
    """
    array = as_bytes(codes, "codes")
    n_bits = 8 * array.shape[-1] if n_bits is None else _bits_within(n_bits, array)
    return np.unpackbits(array, axis=-1, count=n_bits, bitorder="little")


def prefix(codes: ArrayLike, n_bits: int) -> Codes:
    """First n_bits bits of each code, which are a code themselves; the padding is zeroed.

    Parameters
    ----------
    codes : uint8 array (..., n_bytes)
    n_bits : int
        From 1 to 8 * n_bytes.

    Returns
    -------
    uint8 array (..., ceil(n_bits / 8))
        A copy.

    Examples
    --------
    >>> prefix(pack([1, 1, 1, 1, 1, 1]), 4)
    array([15], dtype=uint8)
    """
    array = as_bytes(codes, "codes")
    n_bits = _bits_within(n_bits, array)
    first = array[..., : (n_bits + 7) // 8].copy()
    if n_bits % 8:
        first[..., -1] &= np.uint8((1 << n_bits % 8) - 1)
    return first


def hamming(a: ArrayLike, b: ArrayLike, *, n_jobs: int | None = None) -> NDArray[np.int32]:
    """Hamming distances: numbers of differing bits.

    Parameters
    ----------
    a : uint8 array (n_a, n_bytes) or (n_bytes,)
    b : uint8 array (n_b, n_bytes) or (n_bytes,)
    n_jobs : int, optional
        Threads, as in scikit-learn: None is 1, -1 all cores.

    Returns
    -------
    int32 array (n_a, n_b)
        The axis of a single code (n_bytes,) is left out: two single codes give an int32 scalar array.

    Examples
    --------
    >>> a, b = pack([[0, 0, 0], [1, 1, 1]]), pack([[0, 1, 0]])
    >>> hamming(a, b)
    array([[1],
           [2]], dtype=int32)
    """
    left, right = as_bytes(a, "a"), as_bytes(b, "b")
    for name, array in (("a", left), ("b", right)):
        if array.ndim > 2:
            raise InvalidInputError(
                f"{name} must be codes (n, n_bytes) or one code (n_bytes,); got shape {array.shape}."
            )
    check_widths(left, right, "a", "b")
    distances = _native.hamming_matrix(
        np.ascontiguousarray(np.atleast_2d(left)),
        np.ascontiguousarray(np.atleast_2d(right)),
        thread_count(n_jobs),
    )
    return distances.reshape(left.shape[:-1] + right.shape[:-1])


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


def within(queries: ArrayLike, codes: ArrayLike, radius: int, *, n_jobs: int | None = None) -> Neighbors:
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
    Neighbors
        ids and distances are lists of q arrays, one per query, each sorted by distance, ties by row number.

    Examples
    --------
    >>> codes = pack([[0, 0, 0], [1, 1, 1], [0, 0, 1]])
    >>> [ids.tolist() for ids in within(codes[:2], codes, radius=1).ids]
    [[0, 2], [1]]
    """
    asked, stored = as_codes(queries, "queries"), as_codes(codes, "codes")
    check_widths(asked, stored, "queries", "codes")
    radius = min(check_integer("radius", radius, minimum=0), 8 * asked.shape[1])
    offsets, ids, distances = _native.hamming_within(asked, [stored], radius, n_jobs=thread_count(n_jobs))
    spans = [slice(start, stop) for start, stop in pairwise(offsets.tolist())]
    return Neighbors([ids[span] for span in spans], [distances[span] for span in spans])


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


def as_codes(codes: ArrayLike, name: str) -> Codes:
    """Codes as the compiled core reads them: uint8 (n, n_bytes), C-contiguous; a copy only where needed."""
    array = as_bytes(codes, name)
    if array.ndim != 2:
        hint = f" For a single code pass {name}[None, :]." if array.ndim == 1 else ""
        raise InvalidInputError(
            f"{name} must be a matrix of codes (n, n_bytes); got shape {array.shape}.{hint}"
        )
    return np.ascontiguousarray(array)


def as_bytes(codes: ArrayLike, name: str) -> Codes:
    """Packed codes of any shape, refused unless they are uint8."""
    array = np.asarray(codes)
    if array.dtype != np.uint8:
        raise InvalidTypeError(
            f"{name} must be packed codes of dtype uint8; got dtype {array.dtype}. "
            "Pack bits with bilsh.codes.pack, or encode descriptors with an encoder."
        )
    if array.ndim == 0:
        raise InvalidInputError(f"{name} must be codes (n, n_bytes); got a single number.")
    return array


def check_widths(a: Codes, b: Codes, a_name: str, b_name: str) -> None:
    """Refuse codes of different length."""
    if a.shape[-1] != b.shape[-1]:
        raise InvalidInputError(
            f"{a_name} and {b_name} must have codes of equal length; "
            f"got {a.shape[-1]} and {b.shape[-1]} bytes per code. Were they made by the same encoder?"
        )


def _bits_within(n_bits: int, codes: Codes) -> int:
    n_bits = check_integer("n_bits", n_bits, minimum=1)
    if n_bits > 8 * codes.shape[-1]:
        raise InvalidInputError(
            f"n_bits must be at most {8 * codes.shape[-1]}, the bits of these codes; got {n_bits}."
        )
    return n_bits
