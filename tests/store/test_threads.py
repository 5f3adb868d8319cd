"""Threads on one object: any number read, one changes at a time, and every answer is of one version.

Each item says which generation it belongs to, in its code and its metadata; an answer that mixes two, or gives
another item's code, is caught. Full counts with BILSH_TORTURE=1.
"""

import os
import random
import sys
import threading

import numpy as np
import pytest
from makers import SEED, TORTURE, make_encoder

from bilsh import Batch, InvalidInputError, Store
from bilsh.store.ids import as_names

OPERATIONS = 100_000 if TORTURE else 1_500
ENCODER = make_encoder(n_bits=64)
ITEMS = 60


def code_of(item, generation):
    """A code that tells its item and generation."""
    return np.frombuffer(int(item).to_bytes(4, "little") + int(generation).to_bytes(4, "little"), np.uint8)


def codes_of(items, generation):
    return np.stack([code_of(item, generation) for item in items])


@pytest.fixture(autouse=True)
def impatient():
    """Threads change places often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def name_of(kind, item):
    return f"item {item}" if kind == "str" else item


def number_of(name):
    return int(str(name).removeprefix("item "))


def fill(store, kind, generation, items=range(ITEMS)):
    """Replace all items by those of another generation, in one change; their rows change places too."""
    order = random.Random(generation).sample(list(items), len(items))
    if generation % 3 == 0:
        store.delete(store_ids(store))
    with store._change() as change:
        names = as_names([name_of(kind, item) for item in order], change.id_kind)
        change.insert(codes_of(order, generation), names, None, None, overwrite=True)


def store_ids(store):
    return [item for items in store.batches() for item in items.ids.tolist()]


def check_items(items):
    """Every code belongs to its id, and all to one generation."""
    generations = set()
    for name, code in zip(items.ids.tolist(), items.codes, strict=True):
        assert int.from_bytes(code[:4].tobytes(), "little") == number_of(name)
        generations.add(int.from_bytes(code[4:].tobytes(), "little"))
    assert len(generations) <= 1, f"items of generations {generations}"
    return generations


def read(store, kind, rng):
    """One checked operation; an empty moment between two generations is allowed."""
    action = rng.randrange(5)
    picked = rng.sample(range(ITEMS), 5)
    if action == 0:
        problem = ""
        try:
            check_items(store.get([name_of(kind, item) for item in picked]))
        except InvalidInputError as error:
            problem = str(error)
        if "is closed" in problem:
            raise InvalidInputError(problem)
        assert not problem or "5 of the 5" in problem, problem
    elif action == 1:
        seen = {}
        for items in store.batches(16):
            for name, code in zip(items.ids.tolist(), items.codes, strict=True):
                seen[name] = code.tobytes()
        assert len(seen) in (0, ITEMS)
        assert len({code[4:] for code in seen.values()}) <= 1
    elif action == 2:
        assert len(store) in (0, ITEMS)
        assert any(words in repr(store) for words in (f"{ITEMS} items", "0 items", "closed"))
    elif action == 3:
        now = store._now
        ids = [segment.ids for segment in now.segments]
        if ids:
            assert None not in now.external_ids(np.concatenate(ids)).tolist()
    else:
        where = [name_of(kind, item) for item in picked]
        query = np.random.default_rng(picked[0]).standard_normal((1, 12)).astype(np.float32)
        found = store.search(query, 3, mode="hamming", where=where)
        assert found.ids.shape[1] in (0, 3)
        assert set(found.ids.ravel().tolist()) <= set(where)


def run(threads):
    failures = []

    def guarded(action):
        try:
            action()
        except BaseException as error:
            failures.append(error)

    running = [threading.Thread(target=guarded, args=(action,)) for action in threads]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.parametrize("kind", ["int", "str"])
@pytest.mark.parametrize("mmap", [True, False])
def test_readers_beside_a_thread_that_refreshes(tmp_path, kind, mmap):
    with Store.create(tmp_path / "store", ENCODER) as store:
        fill(store, kind, 1)
        reader = Store.open(store.path, mmap=mmap)
        stop = threading.Event()

        def write():
            generation = 1
            while not stop.is_set():
                generation += 1
                fill(store, kind, generation)
                reader.refresh()

        def look(seed):
            rng = random.Random(SEED + seed)
            try:
                for _ in range(OPERATIONS // 8):
                    read(reader, kind, rng)
            finally:
                stop.set()

        run([write, lambda: look(1), lambda: look(2)])


@pytest.mark.parametrize("kind", ["int", "str"])
def test_readers_beside_a_thread_that_writes_on_the_same_object(tmp_path, kind):
    with Store.create(tmp_path / "store", ENCODER) as store:
        fill(store, kind, 1)
        stop = threading.Event()

        def write():
            generation = 1
            while not stop.is_set():
                generation += 1
                fill(store, kind, generation)
                if generation % 5 == 0:
                    store.compact()

        def look(seed):
            rng = random.Random(SEED + seed)
            try:
                for _ in range(OPERATIONS // 8):
                    read(store, kind, rng)
            finally:
                stop.set()

        run([write, lambda: look(1), lambda: look(2)])
        store.verify(deep=True)


def test_changes_of_one_object_wait_for_each_other(tmp_path):
    each = OPERATIONS // 100
    with Store.create(tmp_path / "store", ENCODER) as store:

        def work(number):
            for turn in range(each):
                item = number * 100_000 + turn
                store.add_codes(codes_of([item], number), ids=[item], fingerprint="unchecked")
                if turn % 3 == 0:
                    assert store.delete([item]) == 1

        run([lambda number=number: work(number) for number in range(4)])
        expected = {n * 100_000 + turn for n in range(4) for turn in range(each) if turn % 3}
        assert set(store_ids(store)) == set(store_ids(Store.open(store.path))) == expected
        for items in store.batches():
            for item, code in zip(items.ids.tolist(), items.codes, strict=True):
                assert code.tobytes() == code_of(item, item // 100_000).tobytes()


def test_threads_list_one_directory_each_for_itself(tmp_path):
    """Who lists through a shared descriptor moves the place of others: they miss names, and see other versions."""
    with Store.create(tmp_path / "store", ENCODER) as store:
        fill(store, "int", 1)
        place, names, version = store._place, set(os.listdir(store.path)), store.version

        def look():
            for _ in range(OPERATIONS // 4):
                assert set(place.list()) == names
                assert place.newest() == version

        run([look, look, look])


def test_an_object_that_is_closed_meanwhile_says_so(tmp_path):
    with Store.create(tmp_path / "store", ENCODER) as store:
        fill(store, "int", 1)
        for seed in range(20):
            reader = Store.open(store.path)

            def look(reader=reader, seed=seed):
                rng, problem = random.Random(seed), "is closed"
                try:
                    for _ in range(30):
                        read(reader, "int", rng)
                        reader.refresh()
                except InvalidInputError as error:
                    problem = str(error)
                assert "is closed" in problem

            run([look, look, reader.close])


def test_closing_waits_for_a_change_of_another_thread_and_is_refused_within_one(tmp_path):
    """Else a file that the change writes to is closed under it, and its number may be another file's by then."""
    store = Store.create(tmp_path / "store", ENCODER)
    closing = threading.Thread(target=store.close)
    refused = []

    def items():
        yield Batch(codes_of([1], 1), [1])
        try:
            store.close()
        except InvalidInputError as error:
            refused.append(str(error))
        closing.start()
        closing.join(0.2)
        assert closing.is_alive()
        yield Batch(codes_of([2], 1), [2])

    assert store.add_codes(items(), fingerprint="unchecked") == 2
    closing.join()
    assert len(refused) == 1
    assert "within the iterator" in refused[0]
    with pytest.raises(InvalidInputError, match="is closed"):
        len(store)
    with Store.open(store.path, "a") as again:
        assert store_ids(again) == [1, 2]


