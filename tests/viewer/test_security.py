"""Attacks on the page: clear answers, nothing written, nothing leaked, the process stays up."""

import io
import os
import pickle
import shutil
import struct
import zlib

import numpy as np
import pytest

import bilsh
from bilsh.viewer import guard
from viewer.conftest import HOST, ODD_IDS, PORT, TOKEN, Asked, clusters

PATHS = ["/", "/bits", "/static/main.js", "/api/v1/store", "/api/v1/neighbours?item=0", "/api/v1/thumb/0/160"]


def files_in(place):
    """Names, sizes and times of all files: what an attack must not change."""
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(place.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def stranger(asked):
    from starlette.testclient import TestClient

    return TestClient(asked("vectors").app, base_url=f"http://{HOST}:{PORT}", raise_server_exceptions=False)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", HOST, f"{HOST}:1", f"{HOST}:{PORT}.evil.example", ""]
)
def test_another_host_is_refused(asked, path, host):
    answer = asked("vectors").client.get(path, headers={"host": host})
    assert answer.status_code == 421
    assert "items" not in answer.text


def test_localhost_is_a_name_of_this_machine(asked):
    headers = {"host": f"localhost:{PORT}", "cookie": f"bilsh_{PORT}={TOKEN}"}
    assert asked("vectors").client.get("/api/v1/store", headers=headers).status_code == 200


@pytest.mark.parametrize("path", PATHS)
def test_without_the_token_there_is_nothing(stranger, path):
    answer = stranger.get(path)
    assert answer.status_code == 401
    assert "bilsh view" in answer.text
    assert stranger.get(path, headers={"cookie": f"bilsh_{PORT}=wrong"}).status_code == 401
    assert stranger.get(path, headers={"cookie": f"bilsh_{PORT + 1}={TOKEN}"}).status_code == 401
    wrong = stranger.get(path, params={"token": "wrong é"}, follow_redirects=False)
    assert wrong.status_code == 401
    assert "set-cookie" not in wrong.headers
    assert stranger.post("/api/v1/queries", content=b"x").status_code == 401


def test_the_token_becomes_a_cookie_and_leaves_the_address(stranger):
    answer = stranger.get(f"/?item=3&token={TOKEN}&bits=64", follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/?item=3&bits=64"
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith(f"bilsh_{PORT}=")
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example/", "/%2f%2fevil.example"])
def test_the_first_address_leads_nowhere_else(stranger, path):
    answer = stranger.get(f"http://{HOST}:{PORT}{path}?token={TOKEN}", follow_redirects=False)
    assert not answer.headers.get("location", "/x").startswith(("//", "/\\", "http"))


@pytest.mark.parametrize("headers", [
    {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"},
    {"origin": "http://evil.example"}, {"origin": "null"}, {"origin": f"http://{HOST}:1"},
])  # fmt: skip
def test_other_sites_are_refused(asked, headers):
    client = asked("vectors").client
    for path in PATHS:
        assert client.get(path, headers=headers).status_code == 403
    assert client.post("/api/v1/queries", content=b"x", headers=headers).status_code == 403


def test_the_page_itself_may_ask(asked):
    headers = {"sec-fetch-site": "same-origin", "origin": f"http://{HOST}:{PORT}"}
    assert asked("vectors").client.get("/api/v1/store", headers=headers).status_code == 200


@pytest.mark.parametrize("path", [*PATHS, "/nothing", "/api/v1/nothing"])
def test_every_answer_has_the_headers(asked, path):
    answer = asked("vectors").client.get(path)
    for name, value in guard.HEADERS.items():
        assert answer.headers[name] == value
    assert "unsafe" not in guard.POLICY
    assert "access-control-allow-origin" not in answer.headers
    assert "cache-control" in answer.headers


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "POST", "TRACE"])
@pytest.mark.parametrize("path", ["/", "/api/v1/store", "/api/v1/neighbours?item=0", "/static/main.js"])
def test_nothing_but_reading(asked, method, path):
    assert asked("vectors").client.request(method, path).status_code in (404, 405)


WAYS_OUT = ["../../etc/passwd", "..%2f..%2fetc%2fpasswd", "/etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "....//etc/passwd",
            "..\\..\\etc\\passwd", "%00", "file:///etc/passwd", "\\\\evil\\share"]  # fmt: skip


