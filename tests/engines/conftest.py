"""Real engines for the tests: in process, or servers that are started here from packages.

`make test-engines` installs and starts them all and sets BILSH_ENGINES; without it servers are left out, and a package
that is missing skips its engine.
"""

import pytest
from engine_servers import NEEDS, milvus_server, postgres_folder, postgres_server, require


@pytest.fixture(scope="session")
def postgres():
    """URL of a PostgreSQL server that has pgvector to offer."""
    require("postgres")
    with postgres_folder() as folder, postgres_server(folder) as url:
        yield url


@pytest.fixture(scope="session")
def milvus(tmp_path_factory):
    """URL of a Milvus server."""
    require("milvus")
    with milvus_server(tmp_path_factory.mktemp("milvus")) as url:
        yield url


@pytest.fixture(params=list(NEEDS))
def engine(request):
    require(request.param)
    return request.param


@pytest.fixture
def place(engine, request, tmp_path):
    """Addresses of an engine by a name."""
    unique = f"t{abs(hash(request.node.nodeid)) % 10**12}"
    if engine == "store":
        return lambda name="a": str(tmp_path / name)
    if engine in ("faiss", "lance"):
        return lambda name="a": f"{engine}:{tmp_path / name}"
    if engine == "milvus":
        url = request.getfixturevalue("milvus")
        return lambda name="a": f"{url}/{unique}_{name}"
    url = request.getfixturevalue("postgres")
    extension = "vector" if engine == "pgvector" else "none"
    return lambda name="a": f"{url}&table={unique}_{name}&extension={extension}"
