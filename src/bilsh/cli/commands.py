"""The program and all its commands: those that fill and ask stores, look after them, and study data and methods."""

from __future__ import annotations

from typing import Annotated

import typer

from bilsh.cli import (
    care_commands,
    cell_commands,
    engine_commands,
    store_commands,
    study_commands,
    view_commands,
)
from bilsh.cli.options import Commands, common
from bilsh.cli.program import Program

app = typer.Typer(
    cls=Program,
    name="bilsh",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Binary codes whose Hamming distance tells similarity: encode, store, search.

\b
Start here:
  bilsh demo                              the five-minute story, offline
  bilsh encode photos/ -o store/          your own images, or an array file
  bilsh search store/ --query photo.jpg   what looks like it, and how sure
  bilsh view store/                       the same in your browser

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 damaged data.""",
)


def _version(value: bool) -> None:
    if value:
        import bilsh

        print(f"bilsh {bilsh.__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


COMMANDS: Commands = {
    **store_commands.COMMANDS,
    **care_commands.COMMANDS,
    **engine_commands.COMMANDS,
    **cell_commands.COMMANDS,
    **study_commands.COMMANDS,
    **view_commands.COMMANDS,
}
for _name, _command in COMMANDS.items():
    app.command(_name)(common(_name, _command))
