"""Small values that engines without a place for them keep in a file of JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bilsh.files import replace_file


def read_note(path: Path, name: str) -> Any:
    """Return what a file holds under a name; None for nothing."""
    return _read(path).get(name)


def write_note(path: Path, name: str, value: Any) -> None:
    """Replace the file by one that holds this too; None takes the name out."""
    notes = {**_read(path), name: value}
    with replace_file(path) as file:
        file.write(json.dumps({key: kept for key, kept in notes.items() if kept is not None}).encode())


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return {}
