"""A real browser before a real `bilsh view`: what it loads, says and moves is watched."""

import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

# Without these the browser itself looks for hosts that are not there.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
CHROMIUM = os.environ.get("BILSH_CHROMIUM", "/usr/bin/chromium")
AXE = Path(os.environ.get("BILSH_AXE", ""))
SHOTS = os.environ.get("BILSH_SHOTS")
PAGES = {"neighbours": "/?item=17&bits=256", "pair": "/pair?a=17&b=94", "bits": "/bits", "groups": "/groups",
         "meaning": "/meaning"}  # fmt: skip
LOOKS = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]
WATCH = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""
needs_browser = pytest.mark.skipif("BILSH_AXE" not in os.environ, reason="needs a browser: make test-browser")


@contextmanager
def viewed(path, *options):
    """Run `bilsh view` and give its address, with the token."""
    command = [sys.executable, "-m", "bilsh.cli", "view", str(path), "--no-browser", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            yield re.search(r"http\S+", running.stdout.readline()).group(0)
        finally:
            running.terminate()
            running.wait(30)


@contextmanager
def launched():
    """Start the browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """A tab on one address: its page, and everything it complained about or asked of others."""

    def __init__(self, browser, address, *, width=1280, scheme="light"):
        self.base = re.match(r"http://[^/]+", address).group(0)
        self.complaints, self.foreign = [], []
        self.context = browser.new_context(
            viewport={"width": width, "height": 900 if width > 600 else 844},
            color_scheme=scheme,
            accept_downloads=True,
        )
        self.context.add_init_script(WATCH)
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.page.on("console", lambda m: m.type in ("error", "warning") and self.complaints.append(m.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._seen)
        started = time.perf_counter()
        self.page.goto(address)
        self.settle()
        self.seconds = time.perf_counter() - started

    def _seen(self, request):
        if not request.url.startswith((self.base, "blob:", "data:")):
            self.foreign.append(request.url)

    def open(self, path):
        """Open a page of the same server and wait until it is all there."""
        self.page.goto(self.base + path)
        self.settle()

    def settle(self):
        """Wait until nothing is being loaded."""
        self.page.locator("header").wait_for()
        for busy in (".waiting", ".main.loading"):
            self.page.locator(busy).wait_for(state="detached", timeout=300_000)
        self.page.wait_for_load_state("networkidle")

    def text(self, selector):
        return self.page.locator(selector).first.inner_text()

    def params(self):
        return dict(re.findall(r"[?&]([^=]+)=([^&]*)", self.page.url))

    def table(self, title):
        """Open the table of that title and give its rows."""
        self.page.get_by_text(title).click()
        rows = self.page.locator("tbody tr")
        rows.first.wait_for()
        return rows

    def pictures(self):
        """Scroll past every picture and wait for it; give how many there are, and how many are broken."""
        return self.page.evaluate(
            """async () => {
              const broken = [];
              for (const image of document.images) {
                if (!image.complete) {
                  image.scrollIntoView();
                  await new Promise((done) => { image.onload = image.onerror = done; setTimeout(done, 20000); });
                }
                if (!image.naturalWidth) broken.push(image.src);
              }
              scrollTo(0, 0);
              return [document.images.length, broken];
            }"""
        )

    @property
    def overflow(self):
        """Pixels by which the page is wider than the window."""
        return self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )

    @property
    def shift(self):
        return self.page.evaluate("window.shifted")

    def violations(self):
        """What axe finds, in short."""
        self.page.evaluate(AXE.read_text("utf-8") + "\n;undefined")
        found = self.page.evaluate(
            "axe.run(document, { resultTypes: ['violations'] }).then((r) => r.violations)"
        )
        return [f"{v['id']}: {v['help']} {[n['target'] for n in v['nodes']][:3]}" for v in found]

    def check(self, *, shifts=True):
        """Nothing complained, nothing foreign, nothing too wide, nothing moved, nothing that axe objects to."""
        assert self.complaints == []
        assert self.foreign == []
        assert self.overflow <= 0, self.page.url
        if shifts:
            assert self.shift < 0.01, self.page.url
        found = self.violations()
        assert found == [], f"{self.page.url}: {found}"

    def close(self):
        self.context.close()


def look_at_all(browser, found, name, width, scheme):
    """Open every page in one look, check it, and keep its picture where BILSH_SHOTS says."""
    opened = Tab(browser, found, width=width, scheme=scheme)
    for page, path in PAGES.items():
        opened.open(path)
        assert opened.page.locator("h1").count() == 1
        opened.check()
        if SHOTS:
            Path(SHOTS).mkdir(parents=True, exist_ok=True)
            opened.pictures()
            opened.page.screenshot(path=f"{SHOTS}/{name}-{page}-{width}-{scheme}.png", full_page=width < 600)
    opened.close()
