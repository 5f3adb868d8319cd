"""Codes out of stores: FAISS, NumPy, Parquet and fvecs; in pieces, never as a whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bilsh.datasets.files import check_folder
from bilsh.errors import InvalidInputError, optional
from bilsh.files import replace_file
from bilsh.store import Store
from bilsh.store.items import Items
from bilsh.store.recipe import CODEBOOK, RECIPE, read_recipe
from bilsh.workflows.exchange import (
    FORMATS,
    PARQUET_KEY,
    Companions,
    Digest,
    Exchanged,
    make_record,
)

Progress = Callable[[str, int, int], None]
Walk = Callable[[], Iterator[Items]]


def export_codes(
    store: Store, path: Path, to: str, *, overwrite: bool = False, progress: Progress | None = None
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
    say = progress or (lambda what, done, total: None)
    walk = _walk(store, say)
    writer = {"faiss": _to_faiss, "npy": _to_npy, "parquet": _to_parquet, "fvecs": _to_fvecs}[to]
    written = [path, *writer(store, walk, path, beside)]
    with replace_file(beside.encoder) as file:
        file.write(store.encoder_data)
    written += [beside.encoder, *_export_recipe(store, beside)]
    for other in beside.all():
        if other not in written:
            other.unlink(
                missing_ok=True
            )  # what a former export left must not be taken for a part of this one
    return Exchanged(len(store), store.n_bits, tuple(map(str, written)))


def _walk(store: Store, say: Progress) -> Walk:
    def walk() -> Iterator[Items]:
        done = 0
        for items in store.batches():
            yield items
            done += len(items)
            say("exporting", done, len(store))

    return walk


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


def _write_record(store: Store, beside: Companions, digest: Digest) -> Path:
    record = make_record(len(store), store.n_bits, store.fingerprint, digest)
    with replace_file(beside.record) as file:
        file.write((json.dumps(record, indent=1) + "\n").encode())
    return beside.record


def _write_ids(store: Store, walk: Walk, beside: Companions) -> Path:
    if store.id_kind == "str":
        # JSON strings, one per line: names may hold any character, line breaks too.
        with replace_file(beside.names) as file:
            for items in walk():
                file.writelines(json.dumps(str(item)).encode() + b"\n" for item in items.ids)
        return beside.names
    with replace_file(beside.numbers) as file:
        _header(file, "<i8", (len(store),))
        for items in walk():
            file.write(np.ascontiguousarray(items.ids, "<i8").tobytes())
    return beside.numbers


def _header(file: Any, dtype: str, shape: tuple[int, ...]) -> None:
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})


def _to_npy(store: Store, walk: Walk, path: Path, beside: Companions) -> list[Path]:
    digest = Digest()
    with replace_file(path) as file:
        _header(file, "|u1", (len(store), -(-store.n_bits // 8)))
        for items in walk():
            digest.update(items.ids, items.codes)
            file.write(np.ascontiguousarray(items.codes).tobytes())
    return [_write_ids(store, walk, beside), _write_record(store, beside, digest)]


def _to_fvecs(store: Store, walk: Walk, path: Path, beside: Companions) -> list[Path]:
    digest = Digest()
    with replace_file(path) as file:
        for items in walk():
            vectors = np.ascontiguousarray(items.vectors, "<f4")
            digest.update(items.ids, vectors=vectors)
            length = np.full((len(vectors), 1), vectors.shape[1], "<i4")
            file.write(np.hstack([length.view("<f4"), vectors]).tobytes())
    return [_write_ids(store, walk, beside), _write_record(store, beside, digest)]


def _to_parquet(store: Store, walk: Walk, path: Path, beside: Companions) -> list[Path]:
    pyarrow = optional("pyarrow", "Writing Parquet files")
    parquet = optional("pyarrow.parquet", "Writing Parquet files")
    # The record stands in the schema, which is written first; so the items are walked through twice.
    digest, notes = Digest(), False
    for items in walk():
        notes = notes or any(value is not None for value in items.metadata)
        digest.update(items.ids, items.codes, items.vectors, items.metadata)
    fields = [
        ("id", pyarrow.string() if store.id_kind == "str" else pyarrow.int64()),
        ("code", pyarrow.binary(-(-store.n_bits // 8))),
        *([("vector", pyarrow.list_(pyarrow.float32()))] if store.keep_vectors else []),
        *([("metadata", pyarrow.string())] if notes else []),
    ]
    record = make_record(len(store), store.n_bits, store.fingerprint, digest)
    schema = pyarrow.schema(fields, {PARQUET_KEY: json.dumps(record).encode()})
    options = {"write_page_checksum": True}
    with replace_file(path) as file, parquet.ParquetWriter(file, schema, **options) as writer:
        for items in walk():
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


def _to_faiss(store: Store, walk: Walk, path: Path, beside: Companions) -> list[Path]:
    faiss = optional("faiss", "Writing FAISS indexes")
    digest = Digest()
    index = faiss.IndexBinaryFlat(8 * -(-store.n_bits // 8))
    numbered = faiss.IndexBinaryIDMap(index) if store.id_kind == "int" else index
    for items in walk():
        digest.update(items.ids, items.codes)
        if store.id_kind == "int":
            numbered.add_with_ids(items.codes, np.ascontiguousarray(items.ids, np.int64))
        else:
            index.add(items.codes)
    with replace_file(path) as file:
        file.write(faiss.serialize_index_binary(numbered).tobytes())
    names = [] if store.id_kind == "int" else [_write_ids(store, walk, beside)]
    return [*names, _write_record(store, beside, digest)]


__all__ = ["export_codes"]
