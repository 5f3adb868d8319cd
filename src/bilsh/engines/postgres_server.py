"""The way to a PostgreSQL server: its address, its connection, its version, and its errors as sentences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from bilsh.engines.addresses import Address
from bilsh.errors import DataNotFoundError, EngineError, InvalidInputError, optional
from bilsh.store.manifest import IdKind

PURPOSE = "A collection in PostgreSQL"
OLDEST = 14
OLDEST_VECTOR = (0, 7)
EXTENSIONS = ("auto", "vector", "none")
MAX_NAME = 63


@dataclass(frozen=True, slots=True)
class Place:
    """A table of a server.

    Attributes
    ----------
    url : str
        What the client library connects to.
    shown : str
        The address without its password.
    server : str
        Host and port.
    schema, table : str
    extension : {"auto", "vector", "none"}
        Whether pgvector is used: where it is installed, certainly, or not.
    """

    url: str
    shown: str
    server: str
    schema: str
    table: str
    extension: str

    @property
    def about(self) -> str:
        """Name of the table that holds the specification."""
        return f"{self.table}_bilsh"

    @classmethod
    def of(cls, address: Address) -> Place:
        """Take an address apart: ``table``, ``schema`` and ``extension`` are ours, all else is the client's."""
        parts = urlsplit(address.rest)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        table, schema = options.pop("table", "codes"), options.pop("schema", "public")
        extension = options.pop("extension", "auto")
        for what, name, most in (("table", table, MAX_NAME - len("_bilsh")), ("schema", schema, MAX_NAME)):
            if not name or "\0" in name or len(name.encode()) > most:
                raise InvalidInputError(
                    f"{what} must be a name of 1 to {most} bytes (PostgreSQL cuts longer ones); got {name!r}."
                )
        if extension not in EXTENSIONS:
            raise InvalidInputError(f"extension must be one of {', '.join(EXTENSIONS)}; got {extension!r}.")
        host = parts.netloc.rpartition("@")[2] or options.get("host", "the local socket")
        url = urlunsplit(parts._replace(query=urlencode(options)))
        return cls(url, address.shown, host, schema, table, extension)


@contextmanager
def failed(place: Place) -> Iterator[None]:
    """Turn errors of the client into one sentence each."""
    psycopg = optional("psycopg", PURPOSE)
    try:
        yield
    except psycopg.Error as error:
        raise EngineError(_sentence(psycopg, error, place)) from error


def _sentence(psycopg: Any, error: Any, place: Place) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    text = lines[0]
    if isinstance(error, psycopg.errors.UndefinedTable):
        return f"there is no collection at {place.shown} any more: {text}."
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return f"PostgreSQL at {place.server} does not allow that to this user: {text}."
    if isinstance(error, psycopg.errors.DiskFull):
        return f"the disk of PostgreSQL at {place.server} is full; nothing of this batch was written."
    whole = " ".join(lines)
    if "password" in whole or "authentication" in whole:
        return f"PostgreSQL at {place.server} refuses this user: wrong password or unknown user. Check the address."
    if "does not exist" in whole and "database" in whole:
        return f"PostgreSQL at {place.server} has no such database. Create it, or check the address."
    if isinstance(error, psycopg.OperationalError):
        return (
            f"no PostgreSQL answers at {place.server}, or it went away ({lines[-1][:200]}). Start it, or check the "
            "address; what was committed is safe."
        )
    return f"PostgreSQL at {place.server} refused: {text}."


class Server:
    """A connection, our own or the caller's, to a server that is new enough."""

    def __init__(self, place: Place, connection: Any, own: bool) -> None:
        self.place, self.connection, self._own = place, connection, own
        number = connection.info.server_version
        self.version = f"{number // 10000}.{number % 10000}"
        if number // 10000 < OLDEST:
            raise EngineError(
                f"the server at {place.server} is PostgreSQL {self.version}; {OLDEST} or later is needed, which can "
                "count bits."
            )
        self.vector = None if place.extension == "none" else self._installed()

    @classmethod
    def at(cls, place: Place, connection: Any) -> Server:
        """Connect, unless the caller has."""
        psycopg = optional("psycopg", PURPOSE)
        if connection is not None:
            return cls(place, connection, own=False)
        with failed(place):
            made = psycopg.connect(place.url, autocommit=True, connect_timeout=10)
        try:
            return cls(place, made, own=True)
        except BaseException:
            made.close()
            raise

    def _installed(self) -> str | None:
        """Version of pgvector in this database, None without it."""
        with failed(self.place):
            row = self.connection.execute(
                "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
            ).fetchone()
        if row is None:
            return None
        if tuple(int(part) for part in row[0].split(".")[:2]) < OLDEST_VECTOR:
            if self.place.extension == "vector":
                raise EngineError(
                    f"the server at {self.place.server} has pgvector {row[0]}; 0.7 or later is needed, which can "
                    "compare bits. Update it, or use ?extension=none."
                )
            return None
        return str(row[0])

    def ask_extension(self) -> None:
        """Where the address asks for pgvector, see to it that it is there."""
        if self.place.extension != "vector" or self.vector:
            return
        try:
            with failed(self.place), self.connection.transaction():
                self.connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except EngineError as error:
            raise EngineError(
                f"the server at {self.place.server} has no extension vector (pgvector) that can be made ({error}). "
                "Install it, or use ?extension=none, which needs none."
            ) from None
        self.vector = self._installed()

    def specification(self) -> bytes:
        """What the codes are, from the table beside them."""
        psycopg, place = optional("psycopg", PURPOSE), self.place
        name = psycopg.sql.Identifier(place.schema, place.about)
        try:
            with failed(place), self.connection.transaction():
                row = self.connection.execute(
                    psycopg.sql.SQL("SELECT data FROM {} WHERE name = 'spec'").format(name)
                ).fetchone()
        except EngineError as error:
            if isinstance(error.__cause__, psycopg.errors.UndefinedTable):
                raise DataNotFoundError(
                    f"there is no collection {place.schema}.{place.table} at {place.server}. "
                    "Make one with `bilsh copy`."
                ) from None
            raise
        if row is None:
            raise EngineError(f"{place.about} at {place.server} lacks the specification of the codes.")
        if place.extension == "vector" and not self.vector:
            raise EngineError(
                f"the database at {place.server} has no extension vector (pgvector). Make it with "
                "CREATE EXTENSION vector, or use ?extension=none."
            )
        return bytes(row[0])

    def id_kind(self) -> IdKind:
        """Whether ids are integers or strings, by the column's type."""
        with failed(self.place):
            row = self.connection.execute(
                "SELECT data_type FROM information_schema.columns "
                "WHERE table_schema = %s AND table_name = %s AND column_name = 'id'",
                [self.place.schema, self.place.table],
            ).fetchone()
        return "int" if row is not None and row[0] == "bigint" else "str"

    def close(self) -> None:
        """Close a connection of our own."""
        if self._own:
            self.connection.close()
