"""Run by test_faults.py: copies a store again and again, each copy killed with SIGKILL at a random moment.

Usage: copy_killer.py SOURCE DESTINATION KILLS SEED. Copies run in forked children; this process itself never talks to
an engine, so that each child begins afresh. At the end one copy is left alone, and must succeed. Destinations get a
number, a new one whenever a copy got through before it was killed.
"""

import importlib
import os
import random
import signal
import sys
import time
import traceback

from bilsh.workflows import copying


def child(source, destination):
    number = os.fork()
    if number:
        return number
    status = 1
    try:
        copying.copy(source, destination, batch=50)
        status = 0
    except BaseException:
        traceback.print_exc()
    os._exit(status)


def main(source, destination, kills, seed):
    # Loaded once, before all forks; but not Lance, which does not survive one.
    for name in ("faiss", "psycopg", "pyarrow"):
        importlib.import_module(name)
    copying.NOTED_EVERY = 0.02
    rng, done, round_, took = random.Random(seed), 0, 0, 0.5
    while done < kills:
        target = destination.format(round_)
        start = time.monotonic()
        process = child(source, target)
        time.sleep(rng.uniform(0, 1.1 * took))
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        if os.WIFSIGNALED(status):
            done += 1
        elif status:
            sys.exit(f"a copy failed with status {status}")
        else:
            took, round_ = time.monotonic() - start, round_ + 1
        if rng.random() < 0.1:
            start = time.monotonic()
            if os.waitpid(child(source, target), 0)[1]:
                sys.exit("a copy that was left alone failed")
            round_ += 1
    for number in range(round_ + 1):
        if os.waitpid(child(source, destination.format(number)), 0)[1]:
            sys.exit("the last copy failed")
    print(done, round_ + 1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
