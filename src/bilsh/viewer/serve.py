"""Running the page: a port on this machine, the address with its token, a browser."""

from __future__ import annotations

import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from bilsh.errors import InvalidInputError, optional


def serve(
    path: Path,
    *,
    images: Path | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    browser: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Show a store, an array file or a folder of images in the browser, until interrupted.

    Parameters
    ----------
    path : path
    images : path, optional
        Folder of the items' photographs.
    host : str
        Address to listen at: this machine only, unless another of its addresses is given.
    port : int
        0 takes a free one.
    browser : bool
        Open the address.
    say : callable
        Takes the lines that tell the address.
    """
    uvicorn = optional("uvicorn", "Looking at a store in the browser")
    optional("starlette", "Looking at a store in the browser")
    from bilsh.viewer.app import make_app
    from bilsh.viewer.guard import new_token
    from bilsh.viewer.session import Session

    session = Session(path, images)
    with _listening(host, port) as listener:
        port = listener.getsockname()[1]
        token = new_token()
        app = make_app(session, host=host, port=port, token=token)
        name = f"[{host}]" if ":" in host else host
        start = "" if session.items is not None else "bits"
        address = f"http://{name}:{port}/{start}?token={token}"
        session.warm_up()
        config = uvicorn.Config(
            app, log_level="error", access_log=False, lifespan="off", ws="none", server_header=False,
            limit_concurrency=64, timeout_keep_alive=30,
        )  # fmt: skip
        say(f"looking at {path}: {address}")
        say("Ctrl-C ends it")
        if browser:
            threading.Timer(0.3, webbrowser.open, (address,)).start()
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])
        session.close()


def _listening(host: str, port: int) -> socket.socket:
    try:
        address = ip_address(host)
    except ValueError:
        raise InvalidInputError(
            f"host must be an address of this machine, e.g. 127.0.0.1; got {host!r}."
        ) from None
    if address.is_unspecified:
        raise InvalidInputError(
            f"host must be the address that browsers will use, not {host}: each request is checked against it."
        )
    listener = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        raise InvalidInputError(
            f"port {port} of {host} cannot be used: {reason}. Choose another with --port, or none for a free one."
        ) from None
    listener.listen(64)
    return listener
