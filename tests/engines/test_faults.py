"""What can go wrong on the way into an engine: killed copies, killed servers, wrong addresses. A rerun ends right."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from engine_servers import ALL, free_ports, milvus_process, postgres_folder, postgres_server, require
from test_conformance import near

import bilsh
from bilsh import engines
from bilsh.engines import milvus, milvus_server
from bilsh.engines.addresses import Address
from bilsh.engines.postgres_server import Place, Server
from bilsh.engines.spec import CodeSpec
from bilsh.errors import EngineError
from bilsh.store.creation import coder_for
from bilsh.workflows import copying

KILLS = 50 if ALL == "every" else 12
"""Of copies into each of four engines; 200 in all by `make test-engines-all`."""


@pytest.fixture
def source(tmp_path):
    """A store with names, metadata and deleted rows."""
    codes = near(1500, 600)
    with bilsh.Store.create(tmp_path / "source", n_bits=600) as store:
        store.add_codes(codes, metadata=[{"row": row} if row % 2 else None for row in range(1500)])
        store.delete(np.arange(0, 1500, 7))
    return str(tmp_path / "source")


def same(address, source):
    with bilsh.open(address) as there, bilsh.open(source) as old:
        return copying.compare(old, there, lambda *_: None).items


@pytest.mark.parametrize("engine", ["store", "faiss", "lance", "postgres"])
def test_copies_killed_at_random_moments(engine, request, source, tmp_path):
    """Every copy that was begun and killed is then finished and compared."""
    if not ALL:
        pytest.skip("killed copies are a part of make test-engines")
    require(engine)
    destination = {"store": f"{tmp_path}/copy{{}}"}.get(engine, f"{engine}:{tmp_path}/copy{{}}")
    if engine == "postgres":
        destination = f"{request.getfixturevalue('postgres')}&table=killed{{}}"
    program = Path(__file__).with_name("copy_killer.py")
    done = subprocess.run(
        [sys.executable, program, source, destination, str(KILLS), "0"],
        capture_output=True,
        text=True,
        timeout=3600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    kills, copies = map(int, done.stdout.split())
    assert kills >= KILLS
    for number in range(copies):
        assert same(destination.format(number), source) == 1285


@pytest.fixture
def data():
    require("postgres")
    with postgres_folder() as folder:
        yield folder


def test_a_killed_postmaster(source, data):
    """kill -9 of the postmaster in the middle of a copy: one sentence; after a restart the copy goes on."""
    with postgres_server(data) as url:
        address = f"{url}&table=codes"
        killed = threading.Event()

        def kill(what, done, total):
            if what == "copying" and done >= 500 and not killed.is_set():
                killed.set()
                os.kill(int((data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)

        with pytest.raises(EngineError, match=r"no PostgreSQL answers at .* or it went away"):
            copying.copy(source, address, batch=50, progress=kill)
        with pytest.raises(EngineError, match="no PostgreSQL answers"):
            bilsh.open(address)
    time.sleep(1)
    with postgres_server(data) as url:
        done = copying.copy(source, f"{url}&table=codes", batch=50)
        assert done.items == same(f"{url}&table=codes", source) == 1285
        assert done.resumed or done.written == 1285


def test_a_killed_milvus_server(source, tmp_path, monkeypatch):
    """kill -9 of the server in the middle of a copy, and a restart on the same files."""
    require("milvus")
    monkeypatch.setattr("bilsh.engines.milvus.SECONDS", 10)
    monkeypatch.setattr(copying, "NOTED_EVERY", 0.0)
    port = free_ports()
    address = f"milvus://127.0.0.1:{port}/codes"
    with milvus_process(tmp_path / "milvus", port, ttl=10) as (_, process):

        def kill(what, done, total):
            if what == "copying" and done >= 500:
                os.kill(process, signal.SIGKILL)

        with pytest.raises(EngineError, match="no Milvus answers"):
            copying.copy(source, address, batch=250, progress=kill)
    monkeypatch.setattr("bilsh.engines.milvus.SECONDS", 60)
    monkeypatch.setattr(copying, "NOTED_EVERY", 2.0)
    with milvus_process(tmp_path / "milvus", port, ttl=10):
        done = copying.copy(source, address, batch=500)
        assert done.items == same(address, source) == 1285


def test_a_milvus_that_went_away_is_given_up():
    """pymilvus heeds only whole seconds; without them it tries 75 times, which takes minutes."""
    require("milvus")
    place = milvus_server.Place.of(Address.of("milvus://127.0.0.1:1/codes"))
    asked = Mock()
    there = milvus.MilvusCollection(place, asked, CodeSpec(coder_for(None, 400, None)), "int", "2.3.5", "a")
    there.upsert(range(3), near(3, 400))
    there.flush()
    there.remember("x", [1])
    there.remember("x", None)
    calls = [call for call in asked.mock_calls if call.kwargs]
    assert len(calls) >= 4
    assert all(isinstance(call.kwargs["timeout"], int) for call in calls)
    assert isinstance(milvus_server.SECONDS, int)


def test_servers_that_are_not_there():
    require("postgres")
    with pytest.raises(EngineError, match=r"no PostgreSQL answers at 127\.0\.0\.1:1") as told:
        bilsh.open("postgresql://me:secret@127.0.0.1:1/photos")
    assert "secret" not in str(told.value)
    assert "\n" not in str(told.value)


def test_a_milvus_that_is_not_there():
    require("milvus")
    with pytest.raises(EngineError, match=r"no Milvus answers at 127\.0\.0\.1:1") as told:
        bilsh.open("milvus://127.0.0.1:1/codes")
    assert "\n" not in str(told.value)


def test_wrong_passwords_databases_and_rights(postgres):
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS reader")
        connection.execute("CREATE ROLE reader LOGIN PASSWORD 'right'")
    with pytest.raises(EngineError, match="no such database"):
        bilsh.open(postgres.replace("/postgres?", "/nothing?"))
    with pytest.raises(EngineError, match=r"refuses this user|no such|does not exist"):
        bilsh.open(postgres.replace("postgres:@", "nobody:wrong@"))
    with engines.create(f"{postgres}&table=guarded", n_bits=400):
        pass
    with pytest.raises(EngineError, match="does not allow that"):
        bilsh.open(postgres.replace("postgres:@", "reader:right@") + "&table=guarded")


def test_a_wrong_password(data):
    """A server that asks for passwords."""
    with postgres_server(data) as url:
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ALTER USER postgres PASSWORD 'right'")
        rules = data / "pg_hba.conf"
        rules.write_text("local all all scram-sha-256\n")
        process = int((data / "postmaster.pid").read_text().split()[0])
        os.kill(process, signal.SIGHUP)
        time.sleep(0.5)
        with pytest.raises(EngineError, match="wrong password or unknown user"):
            bilsh.open(url.replace("postgres:@", "postgres:wrong@") + "&table=codes")
        with engines.create(
            url.replace("postgres:@", "postgres:right@") + "&table=codes", n_bits=400
        ) as there:
            assert len(there) == 0
            assert "right" not in there.address
        rules.write_text("local all all trust\n")
        os.kill(process, signal.SIGHUP)
        time.sleep(0.5)


class OldServer:
    """Stands for a connection to a server that is too old, which cannot be had here."""

    def __init__(self, number, vector=None):
        self.info, self._vector = type("info", (), {"server_version": number}), vector

    def execute(self, statement):
        return self

    def fetchone(self):
        return self._vector and (self._vector,)

    def transaction(self):
        raise AssertionError("an old server is not asked for more")


def test_servers_of_another_version():
    require("postgres")
    place = Place.of(Address.of("postgresql://host/db?extension=vector"))
    with pytest.raises(EngineError, match=r"PostgreSQL 13.4; 14 or later is needed"):
        Server(place, OldServer(130004), own=False)
    with pytest.raises(EngineError, match=r"pgvector 0.5.1; 0.7 or later"):
        Server(place, OldServer(160002, "0.5.1"), own=False)
    with pytest.raises(EngineError, match=r"Milvus 2.1.4; 2.3 or later"):
        milvus_server.check_version("2.1.4", "host:19530")
    milvus_server.check_version("2.3.5-lite", "host:19530")


def test_a_missing_extension(postgres):
    """A database without pgvector that is asked for it, and a server that does not have it at all."""
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS bare")
        connection.execute("CREATE DATABASE bare")
    bare = postgres.replace("/postgres?", "/bare?")
    engines.create(f"{bare}&table=codes&extension=none", n_bits=400).close()
    with pytest.raises(EngineError, match="has no extension vector"):
        bilsh.open(f"{bare}&table=codes&extension=vector")
    with bilsh.open(f"{bare}&table=codes") as there:
        assert there.capabilities.engine == "PostgreSQL"
    with psycopg.connect(bare, autocommit=True) as connection:
        connection.execute("CREATE ROLE weak LOGIN")
        connection.execute("GRANT CREATE ON SCHEMA public TO weak")
    weak = bare.replace("postgres:@", "weak:@")
    with pytest.raises(EngineError, match="has no extension vector"):
        engines.create(f"{weak}&table=mine&extension=vector", n_bits=400)


@pytest.mark.parametrize(
    ("module", "address"),
    [
        ("faiss", "faiss:x"),
        ("lance", "lance:x"),
        ("psycopg", "postgresql://h/d"),
        ("pymilvus", "milvus://h/c"),
    ],
)
def test_a_missing_package_is_named(monkeypatch, module, address):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(bilsh.BilshError, match=r"needs the package .* pip install 'bilsh\[\w+\]'"):
        bilsh.open(address)


def test_names_that_would_be_sql(postgres):
    """Tables and schemas go into statements as identifiers, whatever they are called."""
    from urllib.parse import quote

    import psycopg

    codes = near(5, 400)
    table, schema = 'x"; DROP TABLE victims; --', 'it\'s; "odd"'
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS victims (id int)")
        connection.execute(psycopg.sql.SQL("CREATE SCHEMA {}").format(psycopg.sql.Identifier(schema)))
    address = f"{postgres}&table={quote(table)}&schema={quote(schema)}"
    with engines.create(address, n_bits=400) as there:
        there.upsert(range(5), codes)
    with bilsh.open(address) as there:
        assert there.search(codes=codes[:1], k=1).ids.tolist() == [[0]]
    with psycopg.connect(postgres, autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM victims").fetchone() == (0,)
    for wrong in ("", "x" * 64, "a\0b"):
        with pytest.raises(bilsh.InvalidInputError, match="must be a name of"):
            bilsh.open(f"{postgres}&table={quote(wrong)}")
    with pytest.raises(bilsh.InvalidInputError, match="letters, digits and underscores"):
        bilsh.open("milvus://127.0.0.1:19530/x;drop")


def test_the_callers_connection_and_transaction(postgres):
    """Nothing is committed behind the caller's back, and his connection stays open."""
    import psycopg

    from bilsh.engines.postgres import create_collection, open_collection

    where = Address.of(f"{postgres}&table=shared")
    with psycopg.connect(postgres) as connection:
        made = create_collection(where, CodeSpec(coder_for(None, 400, None)), "int", connection=connection)
        made.upsert([1, 2], near(2, 400))
        made.close()
        connection.commit()
        found = open_collection(where, "a", connection=connection)
        found.upsert([3], near(1, 400))
        assert len(found) == 3
        connection.rollback()
        assert len(found) == 2
        assert not connection.closed


def test_addresses_that_name_nothing():
    with pytest.raises(bilsh.InvalidInputError, match="there is no engine 'redis'"):
        bilsh.open("redis://host")
    with pytest.raises(bilsh.InvalidInputError, match="names no place"):
        bilsh.open("lance:")
    with pytest.raises(bilsh.InvalidInputError, match="mode must be"):
        bilsh.open("x", mode="w")
    with pytest.raises(bilsh.InvalidInputError, match="ids must be"):
        engines.create("x", n_bits=8, ids="uuid")
    assert Address.of("postgresql://me:secret@host/db").shown == "postgresql://me:***@host/db"
