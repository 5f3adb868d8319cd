r"""The two trigonometric series of the theory, summed to machine precision for any spectrum.

With z = w^T D v and phi(x) = E cos(x z) = prod_j (1 + x^2 lambda_j)^(-1/2), one bit of X and Y differs with
probability

    random thresholds:  (2/pi) E|sin(z/2)|  = sum_{m >= 1}  c(m) (1 - phi(m)),  c(x) = (8/pi^2) / (4 x^2 - 1)
    zero thresholds:    E tri(z)            = sum_{m odd}   c(m) (1 - phi(m)),  c(x) = (4/pi^2) / x^2

where tri is the triangle wave of period 2 pi from 0 at 0 to 1 at pi. Neither series may be cut off: phi can
fall as slowly as 1/x. A few terms are summed as they stand and the rest by the Abel-Plana formula from a
midpoint A,

    sum_{k >= 0} F(A + h/2 + k h) = (1/h) int_A^inf F(x) dx + 2 int_0^inf Im F(A + i h y) / (exp(2 pi y) + 1)
    dy,

which holds because the branch points of phi lie on the imaginary axis. Both integrals have few fixed nodes.
Each piece of the sum keeps its relative accuracy, since 1 - phi is computed by expm1 of a sum of log1p.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import InvalidInputError
from bilsh.types import Floats

Complexes = NDArray[np.complex128]
_Numbers = TypeVar("_Numbers", Floats, Complexes)

SUPREMUM = {"random": 4 / np.pi**2, "zero": 0.5}
"""Fraction of differing bits of two unrelated items: the limit for an infinite distance."""

_CHUNK = 2_000_000  # numbers in flight: about 16 MB per temporary


def check_thresholds(thresholds: str) -> str:
    """Return `thresholds` if it names a mode of the quantiser."""
    if thresholds not in SUPREMUM:
        raise InvalidInputError(f"thresholds must be 'random' or 'zero'; got {thresholds!r}.")
    return thresholds


def coefficient(x: _Numbers, thresholds: str) -> _Numbers:
    """Fourier coefficient c(x) of the mismatch function, see the module's first lines."""
    return (8 / np.pi**2) / (4 * x * x - 1) if thresholds == "random" else (4 / np.pi**2) / (x * x)


@dataclass(frozen=True, slots=True)
class _Rule:
    """Where to evaluate phi: `direct` terms, then the tail from `start` with spacing `step`."""

    direct: Floats
    start: float
    step: float


_RULES = {
    "random": _Rule(np.arange(1.0, 8.0), 7.5, 1.0),
    "zero": _Rule(np.arange(1.0, 16.0, 2.0), 16.0, 2.0),
}


def _gauss_rule(weight: Callable[[Floats], Floats], upper: float, n_nodes: int) -> tuple[Floats, Floats]:
    """Gauss rule for int_0^upper weight(y) h(y^2) dy by the Stieltjes procedure on a fine discretisation."""
    nodes, masses = np.polynomial.legendre.leggauss(400)
    y = 0.5 * upper * (nodes + 1)
    masses = 0.5 * upper * masses * weight(y)
    t, total = y * y, masses.sum()
    alphas, betas = [], []
    previous, current, previous_norm = np.zeros_like(t), np.ones_like(t), 1.0
    for k in range(n_nodes):
        norm = float(masses @ current**2)
        alpha, beta = float(masses @ (t * current**2)) / norm, norm / previous_norm if k else 0.0
        alphas.append(alpha)
        betas.append(beta)
        previous, current, previous_norm = current, (t - alpha) * current - beta * previous, norm
    beside = np.diag(np.sqrt(betas[1:]), 1)
    values, vectors = np.linalg.eigh(np.diag(alphas) + beside + beside.T)
    return np.sqrt(values), total * vectors[0] ** 2


@cache
def _abel_plana_rule() -> tuple[Floats, Floats]:
    """Nodes y and weights W with 2 int_0^inf g(y) / (exp(2 pi y) + 1) dy = sum W g(y) for odd smooth g."""
    y, weights = _gauss_rule(lambda y: 2 * y / (np.exp(2 * np.pi * y) + 1), 8.0, 12)
    return y, weights / y


