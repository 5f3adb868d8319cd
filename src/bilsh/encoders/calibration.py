"""What a Hamming distance means for a coder: the law of its bits, and how far a code strays from it.

A calibration knows which distance or angle (its *primary* quantity) has a given expected fraction of differing bits,
how many independent bits the code is worth there, and the weights by which a query's real values score stored bits.
It is made once per coder, ``coder.calibration``, and keeps its tables.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import InvalidInputError, InvalidTypeError
from bilsh.theory.scores import ScoreLaw
from bilsh.types import Floats, Values

if TYPE_CHECKING:
    from bilsh.encoders.coder import Coder

Weights = tuple[NDArray[np.float32], NDArray[np.float32]]
_T = TypeVar("_T")

MEMORY = 16
"""Tables that a calibration keeps; more would be as many confidences as queries."""


class Calibration(ABC):
    """Base of the calibrations.

    Attributes
    ----------
    quantities : tuple of str
        What the codes tell, the primary quantity first.
    similarity : str
        That one of them which grows with nearness and is shown by default.
    n_bits : int
    """

    quantities: ClassVar[tuple[str, ...]]
    similarity: ClassVar[str]

    def __init__(self, coder: Coder) -> None:
        self.n_bits = coder.n_bits
        self._tables: dict[Hashable, Any] = {}

    @abstractmethod
    def primary(self, fraction: Floats) -> Floats:
        """Primary quantity at which the expected fraction is `fraction`."""

    @abstractmethod
    def fraction_at(self, primary: Floats) -> Floats:
        """Expected fraction of differing bits at a primary quantity."""

    @abstractmethod
    def convert(self, primary: Floats, quantity: str) -> Floats:
        """Primary quantity to one of `quantities`."""

    @abstractmethod
    def effective_bits(self, fraction: Floats) -> Floats:
        """Independent bits that the code is worth where the expected fraction is `fraction`."""

    def extremes(self, fraction: Floats) -> tuple[Floats, Floats] | None:
        """Smallest and largest primary quantity that may have an expected fraction; None where it is one."""
        return None

    def spread(self, fraction: Floats) -> Floats | None:
        """How far expected fractions of pairs lie from the law, as a standard deviation; None where nobody knows."""
        return np.zeros(np.shape(fraction))

    @property
    def one_grid(self) -> bool:
        """Whether bits share vectors all over the code, so that longer codes share more."""
        return False

    @abstractmethod
    def score_weights(self, values: Values) -> Weights:
        """Weights (q, n_bits) and bias (q,) by which stored items are ranked, from the query's values."""

    @property
    @abstractmethod
    def score_law(self) -> ScoreLaw:
        """Expected score, against that of a copy and that of an unrelated item, at every expected fraction."""

    @abstractmethod
    def unrelated_bits(self) -> Floats:
        """Probability (n_bits,) that a bit of an unrelated item is 1."""

    def check_quantity(self, of: str | None) -> str:
        """Return the quantity asked for, the primary one for None; refuse what these codes do not tell."""
        if of is None:
            return self.quantities[0]
        if of not in self.quantities:
            hint = " Angle codes hold no norms, hence no distances." if of == "distance" else ""
            old = " It is called 'distance' now." if of == "euclidean" else ""
            raise InvalidInputError(
                f"these codes tell {' or '.join(self.quantities)}; got {of!r}.{hint}{old}"
            )
        return of

    def pair(self, low: Floats, high: Floats, quantity: str) -> Floats:
        """Two primary quantities as the ends (..., 2) of an interval of another."""
        return np.sort(self.convert(np.stack([low, high], axis=-1), quantity), axis=-1)

    def once(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return a table that depends on the calibration and the key only, made when it is first asked for."""
        kept: _T | None = self._tables.get(key)
        if kept is None:
            kept = make()
            # Other threads may come and go here: a table made twice is the same, one that is gone is made anew.
            while len(self._tables) >= MEMORY:
                self._tables.pop(next(iter(tuple(self._tables))), None)
            self._tables[key] = kept
        return kept


def signed(values: Values) -> Weights:
    """sum_r values_r (2 h_r - 1) as weights and bias."""
    return 2 * values, -values.sum(axis=1, dtype=np.float64).astype(np.float32)


def calibration_of(encoder: Any) -> Calibration:
    """Calibration of a coder, or of the one that a fitted encoder holds."""
    coder = getattr(encoder, "coder_", encoder)
    calibration = getattr(coder, "calibration", None)
    if isinstance(calibration, Calibration):
        return calibration
    if hasattr(encoder, "fit"):
        raise InvalidInputError("the encoder is not fitted yet. Call encoder.fit(X) first.")
    raise InvalidTypeError(
        f"encoder must be a fitted AngleEncoder or KernelEncoder; got {type(encoder).__name__}."
    )
