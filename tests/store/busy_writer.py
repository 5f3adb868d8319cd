"""Run by test_backup.py: replaces all items of a store, again and again, until its standard input is closed.

Usage: busy_writer.py DIRECTORY ITEMS
"""

import select
import sys

from makers import make_items

from bilsh import Store


def main(path, items):
    generation = 0
    with Store.open(path, "a") as store:
        while generation < 2 or not select.select([sys.stdin], [], [], 0)[0]:
            generation += 1
            notes = [{"generation": generation}] * items
            store.upsert(make_items(items, generation), ids=range(items), metadata=notes)
            if generation % 11 == 0:
                store.compact()
            if generation == 2:
                print("ready", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
