"""From Hamming distances back to similarities, with their certainty; and how many bits a certainty needs."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bilsh.codes import Codes, as_bytes, check_widths
from bilsh.encoders.calibration import Calibration, calibration_of
from bilsh.errors import InvalidInputError
from bilsh.theory.spread import combined_bits
from bilsh.types import Floats
from bilsh.validation import check_fraction

__all__ = ["Estimate", "bits_needed", "estimate", "estimate_distances", "estimate_fractions"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What codes tell about pairs of items. Every array has the shape of the pairs.

    Attributes
    ----------
    fraction : array (...)
        Observed fraction of differing bits (for asymmetric scores: of what was observed, see there).
    kernel : array (...) or None
        Kernel codes: the encoder's kernel at the estimated distance.
    distance : array (...) or None
        Kernel codes: distance in the units of the data: Euclidean, L1 for the Laplacian kernel. inf where the
        codes differ as much as those of unrelated items.
    angle : array (...) or None
        Angle codes: angle between the centred items, in radians. Their norms are not in the codes, so neither
        is a distance.
    quantity : str
        What the intervals are about: "distance", "kernel", "angle" or "cosine".
    sampling_interval : array (..., 2)
        Where the quantity lies with the asked confidence, since the bits are a random sample.
    identification_interval : array (..., 2) or None
        Bilinear codes: what the quantity may be without knowing the spectrum of the difference, from a flat
        spectrum to rank one, the fraction taken as exact. More bits do not shrink it.
    effective_bits : array (...)
        Number of independent bits that the code is worth here.
    interval : array (..., 2)
        The one to use: it counts the noise of the bits, and for bilinear codes of unscrambled matrices also how far the
        spectra of pairs lie from the sampled mean; where nothing was sampled, it is the union with the identification
        interval.
    """

    fraction: Floats
    kernel: Floats | None
    distance: Floats | None
    angle: Floats | None
    quantity: str
    sampling_interval: Floats
    identification_interval: Floats | None
    effective_bits: Floats
    interval: Floats

    @property
    def value(self) -> Floats:
        """The quantity that the intervals are about."""
        if self.quantity == "cosine" and self.angle is not None:
            return np.cos(self.angle)
        return np.asarray(getattr(self, self.quantity))


def estimate(
    a: ArrayLike, b: ArrayLike, encoder: Any, confidence: float = 0.95, *, of: str | None = None
) -> Estimate:
    r"""Similarity of two items, or of many pairs, from their codes.

    The fraction of differing bits is turned back by the inverse of Lemma 2, for angle codes of eq. 2.

    Parameters
    ----------
    a, b : uint8 arrays (n_bytes,) or (n, n_bytes)
        Codes; pairs are row by row, leading axes broadcast (one code against many).
    encoder : KernelEncoder or AngleEncoder
        The fitted encoder that made the codes.
    confidence : float, default=0.95
        Of the sampling interval, in (0, 1).
    of : {"distance", "kernel", "angle", "cosine"}, optional
        What the intervals are about. Default: the distance for kernel codes, the angle for angle codes.

    Returns
    -------
    Estimate

    Notes
    -----
    The sampling interval is Wilson's, with the effective number of bits of the code's design: exact covariances
    of bits that share projection vectors, and to first order the repulsion of orthogonal vectors (bilinear factors,
    Hadamard blocks) and the attraction of circulant rows. Angle codes of bilinear factors that are not orthogonal
    or not scrambled have fewer effective bits than is counted here. The point estimate of
    bilinear codes takes the mean spectrum of data differences that was sampled at fit (a scrambled projection
    makes it nearly the same for all pairs).

    Examples
    --------
    >>> import warnings, bilsh, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 64))
    >>> enc = bilsh.KernelEncoder(n_bits=4096, bandwidth=10.0, projection="dense", random_state=0)
    >>> with warnings.catch_warnings(action="ignore"):
    ...     codes = enc.fit(X).transform(X)
    >>> est = bilsh.estimate(codes[0], codes[1], encoder=enc)
    >>> low, high = est.sampling_interval
    >>> bool(low < np.linalg.norm(X[0] - X[1]) < high)
    True
    """
    left, right = as_bytes(a, "a"), as_bytes(b, "b")
    check_widths(left, right, "a", "b")
    calibration = calibration_of(encoder)
    _check_code_bytes(left, calibration.n_bits)
    try:
        different = np.bitwise_xor(left, right)
    except ValueError:
        raise InvalidInputError(
            f"a and b must be pairs of codes, row by row; shapes {left.shape} and {right.shape} do not match. "
            "For all against all take bilsh.hamming and estimate_distances."
        ) from None
    distances = np.bitwise_count(different).sum(axis=-1, dtype=np.int64)
    return estimate_distances(distances, encoder, confidence, of=of)


