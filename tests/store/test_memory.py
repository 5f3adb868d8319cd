"""Promise 10: a store larger than memory is written as a stream, walked through, compacted, verified and searched."""

import subprocess
import sys
from pathlib import Path

from makers import TORTURE


def test_a_store_larger_than_memory(tmp_path):
    items, headroom, flush = (512 * 4096, 512, 64) if TORTURE else (36 * 4096, 56, 4)
    script = Path(__file__).with_name("stream.py")
    run = subprocess.run(
        [sys.executable, script, tmp_path / "store", str(items), str(headroom), str(flush)],
        capture_output=True,
        text=True,
        check=False,
        env={"OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"},
    )
    assert run.returncode == 0, run.stderr
