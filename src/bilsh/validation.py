"""The door: descriptors are checked here once, and nowhere else.

Everything behind the door may rely on float32 rows that are finite, contiguous and of the right length.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from math import prod
from numbers import Integral, Real
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from bilsh import _native
from bilsh.errors import InvalidInputError, InvalidTypeError
from bilsh.types import Values

_Call = TypeVar("_Call", bound=Callable[..., Any])

FLOAT32 = np.dtype(np.float32)

BLOCK_BYTES = 16 << 20
"""Descriptors that need conversion pass the door in blocks of at most this many bytes."""

MAX_THREADS = 1024
"""More threads than any machine has cores only cost memory; larger requests mean this many."""


def check_integer(name: str, value: Any, *, minimum: int) -> int:
    """Return ``value`` as int if it is a whole number >= ``minimum``; else raise a typed error."""
    if type(value) is not int and (isinstance(value, bool | np.bool_) or not isinstance(value, Integral)):
        raise InvalidTypeError(f"{name} must be a whole number >= {minimum}; got {value!r}.")
    if value < minimum:
        raise InvalidInputError(f"{name} must be >= {minimum}; got {value}.")
    return int(value)


def thread_count(n_jobs: int | None) -> int:
    """Return the number of threads that n_jobs means: None is 1, -1 all cores that this process has, -2 one less."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral):
        raise InvalidTypeError(f"n_jobs must be an integer or None; got {n_jobs!r}.")
    if n_jobs == 0:
        raise InvalidInputError("n_jobs must not be 0; use None or 1 for one thread, -1 for all cores.")
    if n_jobs > 0:
        return min(int(n_jobs), MAX_THREADS)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(max(1, cores + 1 + int(n_jobs)), MAX_THREADS)


def check_boolean(name: str, value: Any) -> bool:
    """Return ``value`` as bool if it is one; else raise a typed error."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidTypeError(f"{name} must be True or False; got {value!r}.")
    return bool(value)


def check_positive(name: str, value: Any) -> float:
    """Return ``value`` as float if it is a finite number > 0; else raise a typed error."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise InvalidTypeError(f"{name} must be a number > 0; got {value!r}.")
    if not 0 < float(value) < np.inf:
        raise InvalidInputError(f"{name} must be finite and > 0; got {value}.")
    return float(value)


def check_fraction(name: str, value: Any, *, zero: bool = False) -> float:
    """Return ``value`` as float if it is between 0 and 1, ends excluded (0 allowed with ``zero``)."""
    if type(value) is not float and (isinstance(value, bool | np.bool_) or not isinstance(value, Real)):
        raise InvalidTypeError(f"{name} must be a number between 0 and 1; got {value!r}.")
    if not (0 < float(value) < 1 or (zero and value == 0)):
        where = "in [0, 1)" if zero else "between 0 and 1, ends excluded"
        raise InvalidInputError(f"{name} must be {where}; got {value!r}.")
    return float(value)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``choices``; else raise a typed error that lists them."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise InvalidInputError(f"{name} must be one of {listed}; got {value!r}.")
    return value


def is_sparse(X: Any) -> bool:
    """Tell whether X is a SciPy sparse matrix or array; without SciPy loaded, nobody can have made one."""
    if "scipy.sparse" not in sys.modules:
        return False
    from scipy.sparse import issparse

    return bool(issparse(X))


def refuse_masked(name: str, values: Any) -> None:
    """Refuse masked arrays: NumPy would drop the mask without a word."""
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidTypeError(
            f"{name} is a masked array; masked values have no bits. Fill them, or keep the rows without."
        )


def as_array(name: str, values: Any) -> NDArray[Any]:
    """Return values as an array; a typed error where they are masked or do not make a rectangle."""
    refuse_masked(name, values)
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"{name} must be a rectangular array; {error}.") from None


def as_descriptors(X: Any, *, accept_sparse: bool = False) -> Any:
    """Return X as an array (n, d) or (n, d_w, d_v) of real numbers, or as a CSR matrix; nothing is copied yet.

    Only what the type and the shape can tell is checked here; the values are checked block by block in
    :func:`finite_blocks`, so that a mapped file larger than memory may pass.
    """
    if is_sparse(X):
        if not accept_sparse:
            raise InvalidTypeError(
                "X is sparse; only the dense projection takes sparse input. Pass X.toarray(), or use "
                "projection='dense'."
            )
        from scipy.sparse import csr_array

        X = csr_array(X)
    else:
        refuse_masked("X", X)
        try:
            X = np.asarray(X)
        except ValueError as error:
            raise InvalidInputError(
                f"X must be a rectangular array (n, d) or (n, d_w, d_v); got {error}."
            ) from error
    if X.dtype.kind == "c":
        raise InvalidInputError(
            "Complex data not supported: X must hold real numbers; pass X.real or abs(X)."
        )
    if X.dtype.kind == "O":
        try:
            X = X.astype(np.float64)  # numbers pass, as scikit-learn asks
        except (ValueError, OverflowError) as error:
            raise InvalidInputError(f"X must hold real numbers; {error}.") from None
        except TypeError as error:
            raise InvalidTypeError(f"X must hold real numbers; {error}.") from None
    if X.dtype.kind not in "biuf":
        raise InvalidTypeError(f"X must hold real numbers; got dtype {X.dtype}.")
    if X.ndim not in (2, 3):
        raise InvalidInputError(
            f"X must have 2 dimensions (n, d) or 3 (n, d_w, d_v); got shape {X.shape}. Reshape your data using "
            + ("X.reshape(1, -1) if it is a single descriptor." if X.ndim < 2 else "X.reshape(len(X), -1).")
        )
    if 0 in X.shape[1:]:
        raise InvalidInputError(
            f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required."
        )
    return X


