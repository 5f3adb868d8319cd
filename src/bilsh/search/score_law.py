"""The law of asymmetric scores of a fitted encoder: what its ranking scores say about distances and angles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bilsh.encoders.coder import Coder
from bilsh.estimates.calibration import AngleCalibration, calibration_of
from bilsh.estimates.scores import ORDERS, PHASES, ScoreLaw, cosine_law, sign_law
from bilsh.search import asymmetric

Floats = NDArray[np.float64]

_FRACTIONS = np.concatenate([np.geomspace(1e-4, 0.02, 16)[:-1], np.linspace(0.02, 0.8, 60)])
_SCALES = np.concatenate([np.geomspace(0.02, 0.5, 16)[:-1], np.geomspace(0.5, 8.0, 40)])
_THRESHOLDS = (np.arange(16) + 0.5) / 8 - 1


def score_law(encoder: Coder) -> ScoreLaw:
    """Law of the scores by which an asymmetric search ranks; a tenth of a second, to be kept with the encoder."""
    calibration = calibration_of(encoder)
    if isinstance(calibration, AngleCalibration):
        return sign_law(_FRACTIONS, calibration.effective_bits(_FRACTIONS))
    fraction = calibration.fraction_at(_SCALES * calibration.bandwidth)
    rising = np.concatenate([[True], np.diff(fraction) > 1e-7])
    scale, fraction = _SCALES[rising], fraction[rising]
    lengths = asymmetric._lengths_of_phases(encoder)
    _, groups = asymmetric._levels(lengths, len(encoder.outputs_))
    alphas = np.arccos(-_THRESHOLDS) if calibration.thresholds == "random" else np.full(1, np.pi / 2)
    ratios = [
        [asymmetric._log_ratios(calibration, PHASES, alpha, length) for alpha in alphas] for length in groups
    ]
    weights = np.array([[set_ - clear for set_, clear in row] for row in ratios])
    if lengths is None:
        kernels = calibration.projection_kernel(np.multiply.outer(scale, ORDERS).ravel())
        kernels = kernels.reshape(len(scale), 1, len(ORDERS))
    else:
        reach = np.multiply.outer(scale, np.multiply.outer(np.array(groups, dtype=np.float64), ORDERS))
        kernels = np.exp(-0.5 * np.square(reach))
    return cosine_law(fraction, calibration.effective_bits(fraction), kernels, alphas, weights)


def score_anchors(
    encoder: Coder, weights: NDArray[np.float32], bias: NDArray[np.float32], own_bits: NDArray[np.uint8]
) -> tuple[Floats, Floats]:
    """Scores (q,) of each query's own code, and those expected of an unrelated item.

    Parameters
    ----------
    encoder : Coder
        Fitted.
    weights, bias : array (q, n_bits), (q,)
        From :func:`bilsh.search.asymmetric.score_weights`.
    own_bits : array (q, n_bits)
        The queries' own codes, unpacked.
    """
    mean_bits: Floats | float = 0.5
    calibration = calibration_of(encoder)
    if not isinstance(calibration, AngleCalibration) and calibration.thresholds == "random":
        mean_bits = np.arccos(-asymmetric._thresholds(encoder)) / np.pi
    start = bias.astype(np.float64)
    return start + (weights * own_bits).sum(axis=1, dtype=np.float64), start + (weights * mean_bits).sum(
        axis=1, dtype=np.float64
    )
