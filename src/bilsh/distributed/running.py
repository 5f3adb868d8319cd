"""Executors by their address, and how `bilsh encode` uses them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from bilsh.distributed.encoding import encode
from bilsh.errors import EngineError, InvalidInputError, optional
from bilsh.store import Store
from bilsh.store.recipe import Settings
from bilsh.types import Progress
from bilsh.workflows.ingest import Fill
from bilsh.workflows.sources import Source

SECONDS = 30


@contextmanager
def executor_for(workers: int | None, cluster: str | None) -> Iterator[Executor]:
    """Give processes of this machine, or a Dask cluster.

    Parameters
    ----------
    workers : int or None
        Number of processes.
    cluster : str or None
        ``dask://host:port``.
    """
    if cluster is None:
        # Fresh processes: a fork would take along threads and locks that are in use.
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            yield pool
        return
    scheme, _, host = cluster.partition("://")
    if scheme not in ("dask", "tcp", "tls") or not host:
        raise InvalidInputError(f"a cluster is called dask://host:8786; got {cluster!r}.")
    dask = optional("distributed", "A Dask cluster")
    address = f"{'tcp' if scheme == 'dask' else scheme}://{host}"
    try:
        client = dask.Client(address, timeout=SECONDS, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise EngineError(
            f"no Dask scheduler answers at {host} ({type(error).__name__}). Start one with `dask scheduler`, or check "
            "the address."
        ) from None
    with client, client.get_executor(pure=False) as executor:
        yield executor


def filling(executor: Executor) -> Fill:
    """Return what :func:`bilsh.workflows.ingest.encode` fills a store with."""

    def fill(
        data: Source, settings: Settings, store: Path, start: int, say: Progress
    ) -> tuple[tuple[str, str], ...]:
        with Store.open(store) as opened:
            coder = opened.coder
        return encode(data, coder, store, executor, settings=settings, start=start, progress=say).skipped

    return fill
