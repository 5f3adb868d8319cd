"""Codes in and out of stores: FAISS, NumPy, Parquet and fvecs; always in pieces, never as a whole.

An export leaves the encoder beside the codes (`<name>.encoder`), and names or numbers that the format has no
place for in `<name>.ids.npy` or `<name>.ids.txt`; an import looks for them there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bilsh.datasets.files import read_npy
from bilsh.errors import DataNotFoundError, InvalidInputError, optional
from bilsh.files import replace_file
from bilsh.store import Batch, Store

FORMATS = ("faiss", "npy", "parquet", "fvecs")
SUFFIX = {"faiss": ".faiss", "npy": ".npy", "parquet": ".parquet", "fvecs": ".fvecs"}


@dataclass(frozen=True, slots=True)
class Exchanged:
    """What went in or out."""

    items: int
    bits: int
    files: tuple[str, ...]


def export_codes(store: Store, path: Path, to: str) -> Exchanged:
    """Write all living items of a store to a file (and its companions).

    Parameters
    ----------
    store : Store
    path : path
        The main file.
    to : {"faiss", "npy", "parquet", "fvecs"}
        faiss: IndexBinaryFlat, with ids behind an IndexBinaryIDMap. npy: codes uint8 (n, n_bytes). parquet:
        columns id, code and, where kept, vector. fvecs: the kept vectors.
    """
    if to not in FORMATS:
        raise InvalidInputError(f"to must be one of {', '.join(FORMATS)}; got {to!r}.")
    if to == "fvecs" and store.keep_vectors is None:
        raise InvalidInputError(
            f"fvecs holds vectors, and {store.path} keeps none (encode with --keep-vectors). "
            "Export its codes with --to npy, faiss or parquet."
        )
    if not path.parent.is_dir():
        raise DataNotFoundError(f"the folder {path.parent} does not exist. Make it first.")
    written = {"faiss": _to_faiss, "npy": _to_npy, "parquet": _to_parquet, "fvecs": _to_fvecs}[to](
        store, path
    )
    encoder = path.with_suffix(".encoder")
    with replace_file(encoder) as file:
        file.write(store.encoder_data)
    return Exchanged(len(store), store.n_bits, (str(path), *written, str(encoder)))


def _write_ids(store: Store, path: Path) -> str:
    if store.id_kind == "str":
        # JSON strings, one per line: names may hold any character, line breaks too.
        target = path.with_suffix(".ids.txt")
        with replace_file(target) as file:
            for items in store.batches():
                file.writelines(json.dumps(str(item)).encode() + b"\n" for item in items.ids)
        return str(target)
    target = path.with_suffix(".ids.npy")
    with replace_file(target) as file:
        _header(file, "<i8", (len(store),))
        for items in store.batches():
            file.write(np.ascontiguousarray(items.ids, "<i8").tobytes())
    return str(target)


def _header(file: Any, dtype: str, shape: tuple[int, ...]) -> None:
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})


def _to_npy(store: Store, path: Path) -> tuple[str, ...]:
    with replace_file(path) as file:
        _header(file, "|u1", (len(store), -(-store.n_bits // 8)))
        for items in store.batches():
            file.write(np.ascontiguousarray(items.codes).tobytes())
    return (_write_ids(store, path),)


def _to_fvecs(store: Store, path: Path) -> tuple[str, ...]:
    with replace_file(path) as file:
        for items in store.batches():
            vectors = np.ascontiguousarray(items.vectors, "<f4")
            length = np.full((len(vectors), 1), vectors.shape[1], "<i4")
            file.write(np.hstack([length.view("<f4"), vectors]).tobytes())
    return (_write_ids(store, path),)


def _to_parquet(store: Store, path: Path) -> tuple[str, ...]:
    pyarrow = optional("pyarrow", "Writing Parquet files")
    parquet = optional("pyarrow.parquet", "Writing Parquet files")
    code = pyarrow.binary(-(-store.n_bits // 8))
    fields = [("id", pyarrow.string() if store.id_kind == "str" else pyarrow.int64()), ("code", code)]
    if store.keep_vectors:
        fields.append(("vector", pyarrow.list_(pyarrow.float32())))
    schema = pyarrow.schema(fields)
    with replace_file(path) as file, parquet.ParquetWriter(file, schema) as writer:
        for items in store.batches():
            columns = [list(items.ids), [row.tobytes() for row in items.codes]]
            if items.vectors is not None:
                columns.append([row.astype(np.float32) for row in items.vectors])
            arrays = [
                pyarrow.array(column, field.type) for column, field in zip(columns, schema, strict=True)
            ]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
    return ()


def _to_faiss(store: Store, path: Path) -> tuple[str, ...]:
    faiss = optional("faiss", "Writing FAISS indexes")
    index = faiss.IndexBinaryFlat(8 * -(-store.n_bits // 8))
    numbered = faiss.IndexBinaryIDMap(index) if store.id_kind == "int" else index
    for items in store.batches():
        if store.id_kind == "int":
            numbered.add_with_ids(items.codes, np.ascontiguousarray(items.ids, np.int64))
        else:
            index.add(items.codes)
    with replace_file(path) as file:
        file.write(faiss.serialize_index_binary(numbered).tobytes())
    return () if store.id_kind == "int" else (_write_ids(store, path),)


def import_codes(path: Path, store: Path, *, encoder: Path | None = None) -> Exchanged:
    """Put ready codes into a store, a new one or one that has the same encoder, in one transaction.

    Parameters
    ----------
    path : path
        .npy of uint8 (n, n_bytes), .faiss binary index, or .parquet with a column `code` (and `id`).
    store : path
    encoder : path, optional
        Encoder file of a new store; by default the one beside `path`.
    """
    from bilsh.encoders.estimators import load_encoder

    if not path.is_file():
        raise DataNotFoundError(f"{path} does not exist or is not a file. Check the path.")
    readers = {".npy": _from_npy, ".parquet": _from_parquet, ".faiss": _from_faiss, ".index": _from_faiss}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InvalidInputError(f"{path} must end in {', '.join(readers)}.")
    beside = encoder or path.with_suffix(".encoder")
    given = load_encoder(beside) if beside.is_file() else None
    if encoder is not None and given is None:
        raise DataNotFoundError(f"{encoder} does not exist. Give the encoder file that made the codes.")
    batches = reader(path)
    if Store.exists(store):
        target = Store.open(store, mode="a")
    elif given is None:
        raise InvalidInputError(
            f"codes mean nothing without their encoder, and {beside} is not there. Give it with --encoder FILE, "
            "or import into a store that has it."
        )
    else:
        target = Store.create(store, given)
    with target:
        fingerprint = None if given is None else given.fingerprint
        count = target.add_codes(batches, fingerprint=fingerprint)
        if not count:
            raise InvalidInputError(f"{path} holds no codes.")
        return Exchanged(count, target.n_bits, (str(store),))


def _ids_beside(path: Path, count: int) -> Any:
    numbers, names = path.with_suffix(".ids.npy"), path.with_suffix(".ids.txt")
    found: Any = None
    if numbers.is_file():
        found = read_npy(numbers)
    elif names.is_file():
        found = [json.loads(line) for line in names.read_text("utf-8").splitlines()]
    if found is not None and len(found) != count:
        raise InvalidInputError(f"{path} holds {count} codes, the ids beside it are {len(found)}.")
    return found


def _cut(codes: NDArray[np.uint8], ids: Any) -> Iterator[Batch]:
    for start in range(0, len(codes), 65536):
        some = slice(start, start + 65536)
        yield Batch(np.asarray(codes[some]), None if ids is None else ids[some])


def _from_npy(path: Path) -> Iterator[Batch]:
    codes = read_npy(path)
    if codes.ndim != 2 or codes.dtype != np.uint8:
        raise InvalidInputError(
            f"{path} holds {codes.dtype} {codes.shape}; expected codes, uint8 (n, n_bytes)."
        )
    return _cut(codes, _ids_beside(path, len(codes)))


def _from_faiss(path: Path) -> Iterator[Batch]:
    faiss = optional("faiss", "Reading FAISS indexes")
    try:
        outer = faiss.read_index_binary(str(path))
    except RuntimeError:
        raise InvalidInputError(f"{path} is not a FAISS binary index.") from None
    # The map owns the index inside it: it must live until the codes have been copied.
    ids, index = None, outer
    if isinstance(outer, faiss.IndexBinaryIDMap):
        ids, index = faiss.vector_to_array(outer.id_map), faiss.downcast_IndexBinary(outer.index)
    if not isinstance(index, faiss.IndexBinaryFlat):
        raise InvalidInputError(
            f"{path} holds a {type(index).__name__}; only IndexBinaryFlat keeps plain codes."
        )
    codes = faiss.vector_to_array(index.xb).reshape(index.ntotal, -1)
    del index, outer
    return _cut(codes, ids if ids is not None else _ids_beside(path, len(codes)))


def _from_parquet(path: Path) -> Iterator[Batch]:
    parquet = optional("pyarrow.parquet", "Reading Parquet files")
    try:
        source = parquet.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{path} is not a readable Parquet file ({error}).") from None
    if "code" not in source.schema_arrow.names:
        raise InvalidInputError(
            f"{path} has no column `code`; it has {', '.join(source.schema_arrow.names)}."
        )
    has_ids = "id" in source.schema_arrow.names
    for batch in source.iter_batches(columns=["code", "id"] if has_ids else ["code"]):
        rows = batch.column("code").to_pylist()
        if not rows or len({len(row) for row in rows}) != 1:
            raise InvalidInputError(f"column `code` of {path} has codes of different lengths.")
        codes = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1)
        yield Batch(codes, batch.column("id").to_pylist() if has_ids else None)


__all__ = ["FORMATS", "SUFFIX", "Exchanged", "export_codes", "import_codes"]
