"""The store: codes, ids and the encoder that made them, durable on disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from numpy.typing import ArrayLike

from bilsh.encoders.coder import Coder
from bilsh.encoders.foreign import BitPacking
from bilsh.errors import InvalidInputError, InvalidTypeError
from bilsh.forks import Lock
from bilsh.search.scan import Memory
from bilsh.store import space
from bilsh.store.calibrating import Calibrating, Measured
from bilsh.store.change import Change
from bilsh.store.creation import coder_for, first_version, refuse_contents
from bilsh.store.files import Directory, Disk
from bilsh.store.ids import as_names
from bilsh.store.inputs import Rows, encoded, given_as, ready
from bilsh.store.manifest import VectorKind
from bilsh.store.searching import StoreView
from bilsh.store.snapshot import Snapshot, open_directory, open_snapshot, refuse_nothing
from bilsh.store.writer import Writer

if TYPE_CHECKING:
    from bilsh.encoders.base import Encoder
    from bilsh.store.salvage import Salvage


class Store(Calibrating):
    """A directory of binary codes with their ids and their encoder, safe against crashes and damage.

    Open one with :meth:`create` or :meth:`open`. One process writes, any number read; a reader keeps seeing
    the version it opened until :meth:`refresh`. Each changing call is one transaction: when it returns it
    survives power loss, when it raises nothing of it is stored. More than 16 segments or 25 % deleted rows
    are merged within the same transaction.

    Any number of threads may read one object, each call from one version; changes of one object wait for
    each other, and one that begins within another is refused. After a fork the child may read, not write.

    The last two versions stay on disk, so space is given back one change later, and :meth:`repair` can go
    back.
    """

    def __init__(
        self,
        disk: Disk,
        directory: Directory,
        snapshot: Snapshot,
        writer: Writer | None,
        use_map: bool,
        recheck: bool = False,
    ) -> None:
        super().__init__(directory, snapshot, recheck)
        self._disk = disk
        self._writer, self._use_map = writer, use_map
        self._encoder: Encoder | None = None
        self._coder: Coder | None = None
        self._memory = Memory()
        self._measured = Measured()
        self._changing, self._changer = Lock(), (0, 0)
        self._refreshing, self._calibrating = Lock(), Lock()

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        encoder: Encoder | Coder | None = None,
        *,
        n_bits: int | None = None,
        bits: str | None = None,
        bitorder: BitPacking = "little",
        keep_vectors: VectorKind | None = None,
        mmap: bool = True,
        _disk: Disk | None = None,
    ) -> Self:
        """Make an empty store and open it for writing.

        Parameters
        ----------
        path : path
            A directory that does not exist yet, or is empty.
        encoder : fitted encoder, optional
            A copy of it lives in the store and encodes items and queries.
        n_bits : int, optional
            Instead of an encoder: the length of codes that are made elsewhere.
        bits : None, "sign" or "sign of a rotation"
            What their bits are. None: known by their distances only. "sign": bit r is [value r >= 0], so that values
            can be items and queries. "sign of a rotation": besides, the fraction of differing bits tells the angle, and
            answers carry similarities.
        bitorder : "little" or "big"
            How they are packed, as in numpy.packbits, whose default is "big". Codes go in and come out so.
        keep_vectors : "float32", "float16" or None
            Keep the items themselves too, for re-ranking by exact distance.
        mmap : bool
            As in :meth:`open`.
        """
        if keep_vectors not in (None, "float32", "float16"):
            raise InvalidInputError(
                f"keep_vectors must be 'float32', 'float16' or None; got {keep_vectors!r}."
            )
        coder = coder_for(encoder, n_bits, bits, bitorder)
        disk, where = _disk or Disk(), Path(path)
        disk.make_directory(where)
        directory = disk.directory(where)
        writer = Writer(directory)
        try:
            refuse_contents(directory)
            with writer.change():
                disk.sync_parent(where)
                snapshot = first_version(writer, coder, keep_vectors, mmap)
        except BaseException:
            writer.close()
            raise
        return cls(disk, directory, snapshot, writer, mmap)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        mode: Literal["r", "a"] = "r",
        *,
        version: int | None = None,
        mmap: bool = True,
        recheck: bool = False,
        log: bool = True,
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
        recheck : bool
            Check what is read whenever it is used, not only the first time; see also :meth:`scrub`. Searching
            then costs a pass over the codes more.
        log : bool
            Put small changes that follow each other into a log, which is quick. False makes each a segment, so
            that segments do not depend on when the store was opened.
        """
        if mode not in ("r", "a"):
            raise InvalidInputError(f"mode must be 'r' (read) or 'a' (read and change); got {mode!r}.")
        if mode == "a" and version is not None:
            raise InvalidInputError(
                "an earlier version can only be read. Use mode='r', or Store.repair to go back to it."
            )
        disk = _disk or Disk()
        directory = open_directory(disk, Path(path))
        if mode == "r":
            snapshot = open_snapshot(directory, version=version, use_map=mmap)
            return cls(disk, directory, snapshot, None, mmap, recheck)
        refuse_nothing(directory)  # no lock file is left where there is no store
        writer = Writer(directory, use_log=log)
        try:
            snapshot = open_snapshot(directory, version=None, use_map=mmap)
            writer.tidy(snapshot.manifest)
        except BaseException:
            writer.close()
            raise
        return cls(disk, directory, snapshot, writer, mmap, recheck)

    def close(self) -> None:
        """Release the lock and the files, after a change of another thread; arrays handed out stay valid."""
        self._refuse_within()
        with self._changing:
            if self._writer:
                self._writer.close()
            self._writer = self._snapshot = self._directory = None

    def __reduce__(self) -> Any:
        """Readers travel between processes as their path and version; a writer stays where it is."""
        if self._writer is not None:
            raise InvalidTypeError("a store that is open for writing cannot be pickled. Open it for reading.")
        return _reopened, (type(self), self.path.absolute(), self.version, self._use_map)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def encoder(self) -> Encoder:
        """The encoder, a scikit-learn estimator; read from the store when first asked for."""
        from bilsh.encoders.loading import encoder_of

        if self.coder.kind == "foreign":
            raise InvalidTypeError(
                "this store's codes were made elsewhere: it has no encoder. See store.coder."
            )
        if self._encoder is None:
            self._encoder = encoder_of(self.coder)
        return self._encoder

    @property
    def coder(self) -> Coder:
        """What encodes, without the estimator around it: enough for search, and quick to load."""
        if self._coder is None:
            self._coder = self._now.coder()
        return self._coder

    def refresh(self) -> None:
        """See the newest version from now on; files that stay are not checked again."""
        if self._writer is None:
            with self._refreshing:
                now = self._now
                self._snapshot = open_snapshot(self._place, version=None, use_map=self._use_map, known=now)
                self._measured = Measured()

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
            Fingerprint of the encoder that made the codes; another one than the store's is refused. "unchecked" takes
            your word that they are this encoder's. Stores of codes that are made elsewhere need none.
        """
        given = given_as("codes", codes, ids=ids, vectors=vectors, metadata=metadata)
        return self._insert(ready(self._now.manifest, self.coder, given, fingerprint), overwrite=False)

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

        def attempt() -> int:
            with self._change() as change:
                return change.delete(as_names(ids, change.id_kind, unique=False))

        return space.with_reserve(self._writing(), attempt)

    def compact(self) -> None:
        """Rewrite everything as one segment without deleted rows; needs that much free space for a while.

        Where there is less, segments are rewritten one after the other, and the version before is given up.
        """
        space.compact(self._writing(), self._change)

    @classmethod
    def salvage(
        cls,
        path: str | os.PathLike[str],
        to: str | os.PathLike[str],
        *,
        _disk: Disk | None = None,
    ) -> Salvage:
        """Make a new store of the whole segments in a directory whose manifests are lost; that one is only read.

        Deleted items may be back, and of items with the same id the one written last is taken: manifests knew
        better. Where one is left, :meth:`repair` is the better way.

        Parameters
        ----------
        path : path
            Directory with the encoder (`e-....enc`) and segments (`s-....seg`).
        to : path
            New store.
        """
        from bilsh.store.salvage import Salvage, look_for_segments, refill

        finds = look_for_segments(open_directory(_disk or Disk(), Path(path)))
        with cls.create(
            to, Coder.from_bytes(finds.encoder), keep_vectors=finds.keep_vectors, _disk=_disk
        ) as store:
            with store._change() as change:
                refill(change, finds)
            names = tuple(segment.file.name for segment in finds.segments)
            return Salvage(len(store), names, finds.skipped)

    def _view(self) -> StoreView:
        now, measured = self._now, self._measured
        return StoreView.of(now, self.coder, self._memory, self._use_map, self._samples(now, measured))

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

    def _writing(self) -> Writer:
        _, writer = self._now, self._writer
        if writer is None:
            raise InvalidInputError(
                "this store is open for reading. Open it with Store.open(path, mode='a') to change it."
            )
        writer.refuse_children()
        return writer

    @contextmanager
    def _change(self, kind: type[Change] = Change) -> Iterator[Change]:
        """Commit a change when the block ends well, and see it from then on; else leave no trace."""
        self._refuse_within()
        writer = self._writing()
        with self._changing:
            now = self._now
            self._changer = os.getpid(), threading.get_ident()
            try:
                writer.begin()
                change = kind(writer, now, self._use_map)
                try:
                    yield change
                    self._snapshot = change.commit()
                except BaseException as error:
                    space.let_go(change, error)
                    writer.abandon(error)
                    raise
            finally:
                self._changer = 0, 0

    def _refuse_within(self) -> None:
        """Refuse what cannot happen in the middle of a change."""
        if self._changer == (os.getpid(), threading.get_ident()):
            raise InvalidInputError(
                "a change of this store is going on in this thread: it cannot be changed or closed from within the "
                "iterator that feeds it. Finish one change before the next."
            )


def _reopened(kind: type[Store], path: Path, version: int, use_map: bool) -> Store:
    return kind.open(path, version=version, mmap=use_map)