def estimate_distances(
    distances: ArrayLike, encoder: Any, confidence: float = 0.95, *, of: str | None = None
) -> Estimate:
    """Do as :func:`estimate` for Hamming distances that are known already; a look-up for each.

    Parameters
    ----------
    distances : integer array (...)
        Numbers of differing bits, 0 to n_bits.
    encoder, confidence, of
        As in :func:`estimate`.

    Returns
    -------
    Estimate
    """
    calibration = calibration_of(encoder)
    quantity = calibration.check_quantity(of)
    counts = np.asarray(distances)
    if counts.dtype.kind not in "iu":
        raise InvalidInputError(f"distances must be integers (numbers of bits); got dtype {counts.dtype}.")
    if counts.size and (counts.min() < 0 or counts.max() > calibration.n_bits):
        raise InvalidInputError(
            f"distances must be from 0 to {calibration.n_bits}, the bits of this encoder; "
            f"got {counts.min()} to {counts.max()}."
        )
    z = _level(confidence)
    table = calibration.once((z, quantity), lambda: _table(calibration, z, quantity))
    take = {name: None if array is None else array[counts] for name, array in table.items()}
    return Estimate(quantity=quantity, **take)  # type: ignore[arg-type]


def estimate_fractions(
    fraction: Floats, ends: Floats, encoder: Any, *, of: str | None = None, identify: bool = True
) -> Estimate:
    """Say what expected fractions of differing bits mean, and their intervals.

    Parameters
    ----------
    fraction : array (...)
        Expected fractions of differing bits.
    ends : array (..., 2)
        Ends of their intervals.
    encoder, of
        As in :func:`estimate`.
    identify : bool
        Whether identification intervals are wanted too.
    """
    calibration = calibration_of(encoder)
    quantity = calibration.check_quantity(of)
    extremes = calibration.extremes(fraction) if identify else None
    # One look-up for all: a query alone waits for every call.
    middle, low, high = calibration.primary(np.stack([fraction, ends[..., 0], ends[..., 1]]))
    interval = calibration.pair(low, high, quantity)
    return Estimate(
        fraction=fraction,
        **_known(calibration, middle),
        quantity=quantity,
        sampling_interval=interval,
        identification_interval=None if extremes is None else calibration.pair(*extremes, quantity),
        effective_bits=calibration.effective_bits(fraction),
        interval=interval,
    )


def pair_ends(fraction: Floats, encoder: Any, confidence: float) -> Floats:
    """Ends (..., 2) of the interval of the expected fraction of a pair that was not chosen for its distance."""
    calibration = calibration_of(encoder)
    low, high = wilson(fraction, calibration.effective_bits(fraction), _level(confidence))
    return np.stack([low, high], axis=-1)


