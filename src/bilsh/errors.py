"""Every error and warning that bilsh raises of its own, and the way to a package that may be missing.

Each is also the built-in kind a caller would expect (ValueError, TypeError, OSError), so generic handlers
keep working.
"""

from importlib import import_module
from typing import Any


class BilshError(Exception):
    """Base of all errors of this library."""


class InvalidInputError(BilshError, ValueError):
    """An argument has the wrong value, shape or range; the message says what was expected and what to do."""


class InvalidTypeError(BilshError, TypeError):
    """An argument has the wrong type; the message says what was expected and what to do."""


class IncompatibleCodesError(BilshError, ValueError):
    """Codes of one encoder were given where codes of another are needed."""


class CorruptEncoderError(BilshError, ValueError):
    """An encoder file is damaged, cut short, or not an encoder file at all."""


class CorruptExportError(BilshError, ValueError):
    """A file does not hold what `bilsh export` wrote; the message names it."""


class CorruptStoreError(BilshError, OSError):
    """A store's file is damaged or missing; the message names the file and, where known, the block."""


class StoreBusyError(BilshError, OSError):
    """Another writer has the store, or was there first."""


CorruptStore, StoreBusy = CorruptStoreError, StoreBusyError
"""Old names of these two."""


class MissingPackageError(BilshError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""


class EngineError(BilshError, RuntimeError):
    """An engine is down, refuses us, or cannot do what is asked; the message names it and says what to do."""


class DataNotFoundError(BilshError, FileNotFoundError):
    """A file or data set is not where it was looked for; the message lists the places and the remedies."""


class AssumptionWarning(UserWarning):
    """A published statement was evaluated where its assumptions do not hold."""


class EncoderAdviceWarning(UserWarning):
    """Measured on the data at hand, another encoder finds more neighbours. Fitting alone never warns."""


EncoderAdvice = EncoderAdviceWarning
"""Its old name."""


_SOURCES = {
    "cv2": ("opencv-python-headless", "images"),
    "faiss": ("faiss-cpu", "faiss"),
    "distributed": ("dask[distributed]", "dask"),
    "h5py": ("h5py", "data"),
    "lance": ("pylance", "lance"),
    "matplotlib": ("matplotlib", "plot"),
    "pandas": ("pandas", "data"),
    "psycopg": ("psycopg[binary]", "postgres"),
    "psycopg.types.json": ("psycopg[binary]", "postgres"),
    "usearch.index": ("usearch", "bench"),
    "pyarrow": ("pyarrow", "data"),
    "pyarrow.compute": ("pyarrow", "data"),
    "pyarrow.parquet": ("pyarrow", "data"),
    "pymilvus": ("pymilvus", "milvus"),
    "starlette": ("starlette", "view"),
    "uvicorn": ("uvicorn", "view"),
}


def optional(module: str, purpose: str) -> Any:
    """Import an optional module, or say what it is for and how to get it.

    Examples
    --------
    >>> optional("h5py", "Reading HDF5 files").__name__
    'h5py'
    """
    try:
        return import_module(module)
    except ImportError as error:
        package, extra = _SOURCES[module]
        raise MissingPackageError(
            f"{purpose} needs the package {package}: pip install 'bilsh[{extra}]' (or pip install {package})."
        ) from error
