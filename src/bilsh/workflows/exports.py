"""Codes out of stores: FAISS, NumPy, Parquet and fvecs; in pieces, never as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bilsh.datasets.files import check_folder
from bilsh.encoders.coder import NOT_HAMMING
from bilsh.errors import InvalidInputError, optional
from bilsh.files import replace_file
from bilsh.store import Store
from bilsh.store.items import Items
from bilsh.store.recipe import CODEBOOK, RECIPE, read_recipe
from bilsh.types import Progress, silent
from bilsh.workflows.exchange import (
    FORMATS,
    PARQUET_KEY,
    Companions,
    Digest,
    Exchanged,
    make_record,
)
from bilsh.workflows.rescue import Survey, survey, walk_whole


def export_codes(
    store: Store,
    path: Path,
    to: str,
    *,
    overwrite: bool = False,
    skip_damaged: bool = False,
    progress: Progress = silent,
) -> Exchanged:
    """Write all living items of a store to a file (and its companions, see :mod:`bilsh.workflows.exchange`).

    Parameters
    ----------
    store : Store
    path : path
        The main file.
    to : {"faiss", "npy", "parquet", "fvecs"}
        faiss: IndexBinaryFlat, with ids behind an IndexBinaryIDMap. npy: codes uint8 (n, n_bytes). parquet:
        columns id, code and, where there are any, vector and metadata. fvecs: the kept vectors.
    overwrite : bool
        Replace files that are there; else they are refused.
    skip_damaged : bool
        Leave out items whose blocks have wrong checksums, instead of stopping there.
    progress : callable (what, done, total), optional
    """
    if to not in FORMATS:
        raise InvalidInputError(f"to must be one of {', '.join(FORMATS)}; got {to!r}.")
    if to == "fvecs" and store.keep_vectors is None:
        raise InvalidInputError(
            f"fvecs holds vectors, and {store.path} keeps none (encode with --keep-vectors). "
            "Export its codes with --to npy, faiss or parquet."
        )
    check_folder(path)
    beside = Companions.of(path)
    there = [file for file in (path, *beside.all()) if file.exists()]
    if there and not overwrite:
        raise InvalidInputError(
            f"{there[0]} exists already. Choose another name with -o, or overwrite with --force."
        )
    found = survey(store) if skip_damaged else None
    goods = Goods(store, len(store) if found is None else found.items, found, progress)
    writer = {"faiss": _to_faiss, "npy": _to_npy, "parquet": _to_parquet, "fvecs": _to_fvecs}[to]
    written = [path, *writer(goods, path, beside)]
    with replace_file(beside.encoder) as file:
        file.write(store.encoder_data)
    written += [beside.encoder, *_export_recipe(store, beside)]
    for other in beside.all():
        if other not in written:
            other.unlink(
                missing_ok=True
            )  # what a former export left must not be taken for a part of this one
    skipped = 0 if found is None else len(found.lost)
    return Exchanged(goods.count, store.n_bits, tuple(map(str, written)), skipped=skipped)


@dataclass(frozen=True, slots=True)
class Goods:
    """What is exported: a store, the number of its items that go out, and a way through them."""

    store: Store
    count: int
    found: Survey | None
    say: Progress

    def walk(self) -> Iterator[Items]:
        """Walk through the items, some at a time."""
        done = 0
        for items in self.store.batches() if self.found is None else walk_whole(self.store, self.found):
            yield items
            done += len(items)
            self.say("exporting", done, self.count)


def _export_recipe(store: Store, beside: Companions) -> list[Path]:
    """Put the recipe of a store of images beside its codes: without it photographs cannot be asked for."""
    recipe = read_recipe(store.path)
    if recipe is None or not recipe.images:
        return []
    pairs = [(RECIPE, beside.recipe), *([(CODEBOOK, beside.codebook)] if recipe.codebook is not None else [])]
    for name, target in pairs:
        with replace_file(target) as file:
            file.write((store.path / name).read_bytes())
    return [target for _, target in pairs]


def _write_record(goods: Goods, beside: Companions, digest: Digest) -> Path:
    record = make_record(goods.count, goods.store.n_bits, goods.store.fingerprint, digest)
    with replace_file(beside.record) as file:
        file.write((json.dumps(record, indent=1) + "\n").encode())
    return beside.record


def _write_ids(goods: Goods, beside: Companions) -> Path:
    if goods.store.id_kind == "str":
        # JSON strings, one per line: names may hold any character, line breaks too.
        with replace_file(beside.names) as file:
            for items in goods.walk():
                file.writelines(json.dumps(str(item)).encode() + b"\n" for item in items.ids)
        return beside.names
    with replace_file(beside.numbers) as file:
        _header(file, "<i8", (goods.count,))
        for items in goods.walk():
            file.write(np.ascontiguousarray(items.ids, "<i8").tobytes())
    return beside.numbers


def _header(file: Any, dtype: str, shape: tuple[int, ...]) -> None:
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})


def _to_npy(goods: Goods, path: Path, beside: Companions) -> list[Path]:
    digest = Digest()
    with replace_file(path) as file:
        _header(file, "|u1", (goods.count, -(-goods.store.n_bits // 8)))
        for items in goods.walk():
            digest.update(items.ids, items.codes)
            file.write(np.ascontiguousarray(items.codes).tobytes())
    return [_write_ids(goods, beside), _write_record(goods, beside, digest)]


def _to_fvecs(goods: Goods, path: Path, beside: Companions) -> list[Path]:
    digest = Digest()
    with replace_file(path) as file:
        for items in goods.walk():
            vectors = np.ascontiguousarray(items.vectors, "<f4")
            digest.update(items.ids, vectors=vectors)
            length = np.full((len(vectors), 1), vectors.shape[1], "<i4")
            file.write(np.hstack([length.view("<f4"), vectors]).tobytes())
    return [_write_ids(goods, beside), _write_record(goods, beside, digest)]


def _to_parquet(goods: Goods, path: Path, beside: Companions) -> list[Path]:
    pyarrow = optional("pyarrow", "Writing Parquet files")
    parquet = optional("pyarrow.parquet", "Writing Parquet files")
    # The record stands in the schema, which is written first; so the items are walked through twice.
    digest, notes = Digest(), False
    for items in goods.walk():
        notes = notes or any(value is not None for value in items.metadata)
        digest.update(items.ids, items.codes, items.vectors, items.metadata)
    fields = [
        ("id", pyarrow.string() if goods.store.id_kind == "str" else pyarrow.int64()),
        ("code", pyarrow.binary(-(-goods.store.n_bits // 8))),
        *([("vector", pyarrow.list_(pyarrow.float32()))] if goods.store.keep_vectors else []),
        *([("metadata", pyarrow.string())] if notes else []),
    ]
    record = make_record(goods.count, goods.store.n_bits, goods.store.fingerprint, digest)
    schema = pyarrow.schema(fields, {PARQUET_KEY: json.dumps(record).encode()})
    options = {"write_page_checksum": True}
    with replace_file(path) as file, parquet.ParquetWriter(file, schema, **options) as writer:
        for items in goods.walk():
            columns = [list(items.ids), [row.tobytes() for row in items.codes]]
            if items.vectors is not None:
                columns.append([row.astype(np.float32) for row in items.vectors])
            if notes:
                columns.append([None if v is None else json.dumps(v, sort_keys=True) for v in items.metadata])
            arrays = [
                pyarrow.array(column, field.type) for column, field in zip(columns, schema, strict=True)
            ]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
    return []


def _to_faiss(goods: Goods, path: Path, beside: Companions) -> list[Path]:
    faiss = optional("faiss", "Writing FAISS indexes")
    if not goods.store.coder.by_hamming:
        raise InvalidInputError(
            f"{NOT_HAMMING}A binary FAISS index knows no other; export to .npy or .parquet."
        )
    digest = Digest()
    index = faiss.IndexBinaryFlat(8 * -(-goods.store.n_bits // 8))
    numbered = faiss.IndexBinaryIDMap(index) if goods.store.id_kind == "int" else index
    for items in goods.walk():
        digest.update(items.ids, items.codes)
        if goods.store.id_kind == "int":
            numbered.add_with_ids(items.codes, np.ascontiguousarray(items.ids, np.int64))
        else:
            index.add(items.codes)
    with replace_file(path) as file:
        file.write(faiss.serialize_index_binary(numbered).tobytes())
    names = [] if goods.store.id_kind == "int" else [_write_ids(goods, beside)]
    return [*names, _write_record(goods, beside, digest)]


__all__ = ["export_codes"]
