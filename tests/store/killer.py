"""Run by test_kill.py: starts writers, kills each with SIGKILL at a random moment, and checks what it left.

Usage: killer.py DIRECTORY KILLS SEED. A writer tells its parent, over a pipe, what it is about to do and what
is done.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
from makers import content, make_encoder, make_items

from bilsh import Store


def write_for_ever(path, seed, pipe):
    rng = random.Random(seed)
    tell = os.fdopen(pipe, "w", buffering=1)
    with Store.open(path, "a") as store:
        known = sorted(content(store))
        while True:
            action = rng.choice(["add", "add", "upsert", "delete", "compact"])
            items = int(rng.random() * 40) + 1
            picked = rng.sample(known, min(len(known), items))
            if action == "add":
                picked = list(range(store.next_id, store.next_id + items))
            tell.write(json.dumps([action, picked, seed]) + "\n")
            if action == "add":
                store.add(make_items(items, seed), metadata=[{"seed": seed}] * items)
            elif action == "upsert" and picked:
                store.upsert(make_items(len(picked), seed), ids=picked)
            elif action == "delete":
                store.delete(picked)
            elif action == "compact":
                store.compact()
            tell.write("done\n")
            known = sorted(apply(dict.fromkeys(known), [action, picked, seed]))
            seed += 1


def apply(state, change):
    """What a store holds after a change, as id -> code, metadata."""
    action, picked, seed = change
    state = dict(state)
    if action == "delete":
        for item in picked:
            state.pop(item, None)
    elif action in ("add", "upsert") and picked:
        codes = ENCODER.transform(make_items(len(picked), seed))
        note = json.dumps({"seed": seed} if action == "add" else None)
        state |= {item: (code.tobytes(), None, note) for item, code in zip(picked, codes, strict=True)}
    return state


ENCODER = make_encoder()


def main(path, kills, seed):
    rng = random.Random(seed)
    Store.create(path, ENCODER).close()
    state, acknowledged, in_flight = {}, 0, 0
    for number in range(kills):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            write_for_ever(path, 1000 * number + seed, write)
        os.close(write)
        told = os.fdopen(read)
        log = [told.readline() for _ in range(rng.randrange(1, 12))]
        time.sleep(rng.random() * 0.012)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        log += told.readlines()
        pending = None
        for line in log:
            if line == "done\n":
                state, pending = apply(state, pending), None
                acknowledged += 1
            elif line.endswith("\n"):
                pending = json.loads(line)
        with Store.open(path) as store:
            found = content(store)
            if number % 10 == 0:
                store.verify(deep=True)
        if found != state:
            in_flight += 1
            if pending is None or found != apply(state, pending):
                raise AssertionError(
                    f"kill {number}: acknowledged changes are lost, or half a change is there"
                )
            state = found
        if len(state) > 2000:
            with Store.open(path, "a") as store:
                store.delete(np.array(list(state), dtype=np.int64))
            state = {}
    print(json.dumps({"kills": kills, "acknowledged": acknowledged, "in_flight": in_flight}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
