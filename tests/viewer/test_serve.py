"""`bilsh view` as a user runs it: an address with a token, a page behind it, Ctrl-C."""

import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from importlib.resources import files

import pytest

from bilsh.errors import DataNotFoundError, InvalidInputError
from bilsh.viewer import serve as serving
from bilsh.viewer.serve import serve


def test_the_command_serves_and_ends(places):
    command = [sys.executable, "-m", "bilsh.cli", "view", str(places / "vectors"), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", running.stdout.readline()).group(0)
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
            assert b"main.js" in browser.open(address).read()
            base = address.partition("?")[0]
            assert b'"items":240' in browser.open(f"{base}api/v1/store").read()
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(f"{base}api/v1/store")  # noqa: S310
        finally:
            running.send_signal(signal.SIGINT)
            _, said = running.communicate(timeout=60)
    assert running.returncode == 0, said
    assert said == ""


def test_the_browser_is_opened_with_the_address(places, monkeypatch):
    opened, said = [], []

    class Timer:
        def __init__(self, delay, function, arguments):
            self.call = lambda: function(*arguments)

        def start(self):
            self.call()

    class Server:
        def __init__(self, config):
            self.config = config

        def run(self, sockets):
            raise KeyboardInterrupt

    monkeypatch.setattr(serving.threading, "Timer", Timer)
    monkeypatch.setattr(serving.webbrowser, "open", opened.append)
    monkeypatch.setattr("uvicorn.Server", Server)
    serve(places / "x.npy", say=said.append)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/bits\?token=\S+", opened[0])
    assert opened[0] in said[0]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org"])  # noqa: S104
def test_only_addresses_that_browsers_can_name(places, host):
    with pytest.raises(InvalidInputError, match="host must be"):
        serve(places / "vectors", host=host)


def test_a_port_in_use_is_named(places):
    with serving._listening("127.0.0.1", 0) as taken, pytest.raises(InvalidInputError, match="--port"):
        serve(places / "vectors", port=taken.getsockname()[1])


def test_nothing_there(tmp_path):
    with pytest.raises(DataNotFoundError, match="nothing at"):
        serve(tmp_path / "nothing")


def test_the_front_end_is_in_the_package_with_its_licences():
    static = files("bilsh.viewer") / "static"
    for name in (
        "index.html",
        "main.js",
        "style.css",
        "vendor/preact.js",
        "vendor/preact.LICENSE.txt",
        "vendor/htm.LICENSE.txt",
    ):
        assert (static / name).is_file()
    assert "http" not in (static / "index.html").read_text()


def test_assets_are_small():
    """60 kB compressed is the budget of everything that the page loads."""
    import gzip
    from pathlib import Path

    static = Path(str(files("bilsh.viewer"))) / "static"
    loaded = [path for path in static.rglob("*") if path.suffix in (".js", ".css", ".html", ".svg")]
    assert sum(len(gzip.compress(path.read_bytes())) for path in loaded) < 60_000


def test_the_demonstration_opens_its_store(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from bilsh.cli.commands import app

    opened = []
    monkeypatch.setattr(serving, "serve", lambda path, **settings: opened.append(path))
    done = CliRunner().invoke(app, ["demo", "--view", "-o", str(tmp_path / "demo")])
    assert done.exit_code == 0, done.output
    assert opened == [tmp_path / "demo" / "store"]


def test_without_the_extra_its_name_is_told(places, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ImportError, match=r"bilsh\[view\]"):
        serve(places / "vectors")
