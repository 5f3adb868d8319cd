"""The routes under /api/v1: parameters in, one function called, plain values out."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any, cast

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from bilsh.errors import InvalidInputError
from bilsh.viewer import asked
from bilsh.viewer.jobs import Job
from bilsh.viewer.session import Session
from bilsh.viewer.uploads import MAX_BYTES
from bilsh.workflows.groups import stars
from bilsh.workflows.looking import WAYS, Asking, Way, neighbours, pair
from bilsh.workflows.meaning import LAWS, THRESHOLDS, Law, Thresholds, meaning
from bilsh.workflows.studying import study

SIDES = (160, 320, 640)
FOREVER = "private, max-age=31536000, immutable"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def session_of(request: Request) -> Session:
    """What this server looks at."""
    return cast(Session, request.app.state.session)


def store(request: Request) -> Response:
    """Tell what is looked at."""
    asked.known(request)
    return JSONResponse(session_of(request).facts())


def items(request: Request) -> Response:
    """Find items by a part of their id or caption."""
    asked.known(request, "q", "after", "limit")
    found = session_of(request).collection
    limit = asked.integer(request, "limit", 20)
    if not 1 <= limit <= 100:
        raise InvalidInputError(f"limit must be from 1 to 100; got {limit}.")
    rows = found.find(asked.words(request, "q"), asked.integer(request, "after", -1), limit)
    return JSONResponse(
        {"items": [{"row": row, "id": found.name(row), "caption": found.caption(row)} for row in rows]}
    )


def _neighbours(request: Request) -> dict[str, Any]:
    asked.known(request, "item", "query", "k", "mode", "confidence", "bits")
    session = session_of(request)
    key = request.query_params.get("query")
    if (key is None) == ("item" not in request.query_params):
        raise InvalidInputError("expected either item (a row) or query (an upload).")
    upload = None
    if key is None:
        asking = Asking(row=session.collection.check_row(asked.integer(request, "item")))
    else:
        upload = session.uploads.get(key)
        asking = Asking(vector=upload.vector, name=upload.name)
    found = neighbours(
        session.collection,
        asking,
        k=asked.integer(request, "k", 24),
        mode=cast(Way, asked.choice(request, "mode", WAYS)),
        confidence=asked.number(request, "confidence", 0.95, 0.5, 0.9999),
    )
    found["query"] |= {
        "note": None if upload is None else upload.note,
        "heat_map": upload is not None and upload.heat_map,
    }
    return found


def neighbours_json(request: Request) -> Response:
    """Neighbours at every length of code."""
    return JSONResponse(_neighbours(request))


def neighbours_csv(request: Request) -> Response:
    """Neighbours at one length, as a table."""
    found = _neighbours(request)
    lengths = [step["bits"] for step in found["ladder"]]
    bits = asked.integer(request, "bits", lengths[-1])
    if bits not in lengths:
        raise InvalidInputError(f"bits must be one of {', '.join(map(str, lengths))}; got {bits}.")
    step = found["ladder"][lengths.index(bits)]
    text = io.StringIO()
    columns = ("rank", "id", "distance", "similarity", "low", "high", "stands_out", "exact_distance",
               "true_rank", "true_similarity")  # fmt: skip
    table = csv.writer(text)
    table.writerow(("query", "bits", *columns))
    for hit in step["neighbors"]:
        low, high = hit["interval"] or (None, None)
        row = hit | {"low": low, "high": high}
        table.writerow((_safe(found["query"]["id"]), bits, *(_safe(row[name]) for name in columns)))
    return Response(
        text.getvalue(),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="neighbours.csv"'},
    )


def _safe(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula gets a quote in front."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def pair_json(request: Request) -> Response:
    """Two items beside each other."""
    asked.known(request, "a", "b", "confidence")
    confidence = asked.number(request, "confidence", 0.95, 0.5, 0.9999)
    rows = asked.integer(request, "a"), asked.integer(request, "b")
    return JSONResponse(pair(session_of(request).collection, *rows, confidence=confidence))


def curve(request: Request) -> Response:
    """Recall against bits; 202 while it is being measured."""
    asked.known(request)
    session = session_of(request)
    subject = session.path if session.items is None else session.items
    return _progress(session.jobs.ask("curve", lambda say: study(subject, say)))


def groups(request: Request) -> Response:
    """Near-duplicates; 202 while pairs are being compared."""
    asked.known(request, "min")
    session = session_of(request)
    found = session.collection
    band = found.background
    low = 0.0 if band is None or band.high is None else band.high
    least = asked.number(request, "min", round(low + 0.6 * (1 - low), 2), 0.0, 1.0)
    answer = session.jobs.ask(
        ("groups", least),
        lambda say: stars(found, least, progress=say),
    )
    if isinstance(answer, dict):
        answer = answer | {"background": None if band is None else {"low": band.low, "high": band.high}}
    return _progress(answer)


def _progress(answer: dict[str, Any] | Job) -> Response:
    if isinstance(answer, Job):
        return JSONResponse(
            {"progress": {"what": answer.what, "done": answer.done, "total": answer.total}}, 202
        )
    return JSONResponse(answer)


def meaning_json(request: Request) -> Response:
    """What a distance means, for any length."""
    asked.known(request, "bits", "kernel", "thresholds", "confidence")
    bits = asked.integer(request, "bits", 1024)
    if not 8 <= bits <= 1_000_000:
        raise InvalidInputError(f"bits must be from 8 to 1000000; got {bits}.")
    return JSONResponse(
        meaning(
            bits,
            cast(Law, asked.choice(request, "kernel", LAWS)),
            cast(Thresholds, asked.choice(request, "thresholds", THRESHOLDS)),
            confidence=asked.number(request, "confidence", 0.95, 0.5, 0.9999),
        )
    )


def thumb(request: Request) -> Response:
    """Picture of an item."""
    asked.known(request, "v")
    session = session_of(request)
    row = session.collection.check_row(int(request.path_params["row"]))
    return _picture(session.thumbnail(row, _side(request)))


def upload_thumb(request: Request) -> Response:
    """Picture of an upload."""
    asked.known(request)
    return _picture(session_of(request).uploads.get(request.path_params["query"]).picture)


def _side(request: Request) -> int:
    side = int(request.path_params["side"])
    if side not in SIDES:
        raise InvalidInputError(f"sides are {', '.join(map(str, SIDES))} pixels; got {side}.")
    return side


def _picture(data: bytes | None) -> Response:
    if data is None:
        return JSONResponse({"error": "there is no picture of this item."}, 404)
    return Response(data, media_type="image/webp", headers={"Cache-Control": FOREVER})


async def queries(request: Request) -> Response:
    """Take an image or .npy as a query: the raw body, at most 20 MB, kept in memory only."""
    asked.known(request, "name")
    name, found = asked.words(request, "name"), session_of(request)
    body = bytearray()
    claimed = request.headers.get("content-length", "0")
    if not claimed.isascii() or not claimed.isdigit() or int(claimed[:18]) > MAX_BYTES or len(claimed) > 18:
        return _too_large()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BYTES:
            return _too_large()
    items_ = found.collection
    key = await run_in_threadpool(found.uploads.add, bytes(body), name, items_)
    return JSONResponse({"query": key}, 201)


def _too_large() -> Response:
    return JSONResponse({"error": f"the file is larger than {MAX_BYTES // 10**6} MB; shrink it first."}, 413)


def routes() -> list[BaseRoute]:
    """All routes of the API."""
    paths: dict[str, Callable[[Request], Any]] = {
        "/store": store,
        "/items": items,
        "/neighbours": neighbours_json,
        "/neighbours.csv": neighbours_csv,
        "/pair": pair_json,
        "/curve": curve,
        "/groups": groups,
        "/meaning": meaning_json,
        "/thumb/{row:int}/{side:int}": thumb,
        "/queries/{query}/thumb": upload_thumb,
    }
    found: list[BaseRoute] = [Route(path, handler, methods=["GET"]) for path, handler in paths.items()]
    return [*found, Route("/queries", queries, methods=["POST"])]
