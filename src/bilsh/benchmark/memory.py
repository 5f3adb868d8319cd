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

from bilsh.benchmark import contestants_encode as enc

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


def _status(field: str) -> int:
    """Read a field of the process's status, in kilobytes."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1])