def check_shape(X: Any, fitted: tuple[int, ...]) -> Any:
    """Refuse descriptors that have not the shape of those at fit; matrices may come as vectors."""
    if X.ndim == 3 and X.shape[1:] != fitted:
        kind = "vectors" if len(fitted) == 1 else "matrices"
        raise InvalidInputError(
            f"X has matrix shape {X.shape[1:]}; this encoder was fitted on {kind} of shape {fitted}."
        )
    if X.ndim == 2 and X.shape[1] != prod(fitted):
        raise InvalidInputError(
            f"X has {X.shape[1]} features, but the encoder is expecting {prod(fitted)} features as input."
        )
    return X


def rows_per_block(d: int, block_bytes: int = BLOCK_BYTES) -> int:
    """Rows of d float32 numbers that make a block, a multiple of 64 so that lanes stay full."""
    return max(64, block_bytes // (4 * d) // 64 * 64)


def is_plain(X: Any) -> bool:
    """Tell whether X is an array that the compiled core can read as it lies."""
    return type(X) is np.ndarray and X.dtype == FLOAT32 and X.flags.c_contiguous


def float32_blocks(X: Any, rows: int | None = None) -> Iterator[tuple[int, Values]]:
    """Yield (first row, rows as contiguous float32 of shape (rows, d)) over all of X; values are not looked at.

    float32 rows that already lie right are passed on as views.
    """
    n, d = X.shape[0], int(np.prod(X.shape[1:]))
    step = rows_per_block(d) if rows is None else rows
    for start in range(0, n, step):
        part = X[start : start + step]
        block = np.asarray(part.toarray() if is_sparse(X) else part)
        with np.errstate(over="ignore"):
            yield start, np.ascontiguousarray(block.reshape(len(block), d), dtype=np.float32)


def finite_blocks(X: Any) -> Iterator[tuple[int, Values]]:
    """Yield as :func:`float32_blocks` does, and refuse NaN, infinity and numbers too large for float32."""
    for start, block in float32_blocks(X):
        if _native.first_nonfinite(block) >= 0:
            raise nonfinite_error(X, start, block)
        yield start, block


def nonfinite_error(X: Any, start: int, block: Values) -> InvalidInputError:
    """Explain why the rows from ``start`` on, given as float32, cannot be projected."""
    bad = _native.first_nonfinite(block)
    last = start + len(block) - 1
    if bad < 0:
        return InvalidInputError(
            f"A descriptor among rows {start} to {last} of X is so large that its projection overflows float32 or, for "
            "kernel codes, lies so many bandwidths away that its phase is lost. Scale it like the data at fit."
        )
    first = np.unravel_index(bad, (len(block), *X.shape[1:]))
    place = tuple(int(i) for i in (start + first[0], *first[1:]))
    value, text = X[place], ", ".join(str(i) for i in place)
    if np.isfinite(value):
        return InvalidInputError(
            f"X[{text}] is {value!r}, which overflows float32. Scale the data first, e.g. X / np.abs(X).max()."
        )
    name = "NaN" if np.isnan(value) else "infinity (inf)"
    rows = int((~np.isfinite(block)).any(axis=1).sum())
    axes = "axis=1" if len(X.shape) == 2 else "axis=(1, 2)"
    return InvalidInputError(
        f"X[{text}] is {name} (among rows {start} to {last} of {X.shape[0]}, {rows} have NaN or inf). "
        f"Remove or impute them first, e.g. X = X[np.isfinite(X).all({axes})]."
    )


def gone(**names: str) -> Callable[[_Call], _Call]:
    """Refuse arguments that a function once had, and say what took their place; its signature does not show them."""

    def decorate(function: _Call) -> _Call:
        @wraps(function)
        def run(*arguments: Any, **settings: Any) -> Any:
            try:
                return function(*arguments, **settings)
            except TypeError:  # nobody else waits for this check
                for name in names.keys() & settings.keys():
                    raise InvalidTypeError(f"the argument {name} is gone: {names[name]}") from None
                raise

        return cast(_Call, run)

    return decorate
