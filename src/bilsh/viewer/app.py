"""The application: API, front end, errors in one sentence, guard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from bilsh.errors import BilshError, CorruptEncoderError, CorruptStoreError, DataNotFoundError
from bilsh.viewer import api
from bilsh.viewer.guard import Guard
from bilsh.viewer.session import Session

STATIC = Path(__file__).parent / "static"
PAGES = ("/", "/pair", "/bits", "/groups", "/meaning")


def make_app(session: Session, *, host: str, port: int, token: str) -> Starlette:
    """Return the application for one session.

    Parameters
    ----------
    session : Session
        What is looked at.
    host, port
        Under which browsers reach it.
    token : str
        What the first request must know.
    """
    frame = (STATIC / "index.html").read_text("utf-8")

    def page(request: Request) -> Response:
        return HTMLResponse(frame)

    app = Starlette(
        routes=[
            *(Route(path, page, methods=["GET"]) for path in PAGES),
            Route("/favicon.ico", lambda request: Response(status_code=204), methods=["GET"]),
            Mount("/static", StaticFiles(directory=STATIC)),
            Mount("/api/v1", routes=api.routes()),
        ],
        middleware=[
            Middleware(Guard, host=host, port=port, token=token),
            Middleware(GZipMiddleware, minimum_size=500, compresslevel=5),
        ],
        exception_handlers={
            BilshError: _told,
            OSError: _told,
            MemoryError: _told,
            HTTPException: _http,
            ClientDisconnect: _gone,
            Exception: _unforeseen,
        },
    )
    app.state.session = session
    return app


def _told(request: Request, error: Exception) -> Response:
    status = 400
    if isinstance(error, DataNotFoundError):
        status = 404
    elif isinstance(error, CorruptStoreError | CorruptEncoderError):
        status = 409
    elif isinstance(error, MemoryError):
        return JSONResponse({"error": "not enough memory for this. Ask for less."}, 503)
    elif not isinstance(error, BilshError):
        return JSONResponse({"error": "a file could not be read. Is it still there?"}, 409)
    return JSONResponse({"error": str(error)}, status)


def _http(request: Request, error: Any) -> Response:
    text = {404: "there is no such page.", 405: "this address is for another method."}
    told = text.get(error.status_code, str(error.detail))
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": told}, error.status_code)
    return PlainTextResponse(told, error.status_code)


def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=400)


def _unforeseen(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "this should not happen; the terminal shows where."}, 500)
