"""Packages that only some parts need, loaded when they are first used."""

from importlib import import_module
from typing import Any

from bilsh.errors import MissingPackageError

_SOURCES = {
    "cv2": ("opencv-python-headless", "images"),
    "faiss": ("faiss-cpu", "faiss"),
    "h5py": ("h5py", "data"),
    "matplotlib": ("matplotlib", "plot"),
    "pyarrow": ("pyarrow", "data"),
    "pyarrow.compute": ("pyarrow", "data"),
    "pyarrow.parquet": ("pyarrow", "data"),
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
