"""Run by test_memory.py: streams a store through a process that may hold only a part of it in memory.

Usage: stream.py DIRECTORY ITEMS HEADROOM_MIB FLUSH_MIB
"""

import resource
import sys
from pathlib import Path

import numpy as np
from makers import make_encoder

from bilsh import Batch, Store, hamming
from bilsh.store import change, inputs, segment

BATCH = 4096


def codes_of(first, n_bytes):
    """Codes that are told by their ids alone."""
    return np.random.default_rng(first).integers(0, 256, (BATCH, n_bytes), dtype=np.uint8)


def main(path, n_items, headroom, flush):
    change.FLUSH_BYTES = inputs.CHUNK_BYTES = segment.SEARCH_BYTES = flush << 20
    encoder = make_encoder(n_bits=8192)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (headroom << 20),) * 2)
    starts = range(0, n_items, BATCH)
    with Store.create(path, encoder) as store:
        store.add_codes((Batch(codes_of(start, 1024)) for start in starts), fingerprint="unchecked")
        check(store, n_items)
        store.delete(np.arange(1, n_items, 5))
        store.compact()
        store.compact()
        if len(store.segments) != 1 or len(store) != n_items - len(range(1, n_items, 5)):
            raise AssertionError(f"{len(store.segments)} segments, {len(store)} items")
        size = sum(file.stat().st_size for file in path.glob("s-*"))
        if size < 2 * (headroom << 20):
            raise AssertionError("the store is not larger than the memory")
        check(store, n_items)
        store.verify(deep=True)
    with Store.open(path, mmap=False) as store:
        last = max(i for i in range(n_items - 5, n_items) if i % 5 != 1)
        expected = np.stack([codes_of(0, 1024)[0], codes_of(starts[-1], 1024)[last - n_items]])
        if not np.array_equal(store.get([0, last]).codes, expected):
            raise AssertionError("wrong codes")
        search(store, encoder)


def search(store, encoder):
    """Every mode of search finds what a walk through all items finds."""
    query = np.random.default_rng(7).normal(size=(1, *encoder.input_shape_))
    code = encoder.transform(query)
    nearest = min(int(hamming(code, items.codes).min()) for items in store.batches(4096))
    for mode in ("hamming", "progressive"):
        found = store.search(query, k=3, mode=mode)
        if found.distances[0, 0] != nearest:
            raise AssertionError(f"{mode}: nearest at {found.distances[0, 0]}, not at {nearest}")
        if not np.array_equal(hamming(code, store.get(found.ids[0]).codes), found.distances):
            raise AssertionError(f"{mode}: distances do not belong to the ids")
    if store.search(query, k=3, mode="asymmetric").ids.shape != (1, 3):
        raise AssertionError("asymmetric: not three items")


def check(store, n_items):
    seen = 0
    current, known = None, None
    for items in store.batches(1000):
        seen += len(items)
        for row in (0, len(items) - 1):
            start = int(items.ids[row]) // BATCH * BATCH
            if start != current:
                current, known = start, codes_of(start, 1024)
            if not np.array_equal(items.codes[row], known[int(items.ids[row]) - start]):
                raise AssertionError(f"wrong code of item {items.ids[row]}")
    if seen != len(store):
        raise AssertionError(f"{seen} items seen of {len(store)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
