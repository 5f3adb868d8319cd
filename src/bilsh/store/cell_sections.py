"""Sections of a segment whose rows are in the order of cells."""

from __future__ import annotations

import numpy as np

from bilsh.store.rows import Layout
from bilsh.store.sections import SectionFile

OF_CELLS = ("centres", "cells", "learned")
"""Centres, where each cell begins, and how many rows there were when centres were learned and how many cells were asked
for (0: auto)."""

OF_PLACES = (*OF_CELLS, "axes", "owners")
"""The same where codes are learned: centres are places, along axes, and each cell has a centre of the encoder."""


def cells_fit(file: SectionFile, layout: Layout) -> bool:
    """Whether the sections of cells are all there, or none, and of the lengths they must have."""
    names = tuple(name for name in OF_PLACES if name in file.sections)
    if names not in (OF_CELLS, OF_PLACES):
        return not names
    centres, cells, learned, *of_places = (file.sections[name] for name in names)
    if of_places:
        axes, owners = of_places
        fits = (
            (axes.dtype, centres.dtype) == (np.dtype("<f4"), np.dtype("<f4"))
            and (axes.rows, axes.columns) == (centres.columns, layout.n_features + 1)
            and (owners.dtype, owners.columns, owners.rows) == (np.dtype("<u1"), 1, centres.rows)
        )
    else:
        fits = centres.dtype == np.dtype("<u1") and centres.columns <= layout.n_bytes
    return (
        fits
        and all((section.dtype, section.columns) == (np.dtype("<i8"), 1) for section in (cells, learned))
        and (cells.rows, learned.rows) == (centres.rows + 1, 2)
        and centres.rows > 0
    )
