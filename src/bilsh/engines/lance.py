"""Lance: a directory of columns with versions, searched in process; each write is one version."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bilsh.codes import Codes
from bilsh.engines import ties
from bilsh.engines.addresses import Address
from bilsh.engines.base import Found, Ids, Mode, Unordered, as_ids, parsed
from bilsh.engines.filters import Filter
from bilsh.engines.notes import read_note, write_note
from bilsh.engines.spec import Capabilities, CodeSpec
from bilsh.errors import DataNotFoundError, EngineError, InvalidInputError, optional
from bilsh.files import replace_file
from bilsh.store.items import Items
from bilsh.store.manifest import IdKind

PURPOSE = "A Lance collection"
SPEC, MEMORY = "bilsh.spec", "bilsh.json"
LISTED = 1000
"""Ids in one expression."""


class LanceCollection(Unordered):
    """A Lance dataset with the columns id, code (fixed-size list of uint8) and metadata (JSON text)."""

    def __init__(self, path: Path, dataset: Any, spec: CodeSpec, mode: Mode) -> None:
        self._arrow = optional("pyarrow", PURPOSE)
        version = str(optional("lance", PURPOSE).__version__)
        self.address, self.spec, self._mode = f"lance:{path}", spec, mode
        self.capabilities = Capabilities("Lance", version, ties_by_id=False, radius=False)
        self._path, self._dataset = path, dataset
        text = self._arrow.types.is_string(dataset.schema.field("id").type)
        self._kind = "str" if text else "int"

    def _write(self, ids: Ids, codes: Codes, notes: Sequence[bytes] | None) -> None:
        rows = table(self._arrow, self._kind or "int", self.spec.n_bytes, ids, codes, notes)
        merge = self._dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(rows)

    def _remove(self, ids: Ids) -> int:
        before = len(self)
        for start in range(0, len(ids), LISTED):
            self._dataset.delete(one_of(ids[start : start + LISTED]))
        return before - len(self)

    def _items(self, rows: Any) -> Items:
        codes = rows["code"].combine_chunks()
        flat = codes.flatten().to_numpy() if len(rows) else np.empty(0, np.uint8)
        return Items(
            as_ids(rows["id"].to_pylist() if self._kind == "str" else rows["id"].to_numpy(), self._kind),
            np.ascontiguousarray(flat.reshape(len(rows), self.spec.n_bytes)),
            None,
            [parsed(note) for note in rows["metadata"].to_pylist()],
        )

    def _fetch(self, ids: Ids) -> Items:
        parts = [
            self._dataset.to_table(filter=one_of(ids[start : start + LISTED]))
            for start in range(0, len(ids), LISTED)
        ]
        return self._items(self._arrow.concat_tables(parts)) if parts else self._nothing()

    def _page(self, after: Any, size: int) -> Items:
        beyond = None if after is None else f"id > {literal(after)}"
        # Sorting moves ids only; codes of one page are fetched by them.
        ids = self._dataset.to_table(columns=["id"], filter=beyond, order_by=["id"], limit=size)["id"]
        page = self._fetch(as_ids(ids.to_pylist(), self._kind))
        order = np.argsort(page.ids, kind="stable")
        return Items(page.ids[order], page.codes[order], None, [page.metadata[row] for row in order])

    def _count(self, where: Filter | None) -> int:
        if where is None or where.ids is None:
            return int(self._dataset.count_rows())
        ids = where.ids
        return sum(
            int(self._dataset.count_rows(filter=one_of(ids[start : start + LISTED])))
            for start in range(0, len(ids), LISTED)
        )

    def _sample(self, rows: int) -> Codes:
        count = len(self)
        chosen = np.linspace(0, count - 1, min(rows, count)).astype(np.int64)
        return self._items(self._dataset.take(chosen)).codes if count else self._nothing().codes

    def _lists(self, where: Filter | None) -> ties.Fetch:
        chosen = None if where is None or where.ids is None else one_of(where.ids)

        def fetch(codes: Codes, count: int) -> list[Found]:
            found = []
            for code in codes:
                nearest = {"column": "code", "q": code, "k": count, "metric": "hamming", "use_index": False}
                rows = self._dataset.to_table(
                    columns=["id", "_distance"], nearest=nearest, filter=chosen, prefilter=chosen is not None
                )
                far = rows["_distance"].to_numpy().astype(np.int32)
                found.append((as_ids(rows["id"].to_pylist(), self._kind), far))
            return found

        return fetch

    def remembered(self, name: str) -> Any:
        """Return what was remembered."""
        return read_note(self._path / MEMORY, name)

    def remember(self, name: str, value: Any) -> None:
        """Keep a small value in a file beside the columns."""
        write_note(self._path / MEMORY, name, value)

    def flush(self) -> None:
        """Do nothing: each write was a version of its own."""

    def close(self) -> None:
        """Let go of the dataset."""
        self._dataset = None


def literal(item: Any) -> str:
    """Spell an id in an expression; quotes in strings are doubled, as SQL wants it."""
    return "'" + item.replace("'", "''") + "'" if isinstance(item, str) else str(int(item))


def one_of(ids: Ids) -> str:
    """Return the expression that ids are among these."""
    return f"id IN ({', '.join(map(literal, ids.tolist()))})" if len(ids) else "false"


def table(
    arrow: Any, kind: IdKind, n_bytes: int, ids: Ids, codes: Codes, notes: Sequence[bytes] | None
) -> Any:
    """Rows as Arrow has them."""
    texts = [None] * len(ids) if notes is None else [note.decode() or None for note in notes]
    flat = arrow.array(np.ascontiguousarray(codes).reshape(-1), type=arrow.uint8())
    columns = {
        "id": arrow.array(ids.tolist(), type=arrow.string() if kind == "str" else arrow.int64()),
        "code": arrow.FixedSizeListArray.from_arrays(flat, n_bytes),
        "metadata": arrow.array(texts, type=arrow.string()),
    }
    return arrow.table(columns)


def create_collection(address: Address, spec: CodeSpec, kind: IdKind) -> LanceCollection:
    """Make a dataset with no rows yet."""
    lance, path = optional("lance", PURPOSE), Path(address.rest)
    # The specification first: where that is all there is, a creation was cut off, and is begun again.
    if path.exists() and (
        not path.is_dir() or (any(path.iterdir()) and not (path / SPEC).is_file()) or _there(path)
    ):
        raise FileExistsError(f"{path} is not empty. Open it with bilsh.open, or choose another name.")
    path.mkdir(parents=True, exist_ok=True)
    with replace_file(path / SPEC) as file:
        file.write(spec.to_bytes())
    empty = table(
        optional("pyarrow", PURPOSE), kind, spec.n_bytes, as_ids([], kind),
        np.empty((0, spec.n_bytes), np.uint8), None,
    )  # fmt: skip
    dataset = lance.write_dataset(empty, str(path))
    return LanceCollection(path, dataset, spec, "a")


def open_collection(address: Address, mode: Mode) -> LanceCollection:
    """Open a dataset."""
    lance, path = optional("lance", PURPOSE), Path(address.rest)
    if not path.exists() or ((path / SPEC).is_file() and not _there(path)):
        raise DataNotFoundError(f"there is no Lance dataset at {path}. Make one with `bilsh copy`.")
    try:
        spec = CodeSpec.from_bytes((path / SPEC).read_bytes(), str(path / SPEC))
    except FileNotFoundError:
        raise InvalidInputError(
            f"{path} is no collection of bilsh: it lacks {SPEC}, which says what its codes are."
        ) from None
    try:
        dataset = lance.dataset(str(path))
    except (ValueError, OSError) as error:
        raise EngineError(f"Lance {lance.__version__} cannot open {path}: {_first_line(error)}") from None
    return LanceCollection(path, dataset, spec, mode)


def _there(path: Path) -> bool:
    """Whether a dataset has a version."""
    versions = path / "_versions"
    return versions.is_dir() and any(versions.iterdir())


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