@cache
def _alternating_rule() -> tuple[Floats, Floats]:
    """Nodes y and weights W with int_0^inf g(y) / cosh(pi y) dy = sum W g(y) for even smooth g."""
    return _gauss_rule(lambda y: 1 / np.cosh(np.pi * y), 14.0, 16)


@cache
def _half_line_rule() -> tuple[Floats, Floats]:
    """Nodes and weights for int_0^inf: Gauss-Legendre on (0, 1), then on graded panels of ln y up to exp(32).

    A spectrum may have eigenvalues of any ratio, and each moves phi on its own scale; a logarithmic variable
    resolves all of them alike, and later panels matter less because the integrand falls at least like 1 /
    y^2.
    """
    u, w = np.polynomial.legendre.leggauss(24)
    nodes, weights = [0.5 * (u + 1)], [0.5 * w]
    edges, counts = (0, 2, 4, 6, 9, 12, 16, 20, 32), (16, 16, 14, 14, 12, 12, 10, 8)
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        u, w = np.polynomial.legendre.leggauss(count)
        y = np.exp(0.5 * (low + high) + 0.5 * (high - low) * u)
        nodes.append(y)
        weights.append(0.5 * (high - low) * w * y)
    return np.concatenate(nodes), np.concatenate(weights)


def _paired(values: Floats) -> Floats:
    """Combine neighbours a, b along the last axis into (1 + a)(1 + b) - 1: half as many logarithms."""
    if values.shape[-1] % 2:
        values = np.concatenate([values, np.zeros((*values.shape[:-1], 1))], axis=-1)
    a, b = values[..., ::2], values[..., 1::2]
    return a + b + a * b


def _log_product(factors: Floats) -> Floats:
    """Sum of log(1 + factors) over the last axis."""
    return np.asarray(np.log1p(_paired(_paired(factors))).sum(axis=-1))


def _phi(shape: Floats, t: Floats, complement: bool, copies: float = 1.0) -> Floats:
    """Return phi(t), or 1 - phi(t), for real arguments: shape (n, r), t (n, q) -> (n, q).

    `copies` says how often each eigenvalue counts.
    """
    logs = -0.5 * copies * _log_product(shape[:, None, :] * (t * t)[:, :, None])
    return np.asarray(np.exp(logs) if complement else -np.expm1(logs))


def _complex_phi(shape: Floats, t: Complexes, complement: bool, copies: float = 1.0) -> Complexes:
    """Return phi(t), or 1 - phi(t), for arguments with positive real part, on the branch that is 1 at 0."""
    square = t * t
    a = shape[:, None, :] * square.real[:, :, None]
    b = shape[:, None, :] * square.imag[:, :, None]
    # log phi = -(rho + i theta) / 2: modulus and angle of each factor 1 + t^2 lambda are summed apart
    rho = 0.5 * copies * _log_product(a * (2 + a) + b * b)
    half = 0.5 * copies * np.arctan2(b, 1 + a).sum(axis=-1)
    modulus = np.exp(-0.5 * rho)
    if complement:
        return np.asarray(modulus * np.exp(-1j * half))
    real = -np.expm1(-0.5 * rho) + 2 * modulus * np.sin(0.5 * half) ** 2
    return np.asarray(real + 1j * modulus * np.sin(half))


