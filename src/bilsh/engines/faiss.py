"""FAISS: codes in the memory of one process, exact, and in one file.

The file is a FAISS binary index that FAISS alone can read, with a tail behind it that FAISS does not look at: the
encoder, names, metadata, and a SHA-256 of everything. It is replaced whole by :meth:`FaissCollection.flush`.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bilsh.codes import Codes
from bilsh.engines.addresses import Address
from bilsh.engines.base import Collection, Found, Ids, Mode, as_ids, parsed
from bilsh.engines.filters import Filter
from bilsh.engines.spec import Capabilities, CodeSpec
from bilsh.errors import CorruptStoreError, DataNotFoundError, InvalidInputError, optional
from bilsh.files import replace_file
from bilsh.store.items import Items
from bilsh.store.manifest import IdKind

MAGIC = b"bilshFX1"
TAIL = struct.Struct("<QQ32s8s")
PURPOSE = "A FAISS collection"


class FaissCollection(Collection):
    """Codes in memory, ordered by id, in an IndexBinaryFlat; changes reach the file by :meth:`flush`."""

    def __init__(self, path: Path, spec: CodeSpec, kind: IdKind, mode: Mode) -> None:
        self._faiss = optional("faiss", PURPOSE)
        self.address, self.spec, self._kind, self._mode = f"faiss:{path}", spec, kind, mode
        self.capabilities = Capabilities("FAISS", str(self._faiss.__version__))
        self._path = path
        self._ids: Ids = as_ids([], kind)
        self._notes: list[bytes] = []
        self._index = self._faiss.IndexBinaryFlat(8 * spec.n_bytes)
        self._memory: dict[str, Any] = {}
        self._waiting: list[tuple[Ids, Codes, Sequence[bytes]]] = []

    # -- rows --------------------------------------------------------------------------------------------

    @property
    def _codes(self) -> Codes:
        """Codes of the index, where they lie."""
        count = self._index.ntotal
        if not count:
            return np.empty((0, self.spec.n_bytes), dtype=np.uint8)
        flat = self._faiss.rev_swig_ptr(self._index.xb.data(), count * self.spec.n_bytes)
        return np.asarray(flat).reshape(count, self.spec.n_bytes)

    def _write(self, ids: Ids, codes: Codes, notes: Sequence[bytes] | None) -> None:
        self._waiting.append((ids, codes.copy(), notes or [b""] * len(ids)))

    def _settle(self) -> None:
        """Bring what was written into the order of ids."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        ids = np.concatenate([part[0] for part in waiting])
        codes = np.concatenate([part[1] for part in waiting])
        notes = [note for part in waiting for note in part[2]]
        order = np.argsort(ids, kind="stable")
        # Of an id written twice the last counts.
        last = np.append(ids[order][1:] != ids[order][:-1], True)
        order = order[last]
        ids, codes, notes = ids[order], codes[order], [notes[i] for i in order]
        if len(self._ids) and ids[0] <= self._ids[-1]:
            kept = ~np.isin(self._ids, ids)
            old = [note for note, keep in zip(self._notes, kept, strict=True) if keep]
            both = np.concatenate([self._ids[kept], ids])
            order = np.argsort(both, kind="stable")
            self._reset(both[order], np.concatenate([self._codes[kept], codes])[order])
            whole = old + notes
            self._notes = [whole[i] for i in order]
            return
        self._index.add(np.ascontiguousarray(codes))
        self._ids = np.concatenate([self._ids, ids])
        self._notes += notes

    def _reset(self, ids: Ids, codes: Codes) -> None:
        index = self._faiss.IndexBinaryFlat(8 * self.spec.n_bytes)
        if len(codes):
            index.add(np.ascontiguousarray(codes))
        self._ids, self._index = ids, index

    def _rows(self, ids: Ids) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Rows of those ids that are there."""
        self._settle()
        if not len(self._ids):
            return np.empty(0, dtype=np.int64)
        at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        return np.asarray(at[self._ids[at] == ids], dtype=np.int64)

    def _remove(self, ids: Ids) -> int:
        rows = self._rows(ids)
        keep = np.ones(len(self._ids), dtype=np.bool_)
        keep[rows] = False
        self._notes = [note for note, kept in zip(self._notes, keep, strict=True) if kept]
        self._reset(self._ids[keep], self._codes[keep])
        return len(rows)

    def _at(self, rows: Any) -> Items:
        return Items(self._ids[rows], self._codes[rows], None, [parsed(self._notes[row]) for row in rows])

    def _fetch(self, ids: Ids) -> Items:
        return self._at(self._rows(ids))

    def _page(self, after: Any, size: int) -> Items:
        self._settle()
        start = 0 if after is None else int(np.searchsorted(self._ids, after, side="right"))
        return self._at(np.arange(start, min(start + size, len(self._ids))))

    def _count(self, where: Filter | None) -> int:
        self._settle()
        return len(self._ids) if where is None or where.ids is None else len(self._rows(where.ids))

    def _sample(self, rows: int) -> Codes:
        self._settle()
        chosen = np.linspace(0, len(self._ids) - 1, min(rows, len(self._ids))).astype(np.int64)
        return self._codes[chosen]

    # -- search ------------------------------------------------------------------------------------------

    def _searched(self, where: Filter | None) -> tuple[Any, Ids]:
        """An index of the rows that count, and their ids."""
        self._settle()
        if where is None or where.ids is None:
            return self._index, self._ids
        rows = self._rows(where.ids)
        index = self._faiss.IndexBinaryFlat(8 * self.spec.n_bytes)
        if len(rows):
            index.add(self._codes[rows])
        return index, self._ids[rows]

    def _nearest(self, codes: Codes, k: int, where: Filter | None, most: int, exact: bool) -> list[Found]:
        index, ids = self._searched(where)
        count = min(k, index.ntotal)
        if not count:
            return [(ids[:0], np.empty(0, np.int32)) for _ in codes]
        distances, rows = index.search(np.ascontiguousarray(codes), count)
        return [(ids[row], far) for row, far in zip(rows, distances, strict=True)]

    def _within(self, codes: Codes, radius: int, where: Filter | None, most: int) -> list[Found]:
        index, ids = self._searched(where)
        if not index.ntotal:
            return [(ids[:0], np.empty(0, np.int32)) for _ in codes]
        # FAISS finds what is nearer than its radius.
        ends, distances, rows = index.range_search(np.ascontiguousarray(codes), radius + 1)
        found = []
        for start, stop in pairwise(ends):
            order = np.lexsort((rows[start:stop], distances[start:stop]))
            found.append((ids[rows[start:stop][order]], distances[start:stop][order].astype(np.int32)))
        return found

    # -- the file ----------------------------------------------------------------------------------------

    def remembered(self, name: str) -> Any:
        """Return what was remembered."""
        return self._memory.get(name)

    def remember(self, name: str, value: Any) -> None:
        """Keep a small value, and flush."""
        self._memory[name] = value
        if value is None:
            del self._memory[name]
        self.flush()

    def flush(self) -> None:
        """Replace the file."""
        self._settle()
        numbered = self._faiss.IndexBinaryIDMap2(self._faiss.IndexBinaryFlat(8 * self.spec.n_bytes))
        numbers = self._ids if self._kind == "int" else np.arange(len(self._ids))
        if len(numbers):
            numbered.add_with_ids(self._codes, np.ascontiguousarray(numbers, np.int64))
        index = self._faiss.serialize_index_binary(numbered).tobytes()
        parts = {"spec": np.frombuffer(self.spec.to_bytes(), np.uint8)}
        facts = {"ids": self._kind, "memory": self._memory}
        parts["facts"] = np.frombuffer(json.dumps(facts).encode(), np.uint8)
        notes = self._notes if any(self._notes) else []
        names = [str(name).encode() for name in self._ids] if self._kind == "str" else []
        for name, texts in (("notes", notes), ("names", names)):
            parts[name] = np.frombuffer(b"".join(texts), np.uint8)
            parts[f"{name}_ends"] = np.cumsum([len(text) for text in texts], dtype=np.int64)
        buffer = io.BytesIO()
        np.savez(buffer, **parts)  # type: ignore[arg-type]
        tail = buffer.getvalue()
        digest = hashlib.sha256(index + tail).digest()
        with replace_file(self._path) as file:
            file.write(index)
            file.write(tail)
            file.write(TAIL.pack(len(index), len(tail), digest, MAGIC))

    def close(self) -> None:
        """Let go of the index."""
        self._waiting = []
        self._reset(as_ids([], self._kind), np.empty((0, self.spec.n_bytes), np.uint8))
        self._notes = []


def create_collection(address: Address, spec: CodeSpec, kind: IdKind) -> FaissCollection:
    """Make a file with nothing in it yet."""
    path = Path(address.rest)
    if path.exists():
        raise FileExistsError(f"{path} exists already. Open it with bilsh.open, or choose another name.")
    made = FaissCollection(path, spec, kind, "a")
    made.capabilities.check(spec)
    made.flush()
    return made


def open_collection(address: Address, mode: Mode) -> FaissCollection:
    """Read a file, every byte of it checked."""
    path = Path(address.rest)
    faiss = optional("faiss", PURPOSE)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DataNotFoundError(f"there is no file {path}. Make one with `bilsh copy`.") from None
    if len(data) < TAIL.size or data[-8:] != MAGIC:
        raise InvalidInputError(
            f"{path} is no collection of bilsh: it lacks the encoder behind the index. Import plain FAISS files with "
            "`bilsh import`."
        )
    head, length, digest, _ = TAIL.unpack(data[-TAIL.size :])
    if head + length + TAIL.size != len(data) or hashlib.sha256(data[: -TAIL.size]).digest() != digest:
        raise CorruptStoreError(f"{path} is damaged: its checksum does not match. Restore it from a copy.")
    try:
        with np.load(io.BytesIO(data[head : head + length]), allow_pickle=False) as parts:
            held = {name: parts[name] for name in parts.files}
    except (zipfile.BadZipFile, ValueError) as error:
        raise CorruptStoreError(f"{path} is damaged: {error}. Restore it from a copy.") from None
    facts = json.loads(held["facts"].tobytes())
    spec = CodeSpec.from_bytes(held["spec"].tobytes(), str(path))
    found = FaissCollection(path, spec, facts["ids"], mode)
    found._memory = facts["memory"]
    numbered = faiss.deserialize_index_binary(np.frombuffer(data[:head], np.uint8))
    codes = faiss.vector_to_array(faiss.downcast_IndexBinary(numbered.index).xb).reshape(-1, spec.n_bytes)
    numbers = faiss.vector_to_array(numbered.id_map).astype(np.int64)
    names = as_ids([text.decode() for text in _texts(held, "names")], "str")
    found._reset(names if facts["ids"] == "str" else numbers, codes)
    notes = _texts(held, "notes")
    found._notes = notes or [b""] * len(found._ids)
    return found


def _texts(parts: dict[str, Any], name: str) -> list[bytes]:
    ends = parts[f"{name}_ends"].tolist()
    data = parts[name].tobytes()
    return [data[start:stop] for start, stop in zip([0, *ends[:-1]], ends, strict=True)] if ends else []
