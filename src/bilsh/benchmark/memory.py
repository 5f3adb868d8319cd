"""Peak memory of an encoder: how much a fresh process grows while it encodes 64 descriptors.

Growth is counted over the state just before encoding, with the encoder fitted and the descriptors in place, so it
is what encoding itself needs: workspaces, temporaries and the codes.
"""

from __future__ import annotations

import gc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

import bilsh
from bilsh.benchmark import contestants_encode as enc
from bilsh.codes import Codes

ITEMS = 64
CONTESTANTS = (enc.OURS, enc.LITERAL, enc.DEFAULT, enc.HADAMARD, enc.FFT)

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def growth(contestant: str, case: enc.EncodeCase) -> float:
    """Megabytes (2^20 bytes) by which a child process grows while `contestant` encodes."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as child:
        return child.submit(_grow, contestant, case).result()


def _grow(contestant: str, case: enc.EncodeCase) -> float:
    X = enc.descriptors(case.shape, ITEMS)
    if contestant == enc.FFT:
        run = enc.circulant_fft(X, case.k, case.bandwidth)
    elif contestant == enc.LITERAL:
        run = enc.literal(enc.ours(case), X)
    elif contestant == enc.OURS:
        run = enc.run_encoder(enc.ours(case), X, 1)
    else:
        run = enc.run_encoder(enc.variant(case, enc.PROJECTION_OF[contestant]), X, 1)
    gc.collect()
    if not CLEAR.exists():
        start = getrusage(RUSAGE_SELF).ru_maxrss
        run()
        return (getrusage(RUSAGE_SELF).ru_maxrss - start) / 1024
    CLEAR.write_text("5")  # makes the kernel forget the peak so far
    start = _status("VmRSS")
    run()
    return (_status("VmHWM") - start) / 1024


def resident() -> float:
    """Megabytes of memory that the process holds; NaN where the system does not tell."""
    return _status("VmRSS") / 1024 if STATUS.exists() else float("nan")


def beside_file(path: Path, queries: Codes, k: int, recall: float) -> float:
    """Megabytes of its own that a child process holds for a store that it opened and searched; NaN as above."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as child:
        return child.submit(_hold, path, queries, k, recall).result()


def _hold(path: Path, queries: Codes, k: int, recall: float) -> float:
    if not STATUS.exists():
        return float("nan")
    gc.collect()
    start = _status("RssAnon")
    with bilsh.Store.open(path) as store:
        for query in queries[:100]:
            store.search(codes=query[None], k=k, recall=recall)
        store.search(codes=queries, k=k, recall=recall)
        return (_status("RssAnon") - start) / 1024


def _status(field: str) -> int:
    """Read a field of the process's status, in kilobytes."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1])
