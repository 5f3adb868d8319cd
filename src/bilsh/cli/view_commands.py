"""The command that opens the page: view."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bilsh.cli import show
from bilsh.cli.options import Commands


def view(
    source: Annotated[
        Path, typer.Argument(help="Store; or array file or folder of images, before there is a store.")
    ],
    images: Annotated[
        Path | None, typer.Option(help="Folder of the items' photographs; that of `bilsh encode` is known.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 0,
    host: Annotated[str, typer.Option(help="Address of this machine to listen at.")] = "127.0.0.1",
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address, open nothing.")
    ] = False,
) -> None:
    """Look at a store in the browser: local, read-only.

    Neighbours, what their scores mean, how many bits it takes.

    \b
    Examples:
      bilsh view store/
      bilsh view store/ --images photos/
      bilsh view x.npy
    """
    from bilsh.viewer.serve import serve

    serve(source, images=images, host=host, port=port, browser=not no_browser, say=show.line)
    show.result({"source": str(source)})


COMMANDS: Commands = {"view": view}
