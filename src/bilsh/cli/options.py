"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bilsh.cli.show import switches


def _json(value: bool) -> None:
    switches.json = switches.json or value


def _quiet(value: bool) -> None:
    switches.quiet = switches.quiet or value


def _debug(value: bool) -> None:
    switches.debug = switches.debug or value


Json = Annotated[bool, typer.Option("--json", help="Answer as one JSON object.", callback=_json)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.", callback=_quiet)]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", callback=_debug)]
StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="Directory of the store.")]
Key = Annotated[str | None, typer.Option(help="Which array of an .npz, HDF5 or Parquet file.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, help="Threads. The bits do not depend on it.")]
