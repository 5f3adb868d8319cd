"""Other binary and compact codes at the same number of bytes: recall@10 of exact Euclidean neighbours.

Two kinds of rows must not be mixed: where the query, too, is a code and Hamming distances are counted ("Hamming"), and
where the query keeps its real values ("asymmetric").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import process_time
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import bilsh
from bilsh.codes import pack
from bilsh.encoders.base import Encoder
from bilsh.errors import MissingPackageError, optional
from bilsh.evaluation import exact_neighbors, recall_of_ids
from bilsh.experiments.base import Rows
from bilsh.experiments.retrieval import FIT_ROWS, asymmetric_scores, fitted
from bilsh.projections.transform import HEADER_BYTES
from bilsh.search.exact import top_k
from bilsh.types import Values

Found = NDArray[np.int64]

K = 10
NEEDS_FAISS = (
    "FAISS LSH, ITQ, RaBitQ, PQ, OPQ and SQ are left out: they need faiss-cpu (pip install 'bilsh[bench]')."
)


class Peer(Protocol):
    """A kind of code: learns, encodes and keeps items, finds the nearest of queries."""

    def train(self, X: Values) -> None:
        """Learn from the items."""

    def add(self, X: Values) -> None:
        """Encode the items and keep their codes."""

    def search(self, Q: Values) -> Found:
        """Items (q, 10) nearest to each query."""


Method = Callable[[tuple[int, int], int, float], Peer | None]
"""A peer for items of a shape, of so many bytes each, None where there is no such code; the last is a bandwidth."""


def split(X: NDArray[Any], n_queries: int, seed: int) -> tuple[Values, Values]:
    """Rows as float32 vectors, centred on the mean of the database: (queries, database)."""
    rows = np.asarray(X, dtype=np.float32).reshape(len(X), -1)
    order = np.random.default_rng(seed).permutation(len(rows))
    queries, database = rows[order[:n_queries]], rows[order[n_queries:]]
    mean = database.mean(axis=0, dtype=np.float64).astype(np.float32)
    return queries - mean, database - mean


class _Drawn:
    """Our drawn codes."""

    codes: NDArray[np.uint8]

    def __init__(self, encoder: Encoder, rows: int | None, asymmetric: bool) -> None:
        self.encoder, self.rows, self.asymmetric = encoder, rows, asymmetric

    def train(self, X: Values) -> None:
        fitted(self.encoder, X, self.rows)

    def add(self, X: Values) -> None:
        self.codes = self.encoder.transform(X)

    def search(self, Q: Values) -> Found:
        if not self.asymmetric:
            return np.asarray(top_k(self.encoder.transform(Q), self.codes, K).ids)
        scores = asymmetric_scores(self.encoder, Q, self.codes)
        return np.argsort(-scores, axis=1, kind="stable")[:, :K]


class _Learned:
    """Our learned codes."""

    index: bilsh.Index

    def __init__(self, size: int) -> None:
        self.encoder = bilsh.EuclideanEncoder(size, random_state=0)

    def train(self, X: Values) -> None:
        self.encoder.fit(X)

    def add(self, X: Values) -> None:
        self.index = bilsh.Index(self.encoder.transform(X), self.encoder)

    def search(self, Q: Values) -> Found:
        return np.asarray(self.index.search(Q, k=K, mode="asymmetric").ids)


class _Signs:
    """Signs of centred values."""

    codes: NDArray[np.uint8]

    def train(self, X: Values) -> None:
        pass

    def add(self, X: Values) -> None:
        self.codes = pack(X >= 0)

    def search(self, Q: Values) -> Found:
        return np.asarray(top_k(pack(Q >= 0), self.codes, K).ids)


class _Faiss:
    """An index of FAISS, which may see the numbers at other places."""

    def __init__(self, index: Any, places: NDArray[np.int64] | None = None) -> None:
        faiss = optional("faiss", "Peers")
        faiss.omp_set_num_threads(1)
        # As it comes, k-means in fewer than seven dimensions takes ten times as long, for the same result.
        faiss.cvar.distance_compute_blas_threshold = 20
        self.index, self.places = index, places

    def _placed(self, X: Values) -> Values:
        if self.places is None:
            return X
        made = np.zeros((len(X), self.index.d), dtype=np.float32)
        made[:, self.places] = X
        return made

    def train(self, X: Values) -> None:
        self.index.train(self._placed(X))

    def add(self, X: Values) -> None:
        self.index.add(self._placed(X))

    def search(self, Q: Values) -> Found:
        return np.asarray(self.index.search(self._placed(Q), K)[1])


def _kernel(asymmetric: bool) -> Method:
    def method(shape: tuple[int, int], size: int, bandwidth: float) -> Peer:
        encoder = bilsh.KernelEncoder(8 * size, bandwidth=bandwidth, random_state=0)
        return _Drawn(encoder, FIT_ROWS, asymmetric)

    return method


def _angle(asymmetric: bool) -> Method:
    def method(shape: tuple[int, int], size: int, bandwidth: float) -> Peer:
        return _Drawn(bilsh.AngleEncoder(8 * size, random_state=0), None, asymmetric)

    return method


def _learned(shape: tuple[int, int], size: int, bandwidth: float) -> Peer | None:
    return _Learned(size) if size > HEADER_BYTES else None


def _signs(shape: tuple[int, int], size: int, bandwidth: float) -> Peer | None:
    return _Signs() if size == -(-shape[1] // 8) else None


def _lsh(shape: tuple[int, int], size: int, bandwidth: float) -> Peer:
    return _Faiss(optional("faiss", "FAISS LSH").IndexLSH(shape[1], 8 * size))


def _itq(shape: tuple[int, int], size: int, bandwidth: float) -> Peer | None:
    if 8 * size > min(shape[1], shape[0] - 1):
        return None
    return _Faiss(optional("faiss", "ITQ").index_factory(shape[1], f"ITQ{8 * size},LSH"))


def _rabitq(bits: int, lists: int, turn: str = "PCAR") -> Method:
    """As many leading components as fit, of so many bits; residuals to centres where there are lists, all looked at.

    The byte that names the list counts. The turn "RR" takes random directions instead of leading ones.
    """

    def method(shape: tuple[int, int], size: int, bandwidth: float) -> Peer | None:
        faiss, (n, d) = optional("faiss", "RaBitQ"), shape
        if not hasattr(faiss, "IndexIVFRaBitQ") or n < lists:
            return None
        kind = f"{f'IVF{lists},' if lists else ''}RaBitQ{bits if bits > 1 else ''}"
        most = d if turn == "RR" else min(d, n - 1)  # so few rows have no more components
        for dims in range(min(most, 8 * size // bits), 7, -1):
            index = faiss.index_factory(d, f"{turn}{dims},{kind}")
            if index.sa_code_size() <= size:
                break
        else:
            return None
        if lists:
            inverted = faiss.extract_index_ivf(index)
            inverted.nprobe = lists
            inverted.cp.min_points_per_centroid = 1
        return _Faiss(index)

    return method


def _pq(shape: tuple[int, int], size: int, bandwidth: float) -> Peer | None:
    """Product quantisation, a byte for each part; parts have as many numbers as each other, or one more."""
    n, d = shape
    if size > d or n < 256:
        return None
    faiss, width = optional("faiss", "PQ"), -(-d // size)
    index = faiss.IndexPQ(size * width, size, 8)
    # Small training sets are fine here; FAISS would print a warning for each sub-quantiser.
    index.pq.cp.min_points_per_centroid = 1
    # Parts are equally wide in FAISS, so shorter ones end with a zero: no byte is left without work.
    parts = np.array_split(np.arange(d), size)
    places = np.concatenate([width * i + np.arange(len(part)) for i, part in enumerate(parts)])
    return _Faiss(index, places)


class _FromComponents(_Faiss):
    """OPQ of FAISS that begins with components instead of a random rotation."""

    def train(self, X: Values) -> None:
        faiss = optional("faiss", "OPQ")
        rotation = faiss.downcast_VectorTransform(self.index.chain.at(0))
        start = balanced_components(self._placed(X), rotation.M, rotation.d_out)
        faiss.copy_array_to_vector(start.ravel(), rotation.A)
        super().train(X)


def balanced_components(X: Values, parts: int, n: int) -> Values:
    """Return n principal components (n, d), dealt out so that the variances of all parts have about one product.

    Each next component goes to the part that has the least product so far and room left (Ge et al., "Optimized
    product quantization", 2013).

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(500, 4)) * [8, 4, 2, 1]
    >>> np.abs(balanced_components(X.astype("float32"), 2, 4)).argmax(axis=1).tolist()
    [0, 3, 1, 2]
    """
    values, vectors = np.linalg.eigh(np.cov(X.T, dtype=np.float64))
    order = np.argsort(-values)[:n]
    logs = np.log(np.maximum(values[order], 1e-9 * values[order[0]]))
    logs -= logs[-1]
    dealt: list[list[int]] = [[] for _ in range(parts)]
    products = np.zeros(parts)
    for component, log in zip(order.tolist(), logs, strict=True):
        part = int(np.argmin(products))
        dealt[part].append(component)
        products[part] = products[part] + log if len(dealt[part]) < n // parts else np.inf
    return np.ascontiguousarray(vectors[:, np.concatenate(dealt)].T, dtype=np.float32)


def _opq(most: int, kind: type[_Faiss] = _Faiss) -> Method:
    """A learned rotation to up to so many numbers before product quantisation: 25 iterations on up to 20,000 rows.

    "np": without FAISS's polysemous training, which orders codewords, changes no estimate and takes minutes.
    """

    def method(shape: tuple[int, int], size: int, bandwidth: float) -> Peer | None:
        n, d = shape
        if size > d or n < 256:
            return None
        faiss, placed = optional("faiss", "OPQ"), max(d, size * -(-min(d, most) // size))
        dims = min(placed, most) // size * size
        index = faiss.index_factory(placed, f"OPQ{size}_{dims},PQ{size}np")
        rotation = faiss.downcast_VectorTransform(index.chain.at(0))
        rotation.niter, rotation.max_train_points = 25, 20_000
        rotation.pq = faiss.ProductQuantizer(dims, size, 8)
        rotation.pq.cp.min_points_per_centroid = 1
        faiss.downcast_index(index.index).pq.cp.min_points_per_centroid = 1
        return kind(index, np.arange(d))

    return method


def _scalar(shape: tuple[int, int], size: int, bandwidth: float) -> Peer:
    """Eight or six bits of each component where all have them, else four of each leading one."""
    faiss, d = optional("faiss", "SQ"), shape[1]
    bits = next((bits for bits in (8, 6) if 8 * size >= bits * d), 4)
    return _Faiss(faiss.index_factory(d, f"PCA{min(d, 8 * size // bits)},SQ{bits}"))


RABITQ_BITS = (1, 2, 3, 4, 6, 8)


def rabitq_name(bits: int, lists: int) -> str:
    """Name of RaBitQ in tables.

    Examples
    --------
    >>> rabitq_name(2, 256)
    'IVF256-RaBitQ, 2 bits'
    """
    return f"{f'IVF{lists}-' if lists else ''}RaBitQ" + (f", {bits} bits" if bits > 1 else "")


METHODS: dict[str, Method] = {
    "ours: kernel, Hamming": _kernel(False),
    "ours: kernel, asymmetric": _kernel(True),
    "ours: sign, Hamming": _angle(False),
    "ours: sign, asymmetric": _angle(True),
    "ours: learned, asymmetric": _learned,
    "sign of centred values": _signs,
    "FAISS LSH": _lsh,
    "ITQ": _itq,
    **{rabitq_name(bits, lists): _rabitq(bits, lists) for lists in (0, 256) for bits in RABITQ_BITS},
    "RaBitQ of random directions": _rabitq(1, 0, "RR"),
    "PQ": _pq,
    "OPQ": _opq(512),
    "OPQ of all numbers": _opq(4096),
    "OPQ from components": _opq(512, _FromComponents),
    "scalar quantiser": _scalar,
}


BY_HAMMING = ("FAISS LSH", "ITQ", "sign of centred values")
"""Peers whose queries are codes too: only our rows by Hamming distance compare with them."""


def counts_hamming(method: str) -> bool:
    """Whether a method's queries are codes.

    Examples
    --------
    >>> counts_hamming("ours: kernel, Hamming"), counts_hamming("PQ")
    (True, False)
    """
    return method in BY_HAMMING or method.endswith("Hamming")


def peer_rows(
    X: NDArray[Any],
    size: int,
    bandwidth: float,
    n_queries: int,
    seed: int,
    methods: Sequence[str] | None = None,
) -> Rows:
    """Recall@10 of every method with codes of `size` bytes, and its standard error over queries.

    Beside it the processor's time: seconds of training, microseconds of encoding an item and of searching a query, of
    which all are given at once.

    Methods without such a code, or without FAISS, are left out.

    Parameters
    ----------
    X : array (n, d_w, d_v)
    size : int
        Bytes per stored item, everything included.
    bandwidth : float
        For our kernel codes.
    n_queries, seed : int
    methods : sequence of str, optional
        Names from :data:`METHODS`; all by default.
    """
    Q, database = split(X, n_queries, seed)
    exact = exact_neighbors(Q, database, K)[0]
    rows: Rows = []
    for name in METHODS if methods is None else methods:
        try:
            peer = METHODS[name]((len(database), database.shape[1]), size, bandwidth)
        except MissingPackageError:
            continue
        if peer is None:
            continue
        times = [process_time()]
        peer.train(database)
        times.append(process_time())
        peer.add(database)
        times.append(process_time())
        found = peer.search(Q)
        times.append(process_time())
        each = [recall_of_ids(found[i : i + 1], exact[i : i + 1]) for i in range(len(Q))]
        train, encode, query = np.diff(times).tolist()
        rows.append(
            {
                "method": name,
                "bytes": size,
                "recall_at_10": float(np.mean(each)),
                "standard_error": float(np.std(each, ddof=1) / np.sqrt(len(each))),
                "train_seconds": train,
                "encode_microseconds": 1e6 * encode / len(database),
                "query_microseconds": 1e6 * query / len(Q),
            }
        )
    return rows
