# Written by nanobind (make stubs).
# ruff: noqa
from collections.abc import Sequence
from typing import Annotated, Any

import numpy
from numpy.typing import NDArray

def level() -> str:
    """Instruction set the kernels run on."""

def levels() -> list[str]:
    """Instruction sets this machine can run, slowest first."""

def force_level(name: str) -> None:
    """Run the kernels on a given instruction set ('auto' for the best)."""

def set_least_share(nanoseconds: float) -> None:
    """
    Work that a call must have for each of its threads (100,000); 0 for tests of threads on small data.
    """

class NonFiniteError(ValueError):
    pass

class Plan:
    """
    Compiled projection and quantiser: float32 rows in, packed codes or values out.
    """

    def encode(
        self,
        X: Annotated[
            NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        n_jobs: int = 1,
    ) -> Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C")]:
        """Packed codes (n, ceil(k / 8))."""

    def project(
        self,
        X: Annotated[
            NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        n_jobs: int = 1,
    ) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C")]:
        """
        Values (n, k) of every bit, offset included, by the chains that encode uses.
        """

class BilinearPlan(Plan):
    """w_i^T M v_j for selected pairs (i, j)."""

    def __init__(
        self,
        left: Annotated[
            NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        right: Annotated[
            NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        pairs: Annotated[
            NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        offsets: Annotated[
            NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        tau: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None,
        d: int,
        permutation: Annotated[
            NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ]
        | None,
        signs: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None,
        left_first: bool,
    ) -> None: ...

class DensePlan(Plan):
    """Rows of stored weights."""

    def __init__(
        self,
        weights: Annotated[
            NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        outputs: Annotated[
            NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        offsets: Annotated[
            NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        tau: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None,
    ) -> None: ...

class StreamedDensePlan(Plan):
    """Rows of weights regenerated in blocks while encoding."""

    def __init__(
        self,
        seed: int,
        kind: str,
        row_scale: Annotated[
            NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        d: int,
        outputs: Annotated[
            NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        offsets: Annotated[
            NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        tau: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None,
        block_bytes: int = 1048576,
    ) -> None: ...

class HadamardPlan(Plan):
    """H s3 H s2 H s1 x in blocks."""

    def __init__(
        self,
        signs: Annotated[
            NDArray[numpy.float32], dict(shape=(None, None, None), order="C", device="cpu", writable=False)
        ],
        outputs: Annotated[
            NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        d: int,
        scale: float,
        offsets: Annotated[
            NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        tau: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None,
    ) -> None: ...

def dense_weights(
    seed: int,
    kind: str,
    row_scale: Annotated[
        NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    d: int,
    row_start: int,
    row_stop: int,
) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C")]:
    """
    Rows [row_start, row_stop) of the weights that StreamedDensePlan uses: row_scale[row] * variate.
    """

def first_nonfinite(
    X: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)],
) -> int:
    """Flat index of the first NaN or infinity, or -1."""

def quantize(
    values: Annotated[
        NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    tau: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
) -> Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C")]:
    """
    Packed codes of ready values: value >= 0, or |value - rint(value)| <= tau.
    """

def hamming_matrix(
    a: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    b: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    n_jobs: int = 1,
) -> Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C")]:
    """Distances of every code of a to every code of b."""

def hamming_top_k(
    queries: Annotated[
        NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    slabs: Sequence[
        Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)]
    ],
    k: int,
    ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None = None,
    alive: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None = None,
    n_jobs: int = 1,
    before: tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
        Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    ]
    | None = None,
) -> tuple[
    Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C")],
    Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C")],
]:
    """
    The k nearest codes of each query, by (distance, id); among them those found before, of other codes.
    """

def hamming_within(
    queries: Annotated[
        NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    slabs: Sequence[
        Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)]
    ],
    radius: int,
    ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None = None,
    alive: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None = None,
    n_jobs: int = 1,
) -> tuple[
    Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C")],
    Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C")],
    Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C")],
]:
    """All codes within the radius of each query: offsets, ids, distances."""

def progressive_top_k(
    queries: Annotated[
        NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    slabs: Sequence[
        Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)]
    ],
    k: int,
    limits: Annotated[
        NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    seeds: int,
    ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None = None,
    alive: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None = None,
    n_jobs: int = 1,
) -> tuple[
    Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C")],
    Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C")],
    dict[str, Any],
]:
    """
    The k nearest codes of each query, found slab by slab: ids, distances, counters.
    """

def weights_of_turns(
    turns: Annotated[
        NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    tables: Annotated[
        NDArray[numpy.float32], dict(shape=(None, None, None), order="C", device="cpu", writable=False)
    ],
    table: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
) -> tuple[
    Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C")],
    Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C")],
]:
    """
    Weights of bits, and biases, of queries whose values in turns are given: look-ups in the table of each bit.
    """

def scores(
    weights: Annotated[
        NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    bias: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    slabs: Sequence[
        Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)]
    ],
    n_jobs: int = 1,
) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C")]:
    """
    bias + the sum of the weights of the set bits, of every query and code.
    """

def score_rows(
    weights: Annotated[
        NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    bias: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    slabs: Sequence[
        Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)]
    ],
    rows: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    n_jobs: int = 1,
) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C")]:
    """The same scores for the given rows of each query."""

def score_top_k(
    weights: Annotated[
        NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    bias: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    slabs: Sequence[
        Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)]
    ],
    k: int,
    ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None = None,
    alive: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None = None,
    n_jobs: int = 1,
) -> tuple[
    Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C")],
    Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C")],
]:
    """The k codes with the largest scores of each query, ties by id."""

class Regions:
    """Cells that are near each other, by their centres."""

    def __init__(
        self,
        centres: Annotated[
            NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        n: int,
    ) -> None: ...
    def of(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C")]:
        """Region of each cell."""

    def middles(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C")]:
        """The middle of each region; none where there is only one."""

class CellSet:
    """Codes in the order of their cells."""

    def __init__(
        self,
        slabs: Sequence[
            Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)]
        ],
        offsets: Annotated[
            NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        regions: Regions,
        ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
        alive: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
        cached: int = 0,
    ) -> None:
        """
        Where the first two stages of all rows take at most `cached` bytes, both are read at once.
        """

    @property
    def living(self) -> int:
        """Number of living rows."""

    @property
    def prefixes(self) -> tuple[int, ...]:
        """
        Bits after which rows are left, for each but the last time that more is read.
        """

    def top_k(
        self,
        queries: Annotated[
            NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        k: int,
        first: int,
        seeds: int,
        slope: int,
        share: float,
        slack: int,
        width: int,
        limits: Annotated[
            NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        n_jobs: int = 1,
        ranks: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
    ) -> tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C")],
        Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C")],
        Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C")],
        int,
        int,
        int,
        float,
        int,
        float,
    ]:
        """
        The k nearest codes of each query in the cells it visits: ids, distances, visits (3, q), centres that were looked at, rows and bytes read by all, seconds that the way to the cells took, the largest bound, the mean of the bounds' ranks. Visits are the bound on the k-th distance, how far the farthest of the first cells was, and the number of cells; `ranks` has the rank of every bound, the last that of all beyond.
        """

    def far(
        self,
        queries: Annotated[
            NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        width: int,
        n_jobs: int = 1,
    ) -> Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C")]:
        """
        Distances of queries to centres; where a query does not look, one more than the largest.
        """

def nearest_centres(
    codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    centres: Annotated[
        NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    n_jobs: int = 1,
) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C")]:
    """Number of the nearest centre of each code, of equals the first."""

def majority(
    codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    cell_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    centres: Annotated[
        NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    n_jobs: int = 1,
) -> Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C")]:
    """
    New centres: the majority of each bit among the codes of each cell; cells without codes keep theirs.
    """

class TransformPlan:
    """
    Centres, frames and quantisers: float32 rows in, codes or estimates out.
    """

    def __init__(
        self,
        nearest: Plan,
        frames: tuple[Plan, ...],
        centres: Annotated[
            NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        coordinates: Annotated[
            NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        steps: Annotated[
            NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        depths: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        scales: Annotated[
            NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        errors: Annotated[
            NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        stretches: Annotated[
            NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        add_least: float,
        add_step: float,
        share: float,
        n_bytes: int,
        absolute: bool = False,
        origin: Annotated[
            NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ]
        | None = None,
    ) -> None: ...
    def encode(
        self,
        X: Annotated[
            NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        n_jobs: int = 1,
    ) -> Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C")]:
        """Codes (n, n_bytes)."""

    def top_k(
        self,
        Q: Annotated[
            NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        slabs: Sequence[
            Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)]
        ],
        k: int,
        ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
        alive: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
        n_jobs: int = 1,
    ) -> tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C")],
        Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C")],
    ]:
        """
        Ids and estimated squared distances of the k nearest codes of each query, ties by id.
        """

    def visit(
        self,
        Q: Annotated[
            NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        slabs: Sequence[
            Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)]
        ],
        k: int,
        closeness: Annotated[
            NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        offsets: Annotated[
            NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        living: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        budget: int,
        ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
        alive: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None = None,
        n_jobs: int = 1,
    ) -> tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C")],
        Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C")],
        Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C")],
        int,
    ]:
        """
        The same in the cells nearest to each query, until those before hold more living rows than the budget; also how many cells each query read, and how many rows all did.
        """

    def rows(
        self,
        Q: Annotated[
            NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        slabs: Sequence[
            Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)]
        ],
        rows: Annotated[
            NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        n_jobs: int = 1,
    ) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C")]:
        """Estimated squared distances of the given rows of each query."""

def unpack_records(
    log: bytes, at: int, base: int, seed: int, most: int
) -> tuple[
    Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C")],
    Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C")],
    int,
]:
    """
    Bytes of all whole records of a log, where each begins (and the last ends), and where the next would.
    """

def pack_record(plain: bytes, at: int, seed: int) -> bytes:
    """Bytes of a record that begins at an offset of a log."""

def newest_version(directory: int) -> int:
    """
    The highest version whose manifest is in an open directory, 0 for none.
    """

def is_named(directory: int, name: str, file: int, mark: bytes, at: int) -> bool:
    """
    Whether a name in an open directory stands for an open file that has these bytes at an offset.
    """

def local_dimension(
    window: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    mean: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ranking: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    start: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    n_bits: int,
    usual: float,
    spread: float,
    steps: int,
) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C")]:
    """
    Logarithm of the local dimension, its variance, and the logarithm of expected items over the likelihood's integral: a row per query.
    """

def hit_beta(
    fractions: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    own_bits: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    own: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    bits: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    estimates: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    dimension: Annotated[
        NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    mean: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    doubt: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ranking: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    log_scale: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    share: float,
) -> tuple[
    Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C")],
    Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C")],
    Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C")],
]:
    """
    Parameters of the Beta distributions of hits, and the probabilities of copies.
    """

def beta_quantiles(
    z: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    successes: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    failures: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    fewest: float,
) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C")]:
    """
    Values of Beta distributions at standard normal ones: a matrix for each row of z.
    """

def smallest(
    values: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    k: int,
) -> Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C")]:
    """
    Columns of the k smallest numbers of each row, ascending by (number, column).
    """
