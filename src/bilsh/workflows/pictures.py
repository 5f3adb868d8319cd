"""Small pictures of items: of the photographs they were made from, or of their descriptors as heat maps."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bilsh.datasets.images import SUFFIXES
from bilsh.datasets.images import images as images_of
from bilsh.datasets.thumbnails import heat_map, thumbnail
from bilsh.errors import DataNotFoundError
from bilsh.workflows.collection import Collection


class Pictures:
    """Where the pictures of a collection's items are.

    Parameters
    ----------
    items : Collection
    folder : path, optional
        Folder of images; by default the one that the store was made from. Text ids are paths in it; whole numbers
        count its images in the order of their names.
    """

    def __init__(self, items: Collection, folder: Path | None = None) -> None:
        self._items = items
        if folder is None and items.recipe is not None:
            made_from = Path(items.recipe.source["path"])
            folder = made_from if made_from.is_dir() else None
        elif folder is not None and not folder.is_dir():
            raise DataNotFoundError(f"{folder} is not a folder. Give the folder that holds the images.")
        self.folder = folder
        self._listed: list[Path] | None = None

    def path(self, row: int) -> Path | None:
        """Photograph of an item; None where there is none inside the folder."""
        if self.folder is None:
            return None
        if not self._items.strings:
            return self._numbered(int(self._items.ids[row]))
        root = self.folder.resolve()
        try:
            found = (root / self._items.name(row)).resolve()
            inside = found.is_relative_to(root) and found.suffix.lower() in SUFFIXES and found.is_file()
        except (OSError, ValueError):  # names that no file can have
            return None
        return found if inside else None

    def _numbered(self, number: int) -> Path | None:
        if self._listed is None:
            self._listed = images_of(self.folder).paths if self.folder is not None else []
        return self._listed[number] if 0 <= number < len(self._listed) else None

    def kind(self, row: int) -> str:
        """What there is to show: "photo", "heat map" or "none"."""
        if self.path(row) is not None:
            return "photo"
        return "none" if self._items.vectors is None else "heat map"

    def thumbnail(self, row: int, side: int) -> bytes | None:
        """Picture of an item as WebP, at most `side` pixels wide and high; None where there is nothing to show."""
        path = self.path(row)
        if path is not None:
            try:
                made = thumbnail(np.fromfile(path, dtype=np.uint8), side)
            except OSError:
                made = None
            if made is not None:
                return made
        return None if self._items.vectors is None else heat_map(self._items.items([row])[0], side)
