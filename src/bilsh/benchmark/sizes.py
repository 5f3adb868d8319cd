"""How much is measured: the full benchmark (15 minutes), --quick (three minutes), --smoke (seconds, for tests)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bilsh.benchmark.contestants_encode import EncodeCase
from bilsh.benchmark.contestants_hamming import HammingCase

SMALL, LARGE = (28, 28), (250, 256)
"""Shapes of the paper's descriptors: MNIST images, and VLAD of 500 x 128 numbers."""


@dataclass(frozen=True, slots=True)
class Size:
    """What a run measures.

    Attributes
    ----------
    encode : tuple of (case, numbers of items)
    ways : tuple of (case, items)
        Long codes by every projection we have.
    hamming : tuple of (case, numbers of queries)
    scaling_k, scaling_d, scaling_n : tuples
        Code lengths at `scaling_shape`, matrix shapes, and batch sizes of the curves.
    scaling_codes : tuple of int
        Numbers of stored codes of 512 bits.
    memory : tuple of case
        What child processes encode, 64 items each.
    threads : tuple of int
        Of our encoders and the limits.
    peer_threads : tuple of int
        Of everyone else.
    budget : float
        Seconds per race of encoders; scans, whose peers are slow, have three times as much.
    longest : float
        A peer that would take longer than so many seconds per call is timed on a part of the job; scans may take
        three times as long.
    sgemm_sides : tuple of int
        Sizes of the matrices whose products set the limit.
    clock : {"wall", "cpu"}
        See :func:`bilsh.benchmark.measure.race`.
    """

    name: str
    encode: tuple[tuple[EncodeCase, tuple[int, ...]], ...]
    ways: tuple[tuple[EncodeCase, int], ...]
    hamming: tuple[tuple[HammingCase, tuple[int, ...]], ...]
    scaling_shape: tuple[int, int]
    scaling_k: tuple[int, ...]
    scaling_d: tuple[tuple[int, int], ...]
    scaling_n: tuple[int, ...]
    scaling_codes: tuple[int, ...]
    memory: tuple[EncodeCase, ...]
    threads: tuple[int, ...]
    peer_threads: tuple[int, ...]
    budget: float
    longest: float
    sgemm_sides: tuple[int, ...] = (2048, 768)
    clock: str = "wall"

    def on_busy_machine(self) -> Size:
        """Return the same by the processor's clock, which tells about one thread only."""
        return replace(self, name=f"{self.name}-cpu", clock="cpu", threads=(1,), peer_threads=(1,))


BATCHES = (1, 15, 64, 512)

FULL = Size(
    name="full",
    encode=(
        *((EncodeCase(SMALL, k, m), BATCHES) for k in (900, 2_500) for m in (1, 5)),
        *((EncodeCase(LARGE, k, m), BATCHES) for k in (4_900, 6_400, 62_500) for m in (1, 5, 10)),
    ),
    ways=((EncodeCase(LARGE, 64_000), 64), (EncodeCase(LARGE, 6_400), 64), (EncodeCase(SMALL, 900), 512)),
    hamming=(
        (HammingCase(45_000, 62_528), (1, 300)),
        (HammingCase(1_000_000, 4_096), (1, 300)),
        (HammingCase(1_000_000, 512), (1, 300)),
    ),
    scaling_shape=LARGE,
    scaling_k=(400, 900, 2_500, 6_400, 16_900, 62_500),
    scaling_d=(SMALL, (64, 64), (128, 128), LARGE, (512, 512), (1_000, 1_000)),
    scaling_n=(1, 2, 4, 8, 15, 16, 32, 64, 128, 256, 512),
    scaling_codes=(1_000, 10_000, 100_000, 1_000_000),
    memory=tuple(EncodeCase(LARGE, 62_500, m) for m in (1, 5, 10)),
    threads=(1, 2),
    peer_threads=(1, 2),
    budget=8.0,
    longest=3.0,
)

QUICK = Size(
    name="quick",
    encode=(
        (EncodeCase(SMALL, 900, 1), (1, 64)),
        (EncodeCase(SMALL, 900, 5), (1, 64)),
        (EncodeCase(SMALL, 2_500, 5), (64,)),
        (EncodeCase(LARGE, 4_900, 1), (1, 64)),
        (EncodeCase(LARGE, 62_500, 1), (1, 64)),
        (EncodeCase(LARGE, 62_500, 5), (1, 64)),
        (EncodeCase(LARGE, 62_500, 10), (64,)),
    ),
    ways=((EncodeCase(LARGE, 64_000), 64),),
    hamming=(
        (HammingCase(8_000, 62_528), (1, 60)),
        (HammingCase(100_000, 4_096), (1, 60)),
        (HammingCase(200_000, 512), (60,)),
    ),
    scaling_shape=LARGE,
    scaling_k=(400, 6_400, 62_500),
    scaling_d=(SMALL, (128, 128), (1_000, 1_000)),
    scaling_n=(1, 8, 64),
    scaling_codes=(1_000, 30_000, 300_000),
    memory=(EncodeCase(LARGE, 62_500, 5),),
    threads=(1, 2),
    peer_threads=(1,),
    budget=2.5,
    longest=0.4,
)

SMOKE = Size(
    name="smoke",
    encode=((EncodeCase((6, 7), 36, 1), (1, 3)), (EncodeCase((6, 7), 36, 2), (3,))),
    ways=((EncodeCase((6, 7), 40), 3),),
    hamming=((HammingCase(200, 128), (1, 3)),),
    scaling_shape=(6, 7),
    scaling_k=(16, 36),
    scaling_d=((4, 4), (6, 7)),
    scaling_n=(1, 3),
    scaling_codes=(100, 200),
    memory=(EncodeCase((6, 7), 36, 2),),
    threads=(1, 2),
    peer_threads=(1,),
    budget=0.01,
    longest=0.01,
    sgemm_sides=(64,),
)

SIZES = {size.name: size for size in (FULL, QUICK, SMOKE)}
