"""Ways to encode: ours through the public encoders, and what a user would write or install instead.

Everyone returns packed codes of the same bits wherever the method is the same, so that the work is comparable;
tests hold them to it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.fft
from sklearn.kernel_approximation import RBFSampler

import bilsh
from bilsh.benchmark.measure import Contestant
from bilsh.codes import Codes
from bilsh.projections.base import SIGNS
from bilsh.types import Values

FIT_ROWS = 4
"""Encoders are fitted on so few rows: the bandwidth is given, and fitting is not what is timed."""

GRID_BYTES = 64 << 20
"""Literal NumPy works through a batch in blocks of items whose m^2 k values take at most this many bytes."""

DENSE_BYTES = 128 << 20
"""Dense weights beyond this size are timed on a slice of the bits; the time grows in proportion to k."""

FAISS_LARGEST = 4_096
"""FAISS orthogonalises a matrix of max(d, k) rows when IndexLSH is made: minutes beyond this size, days at 64,000."""

LITERAL, SELECTED, DENSE = "literal NumPy", "NumPy, selected pairs", "dense NumPy"
RBF, FAISS_LSH, FFT = "RBFSampler", "FAISS IndexLSH", "circulant FFT"
OURS, DEFAULT, HADAMARD, CIRCULANT, OUR_DENSE = "ours", "KernelEncoder", "Hadamard", "Circulant", "Dense"
PROJECTION_OF = {DEFAULT: "bilinear", HADAMARD: "hadamard", CIRCULANT: "circulant"}


@dataclass(frozen=True, slots=True)
class EncodeCase:
    """Matrix shape of a descriptor, code length and oversampling."""

    shape: tuple[int, int]
    k: int
    m: int = 1

    @property
    def d(self) -> int:
        """Dimension of a descriptor."""
        return self.shape[0] * self.shape[1]

    def __str__(self) -> str:
        return f"{self.shape[0]}x{self.shape[1]} k={self.k} m={self.m}"

    @property
    def bandwidth(self) -> float:
        """Scale of standard normal descriptors, so that phases are of the order of a turn."""
        return float(np.sqrt(self.d))


def descriptors(shape: tuple[int, int], n: int) -> Values:
    """Standard normal descriptors (n, d_w, d_v), the same in every run."""
    return np.random.default_rng(7).standard_normal((n, *shape), dtype=np.float32)


def fitted(encoder: Any, shape: tuple[int, int]) -> Any:
    """Fit on a few rows."""
    return encoder.fit(descriptors(shape, FIT_ROWS))


@lru_cache(maxsize=4)
def ours(case: EncodeCase) -> Any:
    """BLSH-SIK (Algorithm 1) of a case."""
    encoder = bilsh.blsh_sik(case.k, oversampling=case.m, bandwidth=case.bandwidth, random_state=0)
    return fitted(encoder, case.shape)


@lru_cache(maxsize=4)
def variant(case: EncodeCase, projection: str) -> Any:
    """Our own default of as many bits, with any of the projections."""
    encoder = bilsh.KernelEncoder(case.k, bandwidth=case.bandwidth, projection=projection, random_state=0)
    return fitted(encoder, case.shape)


@lru_cache(maxsize=1)
def dense_encoder(shape: tuple[int, int], k: int) -> Any:
    """LSH-SIK (eq. 4)."""
    encoder = bilsh.lsh_sik(k, bandwidth=EncodeCase(shape, k).bandwidth, random_state=0)
    return fitted(encoder, shape)


def run_encoder(encoder: Any, X: Values, threads: int) -> Callable[[], Codes]:
    """Encode through the public API, checks at the door included."""
    encoder = copy.copy(encoder)
    encoder.n_jobs = threads
    return lambda: encoder.transform(X)


def reduced_flops(encoder: Any) -> float:
    """Operations per item of the two stages with the selected pairs only: 2 (a d + k d_v), or its mirror image."""
    d_w, d_v = encoder.matrix_shape_
    left, right = encoder.left_weights_.shape[1], encoder.right_weights_.shape[1]
    k = len(np.unique(encoder.pairs_, axis=0))
    if encoder.projection_.left_first:
        return float(2 * (left * d_w * d_v + k * d_v))
    return float(2 * (right * d_w * d_v + k * d_w))


# -- literal Algorithm 1 -----------------------------------------------------------------------------


def literal(encoder: Any, X: Values) -> Callable[[], Codes]:
    """Algorithm 1 as printed: all m^2 k values, cosine, comparison, then the subset I; a batch at a time."""
    left = np.ascontiguousarray(encoder.left_weights_.T)
    right = encoder.right_weights_ / np.float32(encoder.bandwidth_)
    a, c = len(left), right.shape[1]
    subset = encoder.pairs_[:, 0].astype(np.int64) * c + encoder.pairs_[:, 1]
    offsets, thresholds = np.zeros(a * c, np.float32), np.zeros(a * c, np.float32)
    offsets[subset], thresholds[subset] = encoder.offsets_, encoder.thresholds_
    step = max(1, GRID_BYTES // (4 * a * c))

    def run() -> Codes:
        codes = []
        for start in range(0, len(X), step):
            block = X[start : start + step]
            values = np.matmul(left, block).reshape(-1, right.shape[0]) @ right
            bits = np.cos(values.reshape(len(block), a * c) + offsets) + thresholds >= 0
            codes.append(np.packbits(bits[:, subset], axis=1, bitorder="little"))
        return np.concatenate(codes)

    return run


def selected_pairs(encoder: Any, X: Values) -> Callable[[], Codes]:
    """Write it well in NumPy: selected pairs only, one product per left vector, no cosine."""
    left = np.ascontiguousarray(encoder.left_weights_.T)
    right = encoder.right_weights_ / np.float32(2 * np.pi * encoder.bandwidth_)
    order = np.argsort(encoder.pairs_[:, 0], kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(encoder.pairs_[:, 0], minlength=len(left)))[:-1])
    weights = [np.ascontiguousarray(right[:, encoder.pairs_[group, 1]]) for group in groups]
    turns = (encoder.offsets_ / (2 * np.pi)).astype(np.float32)
    tau = (np.arccos(-encoder.thresholds_) / (2 * np.pi)).astype(np.float32)

    def run() -> Codes:
        projected = np.matmul(left, X)
        values = np.empty((len(X), len(turns)), np.float32)
        for i, group in enumerate(groups):
            values[:, group] = projected[:, i] @ weights[i]
        values += turns
        values -= np.rint(values)
        return np.packbits(np.abs(values, out=values) <= tau, axis=1, bitorder="little")

    return run


# -- dense and structured peers ------------------------------------------------------------------------


def dense(encoder: Any, X: Values) -> Callable[[], Codes]:
    """LSH-SIK (eq. 4) in NumPy: one large product, cosine, comparison."""
    weights = np.ascontiguousarray(encoder.weights_ / np.float32(encoder.bandwidth_))
    offsets, thresholds = encoder.offsets_.astype(np.float32), encoder.thresholds_.astype(np.float32)
    rows = X.reshape(len(X), -1)
    return lambda: np.packbits(np.cos(rows @ weights + offsets) + thresholds >= 0, axis=1, bitorder="little")


def rbf_sampler(encoder: Any, X: Values) -> Callable[[], Codes]:
    """Features of scikit-learn's RBFSampler with the weights of our dense encoder, then the comparison."""
    rows = X.reshape(len(X), -1)
    sampler = RBFSampler(gamma=0.5, n_components=1, random_state=0).fit(rows[:1])
    sampler.random_weights_ = np.ascontiguousarray(encoder.weights_ / np.float32(encoder.bandwidth_))
    sampler.random_offset_ = encoder.offsets_.astype(np.float32)
    sampler.n_components = len(encoder.offsets_)
    least = (-encoder.thresholds_ * np.sqrt(2 / sampler.n_components)).astype(np.float32)
    return lambda: np.packbits(sampler.transform(rows) >= least, axis=1, bitorder="little")


