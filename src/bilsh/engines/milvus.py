"""Milvus: a distributed server; codes are binary vectors, searched exactly by a flat index.

Milvus does not order ties by itself: they are completed here. One collection of each server, ``bilsh_about``, holds for
all others what their codes are, in pieces, and what copies remember.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from bilsh.codes import Codes
from bilsh.engines import ties
from bilsh.engines.addresses import Address
from bilsh.engines.base import Found, Ids, Mode, Unordered, as_ids, parsed
from bilsh.engines.filters import Filter
from bilsh.engines.milvus_server import Place, connected, failed, released
from bilsh.engines.spec import Capabilities, CodeSpec
from bilsh.errors import DataNotFoundError, EngineError, InvalidInputError
from bilsh.store.ids import MAX_KEY_BYTES
from bilsh.store.items import Items
from bilsh.store.manifest import IdKind

MAX_BITS = 32_768
MAX_HITS = 16_384
"""Most rows that Milvus gives in one answer."""

SECONDS = 60
"""How long the client tries again before it gives up on a server; a whole number, or pymilvus does not heed it."""

BATCH = 256 << 10
"""Bytes of codes in one write: the client's time grows with the square of it."""

LISTED = 1000
PIECE = 45_000
"""Bytes of a specification in one row, whose text may have 65,535 characters."""

TEXT = 65_535
ABOUT = "bilsh_about"
MAX_NAME = 2048
"""Longest key of a row of it."""


class MilvusCollection(Unordered):
    """A collection with the fields id, code, metadata (JSON, for filters) and note (the metadata's text)."""

    def __init__(
        self, place: Place, client: Any, spec: CodeSpec, kind: IdKind, version: str, mode: Mode
    ) -> None:
        self._place, self._client = place, client
        self.address, self.spec, self._kind, self._mode = place.shown, spec, kind, mode
        self.capabilities = capabilities(version)
        self._dirty = self._closed = False

    # -- rows --------------------------------------------------------------------------------------------

    def _write(self, ids: Ids, codes: Codes, notes: Sequence[bytes] | None) -> None:
        rows = []
        for row, item in enumerate(ids.tolist()):
            note = notes[row].decode() if notes is not None else ""
            value = parsed(note)
            json_value = value if isinstance(value, dict) else {}
            rows.append({"id": item, "code": codes[row].tobytes(), "metadata": json_value, "note": note})
        self._dirty = True
        with failed(self._place):
            self._client.upsert(self._place.name, rows, timeout=SECONDS)

    def _remove(self, ids: Ids) -> int:
        count = 0
        for chosen in _lists(ids):
            there = [row["id"] for row in self._query(chosen, ["id"])]
            count += len(there)
            if there:
                self._dirty = True
                with failed(self._place):
                    self._client.delete(self._place.name, filter=one_of(there), timeout=SECONDS)
        return count

    def _query(self, expression: str, fields: list[str], level: str = "Strong", **more: Any) -> list[Any]:
        with failed(self._place):
            found = self._client.query(
                self._place.name,
                filter=expression,
                output_fields=fields,
                consistency_level=level,
                timeout=SECONDS,
                **more,
            )
        return list(found)

    def _items(self, rows: list[Any]) -> Items:
        if not rows:
            return self._nothing()
        codes = np.frombuffer(b"".join(_bytes(row["code"]) for row in rows), np.uint8)
        return Items(
            as_ids([row["id"] for row in rows], self._kind),
            codes.reshape(len(rows), self.spec.n_bytes),
            None,
            [parsed(row["note"]) for row in rows],
        )

    def _fetch(self, ids: Ids) -> Items:
        rows: list[Any] = []
        fields = ["id", "code", "note"]
        for chosen in _lists(ids):
            # What this client has seen is there without waiting for the rest of the world; if not, wait.
            found = self._query(chosen, fields, "Session")
            rows += found if len(found) == min(LISTED, len(ids) - len(rows)) else self._query(chosen, fields)
        return self._items(rows)

    def _page(self, after: Any, size: int) -> Items:
        # All of them: the least integer cannot be written in an expression.
        first = 'id >= ""' if self._kind == "str" else "id > -1 or id <= -1"
        beyond = first if after is None else f"id > {literal(after)}"
        ids = as_ids([row["id"] for row in self._ordered(beyond, size)], self._kind)
        page = self._fetch(ids) if len(ids) else self._nothing()
        order = np.argsort(page.ids, kind="stable")
        return Items(page.ids[order], page.codes[order], None, [page.metadata[row] for row in order])

    def _ordered(self, beyond: str, size: int) -> list[Any]:
        """Ids of one page, ascending."""
        rows = self._query(beyond, ["id"], limit=min(size, MAX_HITS))
        return sorted(rows, key=lambda row: row["id"])

    def _count(self, where: Filter | None) -> int:
        if where is not None and where.ids is not None:
            return sum(self._counted(chosen) for chosen in _lists(where.ids))
        return self._counted("" if where is None else matching(where))

    def _counted(self, expression: str) -> int:
        return int(self._query(expression, ["count(*)"])[0]["count(*)"])

    def _sample(self, rows: int) -> Codes:
        count = len(self)
        if self._kind == "int" and count > rows:
            found = self._query(f"id % {count // rows} == 0", ["code"], limit=rows)
            if len(found) >= rows // 4:
                return np.frombuffer(b"".join(_bytes(row["code"]) for row in found), np.uint8).reshape(
                    len(found), self.spec.n_bytes
                )
        return self._page(None, rows).codes

    # -- search ------------------------------------------------------------------------------------------

    def _lists(self, where: Filter | None) -> ties.Fetch:
        expression = "" if where is None else matching(where)

        def fetch(codes: Codes, count: int) -> list[Found]:
            if count > MAX_HITS:
                raise EngineError(
                    f"Milvus gives at most {MAX_HITS:,} rows in one answer; these ties or this radius hold more. "
                    "Ask for fewer."
                )
            with failed(self._place):
                lists = self._client.search(
                    self._place.name, data=[code.tobytes() for code in codes], anns_field="code", limit=count,
                    filter=expression, search_params={"metric_type": "HAMMING", "params": {}},
                    consistency_level="Strong", timeout=SECONDS,
                )  # fmt: skip
            return [
                (
                    as_ids([hit["id"] for hit in hits], self._kind),
                    np.array([round(hit["distance"]) for hit in hits], dtype=np.int32),
                )
                for hits in lists
            ]

        return fetch

    # -- the rest ----------------------------------------------------------------------------------------

    def remembered(self, name: str) -> Any:
        """Return what was remembered."""
        key = self._place.key(f"note {name}")
        texts = read_texts(self._place, self._client, f"name == {literal(key)}")
        return json.loads(texts[0]) if texts else None

    def remember(self, name: str, value: Any) -> None:
        """Keep a small value in the collection beside the codes."""
        key = self._place.key(f"note {name}")
        with failed(self._place):
            if value is None:
                self._client.delete(ABOUT, filter=f"name == {literal(key)}", timeout=SECONDS)
            else:
                self._client.upsert(ABOUT, [_text_row(key, json.dumps(value))], timeout=SECONDS)

    def flush(self) -> None:
        """Return when the server has sealed what was written."""
        if self._dirty:
            with failed(self._place):
                self._client.flush(self._place.name, timeout=SECONDS)
            self._dirty = False

    def close(self) -> None:
        """Close the connection."""
        if not self._closed:
            self._closed = True
            released(self._place)


