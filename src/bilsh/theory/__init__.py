"""Every quantity of the paper's theorems, exactly; its bounds with their assumptions; and the way back.

Two items enter only through their difference D = X - Y (divided by the bandwidth): its length, or for
bilinear codes the spectrum of D D^T. Fractions are of differing bits, in [0, 1].
"""

from bilsh.theory.assumptions import AssumptionReport, check_assumptions
from bilsh.theory.bounds import (
    Bounds,
    covariance_range,
    identification_bounds,
    kernel_bounds,
    kernel_exponent,
    zero_threshold_bounds,
)
from bilsh.theory.covariance import bit_covariance, code_variance, effective_bits
from bilsh.theory.distance import expected_hamming, hamming_gap, rank_one_angle_hamming
from bilsh.theory.information import fisher_information
from bilsh.theory.inverse import distance_from_hamming
from bilsh.theory.kernels import (
    as_spectrum,
    bilinear_kernel,
    cauchy_kernel,
    effective_rank,
    gaussian_kernel,
    laplacian_kernel,
    matern_kernel,
    spectrum_of,
)
from bilsh.theory.published import (
    LEMMA1_EXPONENT,
    LEMMA1_MAX_NORM,
    LEMMA1_MAX_RATIO,
    covariance_bounds,
    hamming_bounds,
    lemma1_assumptions,
    lemma1_bounds,
    norm_assumption,
    ratio_assumption,
)
from bilsh.theory.sharing import BitSharing

__all__ = [
    "LEMMA1_EXPONENT",
    "LEMMA1_MAX_NORM",
    "LEMMA1_MAX_RATIO",
    "AssumptionReport",
    "BitSharing",
    "Bounds",
    "as_spectrum",
    "bilinear_kernel",
    "bit_covariance",
    "cauchy_kernel",
    "check_assumptions",
    "code_variance",
    "covariance_bounds",
    "covariance_range",
    "distance_from_hamming",
    "effective_bits",
    "effective_rank",
    "expected_hamming",
    "fisher_information",
    "gaussian_kernel",
    "hamming_bounds",
    "hamming_gap",
    "identification_bounds",
    "kernel_bounds",
    "kernel_exponent",
    "laplacian_kernel",
    "lemma1_assumptions",
    "lemma1_bounds",
    "matern_kernel",
    "norm_assumption",
    "rank_one_angle_hamming",
    "ratio_assumption",
    "spectrum_of",
    "zero_threshold_bounds",
]
