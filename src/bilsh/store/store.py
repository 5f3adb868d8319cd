"""The store: codes, ids and the encoder that made them, durable on disk."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bilsh.encoders.coder import Coder
from bilsh.errors import (
    CorruptEncoderError,
    CorruptStoreError,
    InvalidInputError,
    InvalidTypeError,
)
from bilsh.search.scan import Memory
from bilsh.search.searchable import Searchable
from bilsh.store import maintenance
from bilsh.store.change import Change
from bilsh.store.files import Disk
from bilsh.store.ids import Names, as_names, as_strings, show
from bilsh.store.inputs import Rows, encoded, given_as, ready
from bilsh.store.items import Items, walk
from bilsh.store.maintenance import Verification, Version
from bilsh.store.manifest import Manifest, VectorKind, is_own_file
from bilsh.store.sections import FORMAT, FileRef, SectionWriter
from bilsh.store.segment import Segment, unmapped
from bilsh.store.snapshot import LOCK_NAME, Snapshot, list_versions, load, newest_version, open_snapshot
from bilsh.store.view import StoreView, external_ids
from bilsh.store.writer import Writer

if TYPE_CHECKING:
    from bilsh.encoders.base import Encoder


class Store(Searchable):
    """A directory of binary codes with their ids and their encoder, safe against crashes and damage.

    Open one with :meth:`create` or :meth:`open`. One process writes, any number read; a reader keeps seeing
    the version it opened until :meth:`refresh`. Each changing call is one transaction: when it returns it
    survives power loss, when it raises nothing of it is stored. More than 16 segments or 25 % deleted rows
    are merged within the same transaction.

    The last two versions stay on disk, so space is given back one change later, and :meth:`repair` can go
    back.
    """

    def __init__(
        self, disk: Disk, path: Path, snapshot: Snapshot, writer: Writer | None, use_map: bool
    ) -> None:
        self._disk, self._path, self._writer, self._use_map = disk, path, writer, use_map
        self._snapshot: Snapshot | None = snapshot
        self._encoder: Encoder | None = None
        self._coder: Coder | None = None
        self._memory = Memory()
        self._changing = threading.RLock()

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        encoder: Encoder | Coder,
        *,
        keep_vectors: VectorKind | None = None,
        mmap: bool = True,
        _disk: Disk | None = None,
    ) -> Self:
        """Make an empty store and open it for writing.

        Parameters
        ----------
        path : path
            A directory that does not exist yet, or is empty.
        encoder : fitted encoder
            A copy of it lives in the store and encodes items and queries.
        keep_vectors : "float32", "float16" or None
            Keep the items themselves too, for re-ranking by exact distance.
        mmap : bool
            As in :meth:`open`.
        """
        if keep_vectors not in (None, "float32", "float16"):
            raise InvalidInputError(
                f"keep_vectors must be 'float32', 'float16' or None; got {keep_vectors!r}."
            )
        coder = getattr(encoder, "coder_", encoder)
        if not isinstance(coder, Coder):
            raise InvalidTypeError(f"encoder must be a fitted bilsh encoder; got {type(encoder).__name__}.")
        disk, where = _disk or Disk(), Path(path)
        data, fingerprint = coder.to_bytes(), coder.fingerprint
        disk.make_directory(where)
        writer = Writer(disk, where)
        try:
            foreign = [name for name in disk.list(where) if not is_own_file(name) and name != LOCK_NAME]
            if foreign:
                what = (
                    "is a store already; open it with Store.open"
                    if list_versions(disk, where)
                    else "is not empty"
                )
                raise FileExistsError(f"{where} {what}. Store.create needs a new or empty directory.")
            with writer.change():
                disk.sync_directory(where.parent)
                file = SectionWriter(disk, writer.new_path("e", "enc"), b"ENCO", len(data), fingerprint)
                try:
                    file.section("encoder", "<u1", 1, [np.frombuffer(data, np.uint8)])
                    ref: FileRef = file.finish()
                finally:
                    file.abandon()
                manifest = Manifest(
                    format=FORMAT, version=1, time=int(time.time()), fingerprint=fingerprint,
                    n_bits=coder.n_bits, n_features=coder.n_features, id_kind=None,
                    next_id=0, keep_vectors=keep_vectors, encoder=ref, segments=(), deletes=None,
                    repaired_from=None,
                )  # fmt: skip
                snapshot = load(disk, where, manifest, mmap, None)
                writer.commit(manifest)
        except BaseException:
            writer.close()
            raise
        return cls(disk, where, snapshot, writer, mmap)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        mode: Literal["r", "a"] = "r",
        *,
        version: int | None = None,
        mmap: bool = True,
        _disk: Disk | None = None,
    ) -> Self:
        """Open a store.

        Parameters
        ----------
        path : path
        mode : "r" or "a"
            Read, or read and change. StoreBusyError when another writer is there.
        version : int or None
            Read an earlier version instead of the newest, see :meth:`versions`.
        mmap : bool
            Map files into memory. False reads them instead: for file systems where others may cut files
            short, which would kill a process that has them mapped.
        """
        if mode not in ("r", "a"):
            raise InvalidInputError(f"mode must be 'r' (read) or 'a' (read and change); got {mode!r}.")
        if mode == "a" and version is not None:
            raise InvalidInputError(
                "an earlier version can only be read. Use mode='r', or Store.repair to go back to it."
            )
        disk, where = _disk or Disk(), Path(path)
        if mode == "r":
            return cls(disk, where, open_snapshot(disk, where, version=version, use_map=mmap), None, mmap)
        newest_version(disk, where)  # no lock file is left where there is no store
        writer = Writer(disk, where)
        try:
            snapshot = open_snapshot(disk, where, version=None, use_map=mmap)
            writer.tidy(snapshot.manifest)
        except BaseException:
            writer.close()
            raise
        return cls(disk, where, snapshot, writer, mmap)

    def close(self) -> None:
        """Release the lock and the files; arrays handed out stay valid."""
        if self._writer:
            self._writer.close()
        self._writer = self._snapshot = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return self._now.manifest.n_alive

    def __repr__(self) -> str:
        if self._snapshot is None:
            return f"<bilsh.Store {str(self._path)!r}, closed>"
        manifest = self._snapshot.manifest
        return f"<bilsh.Store {str(self._path)!r}, {len(self)} items, version {manifest.version}>"

    @property
    def _now(self) -> Snapshot:
        if self._snapshot is None:
            raise InvalidInputError(f"the store at {self._path} is closed. Open it again with Store.open.")
        return self._snapshot

    @property
    def path(self) -> Path:
        """Directory of the store."""
        return self._path

    @property
    def version(self) -> int:
        """Number of the version this object sees."""
        return self._now.manifest.version

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the encoder."""
        return self._now.manifest.fingerprint

    @property
    def n_bits(self) -> int:
        """Length of a code."""
        return self._now.manifest.n_bits

    @property
    def id_kind(self) -> Literal["int", "str"] | None:
        """Kind of the ids, fixed by the first add."""
        return self._now.manifest.id_kind

    @property
    def keep_vectors(self) -> VectorKind | None:
        """How vectors are kept, None when they are not."""
        return self._now.manifest.keep_vectors

    @property
    def next_id(self) -> int:
        """Integer that the next item gets when ids are left out."""
        return self._now.manifest.next_id

    @property
    def encoder(self) -> Encoder:
        """The encoder, a scikit-learn estimator; read from the store when first asked for."""
        from bilsh.encoders.estimators import encoder_of

        if self._encoder is None:
            self._encoder = encoder_of(self.coder)
        return self._encoder

    @property
    def coder(self) -> Coder:
        """What encodes, without the estimator around it: enough for search, and quick to load."""
        if self._coder is None:
            file = self._now.encoder
            try:
                coder = Coder.from_bytes(self.encoder_data, file.name)
            except CorruptEncoderError as error:
                raise CorruptStoreError(
                    f"{file.name} holds no encoder that this bilsh can read: {error}"
                ) from error
            if coder.fingerprint != self.fingerprint:
                raise file.corrupt("holds another encoder than the manifest says")
            self._coder = coder
        return self._coder

    @property
    def encoder_data(self) -> bytes:
        """Content of the encoder's file, as :meth:`bilsh.KernelEncoder.save` would write it."""
        return self._now.encoder.array("encoder").tobytes()

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Segments of the version this object sees; for search, see :class:`bilsh.store.segment.Segment`."""
        return self._now.segments

    def refresh(self) -> None:
        """See the newest version from now on; files that stay are not checked again."""
        if self._writer is None:
            self._snapshot = open_snapshot(
                self._disk, self._path, version=None, use_map=self._use_map, known=self._now
            )

    def add(self, X: Any, ids: Any = None, *, metadata: Any = None, n_jobs: int | None = None) -> int:
        """Encode items and add them; durable when it returns.

        Parameters
        ----------
        X : array (n, d) or (n, d_w, d_v), or an iterator of :class:`bilsh.Batch`
            Items. Arrays larger than memory (numpy.memmap) are read in pieces. An iterator of batches, which
            carry their own ids and metadata, is a stream of any length; it is still one change.
        ids : (n,) integers or strings, or None
            None gives the next integers, from :attr:`next_id` on. Ids in use are refused.
        metadata : sequence of n JSON values, or None
            Small notes to keep with the items, at most 16 KiB of JSON each.
        n_jobs : int or None
            Threads that encode, as in scikit-learn; the codes do not depend on it.

        Returns
        -------
        int
            Number of items added.
        """
        given = given_as("X", X, ids=ids, metadata=metadata)
        return self._insert(encoded(self._now.manifest, lambda: self.coder, given, n_jobs), overwrite=False)

    def add_codes(
        self,
        codes: Any,
        ids: Any = None,
        *,
        vectors: Any = None,
        metadata: Any = None,
        fingerprint: str | None = None,
    ) -> int:
        """Add ready codes; durable when it returns.

        Parameters
        ----------
        codes : uint8 (n, ceil(n_bits / 8)), or an iterator of :class:`bilsh.Batch` with such X
        ids, metadata
            As in :meth:`add`.
        vectors : array (n, d) or (n, d_w, d_v), or None
            Items themselves; needed when the store keeps vectors, refused when it does not.
        fingerprint : str or None
            Fingerprint of the encoder that made the codes; another one than the store's is refused.
        """
        given = given_as("codes", codes, ids=ids, vectors=vectors, metadata=metadata)
        return self._insert(ready(self._now.manifest, given, fingerprint), overwrite=False)

    def upsert(self, X: Any, ids: Any = None, *, metadata: Any = None, n_jobs: int | None = None) -> int:
        """Encode items and add them, in place of items with the same ids; otherwise as :meth:`add`."""
        given = given_as("X", X, ids=ids, metadata=metadata)
        return self._insert(encoded(self._now.manifest, lambda: self.coder, given, n_jobs), overwrite=True)

    def delete(self, ids: ArrayLike) -> int:
        """Delete items; durable when it returns. Ids that are not there are passed over.

        Returns
        -------
        int
            Number of items deleted; an id given twice is one item.
        """
        with self._change() as change:
            return change.delete(as_names(ids, change.id_kind, unique=False))

    def compact(self) -> None:
        """Rewrite everything as one segment without deleted rows; needs that much free space for a while."""
        with self._change() as change:
            change.merge_all()

    def verify(self, deep: bool = False) -> Verification:
        """Check the newest version on disk; CorruptStoreError names every damaged file.

        Quick: sizes and headers of all files. Deep: every byte, and every cross-reference between sections.
        """
        result = maintenance.verify(self._disk, self._path, deep)
        if deep:
            self._encoder = self._coder = None
            _ = self.coder
        return result

    @staticmethod
    def exists(path: str | os.PathLike[str], *, _disk: Disk | None = None) -> bool:
        """Tell whether there is a store at `path`, be it readable or damaged."""
        try:
            return bool(list_versions(_disk or Disk(), Path(path)))
        except (FileNotFoundError, NotADirectoryError):
            return False

    @staticmethod
    def versions(path: str | os.PathLike[str], *, _disk: Disk | None = None) -> list[Version]:
        """Versions a store can be read at or repaired to, oldest first; works on damaged stores."""
        return maintenance.versions(_disk or Disk(), Path(path))

    @staticmethod
    def repair(path: str | os.PathLike[str], to_version: int, *, _disk: Disk | None = None) -> int:
        """Go back to an earlier version of a damaged store, after checking every byte of it.

        It becomes a new newest version, whose number is returned; nothing is removed before the next change.
        """
        return maintenance.repair(_disk or Disk(), Path(path), to_version)

    def get(self, ids: ArrayLike) -> Items:
        """Items by their ids, in the order asked for."""
        names = as_names(ids, self.id_kind, unique=False)
        where, rows = self._now.find(names)
        missing = np.flatnonzero(where < 0)
        if len(missing):
            count = (
                f" ({len(missing)} of the {len(names)} ids asked for are missing)" if len(names) > 1 else ""
            )
            raise InvalidInputError(f"id {show(names, int(missing[0]))} is not in the store{count}.")
        manifest = self._now.manifest
        codes = np.empty((len(names), -(-manifest.n_bits // 8)), dtype=np.uint8)
        kept = manifest.keep_vectors
        vectors = np.empty((len(names), manifest.n_features), dtype=kept) if kept else None
        metadata: list[Any] = [None] * len(names)
        for number in np.unique(where).tolist():
            segment, mine = self.segments[number], np.flatnonzero(where == number)
            codes[mine] = segment.codes_at(rows[mine])
            if vectors is not None:
                vectors[mine] = segment.file.take("vectors", rows[mine])
            for place, value in zip(mine.tolist(), segment.metadata_at(rows[mine]), strict=True):
                metadata[place] = value
        return Items(_given(names), codes, vectors, metadata)

    def batches(self, size: int = 4096) -> Iterator[Items]:
        """Walk through all items of the version seen now, at most `size` at a time, in bounded memory."""
        if not isinstance(size, int) or size < 1:
            raise InvalidInputError(f"size must be a positive integer; got {size!r}.")
        return (items for segment in self.segments for items in walk(segment, size))

    def external_ids(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """Ids as the caller knows them, for ids of segments: the same integers, or strings behind them."""
        return external_ids(self._now, ids)

    def _view(self) -> StoreView:
        snapshot = self._now
        # Mapped segments are read where they lie; where mapping is unwelcome, memory holds one window at a time.
        segments: list[Any] = list(snapshot.segments)
        if not self._use_map:
            segments = [window for segment in snapshot.segments for window in unmapped(segment)]
        return StoreView(
            segments, snapshot.manifest.n_bits, self.coder, memory=self._memory, snapshot=snapshot
        )

    def _insert(self, batches: Iterator[Rows], *, overwrite: bool) -> int:
        count = 0
        with self._change() as change:
            for rows in batches:
                if overwrite and rows.ids is None:
                    raise InvalidInputError(
                        "upsert needs ids: they say which items to replace. Use add for new items."
                    )
                names = None if rows.ids is None else as_names(rows.ids, change.id_kind)
                change.insert(rows.codes, names, rows.vectors, rows.metadata, overwrite=overwrite)
                count += len(rows.codes)
        return count

    @contextmanager
    def _change(self) -> Iterator[Change]:
        """Commit a change when the block ends well, and see it from then on; else leave no trace."""
        with self._changing:
            now = self._now
            if self._writer is None:
                raise InvalidInputError(
                    "this store is open for reading. Open it with Store.open(path, mode='a') to change it."
                )
            with self._writer.change():
                change = Change(self._writer, now, self._use_map)
                yield change
                self._snapshot = change.commit()


def _given(names: Names) -> NDArray[Any]:
    return names.ints if names.ints is not None else as_strings(names.keys or [])
