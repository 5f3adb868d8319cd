"""The descriptor of images that a store's recipe names."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bilsh.descriptors.choice import DESCRIPTORS, named_descriptor
from bilsh.descriptors.kinds import Descriptor
from bilsh.errors import InvalidInputError
from bilsh.store.recipe import Settings


def make_descriptor(
    settings: Settings, codebook: NDArray[np.float32] | None, *, asked: str | None = None
) -> Descriptor:
    """Return the descriptor that settings name.

    Parameters
    ----------
    settings : Settings
    codebook : float32 (c, 128) or None
        VLAD centres.
    asked : str, optional
        The descriptor that the user named. A function of the user's is imported only if he names it himself: a store
        that came from elsewhere shall not say what runs here.
    """
    name = settings.describe
    if ":" in name and name not in DESCRIPTORS and asked != name:
        raise InvalidInputError(
            f"the images of this store are described by the function {name}, which would be run. "
            f"Say --describe {name} if you trust it."
        )
    return named_descriptor(name, side=settings.side, codebook=codebook)
