"""What is asked of a search, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bilsh.errors import InvalidInputError, InvalidTypeError
from bilsh.forks import cached_property
from bilsh.validation import check_fraction, check_integer, thread_count

Mode = Literal["auto", "hamming", "progressive", "asymmetric"]
MODES: tuple[str, ...] = get_args(Mode)


@dataclass(frozen=True)
class Request:
    """Settings of a search.

    Parameters
    ----------
    k : int, default=10
        Neighbours per query; fewer where there are fewer items.
    mode : {"auto", "hamming", "progressive", "asymmetric"}
        "hamming": full scan, exact. "progressive": a short prefix of every code, longer ones of the survivors; the same
        answer but for misses, see `delta`. "asymmetric": ranked by the query's real values against the stored bits,
        which finds more true neighbours with the same codes. "auto": the best ranking for the time: by prefixes, then
        the best of them by the query's real values, where queries are descriptors.
    delta : float, default=0.01
        Prefixes: largest probability to miss any one of the k nearest codes; 0 prunes exactly.
    recall : float, optional
        Find this share of the k nearest codes, in expectation, and read no more than that takes: by cells where there
        are any, else by prefixes. 1 is the exact answer.
    radius : int, optional
        Find all codes within this Hamming distance instead of k; a full scan.
    candidates : int, optional
        How many of the nearest by Hamming distance are re-scored by real values, or re-ranked; by default the larger of
        100 and 10 k (mode "asymmetric" scores all items).
    rerank : bool or array, default=False
        Order the candidates by exact Euclidean distance to the query: True with the vectors that are kept beside the
        codes; or an array (n, ...) of vectors, in which ``rerank[id]`` is the vector of an id.
    confidence : float, default=0.95
        Of the intervals.
    n_jobs : int, optional
        Threads, as in scikit-learn: None is 1, -1 all cores.
    """

    k: int = 10
    mode: Mode = "auto"
    delta: float = 0.01
    radius: int | None = None
    candidates: int | None = None
    rerank: bool | NDArray[Any] = False
    confidence: float = 0.95
    n_jobs: int | None = None
    recall: float | None = None

    def __post_init__(self) -> None:
        check_integer("k", self.k, minimum=1)
        if self.mode not in MODES:
            raise InvalidInputError(f"mode must be one of {', '.join(MODES)}; got {self.mode!r}.")
        check_fraction("delta", self.delta, zero=True)
        check_fraction("confidence", self.confidence)
        if self.radius is not None:
            check_integer("radius", self.radius, minimum=0)
        if self.candidates is not None:
            check_integer("candidates", self.candidates, minimum=1)
        if not isinstance(self.rerank, bool | np.bool_):
            array = isinstance(self.rerank, np.ndarray)
            if not array or not self.rerank.ndim or self.rerank.dtype.kind not in "biuf":
                got = f"dtype {self.rerank.dtype}" if array else type(self.rerank).__name__
                raise InvalidTypeError(
                    f"rerank must be True, False, or an array of vectors by id; got {got}."
                )
        if self.radius is not None and self.mode not in ("auto", "hamming"):
            raise InvalidInputError(
                f"a radius counts differing bits, by a full scan: leave mode at 'auto' or 'hamming'; got {self.mode!r}."
            )
        if self.recall is not None:
            self._check_recall(self.recall)
        thread_count(self.n_jobs)

    def _check_recall(self, recall: float) -> None:
        if recall != 1:
            check_fraction("recall", recall)
        if self.radius is not None:
            raise InvalidInputError(
                "recall is about the k nearest; a radius is searched exactly. Give one of them."
            )
        all_read = self.mode == "hamming" or (self.mode == "asymmetric" and self.candidates is None)
        if all_read and recall != 1:
            raise InvalidInputError(
                f"mode={self.mode!r} reads all items, so recall={recall:g} saves nothing: leave mode at 'auto' or "
                "'progressive', or leave recall out."
            )

    @cached_property
    def misses(self) -> float:
        """Largest probability with which prefixes may miss one of the k nearest."""
        return self.delta if self.recall is None else min(self.delta, 1 - self.recall)

    @cached_property
    def reranks(self) -> bool:
        """Whether candidates are ordered by exact distances."""
        return self.rerank is not False and not (isinstance(self.rerank, np.bool_) and not self.rerank)

    @cached_property
    def wanted(self) -> int:
        """How many of the nearest codes are looked at more closely."""
        return max(self.k, 100, 10 * self.k) if self.candidates is None else max(self.k, self.candidates)

    @property
    def threads(self) -> int:
        """Number of threads."""
        return thread_count(self.n_jobs)


def request_of(
    k: int,
    mode: Mode,
    delta: float,
    radius: int | None,
    candidates: int | None,
    rerank: bool | NDArray[Any],
    confidence: float,
    n_jobs: int | None,
    recall: float | None,
) -> Request:
    """Return a request; one that was asked before is not checked again, which takes as long as a short scan."""
    if rerank is False:
        try:
            return _checked(k, mode, delta, radius, candidates, confidence, n_jobs, recall)
        except TypeError:  # something wrong, or something that has no hash
            pass
    return Request(k, mode, delta, radius, candidates, rerank, confidence, n_jobs, recall)


@lru_cache(maxsize=256, typed=True)
def _checked(
    k: int,
    mode: Mode,
    delta: float,
    radius: int | None,
    candidates: int | None,
    confidence: float,
    n_jobs: int | None,
    recall: float | None,
) -> Request:
    return Request(k, mode, delta, radius, candidates, False, confidence, n_jobs, recall)
