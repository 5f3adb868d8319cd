"""Cells of learned codes in a segment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bilsh.codes import Codes
from bilsh.encoders.euclidean_coder import EuclideanCoder
from bilsh.search.places import Places
from bilsh.store.sections import SectionWriter
from bilsh.store.segment import Segment


@dataclass(frozen=True, slots=True)
class PlaceArrangement:
    """How rows of learned codes become cells.

    Attributes
    ----------
    places : Places
    coder : EuclideanCoder
    learned : int
        Rows there were when they were learned.
    asked : int
        Number of cells that was asked for; 0 for auto.
    """

    places: Places
    coder: EuclideanCoder
    learned: int
    asked: int

    @classmethod
    def of(cls, segment: Segment, coder: EuclideanCoder) -> PlaceArrangement:
        """Arrangement of a segment."""
        learned, asked = segment.file.rows_of("learned", 0, 2)[:, 0].tolist()
        axes, centres, owners = (
            segment.file.rows_of(name, 0, segment.file.sections[name].rows)
            for name in ("axes", "centres", "owners")
        )
        owned = np.ascontiguousarray(owners[:, 0])
        if not np.array_equal(np.unique(owned), np.arange(coder.transform.n_centres)) or np.any(
            owned[1:] < owned[:-1]
        ):
            raise segment.file.corrupt("section owners does not give each centre of the encoder its cells")
        return cls(Places(axes, centres, owned), coder, learned, asked)

    @property
    def width(self) -> int:
        """How many bytes of a code say in which cell it is."""
        return self.coder.n_bytes

    def __len__(self) -> int:
        return len(self.places)

    def cell_of(self, codes: Codes, n_jobs: int) -> NDArray[np.int32]:
        """Cell of each of some codes."""
        return self.places.cell_of(self.coder, codes, n_jobs)

    def write(self, writer: SectionWriter) -> None:
        """Write what there is to know of the cells but where they begin."""
        places = self.places
        writer.section("centres", "<f4", places.centres.shape[1], [places.centres])
        writer.section("axes", "<f4", places.axes.shape[1], [places.axes])
        writer.section("owners", "<u1", 1, [places.owners])