def bits_needed(error: float, confidence: float = 0.95, n_pairs: float = 1, encoder: Any = None) -> int:
    r"""Count the bits with which all of `n_pairs` fractions of differing bits are within `error` of their means.

    .. math:: k \ge \frac{\ln(2 n / (1 - \text{confidence}))}{2\,\text{error}^2} \cdot \frac{k}{k_{\mathrm{eff}}}

    Parameters
    ----------
    error : float
        Largest deviation of the observed fraction from the expected one, in (0, 1).
    confidence : float
        Probability that no pair deviates more, in (0, 1).
    n_pairs : float
        Number of pairs; they may share items.
    encoder : fitted encoder, optional
        Its design decides how many bits an independent one costs: the largest k / k_eff over all distances.
        Longer codes are taken to be of the same design. Without it bits are independent.

    Returns
    -------
    int

    Notes
    -----
    Hoeffding's inequality and a union bound: a guarantee for independent bits (dense projections). For bilinear
    codes the factor k / k_eff makes it exact in the variance, hence an approximation in the far tail.

    Examples
    --------
    >>> bits_needed(0.02, confidence=0.99, n_pairs=1e6)
    23893
    """
    error, confidence = check_fraction("error", error), check_fraction("confidence", confidence)
    if not n_pairs >= 1:
        raise InvalidInputError(f"n_pairs must be at least 1; got {n_pairs}.")
    independent = np.log(2 * n_pairs / (1 - confidence)) / (2 * error**2)
    factor = 1.0
    if encoder is not None:
        calibration = calibration_of(encoder)
        worth = calibration.effective_bits(np.linspace(0.0, 0.5, 201))
        factor = max(1.0, float((calibration.n_bits / worth).max()))
        if calibration.one_grid:
            # In one grid a vector is shared by sqrt(k) bits: k = independent (1 + slope sqrt(k)).
            slope = (factor - 1) / np.sqrt(calibration.n_bits)
            root = 0.5 * (independent * slope + np.sqrt((independent * slope) ** 2 + 4 * independent))
            return int(np.ceil(root**2))
    return int(np.ceil(independent * factor))


def _table(calibration: Calibration, z: float, quantity: str) -> dict[str, Floats | None]:
    """Everything :class:`Estimate` holds, for each distance from 0 to n_bits."""
    fraction = np.arange(calibration.n_bits + 1) / calibration.n_bits
    worth = calibration.effective_bits(fraction)
    low, high = wilson(fraction, worth, z)
    extremes = calibration.extremes(fraction)
    ends = calibration.primary(low), calibration.primary(high)
    return {
        "fraction": fraction,
        **_known(calibration, calibration.primary(fraction)),
        "sampling_interval": calibration.pair(*ends, quantity),
        "identification_interval": None if extremes is None else calibration.pair(*extremes, quantity),
        "effective_bits": worth,
        "interval": _combined(calibration, fraction, worth, z, quantity),
    }


def _combined(calibration: Calibration, fraction: Floats, worth: Floats, z: float, quantity: str) -> Floats:
    """Intervals that count the noise of the bits and the spread of pairs about the law."""
    spread = calibration.spread(fraction)
    low, high = wilson(fraction, worth if spread is None else combined_bits(fraction, worth, spread), z)
    if spread is not None:
        return calibration.pair(calibration.primary(low), calibration.primary(high), quantity)
    flat, steep = calibration.extremes(low), calibration.extremes(high)
    if flat is None or steep is None:
        return calibration.pair(calibration.primary(low), calibration.primary(high), quantity)
    return calibration.pair(flat[0], steep[1], quantity)


def wilson(fraction: Floats, n: Floats, z: float) -> tuple[Floats, Floats]:
    """Wilson's score interval of a proportion: all p with |fraction - p| <= z sqrt(p (1 - p) / n)."""
    centre = (fraction + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(fraction * (1 - fraction) / n + z**2 / (4 * n**2))
    # The interval holds the observed fraction; at 0 and 1 rounding would let it slip out.
    return np.clip(centre - half, 0.0, fraction), np.clip(centre + half, fraction, 1.0)


def _known(calibration: Calibration, primary: Floats) -> dict[str, Floats | None]:
    """Kernel, distance and angle, None where the code does not tell it."""
    return {
        name: calibration.convert(primary, name) if name in calibration.quantities else None
        for name in ("kernel", "distance", "angle")
    }


def _level(confidence: float) -> float:
    return NormalDist().inv_cdf(0.5 + 0.5 * check_fraction("confidence", confidence))


def _check_code_bytes(codes: Codes, n_bits: int) -> None:
    if codes.shape[-1] != -(-n_bits // 8):
        raise InvalidInputError(
            f"codes of this encoder have {-(-n_bits // 8)} bytes ({n_bits} bits); got {codes.shape[-1]} bytes. "
            "Take encoder.truncated(n_bits) for prefixes."
        )
