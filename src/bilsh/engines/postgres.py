"""PostgreSQL: a table of codes as ``bit(n)``, searched exactly; by pgvector's operator where the extension is there.

``bit(n)`` counts bits from the left and bilsh from the lowest bit of each byte, so the bits of each byte are reversed
on the way: bit r of a code is bit r of the column. Every name goes into statements as an identifier and every value as
a parameter; nothing a caller gives is ever read as SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from secrets import token_hex
from typing import Any, LiteralString

import numpy as np

from bilsh.codes import Codes
from bilsh.engines import ties
from bilsh.engines.addresses import Address
from bilsh.engines.base import Collection, Found, Ids, Mode, as_ids
from bilsh.engines.filters import Filter
from bilsh.engines.postgres_rows import HEADER, as_text, from_bits, packed
from bilsh.engines.postgres_server import Place, Server, failed
from bilsh.engines.spec import Capabilities, CodeSpec
from bilsh.errors import EngineError, InvalidInputError, optional
from bilsh.store.items import Items
from bilsh.store.manifest import IdKind

PURPOSE = "A collection in PostgreSQL"
MAX_BITS = 83_886_080
MAX_INDEXED = 64_000
"""Longest code that pgvector's indexes take."""


class PostgresCollection(Collection):
    """A table with the columns id, code and metadata, and beside it a small one with the specification.

    Each write is a transaction of its own, or part of the one that is open in a connection of the caller's.
    """

    def __init__(self, server: Server, spec: CodeSpec, kind: IdKind, mode: Mode) -> None:
        self._server, self.spec, self._kind, self._mode = server, spec, kind, mode
        self.address = server.place.shown
        self._sql = optional("psycopg", PURPOSE).sql
        self.capabilities = capabilities(server)

    # -- statements --------------------------------------------------------------------------------------

    def _statement(self, text: LiteralString, **parts: Any) -> Any:
        place = self._server.place
        bit = self._sql.SQL("bit({})").format(self._sql.Literal(self.spec.n_bits))
        return self._sql.SQL(text).format(
            table=self._sql.Identifier(place.schema, place.table),
            about=self._sql.Identifier(place.schema, place.about),
            bit=bit,
            **parts,
        )

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        """A cursor in a transaction; errors of the server as sentences."""
        connection = self._server.connection
        with failed(self._server.place), connection.transaction(), connection.cursor(binary=True) as cursor:
            yield cursor

    def _rows(self, text: LiteralString, values: Sequence[Any] = (), **parts: Any) -> list[Any]:
        with self._cursor() as cursor:
            cursor.execute(self._statement(text, **parts), values)
            return list(cursor.fetchall())

    def _passing(self, where: Filter | None) -> tuple[Any, list[Any]]:
        if where is None:
            return self._sql.SQL("true"), []
        if where.ids is not None:
            return self._sql.SQL("id = ANY(%s)"), [where.ids.tolist()]
        json = optional("psycopg.types.json", PURPOSE)
        return self._sql.SQL("metadata @> %s"), [json.Jsonb(where.values)]

    # -- rows --------------------------------------------------------------------------------------------

    def _write(self, ids: Ids, codes: Codes, notes: Sequence[bytes] | None) -> None:
        fresh = self._sql.Identifier(f"bilsh_{token_hex(8)}")
        with self._cursor() as cursor:
            cursor.execute(self._statement(
                "CREATE TEMPORARY TABLE {fresh} AS SELECT id, code, metadata FROM {table} WITH NO DATA", fresh=fresh
            ))  # fmt: skip
            with cursor.copy(self._statement("COPY {fresh} FROM STDIN (FORMAT binary)", fresh=fresh)) as copy:
                copy.write(HEADER)
                for piece in packed(ids, codes, notes, self.spec.n_bits):
                    copy.write(piece)
            cursor.execute(self._statement(
                "INSERT INTO {table} (id, code, metadata) SELECT id, code, metadata FROM {fresh} ON CONFLICT (id) "
                "DO UPDATE SET code = EXCLUDED.code, metadata = EXCLUDED.metadata", fresh=fresh
            ))  # fmt: skip
            cursor.execute(self._statement("DROP TABLE {fresh}", fresh=fresh))

    def _remove(self, ids: Ids) -> int:
        with self._cursor() as cursor:
            cursor.execute(self._statement("DELETE FROM {table} WHERE id = ANY(%s)"), [ids.tolist()])
            return int(cursor.rowcount)

    def _items(self, rows: list[Any]) -> Items:
        codes = from_bits([code for _, code, _ in rows], self.spec.n_bytes)
        return Items(as_ids([row[0] for row in rows], self._kind), codes, None, [row[2] for row in rows])

    def _fetch(self, ids: Ids) -> Items:
        return self._items(
            self._rows("SELECT id, code, metadata FROM {table} WHERE id = ANY(%s)", [ids.tolist()])
        )

    def _page(self, after: Any, size: int) -> Items:
        if after is None:
            return self._items(
                self._rows("SELECT id, code, metadata FROM {table} ORDER BY id LIMIT %s", [size])
            )
        return self._items(self._rows(
            "SELECT id, code, metadata FROM {table} WHERE id > %s ORDER BY id LIMIT %s", [after, size]
        ))  # fmt: skip

    def _count(self, where: Filter | None) -> int:
        passing, values = self._passing(where)
        return int(self._rows("SELECT count(*) FROM {table} WHERE {passing}", values, passing=passing)[0][0])

    def stored_bytes(self) -> int | None:
        """Bytes of the table with its indexes and long values."""
        name = self._statement("{table}").as_string(None)
        return int(self._rows("SELECT pg_total_relation_size(%s::regclass)", [name])[0][0])

    def _sample(self, rows: int) -> Codes:
        count = len(self)
        # Whole pages first, which reads little; single rows where pages are few.
        for method in ("SYSTEM", "BERNOULLI"):
            share = self._sql.Literal(min(100.0, 100.0 * rows / max(count, 1)))
            found = self._rows(
                "SELECT code FROM {table} TABLESAMPLE {method} ({share}) REPEATABLE (0) LIMIT %s",
                [rows], method=self._sql.SQL(method), share=share,
            )  # fmt: skip
            if len(found) >= min(rows, count) / 2:
                break
        return from_bits([code for (code,) in found], self.spec.n_bytes)

    # -- search ------------------------------------------------------------------------------------------

    @property
    def _distance(self) -> Any:
        distance = "code <~> %s::{bit}" if self._server.vector else "bit_count(code # %s::{bit})"
        return self._statement(distance)

    def _nearest(self, codes: Codes, k: int, where: Filter | None, most: int, exact: bool) -> list[Found]:
        passing, values = self._passing(where)
        found = []
        with self._cursor() as cursor:
            for text in as_text(codes, self.spec.n_bits):
                if exact:
                    # Ordered by an integer, which no index offers: this reads every code.
                    statement = self._statement(
                        "SELECT id, ({distance})::integer AS far FROM {table} WHERE {passing} "
                        "ORDER BY far, id LIMIT %s",
                        distance=self._distance, passing=passing,
                    )  # fmt: skip
                    cursor.execute(statement, [text, *values, k])
                else:
                    cursor.execute(
                        "SELECT set_config('hnsw.ef_search', %s, true)", [str(min(1000, max(40, 2 * k)))]
                    )
                    statement = self._statement(
                        "SELECT id, ({distance})::integer FROM {table} WHERE {passing} ORDER BY {distance} LIMIT %s",
                        distance=self._distance, passing=passing,
                    )  # fmt: skip
                    cursor.execute(statement, [text, *values, text, k])
                found.append(self._hits(cursor.fetchall()))
        return found

    def _within(self, codes: Codes, radius: int, where: Filter | None, most: int) -> list[Found]:
        passing, values = self._passing(where)
        statement = self._statement(
            "SELECT id, far FROM (SELECT id, ({distance})::integer AS far FROM {table} WHERE {passing}) AS seen "
            "WHERE far <= %s",
            distance=self._distance, passing=passing,
        )  # fmt: skip
        found = []
        with self._cursor() as cursor:
            for text in as_text(codes, self.spec.n_bits):
                cursor.execute(statement, [text, *values, radius])
                found.append(self._hits(cursor.fetchall()))
        return found

    def _hits(self, rows: list[Any]) -> Found:
        far = np.array([row[1] for row in rows], dtype=np.int32)
        return ties.sorted_hits(as_ids([row[0] for row in rows], self._kind), far)

    def build_index(self, *, m: int = 16, ef_construction: int = 64, **params: Any) -> None:
        """Build pgvector's HNSW index.

        Parameters
        ----------
        m, ef_construction : int
            As in pgvector.
        """
        self._refuse_reading()
        if not self._server.vector:
            return super().build_index()
        if params:
            raise InvalidInputError(
                f"an HNSW index of pgvector has m and ef_construction; got {', '.join(params)}."
            )
        if self.spec.n_bits > MAX_INDEXED:
            raise InvalidInputError(
                f"pgvector indexes codes of at most {MAX_INDEXED:,} bits; these have {self.spec.n_bits:,}."
            )
        with self._cursor() as cursor:
            cursor.execute(self._statement(
                "CREATE INDEX ON {table} USING hnsw (code bit_hamming_ops) WITH (m = {m}, ef_construction = {ef})",
                m=self._sql.Literal(int(m)), ef=self._sql.Literal(int(ef_construction)),
            ))  # fmt: skip
        return None

    # -- the rest ----------------------------------------------------------------------------------------

    def remembered(self, name: str) -> Any:
        """Return what was remembered."""
        rows = self._rows("SELECT value FROM {about} WHERE name = %s", [f"note {name}"])
        return rows[0][0] if rows else None

    def remember(self, name: str, value: Any) -> None:
        """Keep a small value in the table beside the codes."""
        json = optional("psycopg.types.json", PURPOSE)
        with self._cursor() as cursor:
            if value is None:
                cursor.execute(self._statement("DELETE FROM {about} WHERE name = %s"), [f"note {name}"])
                return
            cursor.execute(self._statement(
                "INSERT INTO {about} (name, value) VALUES (%s, %s) "
                "ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value"
            ), [f"note {name}", json.Jsonb(value)])  # fmt: skip

    def flush(self) -> None:
        """Do nothing: each write was a transaction. In a transaction of the caller's, the caller commits."""

    def close(self) -> None:
        """Close the connection, unless it is the caller's."""
        self._server.close()


