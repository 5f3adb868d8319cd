"""Descriptors of the user's own: any function from an image to numbers, named as module:function."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bilsh.descriptors.kinds import Matrix
from bilsh.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A function of the user's as a descriptor, e.g. the last layer of a network.

    The function takes an image, uint8 (height, width, 3) in red, green and blue, and returns d numbers, or a matrix
    (d_w, d_v); always as many. It may return None for an image that shows nothing to describe. It is looked up by its
    name, so its module must be importable, or lie in the current folder.

    Naming a function runs its module: name only what you trust, and take no name from a file that came from others.

    Parameters
    ----------
    name : str
        "module:function"; dots reach into packages, "package.module:function".

    Examples
    --------
    >>> UserFunction("bilsh.descriptors.user:mean_color").shape
    (1, 3)
    """

    color: ClassVar[bool] = True

    name: str
    shape: tuple[int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # What it returns is learned from an image of noise, the size that most networks expect.
        noise = np.random.default_rng(0).integers(0, 256, (224, 224, 3), dtype=np.uint8)
        probe = _numbers(_called(self.name, noise), self.name)
        if probe is None:
            raise InvalidInputError(f"{self.name} returned None for an image of noise; its size is unknown.")
        object.__setattr__(self, "shape", (1, probe.size) if probe.ndim == 1 else probe.shape)

    def compute(self, image: NDArray[np.uint8]) -> Matrix | None:
        """Describe red, green and blue (height, width, 3)."""
        found = _numbers(_called(self.name, image), self.name)
        if found is not None and found.size != prod(self.shape):
            raise InvalidInputError(
                f"{self.name} returned {found.size} numbers for an image of shape {image.shape}, "
                f"{prod(self.shape)} for another. It must return as many for every image."
            )
        return None if found is None else found.reshape(self.shape)


def user_function(name: str) -> Callable[[NDArray[np.uint8]], Any]:
    """Find a function by its name "module:function"; the current folder is looked in last."""
    module, separator, attribute = name.partition(":")
    if not separator or not module or not attribute:
        raise InvalidInputError(f"a function is named as module:function, e.g. mynet:describe; got {name!r}.")
    try:
        found: Any = _module(module)
    except ImportError as error:
        raise InvalidInputError(
            f"{name}: {error}. The module must be installed, or lie in the current folder."
        ) from None
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise InvalidInputError(f"{module} has no function {attribute}.")
    function: Callable[[NDArray[np.uint8]], Any] = found
    return function


def _called(name: str, image: NDArray[np.uint8]) -> Any:
    function = user_function(name)
    try:
        return function(image)
    except Exception as error:
        raise InvalidInputError(
            f"{name} failed on an image of shape {image.shape}: {type(error).__name__}: {error}"
        ) from error


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        here = str(Path.cwd())
        if error.name != name.partition(".")[0] or here in sys.path:
            raise
        sys.path.append(here)
        return import_module(name)


def _numbers(value: Any, name: str) -> Matrix | None:
    if value is None:
        return None
    array = np.asarray(value)
    if array.dtype.kind not in "fiub" or array.ndim not in (1, 2) or not array.size:
        raise InvalidInputError(
            f"{name} must return numbers (d,) or (d_w, d_v), or None; got {array.dtype} of shape {array.shape}."
        )
    if not np.isfinite(array).all():
        raise InvalidInputError(f"{name} returned NaN or infinite values.")
    return array.astype(np.float32)


def mean_color(image: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Mean red, green and blue in [0, 1]: the smallest example of a function for :class:`UserFunction`."""
    return np.asarray(image.mean(axis=(0, 1)) / 255)