PLACES = ["/static/*", "/static/vendor/*", "/*", "/api/v1/thumb/*/160", "/api/v1/queries/*/thumb", "/api/v1/items?q=*",
          "/api/v1/neighbours?item=*", "/api/v1/neighbours?query=*", "/api/v1/neighbours?item=0&mode=*",
          "/api/v1/neighbours.csv?item=0&bits=*", "/api/v1/pair?a=*&b=0", "/api/v1/groups?min=*",
          "/api/v1/meaning?bits=*", "/api/v1/meaning?kernel=*"]  # fmt: skip


@pytest.mark.parametrize("way", WAYS_OUT)
def test_paths_lead_nowhere(asked, way):
    client = asked("vectors").client
    for pattern in PLACES:
        path = pattern.replace("*", way)
        answer = client.get(path)
        assert answer.status_code < 500, path
        assert "root:" not in answer.text
        if "items?" not in path:
            assert answer.status_code in (400, 404), path


def test_ids_that_are_paths_show_no_file_outside_the_folder(places, photos, tmp_path):
    secret = tmp_path / "secret.png"
    shutil.copy(photos / "in" / "photo 00.png", secret)
    folder = tmp_path / "folder"
    folder.mkdir()
    os.symlink(secret, folder / "link.png")
    names = ["../secret.png", str(secret), "link.png", "a\0b.png", "x" * 1000 + ".png", "."]
    encoder = bilsh.AngleEncoder(n_bits=64, random_state=0).fit(clusters(50))
    with bilsh.Store.create(tmp_path / "store", encoder) as store:
        store.add(clusters(len(names)), ids=names)
    client = Asked(tmp_path / "store", folder)
    for row in range(len(names)):
        assert client.client.get(f"/api/v1/thumb/{row}/160").status_code == 404


def test_names_and_notes_never_become_markup(asked):
    client = asked("names").client
    answer = client.get("/api/v1/neighbours?item=0&k=100")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["query"]["id"] == ODD_IDS[0]
    page = client.get("/").text
    assert "alert(1)" not in page


def png(width, height, rows=b""):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def npy(array, **settings):
    buffer = io.BytesIO()
    np.save(buffer, array, **settings)
    return buffer.getvalue()


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("bilsh-was-here",)


HEADER = (
    b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000), }".ljust(
        127
    )
    + b"\n"
)
UPLOADS = {
    "empty": b"",
    "text": b"hello",
    "html": b"<script>alert(1)</script>",
    "huge picture": png(100_000, 100_000),
    "picture beyond 50 million pixels": png(10_000, 10_000),
    "no pixels": png(0, 0),
    "cut picture": png(64, 64)[:40],
    "picture without its rows": png(64, 64),
    "jpeg of nothing": b"\xff\xd8\xff",
    "webp of nothing": b"RIFF\x00\x00\x00\x00WEBPVP8X",
    "tiff that points at itself": b"II*\x00\x08\x00\x00\x00\xff\xff",
    "npy header only": b"\x93NUMPY",
    "npy of a future version": b"\x93NUMPY\x09\x00" + b"\x00" * 100,
    "npy that claims a terabyte": HEADER + b"\x00" * 100,
    "npy header of evil text": b"\x93NUMPY\x01\x00\x10\x00__import__('os')",
    "pickled npy": npy(np.array([Bomb()], dtype=object), allow_pickle=True),
    "bare pickle": pickle.dumps(Bomb()),
    "text npy": npy(np.array(["a", "b"])),
    "records": npy(np.zeros(3, dtype=[("a", "f4")])),
    "wrong shape": npy(np.zeros((3, 7), dtype=np.float32)),
    "no rows": npy(np.zeros((0, 6, 5), dtype=np.float32)),
    "not finite": npy(np.full((12, 12), np.nan, dtype=np.float32)),
    "complex": npy(np.zeros((6, 5), dtype=np.complex64)),
    "cut npy": npy(np.zeros((6, 5), dtype=np.float32))[:-4],
    "zip": b"PK\x03\x04" + b"\x00" * 50,
}


@pytest.mark.parametrize("name", UPLOADS)
def test_bad_uploads_are_told_in_a_sentence(asked, photo_client, photos, places, name):
    before = files_in(photos) | files_in(places)
    for client in (asked("vectors"), photo_client, asked("foreign"), asked("names")):
        answer = client.client.post(f"/api/v1/queries?name={name}", content=UPLOADS[name])
        assert answer.status_code == 400, answer.text
        assert len(answer.json()["error"]) > 20
        assert client.json("/store")["items"] > 0
    assert not os.path.exists("bilsh-was-here")
    assert files_in(photos) | files_in(places) == before


