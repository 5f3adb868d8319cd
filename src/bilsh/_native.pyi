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
