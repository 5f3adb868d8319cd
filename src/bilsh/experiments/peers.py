"""Other binary and compact codes at the same number of bytes: recall@10 of exact Euclidean neighbours.

Two kinds of rows must not be mixed: where the query, too, is a code and Hamming distances are counted ("Hamming"), and
where the query keeps its real values ("asymmetric").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bilsh
from bilsh.codes import pack
from bilsh.errors import MissingPackageError, optional
from bilsh.evaluation import exact_neighbors, recall_of_ids
from bilsh.experiments.base import Rows
from bilsh.experiments.retrieval import asymmetric_scores, fitted
from bilsh.projections.transform import HEADER_BYTES
from bilsh.search.exact import top_k
from bilsh.types import Values

Found = NDArray[np.int64]
Method = Callable[[Values, Values, int, float], Found | None]

K = 10
NEEDS_FAISS = (
    "FAISS LSH, ITQ, RaBitQ, PQ, OPQ and SQ are left out: they need faiss-cpu (pip install 'bilsh[bench]')."
)


def split(X: NDArray[Any], n_queries: int, seed: int) -> tuple[Values, Values]:
    """Rows as float32 vectors, centred on the mean of the database: (queries, database)."""
    rows = np.asarray(X, dtype=np.float32).reshape(len(X), -1)
    order = np.random.default_rng(seed).permutation(len(rows))
    queries, database = rows[order[:n_queries]], rows[order[n_queries:]]
    mean = database.mean(axis=0, dtype=np.float64).astype(np.float32)
    return queries - mean, database - mean


def _kernel(Q: Values, X: Values, size: int, bandwidth: float, asymmetric: bool) -> Found:
    encoder = fitted(bilsh.KernelEncoder(8 * size, bandwidth=bandwidth, random_state=0), X)
    codes = encoder.transform(X)
    return _nearest(encoder, Q, codes, asymmetric)


def _angle(Q: Values, X: Values, size: int, bandwidth: float, asymmetric: bool) -> Found:
    encoder = fitted(bilsh.AngleEncoder(8 * size, random_state=0), X, None)
    return _nearest(encoder, Q, encoder.transform(X), asymmetric)


def _learned(Q: Values, X: Values, size: int, bandwidth: float) -> Found | None:
    if size <= HEADER_BYTES:
        return None
    encoder = bilsh.EuclideanEncoder(size, random_state=0).fit(X)
    return np.asarray(bilsh.Index(encoder.transform(X), encoder).search(Q, k=K).ids)


def _nearest(encoder: Any, Q: Values, codes: NDArray[np.uint8], asymmetric: bool) -> Found:
    if not asymmetric:
        return np.asarray(top_k(encoder.transform(Q), codes, K).ids)
    return np.argsort(-asymmetric_scores(encoder, Q, codes), axis=1, kind="stable")[:, :K]


def _signs(Q: Values, X: Values, size: int, bandwidth: float) -> Found | None:
    if size != -(-X.shape[1] // 8):
        return None
    return np.asarray(top_k(pack(Q >= 0), pack(X >= 0), K).ids)


def _searched(index: Any, Q: Values, X: Values) -> Found:
    optional("faiss", "Peers").omp_set_num_threads(1)
    index.train(X)
    index.add(X)
    return np.asarray(index.search(Q, K)[1])


def _lsh(Q: Values, X: Values, size: int, bandwidth: float) -> Found:
    return _searched(optional("faiss", "FAISS LSH").IndexLSH(X.shape[1], 8 * size), Q, X)


def _itq(Q: Values, X: Values, size: int, bandwidth: float) -> Found | None:
    if 8 * size > X.shape[1]:
        return None
    return _searched(optional("faiss", "ITQ").index_factory(X.shape[1], f"ITQ{8 * size},LSH"), Q, X)


def _rabitq(bits: int, lists: int) -> Method:
    """As many leading components as fit, of so many bits; residuals to centres where there are lists, all looked at.

    The byte that names the list counts.
    """

    def method(Q: Values, X: Values, size: int, bandwidth: float) -> Found | None:
        faiss = optional("faiss", "RaBitQ")
        if not hasattr(faiss, "IndexIVFRaBitQ") or len(X) < lists:
            return None
        kind = f"{f'IVF{lists},' if lists else ''}RaBitQ{bits if bits > 1 else ''}"
        for dims in range(min(X.shape[1], 8 * size // bits), 7, -1):
            index = faiss.index_factory(X.shape[1], f"PCAR{dims},{kind}")
            if index.sa_code_size() <= size:
                break
        else:
            return None
        if lists:
            inverted = faiss.extract_index_ivf(index)
            inverted.nprobe = lists
            inverted.cp.min_points_per_centroid = 1
        return _searched(index, Q, X)

    return method


def _opq(Q: Values, X: Values, size: int, bandwidth: float) -> Found | None:
    """A learned rotation before product quantisation: 25 iterations on up to 20,000 rows."""
    d = X.shape[1]
    if size > d or len(X) < 256:
        return None
    faiss = optional("faiss", "OPQ")
    dims = max(size, min(d, 512) // size * size)
    index = faiss.index_factory(d, f"OPQ{size}_{dims},PQ{size}")
    rotation = faiss.downcast_VectorTransform(index.chain.at(0))
    rotation.niter, rotation.max_train_points = 25, 20_000
    rotation.pq = faiss.ProductQuantizer(dims, size, 8)
    rotation.pq.cp.min_points_per_centroid = 1
    faiss.downcast_index(index.index).pq.cp.min_points_per_centroid = 1
    return _searched(index, Q, X)


def _scalar(Q: Values, X: Values, size: int, bandwidth: float) -> Found | None:
    """Four bits of each leading component, eight where all have them."""
    faiss, d = optional("faiss", "SQ"), X.shape[1]
    bits = 8 if size >= d else 4
    return _searched(faiss.index_factory(d, f"PCA{min(d, 8 * size // bits)},SQ{bits}"), Q, X)


def _pq(Q: Values, X: Values, size: int, bandwidth: float) -> Found | None:
    d = X.shape[1]
    if size > d or len(X) < 256:
        return None
    faiss = optional("faiss", "PQ")
    padding = ((0, 0), (0, -d % size))
    index = faiss.IndexPQ(d + (-d % size), size, 8)
    # Small training sets are fine here; FAISS would print a warning for each sub-quantiser.
    index.pq.cp.min_points_per_centroid = 1
    return _searched(index, np.pad(Q, padding), np.pad(X, padding))


METHODS: dict[str, Method] = {
    "ours: kernel, Hamming": lambda Q, X, size, b: _kernel(Q, X, size, b, False),
    "ours: kernel, asymmetric": lambda Q, X, size, b: _kernel(Q, X, size, b, True),
    "ours: sign, asymmetric": lambda Q, X, size, b: _angle(Q, X, size, b, True),
    "ours: learned, asymmetric": _learned,
    "sign of centred values": _signs,
    "FAISS LSH": _lsh,
    "ITQ": _itq,
    "RaBitQ": _rabitq(1, 0),
    "RaBitQ, 2 bits": _rabitq(2, 0),
    "RaBitQ, 4 bits": _rabitq(4, 0),
    "IVF256-RaBitQ": _rabitq(1, 256),
    "IVF256-RaBitQ, 2 bits": _rabitq(2, 256),
    "IVF256-RaBitQ, 4 bits": _rabitq(4, 256),
    "PQ": _pq,
    "OPQ": _opq,
    "scalar quantiser": _scalar,
}


BY_HAMMING = ("FAISS LSH", "ITQ", "sign of centred values")
"""Peers whose queries are codes too: only our rows by Hamming distance compare with them."""


def peer_rows(
    X: NDArray[Any],
    size: int,
    bandwidth: float,
    n_queries: int,
    seed: int,
    methods: Sequence[str] | None = None,
) -> Rows:
    """Recall@10 of every method with codes of `size` bytes, and its standard error over queries.

    Beside it the processor's seconds for training, encoding and searching together.

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
        start = process_time()
        try:
            found = METHODS[name](Q, database, size, bandwidth)
        except MissingPackageError:
            continue
        if found is not None:
            each = [recall_of_ids(found[i : i + 1], exact[i : i + 1]) for i in range(len(Q))]
            error = float(np.std(each, ddof=1) / np.sqrt(len(each)))
            told = {"recall_at_10": float(np.mean(each)), "standard_error": error}
            rows.append({"method": name, "bytes": size, **told, "seconds": process_time() - start})
    return rows
