"""The descriptor of images that a store's recipe names."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bilsh.descriptors.kinds import Descriptor, Hog, Pixels, Vlad
from bilsh.errors import InvalidInputError
from bilsh.store.recipe import Settings


def make_descriptor(settings: Settings, codebook: NDArray[np.float32] | None) -> Descriptor:
    """Return the descriptor that settings name."""
    if settings.describe == "vlad" and codebook is not None:
        return Vlad(codebook)
    if settings.describe == "hog":
        return Hog(settings.side or 128)
    if settings.describe == "pixels":
        return Pixels(settings.side or 32, settings.side or 32)
    raise InvalidInputError(
        f"describe must be 'vlad' (with a codebook), 'hog' or 'pixels'; got {settings.describe!r}."
    )
