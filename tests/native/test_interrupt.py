"""Ctrl-C ends long work of the compiled core with KeyboardInterrupt; the next call is as good as any."""

import signal
import subprocess
import sys

import numpy as np
import pytest

from bilsh import _native

# A shell that starts the tests in the background has them ignore Ctrl-C.
PRELUDE = """
import signal
import sys
import numpy as np
from bilsh import _native

signal.signal(signal.SIGINT, signal.default_int_handler)
n_jobs = int(sys.argv[1])
rng = np.random.default_rng(0)
codes = rng.integers(0, 256, (1 << 20, 64), dtype=np.uint8)
halves = [np.ascontiguousarray(codes[:, :32]), np.ascontiguousarray(codes[:, 32:])]
few = codes[:300]
expected = _native.hamming_top_k(few, [codes[:2000]], 5)


def long_work(work):
    print("ready", flush=True)
    try:
        work()
    except KeyboardInterrupt:
        found = _native.hamming_top_k(few, [codes[:2000]], 5, n_jobs=n_jobs)
        assert all((a == b).all() for a, b in zip(found, expected, strict=True))
        print("interrupted")
    else:
        print("finished")


"""

# Each would take minutes at the least.
WORK = {
    "hamming_top_k": "_native.hamming_top_k(codes, [codes], 1, n_jobs=n_jobs)",
    "hamming_within": "_native.hamming_within(codes, [codes], 0, n_jobs=n_jobs)",
    "progressive_top_k": "_native.progressive_top_k("
    "codes, halves, 1, np.arange(513, dtype=np.int32)[None], 1, n_jobs=n_jobs)",
    "hamming_matrix": "_native.hamming_matrix("
    "np.zeros((3000, 1 << 14), np.uint8), np.zeros((1 << 18, 1 << 14), np.uint8), n_jobs)",
    "scores": "_native.scores(np.ones((2000, 8192), np.float32), np.zeros(2000, np.float32),"
    " [np.zeros((200_000, 1024), np.uint8)], n_jobs)",
    "score_top_k": "_native.score_top_k(np.ones((100_000, 512), np.float32), np.zeros(100_000, np.float32),"
    " [codes], 1, n_jobs=n_jobs)",
    "dense": "_native.StreamedDensePlan(0, 'gaussian', np.ones(1_000_000, np.float32), 1 << 14,"
    " np.arange(1_000_000, dtype=np.int32), np.zeros(1_000_000, np.float32), None)"
    ".encode(np.zeros((2000, 1 << 14), np.float32), n_jobs)",
    "bilinear": "_native.BilinearPlan(np.ones((500, 250), np.float32), np.ones((500, 256), np.float32),"
    " np.indices((500, 500), np.int32).reshape(2, -1).T.copy(), np.zeros(250_000, np.float32), None,"
    " 64_000, None, None, True)"
    ".project(np.zeros((5_000, 64_000), np.float32), n_jobs)",
}


@pytest.mark.parametrize(
    ("work", "n_jobs"), [("hamming_top_k", 1), ("dense", 1), *((work, 2) for work in WORK)]
)
def test_signal_ends_long_work(work, n_jobs):
    program = PRELUDE + f"long_work(lambda: {WORK[work]})\n"
    command = [sys.executable, "-c", program, str(n_jobs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n", child.stderr.read()
        try:
            child.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGINT)
        try:
            out, err = child.communicate()
        finally:
            child.kill()
    assert out == "interrupted\n", err


def test_handler_may_use_the_library_while_it_works():
    """Scratch memory of a call is its own, even if a signal's handler makes another call on the same thread."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((3000, 1500), dtype=np.float32)
    outputs, offsets = np.arange(3000, dtype=np.int32), np.zeros(3000, np.float32)
    plan = _native.DensePlan(weights, outputs, offsets, None)
    X, other = rng.standard_normal((3000, 1500), dtype=np.float32), np.ones((40, 1500), np.float32)
    expected = plan.encode(X)
    calls = []
    before = signal.signal(signal.SIGALRM, lambda *_: calls.append(plan.encode(other)))
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        found = plan.encode(X)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    np.testing.assert_array_equal(found, expected)
    assert all((call == calls[0]).all() for call in calls)
