"""Run by test_kill.py: starts writers, kills each with SIGKILL at a random moment, and checks what it left.

Usage: killer.py DIRECTORY KILLS SEED [learned]. A writer says over a pipe what it is about to do and what is done.
Beside it readers open, refresh and walk through the store; each item they meet must be one that some writer wrote.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from functools import lru_cache
from pathlib import Path

import numpy as np
from makers import content, make_encoder, make_items, make_learned

from bilsh import Store

ACTIONS = [
    "add",
    "add one",
    "add one",
    "add one",
    "upsert",
    "upsert one",
    "delete",
    "delete one",
    "compact",
    "cells",
    "calibrate",
    "backup",
]


def write_for_ever(path, seed, pipe):
    rng = random.Random(seed)
    say = os.fdopen(pipe, "w", buffering=1)
    with Store.open(path, "a") as store:
        known = sorted(content(store))
        while True:
            action = rng.choice(ACTIONS)
            items = (
                1 if action.endswith("one") else int(rng.random() * (400 if rng.random() < 0.1 else 40)) + 1
            )
            picked = rng.sample(known, min(len(known), items))
            if action.startswith("add"):
                picked = list(range(store.next_id, store.next_id + items))
            say.write(json.dumps([action, picked, seed]) + "\n")
            perform(store, action, picked, seed, path.with_name("copy"))
            say.write("done\n")
            known = sorted(apply(dict.fromkeys(known), [action, picked, seed]))
            seed += 1


@lru_cache(maxsize=4096)
def codes_of(count, seed):
    return [code.tobytes() for code in ENCODER.transform(make_items(count, seed))]


def notes(count, seed):
    return [{"seed": seed, "row": row, "of": count} for row in range(count)]


def perform(store, action, picked, seed, copy):
    if action.startswith("add"):
        store.add(make_items(len(picked), seed), ids=picked, metadata=notes(len(picked), seed))
    elif action.startswith("upsert") and picked:
        store.upsert(make_items(len(picked), seed), ids=picked, metadata=notes(len(picked), seed))
    elif action.startswith("delete"):
        store.delete(picked)
    elif action == "compact":
        store.compact()
    elif action == "cells":
        store.build_cells(8)
    elif action == "calibrate" and store.n_cells:
        store.calibrate(make_items(100, seed))
    elif action == "backup":
        store.backup(copy)


def apply(state, change):
    """What a store holds after a change, as id -> code, metadata."""
    action, picked, seed = change
    state = dict(state)
    if action.startswith("delete"):
        for item in picked:
            state.pop(item, None)
    elif action.startswith(("add", "upsert")) and picked:
        codes = codes_of(len(picked), seed)
        texts = map(json.dumps, notes(len(picked), seed))
        state |= {item: (code, None, text) for item, code, text in zip(picked, codes, texts, strict=True)}
    return state


def read_for_ever(path, seed, pipe):
    """Open and refresh, and compare every item with what its note says; the count goes to the parent at the end."""
    rng, reads, parent = random.Random(seed), 0, os.getppid()
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    store = Store.open(path)
    # Who waits for a parent that failed waits for its children, too.
    while not stopped and os.getppid() == parent:
        if rng.random() < 0.3:
            store = Store.open(path, mmap=rng.random() < 0.5)
        else:
            store.refresh()
        wanted = {}
        for code, _, text in content(store).values():
            note = json.loads(text)
            wanted.setdefault((note["seed"], note["of"]), []).append((note["row"], code))
        for (of_seed, count), rows in wanted.items():
            codes = codes_of(count, of_seed)
            if any(codes[row] != code for row, code in rows):
                raise AssertionError("a reader met a code that nobody wrote for this item")
        reads += 1
        time.sleep(0.04)
    os.write(pipe, b"%d\n" % reads)
    os._exit(0)


ENCODER = make_learned() if "learned" in sys.argv else make_encoder()


def start(function, path, seed):
    """Run a function in a child; its pid, and the end of its pipe that the parent reads."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            function(path, seed, write)
        except BaseException as error:
            sys.stderr.write(f"{function.__name__}: {error!r}\n")
        os._exit(1)
    os.close(write)
    return child, os.fdopen(read)


def main(path, kills, seed):
    rng = random.Random(seed)
    Store.create(path, ENCODER).close()
    state, acknowledged, in_flight = {}, 0, 0
    readers = [start(read_for_ever, path, seed + number) for number in range(2)]
    began = time.monotonic()
    for number in range(kills):
        child, pipe = start(write_for_ever, path, 100_000 * number + seed)
        log = [pipe.readline() for _ in range(rng.randrange(1, 16))]
        time.sleep(rng.random() * 0.012)
        os.kill(child, signal.SIGKILL)
        if os.waitpid(child, 0)[1] != signal.SIGKILL:
            raise AssertionError(f"kill {number}: the writer had failed by itself")
        log += pipe.readlines()
        pipe.close()
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
        if Store.exists(path.with_name("copy")) and number % 5 == 0:
            Store.open(path.with_name("copy")).verify(deep=True)
        if len(state) > 500:
            with Store.open(path, "a") as store:
                store.delete(np.array(list(state), dtype=np.int64))
            state = {}
    reads = 0
    for child, pipe in readers:
        os.kill(child, signal.SIGTERM)
        reads += int(pipe.readline() or -1)
        if os.waitpid(child, 0)[1]:
            raise AssertionError("a reader failed")
    shutil.rmtree(path.with_name("copy"), ignore_errors=True)
    seconds = round(time.monotonic() - began, 1)
    result = {"kills": kills, "acknowledged": acknowledged, "in_flight": in_flight, "reads": reads}
    print(json.dumps(result | {"seconds": seconds}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