def test_large_uploads_are_cut_off(asked):
    client = asked("vectors").client
    assert client.post("/api/v1/queries", content=b"x" * 20_000_001).status_code == 413

    def endless():
        for _ in range(30):
            yield b"x" * 1_000_000

    assert client.post("/api/v1/queries", content=endless()).status_code == 413
    lie = {"content-length": "9" * 30}
    assert client.post("/api/v1/queries", content=b"x", headers=lie).status_code == 413


def test_long_addresses_are_cut_off(asked):
    assert asked("vectors").client.get("/api/v1/items?q=" + "x" * 5000).status_code == 414
    assert "at most 200" in asked("vectors").json("/items?q=" + "x" * 300, 400)["error"]


def copy_of(places, tmp_path):
    shutil.copytree(places / "vectors", tmp_path / "store")
    return tmp_path / "store"


def test_a_store_that_is_compacted_while_it_is_viewed(places, tmp_path):
    store = copy_of(places, tmp_path)
    client = Asked(store)
    before = client.json("/neighbours?item=5")["ladder"][-1]["neighbors"]
    with bilsh.Store.open(store, "a") as writer:
        writer.delete(range(100, 200))
        writer.compact()
        writer.add(clusters(3, seed=1))
    assert "has changed since" in client.json("/store")["news"]
    assert client.json("/neighbours?item=5")["ladder"][-1]["neighbors"] == before
    assert client.get("/thumb/150/160").content


@pytest.mark.parametrize("harm", ["cut", "scribble", "remove", "replace by a file"])
def test_a_store_that_is_harmed_while_it_is_viewed(places, tmp_path, harm):
    store = copy_of(places, tmp_path)
    client = Asked(store)
    before = client.json("/neighbours?item=5")["ladder"][-1]["neighbors"]
    if harm.startswith("re"):
        shutil.rmtree(store)
        if harm != "remove":
            store.write_text("not a store")
    else:
        for file in store.iterdir():
            data = file.read_bytes()
            file.write_bytes(data[: len(data) // 2] if harm == "cut" else bytes(len(data)))
    news = client.json("/store")["news"]
    assert "cannot be read any more" in news
    assert str(tmp_path) not in news
    assert client.json("/neighbours?item=5")["ladder"][-1]["neighbors"] == before
    assert client.json("/neighbours?item=9&mode=asymmetric")["ladder"]
    assert client.get("/thumb/9/160").content


def test_a_damaged_store_is_named_at_the_start(places, tmp_path):
    from bilsh.viewer.session import Session

    store = copy_of(places, tmp_path)
    segment = next(store.glob("s-*"))
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    with pytest.raises(bilsh.CorruptStoreError):
        Session(store)


def test_photographs_that_vanish_become_heat_maps(photos, tmp_path):
    folder = tmp_path / "in"
    shutil.copytree(photos / "in", folder)
    client = Asked(photos / "store", folder)
    shutil.rmtree(folder)
    assert client.get("/thumb/2/160").headers["content-type"] == "image/webp"
    (tmp_path / "in").mkdir()
    (folder / "photo 03.png").write_bytes(png(100_000, 100_000))
    assert client.get("/thumb/3/160").headers["content-type"] == "image/webp"


def test_a_function_of_the_stores_is_not_run(photos, tmp_path):
    """A store that came from elsewhere shall not say what runs here."""
    from dataclasses import replace

    from bilsh.store.recipe import read_recipe, write_recipe

    shutil.copytree(photos / "store", tmp_path / "store")
    recipe = read_recipe(tmp_path / "store")
    write_recipe(tmp_path / "store", replace(recipe, settings=replace(recipe.settings, describe="os:system")))
    client = Asked(tmp_path / "store")
    data = (photos / "in" / "photo 00.png").read_bytes()
    answer = client.client.post("/api/v1/queries", content=data)
    assert answer.status_code == 400
    assert "os:system" in answer.json()["error"]


def test_nothing_is_written(asked, places, photos, photo_client):
    before = files_in(places) | files_in(photos)
    for name in ("vectors", "names", "kernel", "foreign", "empty"):
        for path in (
            "/store",
            "/neighbours?item=1",
            "/pair?a=0&b=1",
            "/meaning",
            "/items?q=1",
            "/thumb/0/640",
        ):
            asked(name).client.get(f"/api/v1{path}")
    photo_client.client.get("/api/v1/neighbours?item=1")
    assert files_in(places) | files_in(photos) == before
