"""Which published statements apply to the data at hand."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bilsh.errors import InvalidInputError
from bilsh.theory.covariance import bit_covariance
from bilsh.theory.distance import expected_hamming
from bilsh.theory.kernels import bilinear_kernel, effective_rank, gaussian_kernel, spectrum_of
from bilsh.theory.published import (
    LEMMA1_EXPONENT,
    covariance_bounds,
    hamming_bounds,
    norm_assumption,
    ratio_assumption,
)

_SLACK = 1e-12  # bounds are compared with this much room, so that rounding is no violation


@dataclass(frozen=True, slots=True)
class AssumptionReport:
    """How often the paper's assumptions, and its statements themselves, hold on sampled pairs.

    Fractions are in [0, 1]; print the report to read it.

    Parameters
    ----------
    n_pairs : int
        Number of pairs examined.
    matrix_shape : (int, int)
        (d_w, d_v).
    median_distance, median_effective_rank : float
        Of the differences, after division by the bandwidth.
    norms : float
        Pairs with both Frobenius norms <= 0.8.
    ratio : float
        Pairs with lambda_1 <= 0.28 (lambda_2 + ...).
    assumptions : float
        Pairs with both: Lemma 1, Theorem 2 and Theorem 3 are stated for these.
    lemma_1, theorem_2, theorem_3 : float
        Pairs for which the statement itself is true, by comparison with exact values.
    """

    n_pairs: int
    matrix_shape: tuple[int, int]
    median_distance: float
    median_effective_rank: float
    norms: float
    ratio: float
    assumptions: float
    lemma_1: float
    theorem_2: float
    theorem_3: float

    def __str__(self) -> str:
        d_w, d_v = self.matrix_shape
        lines = [
            f"{self.n_pairs} random pairs of {d_w} x {d_v} matrices: median distance "
            f"{self.median_distance:.3g}, effective rank {self.median_effective_rank:.1f}",
            "assumptions of Lemma 1 hold for",
            f"  {self.norms:7.1%}  norms of both at most 0.8",
            f"  {self.ratio:7.1%}  largest eigenvalue at most 0.28 of the rest",
            f"  {self.assumptions:7.1%}  both: the published bounds are stated for these pairs",
            "statements that are true, assumed or not",
            f"  {self.lemma_1:7.1%}  Lemma 1: bilinear kernel at most (Gaussian kernel)^0.79",
            f"  {self.theorem_2:7.1%}  Theorem 2: g_1 <= expected Hamming fraction <= g_2",
            f"  {self.theorem_3:7.1%}  Theorem 3: covariance of bits that share a vector",
            "exact values (expected_hamming, bit_covariance) hold for all pairs.",
        ]
        return "\n".join(lines)


def check_assumptions(
    X: ArrayLike, *, n_pairs: int = 1000, bandwidth: float = 1.0, rng: np.random.Generator | int | None = None
) -> AssumptionReport:
    r"""Tell on the user's own data which published statements apply.

    Samples pairs of different rows, and for each checks :math:`\lVert X \rVert_F, \lVert Y \rVert_F \le 0.8`,
    :math:`\lambda_1 \le 0.28 \sum_{i \ge 2} \lambda_i` (Lemma 1), and whether Lemma 1, Theorem 2 and Theorem
    3 are true.

    Parameters
    ----------
    X : array (n, d_w, d_v)
        The data, n >= 2. Scramble or reshape it first if the encoder does.
    n_pairs : int
        Pairs to sample.
    bandwidth : float
        Divides the data, as the encoder does (``encoder.bandwidth_``).
    rng : numpy.random.Generator, int or None
        Source of the sample.

    Returns
    -------
    AssumptionReport
        Print it to read it.

    Notes
    -----
    Assumptions: none. Status: exact on the sampled pairs.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 20, 20)) / 30
    >>> print(check_assumptions(X, n_pairs=100, rng=0))
    100 random pairs of 20 x 20 matrices: median distance 0.936, effective rank 9.8
    assumptions of Lemma 1 hold for
       100.0%  norms of both at most 0.8
        99.0%  largest eigenvalue at most 0.28 of the rest
        99.0%  both: the published bounds are stated for these pairs
    statements that are true, assumed or not
       100.0%  Lemma 1: bilinear kernel at most (Gaussian kernel)^0.79
       100.0%  Theorem 2: g_1 <= expected Hamming fraction <= g_2
       100.0%  Theorem 3: covariance of bits that share a vector
    exact values (expected_hamming, bit_covariance) hold for all pairs.
    """
    data = np.asarray(X)
    if data.ndim != 3 or len(data) < 2:
        raise InvalidInputError(
            f"X must have shape (n, d_w, d_v) with n >= 2; got {data.shape}. "
            "Reshape vectors to matrices first."
        )
    if n_pairs < 1 or not 0 < bandwidth < np.inf:
        raise InvalidInputError(f"n_pairs must be >= 1 and bandwidth > 0; got {n_pairs} and {bandwidth}.")
    generator = np.random.default_rng(rng)
    first = generator.integers(len(data), size=n_pairs)
    second = (first + generator.integers(1, len(data), size=n_pairs)) % len(data)
    left, right = data[first] / bandwidth, data[second] / bandwidth
    spectrum = spectrum_of(left, right)
    distance = np.sqrt(spectrum.sum(axis=-1))
    kernel = gaussian_kernel(distance)
    norms, ratio = norm_assumption(left) & norm_assumption(right), ratio_assumption(spectrum)
    low, high = hamming_bounds(kernel, "bilinear")
    fraction = expected_hamming(spectrum)
    return AssumptionReport(
        n_pairs=n_pairs,
        matrix_shape=(data.shape[1], data.shape[2]),
        median_distance=float(np.median(distance)),
        median_effective_rank=float(np.median(effective_rank(spectrum))),
        norms=float(norms.mean()),
        ratio=float(ratio.mean()),
        assumptions=float((norms & ratio).mean()),
        lemma_1=float((bilinear_kernel(spectrum) <= kernel**LEMMA1_EXPONENT + _SLACK).mean()),
        theorem_2=float(((fraction >= low - _SLACK) & (fraction <= high + _SLACK)).mean()),
        theorem_3=float((bit_covariance(spectrum) <= covariance_bounds(kernel).upper + _SLACK).mean()),
    )