def _sum_series(
    shape: Floats, scale: Floats, thresholds: str, complement: bool, copies: float = 1.0
) -> Floats:
    """Sum c(m) (1 - phi(m)), or c(m) phi(m), for n spectra scale^2 * shape: (n, r), (n,) -> (n,)."""
    rule = _RULES[thresholds]
    column = scale[:, None]
    total = _phi(shape, rule.direct * column, complement, copies) @ coefficient(rule.direct, thresholds)

    # int_A^inf c(x) (1 - phi(x)) dx. The weight 1/x^2 is integrated on the scale where phi begins to fall;
    # what c has beyond it falls faster and lives near A, however small the distance is.
    y, weights = _half_line_rule()
    turn = np.maximum(rule.start, 1 / column)
    x = rule.start + turn * y
    leading = (turn * weights) * coefficient(x, "zero") * _phi(shape, x * column, complement, copies)
    total += leading.sum(axis=1) * (0.5 if thresholds == "random" else 1 / rule.step)
    if thresholds == "random":
        # It falls like 1 / x^4 from 1 / scale on: whole panels up to exp(12) leave 3e-14 of the sum at worst.
        y, weights = y[y < np.exp(12)], weights[y < np.exp(12)]
        x = rule.start * (1 + y)
        rest = rule.start * weights * (coefficient(x, "random") - 0.5 * coefficient(x, "zero"))
        total += _phi(shape, x * column, complement, copies) @ rest

    y, weights = _abel_plana_rule()
    z: Complexes = np.asarray(rule.start + 1j * rule.step * y, dtype=np.complex128)
    tail = coefficient(z, thresholds) * _complex_phi(shape, z * column, complement, copies)
    return np.asarray(total + tail.imag @ weights)


def _over_spectra(spectrum: Floats, sum_rows: Callable[[Floats, Floats], Floats], at_zero: float) -> Floats:
    """Apply a sum over (shape, scale) to a batch of spectra, in chunks that bound the memory."""
    # From 1e33 on phi is below 1e-16 and nothing changes; the cap keeps products of squared factors finite.
    flat = np.minimum(spectrum.reshape(-1, spectrum.shape[-1]), 1e33)
    flat = flat[:, (flat > 0).any(axis=0)] if len(flat) else flat
    scale = np.sqrt(flat.sum(axis=1))
    result = np.full(len(flat), at_zero)
    rows = np.flatnonzero(scale > 0)
    step = max(1, _CHUNK // (126 * max(1, flat.shape[1])))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        result[part] = sum_rows(flat[part] / scale[part, None] ** 2, scale[part])
    return result.reshape(spectrum.shape[:-1])


def bilinear_mismatch(spectrum: Floats, thresholds: str, copies: float = 1.0) -> Floats:
    """Return the expected fraction of differing bits for each spectrum: (..., r) -> (...).

    With `copies`, each eigenvalue is shared out among that many equal ones; flat spectra of any rank cost the
    same.
    """

    def rows(shape: Floats, scale: Floats) -> Floats:
        # Below 1e-100 the fraction is proportional to the distance, and squares would underflow.
        safe = np.maximum(scale, 1e-100)
        return _sum_series(shape / copies, safe, thresholds, False, copies) * (scale / safe)

    return _over_spectra(spectrum, rows, 0.0)


def bilinear_mismatch_gap(spectrum: Floats, thresholds: str) -> Floats:
    """Supremum minus the expected fraction, accurate also where it is tiny: (..., r) -> (...)."""

    def rows(shape: Floats, scale: Floats) -> Floats:
        return _sum_series(shape, np.maximum(scale, 1.0), thresholds, complement=True)

    # Only large distances need their own sum: elsewhere the subtraction loses nothing.
    near = np.asarray(SUPREMUM[thresholds] - bilinear_mismatch(spectrum, thresholds))
    far = spectrum.sum(axis=-1) > 1
    near[far] = _over_spectra(spectrum[far], rows, 0.0)
    return near


def bilinear_squared_triangle(spectrum: Floats) -> Floats:
    r"""E tri(z)^2 = (4/pi^2) sum_{n >= 1} (-1)^(n+1) (1 - phi(n)) / n^2, zero thresholds: (..., r) -> (...).

    The alternating tail after N terms is (-1)^N int_0^inf Re F(N + 1/2 + i y) / cosh(pi y) dy.
    """
    n = np.arange(1.0, 13.0)
    y, weights = _alternating_rule()
    z = n[-1] + 0.5 + 1j * y

    def rows(shape: Floats, scale: Floats) -> Floats:
        safe = np.maximum(scale, 1e-100)
        column = safe[:, None]
        head = _phi(shape, n * column, False) @ (-((-1.0) ** n) * coefficient(n, "zero"))
        tail = coefficient(z, "zero") * _complex_phi(shape, z * column, False)
        return np.asarray((head + tail.real @ weights) * (scale / safe) ** 2)

    return _over_spectra(spectrum, rows, 0.0)
