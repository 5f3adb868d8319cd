"""The encoders that "beyond the paper" compares, by name: the paper's, then one change after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bilsh
from bilsh.encoders.base import Encoder

DENSE, PAPER, OURS = (
    "dense, as in the paper",
    "bilinear m=1, as in the paper",
    "scrambled, orthogonal, zero thresholds",
)
SCRAMBLED, SIGN = "scrambled, orthogonal", "sign, scrambled, orthogonal"
BALANCED, RANDOM = "bilinear m=5, balanced design", "bilinear m=5, as in the paper"
HAMMING, ASYMMETRIC = "Hamming", "asymmetric"

Maker = Callable[[int, int], Encoder]
"""Makes an encoder from (bits, seed)."""


def variants(bandwidth: float, jobs: int = 1) -> dict[str, Maker]:
    """Return makers of encoders by name, in the order of the tables.

    Parameters
    ----------
    bandwidth : float
        Of all kernel codes.
    jobs : int
        Threads.
    """

    def kernel(projection: Any, thresholds: str = "zero") -> Maker:
        return lambda bits, seed: bilsh.KernelEncoder(
            bits,
            bandwidth=bandwidth,
            thresholds=thresholds,
            quadrature=False,
            projection=projection,
            random_state=seed,
            n_jobs=jobs,
        )

    def bilinear(m: int = 1, *, orthogonal: bool, scramble: bool, design: str = "grid") -> Any:
        return bilsh.Bilinear(m, design=design, orthogonal=orthogonal, scramble=scramble)

    plain: dict[str, Any] = {"orthogonal": False, "scramble": False}
    return {
        DENSE: kernel(bilsh.Dense(), "random"),
        PAPER: kernel(bilinear(**plain), "random"),
        RANDOM: kernel(bilinear(5, design="random", **plain), "random"),
        BALANCED: kernel(bilinear(5, design="balanced", **plain), "random"),
        "orthogonal": kernel(bilinear(orthogonal=True, scramble=False), "random"),
        "scrambled": kernel(bilinear(orthogonal=False, scramble=True), "random"),
        SCRAMBLED: kernel(bilinear(orthogonal=True, scramble=True), "random"),
        OURS: kernel(bilinear(orthogonal=True, scramble=True)),
        "dense, zero thresholds": kernel(bilsh.Dense()),
        "circulant, zero thresholds": kernel(bilsh.Circulant()),
        "Hadamard, zero thresholds": kernel(bilsh.Hadamard()),
        SIGN: lambda bits, seed: bilsh.AngleEncoder(bits, random_state=seed, n_jobs=jobs),
    }
