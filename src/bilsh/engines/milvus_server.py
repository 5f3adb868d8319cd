"""The way to a Milvus server: its address, its version, and its errors as sentences."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from bilsh.engines.addresses import Address
from bilsh.errors import EngineError, InvalidInputError, optional

PURPOSE = "A collection in Milvus"
OLDEST = (2, 3)
PORT = 19530
SECONDS = 10


@dataclass(frozen=True, slots=True)
class Place:
    """A collection of a server.

    Attributes
    ----------
    uri, token : str
        What the client library connects to.
    shown : str
        The address without its password.
    server : str
        Host and port.
    name : str
        Of the collection.
    """

    uri: str
    token: str
    shown: str
    server: str
    name: str

    def key(self, name: str) -> str:
        """Key of something that belongs to this collection."""
        return f"{self.name} {name}"

    @classmethod
    def of(cls, address: Address) -> Place:
        """Take an address apart."""
        parts = urlsplit(address.rest)
        name = parts.path.strip("/") or "codes"
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,240}", name):
            raise InvalidInputError(
                f"a collection of Milvus is called by letters, digits and underscores; got {name!r}."
            )
        host, port = parts.hostname or "localhost", parts.port or PORT
        token = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
        return cls(f"http://{host}:{port}", token, address.shown, f"{host}:{port}", name)


@contextmanager
def failed(place: Place) -> Iterator[None]:
    """Turn errors of the client into one sentence each."""
    pymilvus = optional("pymilvus", PURPOSE)
    try:
        yield
    except pymilvus.MilvusException as error:
        raise EngineError(_sentence(str(error.message or error), place)) from error


def _sentence(text: str, place: Place) -> str:
    short = " ".join(text.split())[:300]
    if "auth" in text and ("fail" in text or "check" in text or "missing" in text):
        return (
            f"Milvus at {place.server} refuses this user: wrong password or unknown user. Check the address."
        )
    if any(word in text.lower() for word in ("connect", "unavailable", "deadline", "timeout")):
        return (
            f"no Milvus answers at {place.server}, or it went away. Start it, or check the address; what was flushed "
            "is safe."
        )
    return f"Milvus at {place.server} refused: {short}."


_CLIENTS: dict[tuple[str, str], list[Any]] = {}
"""Clients and how often each is in use: the library shares one connection between all clients of an address, and
closing one closes it for all."""


def connected(place: Place) -> tuple[Any, Any, str]:
    """The client library, a client that is connected, and the server's version; see :func:`released`."""
    pymilvus = optional("pymilvus", PURPOSE)
    # What it logs on its own is said once more by the error that it raises.
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] == "pymilvus":
            logging.getLogger(name).setLevel(logging.CRITICAL)
    with failed(place):
        shared = _CLIENTS.get((place.uri, place.token))
        client = (
            shared[0] if shared else pymilvus.MilvusClient(uri=place.uri, token=place.token, timeout=SECONDS)
        )
        version = str(client.get_server_version(timeout=SECONDS)).removeprefix("v")
    _CLIENTS.setdefault((place.uri, place.token), [client, 0])[1] += 1
    try:
        check_version(version, place.server)
    except EngineError:
        released(place)
        raise
    return pymilvus, client, version


def released(place: Place) -> None:
    """Give a client back; the last one closes it."""
    shared = _CLIENTS.get((place.uri, place.token))
    if shared is not None:
        shared[1] -= 1
        if not shared[1]:
            del _CLIENTS[place.uri, place.token]
            shared[0].close()


def check_version(version: str, server: str) -> None:
    """Refuse servers that are too old."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST:
        raise EngineError(
            f"the server at {server} is Milvus {version}; {'.'.join(map(str, OLDEST))} or later is needed, which can "
            "replace rows."
        )
