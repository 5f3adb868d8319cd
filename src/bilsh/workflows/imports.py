"""Codes into stores: what `bilsh export` wrote, or codes that others made; in one transaction, all or nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bilsh.datasets.files import read_npy
from bilsh.encoders.coder import Coder
from bilsh.encoders.foreign import BitPacking, ForeignCoder
from bilsh.errors import CorruptExportError, DataNotFoundError, InvalidInputError, optional
from bilsh.store import Batch, Store
from bilsh.store.inputs import UNCHECKED
from bilsh.store.recipe import CODEBOOK, RECIPE, Recipe, read_recipe, write_recipe
from bilsh.types import Progress, silent
from bilsh.workflows.building import building
from bilsh.workflows.exchange import PARQUET_KEY, Companions, Digest, Exchanged, compare, read_record

ROWS = 65536
TURNED = np.packbits(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1), axis=1, bitorder="little"
)[:, 0]
"""Every byte with its bits in the opposite order."""


@dataclass(frozen=True, slots=True)
class CodeFile:
    """A file of ready codes, open.

    Attributes
    ----------
    rows, width : int
        Number of codes, and bytes of each.
    batches : iterator of Batch
    vectors : bool
        Whether vectors lie with the codes.
    record : dict or None
        What the export said about itself.
    close : callable
        Gives back what reading needs.
    """

    rows: int
    width: int
    batches: Iterator[Batch]
    vectors: bool = False
    record: dict[str, Any] | None = None
    close: Callable[[], None] = lambda: None


def import_codes(
    path: Path,
    store: Path,
    *,
    encoder: Path | None = None,
    ids: Path | None = None,
    n_bits: int | None = None,
    bits: str | None = None,
    bitorder: BitPacking | None = None,
    trust: bool = False,
    progress: Progress = silent,
) -> Exchanged:
    """Put ready codes into a store, a new one or one that has the same encoder.

    A new store appears when all is in it, and not at all when anything fails. Codes without an encoder file make a
    store of codes that were made elsewhere, see :meth:`bilsh.Store.create`.

    Parameters
    ----------
    path : path
        .npy of uint8 (n, n_bytes), .faiss binary index, or .parquet with a column `code` (and `id`, `vector`,
        `metadata`).
    store : path
    encoder : path, optional
        Encoder file of a new store; by default the one beside `path`.
    ids : path, optional
        File of ids, see :func:`bilsh.workflows.queries.read_ids`; by default those in the file or beside it.
    n_bits : int, optional
        Codes made elsewhere: their length; by default all bits of their bytes.
    bits : None, "sign" or "sign of a rotation"
        Codes made elsewhere: what a bit is.
    bitorder : "little" or "big", optional
        Whether the first of eight bits is the lowest of its byte or the highest, as numpy.packbits has it by default;
        a new store of codes made elsewhere takes and gives codes the same way. By default as the store has it.
    trust : bool
        Take the caller's word that the codes are those of the store's encoder.
    progress : callable (what, done, total), optional
    """
    from bilsh.workflows.queries import as_new_ids, open_store, read_ids

    if not path.is_file():
        raise DataNotFoundError(f"{path} does not exist or is not a file. Check the path.")
    opener = READERS.get(path.suffix.lower())
    if opener is None:
        raise InvalidInputError(f"{path} must end in {', '.join(READERS)}.")
    beside = Companions.of(path)
    made_by = encoder or beside.encoder
    if encoder is not None and not encoder.is_file():
        raise DataNotFoundError(f"{encoder} does not exist. Give the encoder file that made the codes.")
    given = Coder.from_bytes(made_by.read_bytes(), str(made_by)) if made_by.is_file() else None
    source = opener(path, beside)
    try:
        named = None if ids is None else as_new_ids(read_ids(ids))
        if named is not None and len(named) != source.rows:
            raise InvalidInputError(f"{path} holds {source.rows:,} codes, {ids} has {len(named):,} ids.")
        if not source.rows:
            raise InvalidInputError(f"{path} holds no codes.")
        if source.record and given and source.record.get("fingerprint") != given.fingerprint:
            raise CorruptExportError(
                f"{path} and {made_by} do not belong together: the codes were made by another encoder, or one of the "
                "files is damaged. Export the store again."
            )
        batches = _checked(source, path, named, progress)
        notes = (
            []
            if source.record
            else [f"{path} carries no checksums of `bilsh export`: its codes were not checked."]
        )
        if (n_bits, bits) != (None, None) and (given is not None or Store.exists(store)):
            raise InvalidInputError(
                "--bits and --meaning are for a new store of codes made elsewhere; here the encoder knows both."
            )
        if Store.exists(store):
            with open_store(store, "a") as target:
                _check_target(target, source, path, given, trust)
                length = target.n_bits
                batches = _packed(batches, bitorder, target.coder)
                fingerprint = UNCHECKED if given is None else given.fingerprint
                count = target.add_codes(batches, fingerprint=fingerprint)
        else:
            if given is None:
                length = n_bits or 8 * source.width
                _check_length(length, source.width, path)
                values = ", or with the values behind them" if bits else ""
                notes.append(f"these codes have no encoder: ask with codes of the same origin{values}.")
                given = ForeignCoder.of(length, bits, bitorder or "little")
            batches = _packed(batches, bitorder, given)
            with building(store) as place:
                keep: Any = "float32" if source.vectors else None
                with Store.create(place, given, keep_vectors=keep) as target:
                    length = target.n_bits
                    count = target.add_codes(batches, fingerprint=given.fingerprint)
                recipe = _recipe_beside(beside)
                if recipe is not None:
                    write_recipe(place, recipe)
    finally:
        source.close()
    return Exchanged(count, length, (str(store),), checked=source.record is not None, notes=tuple(notes))


def _packed(batches: Iterator[Batch], bitorder: BitPacking | None, coder: Coder) -> Iterator[Batch]:
    """Turn the bits of bytes where a file packs them otherwise than the store that they go to."""
    kept = coder.bitorder if isinstance(coder, ForeignCoder) else "little"
    if bitorder in (None, kept):
        return batches
    return (replace(batch, X=TURNED[batch.X]) for batch in batches)


def _check_length(n_bits: int, width: int, path: Path) -> None:
    if -(-n_bits // 8) != width:
        raise InvalidInputError(
            f"codes of {n_bits} bits have {-(-n_bits // 8)} bytes; those of {path} have {width}."
        )


def _check_target(target: Store, source: CodeFile, path: Path, given: Coder | None, trust: bool) -> None:
    """Refuse codes that the store could not make sense of."""
    if target.keep_vectors and not source.vectors:
        raise InvalidInputError(
            f"{target.path} keeps the vectors of its items, and {path} has none. Import into a new store, or add the "
            "items themselves with `bilsh add`."
        )
    _check_length(target.n_bits, source.width, path)
    if given is None and not trust and target.coder.kind != "foreign":
        raise InvalidInputError(
            f"nothing says which encoder made {path}: codes of another one would be found by nobody. Give it with "
            f"--encoder FILE, or say --trust if it is the encoder of {target.path}."
        )


def _checked(source: CodeFile, path: Path, named: Any, say: Progress) -> Iterator[Batch]:
    """Pass batches on and compare their digests at the end, before the transaction is committed."""
    digest, done = Digest(), 0
    say("importing", 0, source.rows)
    # An export of items without metadata has no column for it, but its digest.
    has_notes = source.record is not None and "metadata" in source.record["sha256"]
    for batch in source.batches:
        stop = done + len(batch.X)
        notes = [None] * len(batch.X) if batch.metadata is None and has_notes else batch.metadata
        digest.update(batch.ids, batch.X, batch.vectors, notes)
        ids = batch.ids if named is None else named[done:stop]
        yield Batch(batch.X, ids, batch.metadata, batch.vectors)
        done = stop
        say("importing", done, source.rows)
    if source.record is not None:
        compare(source.record, done, digest, path, renamed=named is not None)


def _recipe_beside(beside: Companions) -> Recipe | None:
    """Read the recipe that lies beside an export, under the names that it has in a store."""
    if not beside.recipe.is_file():
        return None
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for file, name in ((beside.recipe, RECIPE), (beside.codebook, CODEBOOK)):
            if file.is_file():
                shutil.copyfile(file, Path(folder) / name)
        try:
            return read_recipe(Path(folder))
        except OSError as error:
            raise CorruptExportError(
                f"{beside.recipe} or {beside.codebook.name} is damaged ({error}). Export the store again, or remove "
                "the recipe to go without: the store then takes arrays, not photographs."
            ) from None


def _record_beside(beside: Companions, path: Path) -> dict[str, Any] | None:
    return read_record(beside.record.read_bytes(), path) if beside.record.is_file() else None


def _ids_beside(beside: Companions, path: Path, count: int) -> Any:
    found: Any = None
    if beside.numbers.is_file():
        found = read_npy(beside.numbers)
        if found.ndim != 1 or found.dtype.kind not in "iu":
            raise InvalidInputError(
                f"{beside.numbers} holds {found.dtype} {found.shape}; expected integers (n,)."
            )
    elif beside.names.is_file():
        try:
            found = [json.loads(line) for line in beside.names.read_text("utf-8").splitlines()]
        except ValueError as error:
            raise InvalidInputError(f"{beside.names} must hold one JSON string per line ({error}).") from None
    if found is not None and len(found) != count:
        raise InvalidInputError(
            f"{path} holds {count:,} codes, the ids beside it are {len(found):,}. Put the right ids beside it, or "
            "give them with --ids FILE."
        )
    return found


def _open_npy(path: Path, beside: Companions) -> CodeFile:
    codes = read_npy(path)
    if codes.ndim != 2 or codes.dtype != np.uint8 or not codes.shape[1]:
        raise InvalidInputError(
            f"{path} holds {codes.dtype} {codes.shape}; expected codes, uint8 (n, n_bytes). Pack bits with "
            "numpy.packbits; signed bytes of a model (int8) are codes minus 128."
        )
    ids = _ids_beside(beside, path, len(codes))

    def batches() -> Iterator[Batch]:
        for start in range(0, len(codes), ROWS):
            some = slice(start, start + ROWS)
            yield Batch(np.asarray(codes[some]), None if ids is None else ids[some])

    return CodeFile(len(codes), codes.shape[1], batches(), record=_record_beside(beside, path))


def _open_faiss(path: Path, beside: Companions) -> CodeFile:
    from bilsh.workflows.faiss_reader import FaissFile

    source = FaissFile(path)
    try:
        ids = source.ids if source.ids is not None else _ids_beside(beside, path, source.rows)
        record = _record_beside(beside, path)
    except BaseException:
        source.close()
        raise

    def batches() -> Iterator[Batch]:
        done = 0
        for codes in source.batches():
            yield Batch(codes, None if ids is None else ids[done : done + len(codes)])
            done += len(codes)

    return CodeFile(source.rows, source.width, batches(), record=record, close=source.close)


def _open_parquet(path: Path, beside: Companions) -> CodeFile:
    parquet = optional("pyarrow.parquet", "Reading Parquet files")
    types = optional("pyarrow", "Reading Parquet files").types
    try:
        source = parquet.ParquetFile(path, page_checksum_verification=True)
        schema = source.schema_arrow
    except (OSError, ValueError, NotImplementedError) as error:
        raise InvalidInputError(
            f"{path} is not a readable Parquet file ({error}). Write or fetch it again."
        ) from None
    record = (schema.metadata or {}).get(PARQUET_KEY)
    wanted = {
        "code": ("bytes of equal length", lambda t: types.is_binary(t) or types.is_fixed_size_binary(t)),
        "id": ("integers or strings", lambda t: types.is_integer(t) or types.is_string(t)),
        "vector": ("lists of floats", lambda t: types.is_list(t) and types.is_floating(t.value_type)),
        "metadata": ("JSON strings", types.is_string),
    }
    if "code" not in schema.names:
        raise InvalidInputError(f"{path} has no column `code`; it has {', '.join(schema.names)}.")
    columns = [name for name in wanted if name in schema.names]
    for name in columns:
        if schema.names.count(name) > 1:
            raise InvalidInputError(f"{path} has more than one column `{name}`. Keep one of them.")
        what, fits = wanted[name]
        kind = schema.field(name).type
        if not fits(kind):
            raise InvalidInputError(f"column `{name}` of {path} holds {kind}; expected {what}.")

    def batches() -> Iterator[Batch]:
        try:
            for batch in source.iter_batches(columns=columns, batch_size=ROWS):
                yield _ready(batch, columns, path)
        except (OSError, ValueError, NotImplementedError) as error:
            if isinstance(error, InvalidInputError):
                raise
            damage = CorruptExportError if record else InvalidInputError
            text = " ".join(str(error).split())
            raise damage(f"{path} is damaged ({text}). Write or fetch it again.") from None

    whole = None if record is None else read_record(record, path)
    rows = source.metadata.num_rows
    stream = batches()
    first = next(stream, None)
    width = 0 if first is None else first.X.shape[1]
    again = stream if first is None else chain([first], stream)
    return CodeFile(rows, width, iter(again), "vector" in columns, whole)


def _ready(batch: Any, columns: list[str], path: Path) -> Batch:
    for name in columns:
        missing = batch.column(name).null_count
        if missing and name != "metadata":
            raise InvalidInputError(f"column `{name}` of {path} has {missing} missing values.")
    rows = batch.column("code").to_pylist()
    lengths = {len(row) for row in rows}
    if len(lengths) > 1 or lengths == {0}:
        raise InvalidInputError(f"column `code` of {path} has codes of different lengths.")
    codes = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1)
    ids = batch.column("id").to_pylist() if "id" in columns else None
    if ids and isinstance(ids[0], int) and max(ids) >= 1 << 63:
        raise InvalidInputError(f"column `id` of {path} reaches {max(ids)}; ids must fit int64.")
    vectors = None
    if "vector" in columns:
        values = [len(row) for row in batch.column("vector").to_pylist()]
        if len(set(values)) > 1:
            raise InvalidInputError(f"column `vector` of {path} has lists of different lengths.")
        vectors = np.asarray(batch.column("vector").flatten()).reshape(len(rows), -1)
    notes = None
    if "metadata" in columns:
        try:
            texts = batch.column("metadata").to_pylist()
            notes = [None if text is None else json.loads(text) for text in texts]
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(f"column `metadata` of {path} is not JSON ({error}).") from None
    return Batch(codes, ids, notes, vectors)


READERS: dict[str, Callable[[Path, Companions], CodeFile]] = {
    ".npy": _open_npy,
    ".parquet": _open_parquet,
    ".faiss": _open_faiss,
    ".index": _open_faiss,
}


__all__ = ["import_codes"]