def capabilities(version: str) -> Capabilities:
    """What Milvus can do; the flat index is the only one for binary vectors that is exact."""
    return Capabilities(
        "Milvus", version, max_bits=MAX_BITS, ties_by_id=False, radius=False, filter=True, atomic_batch=False,
        max_batch_bytes=BATCH,
    )  # fmt: skip


def literal(item: Any) -> str:
    """Spell a value in an expression: JSON's strings are Milvus' too."""
    return json.dumps(item, ensure_ascii=False)


def one_of(ids: Sequence[Any]) -> str:
    """Return the expression that ids are among these."""
    return f"id in [{', '.join(map(literal, ids))}]"


def matching(where: Filter) -> str:
    """Return the expression of a filter."""
    if where.ids is not None:
        return one_of(where.ids.tolist())
    return " and ".join(
        f"metadata[{literal(key)}] == {literal(value)}" for key, value in (where.values or {}).items()
    )


def _lists(ids: Ids) -> Iterator[str]:
    for start in range(0, len(ids), LISTED):
        yield one_of(ids[start : start + LISTED].tolist())


def _bytes(value: Any) -> bytes:
    return value[0] if isinstance(value, list) else bytes(value)


def _text_row(name: str, text: str) -> dict[str, Any]:
    if len(text) > TEXT or len(name.encode()) > MAX_NAME:
        raise InvalidInputError(
            f"what is remembered must have at most {TEXT:,} characters of JSON, its name {MAX_NAME - 300:,} bytes."
        )
    return {"name": name, "text": text, "unused": b"\0"}


