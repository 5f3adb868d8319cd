"""Packed binary codes: packing, prefixes, Hamming distances.

A code of k bits is ceil(k / 8) bytes in little bit order: bit r is ``(code[r // 8] >> (r % 8)) & 1``; the
padding bits of the last byte are zero. Encoders put bits in random order, so the first bits of a code are a
(shorter) code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh import _native
from bilsh.errors import InvalidInputError, InvalidTypeError
from bilsh.validation import as_array, check_integer, thread_count

__all__ = ["hamming", "pack", "prefix", "unpack"]

Codes = NDArray[np.uint8]
BYTE = np.dtype(np.uint8)

SLAB_BYTES = (64, 192, 768, 3072)
_WORD = (1 << 64) - 1


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


@dataclass(frozen=True, slots=True)
class BitOrder:
    """A permutation of the bits of codes. Distances do not change; prefixes become random subsets.

    Attributes
    ----------
    permutation : int64 array (n_bits,)
        Bit r of a permuted code is bit ``permutation[r]`` of the code.
    """

    permutation: NDArray[np.int64]

    @classmethod
    def fixed(cls, n_bits: int) -> BitOrder:
        """Return the permutation that all codes of this length and of unknown origin are given.

        Its numbers are drawn by their own simple generator, so that they are the same for ever: a Fisher-Yates shuffle
        by SplitMix64.
        """
        permutation = list(range(n_bits))
        state = n_bits
        for last in range(n_bits - 1, 0, -1):
            state = (state + 0x9E3779B97F4A7C15) & _WORD
            z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORD
            other = ((z ^ (z >> 31)) * (last + 1)) >> 64
            permutation[last], permutation[other] = permutation[other], permutation[last]
        return cls(np.array(permutation, dtype=np.int64))

    def apply(self, codes: Codes) -> Codes:
        """Permute the bits of codes (n, n_bytes).

        Examples
        --------
        >>> order = BitOrder(np.array([1, 0, 2]))
        >>> unpack(order.apply(pack([[1, 0, 1]])), 3)
        array([[0, 1, 1]], dtype=uint8)
        """
        return self._gathered(codes, self.permutation)

    def undo(self, codes: Codes) -> Codes:
        """Return the codes that :meth:`apply` was given."""
        return self._gathered(codes, np.argsort(self.permutation))

    def _gathered(self, codes: Codes, source: NDArray[np.int64]) -> Codes:
        result = np.empty_like(codes)
        step = max(1, (16 << 20) // max(1, len(source)))
        for start in range(0, len(codes), step):
            bits = np.unpackbits(codes[start : start + step], axis=1, count=len(source), bitorder="little")
            # take, since indexing would lay the result out column by column, which packing reads four times as long
            result[start : start + step] = np.packbits(
                np.take(bits, source, axis=1), axis=1, bitorder="little"
            )
        return result


def as_codes(codes: ArrayLike, name: str) -> Codes:
    """Codes as the compiled core reads them: uint8 (n, n_bytes), C-contiguous; a copy only where needed."""
    if type(codes) is np.ndarray and codes.dtype is BYTE and codes.ndim == 2 and codes.flags.c_contiguous:
        return codes
    array = as_bytes(codes, name)
    if array.ndim != 2:
        hint = f" For a single code pass {name}[None, :]." if array.ndim == 1 else ""
        raise InvalidInputError(
            f"{name} must be a matrix of codes (n, n_bytes); got shape {array.shape}.{hint}"
        )
    return np.ascontiguousarray(array)


def as_bytes(codes: ArrayLike, name: str) -> Codes:
    """Packed codes of any shape, refused unless they are uint8."""
    array = as_array(name, codes)
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
    check_width(a, b.shape[-1], a_name, b_name)


def check_width(codes: Codes, n_bytes: int, name: str, other: str) -> None:
    """Refuse codes that are not so long as others."""
    if codes.shape[-1] != n_bytes:
        raise InvalidInputError(
            f"{name} and {other} must have codes of equal length; "
            f"got {codes.shape[-1]} and {n_bytes} bytes per code. Were they made by the same encoder?"
        )


def _bits_within(n_bits: int, codes: Codes) -> int:
    n_bits = check_integer("n_bits", n_bits, minimum=1)
    if n_bits > 8 * codes.shape[-1]:
        raise InvalidInputError(
            f"n_bits must be at most {8 * codes.shape[-1]}, the bits of these codes; got {n_bits}."
        )
    return n_bits
