"""Random requests over all routes: no answer is a 500. BILSH_FUZZ=10000 asks for the full count."""

import os
import random
import string

import pytest

from bilsh.viewer.api import routes

COUNT = int(os.environ.get("BILSH_FUZZ", "400"))
NAMES = ["item", "query", "k", "mode", "confidence", "bits", "a", "b", "min", "kernel", "thresholds"]
NAMES += ["q", "after", "limit", "v", "token", "name", "vs", ""]
PLAIN = [
    "0",
    "1",
    "7",
    "49",
    "-1",
    "239",
    "240",
    "64",
    "128",
    "256",
    "0.5",
    "0.95",
    "item",
    "angle",
    "gaussian",
]
PLAIN += ["hamming", "asymmetric", "reranked", "zero", "random"]
ODD = [
    "",
    "NaN",
    "inf",
    "-inf",
    "1e309",
    "0x10",
    "٣",
    "1_000",
    "9" * 18,
    "9" * 40,
    "-0",
    " 1",
    "1 ",
    "%00",
    "%ff%fe",
]
ODD += [
    "null",
    "[]",
    "{}",
    "true",
    "'",
    '"',
    "<script>",
    "../..",
    "é",
    "🙂",
    "%F0%9F%99%82",
    "a" * 300,
    "1;2",
    "1&2",
]
METHODS = ["GET"] * 12 + ["POST", "HEAD", "PUT", "OPTIONS", "DELETE"]


def random_request(rng):
    patterns = [f"/api/v1{route.path}" for route in routes()] + [
        "/",
        "/pair",
        "/bits",
        "/static/main.js",
        "/static/",
        "/x",
    ]
    path = rng.choice(patterns)
    for name in ("{row:int}", "{side:int}", "{query}"):
        value = (
            rng.choice([*PLAIN, "160", "320", *ODD])
            if rng.random() < 0.8
            else "".join(rng.choices(string.printable, k=5))
        )
        path = path.replace(name, value.replace("?", "").replace("#", "") or "0")
    pairs = []
    for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4])):
        pairs.append(f"{rng.choice(NAMES)}={rng.choice(PLAIN if rng.random() < 0.7 else ODD)}")
    if rng.random() < 0.5 and "neighbours" in path:
        pairs.append(f"item={rng.randrange(60)}")
    if rng.random() < 0.5 and path.endswith("/pair"):
        pairs += [f"a={rng.randrange(60)}", f"b={rng.randrange(60)}"]
    body = rng.randbytes(rng.choice([0, 1, 10, 1000])) if rng.random() < 0.3 else b""
    if body and rng.random() < 0.5:
        body = (
            rng.choice(
                [b"\x93NUMPY\x01\x00", b"\x89PNG\r\n\x1a\n", b"\xff\xd8", b"RIFF", b"II", b"BM", b"P5 "]
            )
            + body
        )
    return rng.choice(METHODS), path + ("?" + "&".join(pairs) if pairs else ""), body


@pytest.mark.parametrize("name", ["vectors", "names", "kernel", "foreign", "empty", "photos"])
def test_no_request_makes_the_server_fail(asked, photo_client, name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    client = (photo_client if name == "photos" else asked(name)).client
    rng = random.Random(name)
    seen = set()
    for _ in range(-(-COUNT // 6)):
        method, target, body = random_request(rng)
        target = "".join(c if c.isprintable() and c not in ' "<>\\^`{|}' else "%20" for c in target)
        try:
            answer = client.request(method, target, content=body if method in ("POST", "PUT") else None)
        except ValueError:  # the client itself cannot say this
            continue
        seen.add(answer.status_code)
        assert answer.status_code < 500, (method, target, body[:40], answer.text)
        if (
            answer.headers.get("content-type", "").startswith("application/json")
            and answer.status_code >= 400
            and method != "HEAD"
        ):
            assert answer.json()["error"]
    assert {200, 400} <= seen
