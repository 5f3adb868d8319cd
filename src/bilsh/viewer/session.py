"""What one run of the page looks at, and what it keeps in memory meanwhile."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, cast

import bilsh
from bilsh.errors import BilshError, DataNotFoundError, InvalidInputError
from bilsh.store import Store
from bilsh.viewer.jobs import PATIENCE, Jobs
from bilsh.viewer.uploads import Uploads
from bilsh.workflows.collection import Collection
from bilsh.workflows.pictures import Pictures

THUMB_BYTES = 64 << 20
"""Thumbnails kept in memory."""


class Session:
    """A store, an array file or a folder of images that is being looked at.

    Parameters
    ----------
    path : path
    images : path, optional
        Folder of the items' photographs, see :class:`bilsh.workflows.pictures.Pictures`.
    """

    def __init__(self, path: Path, images: Path | None = None) -> None:
        if not path.exists():
            raise DataNotFoundError(
                f"there is nothing at {path}. Give a store, an array file or a folder of images."
            )
        self.path = path
        self.items: Collection | None = Collection(path) if Store.exists(path) else None
        self.pictures = None if self.items is None else Pictures(self.items, images)
        self.uploads, self.jobs = Uploads(), Jobs()
        self._thumbs: OrderedDict[tuple[int, int], bytes | None] = OrderedDict()
        self._size, self._lock = 0, Lock()
        self._closing, self._warming = Event(), cast("Thread | None", None)

    def warm_up(self) -> None:
        """Prepare, beside the first requests, what the first answer needs."""

        def prepare(items: Collection) -> None:
            for bits in reversed(items.ladder):
                if not self._closing.is_set():
                    items.index(bits)

        if self.items is not None and len(self.items):
            self._warming = Thread(target=prepare, args=(self.items,), daemon=True)
            self._warming.start()

    def close(self) -> None:
        """End what is going on beside the requests, at its next step."""
        self._closing.set()
        self.jobs.close()
        if self._warming is not None:
            self._warming.join(PATIENCE)

    @property
    def collection(self) -> Collection:
        """The store's items; an array file or folder has none."""
        if self.items is None:
            raise InvalidInputError(
                f"{self.path.name} is not a store: neighbours need codes. Make one with `bilsh encode`."
            )
        return self.items

    def facts(self) -> dict[str, Any]:
        """Tell what is looked at."""
        name = self.path.resolve().name
        if self.items is None:
            kind = "folder" if self.path.is_dir() else "array"
            return {"name": name, "kind": kind, "bilsh": bilsh.__version__}
        items = self.items
        return {
            "name": name,
            "kind": "store",
            "bilsh": bilsh.__version__,
            "items": len(items),
            "bits": items.n_bits,
            "codes": items.coder.kind,
            "quantity": items.quantity,
            "ladder": list(items.ladder),
            "vectors": items.vectors is not None,
            "no_truth": items.no_truth,
            "uploads": items.coder.kind != "foreign",
            "images": items.recipe is not None,
            "source": items.source,
            "pictures": self.pictures is not None and len(items) > 0 and self.pictures.kind(0) != "none",
            "heat_maps": self.pictures is not None and len(items) > 0 and self.pictures.kind(0) == "heat map",
            "fingerprint": items.fingerprint,
            "version": items.version,
            "news": self._news(items),
        }

    def _news(self, items: Collection) -> str | None:
        """Say what has become of the store since it was opened."""
        try:
            with Store.open(self.path) as store:
                newest = store.version
        except (BilshError, OSError):
            return (
                "The store cannot be read any more: it was moved, removed or damaged. You see it as it was when it was "
                "opened; `bilsh verify` tells more."
            )
        if newest == items.version:
            return None
        seen = f"version {newest}, you see version {items.version}"
        return f"The store has changed since: {seen}. Start `bilsh view` again to see it."

    def thumbnail(self, row: int, side: int) -> bytes | None:
        """Picture of an item, made once; None where there is nothing to show."""
        key = row, side
        with self._lock:
            if key in self._thumbs:
                self._thumbs.move_to_end(key)
                return self._thumbs[key]
        made = None if self.pictures is None else self.pictures.thumbnail(row, side)
        with self._lock:
            if key not in self._thumbs:
                self._thumbs[key] = made
                self._size += len(made or b"")
            while self._size > THUMB_BYTES and self._thumbs:
                self._size -= len(self._thumbs.popitem(last=False)[1] or b"")
        return made
