"""A process of its own that encodes and tells time and memory as JSON.

Memory is the growth of the process's resident set from before the encoder is made to the peak while encoding, which a
process that has done other work could not tell.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from bilsh.errors import BilshError

STATUS = Path("/proc/self/status")


def resident_bytes(field: str) -> int:
    """Read VmRSS (now) or VmHWM (peak) of this process on Linux; 0 where the system does not tell."""
    if not STATUS.is_file():
        return 0
    lines = [line for line in STATUS.read_text().splitlines() if line.startswith(f"{field}:")]
    return 1024 * int(lines[0].split()[1]) if lines else 0


def probe(
    method: str, n_bits: int, shape: tuple[int, int], n_items: int, repeats: int, budget: int
) -> dict[str, Any]:
    """Encode random matrices by one of the paper's methods on one thread.

    Parameters
    ----------
    method : str
        "dense" or "bilinear m=5".
    n_bits, shape, n_items, repeats : int, (int, int), int, int
        Bits, matrix shape, matrices per run, and runs of which the best counts.
    budget : int
        Bytes of dense weights that may be kept; beyond, they are regenerated while encoding.

    Returns
    -------
    dict
        seconds_per_item, rss_growth, parameter_bytes, streamed.
    """
    from bilsh import Dense
    from bilsh.experiments.retrieval import best_seconds, fitted, paper_encoder

    X = np.random.default_rng(0).standard_normal((n_items, *shape), dtype=np.float32)
    encoder = paper_encoder(method, n_bits, float(np.sqrt(2 * X[0].size)), 0)
    if method == "dense":
        encoder.set_params(projection=Dense(memory_budget=budget))
    fitted(paper_encoder("bilinear m=1", 16, 1.0, 0), X, 2).transform(X[:2])
    before = resident_bytes("VmRSS")
    fitted(encoder, X, 2)
    seconds = best_seconds([encoder], X, repeats)[0]
    return {
        "seconds_per_item": seconds,
        "rss_growth": max(0, resident_bytes("VmHWM") - before),
        "parameter_bytes": int(encoder.parameter_bytes_),
        "streamed": method == "dense" and 4 * X[0].size * n_bits > budget,
    }


def probe_in_child(**settings: Any) -> dict[str, Any]:
    """Run :func:`probe` in a fresh process."""
    command = [sys.executable, "-P", "-c", f"from {__name__} import main; main()", json.dumps(settings)]
    # The interpreter itself and our own module; nothing comes from outside.
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise BilshError(
            f"Measuring {settings['method']} with {settings['n_bits']} bits failed "
            f"({done.stderr.strip().splitlines()[-1:] or ['killed, perhaps for lack of memory']}). "
            "Free some memory and run again; finished parts are kept."
        )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> None:
    """Read settings of :func:`probe` from the command line, print its answer."""
    asked = json.loads(sys.argv[1])
    print(json.dumps(probe(**asked | {"shape": tuple(asked["shape"])})))
