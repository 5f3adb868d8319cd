"""How much one bit says about the distance: which thresholds, and which length, an estimate needs."""

import numpy as np
from numpy.typing import ArrayLike

from bilsh.errors import InvalidInputError
from bilsh.theory.distance import as_argument, check_kernel, expected_hamming
from bilsh.types import Floats

_STEP = 1e-3  # of ln s; the rule below is of fourth order, so its error is far below 1e-9


def fisher_information(
    difference: ArrayLike, *, kernel: str = "bilinear", thresholds: str = "random", nu: float | None = None
) -> Floats:
    r"""Fisher information of one bit about the logarithm of the distance.

    .. math:: I = \frac{(\partial p / \partial \ln s)^2}{p (1 - p)}

    The distance estimated from k independent bits has a relative standard error of at least (k I)^(-1/2), and the
    inverse of p reaches it for large k; correlated bits count as :func:`effective_bits`.

    Parameters
    ----------
    difference, kernel, thresholds, nu
        As in :func:`expected_hamming`; for spectra and coordinates the direction is kept and the length varies. The
        angle has no length: `kernel` is one of the others.

    Returns
    -------
    array (...)
        0 for equal and for infinitely distant items.

    Notes
    -----
    Assumptions: as in :func:`expected_hamming`. Status: exact for one bit (numerical derivative of the exact p).

    Examples
    --------
    Zero thresholds against random ones, by distance:

    >>> import numpy as np
    >>> s = np.array([0.5, 1.0, 1.5, 2.0])
    >>> zero, random = (fisher_information(s, kernel="gaussian", thresholds=t) for t in ("zero", "random"))
    >>> (zero / random).round(2)
    array([1.11, 1.55, 1.98, 2.11])
    """
    if kernel == "angle":
        raise InvalidInputError("an angle is not a length; give kernel='gaussian' or another kernel code.")
    check_kernel(kernel, thresholds, nu)
    # Coordinates become the spectrum of the same kernel; all else is checked and kept.
    argument = as_argument(difference, kernel)
    spectral = kernel in ("bilinear", "cauchy")
    power, kernel = (2.0, "bilinear") if spectral else (1.0, kernel)

    def fraction(steps: float) -> Floats:
        scaled = argument * np.exp(power * steps * _STEP)
        return expected_hamming(scaled, kernel=kernel, thresholds=thresholds, nu=nu)

    slope = (8 * (fraction(1) - fraction(-1)) - (fraction(2) - fraction(-2))) / (12 * _STEP)
    p = fraction(0)
    return np.asarray(np.divide(slope**2, p * (1 - p), out=np.zeros_like(p), where=p > 0))
