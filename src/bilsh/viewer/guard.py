"""Who may ask: this machine's browser, with the token of the first address, from this very page.

Other web pages can make a browser send requests to a local server, and can point names of their own at it. So each
request must name the right host and port (against rebinding), come from no other site, and carry the cookie that
only the address printed at start gives.
"""

from __future__ import annotations

import secrets
from hmac import compare_digest
from urllib.parse import urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
MAX_TARGET = 4096
"""Longest path and query that is looked at."""


def new_token() -> str:
    """Return a secret for one run of the server."""
    return secrets.token_urlsafe(24)


class Guard:
    """ASGI middleware that lets only the page itself through.

    Parameters
    ----------
    app : ASGI application
    host : str
        Host that browsers name, e.g. "127.0.0.1"; on loopback "localhost" is welcome too.
    port : int
    token : str
    """

    def __init__(self, app: ASGIApp, *, host: str, port: int, token: str) -> None:
        self._app, self._token = app, token
        names = {host, "localhost"} if host in ("127.0.0.1", "::1") else {host}
        self._hosts = {f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names}
        self._origins = {f"http://{name}" for name in self._hosts}
        self.cookie = f"bilsh_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the request pass."""
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        answer = self._refusal(scope) or self._entry(scope)
        await (answer or self._app)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if headers.getlist("host") == [] or any(h not in self._hosts for h in headers.getlist("host")):
            return PlainTextResponse("This server answers under its own address only.", 421)
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return PlainTextResponse("Requests from other sites are refused.", 403)
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins:
            return PlainTextResponse("Requests from other sites are refused.", 403)
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MAX_TARGET:
            return JSONResponse({"error": f"the address is longer than {MAX_TARGET} characters."}, 414)
        return None

    def _entry(self, scope: Scope) -> Response | None:
        """Ask for the cookie; the token in the first address becomes one, and disappears from the address."""
        request = Request(scope)
        given = request.query_params.getlist("token")
        if given and scope["method"] == "GET":
            if not compare_digest(given[0].encode(), self._token.encode()):
                return self._stranger(scope)
            rest = urlencode([pair for pair in request.query_params.multi_items() if pair[0] != "token"])
            # One slash: a path that begins with two would lead to another host.
            path = "/" + request.url.path.lstrip("/\\")
            answer = RedirectResponse(path + (f"?{rest}" if rest else ""), 303)
            answer.set_cookie(self.cookie, self._token, httponly=True, samesite="strict", path="/")
            return answer
        found = request.cookies.get(self.cookie, "")
        return None if compare_digest(found.encode(), self._token.encode()) else self._stranger(scope)

    def _stranger(self, scope: Scope) -> Response:
        text = "Open the address that `bilsh view` printed: it has the token that this page asks for."
        if scope["path"].startswith("/api/"):
            return JSONResponse({"error": text}, 401)
        return PlainTextResponse(text, 401)
