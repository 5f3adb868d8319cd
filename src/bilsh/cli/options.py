"""Options that several commands share; those that all of them have are declared and read here, once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.models import ArgumentInfo

from bilsh.cli.show import switches

Json = Annotated[bool, typer.Option("--json", help="Answer as one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Place = Annotated[
    str,
    typer.Argument(
        metavar="STORE", help="Directory of the store, or an engine's address (see `bilsh copy`)."
    ),
]
StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="Directory of the store.")]
Key = Annotated[
    str | None,
    typer.Option(
        help="Which array: member of an .npz, dataset of an HDF5 file (a/b), column of a Parquet file; or "
        "columns of a table, separated by commas."
    ),
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, help="Threads. The bits do not depend on it.")]
IdFile = Annotated[
    Path | None, typer.Option("--ids", help="File of ids: .npy of integers, or text with one id per line.")
]
IdColumn = Annotated[
    str | None, typer.Option("--id-column", help="Column or array of the source that holds the ids.")
]
OwnFunction = Annotated[
    str | None,
    typer.Option(
        "--describe", help="Your own function (module:function) that the store's images are described by."
    ),
]

Commands = dict[str, Callable[..., None]]

PLACES = {Path: "PATH", int: "N", float: "X", str: "TEXT"}
"""What stands for a value of a type in the help."""


def common(name: str, command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options --json, --quiet and --debug, and let them act before it runs."""

    @wraps(command)
    def run(*, json: bool, quiet: bool, debug: bool, **options: Any) -> None:
        switches.command, switches.json, switches.quiet, switches.debug = name, json, quiet, debug
        command(**options)

    own = {"json": Json, "quiet": Quiet, "debug": Debug}
    signature = inspect.signature(command, eval_str=True)
    for parameter in signature.parameters.values():
        _name_value(parameter)
    parameters = [
        *signature.parameters.values(),
        *(
            inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=a)
            for n, a in own.items()
        ),
    ]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {**command.__annotations__, **own}
    return run


def _name_value(parameter: inspect.Parameter) -> None:
    """Let the help say N or PATH where the parser would show the words of Python."""
    kind, info = get_args(parameter.annotation)
    if info.metavar is None and isinstance(info, ArgumentInfo):
        info.metavar = parameter.name.upper()
    elif info.metavar is None:
        kinds = {inner for part in (get_args(kind) or (kind,)) for inner in (get_args(part) or (part,))}
        info.metavar = next((place for type_, place in PLACES.items() if type_ in kinds), None)
