r"""How orthogonal projection vectors lower the variance of a bilinear code.

Vectors of an orthogonal block repel each other: if one of them sees much of a difference D, the others see
less. Let q = p given w, a function of w^T A w with A = D D^T. Its part linear in w^T A w,

    C_lin = 2 sum_j (lambda_j dp/dlambda_j)^2  <=  C = Var_w[p given w],

takes part in the repulsion through second moments of Haar-distributed orthonormal pairs, which are known in
closed form; the rest is counted as if the vectors were independent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh.theory._series import bilinear_mismatch
from bilsh.types import Floats

_NODES = 12
_STEP = 1e-4
_ORTHOGONAL = 1e-5  # cosine: above rounding, and below what independent vectors have but once in 10^4 pairs


@dataclass(frozen=True, slots=True)
class OrthogonalPairs:
    """Counts of ordered pairs of bits whose projection vectors are orthogonal.

    Attributes
    ----------
    left_dim, right_dim : int
        d_w and d_v, in which the vectors are orthogonal.
    shared_left, shared_right : int
        Pairs that share w and have orthogonal v, and the mirror image.
    both, left, right : int
        Pairs that share nothing: w and v orthogonal; only w; only v.
    """

    left_dim: int
    right_dim: int
    shared_left: int
    shared_right: int
    both: int
    left: int
    right: int

    @classmethod
    def of(cls, left: NDArray[np.float32], right: NDArray[np.float32], pairs: ArrayLike) -> OrthogonalPairs:
        """Count from the factors (a, d_w), (c, d_v) themselves and the pairs (k, 2) of the bits.

        Examples
        --------
        >>> grid = np.stack(np.divmod(np.arange(4), 2), axis=1)
        >>> OrthogonalPairs.of(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32), grid)
        OrthogonalPairs(left_dim=2, right_dim=2, shared_left=4, shared_right=4, both=4, left=0, right=0)
        """
        i, j = np.asarray(pairs).T
        w_block, v_block = orthogonal_blocks(left)[i], orthogonal_blocks(right)[j]
        same = _ordered(i, j)
        w_and_block, block_and_v, blocks = (
            _ordered(i, v_block),
            _ordered(w_block, j),
            _ordered(w_block, v_block),
        )
        return cls(
            left.shape[1],
            right.shape[1],
            w_and_block - same,
            block_and_v - same,
            blocks - w_and_block - block_and_v + same,
            _ordered(w_block) - _ordered(i) - (blocks - w_and_block),
            _ordered(v_block) - _ordered(j) - (blocks - block_and_v),
        )

    def correction(self, linear: Floats, rank: Floats) -> Floats:
        r"""Sum over all ordered pairs of bits of what orthogonality adds to their covariance; not positive.

        Parameters
        ----------
        linear : array (...)
            C_lin, see :func:`linear_covariance`.
        rank : array (...)
            Effective rank r of the spectrum.

        Returns
        -------
        array (...)

        Notes
        -----
        For orthonormal u, u' in d dimensions E[(u.a)^2 (u'.b)^2] =
        ((d+1) |a|^2 |b|^2 - 2 (a.b)^2) / (d (d-1) (d+2)). Status: exact for the linear part.
        """
        d_w, d_v = self.left_dim, self.right_dim
        scale = linear * rank
        w_norm, v_norm = max((d_w - 1) * (d_w + 2), 1), max((d_v - 1) * (d_v + 2), 1)
        lengths = 1 + 2 * (1 - d_v / rank) / v_norm
        products = d_v * (d_v / rank - 1) / v_norm
        both = 0.5 * (d_w * ((d_w + 1) * lengths - 2 * products) / w_norm - 1)
        return np.asarray(
            scale
            * (
                self.shared_left * ((d_v / rank - 1) / (d_v + 2) - 1 / rank)
                + self.shared_right * ((d_w / rank - 1) / (d_w + 2) - 1 / rank)
                + (self.both * both if self.both else 0.0)
                + self.left * (1 - d_w / rank) / w_norm
                + self.right * (1 - d_v / rank) / v_norm
            )
        )


def linear_covariance(spectrum: Floats, thresholds: str) -> Floats:
    r"""C_lin = 2 sum_j (lambda_j dp/dlambda_j)^2 of spectra (..., r); between 0 and C.

    The derivative is a smooth function of lambda_j, so it is taken at a few eigenvalues, by central differences,
    and interpolated at the others.
    """
    spectrum = np.sort(np.asarray(spectrum, dtype=np.float64), axis=-1)
    r = spectrum.shape[-1]
    nodes = np.unique(np.linspace(0, r - 1, min(r, _NODES)).round().astype(np.int64))
    steps = np.zeros((len(nodes), r))
    steps[np.arange(len(nodes)), nodes] = _STEP
    up, down = (
        bilinear_mismatch(spectrum[..., None, :] * (1 + sign * steps), thresholds) for sign in (1.0, -1.0)
    )
    slopes = (up - down) / (2 * _STEP)
    flat_slopes, flat = slopes.reshape(-1, len(nodes)), spectrum.reshape(-1, r)
    every = np.stack([np.interp(x, x[nodes], y) for x, y in zip(flat, flat_slopes, strict=True)])
    return np.asarray(2 * np.square(every).sum(axis=-1).reshape(spectrum.shape[:-1]))


def orthogonal_blocks(vectors: NDArray[np.float32]) -> NDArray[np.int64]:
    """Label of each row's block of mutually orthogonal rows; a label of its own where it has none.

    Examples
    --------
    >>> orthogonal_blocks(np.array([[1, 0], [0, 2], [1, 1], [3, -3]], dtype=np.float32))
    array([0, 0, 1, 1])
    """
    rows = np.asarray(vectors, dtype=np.float64)
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    labels = np.full(len(rows), -1, dtype=np.int64)
    label = 0
    while (left := np.flatnonzero(labels < 0)).size:
        first = left[0]
        labels[left[np.abs(rows[left] @ rows[first]) < _ORTHOGONAL]] = label
        labels[first] = label
        label += 1
    return labels


def _ordered(*labels: NDArray[np.int64]) -> int:
    """Ordered pairs of bits, a bit with itself included, that agree in all labels."""
    counts = np.unique(np.stack(labels), axis=1, return_counts=True)[1]
    return int(np.square(counts, dtype=np.int64).sum())
