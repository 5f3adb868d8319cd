"""Commands beyond one store: copy."""

from __future__ import annotations

from typing import Annotated

import typer

from bilsh.cli import show
from bilsh.cli.options import Commands
from bilsh.cli.progress import Progress


def copy(
    source: Annotated[
        str, typer.Argument(metavar="SRC", help="Directory of a store, or an engine's address.")
    ],
    destination: Annotated[str, typer.Argument(metavar="DST", help="Where to: the same kinds of addresses.")],
    batch: Annotated[
        int | None, typer.Option(min=1, help="Items per write; default: by their length.")
    ] = None,
) -> None:
    """Copy a store into another engine, or from one to another.

    Codes, ids, metadata and the encoder go along, and both are compared at the end.
    A copy that was cut off goes on when the same command is run again. Addresses: a directory (a store),
    faiss:file, lance:dir, postgresql://user@host/database?table=codes (also schema=, extension=vector or none),
    milvus://host:19530/name. `bilsh info`, `search`, `delete` and `verify` take them too.

    \b
    Examples:
      bilsh copy store/ 'postgresql://me@db.example/photos?table=codes'
      bilsh copy store/ milvus://localhost:19530/photos
      bilsh copy faiss:photos.faiss store/
    """
    from dataclasses import asdict

    from bilsh.workflows import copying

    with Progress() as progress:
        done = copying.copy(source, destination, batch=batch, progress=progress)
    for message in done.notes:
        show.note(f"note: {message}")
    went_on = " (went on with a copy that was cut off)" if done.resumed else ""
    show.result(
        asdict(done),
        [
            f"{show.items(done.items)} of {done.bits:,} bits in {show.clean(done.destination)}, "
            f"{done.written:,} written now{went_on}",
            f"both sides read and equal: {done.sha256}",
        ],
    )


COMMANDS: Commands = {"copy": copy}
