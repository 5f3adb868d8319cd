"""Run by test_writers.py: writers without any lock change one store at the same time, as fast as they can.

Usage: unlocked.py DIRECTORY WRITERS CHANGES SEED. Every row that was acknowledged must be there in the end, whatever
the others did; a writer that was refused opens the store again.
"""

import fcntl
import json
import os
import random
import sys
from pathlib import Path

import numpy as np

from bilsh import Store, StoreBusyError

APART = 1_000_000


def code_of(item):
    return np.frombuffer(np.array([item], "<u8").tobytes(), np.uint8)


def write(path, number, changes, rng, pipe):
    kept, refused, store = [], 0, None
    for turn in range(changes):
        first = number * APART + 10 * turn
        items = list(range(first, first + rng.choice([1, 1, 1, 4])))
        try:
            store = store or Store.open(path, "a", log=rng.random() < 0.7)
            store.add_codes(np.array([code_of(item) for item in items]), ids=items)
            kept += items
            if rng.random() < 0.1:
                store.compact()
        except StoreBusyError:
            refused += 1
            store = None
        if rng.random() < 0.2:
            store = None
    os.write(pipe, json.dumps([kept, refused]).encode() + b"\n")


def main(path, writers, changes, seed):
    fcntl.flock = lambda fd, how: None
    Store.create(path, n_bits=64).close()
    pipes = []
    for number in range(writers):
        read, out = os.pipe()
        if os.fork() == 0:
            try:
                write(path, number, changes, random.Random(seed + number), out)
            except BaseException as error:
                sys.stderr.write(f"{error!r}\n")
            os._exit(0)
        os.close(out)
        pipes.append(os.fdopen(read))
    answers = [json.loads(pipe.readline() or "null") for pipe in pipes]
    if None in answers:
        raise AssertionError("a writer failed")
    kept = [item for items, _ in answers for item in items]
    with Store.open(path) as store:
        store.verify(deep=True)
        found = store.get(kept)
        if any(
            code.tobytes() != code_of(item).tobytes() for item, code in zip(kept, found.codes, strict=True)
        ):
            raise AssertionError("an item has another code")
    print(json.dumps({"acknowledged": len(kept), "refused": sum(refused for _, refused in answers)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
