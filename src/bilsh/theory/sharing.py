"""How many pairs of bits of a bilinear code share a projection vector.

The variance of a code depends on its design only through these counts: see :mod:`bilsh.theory.covariance`.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh.errors import InvalidInputError

DESIGNS = ("grid", "random", "balanced", "independent")
"""Names of designs, see :meth:`BitSharing.from_design`."""


@dataclass(frozen=True, slots=True)
class BitSharing:
    """Counts of ordered pairs of bits by what they have in common.

    Parameters
    ----------
    n_bits : int
        Length of the code.
    one : float
        Ordered pairs of bits that share exactly one vector (left or right); for random subsets the expected
        number.
    both : float
        Ordered pairs that share both vectors but have independent offsets and thresholds.
    quadrature : float
        Ordered pairs that share both vectors, with offsets b and b - pi/2 and zero thresholds.

    Examples
    --------
    >>> BitSharing.from_degrees([2, 2], [2, 2])
    BitSharing(n_bits=4, one=8.0, both=0.0, quadrature=0.0)
    """

    n_bits: int
    one: float = 0.0
    both: float = 0.0
    quadrature: float = 0.0

    def __post_init__(self) -> None:
        if self.n_bits < 1:
            raise InvalidInputError(f"n_bits must be at least 1; got {self.n_bits}.")
        counts, pairs = (self.one, self.both, self.quadrature), self.n_bits * (self.n_bits - 1)
        # Expected counts of a prefix are rounded, so the sum may pass the limit by that.
        if not (min(counts) >= 0 and sum(counts) <= pairs * (1 + 1e-12)):
            raise InvalidInputError(
                f"one, both and quadrature count different ordered pairs of {self.n_bits} bits: each is >= 0, and "
                f"their sum at most {pairs}; got {self.one:g}, {self.both:g} and {self.quadrature:g}."
            )

    @classmethod
    def from_degrees(
        cls, row_degrees: ArrayLike, column_degrees: ArrayLike, *, quadrature: bool = False
    ) -> "BitSharing":
        """Count from how often each vector is used, for distinct pairs (w_i, v_j).

        Parameters
        ----------
        row_degrees, column_degrees : array (a,), (c,)
            Number of pairs that use w_i, and v_j. Both sum to the number of pairs.
        quadrature : bool
            Whether each pair gives two bits, at b and b - pi/2.

        Returns
        -------
        BitSharing
        """
        rows, columns = (
            np.asarray(row_degrees, dtype=np.float64),
            np.asarray(column_degrees, dtype=np.float64),
        )
        if rows.sum() != columns.sum() or (rows < 0).any() or (columns < 0).any():
            raise InvalidInputError(
                f"row and column degrees count the same pairs and are >= 0; got sums {rows.sum():g} and "
                f"{columns.sum():g}."
            )
        copies, n_pairs = (2, int(rows.sum())) if quadrature else (1, int(rows.sum()))
        one = float((rows * (rows - 1)).sum() + (columns * (columns - 1)).sum())
        return cls(copies * n_pairs, copies**2 * one, 0.0, 2.0 * n_pairs if quadrature else 0.0)

    @classmethod
    def from_pairs(cls, pairs: ArrayLike, *, quadrature: bool = False) -> "BitSharing":
        """Count from the pairs themselves, one row (i, j) per bit; a pair may occur more than once.

        Parameters
        ----------
        pairs : array (k, 2) of int
            Left and right vector of each bit.
        quadrature : bool
            Whether bits with the same pair are quadrature bits (offsets b and b - pi/2) or have their own
            offsets.

        Returns
        -------
        BitSharing
        """
        array = np.asarray(pairs)
        if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
            raise InvalidInputError(
                f"pairs must be integers of shape (k, 2); got {array.dtype} of shape {array.shape}."
            )

        def ordered(counts: NDArray[np.int64]) -> float:
            return float((counts * (counts - 1)).sum())

        same = np.unique(array, axis=0, return_counts=True)[1]
        if quadrature and same.max(initial=0) > 2:
            raise InvalidInputError(
                f"quadrature has at most 2 bits per pair; one pair occurs {same.max()} times."
            )
        both = ordered(same)
        either = sum(ordered(np.unique(array[:, side], return_counts=True)[1]) for side in (0, 1))
        counted = (0.0, both) if quadrature else (both, 0.0)
        return cls(len(array), either - 2 * both, *counted)

    @classmethod
    def from_design(
        cls, n_bits: int, *, oversampling: float = 1, design: str = "grid", quadrature: bool = False
    ) -> "BitSharing":
        """Count for a design by name.

        Parameters
        ----------
        n_bits : int
            k. A grid that does not fit exactly is the next larger one, cut to k bits in random order.
        oversampling : float
            m >= 1: the vectors form an m sqrt(k) x m sqrt(k) grid of pairs.
        design : {"grid", "random", "balanced", "independent"}
            "grid": all pairs (needs m = 1); "random": k of the m^2 k pairs uniformly at random (Algorithm 1);
            "balanced": k of them with degrees as equal as possible, the best for given k and m;
            "independent": own vectors for every bit, nothing shared but quadrature.
        quadrature : bool
            Whether each pair gives two bits; then k/2 pairs are used.

        Returns
        -------
        BitSharing
        """
        if design not in DESIGNS:
            raise InvalidInputError(f"design must be one of {', '.join(DESIGNS)}; got {design!r}.")
        if n_bits < 1 or not oversampling >= 1:
            raise InvalidInputError(f"n_bits and oversampling must be >= 1; got {n_bits} and {oversampling}.")
        if design == "grid" and oversampling != 1:
            raise InvalidInputError(
                f"design='grid' uses every pair, so oversampling must be 1; got {oversampling}. "
                "Use 'random' or 'balanced'."
            )
        n_pairs = math.ceil(n_bits / 2) if quadrature else n_bits
        if design == "independent":
            whole = cls.from_degrees(np.ones(n_pairs), np.ones(n_pairs), quadrature=quadrature)
            return whole.prefix(n_bits)
        n_left = max(1, round(oversampling * math.sqrt(n_pairs)))
        n_right = math.ceil(max(n_pairs, round(oversampling**2 * n_pairs)) / n_left)
        if design == "balanced":
            degrees = (np.full(n, n_pairs // n) + (np.arange(n) < n_pairs % n) for n in (n_left, n_right))
            return cls.from_degrees(*degrees, quadrature=quadrature).prefix(n_bits)
        return cls.from_degrees(
            np.full(n_left, n_right), np.full(n_right, n_left), quadrature=quadrature
        ).prefix(n_bits)

    def prefix(self, n_bits: int) -> "BitSharing":
        """Count for the first `n_bits` of a code whose bits stand in uniformly random order.

        A prefix is a uniformly random subset, so each ordered pair survives with probability
        n (n - 1) / (k (k - 1)); counts become their expected values.

        Parameters
        ----------
        n_bits : int
            Length of the prefix, 1 <= n_bits <= self.n_bits.

        Returns
        -------
        BitSharing

        Examples
        --------
        >>> BitSharing.from_degrees([2, 2], [2, 2]).prefix(2).one
        1.3333333333333333
        """
        if not 1 <= n_bits <= self.n_bits:
            raise InvalidInputError(
                f"a prefix of {self.n_bits} bits has 1 to {self.n_bits} bits; got {n_bits}."
            )
        if n_bits == self.n_bits:
            return self
        kept = n_bits * (n_bits - 1) / (self.n_bits * (self.n_bits - 1))
        return BitSharing(n_bits, kept * self.one, kept * self.both, kept * self.quadrature)