def faiss_lsh(X: Values, k: int) -> Callable[[], Codes]:
    """Sign codes of FAISS after a random rotation."""
    import faiss

    rows = X.reshape(len(X), -1)
    index = faiss.IndexLSH(rows.shape[1], k)
    return lambda: index.sa_encode(rows)


def circulant_fft(X: Values, k: int, bandwidth: float) -> Callable[[], Codes]:
    """Kernel codes of circulant projections by SciPy's float32 FFT, in as many blocks of d bits as k needs."""
    rows = X.reshape(len(X), -1)
    d = rows.shape[1]
    blocks = -(-k // d)
    rng = np.random.default_rng(0)
    columns = rng.standard_normal((blocks, d), dtype=np.float32) / np.float32(bandwidth)
    spectrum = scipy.fft.rfft(columns).astype(np.complex64)
    signs = rng.choice(SIGNS, (blocks, d))
    offsets = rng.uniform(0, 2 * np.pi, k).astype(np.float32)
    thresholds = rng.uniform(-1, 1, k).astype(np.float32)

    def run() -> Codes:
        parts = [scipy.fft.irfft(scipy.fft.rfft(rows * signs[b]) * spectrum[b], n=d) for b in range(blocks)]
        values = np.concatenate(parts, axis=1)[:, :k]
        return np.packbits(np.cos(values + offsets) + thresholds >= 0, axis=1, bitorder="little")

    return run


# -- the field of a race -------------------------------------------------------------------------------


def part_of(items: int, seconds_per_item: float, longest: float) -> int:
    """How many of `items` a contestant that takes so long for each is asked to do."""
    return max(1, min(items, int(longest / seconds_per_item)))


def literal_part(case: EncodeCase, items: int, longest: float) -> int:
    """Items for literal NumPy: about 50 Gflop/s and 10 ns for each of the m^2 k bits."""
    grid = case.m**2 * case.k
    flops = 2 * (case.m * np.sqrt(case.k) * case.d + grid * case.shape[1])
    return part_of(items, flops / 50e9 + 10e-9 * grid, longest)


def extrapolated(run: Callable[[], Any], part: int, whole: int, what: str) -> dict[str, Any]:
    """Fields of a contestant that does `part` of `whole` items."""
    note = "" if part == whole else f"extrapolated from {part:,} of {whole:,} {what}"
    return {"run": run, "scale": whole / part, "note": note}


def dense_field(case: EncodeCase, X: Values, threads: int) -> list[Contestant]:
    """Dense peers and our own dense encoder, all with the same weights; on a slice of the bits if they are large."""
    k = min(case.k, max(64, DENSE_BYTES // (4 * case.d) // 64 * 64))
    encoder = dense_encoder(case.shape, k)
    runs = {
        DENSE: dense(encoder, X),
        RBF: rbf_sampler(encoder, X),
        OUR_DENSE: run_encoder(encoder, X, threads),
    }
    return [
        Contestant(name, threads=threads, **extrapolated(run, k, case.k, "bits"))
        for name, run in runs.items()
    ]


def literal_field(case: EncodeCase, X: Values, threads: int, longest: float) -> list[Contestant]:
    """NumPy, as printed and as well as it can be written."""
    part = literal_part(case, len(X), longest)
    runs = {LITERAL: literal(ours(case), X[:part]), SELECTED: selected_pairs(ours(case), X[:part])}
    return [
        Contestant(name, threads=threads, **extrapolated(run, part, len(X), "items"))
        for name, run in runs.items()
    ]


def our_field(case: EncodeCase, X: Values, threads: int) -> Contestant:
    """Enter BLSH-SIK with its operations counted."""
    encoder = ours(case)
    return Contestant(OURS, run_encoder(encoder, X, threads), threads, reduced_flops(encoder) * len(X))


def faiss_field(case: EncodeCase, X: Values, threads: int) -> Contestant:
    """FAISS IndexLSH, where it is installed and usable."""
    if find_spec("faiss") is None:
        return Contestant(FAISS_LSH, None, threads, note="not installed: pip install faiss-cpu")
    if max(case.d, case.k) > FAISS_LARGEST:
        note = f"not usable: building takes O(max(d, k)^3); left out beyond {FAISS_LARGEST:,}"
        return Contestant(FAISS_LSH, None, threads, note=note)
    return Contestant(FAISS_LSH, faiss_lsh(X, case.k), threads, note="sign codes, no kernel")