def at_line(number, action, call):
    """Make a call; when it comes to its n-th line of the store or the search, another thread acts. Whether it did."""
    lines, acted = 0, False

    def trace(frame, event, argument):
        nonlocal lines, acted
        if not any(place in frame.f_code.co_filename for place in ("bilsh/store", "bilsh/search")):
            return None
        if event == "line" and not acted:
            lines += 1
            if lines == number:
                acted = True
                other = threading.Thread(target=action)
                other.start()
                other.join()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return acted


@pytest.mark.parametrize("what", ["get", "ids", "batches", "search", "where", "scrub"])
@pytest.mark.parametrize("on", ["reader", "writer"])
def test_whatever_line_a_reading_call_is_at_when_another_thread_acts(tmp_path, what, on):
    """A reader is refreshed, a writer changed, and all is checked anew: at every line of a call, in turn."""
    wanted = list(range(5))
    query = np.random.default_rng(1).standard_normal((1, 12)).astype(np.float32)
    with Store.create(tmp_path / "store", ENCODER) as store:
        fill(store, "int", 1)
        generation = 1
        seen = Store.open(store.path) if on == "reader" else store
        # Small changes that follow each other go into a log; two manifests later its name is gone.
        changes = [range(ITEMS), *([range(ITEMS), wanted, wanted] if what == "scrub" else []), wanted]

        def act():
            nonlocal generation
            for items in changes:
                generation += 1
                with store._change() as change:
                    names = as_names(items, change.id_kind)
                    change.insert(codes_of(items, generation), names, None, None, overwrite=True)
            seen.refresh()
            seen.scrub()

        def check_found(found):
            assert found.ids.shape == (1, 3)
            codes = ENCODER.transform(query)
            for item, distance in zip(found.ids[0].tolist(), found.distances[0].tolist(), strict=True):
                possible = {
                    int(np.bitwise_count(codes[0] ^ code_of(item, g)).sum()) for g in range(generation + 1)
                }
                assert distance in possible

        calls = {
            "get": lambda: check_items(seen.get(wanted)),
            "ids": lambda: np.testing.assert_array_equal(np.sort(seen.ids), np.arange(ITEMS)),
            "batches": lambda: [items.ids for items in seen.batches(7)],
            "search": lambda: check_found(seen.search(query, 3, mode="hamming")),
            "where": lambda: check_found(seen.search(query, 3, mode="hamming", where=wanted)),
            "scrub": seen.scrub,
        }
        act()
        line, step = 1, 1 if TORTURE else 19
        while at_line(line, act, calls[what]):
            line += step
        assert line > 1
