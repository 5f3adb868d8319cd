"""Which encoder suits the data: both are drawn with the length asked for, and compared by what they find."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bilsh.encoders.base import Encoder
from bilsh.encoders.estimators import AngleEncoder, KernelEncoder
from bilsh.errors import EncoderAdviceWarning
from bilsh.types import Progress, silent
from bilsh.validation import check_choice, check_integer
from bilsh.workflows.recall import (
    KINDS,
    RANKINGS,
    Bench,
    Kind,
    Ranking,
    Recalls,
    Sample,
    Shares,
    mean_recalls,
    recalled,
    remember,
)

DRAWS = 3
CLOSE = 0.03
"""Encoders whose recalls are closer than this are drawn again, up to three times: draws differ by about .01."""


@dataclass(frozen=True, slots=True)
class EncoderChoice:
    """Which encoder finds more neighbours with codes of a given length, and what was measured.

    Attributes
    ----------
    encoder : "angle" or "kernel"
        The better one.
    n_bits : int
    mode : "asymmetric" or "hamming"
        What decided.
    angle, kernel : Recalls
        Recall@10 of the exact Euclidean neighbours.
    error : float
        Standard error of the difference of the two recalls that decided.
    rows, queries, of : int
        Size of the sample, its rows that served as queries, and rows of the data.
    seed : int
    """

    encoder: Kind
    n_bits: int
    mode: Literal["asymmetric", "hamming"]
    angle: Recalls
    kernel: Recalls
    error: float
    rows: int
    queries: int
    of: int
    seed: int

    @property
    def gap(self) -> float:
        """How much more recall@10 the chosen encoder has."""
        return abs(float(getattr(self.angle, self.mode)) - float(getattr(self.kernel, self.mode)))

    def __str__(self) -> str:
        other: Kind = "kernel" if self.encoder == "angle" else "angle"
        better, worse = getattr(self, self.encoder), getattr(self, other)
        among = f"{self.rows:,} rows" if self.rows == self.of else f"{self.rows:,} of {self.of:,} rows"
        return (
            f"{self.encoder} codes: at {self.n_bits:,} bits recall@10 is {getattr(better, self.mode):.3f} "
            f"({other} codes {getattr(worse, self.mode):.3f}) with {self.mode} queries, measured with "
            f"{self.queries} queries among {among}"
        )

    def make(self, **settings: Any) -> AngleEncoder | KernelEncoder:
        """Return the chosen encoder, not fitted; settings as of its class, `random_state` is the seed if not given."""
        kind = AngleEncoder if self.encoder == "angle" else KernelEncoder
        made: AngleEncoder | KernelEncoder = kind(self.n_bits, **{"random_state": self.seed, **settings})
        return made


def choose_encoder(
    X: Any,
    n_bits: int = 1024,
    *,
    mode: Literal["asymmetric", "hamming"] = "asymmetric",
    seed: int = 0,
    of: int | None = None,
    cache: Path | None = None,
    progress: Progress = silent,
) -> EncoderChoice:
    """Encode a sample both ways, with the default settings and the length asked for, and compare ``recall@10``.

    Takes seconds. What decides depends on the length: short codes favour angles, longer ones kernels, and where the
    two change places differs from data to data.

    Parameters
    ----------
    X : array (n, d) or (n, d_w, d_v)
        Descriptors; may be memory-mapped. At least 3.
    n_bits : int
        Length of the codes.
    mode : {"asymmetric", "hamming"}
        Which search decides.
    seed : int
        Of the sample and the encoders; the answer depends on nothing else.
    of : int, optional
        Rows of the data, where X is a sample itself.
    cache : path, optional
        Folder where the answer is remembered under a checksum of the sample. Safe to delete at any time.
    progress : callable (what, done, total), optional

    Returns
    -------
    EncoderChoice

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(600, 16)).astype(np.float32)
    >>> choice = choose_encoder(X, 512)
    >>> choice.encoder, choice.make()
    ('kernel', KernelEncoder(n_bits=512, random_state=0))
    """
    n_bits = check_integer("n_bits", n_bits, minimum=1)
    check_choice("mode", mode, ("asymmetric", "hamming"))
    sample = Sample.draw(X, n_bits, seed, of)
    key = sample.key("choice", n_bits, mode)
    found = recalled(cache, key)
    if found is not None:
        with suppress(KeyError, TypeError):
            angle, kernel = Recalls(**found.pop("angle")), Recalls(**found.pop("kernel"))
            return EncoderChoice(angle=angle, kernel=kernel, **found)
    progress("choosing the encoder", 0, 2 * DRAWS)
    bench = Bench(sample, 10)
    draws: dict[Kind, list[Shares]] = {kind: [] for kind in KINDS}
    for draw in range(DRAWS):
        for kind in KINDS:
            draws[kind].append(bench.found(bench.costs(bench.encoder(kind, n_bits, draw)), 10))
            progress("choosing the encoder", 2 * draw + 1 + (kind == "kernel"), 2 * DRAWS)
        hits = {
            kind: {by: np.mean([d[by] for d in draws[kind]], axis=0) for by in RANKINGS} for kind in KINDS
        }
        difference = hits["angle"][mode] - hits["kernel"][mode]
        if abs(difference.mean()) > CLOSE:
            break
    progress("choosing the encoder", 2 * DRAWS, 2 * DRAWS)
    other: Ranking = "hamming" if mode == "asymmetric" else "asymmetric"
    # Level in what decides: the other ranking breaks the tie.
    gap = difference.mean() or (hits["angle"][other] - hits["kernel"][other]).mean()
    choice = EncoderChoice(
        encoder="kernel" if gap < 0 else "angle",
        n_bits=n_bits,
        mode=mode,
        angle=mean_recalls(hits["angle"]),
        kernel=mean_recalls(hits["kernel"]),
        error=float(difference.std() / np.sqrt(len(difference))),
        rows=len(sample.rows),
        queries=sample.n_queries,
        of=sample.of,
        seed=seed,
    )
    remember(cache, key, asdict(choice))
    return choice


def check_encoder(encoder: Encoder, X: Any, *, seed: int = 0) -> EncoderChoice:
    """Measure both encoders at the length of this one; warn if the other kind is clearly better.

    The warning is an EncoderAdviceWarning. Clearly: by more than .02 of recall@10 and three standard errors.

    Parameters
    ----------
    encoder : AngleEncoder or KernelEncoder
    X : array (n, d) or (n, d_w, d_v)
    seed : int
    """
    choice = choose_encoder(X, encoder.n_bits, seed=seed)
    kind = "angle" if isinstance(encoder, AngleEncoder) else "kernel"
    if choice.encoder != kind and choice.gap > max(0.02, 3 * choice.error):
        warnings.warn(
            f"Another encoder suits these data better: {choice}.", EncoderAdviceWarning, stacklevel=2
        )
    return choice
