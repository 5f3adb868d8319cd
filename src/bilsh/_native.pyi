from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

def level() -> str: ...
def levels() -> list[str]: ...
def force_level(name: str) -> None: ...

# ---- search: distances of packed codes ----
def hamming_matrix(a: NDArray[np.uint8], b: NDArray[np.uint8], n_jobs: int = 1) -> NDArray[np.int32]: ...
def hamming_top_k(
    queries: NDArray[np.uint8],
    slabs: Sequence[NDArray[np.uint8]],
    k: int,
    ids: NDArray[np.int64] | None = None,
    alive: NDArray[np.uint8] | None = None,
    n_jobs: int = 1,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]: ...
def hamming_within(
    queries: NDArray[np.uint8],
    slabs: Sequence[NDArray[np.uint8]],
    radius: int,
    ids: NDArray[np.int64] | None = None,
    alive: NDArray[np.uint8] | None = None,
    n_jobs: int = 1,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]: ...
def progressive_top_k(
    queries: NDArray[np.uint8],
    slabs: Sequence[NDArray[np.uint8]],
    k: int,
    limits: NDArray[np.int32],
    seeds: int,
    ids: NDArray[np.int64] | None = None,
    alive: NDArray[np.uint8] | None = None,
    n_jobs: int = 1,
) -> tuple[NDArray[np.int64], NDArray[np.int32], dict[str, NDArray[Any]]]: ...
def scores(
    weights: NDArray[np.float32],
    bias: NDArray[np.float32],
    slabs: Sequence[NDArray[np.uint8]],
    n_jobs: int = 1,
) -> NDArray[np.float32]: ...
def score_rows(
    weights: NDArray[np.float32],
    bias: NDArray[np.float32],
    slabs: Sequence[NDArray[np.uint8]],
    rows: NDArray[np.int64],
    n_jobs: int = 1,
) -> NDArray[np.float32]: ...
def score_top_k(
    weights: NDArray[np.float32],
    bias: NDArray[np.float32],
    slabs: Sequence[NDArray[np.uint8]],
    k: int,
    ids: NDArray[np.int64] | None = None,
    alive: NDArray[np.uint8] | None = None,
    n_jobs: int = 1,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]: ...

# Encoding: plans, weight stream, quantiser

class NonFiniteError(ValueError): ...

class Plan:
    def encode(self, X: NDArray[np.float32], n_jobs: int = 1) -> NDArray[np.uint8]: ...
    def project(self, X: NDArray[np.float32], n_jobs: int = 1) -> NDArray[np.float32]: ...

class BilinearPlan(Plan):
    def __init__(
        self,
        left: NDArray[np.float32],
        right: NDArray[np.float32],
        pairs: NDArray[np.int32],
        offsets: NDArray[np.float32],
        tau: NDArray[np.float32] | None,
        d: int,
        permutation: NDArray[np.int32] | None,
        signs: NDArray[np.float32] | None,
        left_first: bool,
    ) -> None: ...

class DensePlan(Plan):
    def __init__(
        self,
        weights: NDArray[np.float32],
        outputs: NDArray[np.int32],
        offsets: NDArray[np.float32],
        tau: NDArray[np.float32] | None,
    ) -> None: ...

class StreamedDensePlan(Plan):
    def __init__(
        self,
        seed: int,
        kind: str,
        row_scale: NDArray[np.float32],
        d: int,
        outputs: NDArray[np.int32],
        offsets: NDArray[np.float32],
        tau: NDArray[np.float32] | None,
        block_bytes: int = ...,
    ) -> None: ...

class HadamardPlan(Plan):
    def __init__(
        self,
        signs: NDArray[np.float32],
        outputs: NDArray[np.int32],
        d: int,
        scale: float,
        offsets: NDArray[np.float32],
        tau: NDArray[np.float32] | None,
    ) -> None: ...

def dense_weights(
    seed: int, kind: str, row_scale: NDArray[np.float32], d: int, row_start: int, row_stop: int
) -> NDArray[np.float32]: ...
def first_nonfinite(X: NDArray[np.float32]) -> int: ...
def quantize(values: NDArray[np.float32], tau: NDArray[np.float32] | None) -> NDArray[np.uint8]: ...
