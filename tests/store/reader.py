"""Run by test_readers.py: opens, reads and refreshes a store until told to stop; each version must be whole.

Usage: reader.py DIRECTORY ITEMS. Stops when its standard input is closed, and prints how much it has seen.
"""

import json
import select
import sys

from makers import content, make_encoder, make_items

from bilsh import Store


def main(path, items):
    encoder = make_encoder()
    reads, generations = 0, set()
    store = Store.open(path)
    print("ready", flush=True)
    while reads < 3 or not select.select([sys.stdin], [], [], 0)[0]:
        reads += 1
        if reads % 3:
            store.refresh()
        else:
            store = Store.open(path, mmap=reads % 2 == 0)
        for _ in range(2):
            found = content(store)
            notes = {note for _, _, note in found.values()}
            if len(found) != items or len(notes) != 1:
                raise AssertionError(f"{len(found)} items of generations {notes}")
            generation = json.loads(notes.pop())["generation"]
            codes = encoder.transform(make_items(items, generation))
            if [found[i][0] for i in range(items)] != [code.tobytes() for code in codes]:
                raise AssertionError(f"codes are not those of generation {generation}")
        slabs = sum(int(slab.sum()) for segment in store.segments for slab in segment.slabs)
        if slabs == 0:
            raise AssertionError("no bits at all")
        generations.add(generation)
    print(json.dumps({"reads": reads, "generations": len(generations)}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
