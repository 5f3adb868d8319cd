"""Promise 5: readers see one version, whole, whatever the writer does meanwhile; and there is one writer."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from makers import TORTURE, content, make_encoder, make_items

from bilsh import IncompatibleCodesError, InvalidInputError, Store, StoreBusyError

ITEMS = 30


def upsert_generation(store, generation):
    """Replace every item at once; half a change would show two generations."""
    store.upsert(
        make_items(ITEMS, generation), ids=range(ITEMS), metadata=[{"generation": generation}] * ITEMS
    )


def test_readers_beside_a_busy_writer(tmp_path):
    commits = 3000 if TORTURE else 60
    script = Path(__file__).with_name("reader.py")
    with Store.create(tmp_path / "store", make_encoder()) as store:
        upsert_generation(store, 0)
        readers = [
            subprocess.Popen(
                [sys.executable, script, tmp_path / "store", str(ITEMS)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        for reader in readers:
            assert reader.stdout.readline() == "ready\n", reader.communicate()[1]
        for generation in range(1, commits):
            upsert_generation(store, generation)
            if generation % 7 == 0:
                store.compact()
        for reader in readers:
            out, errors = reader.communicate("stop\n")
            assert reader.returncode == 0, errors
            assert json.loads(out)["reads"] >= 3


def test_a_reader_keeps_its_version_until_it_refreshes(tmp_path):
    with Store.create(tmp_path / "store", make_encoder()) as store:
        upsert_generation(store, 0)
        reader, lazy = Store.open(tmp_path / "store"), Store.open(tmp_path / "store")
        before = content(reader)
        for generation in range(1, 6):
            upsert_generation(store, generation)
            store.compact()
        assert content(reader) == before
        assert content(lazy) == before, "files opened but not yet read must stay readable"
        reader.refresh()
        assert content(reader) == content(store) != before


def test_one_writer_at_a_time(tmp_path):
    with Store.create(tmp_path / "store", make_encoder()) as store:
        with pytest.raises(StoreBusyError, match="mode='r'"):
            Store.open(tmp_path / "store", "a")
        with pytest.raises(StoreBusyError):
            Store.repair(tmp_path / "store", 1)
        other = f"from bilsh import Store; Store.open({str(tmp_path / 'store')!r}, 'a')"
        run = subprocess.run(
            [sys.executable, "-c", other],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parent,
            check=False,
        )
        assert "StoreBusyError" in run.stderr
        store.add(make_items(1))
    Store.open(tmp_path / "store", "a").close()


def test_a_forked_child_may_not_write_with_its_parents_store(tmp_path, monkeypatch):
    with Store.create(tmp_path / "store", make_encoder()) as store:
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(StoreBusyError, match="parent process"):
            store.add(make_items(1))


def test_an_earlier_version_can_be_read(tmp_path):
    with Store.create(tmp_path / "store", make_encoder()) as store:
        store.add(make_items(2))
        store.add(make_items(3))
        assert len(Store.open(tmp_path / "store", version=2)) == 2
        with pytest.raises(InvalidInputError, match="can only be read"):
            Store.open(tmp_path / "store", "a", version=2)


def test_a_refresh_is_not_taken_in_by_another_store_in_the_same_directory(tmp_path):
    """Its codes would be compared with those of the encoder that is known here, and its items found by nobody."""
    where, X = tmp_path / "store", make_items(20)
    with Store.create(where, make_encoder()) as store:
        store.add(X)
    reader = Store.open(where)
    before = content(reader)
    reader.search(X[:1], 3)
    for file in where.iterdir():
        file.unlink()
    with Store.create(where, make_encoder(seed=8)) as store:
        store.add(X)
    with pytest.raises(IncompatibleCodesError, match=r"another encoder.*Open it anew"):
        reader.refresh()
    assert content(reader) == before
    assert reader.search(X[3:4], 1).ids[0, 0] == 3
    assert Store.open(where).search(X[3:4], 1).ids[0, 0] == 3


def test_a_file_whose_name_has_digits_of_another_script_is_no_version(tmp_path):
    with Store.create(tmp_path / "store", make_encoder()) as store:
        foreign = store.path / "m-٠٠٠٠٠٠٠٠٠٧.json"
        foreign.write_text("somebody's")
        store.add(make_items(2))
        store.add(make_items(2))
        assert [version.version for version in Store.versions(store.path)] == [2, 3]
    with Store.open(tmp_path / "store", "a") as store:
        store.add(make_items(2))
    assert foreign.read_text() == "somebody's"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_reads_whatever_the_threads_of_its_parent_are_at(tmp_path):
    X, stop = make_items(30), threading.Event()
    with Store.create(tmp_path / "store", make_encoder()) as store:
        store.add(X)
        reader = Store.open(store.path)
        reader.search(X[:1], 3)  # what an encoder finds out once and for all is found out

        def look():
            while not stop.is_set():
                reader.refresh()
                reader.get([3])

        def write():
            while not stop.is_set():
                store.upsert(X[:1], ids=[0])

        threads = [threading.Thread(target=action) for action in (look, look, write)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(20):
                child = os.fork()
                if child == 0:
                    code = 1
                    with suppress(BaseException):
                        signal.alarm(20)
                        reader.refresh()
                        code = int(len(reader.get([3])) + len(store.get([4])) != 2)
                        reader.close()
                        store.close()
                    os._exit(code)
                assert os.waitpid(child, 0)[1] == 0
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        store.add(X, ids=range(100, 130))