def capabilities(server: Server) -> Capabilities:
    """What this server can do."""
    name = f"PostgreSQL with pgvector {server.vector}" if server.vector else "PostgreSQL"
    return Capabilities(
        name, server.version, max_bits=MAX_BITS, max_indexed_bits=MAX_INDEXED if server.vector else 0,
        bit_multiple=1, approximate=bool(server.vector), filter=True,
    )  # fmt: skip


def create_collection(
    address: Address, spec: CodeSpec, kind: IdKind, connection: Any = None
) -> PostgresCollection:
    """Make the two tables, in one transaction."""
    server = Server.at(Place.of(address), connection)
    try:
        server.ask_extension()
        capabilities(server).check(spec)
        made = PostgresCollection(server, spec, kind, "a")
        psycopg = optional("psycopg", PURPOSE)
        column = made._sql.SQL('text COLLATE "C"' if kind == "str" else "bigint")
        try:
            with made._cursor() as cursor:
                cursor.execute(made._statement(
                    "CREATE TABLE {table} (id {column} PRIMARY KEY, code {bit} NOT NULL, metadata jsonb)", column=column
                ))  # fmt: skip
                # Random bits do not compress: trying costs time and gains nothing.
                cursor.execute(made._statement("ALTER TABLE {table} ALTER COLUMN code SET STORAGE EXTERNAL"))
                cursor.execute(made._statement(
                    "CREATE TABLE {about} (name text PRIMARY KEY, value jsonb, data bytea)"
                ))  # fmt: skip
                cursor.execute(
                    made._statement("INSERT INTO {about} (name, data) VALUES ('spec', %s)"), [spec.to_bytes()]
                )
        except EngineError as error:
            if isinstance(error.__cause__, psycopg.errors.DuplicateTable):
                raise FileExistsError(
                    f"{server.place.shown} exists already. Open it with bilsh.open, or choose another table."
                ) from None
            raise
    except BaseException:
        server.close()
        raise
    return made


def open_collection(address: Address, mode: Mode, connection: Any = None) -> PostgresCollection:
    """Read the specification, and the kind of the ids."""
    place = Place.of(address)
    server = Server.at(place, connection)
    try:
        spec = CodeSpec.from_bytes(server.specification(), place.shown)
        found = PostgresCollection(server, spec, server.id_kind(), mode)
    except BaseException:
        server.close()
        raise
    return found
