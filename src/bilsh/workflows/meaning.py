"""What a Hamming distance means: similarity, expected number of differing bits, and the interval, for any length."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bilsh.estimates.intervals import wilson
from bilsh.theory import distance_from_hamming, expected_hamming, gaussian_kernel, hamming_bounds
from bilsh.theory.bounds import zero_threshold_bounds
from bilsh.validation import check_choice, check_fraction, check_integer

Law = Literal["angle", "gaussian"]
Thresholds = Literal["zero", "random"]
LAWS: tuple[Law, ...] = get_args(Law)
THRESHOLDS: tuple[Thresholds, ...] = get_args(Thresholds)
POINTS = 65


def meaning(
    n_bits: int, law: Law = "angle", thresholds: Thresholds = "zero", *, confidence: float = 0.95
) -> dict[str, Any]:
    """Tell the law of a code with independent bits (dense projections); plain values.

    Parameters
    ----------
    n_bits : int
        Length of the code.
    law : {"angle", "gaussian"}
        Sign codes tell the cosine of the angle, kernel codes the Gaussian kernel of the distance.
    thresholds : {"zero", "random"}
        Of kernel codes: at zero as ours by default, or random as in the paper.
    confidence : float
        Of the intervals.

    Returns
    -------
    dict
        `similarity`, from 1 down; `fraction` of bits expected to differ there; `observed`, the interval in which the
        fraction of one code falls; `low` and `high`, the interval of the similarity that one code tells when just the
        expected number of bits differ. For kernel codes `bounds`: below and above `fraction`, the paper's with random
        thresholds (Theorem 1), ours with zero thresholds.
    """
    n_bits = check_integer("n_bits", n_bits, minimum=1)
    check_choice("law", law, LAWS)
    check_choice("thresholds", thresholds, THRESHOLDS)
    z = NormalDist().inv_cdf(0.5 + 0.5 * check_fraction("confidence", confidence))
    # Closer together near 1, where the law is steepest.
    similarity = 1.0 - (2.0 if law == "angle" else 0.99) * np.linspace(0.0, 1.0, POINTS) ** 2
    fraction = _fraction(similarity, law, thresholds)
    half = z * np.sqrt(fraction * (1 - fraction) / n_bits)
    low, high = wilson(fraction, np.full(fraction.shape, float(n_bits)), z)
    bounds = None
    if law == "gaussian":
        found = hamming_bounds(similarity) if thresholds == "random" else zero_threshold_bounds(similarity)
        bounds = {"lower": _list(found.lower), "upper": _list(found.upper)}
    return {
        "bits": n_bits,
        "law": law,
        "thresholds": thresholds if law == "gaussian" else None,
        "quantity": "cosine" if law == "angle" else "kernel",
        "confidence": confidence,
        "similarity": _list(similarity),
        "fraction": _list(fraction),
        "observed": {
            "low": _list(np.maximum(fraction - half, 0)),
            "high": _list(np.minimum(fraction + half, 1)),
        },
        "low": _list(_similarity(high, law, thresholds)),
        "high": _list(_similarity(low, law, thresholds)),
        "bounds": bounds,
    }


def _fraction(similarity: NDArray[np.float64], law: Law, thresholds: Thresholds) -> NDArray[np.float64]:
    if law == "angle":
        return expected_hamming(np.arccos(similarity), kernel="angle")
    return expected_hamming(np.sqrt(-2 * np.log(similarity)), kernel="gaussian", thresholds=thresholds)


def _similarity(fraction: NDArray[np.float64], law: Law, thresholds: Thresholds) -> NDArray[np.float64]:
    if law == "angle":
        return np.asarray(np.cos(np.pi * np.clip(fraction, 0, 1)))
    return gaussian_kernel(distance_from_hamming(fraction, kernel="gaussian", thresholds=thresholds))


def _list(values: NDArray[np.float64]) -> list[float]:
    return [round(float(value), 6) for value in values]
