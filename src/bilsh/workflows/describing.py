"""The descriptor of images that a store's recipe names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bilsh.datasets.images import images
from bilsh.descriptors.choice import DESCRIPTORS, DescriptorChoice, choose_descriptor, named_descriptor
from bilsh.descriptors.kinds import Descriptor
from bilsh.errors import InvalidInputError
from bilsh.store.recipe import Settings
from bilsh.types import Progress
from bilsh.workflows.resuming import CHOSEN


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


def descriptor_for(
    source: Path,
    settings: Settings,
    codebook: NDArray[np.float32] | None,
    say: Progress,
) -> DescriptorChoice:
    """Choose the descriptor of a folder's images by a look at them, or take the one that was asked for."""
    name = None if settings.describe == CHOSEN else settings.describe
    if codebook is not None:
        if name not in (None, "vlad"):
            raise InvalidInputError(f"a codebook belongs to --describe vlad; got {name!r}.")
        name = "vlad"
    folder = images(source, max_side=settings.max_side)
    try:
        return choose_descriptor(
            folder, name, side=settings.side, centers=settings.centers or None, codebook=codebook,
            seed=settings.seed, progress=say,
        )  # fmt: skip
    except InvalidInputError as error:
        if name != "vlad":
            raise
        raise InvalidInputError(f"{error} (--centers, --codebook, or --describe hog.)") from None