def pieces(place: Place) -> str:
    """Return the expression for all pieces of a specification."""
    return f"name >= {literal(place.key('spec 0'))} and name < {literal(place.key('spec :'))}"


def read_texts(place: Place, client: Any, expression: str) -> list[str]:
    """Texts of the collection beside the codes, in the order of their names."""
    with failed(place):
        rows = client.query(
            ABOUT, filter=expression, output_fields=["name", "text"], consistency_level="Strong",
            limit=MAX_HITS, timeout=SECONDS,
        )  # fmt: skip
    return [row["text"] for row in sorted(rows, key=lambda row: str(row["name"]))]


@contextmanager
def _undone(place: Place) -> Iterator[None]:
    try:
        yield
    except BaseException:
        released(place)
        raise


def create_collection(address: Address, spec: CodeSpec, kind: IdKind) -> MilvusCollection:
    """Make the two collections; the specification is written last."""
    place = Place.of(address)
    pymilvus, client, version = connected(place)
    with _undone(place):
        capabilities(version).check(spec)
        with failed(place):
            if client.has_collection(place.name, timeout=SECONDS):
                raise FileExistsError(
                    f"{place.shown} exists already. Open it with bilsh.open, or choose another name."
                )
            kinds = pymilvus.DataType
            fields = client.create_schema(auto_id=False)
            if kind == "str":
                fields.add_field("id", kinds.VARCHAR, is_primary=True, max_length=MAX_KEY_BYTES)
            else:
                fields.add_field("id", kinds.INT64, is_primary=True)
            fields.add_field("code", kinds.BINARY_VECTOR, dim=8 * spec.n_bytes)
            fields.add_field("metadata", kinds.JSON)
            fields.add_field("note", kinds.VARCHAR, max_length=TEXT)
            if client.has_collection(ABOUT, timeout=SECONDS):
                _load(client, ABOUT, "unused")
            else:
                about = client.create_schema(auto_id=False)
                about.add_field("name", kinds.VARCHAR, is_primary=True, max_length=MAX_NAME)
                about.add_field("text", kinds.VARCHAR, max_length=TEXT)
                about.add_field("unused", kinds.BINARY_VECTOR, dim=8)
                _make(client, ABOUT, about, "unused")
            # What a collection of this name left behind is not part of this one.
            client.delete(
                ABOUT,
                filter=f"name >= {literal(place.key(''))} and name < {literal(place.key('~'))}",
                timeout=SECONDS,
            )
            data = base64.b64encode(spec.to_bytes()).decode()
            for number, start in enumerate(range(0, len(data), PIECE)):
                row = _text_row(place.key(f"spec {number:08d}"), data[start : start + PIECE])
                client.upsert(ABOUT, [row], timeout=SECONDS)
            # The codes last: where their collection is, it is known what they are.
            _make(client, place.name, fields, "code")
    return MilvusCollection(place, client, spec, kind, version, "a")


def _make(client: Any, name: str, fields: Any, vector: str) -> None:
    client.create_collection(
        name, schema=fields, index_params=_flat(client, vector), consistency_level="Strong"
    )


def _flat(client: Any, vector: str) -> Any:
    index = client.prepare_index_params()
    index.add_index(field_name=vector, index_type="BIN_FLAT", metric_type="HAMMING", params={})
    return index


def _load(client: Any, name: str, vector: str) -> None:
    """Bring a collection into memory; one whose creation was cut off gets its index first."""
    if not client.list_indexes(name, timeout=SECONDS):
        client.create_index(name, _flat(client, vector))
    client.load_collection(name)


def open_collection(address: Address, mode: Mode) -> MilvusCollection:
    """Read the specification, and load the codes into the server's memory."""
    place = Place.of(address)
    pymilvus, client, version = connected(place)
    with _undone(place), failed(place):
        if not all(client.has_collection(name, timeout=SECONDS) for name in (place.name, ABOUT)):
            raise DataNotFoundError(
                f"there is no collection {place.name} of bilsh at {place.server}. Make one with `bilsh copy`."
            )
        _load(client, ABOUT, "unused")
        _load(client, place.name, "code")
        data = "".join(read_texts(place, client, pieces(place)))
        if not data:
            raise EngineError(f"{ABOUT} at {place.server} does not say what the codes of {place.name} are.")
        spec = CodeSpec.from_bytes(base64.b64decode(data), place.shown)
        fields = {field["name"]: field for field in client.describe_collection(place.name)["fields"]}
        kind: IdKind = "str" if fields["id"]["type"] == pymilvus.DataType.VARCHAR else "int"
    return MilvusCollection(place, client, spec, kind, version, mode)
